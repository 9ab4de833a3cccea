"""Present names: what tokens, channels and groups are called now, so that a filter finds calls under their former
names.

A call keeps the names of its time. A search for the calls of a token means all of them, whenever it was renamed. A
removed token or channel has its last name.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from gateway.domain.events import EntityChanged, Snapshot
from gateway.domain.group_names import NameShare, NameSpan, name_shares
from gateway.domain.history import HistoryEntry
from gateway.domain.key_owners import owner_ids
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
    TextCondition,
)
from gateway.domain.registry import Registry


class PresentNames(msgspec.Struct, frozen=True, kw_only=True):
    """The present names, and the last ones of what was removed."""

    tokens: Mapping[str, str] = {}
    """By id."""
    channels: Mapping[str, str] = {}
    """By id."""
    keys: Mapping[str, str] = {}
    """Ids of tokens and channels by what stands for their keys, also former ones; see ``key_owners.owner_ids``."""
    groups: Mapping[str, Sequence[NameSpan]] = {}
    """Which names each group had when, for groups that a rename concerns."""

    def widened(self, query: Query) -> Query:
        """Returns the query in which a name also means the calls of its token, channel or group under other names."""
        conditions = tuple(map(self._widened, query.conditions))
        return query if conditions == query.conditions else msgspec.structs.replace(query, conditions=conditions)

    def without_new(self, before: "PresentNames") -> "PresentNames":
        """Returns only the names of tokens and channels that existed before."""
        tokens = {key: name for key, name in self.tokens.items() if key in before.tokens}
        channels = {key: name for key, name in self.channels.items() if key in before.channels}
        return PresentNames(tokens=tokens, channels=channels, groups=self.groups)

    def calls_of(self, group: str) -> Condition:
        """Returns the condition for the calls of exactly this group."""
        return AnyOf(tuple(self._shares_of({group}))) if self.groups.get(group) else _by_name(group)

    def _shares_of(self, groups: Collection[str]) -> Iterator[Condition]:
        for name, shares in name_shares(self.groups).items():
            yield from (_in_share(name, share) for share in shares if share.group in groups)

    def _widened(self, condition: Condition) -> Condition:
        if isinstance(condition, Negation):
            return Negation(self._widened(condition.condition))
        if isinstance(condition, AnyOf):
            return AnyOf(tuple(map(self._widened, condition.conditions)))
        if isinstance(condition, TextCondition) and (owner := self.keys.get(condition.text)):
            field = "channel_id" if owner.startswith("ch_") else "token_id"
            shown = TextCondition(condition.text.partition("#")[0])
            return AnyOf((shown, OneOf(field, frozenset([owner]))))
        others = tuple(self._others(condition)) if isinstance(condition, PatternCondition) else ()
        return AnyOf((condition, *others)) if others else condition

    def _others(self, condition: PatternCondition) -> Iterator[Condition]:
        """Returns what else finds calls of those whose names match."""
        if condition.field == "group":
            renamed = [name for name, spans in self.groups.items() if spans]
            yield from self._shares_of(set(filter(condition.matches, renamed)))
        for field, names in (("token", self.tokens), ("channel", self.channels)):
            if condition.field == field and condition.pattern.strip("*"):
                ids = frozenset(key for key, name in names.items() if condition.matches(name))
                owner = self.keys.get(condition.pattern, "")
                ids |= {owner} if owner in names else set()
                yield from [OneOf(f"{field}_id", ids)] if ids else []


def present_names_of(event: Snapshot | EntityChanged) -> PresentNames:
    """Returns the names that a server sent to its watchers."""
    return PresentNames(
        tokens=_of_kind("tok_", event.removed_names) | {token.id: token.name for token in event.tokens},
        channels=_of_kind("ch_", event.removed_names) | {channel.id: channel.name for channel in event.channels},
        keys=owner_ids(owner for token in event.tokens for owner in token.keys),
        groups={group.name: group.name_spans for group in event.groups},
    )


def names_in(registry: Registry, removed: Mapping[str, str], groups: Mapping[str, Sequence[NameSpan]]) -> PresentNames:
    """Returns the names in a configuration."""
    return PresentNames(
        tokens=_of_kind("tok_", removed) | {token.id: token.name for token in registry.tokens.values()},
        channels=_of_kind("ch_", removed) | {channel.id: channel.name for channel in registry.channels.values()},
        groups=groups,
    )


def removed_names(entries: Iterable[HistoryEntry], registry: Registry) -> dict[str, str]:
    """Returns the last names of removed tokens and channels by id, from the changes, oldest first."""
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


def _of_kind(prefix: str, names: Mapping[str, str]) -> dict[str, str]:
    return {key: name for key, name in names.items() if key.startswith(prefix)}


def _in_share(name: str, share: NameShare) -> Condition:
    if not share.since and share.until >= INFINITE:
        return _by_name(name)
    return AllOf((_by_name(name), NumberCondition("time_ms", share.since, share.until - 1)))
