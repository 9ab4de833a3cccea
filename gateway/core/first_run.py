"""First run: what an empty home begins with, so that it answers a call at once, without a key or a network. Pure.

It begins with an account of ten dollars, the group ``default``, and the channel ``demo`` of dialect ``mock`` with its
prices. When the server starts without any token, it makes a first one.
"""

import msgspec

from gateway.domain.account import Account, Grant
from gateway.domain.channel import Channel, Dialect, ServedModel
from gateway.domain.group import Group
from gateway.domain.key_owners import digest, hint
from gateway.domain.price import Price
from gateway.domain.registry import Change, Registry
from gateway.domain.token import Token
from gateway.domain.units import DOLLAR, ChannelId, Millis, Nanos, TokenId

FIRST_GRANT = Nanos(10 * DOLLAR)
DEMO_MODELS = ("demo-echo", "demo-flaky", "demo-story")


def is_fresh(registry: Registry) -> bool:
    """Returns whether nothing was ever configured here."""
    return not (registry.grants or registry.groups or registry.channels or registry.tokens)


def first_changes(registry: Registry, now: Millis) -> list[Change]:
    """Returns what an empty home begins with: account, grant, group, demo channel and prices; nothing for another."""
    if not is_fresh(registry):
        return []
    demo = Channel(
        id=ChannelId("ch_demo"),
        name="demo",
        dialect=Dialect.MOCK,
        models=tuple(ServedModel(name=name, created=now) for name in DEMO_MODELS),
        priority=-100,
        created=now,
        note="built in: answers without a network; remove it when you have a channel of your own",
    )
    # too small to matter and large enough to show on a receipt
    price = Price(model="", input=Nanos(DOLLAR // 10), output=Nanos(4 * DOLLAR // 10), source="demo", updated=now)
    grant = Grant(id="gr_first", nanos=FIRST_GRANT, time=now, note="a first amount to start with")
    return [
        Change("account", "", Account(created=now)),
        Change("grants", grant.id, grant),
        Change("groups", "default", Group(name="default", created=now)),
        Change("channels", demo.id, demo),
        *(Change("prices", name, msgspec.structs.replace(price, model=name)) for name in DEMO_MODELS),
    ]


def first_token(key: str, token_id: str, now: Millis) -> Change:
    """Returns the change that adds the first token. Its key is shown once."""
    token = Token(id=TokenId(token_id), name="first", group="default", digest=digest(key), hint=hint(key), created=now)
    return Change("tokens", token.id, token)
