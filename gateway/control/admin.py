"""The server itself: its status, stopping it, proving its books, taking the last change back."""

import asyncio

import msgspec
from aiohttp import web

from gateway.control.desk import Desk
from gateway.control.inputs import fields
from gateway.domain.views import Status, Verdict
from gateway.store.verify import check, take


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """How to stop."""

    now: bool = False
    """Do not wait for running calls."""


async def status(desk: Desk, _: web.Request) -> Status:
    """GET /status."""
    return desk.engine.status()


async def stop(desk: Desk, request: web.Request) -> dict[str, str]:
    """POST /stop {now}: answers at once; the server drains and goes away."""
    asked = Asked(**fields(await request.read(), Asked, ("now",)))
    desk.engine.stop_asked(asked.now)
    return {"done": "stopping now" if asked.now else "stopping when the running calls have ended"}


async def verified(desk: Desk, _: web.Request) -> Verdict:
    """GET /verify: every balance and sum, recomputed from the call log."""
    return await asyncio.to_thread(check, take(desk.engine.store))


async def undo(desk: Desk, _: web.Request) -> dict[str, str]:
    """POST /undo."""
    return {"undone": desk.undo()}
