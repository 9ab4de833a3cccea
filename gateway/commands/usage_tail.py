"""``usage tail``: prints a line for every call as it ends."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any

import click

from gateway.client.control import ControlClient
from gateway.client.launch import find
from gateway.commands import formatting
from gateway.commands.base import Command
from gateway.commands.call_filters import CallFilters, call_filters, filter_options
from gateway.commands.exit_codes import Exit, Quit
from gateway.commands.options import WholeNumber
from gateway.commands.output import ListColumn, json_line, notify, out, row_line, terminal_width, wants_json
from gateway.commands.session import run
from gateway.config import Config
from gateway.domain.errors import GatewayError, Unavailable
from gateway.domain.events import AnyEvent, CallSettled, Snapshot, Stopping
from gateway.domain.human_values import brief_count, local_time
from gateway.domain.views import CallView

SNAPSHOT_CALLS = 1000
"""The number of calls in a snapshot. If more calls have ended before a slow reader gets it, the others are left out."""

RECONNECT_S = 0.5
"""The time before reconnecting to a server that dropped us because we read too slowly, in seconds."""

COLUMNS = (
    ListColumn("Time", lambda c: local_time(c.time_ms)[11:], "whole", min_width=8),
    ListColumn("Status", formatting.status, min_width=17),
    ListColumn("Model", formatting.subject, "name", min_width=24),
    ListColumn("Token", lambda c: c.token, "name", min_width=12),
    ListColumn("Channel", lambda c: c.channel, "name", min_width=12),
    ListColumn("In", lambda c: brief_count(c.input_tokens), "number", min_width=6),
    ListColumn("Out", lambda c: brief_count(c.output_tokens), "number", min_width=6),
    ListColumn("Cost", formatting.cost, "number", min_width=10),
    ListColumn("Duration", lambda c: formatting.span(c.duration_ms), "number", min_width=6),
)
"""The cells of a line and their widths. A longer cell shifts the others; on a terminal, texts are cut instead."""


@click.command(
    cls=Command,
    examples=["tollkeeper usage tail st:err", "tollkeeper usage tail --token laptop --json | jq .cost_nanos"],
    json_help="Print one JSON object per line; field names are stable.",
)
@filter_options
@click.option(
    "--recent",
    type=WholeNumber(0, SNAPSHOT_CALLS),
    default=10,
    show_default=True,
    help="Number of earlier calls to print first.",
)
def tail(recent: int, **values: Any) -> None:
    """Follow calls: print a line for each when it ends, until Ctrl-C. Needs a running server."""
    filters = call_filters(values)

    async def work(client: ControlClient) -> None:
        await _follow(client, filters, recent)
        raise Quit("the server stopped", Exit.UNREACHABLE)

    run(work, running=True)


def print_calls(config: Config) -> None:
    """Print the calls of the running server until it stops. A slow reader of stdout does not slow down calls."""

    async def main() -> None:
        if (endpoint := await find(config)) is not None:
            await _follow(ControlClient(endpoint), {}, 0, quiet=True)

    with suppress(GatewayError, Quit, click.exceptions.Exit):  # the server stopped, or the reader closed the pipe
        asyncio.run(main())


async def _follow(client: ControlClient, filters: CallFilters, recent: int, *, quiet: bool = False) -> None:
    """Print matching calls until the server stops. Unless ``quiet``, say when it is stopping."""
    feed = EventFeed(recent)
    async with aclosing(_events(client, filters)) as events:
        async for event in events:
            if isinstance(event, Snapshot) and feed.has_gap(event):
                notify("note: some calls are left out here; 'tollkeeper usage list' lists them")
            for call in feed.calls_in(event):
                out(json_line(call) if wants_json() else row_line(call, COLUMNS, call.error, terminal_width()))
            if isinstance(event, Stopping) and not quiet:
                notify("the server is stopping")


async def _events(client: ControlClient, filters: CallFilters) -> AsyncGenerator[AnyEvent, None]:
    """Yields events about matching calls, and reconnects if dropped. Raises Unavailable if the server is gone."""
    connected = True
    while connected:
        connected = False
        try:
            async with aclosing(client.events(SNAPSHOT_CALLS, **filters)) as events:
                async for event in events:
                    connected = True
                    yield event
        except Unavailable:
            if not connected:
                raise
            await asyncio.sleep(RECONNECT_S)
        else:
            return


class EventFeed:
    """Selects the calls of events that have not been shown yet; at first only ``recent`` earlier ones."""

    def __init__(self, recent: int) -> None:
        self._recent = recent
        self._seen = deque[str](maxlen=2 * SNAPSHOT_CALLS)
        """The ids of the latest calls."""
        self._started = False

    def calls_in(self, event: AnyEvent) -> list[CallView]:
        """Returns the calls to show, oldest first."""
        if isinstance(event, CallSettled):
            calls = [event.call]
        else:
            calls = event.recent[::-1] if isinstance(event, Snapshot) else []
        new = [call for call in calls if call.id not in self._seen]
        self._seen.extend(call.id for call in new)
        if isinstance(event, Snapshot) and not self._started:
            self._started = True
            return new[max(0, len(new) - self._recent) :]
        return new

    def has_gap(self, event: Snapshot) -> bool:
        """Returns whether calls that were not shown are too old for this snapshot."""
        return self._started and event.older > 0 and set(self._seen).isdisjoint(call.id for call in event.recent)
