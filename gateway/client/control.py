"""Control: the one client of the control surface, with a method a route. Console and commands both use it."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from gateway.client.caller import error_of, segment
from gateway.client.http import exchange
from gateway.client.nouns import (
    AccountRequests,
    ChannelRequests,
    GroupRequests,
    PriceRequests,
    TokenRequests,
    UpstreamRequests,
)
from gateway.domain.errors import InternalError
from gateway.domain.events import AnyEvent
from gateway.domain.views import CallPage, CallView, Status, Step, Summary, Verdict

VERIFY_S = 600.0
"""Recomputing millions of calls takes its time."""


class ControlClient(AccountRequests, TokenRequests, GroupRequests, ChannelRequests, PriceRequests, UpstreamRequests):
    """Every method raises what the server refused it with, and Unavailable if the server is gone."""

    async def status(self) -> Status:
        return await self.get("/status", Status)

    async def stop(self, *, now: bool = False) -> None:
        """Answers at once; the server drains first unless ``now``."""
        await self.send("POST", "/stop", {"now": now})

    async def events(self, recent: int = 200) -> AsyncGenerator[AnyEvent, None]:
        """A snapshot with so many recent calls, then what happens, until the server ends. Raises Unavailable."""
        decoder = msgspec.json.Decoder(AnyEvent)
        async with exchange(self.place, self.ask("GET", f"/events?recent={recent}")) as stream:
            if stream.status != 200:
                raise error_of(stream.status, await stream.read())
            async with aclosing(stream.lines()) as lines:
                async for line in lines:
                    try:
                        event: AnyEvent = decoder.decode(line)
                    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
                        raise InternalError(f"an event makes no sense here ({exc})", code="version_mismatch") from exc
                    yield event

    async def calls(self, **filters: object) -> CallPage:
        """Newest first. Filters: since, until (ms), token, group, model, channel, app, status, failed, outcome, words.

        Running calls come first unless ``before`` pages on; that is the cursor of the page before, or a call's id. A
        page may have less than ``limit`` calls although there is more: it is the last one if it has no cursor.
        """
        return await self.get("/calls", CallPage, **filters)

    async def numbered_calls(self, at: int, limit: int) -> list[CallView]:
        """The ended calls numbered ``at`` and below; the oldest kept is number 1, the newest ``status.records``."""
        return await self.get("/records", list[CallView], at=at, limit=limit)

    async def call(self, call_id: str) -> CallView:
        return await self.get(f"/calls/{segment(call_id)}", CallView)

    async def cancel(self, call_id: str) -> None:
        """End a running call. Raises NotFound if it does not run."""
        await self.send("POST", f"/calls/{segment(call_id)}/cancel")

    async def summary(self, *, by: str = "", since: int = 0, until: int | None = None, step: str = "") -> Summary:
        """Sums by ``token``, ``model``, ``channel``, ``group`` or ``app``; over time with ``step`` hour or day."""
        return await self.get("/usage", Summary, by=by, since=since, until=until, step=step)

    async def verify(self) -> Verdict:
        """Recompute every balance and sum from the call log."""
        return self.read(await self.send("GET", "/verify", timeout_s=VERIFY_S), Verdict)

    async def machine(self) -> list[Step]:
        """What the server's machine lacks: port, folder, room."""
        return await self.get("/machine", list[Step])

    async def undo(self) -> str:
        """Take the newest change back; says which it was. Raises Conflict if there is none."""
        answer: dict[str, str] = await self.post("/undo", dict[str, str])
        return answer["undone"]
