"""Formatting: texts for single values of the views, as tables and details show them."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from gateway.client.control import ControlClient
from gateway.client.receipt import lacked_price
from gateway.commands.options import now
from gateway.domain.errors import GatewayError
from gateway.domain.field_kinds import json_value
from gateway.domain.forecast import balance_end, balance_forecast, forecast, pace_start
from gateway.domain.human_values import brief_span, count_text, first_of, local_time, state_word
from gateway.domain.money import brief_dollars, dollars
from gateway.domain.price_view import PriceView, price_range
from gateway.domain.text import plain, word
from gateway.domain.units import Millis
from gateway.domain.upstream_views import SavedChannel
from gateway.domain.views import AccountView, BudgetView, CallView, ChannelView, KeyView, ModelView, Status, TokenView

UNPRICED = "unpriced"


def moment(ms: int | None) -> str:
    """Returns the local time; empty for None."""
    return local_time(ms) if ms is not None else ""


def span(ms: float | None) -> str:
    """Returns a length of time; empty for None."""
    return brief_span(round(ms)) if ms is not None else ""


def files_note(view: Status) -> str:
    """Returns why fewer connections are possible than the settings allow; else empty."""
    return f"; the system allows this server {view.open_files} open files" if view.open_files else ""


def brief_names(names: Sequence[str]) -> str:
    """Returns the first three names and the number of the others, for a cell of a table: ``a, b, c +2``."""
    shown = ", ".join(names[:3])
    return f"{shown} +{len(names) - 3}" if len(names) > 3 else shown


def budget_outlooks(views: Sequence[BudgetView], since: Millis) -> list[tuple[str, str]]:
    """Returns how long budgets last at their current pace, one pair each. ``since`` is when their owner was created."""
    forecasts = [(f"budget {view.window.value}", forecast(view, now(), since)) for view in views]
    return [line for line in forecasts if line[1]]


class BalanceOutlook(msgspec.Struct, frozen=True, kw_only=True):
    """The account, and how long its balance will last."""

    account: AccountView
    used_up_ms: Millis | None = None
    """When the balance will be used up at the pace of the last days; None if there is too little to judge by."""
    pace: str = ""
    """The same as a text."""

    def text(self) -> str:
        """Returns ``$12.34 available; at the pace of the last 7 days used up on Thu 16:00``."""
        return f"{dollars(self.account.available_nanos)} available{f'; {self.pace}' if self.pace else ''}"

    def json(self) -> dict[str, Any]:
        return {**msgspec.convert(json_value(self.account), dict[str, Any]), "used_up_ms": self.used_up_ms}


async def find_balance_outlook(client: ControlClient, account: AccountView | None = None) -> BalanceOutlook | None:
    """Returns the account with its forecast; None if the account cannot be read."""
    outlook = None
    with suppress(GatewayError):
        account = account or await client.account()
        outlook = BalanceOutlook(account=account)
        week = await client.summary(since=pace_start(now()))
        facts = account.available_nanos, week.total.cost_nanos, week.first_ms, now()
        outlook = BalanceOutlook(account=account, used_up_ms=balance_end(*facts), pace=balance_forecast(*facts))
    return outlook


async def groups_without_models(client: ControlClient, names: Collection[str]) -> list[str]:
    """Returns a note for each of these groups that has tokens, but no models."""
    if not names:
        return []
    return [
        f"note: group '{plain(group.name)}' has no models now, so its tokens cannot call: {first_of(group.tokens, 3)}"
        for group in await client.groups()
        if group.name in names and group.tokens and not group.sees
    ]


def channel_state(view: ChannelView | KeyView) -> str:
    """Returns the state of a channel or key in words: ``ok``, ``paused until 12:30:00``, ``needs attention``."""
    state = state_word(view.shown_state if isinstance(view, ChannelView) else view.state)
    if view.state != "cooling" or view.until_ms is None:
        return state
    until = local_time(view.until_ms)
    return f"{state} until {until[11:] if until[:10] == local_time(now())[:10] else until}"


def source(view: PriceView) -> str:
    """Returns where a price is from, the day of that list, and whether the list is old."""
    day = f" of {local_time(view.as_of_ms)[:10]}" if view.as_of_ms else ""
    inherited = f", as {view.inherited_from}" if view.inherited_from else ""
    return f"{view.source}{day}{', stale' if view.stale else ''}{inherited}"


def model_price(model: ModelView) -> str:
    """Returns a model's price, or the range at its channels; without one, the price that its upstream publishes."""
    if (view := model.price) is None:
        published = published_price(model)
        return f"{UNPRICED} (listed at {published})" if published else UNPRICED
    if len(model.prices) > 1:
        return price_range(model.prices)
    return price(view) + (f" (as {view.inherited_from})" if view.inherited_from else "")


def published_price(model: ModelView) -> str:
    """Returns ``$2.50 / $10.00``: what the upstream's own list says; empty if it says nothing."""
    return "" if (prices := model.published) is None else f"{dollars(prices.input)} / {dollars(prices.output)}"


def price(view: PriceView | None) -> str:
    """Returns ``$2.50 / $10.00, 1 tier``: input and output per million tokens. A tier is a price for longer inputs."""
    if view is None:
        return UNPRICED
    counts = [count_text(view.tier_count, "tier")] if view.tier_count else []
    counts += [count_text(len(view.rules), "rule")] if view.rules else []
    call = f" + {dollars(view.per_call)} a call" if view.per_call else ""
    rates = f"{dollars(view.input)} / {dollars(view.output)}{call}"
    return "free" if view.free else ", ".join([rates, *counts])


async def no_models_reason(client: ControlClient, token: TokenView) -> str:
    """Returns why a token sees no models, and the command that shows or changes that."""
    name, group = plain(token.name), await client.group(token.group)
    if not group.sees:
        reason = f"its group '{plain(group.name)}' has none; see: tollkeeper group show {word(group.name)}"
    else:
        patterns = plain(", ".join(token.models))
        mismatch = f"its own list of models is '{patterns}', which matches no model of its group '{plain(group.name)}'"
        reason = f"{mismatch}; to let it see all: tollkeeper token edit {word(token.name)} --models '*'"
    return f"token '{name}' sees no models: {reason}"


def price_notes(saved: SavedChannel) -> Iterator[str]:
    """Yields which prices a channel's new models got, how to change them, and which models have no price."""
    if saved.new_prices:
        some_prices = "; ".join(f"{view.model} {price(view)}" for view in saved.new_prices[:3])
        more = "; ..." if len(saved.new_prices) > 3 else ""
        sources = ", ".join(dict.fromkeys(source(view) for view in saved.new_prices))
        yield f"Prices of {count_text(len(saved.new_prices), 'model')} set from {sources}: {some_prices}{more}"
        yield "Change one: tollkeeper price set MODEL; list all: tollkeeper price list; set none: --no-prices"
    yield from unpriced_notes(saved.unpriced, refused=saved.refuses_unpriced)
    if saved.unpriced and not saved.preset:
        command = f"tollkeeper channel edit {word(saved.name)} --preset VENDOR"
        yield f"If a vendor serves them: {command} (tollkeeper channel presets), then tollkeeper price import"


def unpriced_notes(names: Sequence[str], *, refused: bool) -> Iterator[str]:
    """Yields notes about models without a price. ``refused``: whether their calls are refused."""
    if names:
        verb, them = ("has", "it") if len(names) == 1 else ("have", "them")
        effect = f"counted, not charged, and no dollar budget stops {them}"
        if refused:
            effect = f"calls of {them} are refused"
        yield f"note: {first_of(names, 3)} {verb} no price: {effect}"
        yield f"Price one: tollkeeper price set {word(names[0])} --like OTHER, --free, or --input and --output"


def status(call: CallView) -> str:
    """Returns the state of a running call, else the HTTP status, with the outcome if it says more."""
    if call.state == "running":
        return "waiting" if call.waits_for else "running"
    if call.outcome in ("done", "refused", "error"):
        return str(call.status)
    return f"{call.status} {call.outcome}" if call.status else call.outcome


def subject(call: CallView) -> str:
    """Returns the model and its fallback, or else the request, the number of calls of the row, and the retry."""
    fallback = f" as {call.fallback}" if call.fallback else ""
    times = f" x{call.count:,}" if call.count > 1 else ""
    name = call.model or call.request or ("no model" if times else "")
    return f"{name}{fallback}{times}{f' retry {call.retry}' if call.retry else ''}"


def cost(call: CallView) -> str:
    """Returns the brief cost, or ``unpriced`` for a call that used a model without a price."""
    return UNPRICED if lacked_price(call) else at_most(brief_dollars(call.cost_nanos), call)


def at_most(text: str, call: CallView) -> str:
    """Returns a number with ``≤`` while the call runs: it is the bound that the call's hold covers."""
    return f"≤{text}" if call.state == "running" and call.input_tokens else text
