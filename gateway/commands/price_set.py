"""``price set``: sets prices of models, at all channels or at one, always or under a condition, or those in a file.

The file may be CSV, JSON or TOML, with amounts in dollars, or what ``price list --json`` prints.
"""

import csv
import json
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

import click
import msgspec

from gateway.client.control import ControlClient
from gateway.commands import formatting, stdin
from gateway.commands.base import Command
from gateway.commands.completion import CHANNELS, MODELS
from gateway.commands.editing import change_together, field_options, patch_of
from gateway.commands.options import TEXT, ParsedText, now
from gateway.commands.output import notify, out_change, out_json, wants_json
from gateway.commands.session import run
from gateway.domain.errors import BadRequest, Conflict, NotFound
from gateway.domain.field_kinds import json_value
from gateway.domain.fields import changed_fields
from gateway.domain.human_values import count_text, first_of, parse_price_hours
from gateway.domain.money import dollars
from gateway.domain.patterns import is_pattern, matches, near_names
from gateway.domain.price import RATE_AMOUNTS, VARIANTS, PriceDraft, PriceRule, is_set_by_owner
from gateway.domain.price_kinds import PRICE, parse_moment, rule_text
from gateway.domain.price_view import PriceView
from gateway.domain.text import plain, word
from gateway.domain.upstream_views import ModelDetail


@click.command(
    "set",
    cls=Command,
    examples=[
        "tollkeeper price set gpt-4o --input 2.50 --cached 1.25 --output 10",
        "tollkeeper price set claude-sonnet-4-5 --input 3 --output 15 --tier 200k=6/22.50",
        "tollkeeper price set my-proxy/gpt --like gpt-4o",
        "tollkeeper price set qwen3:8b llama3.3:70b --free",
        "tollkeeper price set --from prices.csv",
        "tollkeeper price set deepseek-chat --during 'mon-fri 01:00-04:00 UTC' --input 0.30 --output 1.20",
        "tollkeeper price set gpt-oss-120b --channel groq --input 0.15 --output 0.60",
    ],
)
@click.argument("models", metavar="MODEL...", nargs=-1, shell_complete=MODELS)
@field_options(PRICE)
@click.option("--channel", shell_complete=CHANNELS, help="Only for calls that this channel answers.")
@click.option(
    "--during",
    multiple=True,
    metavar="HOURS",
    type=ParsedText("hours", parse_price_hours),
    help="Only for calls that begin in these hours: 'mon-fri 01:00-04:00 UTC'. May be repeated. "
    "The price at other times stays.",
)
@click.option(
    "--since",
    metavar="DATE",
    type=ParsedText("date", parse_moment),
    help="Only from this day on (UTC): 2026-12-01. The price until then stays.",
)
@click.option(
    "--variant",
    type=click.Choice(VARIANTS),
    help="Only for calls that the upstream reports as processed in this way. The usual price stays.",
)
@click.option("--free", is_flag=True, help="Free of charge.")
@click.option(
    "--like",
    metavar="MODEL",
    type=TEXT,
    shell_complete=MODELS,
    help="Copy the price of this model: one that has a price here, or one in the price list.",
)
@click.option(
    *("--from", "file"),
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    help="Set all prices in a CSV, JSON or TOML file, with the fields 'model', 'input', 'output' and so on.",
)
def set_price(models: tuple[str, ...], *, free: bool, like: str | None, file: str | None, **values: Any) -> None:
    """Set the price of one or more models, replacing the whole price. With --json, several are printed as an array."""
    amounts = patch_of(PRICE, values, PriceDraft())
    conditions = {name: values[name] for name in ("during", "since", "variant") if values[name]}
    channel = values["channel"] or ""
    if file is not None:
        if models or amounts or free or like or conditions or channel:
            raise click.UsageError("--from FILE cannot be combined with other options or models")
        _set_from_file(file)
        return
    if not models:
        raise click.UsageError("Missing argument 'MODEL...'.")
    _check_options(amounts, free=free, like=like, conditions=conditions)
    body = {"like": like} if like else {"input": 0, "output": 0} | amounts
    names = tuple(dict.fromkeys(models))
    compared = not (free or like)

    async def work(client: ControlClient) -> list[tuple[PriceView, list[str]]]:
        place = (await client.channel(channel)).name if channel else ""
        prices = await client.prices() if compared or conditions else []
        before = _current_prices(prices, place)
        bodies = dict.fromkeys(names, body)
        if conditions:  # the price is added to the current one
            before = {name: _usual_price(await client.model(name), prices, place) for name in names}
            bodies = {name: with_rule(before[name], conditions, body) for name in names}
        views = await _set_prices(client, bodies, place)
        offered = await _offered_names(client)
        results = []
        for view in views:
            new = _under_rule(before[view.model], body) if conditions else view
            lost = _lost_rates(before.get(view.model), new) if compared else ""
            subject = "rule does not have" if conditions else "price no longer has"
            note = f"note: the new {subject}: {lost}" if lost else ""
            results.append((view, [note, _unknown_model_note(view.model, offered)]))
        return results

    _report(run(work, create=True), several=len(models) > 1)


def _usual_price(model: ModelDetail, prices: Sequence[PriceView], place: str) -> PriceView:
    """Returns the price that a rule will be added to: at one channel, or at all that have no price of their own.

    Raises NotFound if nothing is known, and Conflict if these channels ask different prices.
    """
    charged = {route.channel: route.price for route in model.routes if route.price is not None}
    listed = {view.channel: view for view in prices if view.model == model.name}
    own = [name for name, view in listed.items() if is_set_by_owner(view.source)]
    if place:
        if place not in [route.channel for route in model.routes]:
            raise NotFound(f"channel '{plain(place)}' does not offer the model '{plain(model.name)}'")
        usual = {name: price for name, price in charged.items() if name == place}
    else:
        usual = {name: price for name, price in charged.items() if name not in own}
        usual = usual or {name: view for name, view in listed.items() if not name}
    if not usual:
        reason = "no price yet; set the usual one first, without hours, day or variant"
        if own and not place:
            reason = f"a price at {first_of([plain(name) for name in own], 3)} only; name it with --channel"
        raise NotFound(f"'{plain(model.name)}' has {reason}")
    amounts = [[getattr(price, field.name) for field in PRICE] for price in usual.values()]
    if any(other != amounts[0] for other in amounts):
        names = first_of([plain(name) for name in usual], 3)
        raise Conflict(f"the channels {names} have different prices for '{plain(model.name)}'; name one with --channel")
    return next(iter(usual.values()))


async def _set_prices(client: ControlClient, bodies: Mapping[str, dict[str, Any]], place: str) -> list[PriceView]:
    """Set the prices of models in one change, at one channel if it is named. Returns the new prices."""
    if len(bodies) == 1:
        return [await client.set_price(name, body, place) for name, body in bodies.items()]
    await client.batch("prices", bodies, place)
    return [view for view in await client.prices() if view.model in bodies and view.channel == place]


def _report(results: Sequence[tuple[PriceView, list[str]]], *, several: bool) -> None:
    if wants_json():
        out_json([view for view, _ in results] if several else results[0][0])
    for view, notes in results:
        place = f" at channel '{plain(view.channel)}'" if view.channel else ""
        notify(f"Price of '{view.model}'{place}: {formatting.price(view)}")
        notify(*(f"  {rule_text(rule)}" for rule in view.rules))
        if view.cached_input is not None and view.cached_input > view.input:
            notify(f"note: cached input costs more than other input: {dollars(view.cached_input)}")
        notify(*notes)


def _current_prices(views: Sequence[PriceView], channel: str) -> dict[str, PriceView]:
    """Returns the current price of each model: at the named channel, else the general one, else at any channel."""
    ranked = sorted(views, key=lambda view: (view.channel != channel, view.channel != ""), reverse=True)
    return {view.model: view for view in ranked if channel in ("", view.channel) or not view.channel}


def _lost_rates(before: PriceView | None, view: PriceView) -> str:
    """Returns the options that restore the rates that a price lost; empty if it lost none."""
    lost: list[str] = []
    for field in PRICE:
        old = getattr(before or PriceDraft(), field.name)
        new = getattr(view, field.name)
        if isinstance(old, tuple | dict):
            is_lost = any(part not in new for part in old)
        else:
            is_lost = bool(field.kind.text(old)) and not field.kind.text(new)
        if is_lost:
            lost += map(word, field.arguments(new, old))
    return " ".join(lost)


async def _offered_names(client: ControlClient) -> set[str]:
    """Returns the names of all offered models, here and upstream."""
    upstream_names = {served.upstream_name for channel in await client.channels() for served in channel.models}
    return upstream_names | {view.name for view in await client.models()}


def _unknown_model_note(model: str, offered: Collection[str]) -> str:
    """Returns a note if no channel offers a model by that name, with similar names; else an empty text."""
    if model in offered or not offered:
        return ""
    note = f"note: no channel offers '{plain(model)}' now"
    if is_pattern(model):
        matching = first_of([plain(name) for name in sorted(offered) if matches(name, (model,))], 3)
        return f"{note}; a price is for one model, not for a pattern{f': {matching}' if matching else ''}"
    near = " or ".join(f"'{plain(name)}'" for name in near_names(model, tuple(offered)))
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


def _under_rule(view: PriceView, amounts: Mapping[str, Any]) -> PriceView:
    """Returns a price as it is while a rule with these amounts applies."""
    rule = msgspec.convert(amounts, PriceRule)
    return msgspec.structs.replace(view, **{name: getattr(rule, name) for name in (*RATE_AMOUNTS, "tiers")})


def with_rule(view: PriceView, conditions: Mapping[str, Any], amounts: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the request body of a price with another rule, which replaces a rule with the same conditions."""
    new = msgspec.structs.replace(msgspec.convert(amounts, PriceRule), **conditions)
    condition = (new.since, new.during, new.variant)
    others = [rule for rule in view.rules if (rule.since, rule.during, rule.variant) != condition]
    # of several rules that hold, the last one counts: a price from a day on must not end those of later days
    at = next((at for at, rule in enumerate(others) if rule.since > new.since > 0), len(others))
    fields = {field.name: getattr(view, field.name) for field in PRICE} | {"rules": (*others[:at], new, *others[at:])}
    return {name: json_value(value) for name, value in fields.items() if value is not None}


_MODEL_FIELDS = ("model", "name", "id")
_DOLLAR_FIELDS = {field.name: field for field in PRICE} | {
    field.flags.removeprefix("--").replace("-", "_"): field for field in PRICE
}
"""The fields in dollars, by their names and by the names of their options."""
_OTHER_FIELDS = (*_MODEL_FIELDS, "channel", "free", "note", "source")


def prices_in(text: str, file: str) -> dict[str, dict[str, Any]]:
    """Returns the request body of each model's price. Raises BadParameter with the place and the field at fault."""
    bodies: dict[str, dict[str, Any]] = {}
    at_channels = 0
    for place, entry in _entries(text, PurePath(file).suffix.lower()):
        if entry.get("channel"):
            at_channels += 1
            continue
        model = next((str(entry[name]) for name in _MODEL_FIELDS if entry.get(name)), "")
        if not model:
            raise click.BadParameter(f"{place}: names no model")
        if model in bodies:
            raise click.BadParameter(f"{place}: '{plain(model)}' has another price in this file")
        bodies[model] = _body(entry, f"{place} ('{plain(model)}')")
    if at_channels:
        notify(f"note: left out: {count_text(at_channels, 'price')} at single channels; set those with --channel")
    if not bodies:
        raise click.BadParameter(f"the file has no {'other ' if at_channels else ''}prices")
    return bodies


def _entries(text: str, suffix: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields the prices with their places in the file. The suffix tells the format, else the first character."""
    if suffix == ".toml":
        yield from _document_entries(_parse(tomllib.loads, text, "TOML"))
    elif suffix == ".json" or (suffix != ".csv" and text.lstrip().startswith(("{", "["))):
        yield from _document_entries(_parse(json.loads, text, "JSON"))
    else:
        delimiter = max(",;\t", key=text.partition("\n")[0].count)  # what the first line has most often
        rows = csv.DictReader(text.splitlines(), delimiter=delimiter, skipinitialspace=True, strict=True)
        try:
            for row in rows:
                if None in row:
                    raise click.BadParameter(f"line {rows.line_num}: has more values than there are columns")
                yield f"line {rows.line_num}", {_field_name(name): value for name, value in row.items() if value}
        except csv.Error as exc:
            raise click.BadParameter(f"line {rows.line_num}: {exc}") from exc


def _field_name(name: str) -> str:
    """Returns the name in the form of field names: ``Cached input`` becomes ``cached_input``."""
    return name.strip().lower().replace("-", "_").replace(" ", "_")


def _parse(parse: Any, text: str, format_name: str) -> Any:
    try:
        return parse(text)
    except (ValueError, RecursionError) as exc:
        raise click.BadParameter(f"the file is not valid {format_name}: {exc}") from exc


def _document_entries(document: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields the prices of a list, or of an object by model. Either may be the member ``prices`` of an object."""
    if isinstance(document, dict) and isinstance(document.get("prices"), dict | list):
        document = document["prices"]
    if isinstance(document, dict):
        document = [{**price, "model": name} if isinstance(price, dict) else price for name, price in document.items()]
    if not isinstance(document, list):
        raise click.BadParameter("the file must have a list of prices, or an object with prices by model")
    for number, entry in enumerate(document, start=1):
        if not isinstance(entry, dict):
            raise click.BadParameter(f"entry {number}: must be an object")
        yield f"entry {number}", {_field_name(name): value for name, value in entry.items() if value is not None}


def _body(entry: Mapping[str, Any], place: str) -> dict[str, Any]:
    if entry.get("like"):
        return {"like": str(entry["like"])}
    if "input_nanos" in entry:  # from ``price list --json``
        amounts = {name.removesuffix("_nanos"): value for name, value in entry.items() if name.endswith("_nanos")}
        more = {"tiers": "tier_prices", "extras": "extras", "rules": "rules"}
        return amounts | {ours: entry[theirs] for ours, theirs in more.items() if entry.get(theirs)}
    values: dict[str, Any] = {}
    for name, value in entry.items():
        if (field := _DOLLAR_FIELDS.get(name)) is not None:
            text = " ".join(map(str, value)) if isinstance(value, list) else str(value).removeprefix("$")
            try:
                values[field.name] = field.kind.read(text, now())
            except BadRequest as error:
                raise click.BadParameter(f"{place}: {name}: {error.message}") from error
        elif name not in _OTHER_FIELDS:
            names = ", ".join(["model", *_DOLLAR_FIELDS, "like", "free"])
            raise click.BadParameter(f"{place}: unknown field '{plain(name, 40)}'; the fields are: {names}")
    body = changed_fields(PRICE, values, PriceDraft())
    is_free = str(entry.get("free", "")).lower() in ("true", "yes", "1")
    if not is_free and "per_call" not in body and not {"input", "output"} <= body.keys():
        raise click.BadParameter(f"{place}: give input and output, or like, or free")
    return {"input": 0, "output": 0} | body


def _set_from_file(file: str) -> None:
    """Set the prices in a file, in changes of up to a thousand prices; each change sets all of its prices or none."""
    bodies = prices_in(stdin.read_text(file, 16 << 20, "prices"), file)

    async def work(client: ControlClient) -> tuple[list[PriceView], list[str]]:
        prices = list(bodies.items())
        parts = [dict(prices[at : at + 1000]) for at in range(0, len(prices), 1000)]  # the server accepts no more
        sentences = [await change_together(client, "prices", part) for part in parts]
        return [view for view in await client.prices() if view.model in bodies and not view.channel], sentences

    views, sentences = run(work, create=True)
    out_change(views, *sentences)
