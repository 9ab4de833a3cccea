"""Quota: may this call be afforded, and how much is held for it.

Every budget that applies (the account's balance and budgets, the group's, the token's) is looked at together, before
anything is committed. A hold is the most that the call's input and the output that its caps allow can cost (see
``allowance``); without a cap it is what a usual answer costs, or all that is left.
"""

from collections.abc import Iterator
from typing import Literal, Protocol

import msgspec

from gateway.core.allowance import Need
from gateway.domain.account import Account, AccountStatus
from gateway.domain.advice import advice
from gateway.domain.errors import QuotaExceeded
from gateway.domain.group import Group
from gateway.domain.human_values import zoned_time
from gateway.domain.limits import Budget, window_end, window_start
from gateway.domain.money import dollars
from gateway.domain.token import Token
from gateway.domain.units import Millis, Nanos
from gateway.domain.views import iso

Scope = tuple[Literal["account", "token", "group", "channel"], str]
"""Whose money: ``("account", "")``, ``("token", id)`` or ``("group", name)``."""

ACCOUNT: Scope = ("account", "")


class Amounts(Protocol):
    """Sums over calls."""

    @property
    def nanos(self) -> Nanos:
        """Nano-dollars."""

    @property
    def tokens(self) -> int:
        """Input and output tokens."""

    @property
    def calls(self) -> int:
        """How many calls."""


class Purse(Protocol):
    """The part of the books that knows about money."""

    def available(self) -> Nanos:
        """Granted, less what is spent and held."""

    def spent(self, scope: Scope, since: Millis) -> Amounts:
        """Settled calls that were accepted at or after a moment."""

    def held(self, scope: Scope) -> Amounts:
        """Running calls."""


class HoldPlan(msgspec.Struct, frozen=True, gc=False):
    """The amounts to hold."""

    nanos: Nanos
    tokens: int


class _Headroom(msgspec.Struct, frozen=True, kw_only=True):
    """What one budget leaves."""

    label: str
    code: str
    nanos: int | None
    tokens: int | None
    resets: Millis | None
    whose: str = ""
    """Of a budget: ``account``, ``group`` or ``token``."""
    name: str = ""
    window: str = ""


def plan_hold(books: Purse, account: Account, group: Group, token: Token, need: Need, *, now: Millis) -> HoldPlan:
    """The hold for a call. Raises QuotaExceeded, naming the budget that is too small; changes nothing."""
    if account.status is AccountStatus.SUSPENDED:
        msg = "the account is suspended; 'tollkeeper account set --status active' lets it spend again"
        raise QuotaExceeded(msg, code="account_suspended")
    full, free = need.nanos, need.free
    budgets = account.budgets or group.budgets or token.budgets
    if not budgets and (free or 0 < full <= books.available()):  # the usual case: there is enough, and nobody budgets
        return HoldPlan(full, need.input + need.output)
    rooms = list(_rooms(books, account, group, token, now=now))
    return HoldPlan(full if free else _nanos(rooms, need), _tokens(rooms, need))


def left_to_stop(books: Purse, account: Account, token: Token, *, now: Millis) -> int | None:
    """Nano-dollars left to those who want a running stream ended when their money is gone; None if nobody does."""
    lefts = [int(books.available())] if account.stop_when_empty else []
    if token.stop_when_empty:
        scope: Scope = ("token", token.id)
        for budget in token.budgets:
            if budget.nanos is not None:
                spent = books.spent(scope, window_start(budget.window, now))
                lefts.append(budget.nanos - spent.nanos - books.held(scope).nanos)
    return min(lefts, default=None)


def _nanos(rooms: list[_Headroom], need: Need) -> Nanos:
    left = need.nanos
    for room in rooms:
        if room.nanos is not None:
            if room.nanos <= 0 or need.least > room.nanos:
                has = max(0, room.nanos) if room.whose else room.nanos  # what the account owes is its to know
                raise _exceeded(room, dollars(has), dollars(need.least), "dollars", missing=need.least - room.nanos)
            left = min(left, Nanos(room.nanos))
    return left


def _tokens(rooms: list[_Headroom], need: Need) -> int:
    left, least = need.input + need.output, need.input + need.minimum
    for room in rooms:
        if room.tokens is not None:
            if room.tokens <= 0 or least > room.tokens:
                raise _exceeded(room, f"{max(0, room.tokens)} tokens", f"{least} tokens", "tokens")
            left = min(left, room.tokens)
    return left


def _rooms(books: Purse, account: Account, group: Group, token: Token, *, now: Millis) -> Iterator[_Headroom]:
    yield _Headroom(
        label="the account",
        code="insufficient_quota",
        nanos=books.available(),
        tokens=None,
        resets=None,
    )
    for scope, budgets, name, code in (
        (ACCOUNT, account.budgets, "", "insufficient_quota"),
        (("group", group.name), group.budgets, group.name, "group_quota_exceeded"),
        (("token", token.id), token.budgets, token.name, "token_quota_exceeded"),
    ):
        for budget in budgets:
            yield _room(books, scope, budget, (name, code), now)


def _room(books: Purse, scope: Scope, budget: Budget, words: tuple[str, str], now: Millis) -> _Headroom:
    name, code = words
    label = f"{scope[0]} '{name}'" if name else "the account"
    spent = books.spent(scope, window_start(budget.window, now))
    held = books.held(scope)
    ever = budget.window.value == "ever"
    return _Headroom(
        label=f"{label}'s budget" if ever else f"{label}'s budget of the {budget.window.value}",
        code=code,
        nanos=None if budget.nanos is None else budget.nanos - spent.nanos - held.nanos,
        tokens=None if budget.tokens is None else budget.tokens - spent.tokens - held.tokens,
        resets=window_end(budget.window, now),
        whose=scope[0],
        name=name,
        window=budget.window.value,
    )


def _exceeded(room: _Headroom, left: str, needs: str, unit: str, *, missing: int = 0) -> QuotaExceeded:
    back = "" if room.resets is None else f"; it starts afresh at {zoned_time(room.resets)}"
    details: dict[str, object] = {} if room.resets is None else {"resets_at": iso(room.resets)}
    if room.whose:
        details |= {"budget_of": room.whose, "budget_window": room.window, "budget_unit": unit}
    else:
        details["missing_nanos"] = missing
    fix = advice(QuotaExceeded("", code=room.code, details=details), token=room.name, group=room.name)
    msg = f"{room.label} has {left} left and this call may need {needs}{back}; {fix}"
    return QuotaExceeded(msg, code=room.code, details=details)
