"""Output: writes results to stdout and messages to stderr. Text from outside is escaped here.

Tables are aligned plain text. ``--json`` prints the views of ``gateway.domain.views`` with their field names, in ASCII,
so that no string in them can reach a terminal as a control sequence.
"""

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, Self, TypeVar

import click
import msgspec
from rich.cells import cell_len

from gateway.client.cells import cut, cut_middle
from gateway.commands.base import JSON
from gateway.commands.exit_codes import Exit, Quit
from gateway.domain.field_kinds import json_value
from gateway.domain.text import plain

T = TypeVar("T")

MARGIN = "  "
NOTHING = "-"
"""The text of an empty cell, so that scripts can count columns."""


class ListColumn(msgspec.Struct, frozen=True):
    """One column of a table, and what happens to it on a narrow terminal."""

    heading: str
    cell: Callable[[Any], str]
    kind: Literal["text", "name", "whole", "number", "state"] = "text"
    """``text`` and ``name`` may be cut, a name in its middle, so that similar ones stay distinct. ``whole`` is not cut:
    times, ids and similar texts. ``number`` is aligned to the right, ``state`` has a colour."""
    drop: int = 0
    """If the table is too wide, columns with 1 are omitted first, then those with 2, and so on; 0: never omitted."""
    min_width: int = 10
    """The column is cut down to this width before other columns are omitted."""
    below: bool = False
    """Whether the cell moves to a line under the row if the table is too wide. Only the last columns may do that."""
    optional: bool = False
    """Whether the column is left out if all its cells are empty."""

    @property
    def elastic(self) -> bool:
        return self.kind in ("text", "name")

    def draw(self, text: str, width: int) -> str:
        """Returns a cell with exactly this width, or longer if it may not be cut."""
        if self.kind == "number":
            return " " * (width - cell_len(text)) + text
        if self.elastic:
            text = cut_middle(text, width) if self.kind == "name" else cut(text, width)
        shown = pad(text, width)
        return coloured_state(shown) if self.kind == "state" else shown


Columns = Sequence[ListColumn]

STATE_NAMES = frozenset({"state", "status", "result"})
STATE_COLOURS: Sequence[tuple[tuple[str, ...], str]] = (
    (("ok", "active", "serving", "equal", "2"), "green"),
    (("running", "waiting", "draining"), "cyan"),
    (("paused", "retrying", "expired", "suspended", "stopping", "4", "3"), "yellow"),
    (("needs attention", "not set", "failed", "store_failed", "exhausted", "used up", "different", "damaged"), "red"),
    (("5", "0"), "red"),
    (("off", "disabled"), "bright_black"),
)
"""The beginnings of states, and their colours. The words alone say the same."""

PROGRESS_AFTER_S = 1.0
"""Progress is shown after so many seconds."""


def wants_json() -> bool:
    """Returns whether ``--json`` is given."""
    context = click.get_current_context(silent=True)  # a thread has none
    return context is not None and JSON in context.meta


def out(text: str, *, end: str = "\n") -> None:
    """Write a result to stdout. A closed pipe (``| head``) ends the command with success; other failures raise Quit."""
    try:
        _write(text + end)
    except BrokenPipeError:
        raise click.exceptions.Exit(0) from None


def out_once(view: object, text: str, advice: str) -> None:
    """Write what cannot be fetched again, as JSON or text. Raises Quit if that fails; ``advice`` says what to do."""
    try:
        _write((json_text(view) if wants_json() else text) + "\n")
    except BrokenPipeError:
        raise Quit(f"nobody read the output; {advice}", Exit.FAILED) from None
    except Quit as error:
        raise Quit(f"{error.message}; {advice}", Exit.FAILED) from error


def require_stdout() -> None:
    """Raise Quit if stdout is closed, because the key that is about to be created could not be shown."""
    if not has_stdout():
        raise Quit("stdout is closed, and a key is shown only once; nothing was changed", Exit.FAILED)


def has_stdout() -> bool:
    """Returns whether stdout is open."""
    return sys.stdout is not None


def notify(*lines: str) -> None:
    """Write lines for people to stderr, without empty ones."""
    for line in filter(None, lines):
        click.echo(plain(line, limit=2_000), err=True)


def out_json(value: object) -> None:
    """Write one value as indented ASCII JSON."""
    out(json_text(value))


def out_view(view: object, pairs: Iterable[tuple[str, str]], rows: Sequence[T] = (), columns: Columns = ()) -> None:
    """Write one thing in detail: as JSON, or as lines with a name and a value, above a table of any ``rows``."""
    if wants_json():
        out_json(view)
        return
    out_pairs(pairs)
    if rows:
        out("\n" + table(rows, columns, terminal_width())[0])


def out_change(view: object, *lines: str) -> None:
    """Write to stderr what was done, and with ``--json`` also the new state to stdout."""
    if wants_json():
        out_json(view)
    notify(*lines)


def json_text(value: object) -> str:
    """Returns what ``out_json`` writes."""
    return json.dumps(json_value(value), indent=2)


def json_line(value: object) -> str:
    """Returns one value as ASCII JSON on one line."""
    return json.dumps(json_value(value))


def out_json_list(values: Iterable[object]) -> None:
    """Write a JSON array with one element per line."""
    lines = ",\n".join(map(json_line, values))
    out(f"[\n{lines}\n]" if lines else "[]")


def out_list(rows: Sequence[T], columns: Columns, *, empty: str) -> None:
    """Write a list as a JSON array or as a table. Without rows, write ``empty`` to stderr."""
    if wants_json():
        out_json_list(rows)
    elif rows:
        text, omitted = table(rows, columns, terminal_width())
        out(text)
        if omitted:
            notify(f"columns left out: {', '.join(omitted)}; see --json, or a wider terminal")
    else:
        notify(empty)


def limit_note(count: int, noun: str) -> str:
    """Returns the note for a list that ends at its default limit."""
    return f"these are the newest {count} {noun}; there may be more: use --limit for more, --until for older ones"


def out_pairs(pairs: Iterable[tuple[str, str]]) -> None:
    """Write lines with a name and a value. Pairs without a value are left out."""
    filled = [(name, value) for name, value in pairs if value]
    width = max((len(name) for name, _ in filled), default=0)
    lines = []
    for name, value in filled:
        shown = plain(value, limit=2_000)
        lines.append(f"{name:<{width}}{MARGIN}{coloured_state(shown) if name in STATE_NAMES else shown}")
    out("\n".join(lines))


class ProgressLine:
    """A line on stderr about work of more than a second, removed at its end, and only shown on a terminal."""

    def __init__(self, *, shown: bool = True) -> None:
        self._shown = shown and is_terminal() and is_stderr_terminal()
        self._begin = time.monotonic() + PROGRESS_AFTER_S
        self._width = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._width:
            click.echo(f"\r{' ' * self._width}\r", nl=False, err=True)

    def show(self, text: str) -> None:
        """Show the progress if a second has passed."""
        if self._shown and time.monotonic() >= self._begin:
            line = plain(text, limit=shutil.get_terminal_size().columns - 1)
            click.echo(f"\r{pad(line, self._width)}", nl=False, err=True)
            self._width = cell_len(line)


class _DrawnColumn:
    """A column of a table that is drawn: its cells below its heading, and its width."""

    def __init__(self, column: ListColumn, rows: Sequence[Any], min_width: int) -> None:
        self.column = column
        self.cells = [column.heading, *(plain(column.cell(row)) or NOTHING for row in rows)]
        self.width = max(map(cell_len, self.cells))
        self.min_width = min(self.width, min_width) if column.elastic else self.width
        self.is_empty = all(cell == NOTHING for cell in self.cells[1:])


def table(rows: Sequence[T], columns: Columns, width: int | None) -> tuple[str, list[str]]:
    """Returns aligned columns under their headings, and the headings of columns that were omitted but are not empty.

    Every cell is escaped. Click omits the colours of states in a pipe. If the table is wider than ``width``, empty
    columns are omitted, then texts are cut, the widest first, then more columns are omitted. None means any width.
    """
    # the first column identifies the row
    drawn = [_DrawnColumn(column, rows, column.min_width if i else 20) for i, column in enumerate(columns)]
    drawn = [c for c in drawn if not (c.is_empty and c.column.optional)]
    shown, under = drawn, list[_DrawnColumn]()
    if width is not None:
        shown, under = _choose_columns(drawn, width)
        _narrow_columns(shown, width)
    lines = []
    for row in range(len(rows) + 1):
        lines.append(MARGIN.join(c.column.draw(c.cells[row], c.width) for c in shown).rstrip())
        more = MARGIN.join(c.cells[row] for c in under if c.cells[row] != NOTHING)
        if more and row:
            lines.append(f"{MARGIN}{more}")
    return "\n".join(lines), [c.column.heading for c in drawn if c not in [*shown, *under] and not c.is_empty]


def row_line(row: T, columns: Columns, remark: str, width: int | None) -> str:
    """Returns a row that is printed alone, with its columns at least as wide as their minimum widths.

    On a terminal of ``width`` places, texts are cut, and the remark may be on a second line.
    """
    remark = plain(remark)
    texts = [plain(column.cell(row)) or NOTHING for column in columns]
    widths = [max(column.min_width, cell_len(text)) for column, text in zip(columns, texts, strict=True)]
    if width is not None:
        minimums = [6 if column.elastic else widths[i] for i, column in enumerate(columns)]
        widths = [column.min_width if column.elastic else widths[i] for i, column in enumerate(columns)]
        widths = narrow_widths(widths, minimums, width)
    line = MARGIN.join(column.draw(texts[i], widths[i]) for i, column in enumerate(columns))
    if width is None:
        return f"{line}{MARGIN}{remark}".rstrip()
    line = cut(line, width)
    if not remark:
        return line.rstrip()
    remaining = width - cell_len(line) - len(MARGIN)
    if remaining >= min(30, cell_len(remark)):  # else it is on a second line
        return f"{line}{MARGIN}{cut(remark, remaining)}"
    indent = " " * (columns[0].min_width + len(MARGIN))
    return f"{line}\n{indent}{cut(remark, width - len(indent))}"


def _choose_columns(drawn: list[_DrawnColumn], width: int) -> tuple[list[_DrawnColumn], list[_DrawnColumn]]:
    """Returns the columns that are shown in the table, and those that are shown under the rows."""
    shown, under = list(drawn), list[_DrawnColumn]()
    if total_width([c.width for c in shown]) > width:
        shown = [c for c in shown if not (c.is_empty and c.column.drop)]
    while shown and shown[-1].column.below and total_width([c.width for c in shown]) > width:
        under.insert(0, shown.pop())
    for turn in sorted({c.column.drop for c in drawn} - {0}):
        if total_width([c.min_width for c in shown]) > width:
            shown = [c for c in shown if c.column.drop != turn]
    return shown, under


def _narrow_columns(shown: Sequence[_DrawnColumn], width: int) -> None:
    """Narrow the columns to fit into ``width``: first to their minimum widths, then to ten places."""
    shortest = [min(10, c.width) if c.column.elastic else c.width for c in shown]
    for minimums in ([c.min_width for c in shown], shortest):
        widths = narrow_widths([c.width for c in shown], minimums, width)
        for column, column_width in zip(shown, widths, strict=True):
            column.width = column_width


def total_width(widths: Sequence[int]) -> int:
    """Returns the width of a line with cells of these widths."""
    return sum(widths) + len(MARGIN) * (len(widths) - 1)


def narrow_widths(widths: Sequence[int], minimums: Sequence[int], width: int) -> list[int]:
    """Returns the widths of cells whose line fits into ``width``. The widest is narrowed first, down to its minimum."""
    narrowed = list(widths)
    for _ in range(total_width(widths) - width):
        wide = [i for i, minimum in enumerate(minimums) if narrowed[i] > minimum]
        if not wide:
            break
        narrowed[max(wide, key=narrowed.__getitem__)] -= 1
    return narrowed


def terminal_width() -> int | None:
    """Returns the width of stdout; None if it is not a terminal."""
    return shutil.get_terminal_size().columns if is_terminal() else None


def coloured_state(state: str) -> str:
    """Returns a state in its colour. Click omits it without a terminal, and with NO_COLOR."""
    word = state.strip().lower()
    colour = next((colour for words, colour in STATE_COLOURS if word.startswith(words)), None)
    return click.style(state, fg=colour) if colour else state


def pad(text: str, width: int) -> str:
    """Returns the text with spaces after it, up to ``width`` cells. Longer texts stay."""
    return text + " " * (width - cell_len(text))


def plain_lines(text: str) -> str:
    """Returns a text of several lines without control characters, except for line ends and tabs."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "\n".join("\t".join(plain(part, limit=len(part) + 1) for part in line.split("\t")) for line in lines)


def is_terminal() -> bool:
    """Returns whether stdout is a terminal."""
    return has_stdout() and sys.stdout.isatty()


def is_stderr_terminal() -> bool:
    """Returns whether stderr is a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()


def _write(text: str) -> None:
    """Write to stdout. Raises BrokenPipeError if the reader has closed the pipe, and Quit for other failures."""
    if not has_stdout():
        raise Quit("the output cannot be written: stdout is closed", Exit.FAILED)
    try:
        click.echo(text, nl=False)
    except OSError as error:
        with open(os.devnull, "w", encoding="utf-8") as null:  # noqa: PTH123 - a device, not a path of ours
            os.dup2(null.fileno(), sys.stdout.fileno())  # else what is buffered fails again when the interpreter ends
        if isinstance(error, BrokenPipeError):
            raise
        raise Quit(f"the output cannot be written: {error.strerror or error}", Exit.FAILED) from error
