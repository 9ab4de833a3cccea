"""Kinds of fields for budgets (``day=5 month=50``) and limits (``rpm=60 tpm=200k``)."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec

from gateway.domain.budget import Budget, Window
from gateway.domain.errors import BadRequest
from gateway.domain.field_kinds import NONE_WORDS, Field, Input, Kind, Number, Option, once
from gateway.domain.human_values import brief_count, count_of, plural
from gateway.domain.incidents import spent_share
from gateway.domain.limits import DEFAULT_OUTPUT, Limits
from gateway.domain.money import brief_dollars, dollars, nanos_of
from gateway.domain.units import Millis
from gateway.domain.views import BudgetView

Amounts = dict[Window, int]
WindowAmount = tuple[Window | None, int | None]
"""An amount and its window; without an amount it is removed, without a window that of all."""

NONE = "none"
"""The word that removes a limit."""
ALL = "all"

CHANNEL_LIMITS = ("rpm", "tpm", "rpd", "tpd", "concurrent", "queue", "queue_s")
CLIENT_LIMITS = (*CHANNEL_LIMITS, "streams")
"""Of tokens and groups: streams are limited for those who ask."""

MAY_BE_ZERO = ("queue", "queue_s")
"""Limits of which 0 does not mean that nothing passes."""

_OPTION_HELP = {
    "rpm": "Requests a minute; 'none' removes a limit.",
    "tpm": "Tokens a minute.",
    "rpd": "Requests a day.",
    "tpd": "Tokens a day.",
    "concurrent": "Calls running at once.",
    "queue": "Calls that may wait at once. See 'settings show'.",
    "queue_s": "Seconds a call may wait for a free slot; 0: not at all. See 'settings show'.",
    "streams": "Streams running at once. See 'settings show'.",
}
_SHOWN = {
    "rpm": "requests a minute",
    "tpm": "tokens a minute",
    "rpd": "requests a day",
    "tpd": "tokens a day",
    "concurrent": "calls at once",
    "streams": "streams at once",
    "queue": "calls waiting",
    "queue_s": "seconds of waiting",
}


_BETWEEN_AMOUNTS = re.compile(r"[\s,]+(?=[A-Za-z]+(?:=|[\s,]|$))")
_EXAMPLES = [f"{window}={window.info.example}" for window in Window]


def exact_count(number: int) -> str:
    """A count as it is typed: short if that loses nothing."""
    brief = brief_count(number)
    return brief if count_of(brief) == number else str(number)


def budget_text(budget: Budget) -> str:
    """``$1.20 of $5.00 a day``, and the same in tokens; of a budget without its use only the limits.

    One that is used up says so: its numbers are rounded.
    """
    parts = []
    used = budget if isinstance(budget, BudgetView) else None
    if budget.nanos is not None:
        spent = f"{brief_dollars(used.spent_nanos)} of " if used else ""
        parts.append(f"{spent}{brief_dollars(budget.nanos)}")
    if budget.tokens is not None:
        spent = f"{brief_count(used.spent_tokens)} of " if used else ""
        parts.append(f"{spent}{brief_count(budget.tokens)} {plural(budget.tokens, 'token')}")
    end = ", used up" if used and spent_share(used) >= 1 else ""
    return f"{' and '.join(parts)} {budget.window.info.rate}{end}"


def limits_text(limits: Limits) -> str:
    """``60 requests a minute, 4 calls at once``; empty if there are none."""
    return ", ".join(
        f"{exact_count(number)} {plural(number, _SHOWN[name])}" for name, number in _set_limits(limits).items()
    )


class Budgets(Kind[tuple[Budget, ...]]):
    """Budgets in dollars and in tokens: two inputs, and two options that change single windows."""

    def options(self, field: Field) -> Sequence[Option]:
        return [
            Option(
                flags="--budget",
                name="dollar_budgets",
                help=f"Dollars per window: {', '.join(_EXAMPLES)}; day=none removes one, none removes all. "
                "May be repeated.",
                metavar="WINDOW=DOLLARS",
                read=_amounts_reader(nanos_of),
                multiple=True,
            ),
            Option(
                flags="--tokens-budget",
                name="token_budgets",
                help="The same in tokens: day=1M, month=none.",
                metavar="WINDOW=COUNT",
                read=_amounts_reader(count_of),
                multiple=True,
            ),
        ]

    def change(self, field: Field, given: Mapping[str, Any], before: tuple[Budget, ...]) -> Any:
        in_dollars, in_tokens = given.get("dollar_budgets"), given.get("token_budgets")
        if not (in_dollars or in_tokens):
            return msgspec.UNSET
        dollars_now, tokens_now = {b.window: b.nanos for b in before}, {b.window: b.tokens for b in before}
        nanos = _change_amounts(dollars_now, chain.from_iterable(in_dollars or ()), "--budget")
        tokens = _change_amounts(tokens_now, chain.from_iterable(in_tokens or ()), "--tokens-budget")
        return _budgets(nanos, tokens)

    def inputs(self, field: Field) -> Sequence[Input]:
        return [
            Input(id=field.name, label="Budget, dollars", placeholder=f"none, or {' '.join(_EXAMPLES)}"),
            Input(id="token_budgets", label="Budget, tokens", placeholder="none, or day=1M"),
        ]

    def texts(self, value: tuple[Budget, ...]) -> Sequence[str]:
        return [
            " ".join(f"{one.window.value}={_dollars(one.nanos)}" for one in value if one.nanos is not None),
            " ".join(f"{one.window.value}={exact_count(one.tokens)}" for one in value if one.tokens is not None),
        ]

    def parts(self, value: tuple[Budget, ...]) -> Sequence[Amounts]:
        return [
            {one.window: one.nanos for one in value if one.nanos is not None},
            {one.window: one.tokens for one in value if one.tokens is not None},
        ]

    def parse(self, number: int, text: str, now: Millis) -> Amounts:
        read = nanos_of if number == 0 else count_of
        pairs = (_window_amount(word, read, NONE_WORDS) for word in _amount_words(text))
        return {window: amount for window, amount in pairs if window is not None and amount is not None}

    def join(self, parts: Sequence[Amounts]) -> tuple[Budget, ...]:
        return _budgets(*parts)

    def arguments(self, field: Field, before: tuple[Budget, ...], after: tuple[Budget, ...]) -> Sequence[str]:
        out: list[str] = []
        for flag, number in (("--budget", 0), ("--tokens-budget", 1)):
            old, new = (
                dict(word.split("=") for word in self.texts(value)[number].split()) for value in (before, after)
            )
            changed = {name: amount for name, amount in new.items() if old.get(name) != amount}
            changed |= {name: NONE for name in old if name not in new}
            out += [part for name, amount in changed.items() for part in (flag, f"{name}={amount}")]
        return out

    def show(self, value: tuple[Budget, ...]) -> str:
        return "; ".join(map(budget_text, value))

    def body(self, value: tuple[Budget, ...]) -> Any:
        return [{"window": one.window.value, "nanos": one.nanos, "tokens": one.tokens} for one in value]


class RateLimits(Kind[Limits]):
    """Limits: one input, and an option for each."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def options(self, field: Field) -> Sequence[Option]:
        return [
            Option(flags=_flag(name), name=name, help=_OPTION_HELP[name], metavar="COUNT", read=_reader(name))
            for name in self._names
        ]

    def change(self, field: Field, given: Mapping[str, Any], before: Limits) -> Any:
        changes = {name: change[0] for name in self._names if (change := given.get(name)) is not None}
        return msgspec.structs.replace(before, **changes) if changes else msgspec.UNSET

    def texts(self, value: Limits) -> Sequence[str]:
        return [" ".join(f"{name}={exact_count(number)}" for name, number in _set_limits(value).items())]

    def read(self, text: str, now: Millis) -> Limits:
        values: dict[str, int | None] = {}
        for word in text.replace(",", " ").split():
            name, equals, number = word.partition("=")
            if name not in self._names or not equals:
                raise BadRequest(f"unknown limit {word!r}; use {', '.join(self._names)}, as in rpm=60")
            values[name] = None if number in NONE_WORDS else count_of(number)
            if values[name] == 0 and name not in MAY_BE_ZERO:
                raise BadRequest(f"{name}=0 would block every call; leave it out for no limit")
        return Limits(**values)

    def arguments(self, field: Field, before: Limits, after: Limits) -> Sequence[str]:
        old, new = _set_limits(before), _set_limits(after)
        changed = {name: exact_count(number) for name, number in new.items() if old.get(name) != number}
        changed |= {name: NONE for name in old if name not in new}
        return [part for name, number in changed.items() for part in (_flag(name), number)]

    def show(self, value: Limits) -> str:
        return limits_text(value)

    def body(self, value: Limits) -> Any:
        return msgspec.structs.asdict(value)


class OutputHold(Number):
    """Output tokens that a call holds at most; 0: all that it may use."""

    def read(self, text: str, now: Millis) -> int:
        return 0 if text.strip().lower() in (ALL, *NONE_WORDS) else super().read(text, now)

    def texts(self, value: int) -> Sequence[str]:
        return [exact_count(value) if value else ""]

    def argument(self, value: int) -> str:
        return exact_count(value) if value else ALL

    def show(self, value: int) -> str:
        if value:
            return f"{exact_count(value)} {plural(value, 'token')} of a call, even if its own limit is higher"
        claude = "of Claude models up to their limit, 1,024 at least"
        otherwise = f"{DEFAULT_OUTPUT} tokens ({claude}), or what the money left pays for"
        return f"what a call's limit allows; without one {otherwise}"


def _budgets(nanos: Mapping[Window, int | None], tokens: Mapping[Window, int | None]) -> tuple[Budget, ...]:
    both = ((window, nanos.get(window), tokens.get(window)) for window in Window)
    return tuple(
        msgspec.convert({"window": window, "nanos": amount, "tokens": count}, Budget)
        for window, amount, count in both
        if amount is not None or count is not None
    )


def _change_amounts(
    before: Mapping[Window, int | None], given: Iterable[WindowAmount], option: str
) -> dict[Window, int | None]:
    """The amounts with the given ones; a given ``none`` for all windows forgets those of before."""
    amounts = once([*given], option)
    kept = {} if None in amounts else before
    return {**kept, **{window: amount for window, amount in amounts.items() if window is not None}}


def _amount_words(text: str) -> Sequence[str]:
    """Those of ``day=5 month=50``, with spaces or commas between them."""
    return _BETWEEN_AMOUNTS.split(text.strip(" ,")) if text.strip(" ,") else []


def _amounts_reader(read: Callable[[str], int]) -> Callable[[str, Millis], Sequence[WindowAmount]]:
    """Reads what an option is given, at least one amount."""
    return lambda text, _now: [_window_amount(word, read) for word in _amount_words(text) or [""]]


def _window_amount(text: str, read: Callable[[str], int], none_words: Sequence[str] = (NONE,)) -> WindowAmount:
    """``day=5``, ``month=none``; ``none`` alone is for all windows. Raises BadRequest if none is named."""
    name, equals, amount = text.strip().rpartition("=")
    if amount in none_words and not equals:
        return None, None
    try:
        window = Window(name)
    except ValueError:
        windows = [*Window]
        known = f"{', '.join(windows[:-1])} or {windows[-1]}"
        if not equals:
            number, _, named = amount.partition("/")
            example = f"{named}={number}" if named in windows else f"day={amount} or ever={amount}"
            if named not in windows and not amount.replace(".", "").isdecimal():
                example = "day=5 or ever=5"
            raise BadRequest(f"a budget needs a window: {known}, as in {example}") from None
        raise BadRequest(f"unknown budget window {name!r}; use {known}, as in day=5") from None
    return window, None if amount in none_words else read(amount)


def _reader(name: str) -> Callable[[str, Millis], tuple[int | None]]:
    """Reads one limit, into a tuple: that tells a limit that is removed from one that is not given."""

    def read(text: str, _now: Millis) -> tuple[int | None]:
        if text.strip().lower() in NONE_WORDS[1:]:
            return (None,)
        if (number := count_of(text)) or name in MAY_BE_ZERO:
            return (number,)
        raise BadRequest(f"{_flag(name)} must be above 0; use '{NONE}' for no limit")

    return read


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _set_limits(limits: Limits) -> dict[str, int]:
    return {name: number for name, number in msgspec.structs.asdict(limits).items() if number is not None}


def _dollars(nanos: int) -> str:
    return dollars(nanos).replace("$", "").replace(",", "").removesuffix(".00")
