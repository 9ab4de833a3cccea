"""Undo: the change that undoes an entry of the history.

An entry is undone field by field. Later changes of other fields stay; before a later change of the same field is
overwritten, the owner has to confirm. Fields that the gateway maintains, such as the models selected by a pattern, are
overwritten without a question.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import msgspec

from gateway.core.change_history import entity_of, to_fields
from gateway.domain.errors import Conflict
from gateway.domain.history import EntityChange, Fields, HistoryEntry, entry_states
from gateway.domain.registry import KINDS, NOUNS, Change, Entity, Registry, Table, with_changes
from gateway.domain.text import plain


class UndoPlan(msgspec.Struct, frozen=True):
    """The change that undoes an entry."""

    changes: list[Change]
    registry: Registry
    """The configuration after it."""
    reasons: list[str]
    """Why to ask the owner first: what was changed since and would be overwritten."""


def undo_plan(entry: HistoryEntry, entries: Sequence[HistoryEntry], registry: Registry) -> UndoPlan:
    """Returns how to undo an entry. Raises Conflict if it cannot be undone, naming the newer change to undo first."""
    states = entry_states(entries)
    if undone_by := states[entry.id].undone_by:
        message = f"change {entry.id} ({plain(entry.done)}) is already undone, by change {undone_by}"
        raise Conflict(message, code="already_undone")
    in_force = (other for other in entries if not states[other.id].undone_by and other.source.via != "gateway")
    newer = [other for other in in_force if other.id > entry.id >= other.undoes]
    changes: list[Change] = []
    reasons: list[str] = []
    for change in reversed(entry.changes):
        if change.table not in NOUNS:
            continue
        current = entity_of(registry, change.table, change.key)
        reasons += _overwritten_reasons(change, current, newer)
        former = _entity_before(change, current)
        if current != former:
            changes.append(Change(change.table, change.key, former))
    after = with_changes(registry, changes)
    known_problems = {problem.text for problem in _problems(registry)}
    for problem in _problems(after):
        if problem.text not in known_problems:
            raise _conflict(problem.text, _newest(newer, problem.table, problem.key, [problem.field]))
    return UndoPlan(changes, after, reasons)


def _entity_before(change: EntityChange, current: Entity | None) -> Entity | None:
    """Returns the entity as it was before the change. Fields that the change did not touch stay as they are now."""
    if change.before is None:
        return None
    after = change.after or {}
    now = {} if change.after is None else to_fields(current) or {}
    fields = {name: value for name, value in now.items() if name not in after} | change.before
    if change.table == "channels" and "models" in after:
        fields["models"] = _models_before(change.before.get("models", []), after["models"], now.get("models", []))
    try:
        return msgspec.convert(fields, KINDS[change.table][0])
    except msgspec.ValidationError as exc:
        raise Conflict(f"another version of the program made this change; it cannot be undone ({exc})") from exc


def _overwritten_reasons(change: EntityChange, current: Entity | None, newer: Sequence[HistoryEntry]) -> Iterator[str]:
    """Yields a sentence about the later change that would be overwritten. Raises Conflict if the entity is gone."""
    subject = NOUNS[change.table]
    if change.table not in ("account", "settings"):
        subject = f"{subject} '{plain(change.name)}'"
    entry = _newest(newer, change.table, change.key, (change.before or {}).keys() | (change.after or {}).keys())
    if current is None and change.after is not None:
        raise _conflict(f"{subject} does not exist any more", entry)
    if current is not None and entry is not None:
        state = "exists again" if change.after is None else "was changed since"
        by = f"by change {entry.id} ({plain(entry.done)})"
        yield f"{subject[:1].upper()}{subject[1:]} {state}, {by}; that is overwritten."


def _models_before(before: list[Fields], after: list[Fields], now: list[Fields]) -> list[Fields]:
    """Returns a channel's models before a change, apart from what its upstream has delisted and listed since then."""
    delisted = _model_names(after) - _model_names(now)
    former = [model for model in before if not (model.get("live") and model["name"] in delisted)]
    former_names = _model_names(before) | _model_names(after)
    listed = [model for model in now if model.get("live") and model["name"] not in former_names]
    return former + listed


def _model_names(models: list[Fields]) -> set[str]:
    return {model["name"] for model in models}


def _conflict(problem: str, newer: HistoryEntry | None) -> Conflict:
    """Returns the error that a problem prevents the undo. ``newer`` is the change to undo first, if one is known."""
    if newer is None:
        return Conflict(f"{problem}; change that first", code="newer_change")
    by = f"since change {newer.id} ({plain(newer.done)}); undo that one first"
    return Conflict(f"{problem}, {by}", code="newer_change", details={"newer": newer.id})


def _newest(newer: Sequence[HistoryEntry], table: Table, key: str, fields: Collection[str]) -> HistoryEntry | None:
    """Returns the newest entry that changed one of an entity's fields, or created or deleted the entity."""

    def changes_field(change: EntityChange) -> bool:
        if (change.table, change.key) != (table, key):
            return False
        if change.before is None or change.after is None:
            return True
        return any(name in change.before or name in change.after for name in fields)

    return next((entry for entry in reversed(newer) if any(map(changes_field, entry.changes))), None)


class _Problem(NamedTuple):
    """A contradiction in a configuration, and the field at fault."""

    text: str
    table: Table
    key: str
    field: str


def _problems(registry: Registry) -> Iterator[_Problem]:
    """Yields references to entities that do not exist, and names and ids that two entities have."""
    for token in registry.tokens.values():
        if token.group not in registry.groups:
            text = f"token '{plain(token.name)}' is in group '{plain(token.group)}'"
            yield _Problem(text, "tokens", token.id, "group")
    for channel in registry.channels.values():
        for group in channel.groups:
            if group not in registry.groups:
                text = f"channel '{plain(channel.name)}' serves group '{plain(group)}'"
                yield _Problem(text, "channels", channel.id, "groups")
    used = registry.settings.ollama_token
    if used and used not in {token.name for token in registry.tokens.values()}:
        yield _Problem(f"token '{plain(used)}' is the one that Ollama's port uses", "settings", "", "ollama_token")
    yield from _duplicates("tokens", [(token.name, token.id) for token in registry.tokens.values()])
    yield from _duplicates("channels", [(channel.name, channel.id) for channel in registry.channels.values()])
    yield from _duplicates("groups", [(group.id, group.name) for group in registry.groups.values()])


def _duplicates(table: Table, names: Sequence[tuple[str, str]]) -> Iterator[_Problem]:
    """Yields names or ids that are used twice. A restored entity comes after the one that has its name now."""
    ids: dict[str, str] = {}
    for name, key in names:
        if name in ids:
            yield _Problem(f"there is another {NOUNS[table]} '{plain(name)}'", table, ids[name], "name")
        ids[name] = key
