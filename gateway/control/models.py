"""Models: the public names, who serves them, who sees them, what they cost."""

from aiohttp import web

from gateway.control.desk import Desk
from gateway.control.inputs import query
from gateway.control.usage import tallies
from gateway.control.views import model_views
from gateway.domain.views import ModelView


async def listed(desk: Desk, request: web.Request) -> list[ModelView]:
    """GET /models[?token=REF]: all of them, or those that one token sees."""
    ref = query(request.query, {"token": str}).get("token")
    token = desk.engine.catalog.token(ref) if ref else None
    return model_views(desk.engine, await tallies(desk.engine), token)
