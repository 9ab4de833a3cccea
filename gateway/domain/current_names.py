"""Current names: what tokens, channels and groups are called now, so that filters also find calls under former names.

The record of a call has the names of its time, but a search for the calls of a token means all of them. A removed token
or channel has its last name.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from gateway.domain.events import Tables
from gateway.domain.history import HistoryEntry
from gateway.domain.key_owners import owner_ids, owners_of
from gateway.domain.query import AnyOf, Condition, Negation, OneOf, PatternCondition, Query, TextCondition
from gateway.domain.registry import Registry


class CurrentNames(msgspec.Struct, frozen=True, kw_only=True):
    """The current names by id, and the last names of what was removed."""

    tokens: Mapping[str, str] = {}
    channels: Mapping[str, str] = {}
    keys: Mapping[str, str] = {}
    """The ids of tokens and channels by the handles of their current and former keys; see ``key_owners.owner_ids``."""
    groups: Mapping[str, str] = {}

    def widen(self, query: Query) -> Query:
        """Returns the query with names that also match calls under the other names of a token, channel or group."""
        conditions = tuple(map(self._widen, query.conditions))
        return query if conditions == query.conditions else msgspec.structs.replace(query, conditions=conditions)

    def _widen(self, condition: Condition) -> Condition:
        if isinstance(condition, Negation):
            return Negation(self._widen(condition.condition))
        if isinstance(condition, AnyOf):
            return AnyOf(tuple(map(self._widen, condition.conditions)))
        if isinstance(condition, TextCondition) and (owner := self.keys.get(condition.text)):
            field = "channel_id" if owner.startswith("ch_") else "token_id"
            shown = TextCondition(condition.text.partition("#")[0])
            return AnyOf((shown, OneOf(field, frozenset([owner]))))
        others = tuple(self._renamed_conditions(condition)) if isinstance(condition, PatternCondition) else ()
        return AnyOf((condition, *others)) if others else condition

    def _renamed_conditions(self, condition: PatternCondition) -> Iterator[Condition]:
        """Yields conditions that match all calls of the tokens, channels and groups whose current names match."""
        for field, names in (("token", self.tokens), ("channel", self.channels), ("group", self.groups)):
            if condition.field == field and condition.pattern.strip("*"):
                ids = frozenset(key for key, name in names.items() if condition.matches_text(name))
                owner = self.keys.get(condition.pattern, "")
                ids |= {owner} if owner in names else set()
                yield from [OneOf(f"{field}_id", ids)] if ids else []


def current_names_of(event: Tables) -> CurrentNames:
    """Returns the names in an event for watchers."""
    return CurrentNames(
        tokens=_with_prefix("tok_", event.removed_names) | {token.id: token.name for token in event.tokens},
        channels=_with_prefix("ch_", event.removed_names) | {channel.id: channel.name for channel in event.channels},
        keys=owner_ids(owner for token in event.tokens for owner in token.keys),
        groups={group.id: group.name for group in event.groups},
    )


def names_in(registry: Registry, removed: Mapping[str, str]) -> CurrentNames:
    """Returns the present names by id, and the last names of what was ``removed``."""
    return CurrentNames(
        tokens=_with_prefix("tok_", removed) | {token.id: token.name for token in registry.tokens.values()},
        channels=_with_prefix("ch_", removed) | {channel.id: channel.name for channel in registry.channels.values()},
        groups={group.id: group.name for group in registry.groups.values()},
        keys=owner_ids(owners_of(registry)),
    )


def removed_names(entries: Iterable[HistoryEntry], registry: Registry) -> dict[str, str]:
    """Returns the last names of removed tokens and channels by id. ``entries`` are oldest first."""
    existing = registry.tokens.keys() | registry.channels.keys()
    names = {
        change.key: change.name
        for entry in entries
        for change in entry.changes
        if change.table in ("tokens", "channels") and change.after is None
    }
    return {key: name for key, name in names.items() if key not in existing}


def _with_prefix(prefix: str, names: Mapping[str, str]) -> dict[str, str]:
    return {key: name for key, name in names.items() if key.startswith(prefix)}
