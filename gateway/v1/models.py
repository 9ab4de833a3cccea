"""GET /v1/models and /v1/models/{id}: what this token may see, and nothing else.

One body serves clients of OpenAI's and of Anthropic's family: each ignores what it does not know. The list is given in
pages only to those that send ``anthropic-version``, for the others do not know pages.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
from aiohttp import web

from gateway.core.admission import visible_entry
from gateway.core.call import Visit
from gateway.core.catalog import Catalog, ModelEntry
from gateway.core.engine import Engine
from gateway.domain.money import number
from gateway.domain.token import Token
from gateway.web.response import Response

PATH = "/v1/models"


class Pricing(msgspec.Struct, frozen=True):
    """Dollars per million tokens, exact, as text."""

    input: str
    output: str


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the convention; what is optional here is an addition and is ignored by the SDKs."""

    id: str
    object: str = "model"
    created: int
    """Seconds since the epoch: when the model was first configured, never now."""
    owned_by: str
    type: str = "model"
    display_name: str
    created_at: str
    """``created`` in RFC 3339."""
    max_input_tokens: int | None
    max_tokens: int | None
    """The most output tokens of an answer."""
    context_length: int | msgspec.UnsetType = msgspec.UNSET
    pricing: Pricing | msgspec.UnsetType = msgspec.UNSET
    """Ours; of an unpriced model the upstream's, where it tells."""


class ModelsResponse(msgspec.Struct, frozen=True):
    """The whole list, or a page of it."""

    object: str
    data: list[Model]
    has_more: bool
    first_id: str | None
    last_id: str | None


class ModelsPage(msgspec.Struct, frozen=True):
    """Which part of the list is wanted."""

    limit: int | None = None
    after: str = ""
    before: str = ""


WHOLE_LIST = ModelsPage()
MOST_MODELS = 1000
"""Of one page."""


async def answer_models(engine: Engine, request: web.BaseRequest, visit: Visit) -> Response:
    """GET /v1/models."""
    page = WHOLE_LIST
    if "anthropic-version" in request.headers:
        query = request.query
        page = ModelsPage(_limit(query.get("limit", "")), query.get("after_id", ""), query.get("before_id", ""))
    return Response(listing(engine.pipeline.identify(visit), engine.catalog, page))


async def answer_model(engine: Engine, _request: web.BaseRequest, visit: Visit) -> Response:
    """GET /v1/models/{id}; the id may have slashes."""
    return Response(one(visit.path[len(PATH) + 1 :], engine.pipeline.identify(visit), engine.catalog))


def listing(token: Token, catalog: Catalog, page: ModelsPage = WHOLE_LIST) -> bytes:
    """The list as JSON, sorted by id."""
    entries = list(catalog.visible(token).values())
    found = _page(entries, page)
    names = [entry.name for entry in found]
    has_more = bool(found) and (entries[0] is not found[0] if page.before else entries[-1] is not found[-1])
    models = [_model(entry, catalog) for entry in found]
    first, last = (names[0], names[-1]) if names else (None, None)
    return msgspec.json.encode(ModelsResponse("list", models, has_more, first, last))


def _page(entries: Sequence[ModelEntry], page: ModelsPage) -> Sequence[ModelEntry]:
    if page.after:
        entries = [entry for entry in entries if entry.name > page.after]
    if page.before:
        entries = [entry for entry in entries if entry.name < page.before]
        return entries if page.limit is None else entries[-page.limit :]
    return entries[: page.limit]


def _limit(text: str) -> int | None:
    """The size of a page; None: all there is."""
    return min(max(1, int(text)), MOST_MODELS) if text.isascii() and text.isdecimal() and len(text) < 5 else None


def one(name: str, token: Token, catalog: Catalog) -> bytes:
    """One entry as JSON. Raises NotFound if this token does not see it."""
    return msgspec.json.encode(_model(visible_entry(name, token, catalog), catalog))


def _model(entry: ModelEntry, catalog: Catalog) -> Model:
    price = catalog.price(entry.name) or entry.told
    return Model(
        id=entry.name,
        created=entry.created // 1000,
        owned_by=entry.owner,
        display_name=entry.name,
        created_at=datetime.fromtimestamp(entry.created // 1000, UTC).isoformat().replace("+00:00", "Z"),
        max_input_tokens=entry.context,
        max_tokens=entry.effects.max_output,
        context_length=entry.context or msgspec.UNSET,
        pricing=msgspec.UNSET if price is None else Pricing(number(price.input), number(price.output)),
    )
