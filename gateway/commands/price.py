"""``price``: what models cost, and ``price import``: vendors' prices, with a preview."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from gateway.client.control import ControlClient
from gateway.commands import formatting, price_file
from gateway.commands.base import Command, Noun
from gateway.commands.completion import CHANNELS, MODELS, several
from gateway.commands.field_options import field_options, patch_of
from gateway.commands.options import SOME, confirm, json_option, naming, yes_option
from gateway.commands.output import out_json, out_list, out_pairs, words
from gateway.commands.price_news import news_of, show_news
from gateway.commands.session import run
from gateway.domain.channel import Dialect
from gateway.domain.cost import cost
from gateway.domain.errors import NotFound
from gateway.domain.fields import PRICE
from gateway.domain.human_values import count_text, written_tier
from gateway.domain.money import dollars, number
from gateway.domain.patterns import is_pattern, matches, near_names
from gateway.domain.price import Price, PriceDraft, rates
from gateway.domain.price_news import PriceNews, news_lines
from gateway.domain.price_view import PriceView
from gateway.domain.quoting import listed_names
from gateway.domain.text import plain, word
from gateway.domain.units import MILLION, Nanos
from gateway.domain.upstream_views import PriceProposal
from gateway.domain.usage import Usage
from gateway.domain.views import ChannelView, ModelView

IMPORT_COLUMNS = [
    ("Model", lambda p: p.model),
    ("Change", lambda p: p.change),
    ("Now", lambda p: formatting.price(p.now)),
    ("Listed", lambda p: formatting.price(p.listed)),
    ("Source", lambda p: formatting.source(p.listed)),
    ("Channel", lambda p: p.channel),
    ("Note", lambda p: _note(p)),  # noqa: PLW0108 - it is below
]
IMPORT_DROP = ("Channel", "Source", "Note", "Now")
"""Columns that a narrow terminal does without, the first one first."""


@click.command(
    "import",
    cls=Command,
    examples=[
        "tollkeeper price import --dry-run",
        "tollkeeper price import --provider openrouter --model gpt-4o,gpt-4o-mini",
    ],
)
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.option(
    *("--provider", "--channel", "channel"),
    metavar="NAME",
    type=SOME,
    shell_complete=CHANNELS,
    help="Only those of this channel or vendor.",
)
@click.option(
    "--model",
    "models",
    type=naming("leave the option out for all"),
    multiple=True,
    shell_complete=several(MODELS),
    help="Only those of these models: a,b.",
)
@click.option("--accept", is_flag=True, help="Also import steep rises and prices that look like another unit.")
@json_option
def import_prices(*, dry_run: bool, channel: str | None, models: tuple[str, ...], accept: bool, as_json: bool) -> None:
    """Import vendors' list prices for the offered models. Prices you set stay; nothing is downloaded."""
    wanted = listed_names(models) if models else None
    found = run(
        lambda client: client.import_prices(wanted, channel=channel or "", apply=not dry_run, accept=accept),
        create=not dry_run,
    )
    empty = "no known prices; nothing to import"
    if not found:
        every = run(lambda client: client.channels())
        empty += _why_nothing([one for one in every if channel in (None, one.name, one.preset)], wanted, channel)
    out_list(found, IMPORT_COLUMNS, as_json=as_json, empty=empty, drop=IMPORT_DROP)
    for line in _summary(found, dry_run=dry_run, accept=accept) if found else []:
        words(line)


def _why_nothing(channels: Sequence[ChannelView], wanted: Sequence[str] | None, asked: str | None) -> str:
    """Why no price list applies to channels, or to the models wanted of them, and what to do.

    ``asked``: the channel or vendor whose channels they are; None: they are all.
    """
    offered = {one.name: {model.name for model in one.models} for one in channels}
    if missing := sorted(set(wanted or ()).difference(*offered.values())):
        whose = "No channel offers" if asked is None else f"'{plain(asked)}' does not offer"
        return f". {whose} {formatting.first_ones(missing)}; 'tollkeeper model list' has the names"
    having = [one for one in channels if wanted is None or not offered[one.name].isdisjoint(wanted)]
    unknown = [one.name for one in having if not one.preset and one.dialect is not Dialect.MOCK]
    if not unknown:
        return ""
    return (
        f". It is not known whose models these channels have: {formatting.first_ones(unknown)}; say it with "
        f"'tollkeeper channel edit {word(unknown[0])} --preset VENDOR', "
        "or copy single prices with 'tollkeeper price set MODEL --like MODEL'"
    )


def _note(proposal: PriceProposal) -> str:
    """What happens to it."""
    if proposal.kept:
        return "set by you, kept"
    if proposal.applied:
        return "imported"
    return plain(proposal.guard) if proposal.differs else ""


def _summary(found: list[PriceProposal], *, dry_run: bool, accept: bool) -> list[str]:
    wanted = [p for p in found if p.differs and not p.kept]
    left = 0 if accept else sum(bool(p.guard) for p in wanted)
    taken = len(wanted) - left
    lines = [f"{'would import' if dry_run else 'imported'}: {count_text(taken, 'price')}"]
    if left:
        lines.append(f"not imported: {count_text(left, 'price')}; see the notes (--accept imports them too)")
    if any(p.listed.stale for p in found):
        lines.append("note: the list is old; a newer tollkeeper has a newer one")
    return lines


COLUMNS = [
    ("Model", lambda p: p.model),
    (">Input", lambda p: dollars(p.input_nanos)),
    (">Cached", lambda p: _optional(p.cached_input_nanos)),
    (">Cache write", lambda p: _optional(p.cache_write_nanos)),
    (">Long write", lambda p: _optional(p.cache_write_long_nanos)),
    (">Output", lambda p: dollars(p.output_nanos)),
    (">A call", lambda p: _optional(p.per_call_nanos or None)),
    ("Source", lambda p: "free" if p.free and p.source == "manual" else formatting.source(p)),
    ("Updated", lambda p: formatting.moment(p.updated_ms)),
]
TIERS = ("Longer inputs", lambda p: ", ".join(map(written_tier, p.tier_prices)))
"""A column of its own if there are any; as ``--tier`` takes them."""
DROP = ("Updated", "Long write", "A call", "Cache write", "Source", "Longer inputs")
"""Columns that a narrow terminal does without, the first one first."""


OPTIONS = {field.name: field.flags for field in PRICE}

UNPRICED_COLUMNS = [
    ("Model", lambda m: m.name),
    ("Channels", lambda m: formatting.some(m.channels)),
    ("Upstream price", lambda m: f"{dollars(m.told.input)} / {dollars(m.told.output)}" if m.told else ""),
    (">Calls", lambda m: f"{m.calls:,}"),
]


@click.group(cls=Noun, bare="list")
def price() -> None:
    """What models cost, in dollars per million tokens. A model without a price is unpriced: counted, not charged,
    or refused (see 'tollkeeper settings').
    """


@price.command("list", examples=["tollkeeper price list", "tollkeeper price list --unpriced"])
@click.option("--unpriced", is_flag=True, help="List the offered models that have no price instead.")
@json_option
def list_prices(*, unpriced: bool, as_json: bool) -> None:
    """List all prices, in dollars per million tokens."""
    if unpriced:
        models, news = run(_models_and_news)
        hints = {hint.model: hint.text for hint in news.hints}
        columns = [*UNPRICED_COLUMNS, ("List price", lambda m: plain(hints.get(m.name, "")))]
        empty = "every offered model has a price"
        out_list([m for m in models if m.price is None], columns, as_json=as_json, empty=empty)
        return
    found, news = run(_prices_and_news)
    columns = [*COLUMNS, TIERS] if any(p.tier_prices for p in found) else COLUMNS
    out_list(found, columns, as_json=as_json, empty="no prices yet; see: tollkeeper price set --help", drop=DROP)
    for line in news_lines(news):
        words(f"note: {line}")


async def _models_and_news(client: ControlClient) -> tuple[list[ModelView], PriceNews]:
    return await client.models(), await news_of(client)


async def _prices_and_news(client: ControlClient) -> tuple[list[PriceView], PriceNews]:
    return await client.prices(), await news_of(client)


@price.command("show", examples=["tollkeeper price show gpt-4o"])
@click.argument("model", shell_complete=MODELS)
@json_option
def show_price(model: str, *, as_json: bool) -> None:
    """Show the price of one model: every rate, where it is from, and an example."""

    async def work(client: ControlClient) -> tuple[PriceView | None, bool]:
        prices = {view.model: view for view in await client.prices()}
        if model in prices:
            return await _in_effect(client, prices[model]), False
        found = (await client.model(model)).price
        return found, found is None and not as_json and (await client.settings()).refuse_unpriced

    found, refused = run(work)
    if as_json:
        out_json(found)
    else:
        out_pairs(_details(found, model, refused=refused))


async def _in_effect(client: ControlClient, own: PriceView) -> PriceView:
    """The price that applies to a model that has one of its own; that of its target may come first."""
    offered = next((one for one in await client.models() if one.name == own.model), None)
    return own if offered is None or offered.price is None else offered.price


def _details(view: PriceView | None, model: str, *, refused: bool) -> Iterator[tuple[str, str]]:
    yield "model", model
    if view is None:
        yield "price", formatting.price_words(None, model, refused=refused)
        return
    yield "price of", view.inherited_from and f"{view.inherited_from}, which {model} stands for"
    yield "price", "free" if view.free else "in dollars per million tokens:"
    if not view.free:
        yield "input", dollars(view.input_nanos)
        yield "output", dollars(view.output_nanos)
        yield "cached input", _optional(view.cached_input_nanos) or "as input"
        yield "cache write", _optional(view.cache_write_nanos) or "as input"
        yield "long cache write", _optional(view.cache_write_long_nanos) or "as cache write"
        yield "per call", _optional(view.per_call_nanos or None)
        for tier in view.tier_prices:
            yield "longer inputs", written_tier(tier)
        yield "example", f"10,000 input and 1,000 output tokens: {dollars(_example(view))}"
    yield "source", f"{view.source}{' (set by you)' if view.source == 'manual' else ''}"
    yield "list of", f"{formatting.moment(view.as_of_ms)[:10]}{', old' if view.stale else ''}" if view.as_of_ms else ""
    yield "context", f"{view.context:,} tokens" if view.context else ""
    yield "updated", formatting.moment(view.updated_ms)


def _example(view: PriceView) -> Nanos:
    """What a call of 10,000 input and 1,000 output tokens costs."""
    fields = {name: getattr(view, f"{name}_nanos") for name in ("input", "output", "per_call")}
    usage = Usage(input=10_000, output=1_000)
    price = Price(model=view.model, tiers=tuple(view.tier_prices), **fields)
    return cost(usage, rates(price, usage.input, MILLION))


@price.command(
    "set",
    examples=[
        "tollkeeper price set gpt-4o --input 2.50 --cached 1.25 --output 10",
        "tollkeeper price set claude-sonnet-4-5 --input 3 --output 15 --tier 200k=6/22.50",
        "tollkeeper price set my-proxy/gpt --like gpt-4o",
        "tollkeeper price set qwen3:8b llama3.3:70b --free",
        "tollkeeper price set --from prices.csv",
    ],
)
@click.argument("models", metavar="MODEL...", nargs=-1, shell_complete=MODELS)
@field_options(PRICE)
@click.option("--free", is_flag=True, help="Free of charge.")
@click.option(
    "--like",
    metavar="MODEL",
    type=SOME,
    shell_complete=MODELS,
    help="Copy the price of this model: one that has a price here, or one of the price list.",
)
@click.option(
    *("--from", "file"),
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    help="Set all prices in a CSV, JSON or TOML file, with the fields 'model', 'input', 'output' and so on.",
)
@json_option
def set_price(
    models: tuple[str, ...], *, free: bool, like: str | None, file: str | None, as_json: bool, **given: Any
) -> None:
    """Set the price of a model, or of several. It replaces the whole price. With --json, several are an array."""
    amounts = patch_of(PRICE, given, PriceDraft())
    if file is not None:
        if models or amounts or free or like:
            raise click.UsageError("--from FILE stands alone", click.get_current_context())
        price_file.set_prices(file, as_json=as_json)
        return
    if not models:
        raise click.UsageError("Missing argument 'MODEL...'.", click.get_current_context())
    _check_options(amounts, free=free, like=like)
    body = {"like": like} if like else {"input": 0, "output": 0} | amounts

    async def work(client: ControlClient) -> list[tuple[PriceView, list[str]]]:
        before = {} if free or like else {view.model: view for view in await client.prices()}
        if len(models) == 1:
            views = [await client.set_price(models[0], body)]
        else:
            await client.batch("prices", dict.fromkeys(models, body))
            views = [view for view in await client.prices() if view.model in models]
        lost = {view.model: _lost_rates(before.get(view.model), view) for view in views}
        return [(view, [lost[view.model], await _unknown_model(client, view.model)]) for view in views]

    done = run(work, create=True)
    if as_json:
        out_json([view for view, _ in done] if len(models) > 1 else done[0][0])
    for view, notes in done:
        words(f"Price of '{view.model}': {formatting.price(view)}")
        if view.cached_input_nanos is not None and view.cached_input_nanos > view.input_nanos:
            words(f"note: cached input costs more than other input: {dollars(view.cached_input_nanos)}")
        for note in filter(None, notes):
            words(note)


def _lost_rates(before: PriceView | None, view: PriceView) -> str:
    """A note about rates that a price had and has no more, with the options that keep them; else nothing."""
    if before is None:
        return ""
    lost = [
        f"{OPTIONS[name]} {number(rate)}"
        for name in ("cached_input", "cache_write", "cache_write_long", "per_call")
        if (rate := _rate(before, name)) is not None and _rate(view, name) is None
    ]
    kept = {tier.above for tier in view.tier_prices}
    lost += [f"--tier {written_tier(tier)}" for tier in before.tier_prices if tier.above not in kept]
    return f"note: the whole price was replaced; what it had before and has no more: {' '.join(lost)}" if lost else ""


def _rate(view: PriceView, name: str) -> int | None:
    """A rate that a price may have beside those of input and output; None if it has none."""
    rate: int | None = getattr(view, f"{name}_nanos")
    return None if name == "per_call" and not rate else rate


async def _unknown_model(client: ControlClient, model: str) -> str:
    """A note if no channel has a model of that name, with the names that may have been meant; else nothing."""
    offered = {view.name for view in await client.models()}
    offered |= {served.upstream_name for channel in await client.channels() for served in channel.models}
    if model in offered or not offered:
        return ""
    note = f"note: no channel offers '{plain(model)}' now"
    if is_pattern(model):
        fitting = formatting.first_ones([plain(name) for name in sorted(offered) if matches(name, (model,))])
        return f"{note}; a price is for one model, not for a pattern{f': {fitting}' if fitting else ''}"
    near = " or ".join(f"'{plain(name)}'" for name in near_names(model, offered))
    return f"{note}; did you mean {near}?" if near else note


def _check_options(amounts: Mapping[str, Any], *, free: bool, like: str | None) -> None:
    """Raises UsageError unless the price is given in exactly one form."""
    ctx = click.get_current_context()
    if like and (free or amounts):
        raise click.UsageError("--like cannot be combined with amounts or --free", ctx)
    if free and any(amounts.values()):
        raise click.UsageError("--free cannot be combined with amounts", ctx)
    if not (free or like) and "per_call" not in amounts and not {"input", "output"} <= amounts.keys():
        raise click.UsageError("give --input and --output, or --like, or --free", ctx)


@price.command("remove", examples=["tollkeeper price remove gpt-4o"])
@click.argument("models", metavar="MODEL...", nargs=-1, required=True, shell_complete=MODELS)
@yes_option
def remove_price(models: tuple[str, ...], *, yes: bool) -> None:
    """Remove prices. The models are then unpriced: their calls are counted, not charged, or refused."""
    if not yes:
        priced = {view.model for view in run(lambda client: client.prices())}
        if missing := [model for model in models if model not in priced]:
            raise NotFound(f"model '{missing[0]}' has no price; 'tollkeeper price list' shows those that have one")
        named, its = ("', '".join(models), "Its" if len(models) == 1 else "Their")
        refused = run(lambda client: client.settings()).refuse_unpriced
        effect = "be refused" if refused else "cost nothing, and no dollar budget will limit them"
        confirm(f"Remove the price of '{named}'? {its} calls will {effect}.", yes=yes)
    if len(models) == 1:
        run(lambda client: client.remove_price(models[0]))
    else:
        run(lambda client: client.batch("prices", dict.fromkeys(models)))
    for model in dict.fromkeys(models):
        words(f"Price of '{model}' removed.")


price.add_command(import_prices)
price.add_command(show_news)


def _optional(nanos: int | None) -> str:
    return "" if nanos is None else dollars(nanos)
