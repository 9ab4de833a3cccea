"""Deadlines expire once each, in time, and never after they were struck out."""

import asyncio

import pytest

from gateway.upstream.http.reply import Deadlines

TICK_S = 0.02


class Clerk:
    """Deadlines, and which of them expired."""

    def __init__(self) -> None:
        self.expired: list[tuple[str, float]] = []
        self.deadlines = Deadlines[str](asyncio.get_running_loop(), lambda item, s: self.expired.append((item, s)))


async def test_what_is_not_struck_out_expires_with_its_seconds() -> None:
    clerk = Clerk()
    clerk.deadlines.note("kept", TICK_S)
    clerk.deadlines.note("met", TICK_S)
    clerk.deadlines.strike("met")
    await asyncio.sleep(3 * TICK_S)
    assert clerk.expired == [("kept", TICK_S)]


async def test_a_sooner_one_goes_first_and_the_later_one_still_goes() -> None:
    clerk = Clerk()
    clerk.deadlines.note("late", 4 * TICK_S)
    clerk.deadlines.note("soon", TICK_S)
    await asyncio.sleep(2 * TICK_S)
    assert clerk.expired == [("soon", TICK_S)]
    await asyncio.sleep(4 * TICK_S)
    assert clerk.expired == [("soon", TICK_S), ("late", 4 * TICK_S)]


async def test_nothing_is_left_to_wake_up_for_when_all_are_struck_out(monkeypatch: pytest.MonkeyPatch) -> None:
    clerk = Clerk()
    clerk.deadlines.note("met", TICK_S)
    clerk.deadlines.strike("met")
    await asyncio.sleep(2 * TICK_S)
    monkeypatch.setattr(clerk.deadlines, "_look", lambda: clerk.expired.append(("woken", 0.0)))
    await asyncio.sleep(2 * TICK_S)
    assert clerk.expired == []


async def test_one_that_is_noted_after_the_timer_rested_expires_too() -> None:
    clerk = Clerk()
    for item in ("first", "second"):
        clerk.deadlines.note(item, TICK_S)
        await asyncio.sleep(2 * TICK_S)
    assert [item for item, _ in clerk.expired] == ["first", "second"]


async def test_nothing_expires_after_the_close() -> None:
    clerk = Clerk()
    clerk.deadlines.note("kept", TICK_S)
    clerk.deadlines.close()
    await asyncio.sleep(2 * TICK_S)
    assert clerk.expired == []
