"""Quota refusals: which budget is too small for a call, what is left, which running calls hold the rest, what to do.

A client learns the ids of all calls that hold the money, but only its own token's models.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from gateway.domain.advice import advice
from gateway.domain.budget import BALANCE_ID, EVER, WARN_SHARE, Budget, budget_id, budget_name, share_of
from gateway.domain.call import ACCOUNT, EXCEEDED_MARK, Running, Scope
from gateway.domain.errors import GatewayError, QuotaExceeded
from gateway.domain.human_values import percent_text, plural, zoned_time
from gateway.domain.money import dollars
from gateway.domain.text import plain, word
from gateway.domain.token import Token
from gateway.domain.units import Millis, Nanos
from gateway.domain.views import iso

STATUSES: Final[Mapping[str, int]] = {
    **dict.fromkeys(("ai-sdk", "continue", "factory-cli", "kilo code", "kimi-code", "mistral vibe"), 402),
    **dict.fromkeys(("opencode", "qwencode"), 402),
    "codex": 400,
}
"""The HTTP status that makes a program stop and show the message, by the beginning of its name. After a 429 or
502 these programs repeat the call, some for minutes and silently, whatever the answer says; Codex shows a message of
its own. Programs made with Vercel's AI SDK, such as Cline, have its name."""

OWNERS_FAULTS = frozenset({"upstream_auth_failed", "upstream_out_of_credit", "no_channel_available"})
"""Codes of errors that last until the owner does something at the upstream or the channel."""

WHILE_HELD = "while_held"
"""The detail of an error that says that the call would be affordable once the running calls have ended."""


def set_program_status(error: GatewayError, app: str, *, bundled: bool) -> None:
    """Give an error that lasts for more than a minute the HTTP status that makes this program stop.

    ``bundled``: an SDK is part of the program. Users of an SDK expect 429 or 502, and the SDK obeys
    ``x-should-retry``; a program around it may retry by itself.
    """
    if isinstance(error, QuotaExceeded) or error.code in OWNERS_FAULTS or error.needs_long_wait:
        name, default = app.casefold(), 402 if bundled else 0
        error.program_status = next((status for start, status in STATUSES.items() if name.startswith(start)), default)


class Headroom(msgspec.Struct, frozen=True, kw_only=True):
    """What is left of the balance or of one budget."""

    label: str
    """What it is called in messages."""
    nanos: int | None
    """None if it does not limit money."""
    tokens: int | None
    """None if it does not limit tokens."""
    resets: Millis | None
    """When its window ends; None if it never does."""
    name: str = ""
    """The name of the group or token that has the budget."""
    window: str = ""
    """The budget's window; empty for the balance."""
    warning: str = ""
    """A warning if most of the budget is spent."""
    scope: Scope = ACCOUNT
    since: Millis = EVER
    """When its window began."""


class Shortage(msgspec.Struct, frozen=True, kw_only=True):
    """A budget that is too small for a call."""

    headroom: Headroom
    left: int
    token: Token
    output: int
    """The output tokens that it must hold for."""
    needs: int
    """The least that it needs, in nano-dollars or tokens."""
    in_tokens: bool = False

    def amount(self, number: int) -> str:
        return f"{number} {plural(number, 'token')}" if self.in_tokens else dollars(number)

    def held_by(self, call: Running) -> int:
        return call.held_tokens if self.in_tokens else call.held


def quota_exceeded(shortage: Shortage, running_in: Callable[[Scope, Millis], Iterable[Running]]) -> QuotaExceeded:
    """Returns the error of a call that this budget is too small for. ``running_in`` returns the calls charged to it."""
    headroom, left = shortage.headroom, shortage.left
    details: dict[str, object] = {} if headroom.resets is None else {"resets_at": iso(headroom.resets)}
    owner_kind = headroom.scope[0]
    code = f"{owner_kind}_quota_exceeded" if headroom.name else "insufficient_quota"
    if headroom.window:
        unit = "tokens" if shortage.in_tokens else "dollars"
        details |= {"budget_of": owner_kind, "budget_window": headroom.window, "budget_unit": unit}
    else:
        details["missing_nanos"] = shortage.needs - left
    remedy = advice(QuotaExceeded("", code=code, details=details), token=headroom.name, group=headroom.name)
    running = running_in(headroom.scope, headroom.since)
    holders = sorted(filter(shortage.held_by, running), key=shortage.held_by, reverse=True)
    is_held = shortage.needs <= left + sum(map(shortage.held_by, holders))
    if is_held:
        details[WHILE_HELD] = True
    state = _state_text(shortage, holders)
    parts = [state]
    if headroom.resets is not None:
        parts.append(f"it resets at {zoned_time(headroom.resets)}")
    parts += [remedy, *_remedies_of_token(shortage)]
    error = QuotaExceeded("; ".join(parts), code=code, details=details)
    error.state = state
    if not is_held:
        budget = budget_id(headroom.window, *headroom.scope) if headroom.window else BALANCE_ID
        error.marks.append(EXCEEDED_MARK + budget)
    return error


def lasts_until(error: QuotaExceeded) -> str:
    """Returns a text that sorts errors by how long they last: those that end with the running calls come first."""
    return "" if WHILE_HELD in error.details else str(error.details.get("resets_at", "never"))


def _remedies_of_token(shortage: Shortage) -> Iterator[str]:
    token = shortage.token
    # programs ask for all they can get, and need far fewer; with fit_output the least was tried already
    if shortage.output > 16_000 and not token.fit_output:
        edit = f"'tollkeeper token edit {word(token.name)} --hold-output 8000'"
        if token.temporary:
            edit += ", or for the next program 'tollkeeper run --hold-output 8000 -- PROGRAM'"
        yield f"or hold less for each call than the {shortage.output} output tokens that it allows: {edit}"
    if token.temporary and shortage.headroom.scope[0] == "token":
        yield "once its program has ended, give the next one more: 'tollkeeper run --budget AMOUNT -- PROGRAM'"


def _state_text(shortage: Shortage, holders: Sequence[Running]) -> str:
    headroom, left, held = shortage.headroom, shortage.left, sum(map(shortage.held_by, holders))
    names = _holder_names(shortage, holders)
    if not headroom.window or left > 0:
        needs = shortage.amount(shortage.needs)
        text = f"{headroom.label} has {shortage.amount(left)} left, and this call may need {needs}"
        return f"{text}; running calls hold {shortage.amount(held)}: {names}" if holders else text
    if left + held <= 0:
        return f"{headroom.label} is used up"
    return f"running calls hold the rest of {headroom.label}: {names}"


def _holder_names(shortage: Shortage, holders: Sequence[Running]) -> str:
    """Returns the first running calls with what each holds. The models of other tokens are not named."""
    shown = holders[:3]
    models = [plain(call.model, 80) if call.token == shortage.token.id else "another token's" for call in shown]
    names = ", ".join(
        f"{call.id} ({model}) {shortage.amount(shortage.held_by(call))}"
        for call, model in zip(shown, models, strict=True)
    )
    return f"{names} and {len(holders) - len(shown)} more" if len(holders) > len(shown) else names


def budget_warning(owner: str, budget: Budget, nanos: Nanos, tokens: int) -> str:
    """Returns ``daily budget of token 'ci': 84% spent`` from ``WARN_SHARE`` on. Holds do not count."""
    share = share_of(budget, nanos, tokens)
    return f"{budget_name(budget.window, owner)}: {percent_text(share)} spent" if share >= WARN_SHARE else ""
