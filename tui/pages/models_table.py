"""ModelsListing: the table and the detail pane of the Models page, with the prices, channels and costs of models."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain

import msgspec
from textual.content import Content

from gateway.client.receipt import price_parts
from gateway.domain.human_values import brief_context, brief_multiplier
from gateway.domain.money import dollars
from gateway.domain.price import PriceDraft
from gateway.domain.price_kinds import PRICE
from gateway.domain.price_view import PriceView, draft_of, example_cost, price_range
from gateway.domain.units import MILLION, Nanos
from gateway.domain.views import ChannelView, ModelView
from tui import format as fmt, glyphs
from tui.charts import spark
from tui.columns import Column, number_column, text_column
from tui.listing import PageListing
from tui.text import TextCard, content, safe

Rate = Callable[[PriceView], int | None]


class ModelRow(msgspec.Struct, frozen=True):
    """A model, the states of its channels, and its recent cost."""

    view: ModelView
    states: tuple[tuple[str, str], ...]
    """The channels in the order they are tried, with their states."""
    month: Nanos
    """The cost of the last 30 days."""
    tokens: int
    """The tokens of the last 30 days."""
    calls: int
    """The calls of the last 30 days, without refused ones."""
    places: int
    """The highest number of decimals of a price in the table, up to 4. It aligns the decimal points of all prices."""


class ModelsListing(PageListing[ModelRow]):
    """What the page shows: models, in the server's order."""

    noun = "model"
    guide = (
        "No models: no channel offers any.",
        "{4} channels: {entity.new} creates one, {channels.fetch} fetches its models",
    )
    key_field = "name"
    creation_hint = "Page 4 lists the channels."

    def all_columns(self) -> Sequence[Column[ModelRow]]:
        return list(_columns())

    def rows(self) -> Sequence[ModelRow]:
        channels = {channel.name: channel for channel in self.session.board.channels}
        models = self.session.board.models
        prices = [model.price for model in models if model.price is not None]
        rates = {rate for p in prices for rate in (p.input_nanos, p.cached_input_nanos, p.output_nanos)}
        places = min(4, max((fmt.decimals(rate) for rate in rates if rate is not None), default=2))
        return [self._row(model, channels, places) for model in models]

    def command(self, row: ModelRow) -> str:
        price, name = row.view.price, row.view.name
        if price is None:
            return "tollkeeper " + fmt.cli_command("price", "set", name, input="DOLLARS", output="DOLLARS")
        if price.free:
            return "tollkeeper " + fmt.cli_command("price", "set", name, "--free")
        draft, blank = draft_of(price), PriceDraft()
        parts = (field.arguments(getattr(blank, field.name), getattr(draft, field.name)) for field in PRICE)
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

    def detail(self, row: ModelRow, width: int) -> Content:
        model, card = row.view, TextCard(width)
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
            states = [(name, "" if state == "ok" else fmt.channel_state(state)) for name, state in row.states]
            channels = [f"{safe(name)} ({safe(state, 16)})" if state else safe(name) for name, state in states]
            card.row("served", f" {glyphs.RIGHT} ".join(channels) or ("by no channel", "warn"))
        card.row("groups", ", ".join(map(safe, model.groups)) or ("none: no token can see it", "warn"))
        costs = self.trends.values(model.name, lambda day: day.cost_nanos or day.calls - day.refused)
        text = f" {fmt.dollar_amount(row.month)}, {fmt.brief_count(row.tokens)} tok"
        card.row("30 days", (spark(costs, min(30, max(10, width - 40))), "live"), text)
        card.row("total", f"{fmt.count_text(model.calls, 'call')}, {dollars(model.spent_nanos)}")
        return card.content()

    def words(self, row: ModelRow) -> str:
        m = row.view
        price = "unpriced" if m.price is None else "free" if m.price.free else m.price.source
        return safe(f"{m.name} {' '.join(m.channels)} {' '.join(m.groups)} {price}")

    def _state(self, channel: ChannelView | None, model: str) -> str:
        """Returns a channel's state: ``cooling`` also if its upstream recently did not have the model."""
        if channel is None:
            return "off"
        is_missing = channel.missing_models.get(model, 0) > self.session.now()
        return "cooling" if is_missing and channel.state == "ok" else channel.state

    def _row(self, model: ModelView, channels: Mapping[str, ChannelView], places: int) -> ModelRow:
        total = self.trends.totals.get(model.name)
        month, tokens = (total.cost_nanos, total.input_tokens + total.output_tokens) if total else (Nanos(0), 0)
        calls = total.calls - total.refused if total else 0
        states = tuple((name, self._state(channels.get(name), model.name)) for name in model.channels)
        return ModelRow(model, states, month, tokens, calls, places)

    def _add_examples(self, card: TextCard, model: ModelView, price: PriceView) -> None:
        groups = [group for group in reversed(self.session.board.groups) if group.name in model.groups]
        factors = {group.multiplier: group.name for group in groups} or {MILLION: ""}
        parts = [
            f"{dollars(example_cost(draft_of(price), factor))} ({safe(name, 24)} {brief_multiplier(factor)})"
            for factor, name in sorted(factors.items(), reverse=True)[:4]
        ]
        card.row("example", f"10k in + 1k out = {'   '.join(parts)}")


def _columns() -> Iterator[Column[ModelRow]]:
    yield text_column("name", "Model", 20, lambda r: r.view.name, flex=True)
    yield number_column("context", "Ctx", 5, lambda r: r.view.context or None, fmt.brief_count, rank=4, dim=True)
    yield _rate_column("input", "In $/M", 0, lambda p: p.input_nanos)
    yield _rate_column("cached", "Cached", 5, lambda p: p.cached_input_nanos)
    yield _rate_column("output", "Out $/M", 0, lambda p: p.output_nanos)
    yield Column(
        "source",
        "Price",
        10,
        _source,
        rank=1,
        tone=lambda r: "warn" if r.view.price is None or r.view.price.stale else "dim",
        sort=_source,
    )
    yield Column(
        "served", "Served by", 16, _serving_channel, flex=True, rank=2, tone=_served_tone, sort=lambda r: r.states
    )
    yield Column("month", "30 days", 9, _month, right=True, rank=3, sort=lambda r: r.month)
    yield number_column("calls", "Calls", 7, lambda r: r.calls, fmt.count, rank=6, extra=True)
    yield text_column(
        "groups", "Groups", 12, lambda r: ", ".join(r.view.groups), rank=7, dim=True, max_width=24, extra=True
    )


def _rate_column(id_: str, title: str, rank: int, rate: Rate) -> Column[ModelRow]:
    """Returns a column of dollars per million tokens. Blanks stand for missing decimals, so that points are aligned."""
    cells = 7

    def text(row: ModelRow) -> str:
        price = row.view.price
        nanos = None if price is None else rate(price)
        if nanos is None:
            return ("?" if price is None else glyphs.NOTHING) + " " * (row.places + 1)
        amount = dollars(nanos).replace("$", "")
        return (amount + " " * (row.places - fmt.decimals(nanos)))[: max(len(amount), cells)]

    return Column(
        id_,
        title,
        cells,
        text,
        right=True,
        rank=rank,
        tone=lambda r: "warn" if r.view.price is None else "",
        sort=lambda r: -1 if r.view.price is None else rate(r.view.price) or 0,
    )


def _source(row: ModelRow) -> str:
    price = row.view.price
    if price is None:
        return "! no price"
    source = "list" if price.source.startswith("genai-prices") else safe(price.source)  # the built-in list
    tiers = f", {fmt.count_text(price.tiers, 'tier')}" if price.tiers and not price.free else ""
    if price.inherited_from:
        return f"as {safe(price.inherited_from)}{tiers}"
    return "free" if price.free else f"{source}{' old' if price.stale else ''}{tiers}"


def _serving_channel(row: ModelRow) -> str:
    if row.view.stands_for:
        return f"as {safe(row.view.stands_for)}"
    marks = {"ok": "", "off": f" {glyphs.OFF}", "attention": f" {glyphs.FAILED}"}
    return ", ".join(f"{safe(name)}{marks.get(state, f' {glyphs.WARNING}')}" for name, state in row.states) or "nobody"


def _served_tone(row: ModelRow) -> str:
    return "" if row.view.stands_for or any(state in ("ok", "half_open") for _, state in row.states) else "warn"


def _month(row: ModelRow) -> str:
    if row.month:
        return fmt.short_cost(row.month)
    return f"{fmt.brief_count(row.tokens)} tok" if row.tokens else glyphs.NOTHING
