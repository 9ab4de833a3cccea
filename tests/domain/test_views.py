"""What front ends and scripts read."""

import msgspec
import pytest

from gateway.domain.call import Attempt, Outcome, Record, Running
from gateway.domain.config_views import Difference, ExportView, FieldDifference, ImportView
from gateway.domain.diagnosis import LimitView, Obstacle, PartyView, RouteView, Why
from gateway.domain.events import AnyEvent, CallProgress, CallSettled, CallStarted, Heartbeat, Stopping
from gateway.domain.units import CallId, Millis, Nanos
from gateway.domain.upstream_views import ListingView, PresetView
from gateway.domain.usage import UsageSource
from gateway.domain.views import call_view, iso

RECORD = Record(
    id=CallId("req_1"),
    ts=Millis(1_795_213_865_120),
    token="tok_1",
    token_name="laptop",
    group="home",
    model="m",
    channel="ch_1",
    channel_name="up",
    status=200,
    outcome=Outcome.DONE,
    finish="stop",
    ms=Millis(1500),
    ttft=Millis(250),
    overhead=321,
    input=10,
    output=7,
    source=UsageSource.REPORTED,
    cost=Nanos(123),
    attempts=(Attempt(channel="up", status=200),),
    marks=("no_done",),
)


def test_a_record_is_shown_by_names_and_units() -> None:
    view = call_view(RECORD)
    assert (view.state, view.time, view.time_ms) == ("settled", "2026-11-20T22:31:05.120Z", RECORD.ts)
    assert (view.token, view.token_id, view.channel, view.group) == ("laptop", "tok_1", "up", "home")
    assert (view.duration_ms, view.first_byte_ms, view.overhead_us) == (1500, 250, 321)
    assert (view.input_tokens, view.output_tokens, view.usage_source, view.cost_nanos) == (10, 7, "reported", 123)
    assert (view.finish_reason, view.outcome, view.marks) == ("stop", "done", ["no_done"])


def test_every_key_is_always_there() -> None:
    """Front ends and scripts may count on it."""
    call = call_view(Record(id=CallId("req_1"), ts=Millis(0)))
    listing = ListingView(channel="up", patterns=[], time_ms=None, stale=False, error="", models=[])
    for view in (call, listing, PresetView(name="x", dialect="openai", base_url="", key_variable="", local=True)):
        assert set(msgspec.to_builtins(view)) == set(view.__struct_fields__)
    for kind in (LimitView, PartyView, RouteView, Obstacle, Why, ExportView, ImportView, Difference, FieldDifference):
        assert not kind.__struct_config__.omit_defaults


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "1970-01-01T00:00:00.000Z"), (1, "1970-01-01T00:00:00.001Z"), (4_102_444_799_999, "2099-12-31T23:59:59.999Z")],
)
def test_moments_are_reported_in_utc(ms: int, text: str) -> None:
    assert iso(Millis(ms)) == text


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
