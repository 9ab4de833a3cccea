"""Settings of the whole gateway."""

from aiohttp import web

from gateway.control import checks
from gateway.control.desk import Desk
from gateway.control.inputs import patched
from gateway.domain.change import Change
from gateway.domain.settings import Settings


async def show(desk: Desk, _: web.Request) -> Settings:
    """GET /settings."""
    return desk.registry.settings


async def edit(desk: Desk, request: web.Request) -> Settings:
    """PATCH /settings."""
    settings = patched(desk.registry.settings, await request.read(), Settings.__struct_fields__)
    checks.settings(settings)
    desk.commit("changed the settings", Change("settings", "", settings))
    return desk.registry.settings
