"""History: the owner's changes, as they are stored and as they are shown.

An entry has each entity before and after the change, so that it can be undone later. An undo is an entry too, which
names the one that it undoes; a redo undoes an undo. Entries are never edited.
"""

from collections.abc import Sequence
from itertools import takewhile
from typing import Any, Literal, NamedTuple
from urllib.parse import parse_qs, urlencode

import msgspec

from gateway.domain.config_views import Difference
from gateway.domain.human_values import ago
from gateway.domain.registry import Table
from gateway.domain.text import plain
from gateway.domain.units import Millis

SOURCE_HEADER = "X-Tollkeeper-Source"
"""A front end says in this header who makes a change."""

ACCEPT_HEADER = "X-Tollkeeper-Accept"
"""A front end sends in this header the answer of the question that the owner has confirmed."""

NOTHING_CHANGED = "nothing was changed"
"""The result of an edit that changed nothing. It is not in the history."""


def difference_excerpts(before: str, after: str, limit: int) -> tuple[str, str]:
    """Returns excerpts of two values from where they begin to differ, of at most ``limit`` characters."""
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False)))
    start = common - limit // 4
    if start > 0 and max(len(before), len(after)) > limit:
        before, after = (f"…{value[start:].lstrip()}" for value in (before, after))
    return plain(before, limit), plain(after, limit)


class ChangeSource(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who made a change, and where."""

    via: Literal["console", "command", "api", "gateway"] = "api"
    session: str = ""
    """The id of one run of a console."""
    place: str = ""
    """The name of the terminal."""
    command: str = ""
    """The command without its arguments."""

    @property
    def runs_program(self) -> bool:
        """Returns whether ``tollkeeper run`` made the change, to the token of a program, which ends with it."""
        return self.via == "command" and self.command == "run"

    def header(self) -> str:
        return urlencode(msgspec.structs.asdict(self), errors="replace")

    def differs_from(self, other: "ChangeSource") -> bool:
        """Returns whether this is another front end. All commands are one front end; each console is its own."""
        return (self.via, self.session) != (other.via, other.session)

    def text(self, reader: "ChangeSource | None" = None) -> str:
        """Returns the source as a text for the front end ``reader``."""
        place = f" on {self.place}" if self.place else ""
        if self.via == "command":
            return f"the command line ('{self.command}'{place})" if self.command else f"the command line{place}"
        if self.via == "api":
            return "a program that uses the control API"
        if self.via == "gateway":
            return "the gateway itself"
        if reader is None or reader.via != "console":
            return f"the console{place}"
        return "this console" if reader.session == self.session else f"another console{place}"

    def brief(self, reader: "ChangeSource | None" = None) -> str:
        """Returns the source in a few words."""
        if self.via == "command":
            return f"command: {self.command}" if self.command else "command line"
        if self.via in ("api", "gateway"):
            return "control API" if self.via == "api" else "gateway"
        if reader is not None and not self.differs_from(reader):
            return "this console"
        return f"console {self.place}".rstrip()


def source_of(header: str) -> ChangeSource:
    """Returns the source in a header. Unknown parts are ignored."""
    parts = {name: plain(values[0], 60) for name, values in parse_qs(header).items()}
    if parts.get("via") not in ("console", "command"):
        parts["via"] = "api"
    return msgspec.convert(parts, ChangeSource)


Fields = dict[str, Any]
"""The stored fields of an entity. Those that are missing have their defaults."""


class EntityChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A change of one entity. ``before`` is None if it was added, ``after`` if removed; an edit has what differs."""

    table: Table
    key: str
    name: str
    before: Fields | None = None
    after: Fields | None = None


class HistoryEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One change of the configuration, with one or more entities."""

    id: int
    time: Millis
    source: ChangeSource
    done: str
    """What was done: ``added token 'ci'``."""
    undone: str
    """The result of undoing it: ``token 'ci' is removed``."""
    changes: list[EntityChange]
    undoes: int = 0
    """The id of the entry that this one undoes; 0 if it undoes none."""


HistoryKind = Literal["change", "undo", "redo"]


class HistoryView(msgspec.Struct, frozen=True, kw_only=True):
    """An entry as the owner sees it."""

    id: int
    time_ms: Millis
    kind: HistoryKind
    source: ChangeSource
    text: str
    undone_by: int
    """The id of the entry that undid this one; 0 if none did."""
    undoes: int
    """The id of the entry that this one undid; 0 if it undid none."""
    differences: list[Difference]

    @property
    def edit_text(self) -> str:
        """Returns what an edit changed, with the values of a single field; empty if no entity was edited."""
        edits = [difference for difference in self.differences if difference.action == "changed"]
        if not edits:
            return ""
        others = [difference for difference in self.differences if difference.action != "changed"]
        other_texts = [f"{other.action} {other.noun} {other.name}" for other in others]
        fields = edits[0].fields if len(edits) == 1 else []
        if len(fields) == 1 and fields[0].before + fields[0].after and self.kind == "change":
            before, after = fields[0].before or "default", fields[0].after or "default"
            before, after = difference_excerpts(before, after, 24)
            return "; ".join([f"{fields[0].field}: {before} -> {after}", *other_texts])
        names = dict.fromkeys(field.field for difference in edits for field in difference.fields)
        return "; ".join([", ".join(names), *other_texts])


class UndoView(msgspec.Struct, frozen=True, kw_only=True):
    """What an undo did: its own entry in the history, and the entry that it undid."""

    id: int
    """The id of the new entry, which can be undone as well."""
    kind: HistoryKind
    text: str
    target: HistoryView
    notes: list[str] = []
    """What the owner still has to do."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What the owner must confirm before a change is made: the details of the error ``needs_confirmation``."""

    text: str
    reasons: list[str]
    """Why the owner is asked."""
    verb: str
    """What the change does, in a word or two."""
    answer: str
    """What a front end sends if the owner confirms."""


class EntryState(NamedTuple):
    """An entry and how it relates to the others."""

    entry: HistoryEntry
    kind: HistoryKind
    root: HistoryEntry
    """The original change of an undo or redo; if it is no longer kept, the oldest entry that leads to it."""
    undone_by: int
    """The id of the entry that undid this one; 0 if it is in force."""


def entry_states(entries: Sequence[HistoryEntry]) -> dict[int, EntryState]:
    """Returns the states of entries by their ids, in the same order. ``entries`` are oldest first."""
    undone: dict[int, int] = {}
    for entry in reversed(entries):
        if entry.undoes and entry.id not in undone:
            undone.setdefault(entry.undoes, entry.id)
    states: dict[int, EntryState] = {}
    for entry in entries:
        kind: HistoryKind = "undo" if entry.undoes else "change"
        root, target = entry, states.get(entry.undoes)
        if target is not None:
            kind, root = "redo" if target.kind == "undo" else "undo", target.root
        states[entry.id] = EntryState(entry, kind, root, undone.get(entry.id, 0))
    return states


def undo_text(done: UndoView, now: int, reader: ChangeSource | None = None) -> str:
    """Returns what was undone, when it had been done and by whom."""
    target = done.target
    target_text = "" if done.kind == "redo" else f"{plain(target.text)}, "
    note = f"change {target.id}: {target_text}{ago(now - target.time_ms)}, by {plain(target.source.text(reader), 160)}"
    return f"{'Redone' if done.kind == 'redo' else 'Undone'}: {plain(done.text)} ({note})"
