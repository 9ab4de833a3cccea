"""The configuration as one text: export and import. Everything in a text is applied in one change, or nothing.

An entity that the document names becomes exactly what the document says; fields that are left out get their defaults.
Entities that the document does not name are left alone, or removed with ``prune``.
"""

import asyncio
import os
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec
from aiohttp import web

from gateway.control import validation
from gateway.control.channels import default_base_url
from gateway.control.edits import ConfigEdits
from gateway.control.foreign_config import find_known_prices, merge_document, translate
from gateway.control.groups import group_id
from gateway.control.model_lists import separate_patterns
from gateway.control.request_bodies import read_body
from gateway.control.tokens import default_group
from gateway.core.auth import new_id, new_key
from gateway.core.change_history import changes_of, differences_of
from gateway.core.config_export import export_text, notes, restore_secrets
from gateway.core.offered_models import offered_models
from gateway.domain.channel import Channel
from gateway.domain.config_codec import FORMAT, INNER, SECTIONS, Section, misfit, read
from gateway.domain.config_views import ConfigOrigin, Difference, ExportView, ImportView
from gateway.domain.errors import BadRequest, Conflict
from gateway.domain.group import Group
from gateway.domain.human_values import count_text
from gateway.domain.key_owners import digest, hint
from gateway.domain.registry import Change, Entity, Registry, with_changes
from gateway.domain.text import plain, word
from gateway.domain.token import Token
from gateway.domain.units import ChannelId, Millis, TokenId
from gateway.domain.urls import checked_base_url
from gateway.upstream import mock
from gateway.upstream.credentials import ChannelVariables
from gateway.upstream.vendors import PRESETS

Document = Mapping[str, Any]
BYTE_ORDER_MARK = "\ufeff"
"""The byte order mark, which some editors write at the start of a file."""


class ImportPlan:
    """The changes that a document makes, planned section by section."""

    def __init__(self, registry: Registry, now: Millis) -> None:
        self._before = self.registry = registry
        """The configuration, and as it would be with the changes of the sections so far."""
        self.changes: list[Change] = []
        self._kept: list[Difference] = []
        """The entities that the document does not name and that stay."""
        self.keys: dict[str, str] = {}
        self._now = now
        self._staying: Mapping[str, Group] = {}
        """The groups that are not removed, by name."""

    def differences(self) -> list[Difference]:
        """Returns what is added, changed or removed, then what stays."""
        changes = changes_of(self.changes, self._before, self.registry)
        return [*differences_of(changes), *self._kept]

    def follow(self, document: Document, *, prune: bool) -> None:
        """Plan a document. Raises BadRequest with the path of what is invalid or not allowed."""
        _check_head(document)
        named = _table(document, "groups")
        self._staying = {name: group for name, group in self.registry.groups.items() if name in named or not prune}
        for section in SECTIONS:
            if section.title:
                self._many(section, _table(document, section.name), prune=prune)
            elif section.name in document or prune:
                self._one(section, _table(document, section.name))
            self.registry = with_changes(self._before, self.changes)
        for section in SECTIONS:
            self._check(section, _table(document, section.name))

    def _one(self, section: Section, values: Mapping[str, Any]) -> None:
        old: msgspec.Struct = getattr(self.registry, section.name)
        new = read(section.kind, values, section.name, {name: getattr(old, name) for name in section.omit}, INNER)
        self._put(section, old, new)

    def _many(self, section: Section, tables: Mapping[str, Any], *, prune: bool) -> None:
        registry = self.registry
        present = {getattr(entity, section.title): entity for entity in getattr(registry, section.name).values()}
        for title, values in tables.items():
            path = f"{section.name}.{plain(title, 64)}"
            old = present.get(title)
            implied = _at(path, lambda given=values: _with_defaults(section, given, registry))
            new = read(section.kind, implied, path, self._base(section, title, old), INNER)
            self._put(section, old, self._ripe(new, old, values, path))
        for title in sorted(set(present) - set(tables)):
            entity = present[title]
            if isinstance(entity, Token) and entity.temporary and not self._in_the_way(entity):
                continue  # it is removed when its program ends, and is never in a file
            if prune:
                self._put(section, entity, None)
            else:
                self._kept.append(Difference(what="kept", noun=section.noun, name=title, fields=[]))

    def give_prices(self, channel: Channel) -> None:
        """Replace an added or changed channel by the same channel with prices."""
        priced = Change("channels", channel.id, channel)
        self.changes = [
            priced if each.key == channel.id and each.table == "channels" else each for each in self.changes
        ]
        self.registry = with_changes(self._before, self.changes)

    def _in_the_way(self, token: Token) -> bool:
        """Returns whether the token belongs to an ended program and to a group that is removed."""
        return token.outlived(self._now) and token.group not in self.registry.groups

    def _base(self, section: Section, title: str, old: msgspec.Struct | None) -> dict[str, Any]:
        """Returns the fields that are never in a file: the present values, or new ones."""
        if old is not None:
            return {name: getattr(old, name) for name in (section.title, *section.omit)}
        if section.name == "tokens":
            key = self.keys[title] = new_key()
            made = {"id": TokenId(new_id("tok")), "digest": digest(key), "hint": hint(key), "created": self._now}
        elif section.name == "channels":
            made = {"id": ChannelId(new_id("ch")), "created": self._now, "last_check": None}
        elif section.name == "groups":
            made = {"created": self._now, "id": group_id(title, self._staying)}
        else:
            made = dict.fromkeys(section.omit, self._now)
        return {section.title: title, **made}

    def _ripe(
        self, new: msgspec.Struct, old: msgspec.Struct | None, values: Mapping[str, Any], path: str
    ) -> msgspec.Struct:
        """Returns the entity that was read, with the fields that depend on the present one."""
        if isinstance(new, Channel):
            return self._ripe_channel(new, old if isinstance(old, Channel) else None, values, path)
        if "updated" in new.__struct_fields__ and new != old:
            return msgspec.structs.replace(new, updated=self._now)
        return new

    def _ripe_channel(self, new: Channel, old: Channel | None, values: Mapping[str, Any], path: str) -> Channel:
        if old is not None:
            new = restore_secrets(new, old)
        url = new.base_url if "base_url" in values else default_base_url(new.dialect, new.preset)
        if new.dialect.info.needs_url:
            url = _at(path, lambda: checked_base_url(url))
        return self._offering(
            separate_patterns(msgspec.structs.replace(new, base_url=url, options=mock.spelt(new.options))), old
        )

    def _offering(self, new: Channel, old: Channel | None) -> Channel:
        """Returns the channel with its named models and those that its patterns select from the present list."""
        known = {model.name: model for model in old.models} if old is not None else {}
        named = tuple(
            msgspec.structs.replace(model, created=was.created, told=was.told)
            if (was := known.get(model.name)) is not None
            else msgspec.structs.replace(model, created=self._now)
            for model in new.models
        )
        listed = self._before.lists.get(new.id)
        if listed is None or (old is not None and _moved(old, new)):
            return msgspec.structs.replace(new, models=named)
        before = tuple(model for model in known.values() if model.live)  # they keep their dates
        selected = offered_models(msgspec.structs.replace(new, models=(*named, *before)), listed.models, self._now)
        live = selected.models[len(named) :]
        return msgspec.structs.replace(new, models=(*named, *live))

    def _put(self, section: Section, old: msgspec.Struct | None, new: msgspec.Struct | None) -> None:
        if new == old:
            return
        key = _key(section, old if new is None else new)
        self.changes.append(Change(section.name, key, cast("Entity | None", new)))

    def _check(self, section: Section, values: Mapping[str, Any]) -> None:
        """Check every entity that the document names, in the planned configuration. Raises BadRequest with the path."""
        if not section.title:
            _at(section.name, lambda: _CHECKS[section.name](getattr(self.registry, section.name), self.registry))
            return
        for entity in getattr(self.registry, section.name).values():
            title = getattr(entity, section.title)
            if title in values:
                _at(f"{section.name}.{plain(title, 64)}", lambda e=entity: _CHECKS[section.name](e, self.registry))


def _with_defaults(section: Section, values: object, registry: Registry) -> object:
    """Returns the table with what may be left out: a token's group, and the dialect of a preset."""
    if not isinstance(values, Mapping):
        return values
    if section.name == "tokens" and "group" not in values:
        return {"group": default_group(registry), **values}
    if section.name == "channels" and isinstance(preset := values.get("preset"), str) and preset in PRESETS:
        return {"dialect": PRESETS[preset].dialect.value, **values}
    return values


def _check_head(document: Document) -> None:
    given = document.get("format")
    if given != FORMAT or isinstance(given, bool):
        raise misfit("format", f"must be {FORMAT}, the only supported format")
    known = ("format", *(section.name for section in SECTIONS))
    for name in document:
        if name not in known:
            raise misfit(plain(name, 64), f"is not a section; the sections are: {', '.join(known[1:])}")


def _table(document: Document, name: str) -> Mapping[str, Any]:
    values = document.get(name, {})
    if not isinstance(values, Mapping):
        raise misfit(name, "must be a table")
    return values


def _key(section: Section, entity: Any) -> str:
    """Returns the entity's key in the store."""
    if not section.title:
        return ""
    return str(entity.id if isinstance(entity, Token | Channel) else getattr(entity, section.title))


def _moved(old: object, new: Channel) -> bool:
    """Returns whether the channel has another upstream now, so that the last list is useless."""
    return isinstance(old, Channel) and (old.dialect, old.base_url) != (new.dialect, new.base_url)


def _at(path: str, act: Any) -> Any:
    """Call a function, and put this path in front of a BadRequest that it raises."""
    try:
        return act()
    except BadRequest as error:
        where = f"{path}.{error.param}" if error.param else path
        raise misfit(where, error.message.removeprefix(f"{error.param}: ")) from error


def _check_channel(value: Channel, registry: Registry) -> None:
    validation.channel(value, registry)
    if value.preset not in ("", *PRESETS):
        raise BadRequest(f"must be one of {', '.join(sorted(PRESETS))}", param="preset")
    if value.name in registry.channels:
        raise BadRequest("is the id of a channel", param="name")


def _check_token(value: Token, registry: Registry) -> None:
    validation.token(value, registry)
    if value.name in registry.tokens:
        raise BadRequest("is the id of a token", param="name")


_CHECKS: Mapping[str, Any] = {
    "settings": lambda value, _: validation.settings(value),
    "account": lambda value, _: validation.account(value),
    "groups": lambda value, _: validation.group(value),
    "channels": _check_channel,
    "tokens": _check_token,
    "prices": lambda value, _: validation.price(value),
}


class ImportBody(msgspec.Struct, frozen=True, kw_only=True):
    """The body of an import."""

    text: str
    apply: bool = False
    """Whether to make the changes instead of only listing them."""
    prune: bool = False
    """Whether to remove the entities that the text does not name."""
    origin: ConfigOrigin = ConfigOrigin.OURS


async def export_config(edits: ConfigEdits, _: web.Request) -> ExportView:
    """GET /config: export the configuration, in a thread, because a large one takes time."""
    registry = edits.registry
    return ExportView(text=await asyncio.to_thread(export_text, registry), notes=notes(registry))


async def import_config(edits: ConfigEdits, request: web.Request) -> ImportView:
    """POST /config {text, apply?, prune?, origin?}: list the differences, and make the changes with ``apply``.

    The text of another gateway is merged into the present configuration: it has few of an entity's fields, and does not
    describe a whole configuration.
    """
    asked = await read_body(request, ImportBody)
    if asked.origin is ConfigOrigin.OURS:
        return await _import_file(edits, _parse(asked.text), asked, [])
    if asked.prune:
        raise BadRequest(
            "prune needs a complete configuration, and only Tollkeeper's own files are complete: import without it"
        )
    imported = translate(asked.text, asked.origin)
    return await _import_file(edits, merge_document(imported.document, edits.registry), asked, imported.notes)


async def _import_file(edits: ConfigEdits, document: Document, asked: ImportBody, messages: list[str]) -> ImportView:
    before = edits.registry
    plan = ImportPlan(before, edits.now)
    await asyncio.to_thread(plan.follow, document, prune=asked.prune)
    if asked.origin is not ConfigOrigin.OURS:
        channels = [change.value for change in plan.changes if isinstance(change.value, Channel)]
        priced, lines = await find_known_prices(channels, before, plan.registry, edits.now)
        messages = [*messages, *lines]
        for channel in priced:
            plan.give_prices(channel)
    differences = await asyncio.to_thread(plan.differences)
    changed = sum(difference.what != "kept" for difference in differences)
    done, undone = f"imported a configuration ({count_text(changed, 'change')})", "what was imported is as before"
    if asked.apply and edits.registry is not before:
        msg = "the configuration has changed in the meantime; review the differences and try again"
        raise Conflict(msg, code="changed_meanwhile")
    expiring = edits.expiring_records(plan.registry.settings.keep_days)
    if asked.apply and plan.changes:
        await edits.commit(done, undone, *plan.changes)
    return ImportView(
        applied=asked.apply,
        differences=differences,
        notes=[*messages, *_to_do(plan, os.environ)],
        expiring=expiring,
        keys=plan.keys if asked.apply else {},
    )


def _parse(text: str) -> Document:
    """Returns the parsed text. Raises BadRequest with the line at fault."""
    try:
        return tomllib.loads(text.removeprefix(BYTE_ORDER_MARK))
    except (ValueError, RecursionError) as exc:  # a number of thousands of digits raises a plain ValueError
        raise BadRequest(
            f"the file is not valid TOML: {plain(str(exc))}", code="bad_configuration", param="text"
        ) from exc


def _to_do(plan: ImportPlan, environ: Mapping[str, str]) -> Iterator[str]:
    """Yields what the owner has to do about new or changed entities."""
    for name in sorted(plan.keys):
        yield f"token '{plain(name)}' is new and gets its own key"
    for change in plan.changes:
        if isinstance(change.value, Channel):
            yield from _to_do_for(change.value, plan, environ)


def _to_do_for(channel: Channel, plan: ImportPlan, environ: Mapping[str, str]) -> Iterator[str]:
    name = plain(channel.name)
    for variable in ChannelVariables(environ).missing(channel):
        yield f"channel '{name}': {variable} is not set where the server runs"
    if channel.patterns and channel.id not in plan.registry.lists:
        command = f"channel models {word(channel.name)} --refresh"
        yield f"channel '{name}': a server fetches its models within a minute; at once: 'tollkeeper {command}'"
