"""Options that several commands share, their types, and the patches that an edit sends.

A patch replaces a field as a whole, so budgets and limits are laid over the present ones.
"""

import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isnan
from typing import Any, TypeVar

import click
import msgspec

from gateway.commands.completion import MODELS, several
from gateway.commands.exit_codes import Exit, Quit
from gateway.domain.errors import BadRequest
from gateway.domain.human_values import count_of, future_of, multiplier_of, past_of, tier_of
from gateway.domain.limits import Limits, Window
from gateway.domain.money import nanos_of
from gateway.domain.price import Tier
from gateway.domain.units import Millis
from gateway.domain.views import BudgetView

K = TypeVar("K")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

NO_MATTER = "none"
"""The word that takes a limit away."""


class Seconds(click.FloatRange):
    """A number of seconds up to a day. ``nan`` lies in every range and is none."""

    def __init__(self) -> None:
        super().__init__(0, 86_400)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read it."""
        seconds = float(super().convert(value, param, ctx))
        if isnan(seconds):
            self.fail(f"{value!r} is not a number of seconds from 0 to 86400", param, ctx)
        return seconds


class Parsed(click.ParamType[T]):
    """A written value, read by a function of the domain; its BadRequest becomes a usage error."""

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
    """The wall clock."""
    return Millis(time.time_ns() // 1_000_000)


def or_none(read: Callable[[str], T]) -> Callable[[str], tuple[T | None]]:
    """The same reading, in which a word takes the value away. A tuple of one tells that from an option not given."""
    return lambda text: (None,) if text.strip().lower() in (NO_MATTER, "never") else (read(text),)


def pair(text: str) -> tuple[str, str]:
    """The two sides of ``NAME=VALUE``."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise BadRequest(f"{text!r} is not of the form NAME=VALUE")
    return name, value


def renaming(text: str) -> tuple[str, str]:
    """The two names of ``PUBLIC=UPSTREAM``."""
    public, upstream = pair(text)
    if not upstream.strip():
        raise BadRequest(f"{text!r} does not say what the upstream calls it; write PUBLIC=UPSTREAM")
    return public, upstream


def windowed(read: Callable[[str], int]) -> Callable[[str], tuple[Window, int | None]]:
    """The reading of ``day=5``, ``month=none``, or ``5`` for one that lasts for ever."""

    def window_and_amount(text: str) -> tuple[Window, int | None]:
        name, equals, amount = text.rpartition("=")
        try:
            window = Window(name) if equals else Window.EVER
        except ValueError:
            known = ", ".join(Window)
            raise BadRequest(f"{name!r} is no budget window; known are {known}, as in day=5") from None
        return window, None if amount == NO_MATTER else read(amount)

    return window_and_amount


def names(texts: tuple[str, ...]) -> list[str]:
    """The names of an option that takes several, separated by commas or given again."""
    return list(dict.fromkeys(name.strip() for text in texts for name in text.split(",") if name.strip()))


def some(text: str) -> str:
    """Text that says something; raises BadRequest for an empty one, such as a variable that was not set."""
    if not text.strip():
        raise BadRequest("it is empty; leave the option out if none is meant")
    return text


def naming(otherwise: str) -> Parsed[str]:
    """Names for ``names``, at least one: an empty list, such as a variable that was not set, would mean all or none."""

    def read(text: str) -> str:
        if not names((text,)):
            raise BadRequest(f"{text!r} names nothing; {otherwise}")
        return text

    return Parsed("names", read)


def once(pairs: Iterable[tuple[K, T]], option: str) -> dict[K, T]:
    """The values by name. Raises BadParameter if one is given twice: which one is meant cannot be told."""
    found: dict[K, T] = {}
    for name, value in pairs:
        if name in found:
            raise click.BadParameter(f"'{name}' is given twice", param_hint=option)
        found[name] = value
    return found


NAMES = naming("leave the option out, or write '*' for all")
SOME: Parsed[str] = Parsed("text", some)
DOLLARS: Parsed[int] = Parsed("dollars", nanos_of)
TIER: Parsed[Tier] = Parsed("tier", tier_of)
BUDGET: Parsed[tuple[Window, int | None]] = Parsed("window=dollars", windowed(nanos_of))
TOKENS_BUDGET: Parsed[tuple[Window, int | None]] = Parsed("window=count", windowed(count_of))
LIMIT: Parsed[tuple[int | None]] = Parsed("count", or_none(count_of))
MULTIPLIER: Parsed[int] = Parsed("factor", multiplier_of)
EXPIRY: Parsed[tuple[Millis | None]] = Parsed("when", or_none(lambda text: future_of(text, now())))
SINCE: Parsed[Millis] = Parsed("when", lambda text: past_of(text, now()))
UNTIL: Parsed[Millis] = Parsed("when", lambda text: past_of(text, now(), end=True))
PAIR: Parsed[tuple[str, str]] = Parsed("name=value", pair)
RENAMING: Parsed[tuple[str, str]] = Parsed("public=upstream", renaming)


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON; field names are stable.")
yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask.")


def budget_options(command: F) -> F:
    """``--budget`` and ``--tokens-budget``."""
    command = click.option(
        "--tokens-budget",
        "token_budgets",
        type=TOKENS_BUDGET,
        multiple=True,
        help="The same in tokens: day=1M, month=none.",
    )(command)
    return click.option(
        "--budget",
        "dollar_budgets",
        type=BUDGET,
        multiple=True,
        help="Dollars in a window: day=5, week=20, month=50, ever=100, day=none. May be given several times.",
    )(command)


def limit_options(command: F) -> F:
    """``--rpm``, ``--tpm``, ``--rpd``, ``--tpd``, ``--concurrent`` and who waits; ``none`` takes a limit away."""
    for name, text in (
        ("queue-s", "Seconds a call may wait for a place among those in flight; 0: none. See 'settings show'."),
        ("queue", "Calls that may wait at a time. See 'settings show'."),
        ("concurrent", "Calls in flight."),
        ("tpd", "Tokens a day."),
        ("rpd", "Requests a day."),
        ("tpm", "Tokens a minute."),
        ("rpm", "Requests a minute; 'none' takes a limit away."),
    ):
        command = click.option(f"--{name}", type=LIMIT, help=text)(command)
    return command


def stream_option(command: F) -> F:
    """``--streams``: a limit of those who ask, not of channels."""
    return click.option("--streams", type=LIMIT, help="Streams in flight. See 'settings show'.")(command)


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something is lost; no is the default. Without a terminal ``--yes`` is needed. Raises Quit."""
    if yes:
        return
    if not (sys.stdin and sys.stdin.isatty()):
        raise Quit("this asks before it acts and there is no terminal to ask on; add --yes", Exit.USAGE)
    if not click.confirm(question, default=False, err=True):
        raise Quit("nothing was changed", Exit.FAILED)


def patterns_option(text: str) -> Callable[[F], F]:
    """Which models, as patterns."""
    return click.option(
        "--models", type=NAMES, multiple=True, metavar="PATTERNS", shell_complete=several(MODELS), help=text
    )


Patch = dict[str, object]
Amounts = Sequence[tuple[Window, int | None]]


def given(**values: object) -> Patch:
    """Those of the values that were given at all."""
    return {name: value for name, value in values.items() if value is not None}


def something(patch: Patch) -> Patch:
    """The patch itself; raises UsageError when it changes nothing."""
    if not patch:
        raise click.UsageError("nothing to change; name at least one option", click.get_current_context())
    return patch


def one_of(none: str, some: str, *, both: bool) -> None:
    """Raises UsageError when both an option and the one that drops all it says are given."""
    if both:
        raise click.UsageError(f"{none} and {some} exclude each other", click.get_current_context())


def budgets(there: Sequence[BudgetView], in_dollars: Amounts, in_tokens: Amounts) -> Patch:
    """The budgets with some amounts set and some (None) taken away; no field at all when nothing was asked."""
    if not (in_dollars or in_tokens):
        return {}
    nanos = {view.window: view.nanos for view in there} | once(in_dollars, "--budget")
    tokens = {view.window: view.tokens for view in there} | once(in_tokens, "--tokens-budget")
    found = [(window, nanos.get(window), tokens.get(window)) for window in Window]
    return {
        "budgets": [
            {"window": window.value, "nanos": amount, "tokens": count}
            for window, amount, count in found
            if amount is not None or count is not None
        ]
    }


def limits(there: Limits, changes: Mapping[str, tuple[int | None] | None]) -> Patch:
    """The limits with some set and some (None) taken away; no field at all when nothing was asked."""
    asked = {name: change[0] for name, change in changes.items() if change is not None}
    return {"limits": msgspec.structs.asdict(there) | asked} if asked else {}
