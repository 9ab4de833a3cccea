"""Change: one edit of the configuration, with what was there before, so that it can be undone."""

from typing import Literal

import msgspec

from gateway.domain.account import Account, Grant
from gateway.domain.channel import Channel
from gateway.domain.group import Group
from gateway.domain.listed import Listed
from gateway.domain.price import Price
from gateway.domain.settings import Settings
from gateway.domain.token import Token

Table = Literal["account", "settings", "tokens", "groups", "channels", "prices", "grants", "lists"]
Entity = Account | Settings | Token | Group | Channel | Price | Grant | Listed


class Change(msgspec.Struct, frozen=True):
    """Put (``value``) or delete (``value`` None) the entity ``key`` of a table.

    Keys: tokens, channels and grants by id, lists by the channel's id, groups by name, prices by model, account and
    settings by ``""``.
    """

    table: Table
    key: str
    value: Entity | None
