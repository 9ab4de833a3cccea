"""``usage export``: writes calls as CSV or JSON lines, for other programs."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from typing import Any

import click

from gateway.client.control import ControlClient
from gateway.client.exports import create_private, csv_text
from gateway.commands.base import Command
from gateway.commands.call_filters import call_query, filter_options, find_calls
from gateway.commands.exit_codes import Exit, Quit
from gateway.commands.output import ProgressLine, notify, out
from gateway.commands.session import run
from gateway.domain.field_kinds import json_value
from gateway.domain.human_values import count_text, local_time
from gateway.domain.money import dollars, number
from gateway.domain.text import word
from gateway.domain.units import Millis, Nanos
from gateway.domain.views import CallView

Write = Callable[[str], object]

FIELDS = CallView.__struct_fields__
"""The fields of a line. Their names and order are stable; new ones are added at the end."""
CSV_COLUMNS = (*FIELDS, "cost_dollars")
"""The columns of CSV; the cost in dollars is always the last one."""


class ExportTotals:
    """The number, time span and cost of the written calls."""

    def __init__(self) -> None:
        self._calls = self._nanos = 0
        self._first = self._last = Millis(0)

    def add(self, call: CallView) -> None:
        self._first = min(self._first or call.time_ms, call.time_ms)
        self._last = max(self._last, call.time_ms)
        self._calls, self._nanos = self._calls + 1, self._nanos + call.cost_nanos

    @property
    def text(self) -> str:
        """Returns ``334 calls from 2026-10-01 00:12:03 to 2026-10-31 23:50:11, $2.2823``."""
        if not self._calls:
            return "0 calls"
        count = count_text(self._calls, "call")
        return f"{count} from {local_time(self._first)} to {local_time(self._last)}, {dollars(Nanos(self._nanos))}"


FILE_NAME = re.compile(r"(\.{0,2}|~)/.*|[^:!]*\.(csv|tsv|txt|xlsx|json|jsonl|ndjson)", re.IGNORECASE)
"""Matches a filter word that was probably meant as the file to write."""


@click.command(
    cls=Command,
    examples=[
        "tollkeeper usage export --since 2026-11-01 --until 2026-11-30 > november.csv",
        "tollkeeper usage export --format jsonl --token laptop --output laptop.jsonl",
    ],
)
@filter_options
@click.option("--format", "format_name", type=click.Choice(["csv", "jsonl"]), default="csv", show_default=True)
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
    query = call_query(values)
    format_line = csv_line if format_name == "csv" else json_line

    async def work(client: ControlClient, write: Write) -> ExportTotals:
        totals = ExportTotals()
        if format_name == "csv":
            write(csv_text(CSV_COLUMNS))
        with ProgressLine(shown=output is not None) as progress:
            async for call in find_calls(client, query, progress=progress):
                if call.state == "settled":
                    write(format_line(call))
                    totals.add(call)
        return totals

    with _open_output(output) as write:
        totals = run(lambda client: work(client, write))
    notify(totals.text + (f", written to {output}" if output else ""))
    file = next(filter(FILE_NAME.fullmatch, query.query.words), "")
    if file and output is None:
        notify(f"note: '{file}' was read as a word that filters calls; to write to a file: --output {word(file)}")


def json_line(call: CallView) -> str:
    """Returns the view as a line of JSON, in ASCII."""
    return json.dumps(json_value(call)) + "\n"


def csv_line(call: CallView) -> str:
    """Returns the view as a line of CSV: its fields in order, then the cost in dollars."""
    return csv_text([*_values_of(call), number(call.cost_nanos)])


_values_of = attrgetter(*FIELDS)


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
