"""Whichever await of a call breaks, it is settled once, and every nano-dollar is where it belongs (case K16)."""

import asyncio
from collections.abc import Coroutine, Generator
from functools import partial
from types import coroutine
from typing import Any

import pytest

from gateway.domain.call import Outcome
from gateway.domain.errors import GatewayError, InternalError
from gateway.domain.settings import Durability, Settings
from tests.core.ends import GOOD_STREAM, Answered, FakeClient, FakeReply, error_body, says, whole
from tests.core.rig import Rig


class Torn(BaseException):
    """Something no one expects, in the middle of an await."""


@coroutine
def broken(
    work: Coroutine[Any, Any, Answered], n: int, how: type[BaseException]
) -> Generator[Any, Any, Answered | None]:
    """Await some work, but throw into it where it waits for the n-th time; None if it ended before."""
    step, go_on = 0, partial(work.send, None)
    while True:
        try:
            waited_for = go_on()
        except StopIteration as end:
            answer: Answered = end.value
            return answer if step >= n else None
        step += 1
        if step == n:
            go_on = partial(work.throw, how())
            continue
        try:
            yield waited_for
        except BaseException as error:  # noqa: BLE001 - passed on
            go_on = partial(work.throw, error)
        else:
            go_on = partial(work.send, None)


def plain(rig: Rig) -> dict[str, Any]:
    rig.upstreams.on("up", lambda: FakeReply(whole()))
    return {}


def stream(rig: Rig) -> dict[str, Any]:
    rig.upstreams.on("up", lambda: FakeReply(*GOOD_STREAM))
    return {"stream": True}


def second_channel(rig: Rig) -> dict[str, Any]:
    rig.channel("other", priority=-1)
    rig.upstreams.on("up", lambda: FakeReply(error_body("slow down"), status=429, headers={"retry-after": "0"}))
    rig.upstreams.on("other", lambda: FakeReply(*GOOD_STREAM))
    return {"stream": True}


def durable(rig: Rig) -> dict[str, Any]:
    rig.put("settings", "", Settings(durability=Durability.CALL))
    rig.books.wait_until_synced = partial(asyncio.sleep, 0)  # type: ignore[method-assign]
    return stream(rig)


def cut(rig: Rig) -> dict[str, Any]:
    rig.upstreams.on("up", lambda: FakeReply(says("Hello")))
    return {"stream": True}


@pytest.mark.parametrize(
    ("scene", "awaits", "ending"),
    [
        (plain, 2, Outcome.DONE),
        (stream, 9, Outcome.DONE),
        (second_channel, 11, Outcome.DONE),
        (durable, 10, Outcome.DONE),
        (cut, 4, Outcome.UPSTREAM_CUT),
    ],
)
@pytest.mark.parametrize("how", [asyncio.CancelledError, Torn, ConnectionResetError, RuntimeError])
async def test_whichever_await_breaks_the_call_is_settled_once(
    rig: Rig, scene: Any, awaits: int, ending: Outcome, how: type[BaseException]
) -> None:
    """One call for each await of its way; the books are checked after each."""
    rig.channel()
    fields = scene(rig)
    for n in range(1, 100):
        rig.client = FakeClient()
        rig.health.clear(rig.channel().id)
        ended = await _end_of(rig, n, how, fields)
        rig.check()
        assert len(rig.records) == n
        if ended is None:
            break
        assert how is not RuntimeError or isinstance(ended, InternalError | RuntimeError)
    assert n > awaits
    assert rig.records[-1].outcome is ending


async def _end_of(rig: Rig, n: int, how: type[BaseException], fields: dict[str, Any]) -> object:
    """What the client gets if the n-th await breaks; None if there were fewer.

    A bug comes out as it is only where the client was just being told of another error.
    """
    try:
        answer = await broken(rig.call(**fields), n, how)
    except (GatewayError, ConnectionError, asyncio.CancelledError, Torn, RuntimeError) as error:
        return error
    return answer and (rig.client.error or answer)
