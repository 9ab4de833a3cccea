"""Options: the options that several commands share, and their types."""

import time
from collections.abc import Callable
from typing import Any, TypeVar

import click

from gateway.commands import stdin
from gateway.commands.exit_codes import Exit, Quit
from gateway.domain.errors import BadRequest
from gateway.domain.human_values import parse_past, parse_seconds
from gateway.domain.money import parse_dollars
from gateway.domain.quoting import option_pair, require_names
from gateway.domain.units import Millis

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

NONE = "none"
"""The word that removes a value."""


class WholeNumber(click.IntRange):
    """A whole number in a range, with clearer errors than click's."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return int(super().convert(value, param, ctx))
        except click.BadParameter:
            minimum = f"{self.min or 0:.0f}"
            span = f"from {minimum} to {self.max:.0f}" if self.max is not None else f"of {minimum} or above"
            self.fail(f"{value!r} is not a whole number {span}", param, ctx)


class ParsedText(click.ParamType[T]):
    """A text that a function of the domain parses. BadRequest becomes a usage error."""

    def __init__(self, name: str, read: Callable[[str], T]) -> None:
        self.name = name
        self._read = read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> T:
        try:
            return self._read(str(value))
        except BadRequest as error:
            self.fail(error.message, param, ctx)


def now() -> Millis:
    """Returns the wall-clock time."""
    return Millis(time.time_ns() // 1_000_000)


def parse_renaming(text: str) -> tuple[str, str]:
    """Returns the two names in ``PUBLIC=UPSTREAM``. Raises BadRequest if the second is missing."""
    public, upstream = option_pair(text)
    if not upstream.strip():
        raise BadRequest(f"{text!r} names no upstream model; write PUBLIC=UPSTREAM")
    return public, upstream


def require_text(text: str) -> str:
    """Returns the text. Raises BadRequest if it is empty, as from an unset variable."""
    if not text.strip():
        raise BadRequest("the value is empty; leave the option out instead")
    return text


def with_options(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Returns a decorator that adds these options to a command, in this order."""

    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


NAMES: ParsedText[str] = ParsedText(
    "names", lambda text: require_names(text, "leave the option out, or write '*' for all")
)
SECONDS: ParsedText[float] = ParsedText("number", parse_seconds)
TEXT: ParsedText[str] = ParsedText("text", require_text)
DOLLARS: ParsedText[int] = ParsedText("dollars", parse_dollars)
SINCE: ParsedText[Millis] = ParsedText("when", lambda text: parse_past(text, now()))
UNTIL: ParsedText[Millis] = ParsedText("when", lambda text: parse_past(text, now(), end=True))
RENAMING: ParsedText[tuple[str, str]] = ParsedText("public=upstream", parse_renaming)

YES = "tollkeeper.yes"
"""The key in ``click.Context.meta`` of ``--yes``."""


def yes_option(*names: str, text: str = "Do not ask for confirmation.") -> Callable[[F], F]:
    """Returns ``--yes``, under other ``names`` too. ``confirm`` finds out whether it is given."""
    return click.option(
        *("--yes", "-y", *names),
        is_flag=True,
        expose_value=False,
        callback=lambda ctx, _param, value: ctx.meta.update({YES: value}),
        help=text,
    )


def says_yes() -> bool:
    """Returns whether ``--yes`` is given."""
    return bool(click.get_current_context().meta.get(YES))


def confirm(question: str) -> None:
    """Ask before something is lost. Raises Quit unless the answer is yes; without a terminal, ``--yes`` is required."""
    if says_yes():
        return
    if not stdin.is_terminal():
        raise Quit(f"cannot ask without a terminal; add --yes to answer yes to: {question}", Exit.USAGE)
    if not click.confirm(question, default=False, err=True):
        raise Quit("nothing changed", Exit.FAILED)


Patch = dict[str, object]


def require_changes(patch: Patch) -> Patch:
    """Returns the patch. Raises UsageError if it is empty."""
    if not patch:
        raise click.UsageError("nothing to change; give at least one option")
    return patch
