"""Names are looked up beside the loop, within a deadline, and a stuck one holds up its own channel only."""

import asyncio
import socket
import threading
from typing import Any

import pytest

from gateway.upstream.http import dial
from gateway.upstream.http.dial import STUCK_LIMIT, NameLookups


async def test_a_name_is_found() -> None:
    found = await NameLookups().look_up("localhost", 80, socket.AF_INET)
    assert ("127.0.0.1", 80) in [(host, port) for _, _, host, port in found]


@pytest.mark.parametrize("name", ["no-such-host.invalid", "bad..name", "x" * 300])
async def test_a_name_that_is_none_is_an_error(name: str) -> None:
    with pytest.raises(OSError, match=r"."):
        await NameLookups().look_up(name, 80, socket.AF_INET)


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Look-ups that hang until they are let go."""
    let_go = threading.Event()

    def hang(*_args: object, **_kwargs: object) -> list[Any]:
        let_go.wait(20)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    monkeypatch.setattr(dial, "LOOK_UP_S", 0.05)
    yield let_go
    let_go.set()


async def test_a_stuck_look_up_is_given_up(stuck: threading.Event) -> None:
    with pytest.raises(OSError, match="not found within"):
        await NameLookups().look_up("slow.test", 80, socket.AF_INET)


async def test_only_so_many_may_be_stuck_in_one_channel(stuck: threading.Event) -> None:
    mine = NameLookups()
    for _ in range(STUCK_LIMIT):
        with pytest.raises(OSError, match="not found within"):
            await mine.look_up("slow.test", 80, socket.AF_INET)
    with pytest.raises(OSError, match="stuck already"):
        await mine.look_up("slow.test", 80, socket.AF_INET)
    with pytest.raises(OSError, match="not found within"):
        await NameLookups().look_up("slow.test", 80, socket.AF_INET)


async def test_many_who_ask_for_one_name_share_a_look_up(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def find(*args: object, **_kwargs: object) -> list[Any]:
        asked.append(args)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", find)
    mine = NameLookups()
    await asyncio.gather(*(mine.look_up("busy.test", 80, socket.AF_INET) for _ in range(3 * STUCK_LIMIT)))
    assert len(asked) == 1


async def test_who_leaves_takes_the_look_up_from_nobody(stuck: threading.Event) -> None:
    mine = NameLookups()
    loop = asyncio.get_running_loop()
    first, second = (loop.create_task(mine.look_up("busy.test", 80, socket.AF_INET)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    stuck.set()
    assert await second == []


async def test_a_thread_that_comes_back_makes_room(stuck: threading.Event) -> None:
    mine = NameLookups()
    for _ in range(STUCK_LIMIT):
        with pytest.raises(OSError, match="not found within"):
            await mine.look_up("slow.test", 80, socket.AF_INET)
    stuck.set()
    async with asyncio.timeout(5):
        while mine._running:  # noqa: ASYNC110, SLF001 - threads tell nobody
            await asyncio.sleep(0.005)
    assert await mine.look_up("slow.test", 80, socket.AF_INET) == []
