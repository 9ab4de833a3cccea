"""Price files: reads many prices from a CSV, JSON or TOML file, in dollars, or as ``price list --json`` prints them."""

import csv
import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

import click

from gateway.client.control import ControlClient
from gateway.commands.editing import change_together
from gateway.commands.files import read_text
from gateway.commands.options import now
from gateway.commands.output import notify, out_json
from gateway.commands.session import run
from gateway.domain.errors import BadRequest
from gateway.domain.fields import changed_fields
from gateway.domain.price import PriceDraft
from gateway.domain.price_kinds import PRICE
from gateway.domain.price_view import PriceView
from gateway.domain.text import plain

_MODEL_FIELDS = ("model", "name", "id")
_DOLLAR_FIELDS = {field.name: field for field in PRICE} | {
    field.flags.removeprefix("--").replace("-", "_"): field for field in PRICE
}
"""The fields in dollars, by their names and by the names of their options."""
_NANOS = {f"{field.name}_nanos": field.name for field in PRICE} | {"tier_prices": "tiers"}
"""Names of fields in ``price list --json``, and the names that the server takes."""
_AS_IS = ("extras", "rules")
"""Fields in ``price list --json`` that the server takes as they are."""
_IGNORED = frozenset(
    {
        *("channel", "source", "updated_ms", "tiers", "as_of_ms", "stale", "inherited_from", "context", "free", "note"),
        *_MODEL_FIELDS,
    }
)
"""Other fields in ``price list --json``."""


def prices_in(text: str, file: str) -> dict[str, dict[str, Any]]:
    """Returns the request body of each model's price. Raises BadParameter with the place and the field at fault."""
    bodies: dict[str, dict[str, Any]] = {}
    for place, entry in _entries(text, PurePath(file).suffix.lower()):
        if entry.get("channel"):
            continue  # a price at one channel is set with --channel
        model = next((str(entry[name]) for name in _MODEL_FIELDS if entry.get(name)), "")
        if not model:
            raise click.BadParameter(f"{place}: names no model")
        if model in bodies:
            raise click.BadParameter(f"{place}: '{plain(model)}' has another price in this file")
        bodies[model] = _body(entry, f"{place} ('{plain(model)}')")
    if not bodies:
        raise click.BadParameter("the file has no prices")
    return bodies


def _entries(text: str, suffix: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields the prices with their places in the file. The suffix tells the format, else the first character."""
    start = text.lstrip()[:1]
    if suffix == ".toml":
        yield from _document_entries(_parse(tomllib.loads, text, "TOML"))
    elif suffix == ".json" or (suffix != ".csv" and start in ("{", "[")):
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
    body: dict[str, Any] = {ours: entry[theirs] for theirs, ours in _NANOS.items() if theirs in entry}
    body |= {name: entry[name] for name in _AS_IS if entry.get(name) and not isinstance(entry[name], str)}
    values: dict[str, Any] = {}
    is_view = bool(body)  # it is from ``price list --json``
    for name, value in entry.items():
        field = _DOLLAR_FIELDS.get(name)
        copied = (is_view and name == "tiers") or (name in _AS_IS and not isinstance(value, str))
        if field is not None and not copied:
            text = " ".join(map(str, value)) if isinstance(value, list) else str(value).removeprefix("$")
            try:
                values[field.name] = field.kind.read(text, now())
            except BadRequest as error:
                raise click.BadParameter(f"{place}: {name}: {error.message}") from error
        elif name not in _IGNORED and name not in _NANOS and name not in _AS_IS:
            names = ", ".join(["model", *_DOLLAR_FIELDS, "like", "free"])
            raise click.BadParameter(f"{place}: unknown field '{plain(name, 40)}'; the fields are: {names}")
    body |= changed_fields(PRICE, values, PriceDraft())
    free = str(entry.get("free", "")).lower() in ("true", "yes", "1")
    if not free and "per_call" not in body and not {"input", "output"} <= body.keys():
        raise click.BadParameter(f"{place}: give input and output, or like, or free")
    return {"input": 0, "output": 0} | body


def set_prices(file: str, *, as_json: bool) -> None:
    """Set the prices in a file, in changes of up to a thousand prices; each change sets all of its prices or none."""
    bodies = prices_in(read_text(file, 16 << 20, "prices"), file)

    async def work(client: ControlClient) -> tuple[list[PriceView], list[str]]:
        prices = list(bodies.items())
        parts = [dict(prices[at : at + 1000]) for at in range(0, len(prices), 1000)]  # the server accepts no more
        sentences = [await change_together(client, "prices", part) for part in parts]
        return [view for view in await client.prices() if view.model in bodies], sentences

    views, sentences = run(work, create=True)
    if as_json:
        out_json(views)
    notify(*sentences)
