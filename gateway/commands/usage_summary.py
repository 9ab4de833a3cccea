"""``usage summary``: what calls come to, by what they have in common or over time."""

from collections.abc import Sequence
from typing import Any

import click
import msgspec

from gateway.client.control import ControlClient
from gateway.commands import formatting
from gateway.commands.base import Command
from gateway.commands.call_filters import filter_options, no_match, wanted_of
from gateway.commands.options import json_option, now
from gateway.commands.output import out_json, out_list, words
from gateway.commands.session import run
from gateway.domain.budget import Window, window_start
from gateway.domain.human_values import brief_count, local_time
from gateway.domain.money import brief_dollars
from gateway.domain.units import Millis
from gateway.domain.views import Summary, SumRow

MONTH_MS = 30 * 86_400_000
HOUR_MS = 3_600_000

STEPS = ("day", "hour")
DIMENSIONS = ("token", "model", "channel", "group", "app", "api", *STEPS)

COLUMNS = (
    (">Calls", lambda r: f"{r.calls:,}"),
    (">Errors", lambda r: f"{r.errors:,}"),
    (">In", lambda r: brief_count(r.input_tokens)),
    (">Cached", lambda r: brief_count(r.cached_tokens)),
    (">Out", lambda r: brief_count(r.output_tokens)),
    (">Duration", lambda r: formatting.mean(r.mean_duration_ms)),
    (">p50", lambda r: formatting.span(r.duration_p50_ms)),
    (">p95", lambda r: formatting.span(r.duration_p95_ms)),
    (">First", lambda r: formatting.mean(r.mean_first_byte_ms)),
    (">p50", lambda r: formatting.span(r.first_byte_p50_ms)),
    (">p95", lambda r: formatting.span(r.first_byte_p95_ms)),
    (">Cost", lambda r: brief_dollars(r.cost_nanos)),
)
DROP = ("p95", "p50", "Cached", "First", "Duration")
"""Columns that a narrow terminal does without, the first one first."""


@click.command(
    cls=Command,
    examples=[
        "tollkeeper usage summary",
        "tollkeeper usage summary --by day --since 7d",
        "tollkeeper usage summary --token laptop --by model",
        "tollkeeper usage summary --by token --json",
    ],
)
@filter_options
@click.option("--by", type=click.Choice(DIMENSIONS), default="model", show_default=True, help="Group by this.")
@json_option
def summary(by: str, *, as_json: bool, **given: Any) -> None:
    """Sum up calls, tokens and cost; without --since those of the last 30 days.

    'Duration' and 'First' (the time to the first token) are averages; beside each are the times that half of the calls
    (p50) and 95 % of them (p95) did not exceed, from the records that are kept. Of many alike refusals one is recorded
    in a second; all of them are counted.

    Words and options pick calls, as in 'usage list'; calls whose records are deleted are not among them. With --by day
    the first day is whole, and with --by hour the first hour, whenever --since is.
    """
    wanted = wanted_of(given)
    since, until = wanted.query.since, wanted.query.until
    picked = {name: value for name, value in wanted.fields.items() if name not in ("since", "until")}
    start = _whole_step(now() - MONTH_MS if since is None else since, by)
    over_time = by in STEPS

    async def work(client: ControlClient) -> tuple[Summary, str]:
        view = await client.summary(
            by="" if over_time else by,
            since=start,
            until=until,
            step=by if over_time else "",
            percentiles=True,
            **picked,
        )
        nothing = not view.total.calls and any(picked.values())
        return view, await no_match(client, wanted) if nothing else ""

    view, note = run(work)
    if as_json:
        out_json(msgspec.structs.replace(view, by=by, rows=list(rows_of(view, by))))
        return
    rows = [*rows_of(view, by), msgspec.structs.replace(view.total, name="total")]
    out_list(
        rows,
        [("API" if by == "api" else by.capitalize(), lambda r: r.name), *COLUMNS],
        as_json=False,
        empty="",
        drop=DROP,
    )
    if note:
        words(note)
    words(f"from {local_time(view.since_ms)} to {local_time(view.until_ms)}{_left_out(view)}")


def _whole_step(since: int, by: str) -> int:
    """Where the day or hour begins whose row would else be of a part of it."""
    if by == "day":
        return window_start(Window.DAY, Millis(since))
    return since // HOUR_MS * HOUR_MS if by == "hour" else since


def _left_out(view: Summary) -> str:
    if view.incomplete:
        return "; of older calls the records are deleted, and they are not counted"
    if view.refusals_from_ms is None:
        return ""
    return f"; before {local_time(view.refusals_from_ms)}, of many alike refusals one in a second was counted"


def rows_of(view: Summary, by: str) -> Sequence[SumRow]:
    """The lines: by value, the most expensive first; or by time, the oldest first."""
    if by not in STEPS:
        return view.rows
    length = len("2026-11-20") if by == "day" else len("2026-11-20 22:00")
    return [
        msgspec.structs.replace(point.row, key=str(point.start_ms), name=local_time(point.start_ms)[:length])
        for point in view.series
        if point.row.calls
    ]
