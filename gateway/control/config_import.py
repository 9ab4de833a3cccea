"""Config import: exports the configuration as one text, and imports such a text in one change.

An entity that the text names becomes exactly what the text says, and fields that are left out get their defaults.
Entities that the text does not name stay, or are removed with ``prune``. The text of another gateway has only some of
our fields: it is merged into the current configuration, and its models get known prices.
"""

import asyncio
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

import msgspec
from aiohttp import web

from gateway.control import validation
from gateway.control.channels import default_base_url
from gateway.control.edits import ConfigEdits
from gateway.control.groups import group_id
from gateway.control.model_lists import models_without_price, separate_patterns
from gateway.control.request_bodies import read_body
from gateway.control.tokens import default_group
from gateway.control.vendor_prices import new_prices, with_known_prices
from gateway.core.auth import new_id, new_key
from gateway.core.change_history import changes_of, differences_of
from gateway.core.config_export import entity_table, export_text, notes, restore_secrets
from gateway.core.importers import litellm, oneapi
from gateway.core.importers.base import ImportedConfig
from gateway.core.offered_models import offered_models
from gateway.domain.channel import Channel, ServedModel
from gateway.domain.config_codec import FORMAT, SECTIONS, Section, bad_value, read
from gateway.domain.config_views import ConfigOrigin, Difference, ExportView, ImportView
from gateway.domain.errors import BadRequest, Conflict
from gateway.domain.human_values import count_text, first_of
from gateway.domain.key_owners import digest, hint
from gateway.domain.registry import KINDS, NOUNS, Change, Entity, Registry, with_changes
from gateway.domain.text import plain, word
from gateway.domain.token import Token
from gateway.domain.units import ChannelId, Millis, TokenId
from gateway.domain.urls import checked_base_url
from gateway.upstream import mock
from gateway.upstream.credentials import ChannelVariables
from gateway.upstream.vendors import PRESETS

Document = Mapping[str, Any]
ChannelNotes = Iterable[tuple[str, str]]
_LONG_KEY = re.compile(
    r"""(?m)(?:^|[\[{,])[ \t]*+(?:(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){20}"""
)
"""Matches a key with more than 20 parts. For one with 200,000, ``tomllib`` takes 20 GB; ours have at most ten."""
UNPRICED = "their calls are counted but not charged, and no dollar budget stops them"


class ImportPlan:
    """The changes that a document makes, planned section by section."""

    def __init__(self, registry: Registry, now: Millis) -> None:
        self._before = self.registry = registry
        """The configuration before the import, and with the changes that are planned so far."""
        self.changes: list[Change] = []
        self._unchanged: list[Difference] = []
        """The entities that stay although the document does not name them."""
        self.keys: dict[str, str] = {}
        """The keys of new tokens by name."""
        self._now = now

    def differences(self) -> list[Difference]:
        """Returns what is added, changed and removed, and then what stays. Keys that a dry run makes are left out."""
        differences = differences_of(changes_of(self.changes, self._before, self.registry))
        for difference in differences:
            if difference.noun == "token" and difference.name in self.keys:
                difference.fields[:] = [field for field in difference.fields if field.field != "key"]
        return [*differences, *self._unchanged]

    def add_document(self, document: Document, *, prune: bool) -> None:
        """Plan the changes that a document makes. Raises BadRequest with the path of the bad value."""
        _check_head(document)
        for section in SECTIONS:
            if section.title:
                self._plan_entities(section, _table(document, section.name), prune=prune)
            elif section.name in document or prune:  # one entity: the settings or the account
                old = getattr(self.registry, section.name)
                omitted = {name: getattr(old, name) for name in section.omit}
                new = read(KINDS[section.name][0], _table(document, section.name), section.name, omitted)
                self._add_change(section, old, new)
            self.registry = with_changes(self._before, self.changes)
        for section in SECTIONS:
            validation.check_section(section, self.registry, _table(document, section.name))

    async def add_known_prices(self) -> ChannelNotes:
        """Give known prices to new models of the channels. Returns notes about these and about missing prices."""
        notes: list[tuple[str, str]] = []
        for number, change in enumerate(self.changes):
            if isinstance(channel := change.value, Channel):
                old = self._before.channels.get(channel.id)
                priced = await with_known_prices(channel, old, self.registry, self._now)
                self.changes[number] = Change("channels", channel.id, priced)
                self.registry = with_changes(self.registry, [self.changes[number]])
                notes += _price_notes(channel, priced, old, self.registry)
        return notes

    def _plan_entities(self, section: Section, tables: Mapping[str, Any], *, prune: bool) -> None:
        present = {getattr(entity, section.title): entity for entity in getattr(self.registry, section.name).values()}
        for title in sorted(set(present) - set(tables)):
            entity = present[title]
            if self._belongs_to_program(entity):
                continue
            if prune:
                self._add_change(section, entity, None)
            else:
                self._unchanged.append(Difference(action="kept", noun=NOUNS[section.name], name=title, fields=[]))
        self.registry = with_changes(self._before, self.changes)  # a new group may get the id of a removed one
        for title, values in tables.items():
            path = f"{section.name}.{plain(title, 64)}"
            old = present.get(title)
            with validation.error_path(path):
                complete = _with_defaults(section, values, self.registry)
            new = read(KINDS[section.name][0], complete, path, self._omitted_fields(section, title, old))
            self._add_change(section, old, self._merge_current(old, new, values, path))

    def _belongs_to_program(self, entity: msgspec.Struct) -> bool:
        """Returns whether this is a program's token, which no file has. One that is left over goes with its group."""
        if not isinstance(entity, Token) or not entity.temporary:
            return False
        return entity.group in self.registry.groups or not entity.program_ended(self._now)

    def _omitted_fields(self, section: Section, title: str, old: msgspec.Struct | None) -> dict[str, Any]:
        """Returns the values of fields that are not in files: the current ones, or a new entity's. Adds to ``keys``."""
        if old is not None:
            return {name: getattr(old, name) for name in (section.title, *section.omit)}
        if section.name == "tokens":
            key = self.keys[title] = new_key()
            fields = {"id": TokenId(new_id("tok")), "digest": digest(key), "hint": hint(key), "created": self._now}
        elif section.name == "channels":
            fields = {"id": ChannelId(new_id("ch")), "created": self._now, "last_check": None}
        elif section.name == "groups":
            fields = {"created": self._now, "id": group_id(title, self.registry.groups)}
        else:
            fields = dict.fromkeys(section.omit, self._now)
        return {section.title: title, **fields}

    def _merge_current(
        self, old: msgspec.Struct | None, new: msgspec.Struct, values: Mapping[str, Any], path: str
    ) -> msgspec.Struct:
        """Returns the entity with what it keeps of the current one, and with the time of the change.

        A channel keeps its secrets and models, and its URL is checked.
        """
        if not isinstance(new, Channel):
            is_dated = "updated" in new.__struct_fields__ and new != old
            return msgspec.structs.replace(new, updated=self._now) if is_dated else new
        present = old if isinstance(old, Channel) else None
        if present is not None:
            new = restore_secrets(new, present)
        url = new.base_url if "base_url" in values else default_base_url(new.dialect, new.preset)
        if new.dialect.info.needs_url:
            with validation.error_path(path):
                url = checked_base_url(url)
        channel = msgspec.structs.replace(new, base_url=url, options=mock.with_stored_names(new.options))
        return self._with_models(present, separate_patterns(channel))

    def _with_models(self, old: Channel | None, new: Channel) -> Channel:
        """Returns the channel with its named models, dated as before, and the models that its patterns select."""
        present = {model.name: model for model in old.models} if old is not None else {}
        named_models = []
        for model in new.models:
            known = present.get(model.name, ServedModel(name=model.name, created=self._now))
            named_models.append(msgspec.structs.replace(model, created=known.created, published=known.published))
        listed = self._before.lists.get(new.id)
        if listed is None or (old is not None and (old.dialect, old.base_url) != (new.dialect, new.base_url)):
            return msgspec.structs.replace(new, models=tuple(named_models))
        current_live = [model for model in present.values() if model.live]
        channel = msgspec.structs.replace(new, models=(*named_models, *current_live))
        offered = offered_models(channel, listed.models, self._now)
        selected = [model for model in offered.models if model.live]
        return msgspec.structs.replace(new, models=(*named_models, *selected))

    def _add_change(self, section: Section, old: msgspec.Struct | None, new: msgspec.Struct | None) -> None:
        """Plan the change from ``old`` to ``new``, unless they are equal. None means that the entity does not exist."""
        if new != old:
            key_field = KINDS[section.name][1]
            key = str(getattr(old if new is None else new, key_field)) if key_field else ""
            self.changes.append(Change(section.name, key, cast("Entity | None", new)))


def _by_channel(notes: ChannelNotes) -> Iterator[str]:
    """Yields each note once, after the names of its channels."""
    channels: dict[str, list[str]] = {}
    for channel, note in notes:
        channels.setdefault(note, []).append(f"'{plain(channel)}'")
    for note, names in channels.items():
        yield f"channel{'s' if len(names) > 1 else ''} {first_of(names, 4)}: {note}"


def _price_notes(channel: Channel, priced: Channel, old: Channel | None, registry: Registry) -> ChannelNotes:
    """Yields how many prices were added to a channel, and which models that ``old`` did not have lack one."""
    if added_prices := new_prices(priced, channel):
        yield channel.name, f"{count_text(len(added_prices), 'price')} known to the program"
    if missing := [plain(name, 60) for name in models_without_price(priced, old, registry)]:
        effect = "their calls are refused" if registry.settings.refuse_unpriced else UNPRICED
        advice = "'tollkeeper price set MODEL' sets one"
        yield channel.name, f"no price is known for {first_of(sorted(missing), 5)}: {effect}; {advice}"


def _with_defaults(section: Section, values: object, registry: Registry) -> object:
    """Returns the table with the defaults of what may be left out: a token's group, and the dialect of a preset."""
    if not isinstance(values, Mapping):
        return values
    if section.name == "tokens" and "group" not in values:
        return {"group": default_group(registry), **values}
    if section.name == "channels" and isinstance(preset := values.get("preset"), str) and preset in PRESETS:
        return {"dialect": PRESETS[preset].dialect.value, **values}
    return values


def _check_head(document: Document) -> None:
    """Check the format and the names of the sections. Raises BadRequest."""
    version = document.get("format")
    if version != FORMAT or isinstance(version, bool):
        raise bad_value("format", f"must be {FORMAT}, the only supported format")
    sections = [section.name for section in SECTIONS]
    for name in document:
        if name not in ("format", *sections):
            raise bad_value(plain(name, 64), f"is not a section; the sections are: {', '.join(sections)}")


def _table(document: Document, name: str) -> Mapping[str, Any]:
    """Returns a section of a document; empty if it is missing. Raises BadRequest if it is not a table."""
    values = document.get(name, {})
    if not isinstance(values, Mapping):
        raise bad_value(name, "must be a table")
    return values


class ImportBody(msgspec.Struct, frozen=True, kw_only=True):
    """The body of an import. Without ``apply`` the changes are only listed."""

    text: str
    apply: bool = False
    prune: bool = False
    """Whether to remove the entities that the text does not name."""
    origin: ConfigOrigin = ConfigOrigin.OURS


async def export_config(edits: ConfigEdits, _: web.Request) -> ExportView:
    """GET /config: the configuration as a text. A large one takes time, so it is written in a thread."""
    registry = edits.registry
    return ExportView(text=await asyncio.to_thread(export_text, registry), notes=notes(registry))


async def import_config(edits: ConfigEdits, request: web.Request) -> ImportView:
    """POST /config {text, apply?, prune?, origin?}: list the differences, and make the changes with ``apply``.

    The text of another gateway is merged into the current configuration, because it has only some of an entity's fields
    and does not describe a whole configuration.
    """
    body = await read_body(request, ImportBody)
    if body.origin is ConfigOrigin.OURS:
        return await _import_document(edits, await asyncio.to_thread(_parse, body.text), body, [])
    if body.prune:
        raise BadRequest("only a file of Tollkeeper describes a whole configuration, so import this one without prune")
    imported = await asyncio.to_thread(_translate, body.text, body.origin)
    return await _import_document(edits, _merge_document(imported.document, edits.registry), body, imported.notes)


async def _import_document(edits: ConfigEdits, document: Document, body: ImportBody, messages: list[str]) -> ImportView:
    """Plan the changes of a document, and make them if the body says so. Notes begin with the messages."""
    before = edits.registry
    plan = ImportPlan(before, edits.now)
    await asyncio.to_thread(plan.add_document, document, prune=body.prune)
    price_notes = () if body.origin is ConfigOrigin.OURS else await plan.add_known_prices()
    if plan.keys:
        names = first_of([f"'{plain(name)}'" for name in sorted(plan.keys)], 5)
        messages = [*messages, f"new tokens get keys of their own: {names}"]
    differences = await asyncio.to_thread(plan.differences)
    if body.apply and edits.registry is not before:
        msg = "the configuration has changed in the meantime; review the differences and try again"
        raise Conflict(msg, code="changed_meanwhile")
    expiring = edits.expiring_records(plan.registry.settings.keep_days)
    if body.apply and plan.changes:
        change_count = count_text(sum(difference.action != "kept" for difference in differences), "change")
        done = f"imported a configuration ({change_count})"
        await edits.commit(done, "what was imported is as before", *plan.changes)
    return ImportView(
        applied=body.apply,
        differences=differences,
        notes=[*messages, *_by_channel([*price_notes, *_channel_notes(plan)])],
        expiring=expiring,
        keys=plan.keys if body.apply else {},
    )


def _parse(text: str) -> Document:
    """Returns the document in a text. Raises BadRequest with the line at fault."""
    if _LONG_KEY.search(text):
        raise BadRequest("the file has a key with more than 20 parts", code="bad_configuration", param="text")
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))  # the byte order mark of some editors
    except (ValueError, RecursionError) as exc:  # a number of thousands of digits raises a plain ValueError
        reason = plain(str(exc))
        msg = f"the file is not valid TOML: {reason}; a file of another gateway needs --from, as in --from litellm"
        raise BadRequest(msg, code="bad_configuration", param="text") from exc


def _channel_notes(plan: ImportPlan) -> ChannelNotes:
    for channel in [change.value for change in plan.changes if isinstance(change.value, Channel)]:
        for variable in ChannelVariables(os.environ).missing(channel):
            yield channel.name, f"the environment variable {variable} is not set where the server runs"
        if channel.patterns and channel.id not in plan.registry.lists:
            command = f"channel models {word(channel.name)} --refresh"
            yield channel.name, f"its models are fetched within a minute; to fetch them now: 'tollkeeper {command}'"


def _translate(text: str, origin: ConfigOrigin) -> ImportedConfig:
    """Returns another gateway's configuration in our form. Raises BadRequest if it is not one of that gateway's."""
    try:
        source = msgspec.json.decode(text.removeprefix("\ufeff"))
    except (msgspec.DecodeError, RecursionError) as exc:
        message = f"the file is not valid JSON: {plain(str(exc))}"
        raise BadRequest(message, code="bad_configuration", param="text") from exc
    if origin is not ConfigOrigin.LITELLM:
        return oneapi.convert(source, oneapi.ONE_API if origin is ConfigOrigin.ONE_API else oneapi.NEW_API)
    if not isinstance(source, Mapping) or not isinstance(source.get("model_list", source.get("include")), list):
        raise BadRequest("the file has no model_list, so it is not a LiteLLM configuration", code="bad_configuration")
    return litellm.convert(source, os.environ)


def _merge_document(document: Document, registry: Registry) -> Document:
    """Returns the document. Entities that already exist keep the fields that it does not name."""
    merged = dict(document)
    for section in SECTIONS:
        if section.title and section.name in document:
            present = {getattr(e, section.title): e for e in getattr(registry, section.name).values()}
            merged[section.name] = {
                title: _merge_fields(entity_table(present[title], section), values) if title in present else values
                for title, values in document[section.name].items()
            }
    return merged


def _merge_fields(present: Document, values: Document) -> Document:
    """Returns the current fields, overridden by ``values``. A fallback overrides only the one for the same model, and a
    model keeps what ``values`` do not name, such as its price, while its upstream name stays.
    """
    fallbacks = {rule["model"]: rule for rule in (*present.get("fallbacks", ()), *values.get("fallbacks", ()))}
    tables = [model for model in present.get("models", ()) if isinstance(model, Mapping)]  # a text is only a name
    known = {(model["name"], model.get("upstream")): model for model in tables}
    models = [{**known.get((model["name"], model.get("upstream")), {}), **model} for model in values.get("models", ())]
    lists = {"fallbacks": [*fallbacks.values()], "models": models}
    return {**present, **values, **{name: items for name, items in lists.items() if items}}
