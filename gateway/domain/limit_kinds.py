"""Limit kinds: the kinds of fields for budgets (``day=5 month=50``) and limits (``rpm=60 tpm=200k``)."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Literal

import msgspec

from gateway.domain.budget import Budget, Window
from gateway.domain.errors import BadRequest
from gateway.domain.field_kinds import NONE_WORD, NONE_WORDS, Field, Number, Option
from gateway.domain.human_values import brief_count, exact_count, parse_count, plural
from gateway.domain.incidents import spent_share
from gateway.domain.limits import DEFAULT_OUTPUT, RATES, Limits
from gateway.domain.list_kinds import Pairs, unique_pairs
from gateway.domain.money import brief_dollars, parse_dollars, typed_dollars
from gateway.domain.output_limit import MAX_TOKEN_COUNT
from gateway.domain.units import Millis
from gateway.domain.views import BudgetView

Amounts = dict[Window, int]
WindowAmount = tuple[Window | None, int | None]
"""A window and its amount. The amount None removes the budget; the window None removes all budgets."""

CHANNEL_LIMITS = (*RATES, "concurrent", "queue", "queue_s")
CLIENT_LIMITS = (*CHANNEL_LIMITS, "streams")
"""The limits of tokens and groups, which also limit streams."""

_TEXTS = {
    **{rate: (name, f"{name.capitalize()}.") for rate, name in RATES.items()},
    "rpm": (RATES["rpm"], "Requests a minute; 'none' removes a limit."),
    "concurrent": ("calls at once", "Calls running at once."),
    "streams": ("streams at once", "Streams running at once. See 'settings show'."),
    "queue": ("calls waiting", "Calls that may wait at once. See 'settings show'."),
    "queue_s": ("seconds of waiting", "Seconds a call may wait for a free slot; 0: not at all. See 'settings show'."),
}
"""The words after each limit, and the help of its option."""

_BETWEEN_AMOUNTS = re.compile(r"[\s,]+(?=[A-Za-z]+(?:=|[\s,]|$))")
"""Matches the separator between two amounts, but not one inside an amount such as ``1,000``."""


def budget_text(budget: Budget) -> str:
    """Returns ``$1.20 of $5.00 a day``, with tokens if they are limited too; or ``$5.00 a day`` if the use is unknown.

    A budget that is used up is marked so, because the rounded amounts may not show it.
    """
    parts = []
    view = budget if isinstance(budget, BudgetView) else None
    if budget.nanos is not None:
        spent = f"{brief_dollars(view.spent_nanos)} of " if view else ""
        parts.append(f"{spent}{brief_dollars(budget.nanos)}")
    if budget.tokens is not None:
        spent = f"{brief_count(view.spent_tokens)} of " if view else ""
        parts.append(f"{spent}{brief_count(budget.tokens)} {plural(budget.tokens, 'token')}")
    end = ", used up" if view and spent_share(view) >= 1 else ""
    return f"{' and '.join(parts)} {budget.window.info.rate}{end}"


def limits_text(limits: Limits) -> str:
    """Returns ``60 requests a minute, 4 calls at once``; empty if nothing is limited."""
    numbers = _set_limits(limits).items()
    return ", ".join(f"{exact_count(number)} {plural(number, _TEXTS[name][0])}" for name, number in numbers)


class Budgets(Pairs[tuple[Budget, ...]], kw_only=True):
    """Budgets in dollars or in tokens. An option changes the budgets of single windows."""

    unit_field: Literal["nanos", "tokens"]
    """The field of a budget that holds the amounts."""
    parse: Callable[[str], int]
    """Returns an amount that was typed. Raises BadRequest."""
    write: Callable[[int], str]
    """Returns the text that one types for an amount."""
    removal: str = NONE_WORD

    def read_option(self, text: str, now: Millis) -> Sequence[WindowAmount]:
        """Returns the amounts in an option. Raises BadRequest for an option without any."""
        return [_window_amount(word, self.parse) for word in _amount_words(text) or [""]]

    def gather(self, field: Field, values: Sequence[Any], before: tuple[Budget, ...]) -> tuple[Budget, ...]:
        """Returns the budgets with the amounts in options. ``none`` without a window removes all earlier ones."""
        pairs = unique_pairs([*chain.from_iterable(values)], field.flags)
        amounts = {} if None in pairs else self.content(before)
        amounts |= {window: amount for window, amount in pairs.items() if window is not None}
        return self.with_content(before, amounts)

    def pairs(self, value: tuple[Budget, ...]) -> Mapping[str, str]:
        return {window.value: self.write(amount) for window, amount in self.content(value).items()}

    def read(self, text: str, now: Millis) -> Amounts:
        pairs = [_window_amount(word, self.parse, NONE_WORDS) for word in _amount_words(text)]
        amounts = unique_pairs(pairs, "the list")
        return {window: amount for window, amount in amounts.items() if window is not None and amount is not None}

    def content(self, value: tuple[Budget, ...]) -> Amounts:
        amounts = {budget.window: getattr(budget, self.unit_field) for budget in value}
        return {window: amount for window, amount in amounts.items() if amount is not None}

    def with_content(self, value: tuple[Budget, ...], content: Mapping[Window, int | None]) -> tuple[Budget, ...]:
        amounts: dict[str, dict[str, Any]] = {b.window: {"nanos": b.nanos, "tokens": b.tokens} for b in value}
        budgets = [
            Budget(window=window, **amounts.get(window, {}) | {self.unit_field: content.get(window)})
            for window in Window
        ]
        return tuple(budget for budget in budgets if budget.nanos is not None or budget.tokens is not None)

    def show(self, value: tuple[Budget, ...]) -> str:
        return "; ".join(map(budget_text, value))


DOLLAR_BUDGETS = Budgets(unit_field="nanos", parse=parse_dollars, write=typed_dollars, metavar="WINDOW=DOLLARS")
TOKEN_BUDGETS = Budgets(unit_field="tokens", parse=parse_count, write=exact_count, metavar="WINDOW=COUNT")


class RateLimits(Pairs[Limits], kw_only=True):
    """Rate limits, with one input for all of them and an option for each."""

    names: Sequence[str]
    removal: str = NONE_WORD

    def options(self, field: Field) -> Sequence[Option]:
        return [
            Option(flags=_flag(name), name=name, help=_TEXTS[name][1], metavar="COUNT", read=partial(_limit, name))
            for name in self.names
        ]

    def change(self, field: Field, options: Mapping[str, Any], before: Limits) -> Any:
        changes = {name: change[0] for name in self.names if (change := options.get(name)) is not None}
        return msgspec.structs.replace(before, **changes) if changes else msgspec.UNSET

    def pairs(self, value: Limits) -> Mapping[str, str]:
        return {name: exact_count(number) for name, number in _set_limits(value).items()}

    def read(self, text: str, now: Millis) -> Limits:
        return Limits(**self.changes(text))

    def changes(self, text: str) -> dict[str, int | None]:
        """Returns the limits in a text, where None removes one; ``none`` alone removes all. Raises BadRequest."""
        if text.strip().lower() in NONE_WORDS[1:]:
            return dict.fromkeys(self.names)
        pairs: list[tuple[str, int | None]] = []
        for word in text.replace(",", " ").split():
            name, equals, number = word.partition("=")
            if name not in self.names or not equals:
                raise BadRequest(f"unknown limit {word!r}; use {', '.join(self.names)}, as in rpm=60")
            pairs.append((name, _limit(name, number)))
        return unique_pairs(pairs, "the list")

    def arguments(self, field: Field, before: Limits, after: Limits) -> Sequence[str]:
        return [part for name, text in self.changed_pairs(before, after).items() for part in (_flag(name), text)]

    def show(self, value: Limits) -> str:
        return limits_text(value)


class OutputHold(Number):
    """The maximum output tokens that a call holds; 0 for all that it may use."""

    maximum: int | None = MAX_TOKEN_COUNT
    empty_word: str = "all"

    def read(self, text: str, now: Millis) -> int:
        return 0 if text.strip().lower() in (self.empty_word, *NONE_WORDS) else super().read(text, now)

    def text(self, value: int) -> str:
        return exact_count(value) if value else ""

    def show(self, value: int) -> str:
        if value:
            return f"{exact_count(value)} {plural(value, 'token')} of a call, even if its own limit is higher"
        claude = "of Claude models up to their limit, 1,024 at least"
        otherwise = f"{DEFAULT_OUTPUT} tokens ({claude}), or what the money left pays for"
        return f"what a call's limit allows; without one {otherwise}"


def _amount_words(text: str) -> Sequence[str]:
    """Returns the amounts of ``day=5 month=50``, separated by spaces or commas."""
    return _BETWEEN_AMOUNTS.split(text.strip(" ,")) if text.strip(" ,") else []


def _window_amount(text: str, parse: Callable[[str], int], none_words: Sequence[str] = (NONE_WORD,)) -> WindowAmount:
    """Returns the window and amount of ``day=5``, ``month=none`` or ``none``. Raises BadRequest."""
    name, equals, amount = text.strip().rpartition("=")
    if amount in none_words and not equals:
        return None, None
    try:
        window = Window(name)
    except ValueError:
        *others, last = Window
        problem = f"unknown budget window {name!r}; use" if equals else "a budget needs a window:"
        raise BadRequest(f"{problem} {', '.join(others)} or {last}, as in day=5") from None
    return window, None if amount in none_words else parse(amount)


def _limit(name: str, text: str, _now: Millis | None = None) -> int | None:
    """Returns a limit, or None to remove it. Raises BadRequest for one that would stop every call."""
    if text.strip().lower() in NONE_WORDS[1:]:
        return None
    if (number := parse_count(text)) or name in ("queue", "queue_s"):  # 0 only means that no call waits
        return number
    raise BadRequest(f"{name} must be above 0; use '{NONE_WORD}' for no limit")


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _set_limits(limits: Limits) -> dict[str, int]:
    return {name: number for name, number in msgspec.structs.asdict(limits).items() if number is not None}
