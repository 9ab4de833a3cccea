"""GET /v1/models and /v1/models/{id}: the models that the token sees, and nothing else.

One body serves clients of OpenAI's and of Anthropic's API: each ignores the other's fields. Only clients that send
``anthropic-version`` get the list in pages, because the others do not know pages.

Claude Code offers its user only models whose names begin with ``claude`` or ``anthropic``. With the setting
``list_for_claude`` Anthropic's clients find every other model a second time, as ``claude/NAME``.
"""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime

import msgspec
from aiohttp import web

from gateway.core.admission import visible_entry
from gateway.core.call import CallOrigin
from gateway.core.catalog import Catalog
from gateway.core.engine import Engine
from gateway.core.model_entry import ModelEntry, answering_model
from gateway.core.model_prices import different_prices
from gateway.domain.account import AccountStatus
from gateway.domain.channel import UpstreamPrices
from gateway.domain.money import number
from gateway.domain.price import Price, in_force
from gateway.domain.token import Token
from gateway.domain.units import Millis
from gateway.web.response import Response

PATH = "/v1/models"


class Pricing(msgspec.Struct, frozen=True):
    """The price of a model, in dollars per million tokens, as exact decimal text."""

    input: str
    output: str
    min_input: str | msgspec.UnsetType = msgspec.UNSET
    """This and the next three: the lowest and the highest prices of the model's channels, if they differ."""
    min_output: str | msgspec.UnsetType = msgspec.UNSET
    max_input: str | msgspec.UnsetType = msgspec.UNSET
    max_output: str | msgspec.UnsetType = msgspec.UNSET


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the list. Optional fields are additions, which the SDKs ignore."""

    id: str
    object: str = "model"
    created: int
    """Seconds since the epoch: when the model was first configured, never now."""
    owned_by: str
    type: str = "model"
    display_name: str
    created_at: str
    """``created`` in RFC 3339."""
    lifecycle: str = "active"
    """Anthropic's word for a model that can be called; others are not listed."""
    max_input_tokens: int | None
    max_tokens: int | None
    """The maximum output tokens of an answer."""
    context_length: int | msgspec.UnsetType = msgspec.UNSET
    pricing: Pricing | msgspec.UnsetType = msgspec.UNSET
    """What the token pays for calls that begin now; for an unpriced model the upstream's published price."""


class ModelListPage(msgspec.Struct, frozen=True):
    """The requested part of the list."""

    limit: int | None = None
    """The number of models, at most 1000; None for all of them."""
    after: str = ""
    before: str = ""


WHOLE_LIST = ModelListPage()
ALIAS_PREFIX = "claude/"
"""The prefix of any other name; the Messages API accepts a name with it."""


def _token(engine: Engine, origin: CallOrigin) -> Token:
    """Returns the token of the client's key. Raises InvalidToken, whose record names the request, not a model."""
    return engine.pipeline.identify(msgspec.structs.replace(origin, request=f"GET {PATH}"))


async def answer_models(engine: Engine, request: web.BaseRequest, origin: CallOrigin) -> Response:
    """Answer GET /v1/models."""
    page, aliases = WHOLE_LIST, False
    if "anthropic-version" in request.headers:
        query, aliases = request.query, engine.settings().list_for_claude
        text = query.get("limit", "")
        limit = min(max(1, int(text)), 1000) if text.isascii() and text.isdecimal() and len(text) < 5 else None
        page = ModelListPage(limit, query.get("after_id", ""), query.get("before_id", ""))
    body = list_json(_token(engine, origin), engine.catalog, origin.ts, page, aliases=aliases)
    headers = {}  # the list stays whole, because an empty one breaks programs
    if engine.catalog.registry.account.status is AccountStatus.SUSPENDED:
        headers["x-gateway-account"] = "suspended; calls are rejected until it is active again"
    return Response(body, headers=headers)


async def answer_model(engine: Engine, request: web.BaseRequest, origin: CallOrigin) -> Response:
    """Answer GET /v1/models/{id}; the id may have slashes."""
    aliases = "anthropic-version" in request.headers and engine.settings().list_for_claude
    name = origin.path[len(PATH) + 1 :]
    return Response(model_json(name, _token(engine, origin), engine.catalog, origin.ts, aliases=aliases))


def list_json(
    token: Token, catalog: Catalog, now: Millis, page: ModelListPage = WHOLE_LIST, *, aliases: bool = False
) -> bytes:
    """Returns the list as JSON, sorted by id; with ``aliases`` also every other model as ``claude/NAME``."""
    visible = catalog.visible(token)
    ids = list(visible)
    if aliases:  # for each model that Claude Code would not offer, unless another model has that name
        other_names = (ALIAS_PREFIX + name for name in visible if not name.startswith(("claude", "anthropic")))
        ids = sorted((*visible, *(name for name in other_names if name not in visible)))
    names = _page(ids, page)
    has_more = bool(names) and (ids[0] != names[0] if page.before else ids[-1] != names[-1])
    models = [_entry_of(name, visible[_model_name(name, visible)], token, catalog, now) for name in names]
    first, last = (names[0], names[-1]) if names else (None, None)
    answer = {"object": "list", "data": models, "has_more": has_more, "first_id": first, "last_id": last}
    return msgspec.json.encode(answer)


def _model_name(name: str, visible: Collection[str]) -> str:
    return name if name in visible else name.removeprefix(ALIAS_PREFIX)


def _page(ids: Sequence[str], page: ModelListPage) -> Sequence[str]:
    if page.after:
        ids = [id for id in ids if id > page.after]
    if page.before:
        ids = [id for id in ids if id < page.before]
        return ids if page.limit is None else ids[-page.limit :]
    return ids[: page.limit]


def model_json(name: str, token: Token, catalog: Catalog, now: Millis, *, aliases: bool = False) -> bytes:
    """Returns one entry as JSON. Raises NotFound if the token does not see the model."""
    model_name = _model_name(name, catalog.visible(token)) if aliases else name
    return msgspec.json.encode(_entry_of(name, visible_entry(model_name, token, catalog), token, catalog, now))


def _pricing(price: Price | UpstreamPrices, others: Sequence[Price]) -> Pricing:
    """Returns the price at the channel tried first, and the lowest and highest prices if there are ``others``."""
    amounts = [price.input, price.output]
    for extreme in (min, max) if others else ():
        amounts += [extreme(other.input for other in others), extreme(other.output for other in others)]
    return Pricing(*map(number, amounts))


def _entry_of(name: str, entry: ModelEntry, token: Token, catalog: Catalog, now: Millis) -> Model:
    target = answering_model(entry)
    price = catalog.price_for(entry, token)
    shown = target.published_price if price is None else in_force(price, now)
    prices = [in_force(listed, now) for listed in target.effects.prices]
    others = different_prices(prices, catalog.registry.groups.get(token.group))
    context = catalog.context(target.name, target.context)
    return Model(
        id=name,
        created=entry.created // 1000,
        owned_by=entry.owner,
        display_name=entry.name,
        created_at=datetime.fromtimestamp(entry.created // 1000, UTC).isoformat().replace("+00:00", "Z"),
        max_input_tokens=context,
        max_tokens=target.max_output,
        context_length=context or msgspec.UNSET,
        pricing=msgspec.UNSET if shown is None else _pricing(shown, others),
    )
