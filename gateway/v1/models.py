"""GET /v1/models and /v1/models/{id}: the models that the token sees, and nothing else.

One body serves clients of OpenAI's and of Anthropic's API: each ignores the other's fields. Only clients that send
``anthropic-version`` get the list in pages, because the others do not know pages.

Claude Code offers its user only models whose names begin with ``claude`` or ``anthropic``. With the setting
``list_for_claude`` Anthropic's clients find every other model a second time, as ``claude/NAME``.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from aiohttp import web

from gateway.core.admission import visible_entry
from gateway.core.call import CallOrigin
from gateway.core.catalog import Catalog
from gateway.core.engine import Engine
from gateway.core.model_entry import ModelEntry, answering_model
from gateway.core.model_prices import different_prices
from gateway.domain.account import AccountStatus
from gateway.domain.money import number
from gateway.domain.price import Price, UpstreamPrices, in_force
from gateway.domain.token import Token
from gateway.domain.units import Millis
from gateway.web.response import Response

PATH = "/v1/models"

ALIAS_PREFIX = "claude/"
"""The prefix of any other name; the Messages API accepts a name with it."""


def _token(engine: Engine, origin: CallOrigin) -> Token:
    """Returns the token of the client's key. Raises InvalidToken, whose record names the request, not a model."""
    return engine.pipeline.identify(msgspec.structs.replace(origin, request=f"GET {PATH}"))


async def answer_models(engine: Engine, request: web.BaseRequest, origin: CallOrigin) -> Response:
    """Answer GET /v1/models."""
    query, aliases = dict[str, str](), False
    if "anthropic-version" in request.headers:
        query, aliases = dict(request.query), engine.settings().list_for_claude
    body = list_json(_token(engine, origin), engine.catalog, origin.ts, query, aliases=aliases)
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
    token: Token, catalog: Catalog, now: Millis, query: Mapping[str, str] = {}, *, aliases: bool = False
) -> bytes:
    """Returns the list as JSON, sorted by id; with ``aliases`` also every other model as ``claude/NAME``.

    ``query`` asks for a page: at most ``limit`` models ``after_id`` or ``before_id``. Without it the list is whole.
    """
    visible = catalog.visible(token)
    ids = list(visible)
    if aliases:  # for each model that Claude Code would not offer, unless another model has that name
        other_names = (ALIAS_PREFIX + name for name in visible if not name.startswith(("claude", "anthropic")))
        ids = sorted((*visible, *(name for name in other_names if name not in visible)))
    names = _page(ids, query)
    has_more = bool(names) and (ids[0] != names[0] if query.get("before_id") else ids[-1] != names[-1])
    models = [_entry_of(name, visible[_model_name(name, visible)], token, catalog, now) for name in names]
    first, last = (names[0], names[-1]) if names else (None, None)
    answer = {"object": "list", "data": models, "has_more": has_more, "first_id": first, "last_id": last}
    return msgspec.json.encode(answer)


def _model_name(name: str, visible: Collection[str]) -> str:
    return name if name in visible else name.removeprefix(ALIAS_PREFIX)


def _page(ids: Sequence[str], query: Mapping[str, str]) -> Sequence[str]:
    text = query.get("limit", "")
    is_count = text.isascii() and text.isdecimal() and len(text) < 5
    limit = min(max(1, int(text)), 1000) if is_count else len(ids)
    if after := query.get("after_id"):
        ids = [id for id in ids if id > after]
    if before := query.get("before_id"):
        ids = [id for id in ids if id < before]
        return ids[-limit:]
    return ids[:limit]


def model_json(name: str, token: Token, catalog: Catalog, now: Millis, *, aliases: bool = False) -> bytes:
    """Returns one entry as JSON. Raises NotFound if the token does not see the model."""
    model_name = _model_name(name, catalog.visible(token)) if aliases else name
    return msgspec.json.encode(_entry_of(name, visible_entry(model_name, token, catalog), token, catalog, now))


def _pricing(price: Price | UpstreamPrices, others: Sequence[Price]) -> dict[str, str]:
    """Returns the price at the channel tried first, and the lowest and highest prices if there are ``others``, in
    dollars per million tokens, as exact decimal text.
    """
    amounts = {"input": price.input, "output": price.output}
    for extreme, choose in (("min", min), ("max", max)) if others else ():
        amounts[f"{extreme}_input"] = choose(other.input for other in others)
        amounts[f"{extreme}_output"] = choose(other.output for other in others)
    return {name: number(nanos) for name, nanos in amounts.items()}


def _entry_of(name: str, entry: ModelEntry, token: Token, catalog: Catalog, now: Millis) -> dict[str, Any]:
    """Returns one entry of the list. SDKs ignore the fields that their API does not have."""
    target = answering_model(entry)
    price = catalog.price_for(entry, token)
    shown = target.published_price if price is None else in_force(price, now)  # what calls that begin now cost
    prices = [in_force(listed, now) for listed in target.effects.prices]
    others = different_prices(prices, catalog.registry.groups.get(token.group))
    context = catalog.context(target.name, target.context)
    created = entry.created // 1000  # when the model was first configured, never now
    return {
        "id": name,
        "object": "model",
        "created": created,
        "owned_by": entry.owner,
        "type": "model",
        "display_name": entry.name,
        "created_at": datetime.fromtimestamp(created, UTC).isoformat().replace("+00:00", "Z"),
        "lifecycle": "active",  # Anthropic's word for a model that can be called; others are not listed
        "max_input_tokens": context,
        "max_tokens": target.max_output,
        **({"context_length": context} if context else {}),
        **({"pricing": _pricing(shown, others)} if shown is not None else {}),
    }
