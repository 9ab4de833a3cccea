"""Kit: configurations made in one line, for tests of the core."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from gateway.core.call import Call, CallContext, CallOrigin
from gateway.core.catalog import Catalog
from gateway.core.channel_effects import ChannelEffects
from gateway.core.group_policy import Rank
from gateway.core.model_entry import Route
from gateway.core.quota import CallNeed, call_need, need_of
from gateway.core.rate_scopes import channel_scope
from gateway.domain.account import Account, Grant
from gateway.domain.channel import Channel, Dialect, ServedModel
from gateway.domain.group import Group
from gateway.domain.price import Price
from gateway.domain.registry import Registry
from gateway.domain.settings import Settings
from gateway.domain.token import Token
from gateway.domain.units import DOLLAR, MILLION, CallId, ChannelId, Millis, Nanos, TokenId
from gateway.inbound.api import HttpRequest, InboundRequest
from gateway.inbound.chat.api import CHAT
from tests.core.clocks import NOON
from tests.core.ends import FakeClient

MESSAGES = [{"role": "user", "content": "Say hello."}]
PRICE = Price(model="m", input=Nanos(2_500_000_000), output=Nanos(10_000_000_000))


def channel(name: str = "up", *models: str, **fields: Any) -> Channel:
    """A model is ``public`` or ``public=upstream``."""
    pairs = [model.partition("=") for model in models or ("m",)]
    served = tuple(ServedModel(name=public, upstream=upstream) for public, _, upstream in pairs)
    usual = {"base_url": f"https://{name}.example/v1", "key": "sk-upstream-canary", "dialect": Dialect.OPENAI}
    return Channel(id=ChannelId(f"ch_{name}"), name=name, **{**usual, "models": served, **fields})


def route(name: str = "up", model: str = "m", **fields: Any) -> Route:
    made = channel(name, model, **fields)
    served = msgspec.structs.replace(made.models[0], price=PRICE)
    return Route(made, served, channel_scope(made, Settings()), Rank(-made.priority, f"priority {made.priority}"))


def need(
    request: InboundRequest, effects: ChannelEffects, prices: Sequence[Price], multiplier: int = MILLION, **fields: Any
) -> CallNeed:
    """What a call needs at the channels of one model."""
    return call_need([need_of(request, effects, prices, **fields)], multiplier)


def token(name: str = "laptop", **fields: Any) -> Token:
    usual = {"group": "home", "digest": f"digest of {name}", "hint": "sk-tk-…"}
    return Token(id=TokenId(f"tok_{name}"), name=name, **{**usual, **fields})


def registry(
    *channels: Channel,
    tokens: tuple[Token, ...] = (),
    groups: tuple[Group, ...] = (Group(name="home"),),
    prices: tuple[Price, ...] = (PRICE,),
    account: Account | None = None,
    settings: Settings | None = None,
    granted: int = DOLLAR,
) -> Registry:
    """By default one dollar, the group ``home`` and a price for model ``m``."""
    grant = Grant(id="gr_1", nanos=Nanos(granted), time=Millis(0))
    return Registry(
        account=account or Account(),
        settings=settings or Settings(),
        tokens={t.id: t for t in tokens},
        groups={g.name: g for g in groups},
        channels={c.id: c for c in channels},
        prices={p.model: p for p in prices},
        grants={grant.id: grant},
    )


def catalog(*channels: Channel, **fields: Any) -> Catalog:
    return Catalog(registry(*channels, **fields), NOON)


def body(model: str = "m", **fields: Any) -> bytes:
    return json.dumps({"model": model, "messages": MESSAGES, **fields}).encode()


def ask(model: str = "m", **fields: Any) -> InboundRequest:
    return CHAT.parse(HttpRequest(body=body(model, **fields), target="/", headers={}))


def origin(**fields: Any) -> CallOrigin:
    usual = {"id": CallId("req_1"), "api": CHAT, "key": "", "app": "", "retry": 0, "ts": NOON, "began": 0.0}
    return CallOrigin(**{**usual, **fields})


def call(asked: InboundRequest | None = None, **context: Any) -> Call:
    """A call of this request or of a stream, whose context has these fields."""
    usual = {"origin": origin(), "client": FakeClient(), "catalog": catalog(), "token": token()}
    usual |= {"request": asked or ask(stream=True), "group": Group(name="home")}
    return Call(CallContext(**{**usual, **context}))
