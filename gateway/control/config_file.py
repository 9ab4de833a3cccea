"""Config file: the configuration as one text, and from a text: everything it says or nothing, in one change."""

import asyncio
import os
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from aiohttp import web

from gateway.control.desk import Desk
from gateway.control.inputs import fields, required
from gateway.control.plan import Document, Plan, merged
from gateway.core import litellm, oneapi
from gateway.core.exported import exported, notes
from gateway.core.references import REFERENCE
from gateway.core.taken import Taken
from gateway.domain.channel import Channel
from gateway.domain.config_file import ExportView, ImportView, Origin
from gateway.domain.errors import BadRequest, Conflict
from gateway.domain.text import plain, word


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What to do with a text."""

    text: str
    apply: bool = False
    """Make the changes; else only tell them."""
    prune: bool = False
    """Remove what the text does not name."""
    origin: Origin = Origin.OURS


async def export(desk: Desk, _: web.Request) -> ExportView:
    """GET /config; in a thread, for a large one takes its time."""
    registry = desk.registry
    return ExportView(text=await asyncio.to_thread(exported, registry), notes=notes(registry))


async def take(desk: Desk, request: web.Request) -> ImportView:
    """POST /config {text, apply?, prune?, origin?}.

    What a stranger's text says is put over what is there: it knows little of a thing's fields, and names no whole home.
    """
    body = await request.read()
    required(body, "text")
    asked = Asked(**fields(body, Asked, Asked.__struct_fields__))
    if asked.origin is Origin.OURS:
        return await _followed(desk, _parsed(asked.text), asked, [])
    if asked.prune:
        raise BadRequest("only a configuration of Tollkeeper's own names everything: import it without prune")
    found = _taken(_loaded(asked.text), asked.origin)
    return await _followed(desk, merged(found.document, desk.registry), asked, found.notes)


async def _followed(desk: Desk, document: Document, asked: Asked, told: list[str]) -> ImportView:
    before = desk.registry
    plan = Plan(before, desk.now)
    await asyncio.to_thread(plan.follow, document, prune=asked.prune)
    if asked.apply and desk.registry is not before:
        msg = "the configuration was changed meanwhile; look at the differences and try again"
        raise Conflict(msg, code="changed_meanwhile")
    if asked.apply and plan.changes:
        desk.commit(f"imported a configuration ({len(plan.changes)} changes)", *plan.changes)
    return ImportView(
        applied=asked.apply,
        differences=plan.differences,
        notes=[*told, *_to_do(plan, os.environ)],
        keys=plan.keys if asked.apply else {},
    )


def _parsed(text: str) -> Document:
    """Raises BadRequest with the line at fault."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as exc:  # a number of thousands of digits is a mere ValueError
        raise BadRequest(f"the file is no TOML: {plain(str(exc))}", code="bad_configuration", param="text") from exc


def _loaded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as exc:
        raise BadRequest(f"the file is no JSON: {plain(str(exc))}", code="bad_configuration", param="text") from exc


def _taken(source: Any, origin: Origin) -> Taken:
    if origin is not Origin.LITELLM:
        return oneapi.taken(source, oneapi.ONE_API if origin is Origin.ONE_API else oneapi.NEW_API)
    if not isinstance(source, Mapping) or not isinstance(source.get("model_list"), list):
        raise BadRequest("the file holds no model_list: it is no LiteLLM configuration", code="bad_configuration")
    return litellm.taken(source)


def _to_do(plan: Plan, environ: Mapping[str, str]) -> Iterator[str]:
    """What the owner has to do for what is new or changed."""
    for name in sorted(plan.keys):
        yield f"token '{plain(name)}' is new here and gets a key of its own"
    for change in plan.changes:
        if isinstance(change.value, Channel):
            yield from _to_do_for(change.value, plan, environ)


def _to_do_for(channel: Channel, plan: Plan, environ: Mapping[str, str]) -> Iterator[str]:
    name = plain(channel.name)
    for secret in (*channel.all_keys, *channel.headers.values(), channel.proxy):
        variable = secret.removeprefix(REFERENCE)
        if secret.startswith(REFERENCE) and not environ.get(variable):
            yield f"channel '{name}': {variable} is not set where the server runs"
    if channel.patterns and channel.id not in plan.registry.lists:
        command = f"channel models {word(channel.name)} --refresh"
        yield f"channel '{name}': its list of models has yet to come: 'tollkeeper {command}'"
