"""Offers: what can become a channel with one key press: model servers on this machine, and keys in the environment.

Only this machine is contacted. A key is offered by the name of its variable, and its value is never shown.
"""

import asyncio
import os
from collections.abc import Mapping

from aiohttp import web

from gateway.control.channels import default_base_url
from gateway.control.edits import ConfigEdits
from gateway.control.request_bodies import query
from gateway.core.engine import Engine
from gateway.domain.channel import Channel, Dialect, ServedModel, Timeouts
from gateway.domain.errors import UpstreamError
from gateway.domain.token import PREFIX
from gateway.domain.units import ChannelId
from gateway.domain.upstream_views import PresetView
from gateway.domain.views import Offer
from gateway.upstream import vendors
from gateway.upstream.vendors import PRESETS

LOCAL = tuple((name, PRESETS[name].base_url) for name in vendors.LOCAL)
"""Model servers and their default addresses."""

ANSWER_S = 2.0


async def list_offers(edits: ConfigEdits, request: web.Request) -> list[Offer]:
    """GET /offers: local servers first. What is already a channel is not offered."""
    query(request.query, {})
    taken = {channel.base_url for channel in edits.registry.channels.values()}
    return [
        offer
        for offer in (*await _servers(edits.engine), *keys(os.environ))
        if offer.base_url not in taken and not edits.engine.address.startswith(offer.base_url)
    ]


def keys(environ: Mapping[str, str]) -> list[Offer]:
    """Returns the vendors whose key is in the environment, ignoring tokens of this gateway."""
    return [
        Offer(
            name=row.name,
            dialect=row.dialect.value,
            preset=row.name,
            base_url=default_base_url(row.dialect, row.name),
            key=f"env:{row.key_variable}",
            models=[],
        )
        for row in PRESETS.values()
        if row.key_variable and (key := environ.get(row.key_variable, "").strip()) and not key.startswith(PREFIX)
    ]


async def presets(_: ConfigEdits, request: web.Request) -> list[PresetView]:
    """GET /presets: the known vendors and model servers, in the order in which to offer them."""
    query(request.query, {})
    return [
        PresetView(
            name=row.name,
            dialect=row.dialect.value,
            base_url=row.base_url,
            key_variable=row.key_variable,
            local=row.name in vendors.LOCAL,
        )
        for row in PRESETS.values()
    ]


async def _servers(engine: Engine) -> list[Offer]:
    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(_server(engine, name, base_url)) for name, base_url in LOCAL]
    return [offer for task in asked if (offer := task.result()) is not None]


async def _server(engine: Engine, name: str, base_url: str) -> Offer | None:
    models = await _models(engine, name, base_url)
    if not models:
        return None
    return Offer(name=name, dialect=Dialect.OPENAI.value, preset=name, base_url=base_url, key="", models=list(models))


async def _models(engine: Engine, name: str, base_url: str) -> list[ServedModel]:
    channel = Channel(
        id=ChannelId(f"offer_{name}"),
        name=name,
        dialect=Dialect.OPENAI,
        base_url=base_url,
        timeouts=Timeouts(connect=0.5, head=ANSWER_S),
    )
    try:
        async with asyncio.timeout(ANSWER_S):
            return await engine.upstreams.fetch_models(channel)
    except (UpstreamError, TimeoutError):
        return []
    finally:
        engine.upstreams.forget(channel.id)
