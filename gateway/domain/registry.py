"""Registry: everything the owner has configured, as one immutable value."""

import msgspec

from gateway.domain.account import Account, Grant
from gateway.domain.channel import Channel
from gateway.domain.group import Group
from gateway.domain.listed import Listed
from gateway.domain.price import Price
from gateway.domain.settings import Settings
from gateway.domain.token import Token
from gateway.domain.units import ChannelId, Nanos, TokenId


class Registry(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration between two changes of it. Every change makes a new one."""

    account: Account
    settings: Settings
    tokens: dict[TokenId, Token]
    groups: dict[str, Group]
    channels: dict[ChannelId, Channel]
    prices: dict[str, Price]
    grants: dict[str, Grant]
    lists: dict[ChannelId, Listed] = {}
    """What the channels' upstreams said they have."""

    @property
    def granted(self) -> Nanos:
        """Sum of all grants."""
        return Nanos(sum(g.nanos for g in self.grants.values()))
