"""Diagnosis: views of what the gateway would do with a call and why, and of what the doctor found."""

from operator import itemgetter
from typing import Any

import msgspec

from gateway.domain.budget import budget_name
from gateway.domain.call import CHAT_API, request_size
from gateway.domain.human_values import count_text
from gateway.domain.money import brief_dollars
from gateway.domain.price_view import PriceView
from gateway.domain.text import plain
from gateway.domain.units import Millis, Nanos
from gateway.domain.views import BudgetView, CallView, Step


class LimitView(msgspec.Struct, frozen=True, kw_only=True):
    """A rate limit and what is left of it."""

    name: str
    """``requests``, ``tokens``, ``concurrent`` or ``streams``; the tightest of several limits of a name."""
    limit: int
    left: int
    whole_in_ms: Millis
    """The milliseconds until all of it is available again; 0 if it is already, or if unknown."""


class PartyView(msgspec.Struct, frozen=True, kw_only=True):
    """A party whose budgets and limits the call must respect."""

    kind: str
    """``account``, ``group`` or ``token``."""
    name: str
    budgets: list[BudgetView]
    limits: list[LimitView]


class RouteView(msgspec.Struct, frozen=True, kw_only=True):
    """A channel that may serve the call, and why it is chosen or not."""

    channel: str
    model: str
    """The requested model, or one of its fallbacks."""
    upstream_model: str
    """The model's name at its upstream; empty if the channel does not offer the model."""
    priority: int
    weight: int
    place: str = ""
    """Why it is tried before or after others; empty if it cannot be tried."""
    chance: float = 0.0
    """The probability that it is tried first, from 0 to 1."""
    state: str
    reason: str
    until_ms: Millis | None
    """When its pause ends."""
    in_flight: int
    passed: str
    """Why it is skipped; empty if it is not."""
    last_resort: bool = False
    """Whether it would be tried although it is skipped, because no other channel is left."""
    cache_marks: bool
    """Whether prompts get cache marks if the client sets none."""
    conversion: str = ""
    """``native`` if it speaks the call's API, ``translated`` if not; empty for chat completions."""


class Obstacle(msgspec.Struct, frozen=True, kw_only=True):
    """A reason to refuse the call."""

    status: int
    code: str
    message: str
    fix: str
    """What to do about it, in one sentence."""


class UnusedFallback(msgspec.Struct, frozen=True, kw_only=True):
    """A fallback of the group that may not answer for the model."""

    model: str
    rule: str
    """Why it may not."""
    fix: str


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """What the gateway would do with a call, and why. ``message`` is exactly what a real call would get."""

    token: str
    group: str
    model: str
    prompt_tokens: int
    max_tokens: int | None
    stream: bool
    api: str
    works: bool
    status: int
    """The HTTP status of the refusal; 200 if a channel would be called."""
    code: str
    message: str
    fix: str
    retry_after_s: float | None
    """How long to wait, if waiting helps."""
    then: Obstacle | None
    """Why the call would still be refused after that is fixed; None if nothing else is known."""
    visible: bool
    rule: str
    """The rule that makes the model visible or hides it."""
    price: PriceView | None
    prices: list[PriceView]
    """The prices of the model's channels, if they differ."""
    multiplier: int
    """The group's multiplier in parts per million."""
    hold_nanos: Nanos | None
    """What would be held; None if the call would not be admitted."""
    hold_tokens: int | None
    holds_rest: bool
    """Whether the hold is all that is left of the account or a budget, so that a long answer is cut off."""
    hold_output: int
    """The maximum output tokens to hold for a call of the token; 0 for what the request allows."""
    available_nanos: Nanos
    parties: list[PartyView]
    fallbacks: list[str]
    """Other models that may answer when no channel can, in order."""
    unused_fallbacks: list[UnusedFallback]
    """The group's other fallbacks for the model, which may not answer."""
    sticky: bool
    """Whether a conversation stays at the channel that answered it, although others rank higher."""
    routes: list[RouteView]
    """The channels in the order they are tried, those of fallbacks, the group's other channels, then all others."""
    refuses_unpriced: bool

    @property
    def obstacles(self) -> list[Obstacle]:
        """Returns why the call is refused, and why it would still be refused after that is fixed."""
        first = Obstacle(status=self.status, code=self.code, message=self.message, fix=self.fix)
        return ([] if self.works else [first]) + ([] if self.then is None else [self.then])

    @property
    def hold_text(self) -> str:
        """Returns what is held: ``1,000 input and 4,096 output tokens, as the request sets no limit``."""
        output = max(0, (self.hold_tokens or 0) - self.prompt_tokens)
        if self.holds_rest:
            return f"{self.prompt_tokens:,} input tokens and as many output tokens as the rest pays for"
        if not output:
            return f"{self.prompt_tokens:,} input tokens"
        text = f"{self.prompt_tokens:,} input and {output:,} output tokens"
        if output == self.hold_output:
            return f"{text}, by the token's --hold-output"
        if not self.max_tokens:
            return f"{text}, as the request sets no limit"
        return text if output == self.max_tokens else f"{text} of the {self.max_tokens:,} that the request allows"


ASSUMED = "assumed:"
"""The word before what the call's record does not contain."""


def request_like(call: CallView) -> tuple[dict[str, Any], str]:
    """Returns the parameters of ``why`` for a request like a call's, and a text that explains them."""
    params: dict[str, Any] = {"stream": True} if call.stream else {}
    if call.api not in (CHAT_API, ""):
        params["api"] = call.api
    if (size := request_size(call.marks)) is not None:
        params |= {"prompt_tokens": max(1, size.input)}
        params |= {} if size.max_output is None else {"max_tokens": size.max_output}
        return params, f"like that call: {size.text()}"
    if call.input_tokens:
        params["prompt_tokens"] = call.input_tokens
        return params, f"like that call: {call.input_tokens:,} input tokens; {ASSUMED} no limit of its output"
    return params, f"its size is not known; {ASSUMED} 1,000 input tokens, no limit of output"


def left_text(why: Why) -> str:
    """Returns what the tightest budgets leave: ``$1.00 is left of the daily budget of token 'ci'``."""
    money: list[tuple[int, str]] = [(why.available_nanos, "is available")]
    tokens: list[tuple[int, str]] = []
    for party in why.parties:
        owner = f"{party.kind} '{plain(party.name)}'" if party.name else f"the {party.kind}"
        for budget in party.budgets:
            label = f"left of the {budget_name(budget.window, owner)}"
            if budget.nanos is not None:
                held_text = f" ({brief_dollars(budget.held_nanos)} more is held for running calls)"
                held = held_text if budget.held_nanos else ""
                money.append((max(0, budget.nanos - budget.spent_nanos - budget.held_nanos), f"is {label}{held}"))
            if budget.tokens is not None:
                tokens.append((max(0, budget.tokens - budget.spent_tokens), label))
    nanos, whose = min(money, key=itemgetter(0))
    if not tokens:
        return f"{brief_dollars(nanos)} {whose}"
    count, label = min(tokens)
    return f"{brief_dollars(nanos)} {whose}, and {count_text(count, 'token')} {'is' if count == 1 else 'are'} {label}"


class Checkup(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the doctor, and how far this machine's clock differs from the upstream's."""

    step: Step
    ahead_ms: Millis | None = None
    """How far this machine's clock is ahead, in milliseconds, within a second; None if unknown."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The result of recomputing every balance and sum from the call log."""

    equal: bool
    calls: int
    cost_nanos: Nanos
    granted_nanos: Nanos
    balance_nanos: Nanos
    checks: int
    difference: str
    """The first difference; empty if equal."""
    damage: list[str] = []
    """What is missing from the call log, or was damaged when the store was opened. The sums may be right anyway."""
