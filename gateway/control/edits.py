"""Edits: the owner's changes of the configuration. Each is made atomically, added to the history, and can be undone."""

import asyncio
from collections.abc import Sequence
from copy import copy
from typing import Any, Self

import msgspec

from gateway.core import change_history
from gateway.core.engine import Engine
from gateway.core.undo import UndoPlan
from gateway.domain.channel import Channel
from gateway.domain.errors import Conflict, NotFound
from gateway.domain.history import (
    NOTHING_CHANGED,
    ChangeSource,
    EntityChange,
    EntryState,
    HistoryEntry,
    HistoryKind,
    Question,
    UndoView,
    entry_states,
)
from gateway.domain.key_owners import revivals
from gateway.domain.registry import Change, Registry, with_changes
from gateway.domain.settings import ExpiringRecords
from gateway.domain.units import DAY_MS, Millis
from gateway.store.calls import expiring_records, has_deleted

REVIVES_KEY = "revives_key"
"""The answer of the question whether a key or token may work again."""


class EntityEdit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An edit of one token, group, channel or price, named by its id or name."""

    ref: str
    patch: dict[str, Any] | None = None
    """The fields to change; None removes the entity."""
    move: str = ""
    """Where the users of a removed group move to."""
    channel: str = ""
    """The channel whose price is set or removed; empty for the price at all channels."""


class ConfigEdits:
    """Changes the configuration for one source, and adds the changes to the history."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.source = ChangeSource()
        self.accepted = ""
        """The answer of the question that the owner has confirmed; empty if none was asked."""
        self.planned: Registry | None = None
        """The configuration with the changes that are planned so far; None unless a batch is being planned."""

    def for_source(self, source: ChangeSource, accepted: str = "") -> Self:
        """Returns a copy for the changes of one source, such as a request."""
        edits = copy(self)
        edits.source, edits.accepted = source, accepted
        return edits

    def require_confirmed(self, text: str, reasons: Sequence[str], verb: str, answer: str) -> None:
        """Raise Conflict with this ``Question`` if there are reasons to ask it and the owner has not confirmed it."""
        if reasons and self.accepted != answer:
            details = msgspec.to_builtins(Question(text=text, reasons=list(reasons), verb=verb, answer=answer))
            raise Conflict(" ".join([text, *reasons]), code="needs_confirmation", details=details)

    def with_planned(self, changes: Sequence[Change]) -> Self:
        """Returns a copy that sees the changes as if they had been made, to plan others. Nothing is committed."""
        edits = copy(self)
        edits.planned = with_changes(self.registry, changes)
        return edits

    @property
    def registry(self) -> Registry:
        """Returns the planned configuration if a batch is being planned, else the current one."""
        return self.planned or self.engine.catalog.registry

    @property
    def now(self) -> Millis:
        """Returns the time of the wall clock."""
        return self.engine.now()

    def expiring_records(self, keep_days: int) -> ExpiringRecords:
        """Returns the records that would be deleted if they were kept for this many days."""
        if keep_days >= self.registry.settings.keep_days:
            return ExpiringRecords()
        return expiring_records(self.engine.store.calls, self.now - keep_days * DAY_MS)

    @property
    def history(self) -> list[HistoryEntry]:
        """Returns all entries of the history, oldest first."""
        return list(self.engine.store.history.entries)

    async def commit(self, done: str, undone: str, *changes: Change, undoes: int = 0) -> dict[str, str]:
        """Make the changes, all or none, and add them to the history.

        ``done`` says what was changed, ``undone`` what is true once that is undone; ``undoes`` is the id of the entry
        that the changes undo, or 0. Raises Unavailable if the changes cannot be written, and Conflict
        ``needs_confirmation`` if a key or token would work again and the owner has not accepted that. Many changes are
        compared in a thread, so that calls can proceed; raises Conflict ``changed_meanwhile`` if the configuration
        changes in that time.

        What ``tollkeeper run`` does with the token of its program is not added to the history. Changes that make no
        difference are not written, so every entry has something to undo.
        """
        if self.source.runs_program:
            self.engine.change(changes)
            return {"done": done}
        before = self.registry
        after = with_changes(before, changes)
        if not undoes:  # before an undo, the owner has been asked
            reasons = list(revivals(changes, before, after, self.now))
            self.require_confirmed("Let it work again?", reasons, "Let it work", REVIVES_KEY)
        entity_changes = await _entity_changes(changes, before, after)
        if self.registry is not before:
            raise edit_conflict()
        if not (entity_changes or undoes):
            return {"done": NOTHING_CHANGED}
        history = self.engine.store.history
        entry = HistoryEntry(
            id=history.next_id,
            time=self.now,
            source=self.source,
            done=done,
            undone=undone,
            changes=entity_changes,
            undoes=undoes,
        )
        try:
            history.append(entry)
            self.engine.change(changes, entry.id)
        except BaseException:
            history.discard(entry.id)
            raise
        return {"done": done}

    def find_entry(self, number: int = 0, *, redo: bool = False) -> EntryState:
        """Returns the entry with this number; for 0, the next one to undo or redo. Raises NotFound or Conflict."""
        states = entry_states(self.history)
        if number:
            if number not in states:
                message = f"no change {number} in the history; 'tollkeeper history list' lists the changes"
                raise NotFound(message, param="id")
            return states[number]
        state = _entry_to_redo(states) if redo else _entry_to_undo(states)
        if state is not None:
            return state
        if redo:
            raise Conflict("there is nothing to redo", code="nothing_to_redo")
        raise Conflict("there is nothing to undo", code="nothing_to_undo")

    async def undo(self, entry: HistoryEntry, plan: UndoPlan) -> UndoView:
        """Undo an entry, as a change of its own."""
        entries, notes = self.history, []
        state = entry_states(entries)[entry.id]
        kind: HistoryKind = "redo" if state.kind == "undo" else "undo"
        root = state.root
        keep_days = plan.registry.settings.keep_days
        keeps_longer = keep_days > self.registry.settings.keep_days
        if keeps_longer and has_deleted(self.engine.store.calls, self.now - keep_days * DAY_MS):
            notes.append("call records that were deleted in the meantime do not come back")
        done = f"{'redid' if kind == 'redo' else 'undid'} change {root.id}: {root.done}"
        undone = root.undone if kind == "redo" else f"{root.done} again"
        await self.commit(done, undone, *plan.changes, undoes=entry.id)
        entries.append(self.history[-1])
        return UndoView(
            id=entries[-1].id,
            kind=kind,
            text=root.done if kind == "redo" else root.undone,
            target=await asyncio.to_thread(change_history.view_of, entry_states(entries)[root.id]),
            notes=notes,
        )


def _entry_to_undo(states: dict[int, EntryState]) -> EntryState | None:
    """Returns the newest change that is in force, or the one that was redone last; None if nothing can be undone."""
    for state in reversed(states.values()):
        root = states[state.root.id]
        if not (state.undone_by or state.kind == "undo" or root.undone_by or root.entry.undoes):
            return root
    return None


def _entry_to_redo(states: dict[int, EntryState]) -> EntryState | None:
    """Returns the newest undo that was not redone; None if nothing can be redone, or a change was made since."""
    in_force = (state for state in reversed(states.values()) if not state.undone_by and state.kind != "redo")
    newest = next(in_force, None)
    return newest if newest is not None and newest.kind == "undo" else None


async def _entity_changes(changes: Sequence[Change], before: Registry, after: Registry) -> list[EntityChange]:
    """Returns the changes for the history. Many are compared in a thread."""
    models = sum(len(change.value.models) for change in changes if isinstance(change.value, Channel))
    if len(changes) + models < 200:  # so few take milliseconds
        return change_history.changes_of(changes, before, after)
    return await asyncio.to_thread(change_history.changes_of, changes, before, after)


def edit_conflict() -> Conflict:
    """Returns the error for changes that were made for an earlier configuration."""
    return Conflict("the configuration has changed in the meantime; try again", code="changed_meanwhile")
