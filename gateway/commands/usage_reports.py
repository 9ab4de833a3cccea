"""``usage summary`` sums up calls, by what they have in common or over time; ``usage export`` writes them out."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any

import click
import msgspec

from gateway.client.control import ControlClient
from gateway.client.exports import create_private, csv_text
from gateway.commands import formatting
from gateway.commands.base import Command
from gateway.commands.call_filters import CallFilters, call_filters, filter_options, find_calls, no_match_note
from gateway.commands.completion import comma_separated
from gateway.commands.exit_codes import Exit, Quit
from gateway.commands.options import ParsedText, now
from gateway.commands.output import ListColumn, ProgressLine, json_line, notify, out, out_json, out_list, wants_json
from gateway.commands.session import run
from gateway.domain.budget import Window, window_start
from gateway.domain.errors import BadRequest
from gateway.domain.human_values import brief_count, count_text, local_time, plural
from gateway.domain.money import brief_dollars, dollars, number
from gateway.domain.quoting import parse_names
from gateway.domain.text import word
from gateway.domain.units import DAY_MS, HOUR_MS, Millis, Nanos
from gateway.domain.views import CallView, Summary, SumRow

STEPS = {"month": "2026-11", "day": "2026-11-20", "hour": "2026-11-20 22:00"}
"""The time spans that calls can be summed up by, each with an example of its name."""
DIMENSIONS = ("token", "model", "channel", "group", "app", "api", *STEPS)


def _dimensions_of(text: str) -> tuple[str, ...]:
    """Returns the dimensions in ``token,model``. Raises BadRequest for an unknown one."""
    names = tuple(parse_names(text))
    if not names or (wrong := [name for name in names if name not in DIMENSIONS]):
        choices = ", ".join(repr(name) for name in DIMENSIONS)
        raise BadRequest(f"{wrong[0] if names else text!r} is not one of {choices}")
    return names


COLUMNS = (
    ListColumn("Calls", lambda r: f"{r.calls:,}", "number"),
    ListColumn("Errors", lambda r: f"{r.errors:,}", "number"),
    ListColumn("In", lambda r: brief_count(r.input_tokens), "number"),
    ListColumn("Cached", lambda r: brief_count(r.cached_tokens), "number", drop=3),
    ListColumn("Out", lambda r: brief_count(r.output_tokens), "number"),
    ListColumn("Duration", lambda r: formatting.span(r.mean_duration_ms), "number", drop=5),
    ListColumn("p50", lambda r: formatting.span(r.duration_p50_ms), "number", drop=2),
    ListColumn("p95", lambda r: formatting.span(r.duration_p95_ms), "number", drop=1),
    ListColumn("First", lambda r: formatting.span(r.mean_first_byte_ms), "number", drop=4),
    ListColumn("p50", lambda r: formatting.span(r.first_byte_p50_ms), "number", drop=2),
    ListColumn("p95", lambda r: formatting.span(r.first_byte_p95_ms), "number", drop=1),
    ListColumn("Cost", lambda r: brief_dollars(r.cost_nanos), "number"),
)
SUM_FIELDS = (
    *("calls", "errors", "refused", "input_tokens", "cached_tokens", "output_tokens"),
    *("duration_p50_ms", "duration_p95_ms", "first_byte_p50_ms", "first_byte_p95_ms"),
)
NamedRow = tuple[list[str], SumRow]
"""A row with its name in each dimension."""


@click.command(
    cls=Command,
    examples=[
        "tollkeeper usage summary",
        "tollkeeper usage summary --by day --since 7d",
        "tollkeeper usage summary --by month,group",
        "tollkeeper usage summary --token laptop --by model",
        "tollkeeper usage summary --by token --json",
        "tollkeeper usage summary --by token,model --since month --csv > month.csv",
    ],
)
@filter_options
@click.option(
    "--by",
    "by",
    type=ParsedText("names", _dimensions_of),
    multiple=True,
    metavar="NAMES",
    shell_complete=comma_separated(lambda _ctx, _param, text: [name for name in DIMENSIONS if name.startswith(text)]),
    help=f"Group by this (default: model): {', '.join(DIMENSIONS)}. Two can be combined: token,model, or month, day "
    "or hour with another one.",
)
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, costs in dollars.")
def summary(by: tuple[tuple[str, ...], ...], *, as_csv: bool, **values: Any) -> None:
    """Sum up calls, tokens and cost of the last 30 days, or of the last year by month, unless --since says otherwise.

    'Duration' and 'First' (the time to the first token) are averages, each followed by p50 and p95: half of the calls,
    and 95 % of them, took no longer. These are computed from the records that are kept. Of many identical refusals only
    one is recorded each second, but all of them are counted.

    Words and options select calls, as in 'usage list'; then calls whose records were deleted are left out. With --by
    month, day or hour, the first one is always complete, even if --since is in the middle of it.
    """
    dimensions = _in_order(tuple(chain.from_iterable(by)) or ("model",))
    if as_csv and wants_json():
        raise click.UsageError("--csv and --json cannot be combined")
    filters = call_filters(values)
    view, note = run(lambda client: _fetch(client, filters, dimensions))
    named = named_rows(view, dimensions)
    if as_csv:
        out(csv_text([*dimensions, *SUM_FIELDS, "cost_dollars"]), end="")
        for names, row in named:
            counts = [getattr(row, name) for name in SUM_FIELDS]
            out(csv_text([*names, *counts, number(row.cost_nanos)]), end="")
    elif wants_json():
        rows = [msgspec.structs.replace(row, name="|".join(names)) for names, row in named]
        out_json(msgspec.structs.replace(view, by=",".join(dimensions), rows=rows))
        return
    else:
        total = ["total", *[""] * (len(dimensions) - 1)]
        out_list([*named, (total, view.total)], _columns(dimensions), empty="")
    _print_notes(view, note)


async def _fetch(client: ControlClient, filters: CallFilters, dimensions: Sequence[str]) -> tuple[Summary, str]:
    step = _step_of(dimensions)
    default_days = 365 if step == "month" else 30
    start = filters.get("since", now() - default_days * DAY_MS)
    if step in ("day", "month"):  # from its beginning on, so that the first row is complete
        start = window_start(Window(step), Millis(start))
    elif step == "hour":
        start = Millis(start // HOUR_MS * HOUR_MS)
    span = {"by": "|".join(dimensions[1:] if step else dimensions), "since": start, "step": step}
    view = await client.summary(**filters | span, percentiles=True)
    no_match = not view.total.calls and filters.keys() - {"since", "until"}
    return view, await no_match_note(client, filters) if no_match else ""


def _print_notes(view: Summary, note: str) -> None:
    notify(note)
    if repeats := view.total.repeats:
        refused = f"{repeats:,} refused {plural(repeats, 'calls')} came right after an identical one"
        notify(f"{refused}; 'usage list' has one line for all of them")
    left_out = "; older calls are not counted: their records were deleted" if view.incomplete else ""
    notify(f"from {local_time(view.since_ms)} to {local_time(view.until_ms)}{left_out}")


def _in_order(names: Sequence[str]) -> list[str]:
    """Returns the dimensions in the order of the columns. Raises UsageError for those that cannot be combined."""
    times = [name for name in names if name in STEPS]
    others = sorted((name for name in names if name not in STEPS), reverse=True)
    is_known_pair = not times and others == ["token", "model"]
    if len(set(names)) == len(names) and len(times) <= 1 and (len(others) <= 1 or is_known_pair):
        return [*times, *others]
    text = f"--by {','.join(names)}: only token,model can be combined, or month, day or hour with one of the others"
    raise click.UsageError(f"{text}; 'tollkeeper usage export' has every call")


def _step_of(dimensions: Sequence[str]) -> str:
    """Returns the time span of a row; empty if calls are not divided by time."""
    return dimensions[0] if dimensions[0] in STEPS else ""


def _columns(dimensions: Sequence[str]) -> list[ListColumn]:
    titles = ["API" if name == "api" else name.capitalize() for name in dimensions]
    return [*map(_name_column, range(len(titles)), titles), *map(_sum_column, COLUMNS)]


def _name_column(at: int, title: str) -> ListColumn:
    return ListColumn(title, lambda named: named[0][at], "name")


def _sum_column(column: ListColumn) -> ListColumn:
    return ListColumn(column.heading, lambda named: column.cell(named[1]), "number", drop=column.drop)


def named_rows(view: Summary, dimensions: Sequence[str]) -> list[NamedRow]:
    """Returns the rows with their names, the most expensive first; with a time span, the oldest first."""
    if not (step := _step_of(dimensions)):
        return [(_names_of(row, dimensions), row) for row in view.rows]
    length = len(STEPS[step])
    # noon at the server has the same date in our time zone, if that is less than 12 hours away
    noon_ms = 0 if step == "hour" else DAY_MS // 2
    points = sorted(view.series, key=lambda point: (point.start_ms, -point.row.cost_nanos))
    rows: list[NamedRow] = []
    for point in points:
        if point.row.calls:
            names = [local_time(point.start_ms + noon_ms)[:length]]
            if len(dimensions) > 1:
                names.append(point.row.name)
            key = "|".join(filter(None, (str(point.start_ms), point.row.key)))
            rows.append((names, msgspec.structs.replace(point.row, key=key)))
    return rows


def _names_of(row: SumRow, dimensions: Sequence[str]) -> list[str]:
    if len(dimensions) == 1:
        return [row.name]
    model = row.key.partition("|")[2]
    return [row.name.removesuffix(f"|{model}"), model]


Write = Callable[[str], object]

FIELDS = CallView.__struct_fields__
"""The fields of a line. Their names and order are stable; new ones are added at the end."""
_values_of = attrgetter(*FIELDS)
CSV_COLUMNS = (*FIELDS, "cost_dollars")
"""The columns of CSV; the cost in dollars is always the last one."""

FILE_NAME = re.compile(r"(\.{0,2}|~)/.*|[^:!]*\.(csv|tsv|txt|xlsx|json|jsonl|ndjson)", re.IGNORECASE)
"""Matches a filter word that was probably meant as the file to write."""


@click.command(
    cls=Command,
    examples=[
        "tollkeeper usage export --since 2026-11-01 --until 2026-11-30 > november.csv",
        "tollkeeper usage export --format jsonl --token laptop --output laptop.jsonl",
    ],
    json_help="",
)
@filter_options
@click.option("--format", "format_name", type=click.Choice(["csv", "jsonl"]), default="csv", help="By default csv.")
@click.option("--json", "format_name", flag_value="jsonl", help="The same as --format jsonl.")
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write to this new file (mode 0600) instead of stdout.",
)
def export(format_name: str, output: Path | None, **values: Any) -> None:
    """Write calls that have ended, newest first, to stdout or to a new file (--output).

    WORDS select calls, as in 'usage list'.

    In CSV, control characters are replaced, and a quotation mark (') is put before text that a spreadsheet would read
    as a formula. JSON lines are exact.
    """
    filters = call_filters(values)
    is_csv = format_name == "csv"

    async def work(client: ControlClient, write: Write) -> str:
        count, nanos, first, last = 0, 0, Millis(0), Millis(0)
        if is_csv:
            write(csv_text(CSV_COLUMNS))
        with ProgressLine(shown=output is not None) as progress:
            async for call in find_calls(client, filters, progress=progress):
                if call.state == "settled":
                    write(csv_line(call) if is_csv else json_line(call) + "\n")
                    count, nanos = count + 1, nanos + call.cost_nanos
                    first, last = min(first or call.time_ms, call.time_ms), max(last, call.time_ms)
        span = f" from {local_time(first)} to {local_time(last)}, {dollars(Nanos(nanos))}" if count else ""
        return f"{count_text(count, 'call')}{span}"

    with _open_output(output) as write:
        message = run(lambda client: work(client, write))
    notify(message + (f", written to {output}" if output else ""))
    file = next(filter(FILE_NAME.fullmatch, filters.get("words", "").split()), "")
    if file and output is None:
        notify(f"note: '{file}' was read as a word that filters calls; to write to a file: --output {word(file)}")


def csv_line(call: CallView) -> str:
    """Returns the view as a line of CSV: its fields in order, then the cost in dollars."""
    return csv_text([*_values_of(call), number(call.cost_nanos)])


@contextmanager
def _open_output(output: Path | None) -> Iterator[Write]:
    """Open stdout, or a new private file. Raises Quit if the file exists."""
    if output is None:
        yield lambda text: out(text, end="")
        return
    try:
        file = create_private(output)
    except FileExistsError:
        raise Quit(f"{output} exists; name another file, or remove it first", Exit.CONFLICT) from None
    with file:
        yield file.write
