"""Options that several commands share, and their types."""

import sys
import time
from collections.abc import Callable
from math import isnan
from typing import Any, TypeVar

import click

from gateway.commands.exit_codes import Exit, Quit
from gateway.domain.errors import BadRequest
from gateway.domain.human_values import parse_past
from gateway.domain.money import parse_dollars
from gateway.domain.quoting import listed_names, pair
from gateway.domain.units import Millis

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

NO_MATTER = "none"
"""The word that removes a value."""


class WholeNumber(click.IntRange):
    """A whole number in a range, with errors in our own words."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read it."""
        try:
            return int(super().convert(value, param, ctx))
        except click.BadParameter:
            least = f"{self.min or 0:.0f}"
            span = f"from {least} to {self.max:.0f}" if self.max is not None else f"of {least} or above"
            self.fail(f"{value!r} is not a whole number {span}", param, ctx)


class Seconds(click.FloatRange):
    """A number of seconds up to a day. ``nan`` passes every range check, but is not a number of seconds."""

    def __init__(self) -> None:
        super().__init__(0, 86_400)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read it."""
        seconds = float(super().convert(value, param, ctx))
        if isnan(seconds):
            self.fail(f"{value!r} is not a number of seconds from 0 to 86400", param, ctx)
        return seconds


class ParsedText(click.ParamType[T]):
    """Text that a function of the domain parses; its BadRequest becomes a usage error."""

    def __init__(self, name: str, read: Callable[[str], T]) -> None:
        self.name = name
        self._read = read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> T:
        """Read it."""
        try:
            return self._read(str(value))
        except BadRequest as error:
            self.fail(error.message, param, ctx)


def now() -> Millis:
    """Returns the wall-clock time."""
    return Millis(time.time_ns() // 1_000_000)


def renaming(text: str) -> tuple[str, str]:
    """Returns the two names of ``PUBLIC=UPSTREAM``."""
    public, upstream = pair(text)
    if not upstream.strip():
        raise BadRequest(f"{text!r} names no upstream model; write PUBLIC=UPSTREAM")
    return public, upstream


def some(text: str) -> str:
    """Returns text that is not empty, such as from an unset variable. Raises BadRequest."""
    if not text.strip():
        raise BadRequest("it is empty; leave the option out for none")
    return text


def naming(otherwise: str) -> ParsedText[str]:
    """Returns comma-separated names, at least one: an empty list, such as from an unset variable, would mean all or
    none.
    """

    def read(text: str) -> str:
        if not listed_names([text]):
            raise BadRequest(f"{text!r} contains no names; {otherwise}")
        return text

    return ParsedText("names", read)


NAMES = naming("leave the option out, or write '*' for all")
SOME: ParsedText[str] = ParsedText("text", some)
DOLLARS: ParsedText[int] = ParsedText("dollars", parse_dollars)
SINCE: ParsedText[Millis] = ParsedText("when", lambda text: parse_past(text, now()))
UNTIL: ParsedText[Millis] = ParsedText("when", lambda text: parse_past(text, now(), end=True))
RENAMING: ParsedText[tuple[str, str]] = ParsedText("public=upstream", renaming)


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON; field names are stable.")
yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
ACCEPTED = "tollkeeper.accepted"
"""The key in the context's notes for ``--yes`` of commands that ask only if a key or token would work again."""


def _accept(ctx: click.Context, _param: click.Parameter, given: bool) -> None:  # noqa: FBT001 - click calls it
    ctx.meta[ACCEPTED] = given


accept_option = click.option(
    "--yes",
    "-y",
    is_flag=True,
    expose_value=False,
    callback=_accept,
    help="Do not ask before a replaced key works again.",
)


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something is lost; the default is no. Without a terminal ``--yes`` is required. Raises Quit."""
    if yes:
        return
    if not (sys.stdin and sys.stdin.isatty()):
        raise Quit(f"no terminal to confirm on; add --yes to answer yes to: {question}", Exit.USAGE)
    if not click.confirm(question, default=False, err=True):
        raise Quit("nothing changed", Exit.FAILED)


Patch = dict[str, object]


def given_values(**values: object) -> Patch:
    """Returns the given values."""
    return {name: value for name, value in values.items() if value is not None}


def something(patch: Patch) -> Patch:
    """Returns the patch. Raises UsageError when it changes nothing."""
    if not patch:
        raise click.UsageError("nothing to change; give at least one option", click.get_current_context())
    return patch
