"""Means: what a call needs beside a way: money, a rate, a channel that takes it: the doctor's last four questions."""

import time
from collections.abc import Iterator

from gateway.client.case import Case, Ill
from gateway.domain.advice import GRANT
from gateway.domain.limits import Limits, Window, window_start
from gateway.domain.money import brief_dollars, dollars
from gateway.domain.text import plain
from gateway.domain.units import Millis, Nanos
from gateway.domain.views import BudgetView, GroupView, SumRow, TokenView, iso

MINUTE_MS = 60_000
PAGE_LIMIT = 5000
"""Calls that the control surface lists at once."""

NOTHING = SumRow(
    key="",
    name="",
    calls=0,
    errors=0,
    input_tokens=0,
    cached_tokens=0,
    output_tokens=0,
    cost_nanos=Nanos(0),
    possible_nanos=Nanos(0),
    duration_ms=0,
    first_byte_ms=0,
)


async def quota(case: Case) -> str:
    """Whether there is money, and a price."""
    account = await case.client.account()
    if account.status != "active":
        raise Ill(f"the account is {account.status}", "'tollkeeper account set --status active'")
    _check_budgets("the account", "account set", account.budgets)
    for noun, owner in _owners(case):
        _check_budgets(f"{noun} '{owner.name}'", f"{noun} edit {owner.name}", owner.budgets)
    price = case.found.price
    if price is None:
        if (await case.client.settings()).refuse_unpriced:
            fix = f"'tollkeeper price set {case.model} --input DOLLARS --output DOLLARS' (per million tokens)"
            raise Ill(f"'{case.model}' has no price, and calls without a price are refused", fix)
        return "no price is set: the call will cost nothing here"
    if price.free:
        return f"'{case.model}' is free"
    left = account.available_nanos
    if left <= 0:
        held = f", {dollars(account.held_nanos)} held by running calls" if account.held_nanos else ""
        raise Ill(f"nothing is left: the balance is {dollars(account.balance_nanos)}{held}", GRANT)
    rates = f"{brief_dollars(price.input_nanos)} and {brief_dollars(price.output_nanos)}"
    return f"{brief_dollars(left)} are available; a million tokens cost {rates} (input, output)"


async def limits(case: Case) -> str:
    """Whether token and group may call now, by the calls that are on record and those that run."""
    now = time.time_ns() // 1_000_000
    told = []
    for noun, owner in _owners(case):
        if owner.limits != Limits():
            key = owner.id if isinstance(owner, TokenView) else owner.name
            minute = await _used(case, noun, key, now - MINUTE_MS)
            day = await _used(case, noun, key, window_start(Window.DAY, Millis(now)))
            _check_limits(noun, owner, minute, day, await _running(case, noun, key, owner.limits.concurrent or 1))
            told.append(f"{noun} '{owner.name}' is below its limits")
    return "; ".join(told) or "there are no limits of calls or tokens"


def _check_limits(noun: str, owner: TokenView | GroupView, minute: SumRow, day: SumRow, running: int) -> None:
    """Raises Ill when a limit is reached. Calls that failed are not counted: most of them took nothing."""
    uses = (
        ("rpm", minute.calls - minute.errors, "calls a minute"),
        ("tpm", minute.input_tokens + minute.output_tokens, "tokens a minute"),
        ("rpd", day.calls - day.errors, "calls a day"),
        ("tpd", day.input_tokens + day.output_tokens, "tokens a day"),
        ("concurrent", running, "calls at once"),
    )
    for field, used, what in uses:
        limit = getattr(owner.limits, field)
        if limit is not None and used >= limit:
            fix = f"wait, or 'tollkeeper {noun} edit {owner.name} --{field} ...'"
            raise Ill(f"{noun} '{owner.name}' has used its {limit} {what}", fix)


async def _running(case: Case, noun: str, key: str, limit: int) -> int:
    """How many calls run, up to a limit: running ones are listed before all others."""
    newest = await case.client.calls(**{noun: key, "limit": min(limit, PAGE_LIMIT)})
    return sum(call.state == "running" for call in newest)


async def _used(case: Case, noun: str, key: str, since: int) -> SumRow:
    summary = await case.client.summary(by=noun, since=since)
    return next((row for row in summary.rows if row.key == key), NOTHING)


def _owners(case: Case) -> Iterator[tuple[str, TokenView | GroupView]]:
    if case.group is not None:
        yield "group", case.group
    if case.token is not None:
        yield "token", case.token


async def ready(case: Case) -> str:
    """Whether a channel takes calls now."""
    takes = [channel for channel in case.routes if channel.state in ("ok", "half_open")]
    rests = [channel for channel in case.routes if channel not in takes]
    told = "; ".join(f"{channel.name} is {channel.state} ({plain(channel.reason)})" for channel in rests)
    if takes:
        return ", ".join(channel.name for channel in takes) + " takes calls" + (f"; {told}" if told else "")
    if not case.routes:
        raise Ill(f"no channel serves '{case.model}' any more", "'tollkeeper channel list' shows what there is")
    first = case.routes[0]
    until = f" until {iso(first.until_ms)}" if first.until_ms else ""
    raise Ill(
        f"no channel takes calls{until}: {told}",
        f"'tollkeeper channel test {first.name}' tries it; if that is good it takes calls again",
    )


async def calls(case: Case) -> str:
    """Whether a plain and a streamed call get through."""
    ids = [await case.door.plain_call(case.model), await case.door.streamed_call(case.model)]
    whole, streamed = [await case.client.call(call_id) for call_id in ids]
    return (
        f"a plain call took {whole.duration_ms} ms, a streamed one {streamed.duration_ms} ms, by channel "
        f"'{streamed.channel}', for {dollars(whole.cost_nanos + streamed.cost_nanos)} together"
    )


def _check_budgets(owner: str, command: str, budgets: list[BudgetView]) -> None:
    for budget in budgets:
        if _used_up(budget):
            until = f" until {iso(budget.resets_at_ms)}" if budget.resets_at_ms else ""
            fix = f"'tollkeeper {command}' changes it"
            raise Ill(f"the budget of {owner} ({budget.window.value}) is used up{until}", fix)


def _used_up(budget: BudgetView) -> bool:
    money = budget.limit_nanos is not None and budget.spent_nanos + budget.held_nanos >= budget.limit_nanos
    return money or (budget.limit_tokens is not None and budget.spent_tokens >= budget.limit_tokens)
