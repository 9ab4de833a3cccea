"""Price files: many prices in one CSV, JSON or TOML file, in dollars like the options, or as ``price list --json``."""

import csv
import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import PurePath
from typing import Any, TypeVar

import click

from gateway.client.control import ControlClient
from gateway.commands.files import text_of
from gateway.commands.options import now
from gateway.commands.output import out_json, words
from gateway.commands.session import run
from gateway.domain.errors import BadRequest
from gateway.domain.fields import changed_fields
from gateway.domain.price import PriceDraft
from gateway.domain.price_kinds import PRICE
from gateway.domain.price_view import PriceView
from gateway.domain.text import plain

T = TypeVar("T")


_MODEL = ("model", "name", "id")
_WORDS = {field.name: field for field in PRICE} | {
    field.flags.removeprefix("--").replace("-", "_"): field for field in PRICE
}
"""Fields by their names, and by those of their options."""
_NANOS = {f"{field.name}_nanos": field.name for field in PRICE} | {"tier_prices": "tiers"}
_AS_IS = ("extras", "rules")
"""What ``price list --json`` has of a price that the server reads as it is."""
_IGNORED = frozenset(
    {
        *("channel", "source", "updated_ms", "tiers", "as_of_ms", "stale", "inherited_from", "context", "free", "note"),
        *_MODEL,
    }
)
"""What it shows beside that."""


def prices_in(text: str, file: str) -> dict[str, dict[str, Any]]:
    """Returns the body of each model's price. Raises BadParameter, naming the model or line and the field at fault."""
    bodies: dict[str, dict[str, Any]] = {}
    for place, entry in _entries(text, PurePath(file).suffix.lower()):
        if entry.get("channel"):
            continue  # for one channel alone: those are set with --channel
        model = next((str(entry[name]) for name in _MODEL if entry.get(name)), "")
        if not model:
            raise click.BadParameter(f"{place}: has no model")
        if model in bodies:
            raise click.BadParameter(f"{place}: '{plain(model)}' has a price already in this file")
        bodies[model] = _body(entry, f"{place} ('{plain(model)}')")
    if not bodies:
        raise click.BadParameter("it has no prices")
    return bodies


def _entries(text: str, suffix: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields the prices, each with its place in the file. The file's name shows its format, else its first
    character.
    """
    start = text.lstrip()[:1]
    if suffix == ".toml":
        yield from _of_document(_document(tomllib.loads, text, "TOML"))
    elif suffix == ".json" or (suffix != ".csv" and start in ("{", "[")):
        yield from _of_document(_document(json.loads, text, "JSON"))
    else:
        rows = csv.DictReader(text.splitlines(), delimiter=_delimiter(text), skipinitialspace=True, strict=True)
        try:
            for row in rows:
                if None in row:
                    raise click.BadParameter(f"line {rows.line_num}: has more values than there are columns")
                yield f"line {rows.line_num}", {_word(name): value for name, value in row.items() if value}
        except csv.Error as exc:
            raise click.BadParameter(f"line {rows.line_num}: {exc}") from exc


def _delimiter(text: str) -> str:
    head = text.partition("\n")[0]
    return max(",;\t", key=head.count)


def _word(name: str) -> str:
    return name.strip().lower().replace("-", "_").replace(" ", "_")


def _document(parse: Any, text: str, form: str) -> Any:
    try:
        return parse(text)
    except (ValueError, RecursionError) as exc:
        raise click.BadParameter(f"is not {form}: {exc}") from exc


def _of_document(document: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Reads a list of prices, or an object of them by model; either may be under ``prices``."""
    if isinstance(document, dict) and isinstance(document.get("prices"), dict | list):
        document = document["prices"]
    if isinstance(document, dict):
        document = [{**price, "model": name} if isinstance(price, dict) else price for name, price in document.items()]
    if not isinstance(document, list):
        raise click.BadParameter("must be a list of prices, or an object of them by model")
    for number, entry in enumerate(document, start=1):
        if not isinstance(entry, dict):
            raise click.BadParameter(f"entry {number}: must be an object")
        yield f"entry {number}", {_word(name): value for name, value in entry.items() if value is not None}


def _body(entry: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Returns the request body of a price."""
    if entry.get("like"):
        return {"like": str(entry["like"])}
    body: dict[str, Any] = {ours: entry[theirs] for theirs, ours in _NANOS.items() if theirs in entry}
    body |= {name: entry[name] for name in _AS_IS if entry.get(name) and not isinstance(entry[name], str)}
    given: dict[str, Any] = {}
    viewed = bool(body)
    for name, value in entry.items():
        field = _WORDS.get(name)
        as_json = (viewed and name == "tiers") or (name in _AS_IS and not isinstance(value, str))
        if field is not None and not as_json:
            text = " ".join(map(str, value)) if isinstance(value, list) else str(value).removeprefix("$")
            try:
                given[field.name] = field.kind.read(text, now())
            except BadRequest as error:
                raise click.BadParameter(f"{place}: {name}: {error.message}") from error
        elif name not in _IGNORED and name not in _NANOS and name not in _AS_IS:
            known = ", ".join(["model", *_WORDS, "like", "free"])
            raise click.BadParameter(f"{place}: unknown field '{plain(name, 40)}'; known: {known}")
    body |= changed_fields(PRICE, given, PriceDraft())
    free = str(entry.get("free", "")).lower() in ("true", "yes", "1")
    if not free and "per_call" not in body and not {"input", "output"} <= body.keys():
        raise click.BadParameter(f"{place}: give input and output, or like, or free")
    return {"input": 0, "output": 0} | body


def set_prices(file: str, *, as_json: bool) -> None:
    """Set the prices of a file: a thousand in one change, so that all of these or none are set."""
    bodies = prices_in(text_of(file, 16 << 20, "prices"), file)

    async def work(client: ControlClient) -> tuple[list[PriceView], list[str]]:
        # as many as the server sets in one change
        done = [await client.batch("prices", dict(part)) for part in _parts(bodies.items(), 1000)]
        return [view for view in await client.prices() if view.model in bodies], done

    views, done = run(work, create=True)
    if as_json:
        out_json(views)
    for line in done:
        words(f"{line[:1].upper()}{line[1:]}.")


def _parts(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yields the items in lists of at most so many."""
    left = iter(items)
    while part := list(islice(left, size)):
        yield part
