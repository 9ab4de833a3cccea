"""Tokens: add and rotate them, and plan their edits. A key is shown only once, when it is made."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

import msgspec
from aiohttp import web

from gateway.control import validation
from gateway.control.edits import ConfigEdits, EntityEdit
from gateway.control.request_bodies import patch, types_of
from gateway.control.views import token_view
from gateway.core.auth import new_id, new_key
from gateway.core.engine import Engine
from gateway.domain.errors import BadRequest, NotFound, Unavailable
from gateway.domain.key_owners import KeyOwner, digest, find_owner, hint, shown_part
from gateway.domain.registry import Change, Registry
from gateway.domain.settings import Settings
from gateway.domain.text import plain
from gateway.domain.token import Token, TokenFields
from gateway.domain.units import DAY_MS, Millis, TokenId
from gateway.domain.views import NewToken

KEEP_ENDED_MS = 3 * DAY_MS
"""How long the token of an ended program is kept, to be shown and named in errors of later calls, in milliseconds."""


async def add_token(edits: ConfigEdits, request: web.Request) -> NewToken:
    """POST /tokens: add a token with these fields; ``name`` is required."""
    key = new_key()
    blank = Token(
        id=TokenId(new_id("tok")),
        name="",
        group=default_group(edits.registry),
        digest=digest(key),
        hint=hint(key),
        created=edits.now,
        temporary=edits.source.runs_program,
    )
    token = patch(blank, await request.read(), types_of(TokenFields), "name")
    validation.check_named_entity("tokens", token, edits.registry)
    changes = [Change("tokens", token.id, token), *(_expired_removals(edits) if token.temporary else ())]
    await edits.commit(f"added token '{token.name}'", f"token '{token.name}' is removed", *changes)
    return NewToken(key=key, token=token_view(edits.engine, token))


async def plan_edit(edits: ConfigEdits, edit: EntityEdit) -> tuple[str, Sequence[Change]]:
    """Returns the token's name, and the changes that edit or remove it. The records of a removed one stay."""
    old = edits.engine.catalog.token(edit.ref)
    if edit.patch is None:
        return old.name, _removal_changes(edits, old)
    token = patch(old, edit.patch, types_of(TokenFields))
    validation.check_named_entity("tokens", token, edits.registry)
    return old.name, [Change("tokens", token.id, token), *_keyless_changes(edits, old.name, token.name)]


async def delete_ended(engine: Engine) -> None:
    """Delete the tokens of programs that ended some days ago, every ten minutes, until it is cancelled."""
    edits = ConfigEdits(engine)
    while True:
        if changes := list(_expired_removals(edits)):
            with suppress(Unavailable):  # the next round tries again
                engine.change(changes)
        await asyncio.sleep(600.0)


def _expired_removals(edits: ConfigEdits) -> Iterator[Change]:
    for token in edits.registry.tokens.values():
        if token.program_ended(Millis(edits.now - KEEP_ENDED_MS)):
            yield from _removal_changes(edits, token)


def _removal_changes(edits: ConfigEdits, token: Token) -> list[Change]:
    return [Change("tokens", token.id, None), *_keyless_changes(edits, token.name, "")]


async def rotate_token(edits: ConfigEdits, request: web.Request) -> NewToken:
    """POST /tokens/{ref}/rotate: give a token a new key. The old one is rejected from now on."""
    key = new_key()
    old = _token_of(edits, request)
    token = msgspec.structs.replace(old, digest=digest(key), hint=hint(key))
    undone = f"token '{token.name}' has its old key again"
    await edits.commit(f"rotated the key of token '{token.name}'", undone, Change("tokens", token.id, token))
    return NewToken(key=key, token=token_view(edits.engine, token))


async def give_pass(edits: ConfigEdits, request: web.Request) -> dict[str, str]:
    """POST /tokens/{ref}/pass: issue a key that is valid for one minute, for a call of the owner as this token."""
    key = new_key()
    edits.engine.pipeline.passes.note(digest(key).encode(), _token_of(edits, request).id)
    return {"key": key}


async def show_key(edits: ConfigEdits, request: web.Request) -> KeyOwner:
    """GET /keys/{handle}: the owner of a current or former key."""
    ref = request.match_info["handle"]
    owner = find_owner(edits.registry, ref)
    if owner is None:
        shown = plain(shown_part(ref) or ref, 64)
        message = f"{shown} is neither a current nor a remembered former key of a token or channel"
        raise NotFound(message, param="handle")
    return owner


def _token_of(edits: ConfigEdits, request: web.Request) -> Token:
    return edits.engine.catalog.token(request.match_info["ref"])


def _keyless_changes(edits: ConfigEdits, name: str, new: str) -> list[Change]:
    """Returns the change of the settings if the token of keyless programs is renamed, or removed (no ``new``)."""
    settings = edits.registry.settings
    if name == new or settings.ollama_token != name:
        return []
    port = settings.ollama_port if new else 0
    return [Change("settings", "", msgspec.structs.replace(settings, ollama_token=new, ollama_port=port))]


def closed_port_note(changes: Iterable[Change], before: Settings) -> str:
    """Returns what stops working for programs without a key if their token is removed; empty if nothing does."""
    if all(not isinstance(change.value, Settings) or change.value.ollama_token for change in changes):
        return ""
    if before.ollama_port:
        return f"port {before.ollama_port} for Ollama, which used it, is closed"
    return "requests to /api/... without a key, which used it, are rejected"


def default_group(registry: Registry) -> str:
    """Returns the group of a new token or channel: ``default``, else the only group. Raises BadRequest."""
    if "default" in registry.groups or not registry.groups:
        return "default"
    if len(registry.groups) == 1:
        return next(iter(registry.groups))
    names = ", ".join(sorted(registry.groups))
    raise BadRequest(f"the field 'group' is missing; the groups are: {names}", param="group")
