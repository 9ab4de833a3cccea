"""Events go to watchers as lines of JSON that tell their type."""

import msgspec
import pytest

from gateway.domain.call import Record, Running
from gateway.domain.events import AnyEvent, CallProgress, CallSettled, CallStarted, Heartbeat, Stopping
from gateway.domain.units import CallId, Millis
from gateway.domain.views import call_view

RUNNING = Running(id=CallId("req_1"), ts=Millis(5))
EVENTS: list[tuple[AnyEvent, bytes]] = [
    (CallStarted(call=RUNNING), b"started"),
    (CallProgress(call=RUNNING), b"progress"),
    (CallSettled(call=call_view(Record(id=CallId("req_1"), ts=Millis(5)))), b"settled"),
    (Heartbeat(time_ms=Millis(9)), b"beat"),
    (Stopping(until_ms=Millis(9), running=[CallId("req_1")]), b"stopping"),
]


@pytest.mark.parametrize(("event", "tag"), EVENTS)
def test_an_event_comes_back_as_it_was(event: AnyEvent, tag: bytes) -> None:
    line = msgspec.json.encode(event)
    assert line.startswith(b'{"type":"%b",' % tag)
    assert b"\n" not in line
    assert msgspec.json.decode(line, type=AnyEvent) == event
