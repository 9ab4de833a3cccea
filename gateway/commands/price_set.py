"""``price set``: sets prices of models, at all channels or at one, always or under a condition."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import click
import msgspec

from gateway.client.control import ControlClient
from gateway.commands import formatting
from gateway.commands.base import Command
from gateway.commands.completion import CHANNELS, MODELS
from gateway.commands.editing import field_options, patch_of
from gateway.commands.options import TEXT, json_option, with_options
from gateway.commands.output import notify, out_json
from gateway.commands.session import run
from gateway.domain.errors import BadRequest, NotFound
from gateway.domain.human_values import first_of, parse_price_hours
from gateway.domain.money import dollars
from gateway.domain.patterns import is_pattern, matches, near_names
from gateway.domain.price import RATE_WORDS, VARIANTS, PriceDraft, PriceRule
from gateway.domain.price_kinds import PRICE, parse_moment, rule_text
from gateway.domain.price_view import PriceView, draft_of
from gateway.domain.text import plain, word
from gateway.domain.usage import UNITS

rule_options = with_options(
    click.option("--channel", shell_complete=CHANNELS, help="Only for calls that this channel answers."),
    click.option(
        "--during",
        multiple=True,
        metavar="HOURS",
        help="Only for calls that begin in these hours: 'mon-fri 01:00-04:00 UTC'. May be repeated. "
        "The price at other times stays.",
    ),
    click.option(
        "--since", metavar="DATE", help="Only from this day on (UTC): 2026-12-01. The price until then stays."
    ),
    click.option(
        "--variant",
        type=click.Choice(VARIANTS),
        help="Only for calls that the upstream reports as processed in this way. The usual price stays.",
    ),
)
"""Adds the options that say where and when a price applies."""


@click.command(
    "set",
    cls=Command,
    examples=[
        "tollkeeper price set gpt-4o --input 2.50 --cached 1.25 --output 10",
        "tollkeeper price set claude-sonnet-4-5 --input 3 --output 15 --tier 200k=6/22.50",
        "tollkeeper price set my-proxy/gpt --like gpt-4o",
        "tollkeeper price set qwen3:8b llama3.3:70b --free",
        "tollkeeper price set deepseek-chat --during 'mon-fri 01:00-04:00 UTC' --input 0.30 --output 1.20",
        "tollkeeper price set gpt-oss-120b --channel groq --input 0.15 --output 0.60",
    ],
)
@click.argument("models", metavar="MODEL...", nargs=-1, required=True, shell_complete=MODELS)
@field_options(PRICE)
@rule_options
@click.option("--free", is_flag=True, help="Free of charge.")
@click.option(
    "--like",
    metavar="MODEL",
    type=TEXT,
    shell_complete=MODELS,
    help="Copy the price of this model: one that has a price here, or one in the price list.",
)
@json_option
def set_price(models: tuple[str, ...], *, free: bool, like: str | None, as_json: bool, **values: Any) -> None:
    """Set the price of one or more models, replacing the whole price. With --json, several are printed as an array."""
    amounts = patch_of(PRICE, values, PriceDraft())
    conditions, channel = parse_conditions(values), values["channel"] or ""
    _check_options(amounts, free=free, like=like, conditions=conditions)
    body = {"like": like} if like else {"input": 0, "output": 0} | amounts

    names, compared = tuple(dict.fromkeys(models)), not (free or like or conditions)

    async def work(client: ControlClient) -> list[tuple[PriceView, list[str]]]:
        before = _current_prices(await client.prices(), channel) if compared or conditions else {}
        bodies = dict.fromkeys(names, body)
        if conditions:  # the price is added to the current one
            if missing := [name for name in names if name not in before]:
                advice = "set the usual one first, without hours, day or variant"
                raise NotFound(f"'{plain(missing[0])}' has no price yet; {advice}")
            bodies = {name: with_rule(before[name], conditions, body) for name in names}
        views = await _set_prices(client, bodies, channel)
        offered = await _offered_names(client, names)
        results = []
        for view in views:
            lost = _lost_rates(before.get(view.model), view) if compared else ""
            results.append((view, [lost, _unknown_model_note(view.model, offered)]))
        return results

    _report(run(work, create=True), several=len(models) > 1, as_json=as_json)


async def _set_prices(client: ControlClient, bodies: Mapping[str, dict[str, Any]], channel: str) -> list[PriceView]:
    """Set the prices of models in one change, at one channel if it is named. Returns the new prices."""
    if len(bodies) == 1:
        return [await client.set_price(name, body, channel) for name, body in bodies.items()]
    place = (await client.channel(channel)).name if channel else ""
    await client.batch("prices", bodies, channel)
    return [view for view in await client.prices() if view.model in bodies and view.channel == place]


def _report(results: Sequence[tuple[PriceView, list[str]]], *, several: bool, as_json: bool) -> None:
    if as_json:
        out_json([view for view, _ in results] if several else results[0][0])
    for view, notes in results:
        where = f" at channel '{plain(view.channel)}'" if view.channel else ""
        notify(f"Price of '{view.model}'{where}: {formatting.price(view)}")
        for rule in view.rules:
            notify(f"  {rule_text(rule)}")
        if view.cached_input_nanos is not None and view.cached_input_nanos > view.input_nanos:
            notify(f"note: cached input costs more than other input: {dollars(view.cached_input_nanos)}")
        notify(*notes)


def _current_prices(views: Sequence[PriceView], channel: str) -> dict[str, PriceView]:
    """Returns the current price of each model: at the named channel, else the general one, else at any channel."""
    ranked = sorted(views, key=lambda view: (view.channel != channel, view.channel != ""), reverse=True)
    return {view.model: view for view in ranked if channel in ("", view.channel) or not view.channel}


def _lost_rates(before: PriceView | None, view: PriceView) -> str:
    """Returns a note about the rates that a price lost, with the options that restore them; empty if it lost none."""
    lost: list[str] = []
    for field in PRICE:
        old, new = (getattr(draft_of(price), field.name) for price in (before, view))
        is_list = isinstance(old, tuple | dict)
        if any(part not in new for part in old) if is_list else old is not None and new is None:
            lost += map(word, field.arguments(new, old))
    return f"note: the whole price was replaced; it no longer has: {' '.join(lost)}" if lost else ""


async def _offered_names(client: ControlClient, models: Collection[str]) -> set[str]:
    """Returns the names of all offered models; if these ``models`` are not among them, also their upstream names."""
    offered = {view.name for view in await client.models()}
    if not offered.issuperset(models):
        offered |= {served.upstream_name for channel in await client.channels() for served in channel.models}
    return offered


def _unknown_model_note(model: str, offered: Collection[str]) -> str:
    """Returns a note if no channel offers a model by that name, with similar names; else an empty text."""
    if model in offered or not offered:
        return ""
    note = f"note: no channel offers '{plain(model)}' now"
    if is_pattern(model):
        matching = first_of([plain(name) for name in sorted(offered) if matches(name, (model,))], 3)
        return f"{note}; a price is for one model, not for a pattern{f': {matching}' if matching else ''}"
    near = " or ".join(f"'{plain(name)}'" for name in near_names(model, offered))
    return f"{note}; did you mean {near}?" if near else note


def _check_options(amounts: Mapping[str, Any], *, free: bool, like: str | None, conditions: Mapping[str, Any]) -> None:
    if like and conditions:
        raise click.UsageError("--like copies a whole price; leave out --during, --since and --variant")
    if conditions and "rules" in amounts:
        raise click.UsageError("--rule has its own hours, day and variant; leave out --during, --since and --variant")
    if like and (free or amounts):
        raise click.UsageError("--like cannot be combined with amounts or --free")
    if free and any(amounts.values()):
        raise click.UsageError("--free cannot be combined with amounts")
    if not (free or like) and "per_call" not in amounts and not {"input", "output"} <= amounts.keys():
        raise click.UsageError("give --input and --output, or --like, or --free")


def parse_conditions(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the conditions that the options set; empty if the price always applies. Raises UsageError."""
    try:
        during = [msgspec.to_builtins(parse_price_hours(text)) for text in values["during"]]
        since = 0 if values["since"] is None else parse_moment(values["since"])
    except BadRequest as error:
        raise click.UsageError(error.message) from error
    conditions = {"during": during, "since": since, "variant": values["variant"] or ""}
    return {name: value for name, value in conditions.items() if value}


def with_rule(view: PriceView, conditions: Mapping[str, Any], amounts: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the request body of a price with another rule, which replaces a rule with the same conditions."""
    new = msgspec.convert({**conditions, **amounts}, PriceRule)
    others = [
        rule for rule in view.rules if (rule.since, rule.during, rule.variant) != (new.since, new.during, new.variant)
    ]
    body: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(draft_of(view), rules=(*others, new)))
    return {name: value for name, value in body.items() if value is not None}


def extra_rows(view: PriceView) -> Iterator[tuple[str, str]]:
    """Yields the extra rates of a price and its rules, as pairs to print."""
    for name, nanos in view.extras.items():
        yield RATE_WORDS[name], dollars(nanos) + (" each" if name in UNITS else "")
    for rule in view.rules:
        yield "and", rule_text(rule)
