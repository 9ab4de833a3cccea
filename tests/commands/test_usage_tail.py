"""A line for every call as it ends, none twice, none missed."""

import asyncio

import msgspec
import pytest
from msgspec.structs import replace

from gateway.client.control import ControlClient
from gateway.commands import usage_tail
from gateway.commands.exit_codes import Exit
from gateway.commands.output import row_line
from gateway.commands.usage_tail import COLUMNS, EventFeed
from gateway.domain.errors import Unavailable
from gateway.domain.events import CallSettled, Heartbeat, Snapshot
from gateway.domain.views import CallView
from gateway.runfile import Endpoint
from tests.client.scripted import talking
from tests.commands.runner import Control, run
from tests.commands.samples import ACCOUNT, CALL, HOSTILE, NOW, STATUS


def call(number: int) -> CallView:
    return replace(CALL, id=f"req_{number}")


def snapshot(*recent: CallView) -> Snapshot:
    return Snapshot(
        status=STATUS, account=ACCOUNT, tokens=[], groups=[], channels=[], models=[], running=[], recent=[*recent]
    )


def ids(calls: list[CallView]) -> list[str]:
    return [one.id for one in calls]


def test_it_begins_with_some_earlier_calls_oldest_first() -> None:
    assert ids(EventFeed(2).calls_in(snapshot(call(3), call(2), call(1)))) == ["req_2", "req_3"]
    assert EventFeed(0).calls_in(snapshot(call(1))) == []


def test_calls_follow_as_they_end() -> None:
    feed = EventFeed(0)
    feed.calls_in(snapshot(call(5)))
    assert ids(feed.calls_in(CallSettled(call=call(4)))) == ["req_4"]
    assert feed.calls_in(Heartbeat(time_ms=NOW)) == []


def test_after_falling_behind_nothing_is_shown_twice() -> None:
    feed = EventFeed(0)
    feed.calls_in(snapshot(call(1)))
    feed.calls_in(CallSettled(call=call(2)))
    assert ids(feed.calls_in(snapshot(call(4), call(3), call(2), call(1)))) == ["req_3", "req_4"]


def test_only_a_snapshot_that_meets_nothing_shown_means_a_gap() -> None:
    feed = EventFeed(0)
    first, met, gap = snapshot(call(1)), snapshot(call(3), call(2), call(1)), replace(snapshot(call(9)), older=8)
    assert not feed.has_gap(first)
    feed.calls_in(first)
    assert (feed.has_gap(met), feed.has_gap(gap)) == (False, True)


async def test_a_reader_that_was_abandoned_asks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_tail, "RECONNECT_S", 0)
    beat = msgspec.json.encode(Heartbeat(time_ms=NOW))
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    tries = iter([beat, beat, b""])

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        line = next(tries)
        writer.write(head + (b"%x\r\n%s\n\r\n" % (len(line) + 1, line) if line else b""))

    async with talking(talk) as place:
        client = ControlClient(Endpoint(instance="i", secret="s", port=place.port))
        heard = []
        with pytest.raises(Unavailable, match="is gone"):
            heard += [event async for event in usage_tail._events(client, {})]  # noqa: SLF001 - its patience is what is tested
    assert next(tries, None) is None


def test_memory_is_bounded() -> None:
    feed = EventFeed(0)
    for number in range(5_000):
        feed.calls_in(CallSettled(call=call(number)))
    assert len(feed._seen) == 2_000  # noqa: SLF001 - its bound is what is tested


def line_of(call: CallView, width: int | None = None) -> str:
    return row_line(call, COLUMNS, call.error, width)


def test_a_line_names_the_fallback_and_how_many_calls_it_stands_for() -> None:
    many = replace(CALL, marks=["repeated=4"], attempts=[replace(CALL.attempts[-1], model="spare")])
    assert f"  {CALL.model} as spare x5  " in line_of(many)


def test_a_line_has_no_control_characters() -> None:
    assert line_of(replace(CALL, model=HOSTILE, error=HOSTILE)).isprintable()


@pytest.mark.parametrize("width", [80, 110, 160, 400])
def test_on_a_terminal_a_line_fits_and_an_error_that_does_not_has_its_own(width: int) -> None:
    long = replace(CALL, model="m" * 40, token="t" * 20, cost_nanos=12_345, error="")
    failed = replace(long, error="the upstream is overloaded, and this goes on and on " * 3)
    (line,), lines = line_of(long, width).splitlines(), line_of(failed, width).splitlines()
    assert line.rstrip().endswith("1.25s")
    assert max(map(len, (line, *lines))) <= width
    assert (len(lines), "the upstream is overloaded" in lines[-1]) == (1 if width > 150 else 2, True)


def test_it_needs_a_running_server() -> None:
    assert run("usage", "tail", control=Control({}, running=False)).code == Exit.UNREACHABLE
