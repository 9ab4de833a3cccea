"""ModelsListing: the table and the detail pane of the Models page, with the prices, channels and costs of models."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain

from textual.content import Content

from gateway.client.receipt import price_parts
from gateway.domain.human_values import brief_context, brief_multiplier
from gateway.domain.money import dollars
from gateway.domain.price import PriceDraft
from gateway.domain.price_kinds import PRICE
from gateway.domain.price_view import PriceView, example_cost, price_range
from gateway.domain.units import MILLION
from gateway.domain.views import ChannelView, ModelView
from tui import format as fmt, glyphs
from tui.charts import spark
from tui.columns import Column, number_column, text_column
from tui.listing import PageListing
from tui.text import TextCard, content, safe

Rate = Callable[[PriceView], int | None]
States = Sequence[tuple[str, str]]
"""The channels of a model in the order they are tried, with their states."""


def _columns(listing: "ModelsListing") -> Iterator[Column[ModelView]]:
    yield text_column("name", "Model", 20, lambda m: m.name, flex=True)
    yield number_column("context", "Ctx", 5, lambda m: m.context or None, fmt.brief_count, rank=4, dim=True)
    yield _rate_column(listing, "input", "In $/M", 0, lambda p: p.input)
    yield _rate_column(listing, "cached", "Cached", 5, lambda p: p.cached_input)
    yield _rate_column(listing, "output", "Out $/M", 0, lambda p: p.output)
    yield Column(
        "source",
        "Price",
        10,
        _source,
        rank=1,
        tone=lambda m: "warn" if m.price is None or m.price.stale else "dim",
        sort=_source,
    )
    yield Column(
        "served",
        "Served by",
        16,
        lambda m: _serving_channel(m, listing.states(m)),
        flex=True,
        rank=2,
        tone=lambda m: _served_tone(m, listing.states(m)),
        sort=listing.states,
    )
    yield Column("month", "30 days", 9, partial(_month, listing), right=True, rank=3, sort=listing.month_cost)
    yield number_column("calls", "Calls", 7, listing.month_calls, fmt.count, rank=6, extra=True)
    yield text_column("groups", "Groups", 12, lambda m: ", ".join(m.groups), rank=7, dim=True, max_width=24, extra=True)


def _rate_column(listing: "ModelsListing", id_: str, title: str, rank: int, rate: Rate) -> Column[ModelView]:
    """Returns a column of dollars per million tokens. Blanks stand for missing decimals, so that points are aligned."""
    cells = 7

    def text(model: ModelView) -> str:
        nanos = None if model.price is None else rate(model.price)
        if nanos is None:
            return ("?" if model.price is None else glyphs.NOTHING) + " " * (listing.price_places + 1)
        amount = dollars(nanos).replace("$", "")
        return (amount + " " * (listing.price_places - fmt.decimals(nanos)))[: max(len(amount), cells)]

    return Column(
        id_,
        title,
        cells,
        text,
        right=True,
        rank=rank,
        tone=lambda m: "warn" if m.price is None else "",
        sort=lambda m: -1 if m.price is None else rate(m.price) or 0,
    )


def _source(model: ModelView) -> str:
    price = model.price
    if price is None:
        return "! no price"
    source = "list" if price.source.startswith("genai-prices") else safe(price.source)  # the built-in list
    tiers = f", {fmt.count_text(price.tier_count, 'tier')}" if price.tier_count and not price.free else ""
    if price.inherited_from:
        return f"as {safe(price.inherited_from)}{tiers}"
    return "free" if price.free else f"{source}{' old' if price.stale else ''}{tiers}"


def _serving_channel(model: ModelView, states: States) -> str:
    if model.stands_for:
        return f"as {safe(model.stands_for)}"
    marks = {"ok": "", "off": f" {glyphs.OFF}", "attention": f" {glyphs.FAILED}"}
    return ", ".join(f"{safe(name)}{marks.get(state, f' {glyphs.WARNING}')}" for name, state in states) or "nobody"


def _served_tone(model: ModelView, states: States) -> str:
    return "" if model.stands_for or any(state in ("ok", "half_open") for _, state in states) else "warn"


def _month(listing: "ModelsListing", model: ModelView) -> str:
    if cost := listing.month_cost(model):
        return fmt.short_cost(cost)
    tokens = listing.month_tokens(model)
    return f"{fmt.brief_count(tokens)} tok" if tokens else glyphs.NOTHING


class ModelsListing(PageListing[ModelView]):
    """What the page shows: models, in the server's order."""

    noun = "model"
    guide = (
        "No models: no channel offers any.",
        "{4} channels: {entity.new} creates one, {channels.fetch} fetches its models",
    )
    key_field = "name"
    all_columns = _columns
    price_places = 2
    """The highest number of decimals of a price in the table, up to 4. It aligns the decimal points of all prices."""
    creation_hint = "Page 4 lists the channels."

    def rows(self) -> Sequence[ModelView]:
        models = self.session.board.models
        prices = [model.price for model in models if model.price is not None]
        rates = {rate for p in prices for rate in (p.input, p.cached_input, p.output)}
        self.price_places = min(4, max((fmt.decimals(rate) for rate in rates if rate is not None), default=2))
        return models

    def command(self, model: ModelView) -> str:
        price, name = model.price, model.name
        if price is None:
            return "tollkeeper " + fmt.cli_command("price", "set", name, input="DOLLARS", output="DOLLARS")
        if price.free:
            return "tollkeeper " + fmt.cli_command("price", "set", name, "--free")
        blank = PriceDraft()
        parts = (field.arguments(getattr(blank, field.name), getattr(price, field.name)) for field in PRICE)
        return "tollkeeper " + fmt.cli_command("price", "set", name, *chain.from_iterable(parts))

    def lead(self, width: int) -> Content:
        models, dot = self.session.board.models, glyphs.DOT
        unpriced = sum(model.price is None for model in models)
        parts = [(f" {self.count_rows(len(models))}", "")]
        account = self.session.board.account
        if account is not None and account.status != "active":
            parts.append((f" {dot} the account is {safe(account.status, 12)}: all calls are rejected", "bad"))
            parts += self.session.hint("{   6} Account", "dim")
            return content(*parts)
        if unpriced:
            effect = "refused" if self.session.board.refuses_unpriced else "counted, not charged"
            parts.append((f" {dot} {unpriced} without a price: {effect}", "warn"))
            parts += self.session.hint("{   models.edit} sets one", "dim")
        unit = "   dollars per million tokens"
        if sum(len(text) for text, _ in parts) + len(unit) <= width:
            parts.append((unit, "dim"))
        return content(*parts)

    def detail(self, model: ModelView, width: int) -> Content:
        card = TextCard(width)
        context = brief_context(model.context, model.context_source, " tokens")
        card.line((safe(model.name), "bold"), f"   context {context}" if context else "")
        price = price_parts(model.price, model.name, refused=self.session.board.refuses_unpriced)
        card.row("price", *((safe(self.session.advice(text), 1_000), tone) for text, tone in price))
        if model.prices:
            card.row("channels", (price_range(model.prices, fmt.price), "dim"))
        if model.published is not None:
            rates = f"{fmt.price(model.published.input)} / {fmt.price(model.published.output)} by the upstream's list"
            card.row("listed", (rates, "dim"))
        if model.price is not None:
            self._add_examples(card, model, model.price)
        if model.stands_for:
            card.row("served", f"{safe(model.stands_for)} answers")
        else:
            states = [(name, "" if state == "ok" else fmt.channel_state(state)) for name, state in self.states(model)]
            channels = [f"{safe(name)} ({safe(state, 16)})" if state else safe(name) for name, state in states]
            card.row("served", f" {glyphs.RIGHT} ".join(channels) or ("by no channel", "warn"))
        card.row("groups", ", ".join(map(safe, model.groups)) or ("none: no token can see it", "warn"))
        costs = self.trends.values(model.name, lambda day: day.cost_nanos or day.calls - day.refused)
        text = f" {fmt.dollar_amount(self.month_cost(model))}, {fmt.brief_count(self.month_tokens(model))} tok"
        card.row("30 days", (spark(costs, min(30, max(10, width - 40))), "live"), text)
        card.row("total", f"{fmt.count_text(model.calls, 'call')}, {dollars(model.spent_nanos)}")
        return card.content()

    def words(self, model: ModelView) -> str:
        source = "unpriced" if model.price is None else model.price.source
        price = "free" if model.price is not None and model.price.free else source
        return safe(" ".join([model.name, *model.channels, *model.groups, price]))

    def states(self, model: ModelView) -> States:
        channels = {channel.name: channel for channel in self.session.board.channels}
        return [(name, self._state(channels.get(name), model.name)) for name in model.channels]

    def month_cost(self, model: ModelView) -> int:
        """Returns the cost of the last 30 days."""
        return self.trends.total(model.name, lambda total: total.cost_nanos)

    def month_tokens(self, model: ModelView) -> int:
        return self.trends.total(model.name, lambda total: total.input_tokens + total.output_tokens)

    def month_calls(self, model: ModelView) -> int:
        """Returns the calls of the last 30 days, without refused ones."""
        return self.trends.total(model.name, lambda total: total.calls - total.refused)

    def _state(self, channel: ChannelView | None, model: str) -> str:
        """Returns a channel's state: ``cooling`` also if its upstream recently did not have the model."""
        if channel is None:
            return "off"
        is_missing = channel.missing_models.get(model, 0) > self.session.now()
        return "cooling" if is_missing and channel.state == "ok" else channel.state

    def _add_examples(self, card: TextCard, model: ModelView, price: PriceView) -> None:
        groups = [group for group in reversed(self.session.board.groups) if group.name in model.groups]
        factors = {group.multiplier: group.name for group in groups} or {MILLION: ""}
        parts = [
            f"{dollars(example_cost(price, factor))} ({safe(name, 24)} {brief_multiplier(factor)})"
            for factor, name in sorted(factors.items(), reverse=True)[:4]
        ]
        card.row("example", f"10k in + 1k out = {'   '.join(parts)}")
