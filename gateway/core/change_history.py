"""Change history: what is kept of a change of the configuration, and how an entry is shown. ``undo`` undoes entries."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from gateway.core.config_export import OPEN_HEADERS
from gateway.domain.account import Grant
from gateway.domain.channel import Channel
from gateway.domain.config_codec import inline
from gateway.domain.config_views import Difference, FieldDifference
from gateway.domain.field_kinds import NONE_WORD
from gateway.domain.fields import FIELDS
from gateway.domain.history import EntityChange, EntryState, Fields, HistoryView, difference_excerpts
from gateway.domain.human_values import count_text
from gateway.domain.money import dollars
from gateway.domain.price import RATE_WORDS, Price
from gateway.domain.quoting import names_text
from gateway.domain.registry import KINDS, NOUNS, Change, Entity, Registry, Table
from gateway.domain.text import REFERENCE, mask, plain

HIDDEN = "…"
"""What is shown instead of a secret."""


def entity_of(registry: Registry, table: Table, key: str) -> Entity | None:
    """Returns the current entity; None if it does not exist."""
    entities = getattr(registry, table)
    return entities if isinstance(entities, msgspec.Struct) else entities.get(key)  # type: ignore[return-value]  # one of them


def changes_of(changes: Sequence[Change], before: Registry, after: Registry) -> list[EntityChange]:
    """Returns what the history keeps of a change, each entity once; for an edit, the fields that differ."""
    entity_changes = []
    for table, key in dict.fromkeys((change.table, change.key) for change in changes):
        old, new = entity_of(before, table, key), entity_of(after, table, key)
        if old == new or table not in NOUNS:
            continue
        before_fields, after_fields = to_fields(old), to_fields(new)
        if before_fields is not None and after_fields is not None:
            before_fields, after_fields = _differing_fields(before_fields, after_fields)
        name = _entity_name(new if new is not None else old)
        entity_changes.append(EntityChange(table=table, key=key, name=name, before=before_fields, after=after_fields))
    return entity_changes


def _differing_fields(before: Fields, after: Fields) -> tuple[Fields, Fields]:
    """Returns the fields that differ, before and after an edit. Of a channel's keys these are all if one differs,
    because each key has its number among all of them.
    """
    names = {name for name in before | after if before.get(name) != after.get(name)}
    if names & {"key", "keys"}:
        names |= {"key", "keys"}
    return (
        {name: value for name, value in before.items() if name in names},
        {name: value for name, value in after.items() if name in names},
    )


def view_of(state: EntryState) -> HistoryView:
    """Returns the entry as the owner sees it. For thousands of changes this takes a second."""
    entry = state.entry
    return HistoryView(
        id=entry.id,
        time_ms=entry.time,
        kind=state.kind,
        source=entry.source,
        text=entry.done,
        undone_by=state.undone_by,
        undoes=entry.undoes,
        differences=differences_of(entry.changes),
    )


def differences_of(changes: Sequence[EntityChange]) -> list[Difference]:
    """Returns the changes as the owner sees them, without secrets."""
    differences = []
    for change in _with_renamed_groups(changes):
        if change.table not in NOUNS:
            continue
        action = "removed" if change.after is None else "changed"
        if change.before is None:
            action = "added"
        try:
            old, new = _to_entity(change.table, change.before), _to_entity(change.table, change.after)
            fields = field_differences(change.table, old, new)
        except msgspec.ValidationError:  # another version of the program made it
            fields = []
        differences.append(Difference(action=action, noun=NOUNS[change.table], name=change.name, fields=fields))
    return differences


def _with_renamed_groups(changes: Sequence[EntityChange]) -> Iterator[EntityChange]:
    """Yields the changes, and the two of a renamed group as one: its key is the name, so it is removed and added."""
    groups = [change for change in changes if change.table == "groups"]
    removed = {change.before.get("id"): change.before for change in groups if change.before and change.after is None}
    added = {change.after.get("id") for change in groups if change.after and change.before is None}
    renamed = (removed.keys() & added) - {None}
    for change in changes:
        id_ = (change.after or change.before or {}).get("id") if change.table == "groups" else None
        if id_ not in renamed:
            yield change
        elif change.after is not None:
            yield msgspec.structs.replace(change, before=removed[id_])


_BLANK: Fields = {
    **dict.fromkeys(("id", "name", "group", "digest", "hint", "model"), ""),
    **dict.fromkeys(("input", "output", "nanos", "time"), -1),
    "dialect": "openai",
}
"""Values for the fields that have no default. No price has a rate of -1, so that those of a free one are shown."""


def _to_entity(table: Table, fields: Fields | None) -> Entity | None:
    """Returns an entity with these fields; missing ones get blank values. Returns None for None."""
    return None if fields is None else msgspec.convert(_BLANK | fields, KINDS[table][0])


def field_differences(table: Table, old: Entity | None, new: Entity | None) -> list[FieldDifference]:
    """Returns the fields that differ, as text. An entity that is added or removed is compared with the defaults."""
    blank = msgspec.convert(_BLANK, KINDS[table][0])
    before, after = _shown_values(old or blank), _shown_values(new or blank)
    differences = []
    for name in after | before:
        if before.get(name) == after.get(name):
            continue
        old_text, new_text = _difference_texts(table, name, before.get(name), after.get(name))
        old_text, new_text = difference_excerpts(
            old_text if old is not None else "", new_text if new is not None else "", 160
        )
        differences.append(FieldDifference(field=_LABELS.get(name, name), before=old_text, after=new_text))
    return differences


def _difference_texts(table: Table, name: str, old: Any, new: Any) -> tuple[str, str]:
    """Returns the texts of two values of a field, exact ones if those that people read are equal."""
    texts = _text(table, name, old), _text(table, name, new)
    if texts[0] != texts[1]:
        return texts
    if name in ("key", "headers", "proxy"):  # their masks are equal
        return HIDDEN, HIDDEN
    return _exact_text(old), _exact_text(new)


_UNSHOWN = frozenset({"id", "name", "model", "created", "time", "updated", "temporary", "digest", "last_check", "keys"})
"""Fields that are not shown: they have a meaning at this home only, name the entity, or are shown with another one."""


def _shown_values(entity: Entity) -> dict[str, Any]:
    """Returns the fields that are shown. Of a channel's models these are the ones that its owner named."""
    values = {name: getattr(entity, name) for name in entity.__struct_fields__ if name not in _UNSHOWN}
    if isinstance(entity, Channel):
        named = (model for model in entity.models if not model.live)
        values["models"] = [(model.name, model.upstream, model.context, model.max_output) for model in named]
        values["key"] = entity.all_keys
        values |= {f"price of {plain(model.name, 80)}": model.price for model in entity.models}
    return values


def _text(table: Table, name: str, value: Any) -> str:
    """Returns the text of a field as details of the entity show it; as JSON if they do not show the field."""
    if (table, name) in _TEXTS:
        return _TEXTS[table, name](value)
    if isinstance(value, Price):
        return _price_text(value)
    field = next((field for field in FIELDS.get(table, ()) if field.name == name), None)
    if field is not None:
        return field.kind.show(value) or NONE_WORD
    return str(value) if value and isinstance(value, str) else _exact_text(value)


def _exact_text(value: object) -> str:
    return NONE_WORD if value is None else msgspec.json.encode(value).decode()


def _headers_text(headers: Mapping[str, str]) -> str:
    """Returns the headers; values that may be secret are hidden."""
    masked = {
        name: HIDDEN if _is_secret(text) and name.lower() not in OPEN_HEADERS else text
        for name, text in headers.items()
    }
    return inline(masked) if masked else NONE_WORD


def _keys_text(keys: Sequence[str]) -> str:
    """Returns ``1 …6789, 2 env:SECOND_KEY``, or the only key, masked."""
    numbered = [f"{number} {mask(key)}" for number, key in enumerate(keys, start=1)]
    return ", ".join(numbered if len(keys) > 1 else map(mask, keys)) or NONE_WORD


def _models_text(models: Sequence[tuple[str, str, object, object]]) -> str:
    return names_text(f"{name}={upstream}" if upstream else name for name, upstream, *_ in models) or NONE_WORD


_TEXTS: Mapping[tuple[Table, str], Callable[[Any], str]] = {
    ("tokens", "hint"): str,
    ("tokens", "enabled"): lambda is_enabled: "yes" if is_enabled else "no",
    ("channels", "enabled"): lambda is_enabled: "yes" if is_enabled else "no",
    ("channels", "key"): _keys_text,
    ("channels", "headers"): _headers_text,
    ("channels", "proxy"): lambda proxy: HIDDEN if _is_secret(proxy) else proxy or NONE_WORD,
    ("channels", "models"): _models_text,
    ("grants", "nanos"): dollars,
}
_LABELS = {"hint": "key", "key": "keys", "nanos": "amount"}
"""The labels of fields that are not shown by their names."""


def to_fields(entity: Entity | None) -> Fields | None:
    """Returns the fields of an entity as the history keeps them."""
    if entity is None:
        return None
    fields: Fields = msgspec.json.decode(msgspec.json.encode(entity))
    return fields


def _is_secret(text: str) -> bool:
    return bool(text) and not text.startswith(REFERENCE)


def _entity_name(entity: Entity | None) -> str:
    if isinstance(entity, Grant):
        return dollars(entity.nanos)
    if isinstance(entity, Price):
        return entity.model
    return getattr(entity, "name", "")


def _price_text(price: Price) -> str:
    """Returns a short form of a price: ``$3.00 / $15.00, cached input $0.30, 2 rules``."""
    parts = [f"{dollars(price.input)} / {dollars(price.output)}"]
    rates = {"cached input": price.cached_input, "cache write": price.cache_write, "a call": price.per_call or None}
    parts += [f"{name} {dollars(nanos)}" for name, nanos in rates.items() if nanos is not None]
    parts += [f"{RATE_WORDS[name]} {dollars(nanos)}" for name, nanos in price.extras.items()]
    counts = {"tier": len(price.tiers), "rule": len(price.rules)}
    parts += [count_text(count, noun) for noun, count in counts.items() if count]
    return ", ".join(parts)
