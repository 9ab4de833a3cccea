"""``usage tail``: a line for every call as it ends, for as long as one looks."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import click

from gateway.client.control import ControlClient
from gateway.commands import show
from gateway.commands.base import Command
from gateway.commands.call_filters import Wanted, filter_options, wanted_of
from gateway.commands.exits import Exit, Quit
from gateway.commands.output import MARGIN, NOTHING, fit, out, out_json_line, words
from gateway.commands.session import run
from gateway.domain.events import AnyEvent, CallSettled, Snapshot, Stopping
from gateway.domain.text import plain
from gateway.domain.views import CallView
from gateway.domain.written import brief_count

CATCH_UP = 1000
"""Calls a snapshot brings, so that none is missed when this falls behind."""

WIDTHS = (8, 17, 24, 12, 12, -6, -6, -10, -6)
"""Of the cells of a line, negative to align them right; longer cells push the rest."""


@click.command(
    cls=Command,
    examples=["tollkeeper usage tail st:err", "tollkeeper usage tail --token laptop --json | jq .cost_nanos"],
)
@filter_options
@click.option("--recent", type=click.IntRange(0, CATCH_UP), default=10, show_default=True, help="Earlier calls first.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line; field names are stable.")
def tail(recent: int, *, as_json: bool, **given: Any) -> None:
    """Follow the calls: a line for each as it ends, until Ctrl-C. Needs a running server."""
    wanted = wanted_of(given)

    async def work(client: ControlClient) -> None:
        feed = Feed(wanted, recent)
        async for event in client.events(CATCH_UP):
            for call in feed.fresh(event):
                if as_json:
                    out_json_line(call)
                else:
                    out(line_of(call))
            if isinstance(event, Stopping):
                words("the server is stopping")
        raise Quit("the server has stopped", Exit.UNREACHABLE)

    run(work, running=True)


class Feed:
    """Turns events into calls that were not shown yet, oldest first."""

    def __init__(self, wanted: Wanted, recent: int) -> None:
        self._wanted = wanted
        self._recent = recent
        self._shown: dict[str, None] = {}
        self._begun = False

    def fresh(self, event: AnyEvent) -> list[CallView]:
        """The calls to show for this event."""
        if isinstance(event, CallSettled):
            return self._unseen([event.call])
        if not isinstance(event, Snapshot):
            return []
        calls = self._unseen(reversed(event.recent))
        if not self._begun:
            self._begun = True
            return calls[len(calls) - min(self._recent, len(calls)) :]
        return calls

    def _unseen(self, calls: Iterable[CallView]) -> list[CallView]:
        new = [call for call in calls if call.id not in self._shown]
        self._shown.update(dict.fromkeys(call.id for call in new))
        for old in list(self._shown)[: -2 * CATCH_UP]:
            del self._shown[old]
        return [call for call in new if self._wanted.fits(call)]


def line_of(call: CallView) -> str:
    """One call on one line."""
    texts = (
        datetime.fromtimestamp(call.time_ms / 1000).astimezone().strftime("%H:%M:%S"),
        show.status(call),
        call.model,
        call.token,
        call.channel,
        brief_count(call.input_tokens),
        brief_count(call.output_tokens),
        show.cost(call),
        show.span(call.duration_ms),
    )
    padded = [fit(plain(text) or NOTHING, width) for text, width in zip(texts, WIDTHS, strict=True)]
    return f"{MARGIN.join(padded)}{MARGIN}{plain(call.error)}".rstrip()
