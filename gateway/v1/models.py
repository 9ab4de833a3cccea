"""GET /v1/models and /v1/models/{id}: what this token may see, and nothing else."""

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
    context_length: int | msgspec.UnsetType = msgspec.UNSET
    pricing: Pricing | msgspec.UnsetType = msgspec.UNSET
    """Ours; of an unpriced model the upstream's, where it tells."""


class ModelsResponse(msgspec.Struct, frozen=True):
    """The whole list; there is no paging."""

    object: str
    data: list[Model]


async def answer_models(engine: Engine, _request: web.BaseRequest, visit: Visit) -> Response:
    """GET /v1/models."""
    return Response(listing(engine.pipeline.identify(visit), engine.catalog))


async def answer_model(engine: Engine, _request: web.BaseRequest, visit: Visit) -> Response:
    """GET /v1/models/{id}; the id may have slashes."""
    return Response(one(visit.path[len(PATH) + 1 :], engine.pipeline.identify(visit), engine.catalog))


def listing(token: Token, catalog: Catalog) -> bytes:
    """The list as JSON, sorted by id."""
    return msgspec.json.encode(ModelsResponse("list", [_model(m, catalog) for m in catalog.visible(token).values()]))


def one(name: str, token: Token, catalog: Catalog) -> bytes:
    """One entry as JSON. Raises NotFound if this token does not see it."""
    return msgspec.json.encode(_model(visible_entry(name, token, catalog), catalog))


def _model(entry: ModelEntry, catalog: Catalog) -> Model:
    price = catalog.price(entry.name) or entry.told
    return Model(
        id=entry.name,
        created=entry.created // 1000,
        owned_by=entry.owner,
        context_length=entry.context or msgspec.UNSET,
        pricing=msgspec.UNSET if price is None else Pricing(number(price.input), number(price.output)),
    )
