"""An answer gives its bytes in order, tells when it is full, and what waits for it always gets something."""

import asyncio

import pytest

from gateway.upstream.http.errors import ConnectionBroken
from gateway.upstream.http.parser import HIGH_WATER, WireAnswer


class _Line:
    def __init__(self) -> None:
        self.told: list[str] = []

    def go_on(self) -> None:
        self.told.append("go on")

    def abort(self) -> None:
        self.told.append("abort")


@pytest.fixture
def line() -> _Line:
    return _Line()


@pytest.fixture
def answer(line: _Line) -> WireAnswer:
    return WireAnswer(line)


async def test_who_waits_for_the_head_gets_it(answer: WireAnswer) -> None:
    asyncio.get_running_loop().call_soon(answer.take_head, 200, {"a": "b"})
    await answer.head()
    assert (answer.status, answer.headers) == (200, {"a": "b"})


async def test_pieces_that_have_come_are_given_together(answer: WireAnswer) -> None:
    answer.take(b"a")
    answer.take(b"b")
    assert await answer.receive() == b"ab"


async def test_an_answer_is_full_until_it_is_read(answer: WireAnswer, line: _Line) -> None:
    seen = []
    for data in (b"x" * HIGH_WATER, b"x"):
        answer.take(data)
        seen.append(answer.full)
    await answer.receive()
    assert ([*seen, answer.full], line.told) == ([False, True, False], ["go on"])


async def test_what_came_before_a_break_is_given_before_the_error(answer: WireAnswer) -> None:
    answer.take(b"a")
    answer.lose(ConnectionBroken("cut"))
    assert await answer.receive() == b"a"
    with pytest.raises(ConnectionBroken, match="cut"):
        await answer.receive()


async def test_the_first_error_is_the_one_that_is_told(answer: WireAnswer, line: _Line) -> None:
    answer.fail(TimeoutError("late"))
    answer.lose(ConnectionBroken("cut"))
    with pytest.raises(TimeoutError, match="late"):
        await answer.head()
    assert line.told == ["abort"]


async def test_a_failure_wakes_who_waits(answer: WireAnswer) -> None:
    asyncio.get_running_loop().call_soon(answer.fail, TimeoutError("late"))
    with pytest.raises(TimeoutError, match="late"):
        await answer.head()


async def test_after_the_end_the_connection_is_left_alone(answer: WireAnswer, line: _Line) -> None:
    answer.take(b"a")
    answer.finish()
    answer.abort()
    answer.fail(TimeoutError())
    answer.drop(1)
    assert (await answer.receive(), await answer.receive(), line.told) == (b"a", b"", [])


async def test_a_dropped_answer_keeps_nothing(answer: WireAnswer, line: _Line) -> None:
    answer.take(b"x" * 2 * HIGH_WATER)
    answer.drop(60)
    answer.take(b"x" * 2 * HIGH_WATER)
    assert (answer.full, line.told) == (False, ["go on"])
    answer.finish()


async def test_a_dropped_answer_that_does_not_end_is_aborted(answer: WireAnswer, line: _Line) -> None:
    answer.drop(0)
    await asyncio.sleep(0.01)
    assert line.told == ["go on", "abort"]
