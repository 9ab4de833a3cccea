"""``price``: lists, shows, imports and removes prices, and shows news about them."""

from collections.abc import Iterator, Sequence

import click

from gateway.client.control import ControlClient
from gateway.client.receipt import missing_price
from gateway.commands import formatting
from gateway.commands.base import Noun
from gateway.commands.completion import CHANNELS, MODELS, comma_separated
from gateway.commands.editing import all_or_nothing, change_together
from gateway.commands.options import TEXT, ParsedText, confirm, says_yes, yes_option
from gateway.commands.output import ListColumn, notify, out_json, out_list, out_view, wants_json
from gateway.commands.price_set import set_price
from gateway.commands.session import run
from gateway.domain.channel import Dialect
from gateway.domain.errors import NotFound
from gateway.domain.human_values import count_text, first_of, tier_text
from gateway.domain.money import dollars
from gateway.domain.price import MANUAL, RATE_WORDS
from gateway.domain.price_kinds import rule_text
from gateway.domain.price_view import PriceNews, PriceView, example_cost, news_lines
from gateway.domain.quoting import option_names, require_names
from gateway.domain.text import plain, word
from gateway.domain.upstream_views import PriceProposal
from gateway.domain.usage import UNITS
from gateway.domain.views import ChannelView, ModelView, targets_of


def _note(proposal: PriceProposal) -> str:
    if proposal.kept:
        return "set by you, kept"
    if proposal.applied:
        return "imported"
    return plain(proposal.guard) if proposal.differs else ""


IMPORT_COLUMNS = [
    ListColumn("Model", lambda p: p.model, "name", min_width=16),
    ListColumn("Change", lambda p: p.change),
    ListColumn("Now", lambda p: formatting.price(p.now), "whole", drop=4),
    ListColumn("Listed", lambda p: formatting.price(p.listed), "whole"),
    ListColumn("Source", lambda p: formatting.source(p.listed), drop=2),
    ListColumn("Channel", lambda p: p.channel, "name", drop=1),
    ListColumn("Note", _note, drop=3),
]


def _no_prices_reason(channels: Sequence[ChannelView], models: Sequence[str] | None, selector: str | None) -> str:
    """Returns why no known price applies, and what to do. ``selector``: the chosen channel or vendor; None: all."""
    offered = {channel.name: {model.name for model in channel.models} for channel in channels}
    if missing := sorted(set(models or ()).difference(*offered.values())):
        subject = "No channel offers" if selector is None else f"'{plain(selector)}' does not offer"
        return f". {subject} {first_of(missing, 3)}; 'tollkeeper model list' lists the names"
    relevant = [channel for channel in channels if models is None or not offered[channel.name].isdisjoint(models)]
    unknown = [channel.name for channel in relevant if not channel.preset and channel.dialect is not Dialect.MOCK]
    if not unknown:
        return ""
    edit = f"name them with 'tollkeeper channel edit {word(unknown[0])} --preset VENDOR'"
    copy = "copy single prices with 'tollkeeper price set MODEL --like MODEL'"
    return f". The vendors of these channels are not known: {first_of(unknown, 3)}; {edit}, or {copy}"


def _summary(proposals: Sequence[PriceProposal], *, dry_run: bool, accept: bool) -> Iterator[str]:
    changes = [p for p in proposals if p.differs and not p.kept]
    guarded = 0 if accept else sum(bool(p.guard) for p in changes)
    yield f"{'would import' if dry_run else 'imported'}: {count_text(len(changes) - guarded, 'price')}"
    if guarded:
        yield f"not imported: {count_text(guarded, 'price')}; see the notes (--accept imports them too)"
    if any(p.listed.stale for p in proposals):
        yield "note: the price list is old; a newer version of tollkeeper has a newer list"


COLUMNS = [
    ListColumn("Model", lambda p: p.model, "name", min_width=16),
    ListColumn("Channel", lambda p: p.channel, "name", optional=True),
    ListColumn("Input", lambda p: dollars(p.input), "number"),
    ListColumn("Cached", lambda p: _optional(p.cached_input), "number"),
    ListColumn("Cache write", lambda p: _optional(p.cache_write), "number", drop=5),
    ListColumn("Long write", lambda p: _optional(p.cache_write_long), "number", drop=3),
    ListColumn("Output", lambda p: dollars(p.output), "number"),
    ListColumn("A call", lambda p: _optional(p.per_call or None), "number", drop=4),
    ListColumn("Source", lambda p: "free" if p.free and p.source == MANUAL else formatting.source(p), drop=6),
    ListColumn("Updated", lambda p: formatting.moment(p.updated_ms), "whole", drop=2),
    ListColumn("Longer inputs", lambda p: ", ".join(map(tier_text, p.tiers)), drop=7, optional=True),
    ListColumn("Other prices", lambda p: "; ".join(map(rule_text, p.rules)), drop=1, optional=True),
]

ROUTE_COLUMNS = [
    ListColumn("Channel", lambda r: r.channel, "name"),
    ListColumn("Calls there cost", lambda r: formatting.price(r.price)),
    ListColumn("Source", lambda r: "" if r.price is None else formatting.source(r.price)),
]

UNPRICED_COLUMNS = [
    ListColumn("Model", lambda m: m.name, "name", min_width=16),
    ListColumn("Channels", lambda m: formatting.brief_names(m.channels)),
    ListColumn("Upstream price", formatting.published_price),
    ListColumn("Calls", lambda m: f"{m.calls:,}", "number"),
]

RISE_COLUMNS = [
    ListColumn("Model", lambda p: p.model, "name", min_width=16),
    ListColumn("From", lambda p: p.day),
    ListColumn("Input", lambda p: dollars(p.input_nanos), "number"),
    ListColumn("Then", lambda p: dollars(p.next_input_nanos), "number"),
    ListColumn("Output", lambda p: dollars(p.output_nanos), "number"),
    ListColumn("Then", lambda p: dollars(p.next_output_nanos), "number"),
]
PUBLISHED_COLUMNS = [
    ListColumn("Model", lambda p: p.model, "name", min_width=16),
    ListColumn("Channel", lambda p: p.channel, "name"),
    ListColumn("Input", lambda p: dollars(p.input_nanos), "number"),
    ListColumn("Published", lambda p: dollars(p.published_input_nanos), "number"),
    ListColumn("Output", lambda p: dollars(p.output_nanos), "number"),
    ListColumn("Published", lambda p: dollars(p.published_output_nanos), "number"),
]
HINT_COLUMNS = [
    ListColumn("Model", lambda p: p.model, "name", min_width=16),
    ListColumn("Channel", lambda p: p.channel, "name"),
    ListColumn("List price", lambda p: p.text),
]


@click.group(cls=Noun, bare="list")
def price() -> None:
    """What models cost, in dollars per million tokens. Calls of a model without a price are counted but not charged, or
    refused (see 'tollkeeper settings').
    """


@price.command("list", examples=["tollkeeper price list", "tollkeeper price list --unpriced"])
@click.option("--unpriced", is_flag=True, help="List the offered models that have no price instead.")
def list_prices(*, unpriced: bool) -> None:
    """List all prices, in dollars per million tokens."""

    async def work(client: ControlClient) -> tuple[list[ModelView], list[PriceView], PriceNews]:
        models, prices = (await client.models(), []) if unpriced else ([], await client.prices())
        return models, prices, await client.price_news(hints=unpriced)

    models, prices, news = run(work)
    if unpriced:
        hints = {hint.model: hint.text for hint in news.hints}
        columns = [*UNPRICED_COLUMNS, ListColumn("List price", lambda m: plain(hints.get(m.name, "")))]
        empty = "every offered model has a price"
        out_list([m for m in models if m.price is None], columns, empty=empty)
        return
    out_list(prices, COLUMNS, empty="no prices yet; see: tollkeeper price set --help")
    notify(*(f"note: {line}" for line in news_lines(news)))


@price.command("show", examples=["tollkeeper price show gpt-4o"])
@click.argument("model", shell_complete=MODELS)
def show_price(model: str) -> None:
    """Show the price of one model: every rate, its source, and an example."""
    detail = run(lambda client: client.model(model))
    routes = [*{route.channel: route for route in detail.routes}.values()]
    has_own = any(route.price != detail.price for route in routes)
    details = _details(detail.price, model, refused=detail.refuses_unpriced)
    out_view(detail.price, details, routes if has_own else [], ROUTE_COLUMNS)


def _details(view: PriceView | None, model: str, *, refused: bool) -> Iterator[tuple[str, str]]:
    """Yields the details of a price. ``refused`` is whether the settings refuse calls of unpriced models."""
    yield "model", model
    if view is None:
        yield "price", missing_price(model, refused=refused)
        return
    yield "price of", view.inherited_from and f"{view.inherited_from}, which {model} stands for"
    yield "price", "free" if view.free else "in dollars per million tokens:"
    if not view.free:
        yield "input", dollars(view.input)
        yield "output", dollars(view.output)
        yield "cached input", _optional(view.cached_input) or "as input"
        yield "cache write", _optional(view.cache_write) or "as input"
        yield "long cache write", _optional(view.cache_write_long) or "as cache write"
        yield "per call", _optional(view.per_call or None)
        for tier in view.tiers:
            yield "longer inputs", tier_text(tier)
        for name, nanos in view.extras.items():
            yield RATE_WORDS[name], dollars(nanos) + (" each" if name in UNITS else "")
        for rule in view.rules:
            yield "and", rule_text(rule)
        yield "example", f"10,000 input and 1,000 output tokens: {dollars(example_cost(view))}"
    yield "source", f"{view.source}{' (set by you)' if view.source == MANUAL else ''}"
    yield "list of", f"{formatting.moment(view.as_of_ms)[:10]}{', old' if view.stale else ''}" if view.as_of_ms else ""
    yield "context", f"{view.context:,} tokens" if view.context else ""
    yield "updated", formatting.moment(view.updated_ms) if view.updated_ms else ""


@price.command("remove", json_help="", examples=["tollkeeper price remove gpt-4o"])
@click.argument("models", metavar="MODEL...", nargs=-1, required=True, shell_complete=MODELS)
@click.option("--channel", default="", shell_complete=CHANNELS, help="Remove only the price at this channel.")
@yes_option()
def remove_price(models: tuple[str, ...], *, channel: str) -> None:
    """Remove prices. Calls of the models are then counted but not charged, or refused."""
    names = [*dict.fromkeys(models)]
    with all_or_nothing(names):
        if not says_yes():
            confirm(run(lambda client: _removal_question(client, names, channel)))
        notify(run(lambda client: change_together(client, "prices", dict.fromkeys(names), channel)))


async def _removal_question(client: ControlClient, names: Sequence[str], ref: str) -> str:
    """Returns the question before prices are removed, at all channels or one. Raises NotFound if one does not exist."""
    channel = (await client.channel(ref)).name if ref else ""
    place = f" at channel '{plain(channel)}'" if channel else ""
    prices = await client.prices()
    priced = {view.model for view in prices if channel in ("", view.channel)}
    if missing := [model for model in names if model not in priced]:
        raise NotFound(f"model '{plain(missing[0])}' has no price{place}; 'tollkeeper price list' lists the prices")
    calls = f"{'Its' if len(names) == 1 else 'Their'} calls"
    if channel:
        calls = "Calls there will then cost the general price; without one, they"
    refused = (await client.settings()).refuse_unpriced
    effect = "be refused" if refused else "cost nothing, and no dollar budget will limit them"
    targets = targets_of(names, await client.channels())
    if others := sorted(view.model for view in prices if view.model in targets and not view.channel):
        mapped = f"cost what {first_of([plain(name) for name in others], 3)} costs"
        effect = mapped if len(names) == 1 else f"{mapped}, or else {effect}"  # not every name may be mapped
    listed = ", ".join(f"'{model}'" for model in names)
    return f"Remove the price of {listed}{place}? {calls} will {effect}."


@price.command(
    "import",
    examples=[
        "tollkeeper price import --dry-run",
        "tollkeeper price import --provider openrouter --model gpt-4o,gpt-4o-mini",
    ],
)
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.option(
    *("--provider", "--channel", "channel"),
    metavar="NAME",
    type=TEXT,
    shell_complete=CHANNELS,
    help="Only prices of this channel or vendor.",
)
@click.option(
    "--model",
    "models",
    type=ParsedText("names", lambda text: require_names(text, "leave the option out for all")),
    multiple=True,
    shell_complete=comma_separated(MODELS),
    help="Only prices of these models: a,b.",
)
@click.option(
    "--accept", is_flag=True, help="Also import steep rises, and prices that look as if they were in another unit."
)
def import_prices(*, dry_run: bool, channel: str | None, models: tuple[str, ...], accept: bool) -> None:
    """Import vendors' list prices for the offered models. Prices that you set stay. Nothing is downloaded."""
    chosen = {"models": option_names(models)} if models else {}
    proposals = run(
        lambda client: client.import_prices(**chosen, channel=channel or "", apply=not dry_run, accept=accept),
        create=not dry_run,
    )
    empty = "no known prices; nothing to import"
    if not proposals:
        channels = run(lambda client: client.channels())
        selected = [view for view in channels if channel in (None, view.id, view.name, view.preset)]
        empty += _no_prices_reason(selected, chosen.get("models"), channel)
    out_list(proposals, IMPORT_COLUMNS, empty=empty)
    notify(*(_summary(proposals, dry_run=dry_run, accept=accept) if proposals else ()))


@price.command("news", examples=["tollkeeper price news"])
def show_news() -> None:
    """Show how old the price list is, what an import would change, which prices will rise, which prices differ from
    those that upstreams publish, and why models have no list price.
    """
    news = run(lambda client: client.price_news(hints=True))
    if wants_json():
        out_json(news)
        return
    out_list(news.rises, RISE_COLUMNS, empty="")
    out_list(news.published, PUBLISHED_COLUMNS, empty="")
    out_list(news.hints, HINT_COLUMNS, empty="")
    lines = news_lines(news) or ([] if news.hints else ["no news: an import would change nothing"])
    notify(f"price list of {news.as_of}" if news.as_of else "", *lines)


price.add_command(set_price)


def _optional(nanos: int | None) -> str:
    return "" if nanos is None else dollars(nanos)
