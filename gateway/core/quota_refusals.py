"""Quota refusals: which budget is too small for a call, what is left of it, which running calls hold the rest, and what
to do about it.

A client learns the ids of all calls that hold the money, but only its own token's models.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from gateway.domain.advice import advice
from gateway.domain.budget import WARN_SHARE, Budget, budget_name, share_of
from gateway.domain.call import ACCOUNT, Running, Scope
from gateway.domain.errors import GatewayError, QuotaExceeded
from gateway.domain.human_values import percent_text, plural, zoned_time
from gateway.domain.money import dollars
from gateway.domain.text import plain, word
from gateway.domain.token import Token
from gateway.domain.units import Millis, Nanos
from gateway.domain.views import iso

ADVISED_OUTPUT = 8000


STATUSES: Final[Mapping[str, int]] = {"ai-sdk": 402, "codex": 400, "continue": 402, "opencode": 402, "qwencode": 402}
"""The HTTP status at which a program stops and shows the message, by the beginning of its name. At 429 these programs
make the call again, some for minutes and silently, whatever the answer says; Codex stops, but shows words of its own.
Programs made with Vercel's AI SDK, such as Cline, have its name."""

WHILE_HELD = "while_held"
"""In the details of the error: the call would fit once the running calls have ended."""


def set_quota_status(error: GatewayError, app: str, *, bundled: bool) -> None:
    """Give a quota refusal the HTTP status for this program. ``bundled``: the program contains an SDK.

    Users of an SDK expect 429, and the SDK obeys ``x-should-retry``; a program around it may retry by itself.
    """
    if isinstance(error, QuotaExceeded):
        name, usual = app.casefold(), 402 if bundled else QuotaExceeded.status
        error.status = next((status for known, status in STATUSES.items() if name.startswith(known)), usual)


class Headroom(msgspec.Struct, frozen=True, kw_only=True):
    """What one budget leaves."""

    label: str
    code: str
    nanos: int | None
    tokens: int | None
    resets: Millis | None
    whose: str = ""
    """Whose budget it is: ``account``, ``group`` or ``token``."""
    name: str = ""
    window: str = ""
    warning: str = ""
    """A warning that most of it is spent."""
    scope: Scope = ACCOUNT


class Shortage(msgspec.Struct, frozen=True, kw_only=True):
    """A call for which the budget is too small."""

    token: Token
    held_output: int
    """The output tokens that it must hold for."""
    needs: int
    """What it needs, in nano-dollars or tokens."""
    in_tokens: bool = False

    def amount(self, number: int) -> str:
        """Returns an amount of nano-dollars or tokens in words."""
        return f"{number} {plural(number, 'token')}" if self.in_tokens else dollars(number)

    def held_by(self, call: Running) -> int:
        """Returns what a running call holds."""
        return call.held_tokens if self.in_tokens else call.held


def quota_exceeded(headroom: Headroom, shortage: Shortage, running: Iterable[Running]) -> QuotaExceeded:
    """Returns the error of a call for which this budget is too small. ``running`` are the calls charged to it."""
    left = (headroom.tokens if shortage.in_tokens else headroom.nanos) or 0
    details: dict[str, object] = {} if headroom.resets is None else {"resets_at": iso(headroom.resets)}
    if headroom.whose:
        unit = "tokens" if shortage.in_tokens else "dollars"
        details |= {"budget_of": headroom.whose, "budget_window": headroom.window, "budget_unit": unit}
    else:
        details["missing_nanos"] = shortage.needs - left
    fix = advice(QuotaExceeded("", code=headroom.code, details=details), token=headroom.name, group=headroom.name)
    holders = sorted(filter(shortage.held_by, running), key=shortage.held_by, reverse=True)
    if shortage.needs <= left + sum(map(shortage.held_by, holders)):
        details[WHILE_HELD] = True
    state = _state(headroom, shortage, left, holders)
    parts = [state]
    if headroom.resets is not None:
        parts.append(f"it resets at {zoned_time(headroom.resets)}")
    parts.append(fix)
    if shortage.held_output > 16_000:  # programs ask for all they can get, and need far fewer
        edit = f"'tollkeeper token edit {word(shortage.token.name)} --hold-output {ADVISED_OUTPUT}'"
        if shortage.token.temporary:
            edit += f", or for the next program 'tollkeeper run --hold-output {ADVISED_OUTPUT} -- PROGRAM'"
        parts.append(f"or hold less for each call than the {shortage.held_output} output tokens that it allows: {edit}")
    if shortage.token.temporary and headroom.whose == "token":
        parts.append("once its program has ended, give the next one more: 'tollkeeper run --budget AMOUNT -- PROGRAM'")
    error = QuotaExceeded("; ".join(parts), code=headroom.code, details=details)
    error.state = state
    return error


def _state(headroom: Headroom, shortage: Shortage, left: int, holders: Sequence[Running]) -> str:
    held = sum(map(shortage.held_by, holders))
    named = _holder_names(shortage, holders)
    if not headroom.whose or left > 0:
        has = max(0, left) if headroom.whose else left  # only the account may know its debt
        needs = shortage.amount(shortage.needs)
        state = f"{headroom.label} has {shortage.amount(has)} left, and this call may need {needs}"
        return f"{state}; running calls hold {shortage.amount(held)}: {named}" if holders else state
    if left + held <= 0:
        return f"{headroom.label} is used up"
    return f"running calls hold the rest of {headroom.label}: {named}"


def _holder_names(shortage: Shortage, holders: Sequence[Running]) -> str:
    shown = holders[:3]
    models = [plain(call.model, 80) if call.token == shortage.token.id else "another token's" for call in shown]
    named = ", ".join(
        f"{call.id} ({model}) {shortage.amount(shortage.held_by(call))}"
        for call, model in zip(shown, models, strict=True)
    )
    return f"{named} and {len(holders) - len(shown)} more" if len(holders) > len(shown) else named


def budget_warning(owner: str, budget: Budget, nanos: Nanos, tokens: int) -> str:
    """Returns ``daily budget of token 'ci': 84% spent`` from ``WARN_SHARE`` on. Holds do not count."""
    share = share_of(budget, nanos, tokens)
    return f"{budget_name(budget.window, owner)}: {percent_text(share)} spent" if share >= WARN_SHARE else ""
