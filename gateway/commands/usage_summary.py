"""``usage summary``: what was used and spent, by token, model, channel, group, app, day or hour."""

from collections.abc import Sequence

import click
import msgspec

from gateway.commands.base import Command
from gateway.commands.options import SINCE, UNTIL, json_option, now
from gateway.commands.output import out_json, out_list, words
from gateway.commands.session import run
from gateway.domain.money import brief_dollars
from gateway.domain.views import Summary, SumRow
from gateway.domain.written import brief_count, brief_span, local_time

MONTH_MS = 30 * 86_400_000

STEPS = ("day", "hour")
DIMENSIONS = ("token", "model", "channel", "group", "app", *STEPS)

COLUMNS = (
    (">Calls", lambda r: f"{r.calls:,}"),
    (">Errors", lambda r: f"{r.errors:,}"),
    (">In", lambda r: brief_count(r.input_tokens)),
    (">Cached", lambda r: brief_count(r.cached_tokens)),
    (">Out", lambda r: brief_count(r.output_tokens)),
    (">Took", lambda r: brief_span(r.duration_ms // r.calls) if r.calls else ""),
    (">Cost", lambda r: brief_dollars(r.cost_nanos)),
)


@click.command(
    cls=Command,
    examples=[
        "tollkeeper usage summary",
        "tollkeeper usage summary --by day --since 7d",
        "tollkeeper usage summary --by token --json",
    ],
)
@click.option(
    "--by", type=click.Choice(DIMENSIONS), default="model", show_default=True, help="A line for each of these."
)
@click.option("--since", type=SINCE, help="From when: 1h, 7d, 2026-11-01 (default: 30d).")
@click.option("--until", type=UNTIL, help="Until when; a date counts to its end.")
@json_option
def summary(by: str, since: int | None, until: int | None, *, as_json: bool) -> None:
    """Sum up calls, tokens and cost, with a total. 'Took' is the mean."""
    start = now() - MONTH_MS if since is None else since
    over_time = by in STEPS
    view = run(
        lambda client: client.summary(
            by="" if over_time else by, since=start, until=until, step=by if over_time else ""
        )
    )
    if as_json:
        out_json(view)
        return
    rows = [*rows_of(view, by), msgspec.structs.replace(view.total, name="total")]
    out_list(rows, [(by.capitalize(), lambda r: r.name), *COLUMNS], as_json=False, empty="")
    words(f"from {local_time(view.since_ms)} to {local_time(view.until_ms)}")


def rows_of(view: Summary, by: str) -> Sequence[SumRow]:
    """The lines: by value as they come, the dearest first; or by time, the oldest first."""
    if by not in STEPS:
        return view.rows
    length = len("2026-11-20") if by == "day" else len("2026-11-20 22:00")
    return [
        msgspec.structs.replace(point.row, name=local_time(point.start_ms)[:length])
        for point in view.series
        if point.row.calls
    ]
