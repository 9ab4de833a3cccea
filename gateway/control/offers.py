"""Offers: channels to add with one key press, for model servers on this machine and keys in the environment; presets.

Only this machine is contacted. A key is offered by the name of its variable; its value is never shown.
"""

import asyncio
import os
from collections.abc import Mapping

from aiohttp import web

from gateway.control.edits import ConfigEdits
from gateway.control.request_bodies import query
from gateway.core.engine import Engine
from gateway.domain.channel import Channel, ServedModel, Timeouts
from gateway.domain.errors import UpstreamError
from gateway.domain.token import PREFIX
from gateway.domain.units import ChannelId
from gateway.domain.upstream_views import PresetView
from gateway.domain.views import Offer
from gateway.upstream import vendors
from gateway.upstream.vendors import PRESETS, Vendor

LOCAL_SERVERS = tuple(PRESETS[name] for name in vendors.LOCAL)
"""The presets of local model servers."""

ANSWER_S = 2.0
"""How long a local server may take to list its models, in seconds."""


async def list_offers(edits: ConfigEdits, request: web.Request) -> list[Offer]:
    """GET /offers: the offers, local servers first. An upstream that already has a channel is not offered."""
    query(request.query, {})
    used = {channel.base_url for channel in edits.registry.channels.values()}
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_local_offer(edits.engine, vendor)) for vendor in LOCAL_SERVERS]
    local_offers = [offer for task in tasks if (offer := task.result()) is not None]
    new_offers = (offer for offer in (*local_offers, *key_offers(os.environ)) if offer.base_url not in used)
    return [offer for offer in new_offers if not edits.engine.address.startswith(offer.base_url)]


def key_offers(environ: Mapping[str, str]) -> list[Offer]:
    """Returns an offer for each vendor whose key is in the environment. Tokens of this gateway are ignored."""
    return [
        _offer(vendor, f"env:{vendor.key_variable}", [])
        for vendor in PRESETS.values()
        if vendor.key_variable and (key := environ.get(vendor.key_variable, "").strip()) and not key.startswith(PREFIX)
    ]


def _offer(vendor: Vendor, key: str, models: list[ServedModel]) -> Offer:
    name, dialect = vendor.name, vendor.dialect.value
    return Offer(name=name, preset=name, dialect=dialect, base_url=vendor.base_url, key=key, models=models)


async def list_presets(_: ConfigEdits, request: web.Request) -> list[PresetView]:
    """GET /presets: the known vendors and model servers, in the order to offer them."""
    query(request.query, {})
    return [
        PresetView(
            name=vendor.name,
            dialect=vendor.dialect.value,
            base_url=vendor.base_url,
            key_variable=vendor.key_variable,
            local=vendor.name in vendors.LOCAL,
        )
        for vendor in PRESETS.values()
    ]


async def _local_offer(engine: Engine, vendor: Vendor) -> Offer | None:
    """Returns an offer for the server at the preset's address; None if no server there lists models."""
    channel = Channel(
        id=ChannelId(f"offer_{vendor.name}"),
        name=vendor.name,
        dialect=vendor.dialect,
        base_url=vendor.base_url,
        timeouts=Timeouts(connect=0.5, head=ANSWER_S),
    )
    try:
        async with asyncio.timeout(ANSWER_S):
            models = await engine.upstreams.fetch_models(channel)
    except (UpstreamError, TimeoutError):
        return None
    finally:
        engine.upstreams.forget(channel.id)
    return _offer(vendor, "", models) if models else None
