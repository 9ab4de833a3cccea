"""Change history: what is kept of a change, and the change that undoes an entry.

An entry is undone field by field. Later changes of other fields stay; before a later change of the same field is
overwritten, the owner has to confirm. Fields that the gateway maintains, such as the models selected by a pattern, are
overwritten without a question.

Long: what is kept of a change, what is shown of it and what undoes it have to agree about every field.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from gateway.core.config_export import OPEN_HEADERS
from gateway.domain.account import Grant
from gateway.domain.channel import Channel
from gateway.domain.config_codec import inline
from gateway.domain.config_views import Difference, FieldDifference
from gateway.domain.errors import Conflict
from gateway.domain.field_kinds import NONE_WORD
from gateway.domain.fields import FIELDS
from gateway.domain.history import (
    EntityChange,
    Fields,
    HistoryEntry,
    HistoryView,
    difference_excerpts,
    kind_of,
    undone_entries,
)
from gateway.domain.money import dollars
from gateway.domain.price import RATE_WORDS, Price
from gateway.domain.quoting import names_text
from gateway.domain.registry import KINDS, Change, Entity, Registry, Table, with_changes
from gateway.domain.text import REFERENCE, mask, plain

NOUNS: Mapping[Table, str] = {
    "account": "account",
    "settings": "settings",
    "tokens": "token",
    "groups": "group",
    "channels": "channel",
    "prices": "price",
    "grants": "grant",
}
"""What people call an entity of a table that only the owner changes."""

HIDDEN = "…"
"""What is shown instead of a secret."""


def entity_of(registry: Registry, table: Table, key: str) -> Entity | None:
    """Returns the present entity; None if it does not exist."""
    entities = getattr(registry, table)
    return entities if isinstance(entities, msgspec.Struct) else entities.get(key)  # type: ignore[return-value]  # one of them


def changes_of(changes: Sequence[Change], before: Registry, after: Registry) -> list[EntityChange]:
    """Returns what the history keeps of a change, each entity once; for an edit, the fields that differ."""
    kept = []
    for table, key in dict.fromkeys((change.table, change.key) for change in changes):
        old, new = entity_of(before, table, key), entity_of(after, table, key)
        if old == new or table not in NOUNS:
            continue
        was, becomes = _fields_of(old), _fields_of(new)
        if was is not None and becomes is not None:
            names = [name for name in was | becomes if was.get(name) != becomes.get(name)]
            if {"key", "keys"} & {*names}:  # each has its number among all of them
                names += ["key", "keys"]
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
        differences=differences_of(entry.changes),
    )


def differences_of(changes: Sequence[EntityChange]) -> list[Difference]:
    """Returns the changes for people, without secrets."""
    differences = []
    for change in changes:
        if change.table not in NOUNS:
            continue
        what = "added" if change.before is None else "removed" if change.after is None else "changed"
        try:
            fields = field_differences(
                change.table, *(_entity(change, entity) for entity in (change.before, change.after))
            )
        except msgspec.ValidationError:  # another version of the program made it
            fields = []
        differences.append(Difference(what=what, noun=NOUNS[change.table], name=change.name, fields=fields))
    return differences


_BLANK: Fields = {
    **dict.fromkeys(("id", "name", "group", "digest", "hint", "model"), ""),
    **dict.fromkeys(("input", "output", "nanos", "time"), 0),
    "dialect": "openai",
}
"""Values for the fields without a default."""


def _entity(change: EntityChange, fields: Fields | None) -> Entity | None:
    """Returns an entity with these fields. Of an edit, what did not change is left out: it is blank."""
    return None if fields is None else msgspec.convert(_BLANK | fields, KINDS[change.table])


def field_differences(table: Table, old: Entity | None, new: Entity | None) -> list[FieldDifference]:
    """Returns the fields that differ, for people. An entity that is added or removed is compared with the defaults."""
    blank = msgspec.convert(_BLANK, KINDS[table])
    before, after = _shown_values(old or blank), _shown_values(new or blank)
    differences = []
    for name in {**after, **before}:
        values = before.get(name), after.get(name)
        if values[0] == values[1]:
            continue
        texts = [_text(table, name, value) for value in values]
        if texts[0] == texts[1]:  # rounded numbers, and secrets that look alike
            texts = [HIDDEN if name in _SECRETS else _exact_text(value) for value in values]
        was, becomes = ("" if entity is None else text for entity, text in zip((old, new), texts, strict=True))
        was, becomes = difference_excerpts(was, becomes, 160)
        differences.append(FieldDifference(field=_LABELS.get(name, name), before=was, after=becomes))
    return differences


_UNSHOWN = frozenset({"id", "name", "model", "created", "time", "updated", "temporary", "digest", "last_check", "keys"})
"""Fields that belong to this home, that name an entity, or that are shown together with another one."""


def _shown_values(entity: Entity) -> dict[str, Any]:
    """Returns the fields that are shown. Of a channel's models only those that the owner named are."""
    values = {name: getattr(entity, name) for name in entity.__struct_fields__ if name not in _UNSHOWN}
    if isinstance(entity, Channel):
        named = (model for model in entity.models if not model.live)
        values["models"] = [(model.name, model.upstream, model.context, model.max_output) for model in named]
        values["key"] = entity.all_keys
        values |= {f"price of {plain(model.name, 80)}": model.price for model in entity.models}
    return values


def _text(table: Table, name: str, value: Any) -> str:
    """Returns a field as details show it, or one that they do not show as JSON."""
    if (table, name) in _TEXTS:
        return _TEXTS[table, name](value)
    if isinstance(value, Price):
        return _price_text(value)
    field = next((field for field in FIELDS.get(table, ()) if field.name == name), None)
    return field.show(value) or NONE_WORD if field is not None else _exact_text(value)


def _exact_text(value: object) -> str:
    return NONE_WORD if value is None else msgspec.json.encode(value).decode()


def _headers_text(headers: Mapping[str, str]) -> str:
    shown = {
        name: HIDDEN if _is_secret(text) and name.lower() not in OPEN_HEADERS else text
        for name, text in headers.items()
    }
    return inline(shown) if shown else NONE_WORD


def _keys_text(keys: Sequence[str]) -> str:
    """Returns ``1 …6789, 2 env:SECOND_KEY``, or the only key, masked."""
    numbered = [f"{number} {mask(key)}" for number, key in enumerate(keys, start=1)]
    return ", ".join(numbered if len(keys) > 1 else map(mask, keys)) or NONE_WORD


def _models_text(models: Sequence[tuple[str, str, object, object]]) -> str:
    return names_text(f"{name}={upstream}" if upstream else name for name, upstream, *_ in models) or NONE_WORD


def _enabled_text(enabled: bool) -> str:  # noqa: FBT001 - the value itself
    return "yes" if enabled else "no"


_TEXTS: Mapping[tuple[Table, str], Callable[[Any], str]] = {
    ("tokens", "hint"): str,
    ("tokens", "enabled"): _enabled_text,
    ("channels", "enabled"): _enabled_text,
    ("channels", "key"): _keys_text,
    ("channels", "headers"): _headers_text,
    ("channels", "proxy"): lambda proxy: HIDDEN if _is_secret(proxy) else proxy or NONE_WORD,
    ("channels", "models"): _models_text,
    ("grants", "nanos"): dollars,
}
_SECRETS = frozenset({"key", "headers", "proxy"})
_LABELS = {"hint": "key", "key": "keys", "nanos": "amount"}
"""What people call a field that is not called by its name."""


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
    newer = [
        other
        for other in entries
        if other.id > entry.id >= other.undoes and other.id not in undone and other.source.via != "gateway"
    ]
    changes: list[Change] = []
    reasons: list[str] = []
    for kept in (change for change in reversed(entry.changes) if change.table in NOUNS):
        current = entity_of(registry, kept.table, kept.key)
        reasons += _overwritten(kept, current, newer)
        former = _former(kept, current)
        if current != former:
            changes.append(Change(kept.table, kept.key, former))
    after = with_changes(registry, changes)
    known = dict(_problems(registry))
    for problem, (table, key, field) in _problems(after):
        if problem not in known:
            raise _contradiction(problem, _newest(newer, table, key, [field]))
    return UndoPlan(changes, after, reasons)


def _former(kept: EntityChange, current: Entity | None) -> Entity | None:
    """Returns the entity as it was before the change. Fields that the change did not touch stay as they are now."""
    if kept.before is None:
        return None
    after = kept.after or {}
    now = {} if kept.after is None else _fields_of(current) or {}
    fields = {name: value for name, value in now.items() if name not in after} | kept.before
    if kept.table == "channels" and "models" in after:
        fields["models"] = _former_models(*(state.get("models", []) for state in (kept.before, after, now)))
    try:
        return msgspec.convert(fields, KINDS[kept.table])
    except msgspec.ValidationError as exc:
        message = f"another version of the program made this change; it cannot be undone ({exc})"
        raise Conflict(message) from exc


def _overwritten(kept: EntityChange, current: Entity | None, newer: Sequence[HistoryEntry]) -> Iterator[str]:
    """Yields what was changed since, and by which change. Raises Conflict if what was changed is gone."""
    thing = NOUNS[kept.table]
    thing = thing if kept.table in ("account", "settings") else f"{thing} '{plain(kept.name)}'"
    entry = _newest(newer, kept.table, kept.key, (kept.before or {}).keys() | (kept.after or {}).keys())
    if current is None and kept.after is not None:
        raise _contradiction(f"{thing} is not there any more", entry)
    if current is not None and entry is not None:
        what = "is there again" if kept.after is None else "was changed since"
        by = f"by change {entry.id} ({plain(entry.done)})"
        yield f"{thing[:1].upper()}{thing[1:]} {what}, {by}; that is overwritten."


def _former_models(was: list[Fields], then: list[Fields], now: list[Fields]) -> list[Fields]:
    """Returns the earlier models, without those delisted and with those listed since the change."""
    before, after, there = ({model["name"] for model in models} for models in (was, then, now))
    gone = after - there
    kept = [model for model in was if not (model.get("live") and model["name"] in gone)]
    return kept + [model for model in now if model.get("live") and model["name"] not in before | after]


def _contradiction(what: str, newer: HistoryEntry | None) -> Conflict:
    """Returns the Conflict. ``newer`` is the newer change to undo first, if the history has it."""
    if newer is None:
        return Conflict(f"{what}; change that first", code="newer_change")
    by = f"since change {newer.id} ({plain(newer.done)}); undo that one first"
    return Conflict(f"{what}, {by}", code="newer_change", details={"newer": newer.id})


def _newest(newer: Sequence[HistoryEntry], table: Table, key: str, fields: Collection[str] = ()) -> HistoryEntry | None:
    """Returns the newest change of an entity, or of one of these fields."""

    def fits(change: EntityChange) -> bool:
        if (change.table, change.key) != (table, key):
            return False
        if not fields or change.before is None or change.after is None:
            return True
        return any(name in change.before or name in change.after for name in fields)

    return next((entry for entry in reversed(newer) if any(map(fits, entry.changes))), None)


_Problem = tuple[str, tuple[Table, str, str]]
"""What is wrong, and the table, key and field of the entity at fault."""


def _problems(registry: Registry) -> Iterator[_Problem]:
    """Yields names of things that do not exist, and names and ids that two entities have."""
    for token in registry.tokens.values():
        if token.group not in registry.groups:
            yield f"token '{plain(token.name)}' is in group '{plain(token.group)}'", ("tokens", token.id, "group")
    for channel in registry.channels.values():
        for group in channel.groups:
            if group not in registry.groups:
                text = f"channel '{plain(channel.name)}' serves group '{plain(group)}'"
                yield text, ("channels", channel.id, "groups")
    used = registry.settings.ollama_token
    if used and used not in {token.name for token in registry.tokens.values()}:
        yield f"token '{plain(used)}' is the one that Ollama's port uses", ("settings", "", "ollama_token")
    yield from _doubles("tokens", [(token.name, token.id) for token in registry.tokens.values()])
    yield from _doubles("channels", [(channel.name, channel.id) for channel in registry.channels.values()])
    yield from _doubles("groups", [(group.id, group.name) for group in registry.groups.values()])


def _doubles(table: Table, names: Sequence[tuple[str, str]]) -> Iterator[_Problem]:
    """Yields names or ids used twice. What is restored comes last, after the entity that has its name now."""
    seen: dict[str, str] = {}
    for name, key in names:
        if name in seen:
            yield f"there is another {NOUNS[table]} '{plain(name)}'", (table, seen[name], "name")
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
    return getattr(entity, "name", "")


def _price_text(price: Price) -> str:
    """Returns a short form of a price: ``$3.00 / $15.00, cached input $0.30, 2 rules``."""
    parts = [f"{dollars(price.input)} / {dollars(price.output)}"]
    named = {"cached input": price.cached_input, "cache write": price.cache_write, "a call": price.per_call or None}
    parts += [f"{name} {dollars(nanos)}" for name, nanos in named.items() if nanos is not None]
    parts += [f"{RATE_WORDS[name]} {dollars(nanos)}" for name, nanos in price.extras.items()]
    counts = {"tier": len(price.tiers), "rule": len(price.rules)}
    return ", ".join([*parts, *(f"{count} {noun}{'s' * (count > 1)}" for noun, count in counts.items() if count)])
