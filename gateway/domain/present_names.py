"""Present names: what tokens, channels and groups are called now, so that a filter finds calls of their earlier names.

A call keeps the names of its time. Who looks for the calls of a token means all of them, whenever it was renamed. A
token or channel that was removed has the name that it had last.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from gateway.domain.group_names import NameSpan
from gateway.domain.history import HistoryEntry
from gateway.domain.query import (
    INFINITE,
    AllOf,
    AnyOf,
    Condition,
    Negation,
    NumberCondition,
    OneOf,
    PatternCondition,
    Query,
)
from gateway.domain.registry import Registry


class PresentNames(msgspec.Struct, frozen=True, kw_only=True):
    """The names now, and the last ones of what was removed."""

    tokens: Mapping[str, str] = {}
    """By id."""
    channels: Mapping[str, str] = {}
    """By id."""
    groups: Mapping[str, Sequence[NameSpan]] = {}
    """Which names each group had when, as far as it was renamed or has the name of one that was."""

    def widened(self, query: Query) -> Query:
        """The query in which a name also means the calls that its token, channel or group had under other names."""
        conditions = tuple(map(self._widened, query.conditions))
        return query if conditions == query.conditions else msgspec.structs.replace(query, conditions=conditions)

    def calls_of(self, group: str) -> Condition:
        """The condition for the calls of exactly this group."""
        return AnyOf(tuple(map(_in_span, self.groups.get(group, ())))) if self.groups.get(group) else _by_name(group)

    def _widened(self, condition: Condition) -> Condition:
        if isinstance(condition, Negation):
            return Negation(self._widened(condition.condition))
        others = tuple(self._others(condition)) if isinstance(condition, PatternCondition) else ()
        return AnyOf((condition, *others)) if others else condition

    def _others(self, condition: PatternCondition) -> Iterator[Condition]:
        """What else finds calls of those whose names match."""
        if condition.field == "group":
            for name, spans in self.groups.items():
                if condition.matches(name):
                    yield from (_in_span(span) for span in spans if not condition.matches(span.name))
        for field, names in (("token", self.tokens), ("channel", self.channels)):
            if condition.field == field and condition.pattern.strip("*"):
                ids = frozenset(key for key, name in names.items() if condition.matches(name))
                yield from [OneOf(f"{field}_id", ids)] if ids else []


def removed_names(entries: Iterable[HistoryEntry], registry: Registry) -> dict[str, str]:
    """The last names of removed tokens and channels by id, from the changes, oldest first."""
    there = registry.tokens.keys() | registry.channels.keys()
    names = {
        change.key: change.name
        for entry in entries
        for change in entry.changes
        if change.table in ("tokens", "channels") and change.after is None
    }
    return {key: name for key, name in names.items() if key not in there}


def _by_name(group: str) -> OneOf:
    return OneOf("group", frozenset((group,)))


def _in_span(span: NameSpan) -> Condition:
    until = INFINITE if span.until is None else span.until
    if not span.since and span.until is None:
        return _by_name(span.name)
    return AllOf((_by_name(span.name), NumberCondition("time_ms", span.since, until - 1)))
