"""Sections: what of the owner's configuration stands in a file, and under which names."""

from collections.abc import Collection, Mapping
from typing import Literal

import msgspec

from gateway.domain.account import Account
from gateway.domain.channel import Channel, Served
from gateway.domain.group import Group
from gateway.domain.price import Price
from gateway.domain.settings import Settings
from gateway.domain.token import Token

FORMAT = 1
"""Of the file; a program refuses one it does not know."""

Name = Literal["settings", "account", "groups", "channels", "tokens", "prices"]


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """One table of the configuration."""

    name: Name
    noun: str
    kind: type[msgspec.Struct]
    title: str = ""
    """The field that names an entity, its heading in the file; empty: there is one entity."""
    omit: tuple[str, ...] = ()
    """Fields that are this home's own, besides the title: identities, digests, dates, results."""


SECTIONS: tuple[Section, ...] = (
    Section(name="settings", noun="settings", kind=Settings),
    Section(name="account", noun="account", kind=Account, omit=("created",)),
    Section(name="groups", noun="group", kind=Group, title="name", omit=("created",)),
    Section(name="channels", noun="channel", kind=Channel, title="name", omit=("id", "created", "last_check")),
    Section(name="tokens", noun="token", kind=Token, title="name", omit=("id", "digest", "hint", "created")),
    Section(name="prices", noun="price", kind=Price, title="model", omit=("updated",)),
)
"""In the order of the file. What is granted and spent, and what upstreams list, is no configuration: it stays here."""

INNER: Mapping[type, Collection[str]] = {Served: ("created", "told", "live")}
"""What is this home's own of the structs inside."""
