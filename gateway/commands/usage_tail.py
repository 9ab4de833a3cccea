"""``usage tail``: prints a line for every call as it ends."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing, suppress
from typing import Any

import click

from gateway.client.control import ControlClient
from gateway.client.launch import find
from gateway.commands import formatting
from gateway.commands.base import Command
from gateway.commands.call_filters import CallQuery, call_query, filter_options
from gateway.commands.exit_codes import Exit, Quit
from gateway.commands.options import WholeNumber
from gateway.commands.output import (
    MARGIN,
    NOTHING,
    ListColumn,
    cells,
    cut,
    narrow_widths,
    out,
    out_json_line,
    terminal_width,
    words,
)
from gateway.commands.session import run
from gateway.config import Config
from gateway.domain.errors import GatewayError, Unavailable
from gateway.domain.events import AnyEvent, CallSettled, EntityChanged, Snapshot, Stopping
from gateway.domain.human_values import brief_count, local_time
from gateway.domain.present_names import PresentNames, present_names_of
from gateway.domain.text import plain
from gateway.domain.views import CallView

CATCH_UP = 1000
"""How many calls a snapshot has. If the output is read so slowly that more have ended, the others are left out."""

AGAIN_S = 0.5
"""Seconds before reconnecting to a server that dropped this reader because it did not read."""

COLUMNS = (
    ListColumn("Time", lambda c: local_time(c.time_ms)[11:], "whole", least=8),
    ListColumn("Status", formatting.status, least=17),
    ListColumn("Model", formatting.what, "name", least=24),
    ListColumn("Token", lambda c: c.token, "name", least=12),
    ListColumn("Channel", lambda c: c.channel, "name", least=12),
    ListColumn("In", lambda c: brief_count(c.input_tokens), "number", least=6),
    ListColumn("Out", lambda c: brief_count(c.output_tokens), "number", least=6),
    ListColumn("Cost", formatting.cost, "number", least=10),
    ListColumn("Duration", lambda c: formatting.span(c.duration_ms), "number", least=6),
)
"""The cells of a line, whose headings are not shown, with their widths. Longer cells push the rest, except texts on a
terminal, which get narrower there."""


@click.command(
    cls=Command,
    examples=["tollkeeper usage tail st:err", "tollkeeper usage tail --token laptop --json | jq .cost_nanos"],
)
@filter_options
@click.option(
    "--recent",
    type=WholeNumber(0, CATCH_UP),
    default=10,
    show_default=True,
    help="Number of earlier calls to print first.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line; field names are stable.")
def tail(recent: int, *, as_json: bool, **given: Any) -> None:
    """Follow calls: print a line for each as it ends, until Ctrl-C. Needs a running server."""
    wanted = call_query(given)

    async def work(client: ControlClient) -> None:
        await _check(client, wanted)
        await _follow(client, EventFeed(wanted, recent), as_json=as_json)
        raise Quit("the server stopped", Exit.UNREACHABLE)

    run(work, running=True)


def print_calls(where: Config) -> None:
    """Print the calls of the running server until it ends. A slow reader of stdout holds nothing up."""

    async def main() -> None:
        if (endpoint := await find(where)) is not None:
            await _follow(ControlClient(endpoint), EventFeed(CallQuery(), 0), as_json=False, quiet=True)

    with suppress(GatewayError, Quit, click.exceptions.Exit):  # the server ended, or the reader closed
        asyncio.run(main())


async def _follow(client: ControlClient, feed: "EventFeed", *, as_json: bool, quiet: bool = False) -> None:
    """Print the calls until the server stops; unless ``quiet``, with a line that it is stopping."""
    async with aclosing(_events(client)) as events:  # one after the other, also when the reader closed
        async for event in events:
            if isinstance(event, Snapshot) and feed.missed(event):
                words("note: calls are left out here; 'tollkeeper usage list' shows them")
            _print(feed.fresh(event), as_json=as_json)
            if isinstance(event, Stopping) and not quiet:
                words("the server is stopping")


async def _check(client: ControlClient, wanted: CallQuery) -> None:
    """Raises NotFound for a name that no future call can have."""
    finders = (wanted.token, client.token), (wanted.group, client.group), (wanted.channel, client.channel)
    for refs, find_one in finders:
        for ref in refs:
            await find_one(ref)


async def _events(client: ControlClient) -> AsyncGenerator[AnyEvent, None]:
    """Yields events, also after the server dropped this reader. Raises Unavailable when the server is gone."""
    heard = True
    while heard:
        heard = False
        try:
            async with aclosing(client.events(CATCH_UP)) as events:
                async for event in events:
                    heard = True
                    yield event
        except Unavailable:
            if not heard:
                raise
            await asyncio.sleep(AGAIN_S)
        else:
            return


def _print(calls: Iterable[CallView], *, as_json: bool) -> None:
    for call in calls:
        if as_json:
            out_json_line(call)
        else:
            out(line_of(call, terminal_width()))


class EventFeed:
    """Turns events into calls that were not shown yet, oldest first."""

    def __init__(self, wanted: CallQuery, recent: int) -> None:
        self._asked = wanted
        self._wanted = wanted.by_names(PresentNames())
        self._recent = recent
        self._shown: dict[str, None] = {}
        self._begun = False

    def fresh(self, event: AnyEvent) -> list[CallView]:
        """Returns the calls to show for this event."""
        if isinstance(event, CallSettled):
            return self.unseen([event.call])
        if isinstance(event, Snapshot | EntityChanged):
            self._wanted = self._asked.by_names(present_names_of(event))
        if not isinstance(event, Snapshot):
            return []
        calls = self.unseen(reversed(event.recent))
        if not self._begun:
            self._begun = True
            return calls[len(calls) - min(self._recent, len(calls)) :]
        return calls

    def missed(self, event: Snapshot) -> bool:
        """Returns whether calls ended that are too old for this snapshot and were not shown."""
        older = event.status.records > len(event.recent)
        return self._begun and older and self._shown.keys().isdisjoint(call.id for call in event.recent)

    def unseen(self, calls: Iterable[CallView]) -> list[CallView]:
        """Returns the calls to show; all of them now count as seen."""
        new = [call for call in calls if call.id not in self._shown]
        self._shown.update(dict.fromkeys(call.id for call in new))
        while len(self._shown) > 2 * CATCH_UP:
            del self._shown[next(iter(self._shown))]
        return [call for call in new if self._wanted.matches(call)]


def line_of(call: CallView, width: int | None = None) -> str:
    """Returns one call on one line, or on two if it failed and the line has at most ``width`` places."""
    shown, error = [plain(column.cell(call)) or NOTHING for column in COLUMNS], plain(call.error)
    sizes = [max(column.least, cells(text)) for column, text in zip(COLUMNS, shown, strict=True)]
    if width is not None:
        elastic = [at for at, column in enumerate(COLUMNS) if column.elastic]
        for at in elastic:
            sizes[at] = COLUMNS[at].least
        narrow_widths(sizes, elastic, sum(sizes) + len(MARGIN) * (len(sizes) - 1) - width, [6] * len(sizes))
    line = MARGIN.join(COLUMNS[at].draw(shown[at], size) for at, size in enumerate(sizes))
    if width is None:
        return f"{line}{MARGIN}{error}".rstrip()
    line = cut(line, width)
    left = width - cells(line) - len(MARGIN)
    if not error:
        return line.rstrip()
    if left >= min(30, cells(error)):  # with less room it has a line of its own
        return f"{line}{MARGIN}{cut(error, left)}"
    indent = " " * (COLUMNS[0].least + len(MARGIN))
    return f"{line}\n{indent}{cut(error, width - len(indent))}"
