"""Registry: everything that the owner has configured, as one immutable value, and the changes of it."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from gateway.domain.account import Account, Grant
from gateway.domain.channel import Channel, UpstreamModels
from gateway.domain.group import Group
from gateway.domain.price import Price
from gateway.domain.settings import Settings
from gateway.domain.token import Token
from gateway.domain.units import ChannelId, Millis, Nanos, TokenId


class RetiredKey(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is kept of a key of a token or channel that was replaced, or removed with its owner."""

    digest: str
    """The SHA-256 of the whole key, 64 hex digits."""
    hint: str
    """The part of the key that may be shown."""
    noun: Literal["token", "channel"]
    owner: str
    """The id of the token or channel."""
    name: str
    """Its name at that time."""
    since: Millis
    removed: bool = False


class Registry(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration between two changes. Every change creates a new one."""

    account: Account
    settings: Settings
    tokens: dict[TokenId, Token]
    groups: dict[str, Group]
    channels: dict[ChannelId, Channel]
    prices: dict[str, Price]
    grants: dict[str, Grant]
    lists: dict[ChannelId, UpstreamModels] = {}
    """The models that the channels' upstreams list."""
    retired: dict[str, RetiredKey] = {}
    """Keys that once worked, by their digests."""

    @property
    def granted(self) -> Nanos:
        return Nanos(sum(grant.nanos for grant in self.grants.values()))


Table = Literal["account", "settings", "tokens", "groups", "channels", "prices", "grants", "lists", "retired"]
Entity = Account | Settings | Token | Group | Channel | Price | Grant | UpstreamModels | RetiredKey

KINDS: Mapping[Table, tuple[type[Entity], str]] = {
    "account": (Account, ""),
    "settings": (Settings, ""),
    "tokens": (Token, "id"),
    "groups": (Group, "name"),
    "channels": (Channel, "id"),
    "prices": (Price, "model"),
    "grants": (Grant, "id"),
    "lists": (UpstreamModels, "channel"),
    "retired": (RetiredKey, "digest"),
}
"""The type of the entities in each table, and the field that is their key; empty for a table with only one entity."""

NOUNS: Mapping[str, str] = {
    **{name: name for name in ("account", "settings")},
    **{f"{noun}s": noun for noun in ("token", "group", "channel", "price", "grant")},
}
"""The noun for an entity of each table that only the owner changes."""


class Change(msgspec.Struct, frozen=True):
    """The new value of one entity, or its deletion if ``value`` is None. ``KINDS`` tells what its key is."""

    table: Table
    key: str
    value: Entity | None


def with_changes(registry: Registry, changes: Sequence[Change]) -> Registry:
    """Returns the configuration after changes. Deleting what does not exist changes nothing.

    The list of an upstream is deleted with its channel, and if the channel gets another address but no new list.
    """
    tables: dict[str, Any] = {}
    for change in changes:
        present = getattr(registry, change.table)
        if isinstance(present, msgspec.Struct):
            tables[change.table] = change.value
            continue
        entities = tables.get(change.table)
        if entities is None:
            entities = tables[change.table] = dict(present)
        if change.value is None:
            entities.pop(change.key, None)
        else:
            entities[change.key] = change.value
    after = msgspec.structs.replace(registry, **tables)
    fetched = {change.key for change in changes if change.table == "lists"}
    lists = {
        key: models for key, models in after.lists.items() if key in fetched or _has_same_address(key, registry, after)
    }
    return after if len(lists) == len(after.lists) else msgspec.structs.replace(after, lists=lists)


def _has_same_address(key: ChannelId, before: Registry, after: Registry) -> bool:
    old, new = before.channels.get(key), after.channels.get(key)
    return new is not None and (old is None or (old.dialect, old.base_url) == (new.dialect, new.base_url))
