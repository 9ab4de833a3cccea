from collections.abc import AsyncGenerator

import pytest
from msgspec.structs import replace

from gateway.domain.events import AnyEvent, CallSettled, Stopping, StoreChanged
from tests.tui.stage import NOW, FakeClient, FakeLink, call, calls, status
from tui.plain_mode import call_line, console_line, follow


class Ending(FakeClient):
    async def events(self, recent: int = 200) -> AsyncGenerator[AnyEvent, None]:
        yield self.snapshot()
        yield CallSettled(seq=1, call=call(9, NOW))


async def test_every_call_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    await follow(FakeLink(Ending(calls(3), recent=2)))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "serving http://127.0.0.1:8655/v1, 2 calls running"
    assert lines[1] == "available $11.92"
    assert [line.rsplit(" ", 1)[1] for line in lines[2:]] == [one.id for one in [*calls(3)[1::-1], call(9, NOW)]]


def test_a_line_says_everything_in_words() -> None:
    line = call_line(call(3, status=200, model="m", channel="c", token="t", duration_ms=1_500))
    assert line.startswith("14:13:20 + 200 m at c, token t, 1.50s, ")


def test_a_line_is_one_line_whatever_is_in_it() -> None:
    line = call_line(call(3, model="m\x1b[2J\nx"))
    assert "\x1b" not in line
    assert "\n" not in line


def test_a_stopping_server_says_so() -> None:
    assert list(console_line(Stopping(seq=1, until_ms=NOW, running=[]))) == ["the server is stopping"]


def test_a_store_that_fails_says_so_and_when_it_works_again() -> None:
    assert list(console_line(StoreChanged(seq=1, status=status(0, store_error="the disk is full")))) == [
        "the store failed, and calls are rejected: the disk is full"
    ]
    assert list(console_line(StoreChanged(seq=2, status=status(0)))) == ["the store works again"]


def test_a_store_that_has_failed_before_is_reported_at_the_start() -> None:
    snapshot = replace(FakeClient(calls(0)).snapshot(), status=status(0, store_error="the disk is full"))
    assert "the store failed, and calls are rejected: the disk is full" in list(console_line(snapshot))
