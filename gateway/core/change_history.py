"""Change history: what is kept of a change, and the change that undoes an entry.

An entry is undone field by field. Later changes of other fields stay; before a later change of the same field is
overwritten, the owner has to confirm. Fields that the gateway maintains, such as the models selected by a pattern, are
overwritten without a question.

Long: what is kept of a change, what is shown of it and what undoes it have to agree about every field.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from gateway.core.config_export import OPEN_HEADERS, form
from gateway.domain.account import Account, Grant
from gateway.domain.channel import Channel, UpstreamModels
from gateway.domain.config_codec import SECTIONS, Section, inline
from gateway.domain.config_views import Difference, FieldDifference
from gateway.domain.errors import Conflict
from gateway.domain.field_kinds import NONE_WORD
from gateway.domain.fields import FIELDS
from gateway.domain.group import Group
from gateway.domain.history import (
    EntityChange,
    Fields,
    HistoryEntry,
    HistoryView,
    kind_of,
    undone_entries,
    where_they_differ,
)
from gateway.domain.money import dollars
from gateway.domain.price import RATE_WORDS, Price
from gateway.domain.quoting import names_text
from gateway.domain.registry import Change, Entity, Registry, RetiredKey, Table, with_changes
from gateway.domain.settings import Settings
from gateway.domain.text import REFERENCE, mask, plain
from gateway.domain.token import Token

KINDS: Mapping[Table, type[Entity]] = {
    "account": Account,
    "settings": Settings,
    "tokens": Token,
    "groups": Group,
    "channels": Channel,
    "prices": Price,
    "grants": Grant,
    "lists": UpstreamModels,
    "retired": RetiredKey,
}
NOUNS: Mapping[Table, str] = {
    "account": "account",
    "settings": "settings",
    "tokens": "token",
    "groups": "group",
    "channels": "channel",
    "prices": "price",
    "grants": "grant",
    "lists": "model list",
    "retired": "key",
}
"""What people call an entity of a table."""

HIDDEN = "…"
"""What is shown instead of a key."""
EARLIER_KEY = "sealed:"
"""The start of what an earlier version kept instead of a key."""

_SECRET_FIELDS = {"digest": "key", "key": "key", "keys": "key", "headers": "headers", "proxy": "proxy"}
"""Fields whose different values look alike, and what people call them."""

_SECTIONS: Mapping[str, Section] = {section.name: section for section in SECTIONS}


def entity_of(registry: Registry, table: Table, key: str) -> Entity | None:
    """Returns the present entity; None if it does not exist."""
    found = getattr(registry, table)
    return found if isinstance(found, msgspec.Struct) else found.get(key)  # type: ignore[return-value]  # one of them


def changes_of(changes: Sequence[Change], before: Registry, after: Registry) -> list[EntityChange]:
    """Returns what the history keeps of a change, each entity once; for an edit, the fields that differ."""
    kept = []
    for table, key in dict.fromkeys((change.table, change.key) for change in changes):
        old, new = entity_of(before, table, key), entity_of(after, table, key)
        if old == new:
            continue
        was, becomes = _fields_of(old), _fields_of(new)
        if was is not None and becomes is not None:
            names = [name for name in was | becomes if was.get(name) != becomes.get(name)]
            if not _KEY_FIELDS.isdisjoint(names):  # each has its number among all of them
                names += _KEY_FIELDS.difference(names)
            if table != "lists":  # only the gateway changes these: keep the whole earlier one
                was = {name: was[name] for name in names if name in was}
            becomes = {name: becomes[name] for name in names if name in becomes}
        name = _name(new if new is not None else old)
        kept.append(EntityChange(table=table, key=key, name=name, before=was, after=becomes))
    return kept


def view_of(entry: HistoryEntry, entries: Sequence[HistoryEntry], undone: dict[int, int]) -> HistoryView:
    """Returns the entry as the owner sees it. For thousands of changes this takes a second."""
    return HistoryView(
        id=entry.id,
        time_ms=entry.time,
        kind=kind_of(entry, entries),
        source=entry.source,
        text=entry.done,
        undone_by=undone.get(entry.id, 0),
        undoes=entry.undoes,
        differences=entry.differences or differences_of(entry.changes),
    )


def differences_of(changes: Sequence[EntityChange]) -> list[Difference]:
    """Returns the changes for people, without secrets and without what upstreams list."""
    found = []
    for change in changes:
        if change.table == "lists":
            continue
        what = "added" if change.before is None else "removed" if change.after is None else "changed"
        try:
            old, new = _entity(change, change.before), _entity(change, change.after)
        except msgspec.ValidationError:  # another version of the program made it
            found.append(Difference(what=what, noun=NOUNS[change.table], name=change.name, fields=[]))
            continue
        shown_before, shown_after = _shown_fields(change.table, old), _shown_fields(change.table, new)
        if isinstance(old, Channel) and isinstance(new, Channel) and old.all_keys != new.all_keys:
            name = "keys" if old.keys or new.keys else "key"
            for shown, channel in ((shown_before, old), (shown_after, new)):
                shown.pop("key", None)
                shown[name] = _keys_text(channel)
        if old is not None and new is not None:  # a default is shown by its value
            for name in sorted(shown_before.keys() ^ shown_after.keys()):
                shown_before.setdefault(name, _words(change.table, old).get(name, ""))
                shown_after.setdefault(name, _words(change.table, new).get(name, ""))
            section = _SECTIONS[change.table]
            _tell_apart(shown_before, shown_after, *(form(_without_prices(one), section) for one in (old, new)))
        fields = list(_fields(shown_before, shown_after))
        if what == "changed":  # secrets that look alike may differ
            differing = (change.before or {}).keys() | (change.after or {}).keys()
            secret = {_SECRET_FIELDS[name] for name in _SECRET_FIELDS.keys() & differing}
            alike = secret - {"key" if field.field == "keys" else field.field for field in fields}
            fields += [FieldDifference(field=name, before=HIDDEN, after=HIDDEN) for name in sorted(alike)]
        found.append(Difference(what=what, noun=NOUNS[change.table], name=change.name, fields=fields))
    return found


def _entity(change: EntityChange, fields: Fields | None) -> Entity | None:
    """Returns an entity with these fields. Of an edit, what did not change is left out: it is blank."""
    if fields is None:
        return None
    return msgspec.convert({**_BLANK, "id": change.key, "name": change.name, **fields}, KINDS[change.table])


_KEY_FIELDS = frozenset({"key", "keys"})
_BLANK: Fields = {
    **dict.fromkeys(("group", "digest", "hint", "model", "channel"), ""),
    **dict.fromkeys(("input", "output"), 0),
    "dialect": "openai",
}
"""The fields without a default, of the entities that are edited."""


def settings_differences(before: Settings, after: Settings) -> list[FieldDifference]:
    """Returns the settings that differ, for people. A default is shown by its value."""
    found = []
    for name in Settings.__struct_fields__:
        old, new = (msgspec.to_builtins(getattr(one, name)) for one in (before, after))
        if old != new:
            found.append(_difference(name, *("none" if value is None else inline(value) for value in (old, new))))
    return found


class UndoPlan(msgspec.Struct, frozen=True):
    """The change that undoes an entry."""

    changes: list[Change]
    registry: Registry
    """The configuration after it."""
    reasons: list[str]
    """Why to ask the owner first: what was changed since and would be overwritten."""


def undo_plan(entry: HistoryEntry, entries: Sequence[HistoryEntry], registry: Registry) -> UndoPlan:
    """Returns how to undo an entry. Raises Conflict if it cannot be undone, naming the newer change to undo first."""
    undone = undone_entries(entries)
    if entry.id in undone:
        raise Conflict(
            f"change {entry.id} ({plain(entry.done)}) is already undone, by change {undone[entry.id]}",
            code="already_undone",
        )
    newer = [one for one in entries if one.id > entry.id and one.id not in undone and not one.undoes]
    changes: list[Change] = []
    reasons: list[str] = []
    after = registry
    for kept in reversed(entry.changes):
        current = entity_of(registry, kept.table, kept.key)
        reasons += _overwritten(kept, current, newer)
        for change in _with_list(Change(kept.table, kept.key, _former(kept, current)), registry, entry):
            if entity_of(after, change.table, change.key) != change.value:
                changes.append(change)
                after = with_changes(after, [change])
    known = {problem.text for problem in _problems(registry)}
    for problem in _problems(after):
        if problem.text not in known:
            raise _contradiction(problem.text, _newest(newer, problem.table, problem.key, [problem.field]))
    return UndoPlan(changes, after, reasons)


def _former(kept: EntityChange, current: Entity | None) -> Entity | None:
    """Returns the entity as it was before the change. Fields that the change did not touch stay as they are now."""
    if kept.before is None:
        return None
    after = kept.after or {}
    now = {} if kept.after is None or kept.table == "lists" else _fields_of(current) or {}
    fields = {name: value for name, value in now.items() if name not in after} | kept.before
    if kept.table == "channels" and "models" in after:
        fields["models"] = _former_models(*(one.get("models", []) for one in (kept.before, after, now)))
    if EARLIER_KEY in str([fields.get(name) for name in _SECRET_FIELDS]):
        raise _foreign("its keys are not kept")
    try:
        return msgspec.convert(fields, KINDS[kept.table])
    except msgspec.ValidationError as exc:
        raise _foreign(str(exc)) from exc


def _foreign(why: str) -> Conflict:
    return Conflict(f"another version of the program made this change; it cannot be undone ({why})")


def _overwritten(kept: EntityChange, current: Entity | None, newer: Sequence[HistoryEntry]) -> Iterator[str]:
    """Yields what was changed since, and by which change. Raises Conflict if what was changed is gone."""
    if kept.table == "lists":
        return
    thing = NOUNS[kept.table]
    thing = thing if kept.table in ("account", "settings") else f"{thing} '{plain(kept.name)}'"
    if current is None and kept.after is not None:
        raise _contradiction(f"{thing} is not there any more", _newest(newer, kept.table, kept.key))
    if kept.after is None:
        what, fields = "is there again", [] if current is None else [""]
    else:
        names = kept.after.keys() | (kept.before or {}).keys()
        present = _fields_of(current) or {}
        now = present if kept.before is None else {name: present[name] for name in names if name in present}
        what, fields = "was changed since", _differing(kept.table, now, kept.after)
    if fields:
        found = _newest(newer, kept.table, kept.key, fields if kept.after is not None else ())
        by = f"by change {found.id} ({plain(found.done)})" if found is not None else "outside of the history"
        yield f"{thing[:1].upper()}{thing[1:]} {what}, {by}; that is overwritten."


def _former_models(was: list[Fields], then: list[Fields], now: list[Fields]) -> list[Fields]:
    """Returns the earlier models, without those delisted and with those listed since the change."""
    before, after, there = ({model["name"] for model in models} for models in (was, then, now))
    gone = after - there
    kept = [model for model in was if not (model.get("live") and model["name"] in gone)]
    return kept + [model for model in now if model.get("live") and model["name"] not in before | after]


def _differing(table: Table, now: Fields, then: Fields) -> list[str]:
    """Returns the names of the fields that the owner changed since."""
    was, prices = (_prices(fields) if table == "channels" else {} for fields in (then, now))
    repriced = any(was[model] != prices[model] for model in was.keys() & prices.keys())
    now, then = _owner_fields(table, now), _owner_fields(table, then)
    found = [name for name in now | then if now.get(name) != then.get(name)]
    return [*found, "models"] if repriced else found


def _prices(channel: Fields) -> dict[tuple[str, str], object]:
    """Returns a channel's own prices by the names of a model."""
    return {(m["name"], m.get("upstream", "")): m.get("price") for m in channel.get("models", ())}


def _owner_fields(table: Table, fields: Fields) -> Fields:
    """Returns the fields that only the owner changes."""
    if table == "groups":  # an earlier version kept other fields for its former names
        return {name: value for name, value in fields.items() if name not in ("id", "former", "since")}
    if table != "channels":
        return fields
    owned = {name: value for name, value in fields.items() if name not in ("models", "last_check")}
    models = [(m["name"], m.get("upstream", "")) for m in fields.get("models", ()) if not m.get("live")]
    return owned | ({"models": models} if models else {})


def _with_list(change: Change, registry: Registry, entry: HistoryEntry) -> Iterator[Change]:
    """Adds to a deleted channel what its upstream lists, even if that was fetched later."""
    yield change
    removed = change.table == "channels" and change.value is None and change.key in registry.lists
    if removed and all(one.table != "lists" or one.key != change.key for one in entry.changes):
        yield Change("lists", change.key, None)


def _contradiction(what: str, found: HistoryEntry | None) -> Conflict:
    """Returns the Conflict. ``found`` is the newer change to undo first, if the history has it."""
    if found is None:
        return Conflict(f"{what}; change that first", code="newer_change")
    by = f"since change {found.id} ({plain(found.done)}); undo that one first"
    return Conflict(f"{what}, {by}", code="newer_change", details={"newer": found.id})


def _newest(newer: Sequence[HistoryEntry], table: Table, key: str, fields: Collection[str] = ()) -> HistoryEntry | None:
    """Returns the newest change of an entity, or of one of these fields."""

    def fits(change: EntityChange) -> bool:
        if (change.table, change.key) != (table, key):
            return False
        if not fields or change.before is None or change.after is None:
            return True
        return any(name in change.before or name in change.after for name in fields)

    return next((entry for entry in reversed(newer) if any(map(fits, entry.changes))), None)


class _Problem(NamedTuple):
    """A field names something that does not exist, or two entities have the same name or id."""

    table: Table
    key: str
    field: str
    text: str


def _problems(registry: Registry) -> Iterator[_Problem]:
    """Yields names of things that do not exist, and names and ids that two entities have."""
    for token in registry.tokens.values():
        if token.group not in registry.groups:
            text = f"token '{plain(token.name)}' is in group '{plain(token.group)}'"
            yield _Problem("tokens", token.id, "group", text)
    for channel in registry.channels.values():
        for group in channel.groups:
            if group not in registry.groups:
                text = f"channel '{plain(channel.name)}' serves group '{plain(group)}'"
                yield _Problem("channels", channel.id, "groups", text)
    used = registry.settings.ollama_token
    if used and used not in {token.name for token in registry.tokens.values()}:
        yield _Problem("settings", "", "ollama_token", f"token '{plain(used)}' is the one that Ollama's port uses")
    yield from _doubles("tokens", [(token.name, token.id) for token in registry.tokens.values()])
    yield from _doubles("channels", [(channel.name, channel.id) for channel in registry.channels.values()])
    yield from _doubles("groups", [(group.id, group.name) for group in registry.groups.values()])


def _doubles(table: Table, names: Sequence[tuple[str, str]]) -> Iterator[_Problem]:
    """Yields names or ids used twice. What is restored comes last, after the entity that has its name now."""
    seen: dict[str, str] = {}
    for name, key in names:
        if name in seen:
            yield _Problem(table, seen[name], "name", f"there is another {NOUNS[table]} '{plain(name)}'")
        seen[name] = key


def _fields_of(entity: Entity | None) -> Fields | None:
    if entity is None:
        return None
    fields: Fields = msgspec.json.decode(msgspec.json.encode(entity))
    return fields


def _is_secret(text: str) -> bool:
    return bool(text) and not text.startswith(REFERENCE)


def _name(entity: Entity | None) -> str:
    if isinstance(entity, Grant):
        return dollars(entity.nanos)
    if isinstance(entity, Price):
        return entity.model
    if isinstance(entity, UpstreamModels):
        return entity.channel
    return getattr(entity, "name", "")


def _fields(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[FieldDifference]:
    for name in [*after, *(name for name in before if name not in after)]:
        if before.get(name) != after.get(name):
            yield _difference(name, before.get(name, ""), after.get(name, ""))


def _difference(field: str, before: str, after: str) -> FieldDifference:
    """Returns both values for people; of long ones, the part in which they begin to differ."""
    before, after = where_they_differ(before, after, 160)
    return FieldDifference(field=field, before=before, after=after)


def _tell_apart(before: dict[str, str], after: dict[str, str], old: Fields, new: Fields) -> None:
    """Returns the exact spelling of different values that read the same, such as rounded ones."""
    for name in before.keys() & after.keys() - _SECRET_FIELDS.keys():
        if before[name] == after[name] and old.get(name) != new.get(name):
            before[name], after[name] = (inline(one[name]) if name in one else "" for one in (old, new))


def _shown_fields(table: Table, entity: Entity | None) -> dict[str, str]:
    """Returns the fields as details show them, others as in a configuration file. Keys are not shown."""
    if entity is None:
        return {}
    if isinstance(entity, Grant):
        return {"amount": dollars(entity.nanos)} | ({"note": entity.note} if entity.note else {})
    known, fields = _words(table, entity), form(_without_prices(entity), _SECTIONS[table])
    shown = {name: known.get(name) or inline(value) for name, value in fields.items()}
    if isinstance(entity, Channel):
        own = [(model.name, model.price) for model in entity.models]
        shown |= {f"price of {plain(name, 80)}": _price_text(price) for name, price in own if price is not None}
        headers = {
            name: text if name.lower() in OPEN_HEADERS or not _is_secret(text) else HIDDEN
            for name, text in entity.headers.items()
        }
        secret: Mapping[str, Any] = {
            "headers": headers,
            "proxy": HIDDEN if _is_secret(entity.proxy) else entity.proxy,
        }
        shown |= {name: inline(value) for name, value in secret.items() if value}
        shown = {name: text for name, text in shown.items() if name not in ("key", "keys")}
        shown |= {"keys" if entity.keys else "key": _keys_text(entity)} if entity.key else {}
    return shown


def _without_prices(entity: Entity) -> Entity:
    """Returns a channel without its own prices, which are shown one by one."""
    if not isinstance(entity, Channel):
        return entity
    return msgspec.structs.replace(entity, models=tuple(msgspec.structs.replace(m, price=None) for m in entity.models))


def _price_text(price: Price) -> str:
    """Returns a short form of a price: ``$3.00 / $15.00, cached input $0.30, 2 rules``."""
    parts = [f"{dollars(price.input)} / {dollars(price.output)}"]
    named = {"cached input": price.cached_input, "cache write": price.cache_write, "a call": price.per_call or None}
    parts += [f"{name} {dollars(nanos)}" for name, nanos in named.items() if nanos is not None]
    parts += [f"{RATE_WORDS[name]} {dollars(nanos)}" for name, nanos in price.extras.items()]
    counts = {"tier": len(price.tiers), "rule": len(price.rules)}
    return ", ".join([*parts, *(f"{count} {noun}{'s' * (count > 1)}" for noun, count in counts.items() if count)])


def _words(table: Table, entity: Entity) -> dict[str, str]:
    """Returns the fields that the owner edits, as details show them."""
    open_fields = (field for field in FIELDS.get(table, ()) if field.name not in _SECRET_FIELDS)
    found = {field.name: field.show(getattr(entity, field.name)) or NONE_WORD for field in open_fields}
    if isinstance(entity, Token | Channel):
        found["enabled"] = "yes" if entity.enabled else "no"
    if isinstance(entity, Channel):
        own = (model for model in entity.models if not model.live)
        found["models"] = names_text(f"{m.name}={m.upstream}" if m.upstream else m.name for m in own) or NONE_WORD
    return found


def _keys_text(channel: Channel) -> str:
    """Returns ``1 …6789, 2 env:SECOND_KEY``, or the only key, masked."""
    keys = [mask(key) for key in channel.all_keys]
    numbered = [f"{number} {key}" for number, key in enumerate(keys, start=1)]
    return ", ".join(numbered if len(keys) > 1 else keys) or "none"
