"""Quota: the most that a call may use, whether that can be afforded, and how much is held for it.

All budgets that apply (the account's balance and budgets, the group's, the token's) are checked together, before
anything is committed. A hold is the most that the call's input and the output allowed by its caps can cost. A cap is an
output limit in the request: the client's, the owner's or the gateway's.

**What a call needs** (``CallNeed``) is the most over all the channels that may serve it. Holds, token rates and ``why``
all use it. The output is what the caps of the outgoing request allow, which ``output_limit`` reads for each channel,
with the owner's parameters in it. The input is the client's and whatever the gateway itself adds.

A model's own limit may come from the upstream's list, a vendor's table or the price list; none is trusted blindly. A
limit makes a hold smaller only because a higher cap is lowered to it in the outgoing request. So a limit that is too
small shortens answers but never lets more be spent than is held. If no cap is sent, a limit makes no hold smaller.

If the client sets no cap, the hold is the cost of a typical answer, or all that is left if that is less. Then the
gateway puts a cap into the request: what the hold pays for (``affordable_output``), one token or the channel's least.
If the dialect requires a cap, as Anthropic's does, the cap is at least ``MIN_OUTPUT``. If that costs too much, the call
is refused.

The owner of a token may let its calls hold less than their caps allow (``Token.hold_output``), for programs that always
ask for far more than they use. Their caps are sent unchanged, so such a call may cost more than its hold.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Protocol

import msgspec

from gateway.core.call_extras import call_extras, other_models_cost
from gateway.core.channel_effects import ChannelEffects
from gateway.core.quota_refusals import Headroom, Shortage, budget_warning, lasts_until, quota_exceeded
from gateway.domain.account import Account, AccountStatus
from gateway.domain.budget import EVER, Amounts, Budget, budget_name, window_end, window_start
from gateway.domain.call import ACCOUNT, Running, Scope
from gateway.domain.cost import PLAIN, CallExtras, highest_cost
from gateway.domain.errors import QuotaExceeded
from gateway.domain.group import Group
from gateway.domain.media_size import NO_MEDIA
from gateway.domain.output_limit import OutputLimit, larger
from gateway.domain.price import Price
from gateway.domain.prompt_size import BOUND_TOOLS_TOKENS
from gateway.domain.token import Token
from gateway.domain.units import Millis, Nanos
from gateway.inbound.api import InboundRequest


class CallNeed(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The most that a call may use, and what that costs."""

    input: int
    output: OutputLimit
    """The limit of all choices together. At least its ``minimum`` must be affordable: without any cap, nothing would
    limit what is spent."""
    nanos: Nanos
    """The most that ``input`` and the expected output can cost; 0 if nothing is charged, whatever is left."""
    min_nanos: Nanos
    """The most that ``input`` and the minimum output can cost."""
    extras: CallExtras = PLAIN
    """What the call may be billed for in addition to text."""
    owner_limit: bool = False
    """Whether the expected output is the owner's choice for calls without a cap: the gateway's own do not exceed it."""
    rate_tokens: int = 0
    """The tokens that count against rate limits until the true ones are known."""


class ModelNeed(msgspec.Struct, frozen=True, gc=False):
    """The most that a call may use if this model answers it."""

    input: int
    output: OutputLimit
    """The limit of all choices together."""
    prices: Sequence[Price]
    """The prices of its channels; empty if it has none."""
    effects: ChannelEffects
    extras: CallExtras = PLAIN
    owner_limit: bool = False
    """``CallNeed.owner_limit``."""
    model: str = ""


Recall = Callable[[Mapping[str, msgspec.Raw]], int]
"""Returns the maximum input tokens that a dialect may add to a request from memory."""


def need_of(
    request: InboundRequest,
    effects: ChannelEffects,
    prices: Sequence[Price],
    recall: Recall = lambda _: 0,
    *,
    model: str = "",
    hold_output: int = 0,
    prices_of: Callable[[str], Iterable[Price]] = lambda _: (),
) -> ModelNeed:
    """Returns what a call needs at the channels of one model. Raises BadRequest if it has too many caps to read.

    ``hold_output`` is the token's. ``prices_of`` returns the prices of another model at these channels.
    """
    tokens = _input_need(request, effects, recall)
    output = effects.output_need(request)
    may_cost_more = any(price.extras or price.rules for price in prices)
    extras = call_extras(request, effects.offers, prices) if may_cost_more else PLAIN
    if "tools" in request.fields or "fallbacks" in request.fields:  # they may name models that are billed as well
        context = tokens + output.expected
        advice = other_models_cost(request.fields, context, output.expected, prices_of, extras.variants)
        extras = msgspec.structs.replace(extras, advisor_cost=advice) if advice else extras
    owner_limit = False
    if hold_output:
        owner_limit = output.expected > 0 and not output.capped
        output = _limit_to_hold(output, hold_output, request.choices, effects)
    return ModelNeed(tokens, output, prices, effects, extras, owner_limit, model)


def _input_need(request: InboundRequest, effects: ChannelEffects, recall: Recall) -> int:
    tokens = request.bound.tokens + effects.added_input
    if request.remote_input:
        # a model of unknown context may have read 128,000 tokens
        tokens += max([served.context or 128_000 for _, served in effects.offers], default=128_000)
    if effects.adds_tools and request.bound.calls:
        tokens += BOUND_TOOLS_TOKENS + request.bound.call_tokens(50)  # each has a name and an empty schema
    if effects.names_results:
        tokens += request.bound.call_tokens(50)  # a name has at most 64 characters
    if request.bound.calls:
        tokens += recall(request.conversation)
    if request.bound.media is not NO_MEDIA:
        tokens += max([request.bound.media.bound(served.upstream_name) for _, served in effects.offers], default=0)
    return tokens


def _limit_to_hold(output: OutputLimit, hold_output: int, choices: int, effects: ChannelEffects) -> OutputLimit:
    """Returns the output to hold for, limited to what the token's owner chose.

    Without a cap it is never less than the smallest cap that the gateway chooses, nor more than the model can answer.
    """
    capped, minimum, total = output.capped, output.minimum, output.expected
    if capped or not total:  # with a cap, or without any output
        return OutputLimit(capped=capped, minimum=min(minimum, hold_output), expected=min(total, hold_output))
    if effects.max_output is not None:
        hold_output = min(hold_output, choices * effects.max_output)
    return OutputLimit(minimum=minimum, expected=max(minimum, hold_output))


def call_need(models: Sequence[ModelNeed], multiplier: int) -> CallNeed:
    """Returns what a call needs if any of these models may answer it: the largest amount of each kind.

    The cost of each is that with the longest input of all, as in ``affordable_output``.
    """
    most = reduce(_larger_need, models)
    nanos = min_nanos = Nanos(0)
    for model in models:
        output, extras = model.output, model.extras
        for price in model.prices:
            highest = least = highest_cost(price, most.input, output.expected, multiplier, extras)
            if output.minimum != output.expected:
                least = highest_cost(price, most.input, output.minimum, multiplier, extras)
            nanos, min_nanos = max(nanos, highest), max(min_nanos, least)
    return CallNeed(
        input=most.input,
        output=most.output,
        nanos=nanos,
        min_nanos=min_nanos,
        extras=most.extras,
        owner_limit=most.owner_limit,
        rate_tokens=most.input + min(most.output.capped, most.output.expected),
    )


def _larger_need(need: ModelNeed, other: ModelNeed) -> ModelNeed:
    return msgspec.structs.replace(
        need,
        input=max(need.input, other.input),
        output=larger(need.output, other.output),
        extras=max(need.extras, other.extras, key=lambda extras: (extras.advisor_cost, extras is not PLAIN)),
        owner_limit=need.owner_limit or other.owner_limit,
    )


def affordable_output(
    need: CallNeed, held_nanos: int, held_tokens: int, prices: Sequence[Price], multiplier: int
) -> int | None:
    """Returns the output tokens that a hold pays for at any of these prices; None for all that the call may need."""
    if held_nanos >= need.nanos and held_tokens >= need.input + need.output.expected and not need.owner_limit:
        return None
    limit = max(0, min(need.output.expected, held_tokens - need.input))

    def cost_with(output: int) -> Nanos:
        costs = [highest_cost(price, need.input, output, multiplier, need.extras) for price in prices]
        return max(costs, default=Nanos(0))

    return max(0, bisect_right(range(limit + 1), max(0, held_nanos), key=cost_with) - 1)


class MoneyBooks(Protocol):
    """The part of the books that is about money."""

    def account(self) -> Account:
        """Returns the account as it is now, also for calls that began before an edit."""

    def available(self) -> Nanos:
        """Returns granted, minus spent, minus held."""

    def spent(self, scope: Scope, since: Millis, until: Millis | None = None) -> Amounts:
        """Returns the sums of the settled calls that were accepted in a window; ``until`` is None if it never ends."""

    def held(self, scope: Scope, since: Millis = EVER) -> Amounts:
        """Returns the sums of the running calls that were accepted at or after a moment."""

    def running_in(self, scope: Scope, since: Millis = EVER) -> Sequence[Running]:
        """Returns the running calls that are charged to this scope and were accepted at or after a moment."""

    def update(self, call: Running) -> None:
        """Replace what is known of a running call."""


class HoldPlan(msgspec.Struct, frozen=True, gc=False):
    """What a call reserves of the account and the budgets before an upstream is called."""

    nanos: Nanos = Nanos(0)
    tokens: int = 0
    warning: str = ""
    """The budgets that are nearly spent."""


def plan_hold(
    books: MoneyBooks,
    group: Group,
    token: Token,
    need: CallNeed,
    prices: Sequence[Price] = (),
    *,
    now: Millis,
) -> HoldPlan:
    """Returns the hold for a call: what it may need, or all that is left if that is less. Changes nothing.

    Raises QuotaExceeded if the least that it needs is not left, with the output that is affordable at these prices. Of
    several budgets that are too small, it names the one that stays so for longest.
    """
    account = books.account()
    if account.status is AccountStatus.SUSPENDED:
        msg = "the account is suspended; 'tollkeeper account set --status active' reactivates it"
        raise QuotaExceeded(msg, code="account_suspended")
    tokens = need.input + need.output.expected
    has_budgets = account.budgets or group.budgets or token.budgets
    if not has_budgets and (not need.nanos or need.nanos <= books.available()):
        return HoldPlan(need.nanos, tokens)
    headrooms = list(_headrooms(books, group, token, now=now))
    left_nanos = min(headroom.nanos for headroom in headrooms if headroom.nanos is not None)
    left_tokens = min((headroom.tokens for headroom in headrooms if headroom.tokens is not None), default=tokens)
    if shortages := list(_shortages(headrooms, token, need)):
        affordable = affordable_output(need, left_nanos, left_tokens, prices, group.multiplier)
        raise _refusal(books, shortages, affordable or 0)
    warning = "; ".join(headroom.warning for headroom in headrooms if headroom.warning)
    nanos = min(need.nanos, left_nanos) if need.nanos else 0
    return HoldPlan(Nanos(nanos), min(tokens, left_tokens), warning)


def _refusal(books: MoneyBooks, shortages: Iterable[Shortage], affordable: int) -> QuotaExceeded:
    """Returns the error about the budget that stays too small for longest.

    The caller raises it without a name for it: a frame that names its own error stays in memory with the request.
    """
    error = max((quota_exceeded(shortage, books.running_in) for shortage in shortages), key=lasts_until)
    error.affordable_output = affordable
    return error


def money_until_stop(books: MoneyBooks, token: Token, *, began: Millis) -> int | None:
    """Returns the nano-dollars left before a stream that began then must end; None if the settings end no streams."""
    amounts_left = [int(books.available())] if books.account().stop_when_empty else []
    for budget in token.budgets if token.stop_when_empty else ():
        headroom = _headroom(books, ("token", token.id), budget, token.name, began)
        if headroom.nanos is not None:
            next_window_calls = books.running_in(headroom.scope, headroom.resets) if headroom.resets else ()
            amounts_left.append(headroom.nanos + sum(call.held for call in next_window_calls))
    return min(amounts_left, default=None)


def _shortages(headrooms: list[Headroom], token: Token, need: CallNeed) -> Iterator[Shortage]:
    """Yields the budgets that are too small for the least that a call needs, first in money, then in tokens."""
    output = need.output.minimum
    for in_tokens, needed in ((False, need.min_nanos), (True, need.input + output)):
        for headroom in headrooms if in_tokens or need.nanos else ():
            left = headroom.tokens if in_tokens else headroom.nanos
            if left is not None and (left <= 0 or needed > left):
                yield Shortage(
                    headroom=headroom, left=left, needs=needed, in_tokens=in_tokens, token=token, output=output
                )


def _headrooms(books: MoneyBooks, group: Group, token: Token, *, now: Millis) -> Iterator[Headroom]:
    yield Headroom(label="the account", nanos=books.available(), tokens=None, resets=None)
    for scope, budgets, name in (
        (ACCOUNT, books.account().budgets, ""),
        (("group", group.id), group.budgets, group.name),
        (("token", token.id), token.budgets, token.name),
    ):
        for budget in budgets:
            yield _headroom(books, scope, budget, name, now)


def _headroom(books: MoneyBooks, scope: Scope, budget: Budget, name: str, now: Millis) -> Headroom:
    """Returns what a budget leaves in its current window. ``name`` is the group's or the token's."""
    owner = f"{scope[0]} '{name}'" if name else "the account"
    since, until = window_start(budget.window, now), window_end(budget.window, now)
    spent, held = books.spent(scope, since, until), books.held(scope, since)
    return Headroom(
        label=f"the {budget_name(budget.window, owner)}",
        nanos=None if budget.nanos is None else budget.nanos - spent.nanos - held.nanos,
        tokens=None if budget.tokens is None else budget.tokens - spent.tokens - held.tokens,
        resets=until,
        scope=scope,
        since=since,
        name=name,
        window=budget.window.value,
        warning=budget_warning(owner, budget, spent.nanos, spent.tokens),
    )
