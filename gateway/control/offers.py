"""Offers: what could become a channel with one key press: model servers on this machine, keys in the environment.

Nothing outside this machine is asked. A key is offered by the name of its variable and never read out.
"""

import asyncio
import os
from collections.abc import Mapping

from aiohttp import web

from gateway.control.channels import default_base_url
from gateway.control.desk import Desk
from gateway.control.inputs import query
from gateway.core.engine import Engine
from gateway.domain.channel import Channel, Dialect, Served, Timeouts
from gateway.domain.errors import UpstreamError
from gateway.domain.token import PREFIX
from gateway.domain.units import ChannelId
from gateway.domain.views import Offer
from gateway.upstream.traits import PRESETS

LOCAL = (
    ("ollama", "http://127.0.0.1:11434/v1"),
    ("lmstudio", "http://127.0.0.1:1234/v1"),
    ("llamacpp", "http://127.0.0.1:8080/v1"),
    ("vllm", "http://127.0.0.1:8000/v1"),
    ("jan", "http://127.0.0.1:1337/v1"),
    ("koboldcpp", "http://127.0.0.1:5001/v1"),
)
"""Model servers and where they listen if nobody told them otherwise, by the defaults of their own documentation."""

VENDORS = (
    ("openai", Dialect.OPENAI, "OPENAI_API_KEY"),
    ("anthropic", Dialect.ANTHROPIC, "ANTHROPIC_API_KEY"),
    ("gemini", Dialect.GEMINI, "GEMINI_API_KEY"),
    ("openrouter", Dialect.OPENAI, "OPENROUTER_API_KEY"),
    ("deepseek", Dialect.OPENAI, "DEEPSEEK_API_KEY"),
    ("groq", Dialect.OPENAI, "GROQ_API_KEY"),
    ("mistral", Dialect.OPENAI, "MISTRAL_API_KEY"),
    ("together", Dialect.OPENAI, "TOGETHER_API_KEY"),
)
"""Vendors, how they are spoken to, and the variable that their own documentation names."""

CONNECT_S = 0.5
ANSWER_S = 2.0


async def listed(desk: Desk, request: web.Request) -> list[Offer]:
    """GET /offers: local servers first. What is a channel already is not offered again."""
    query(request.query, {})
    taken = {channel.base_url for channel in desk.registry.channels.values()}
    return [
        offer
        for offer in (*await _servers(desk.engine, LOCAL), *keys(os.environ))
        if offer.base_url not in taken and not desk.engine.address.startswith(offer.base_url)
    ]


def keys(environ: Mapping[str, str]) -> list[Offer]:
    """Vendors whose key stands in the environment; a token of our own there is none of theirs."""
    return [
        Offer(
            name=name,
            dialect=dialect.value,
            preset=name if name in PRESETS else "",
            base_url=default_base_url(dialect, name),
            key=f"env:{variable}",
            models=[],
        )
        for name, dialect, variable in VENDORS
        if environ.get(variable, "").strip() and not environ[variable].startswith(PREFIX)
    ]


async def _servers(engine: Engine, places: tuple[tuple[str, str], ...]) -> list[Offer]:
    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(_server(engine, name, base_url)) for name, base_url in places]
    return [offer for task in asked if (offer := task.result()) is not None]


async def _server(engine: Engine, name: str, base_url: str) -> Offer | None:
    models = await _models(engine, name, base_url)
    if not models:
        return None
    preset = name if name in PRESETS else ""
    return Offer(name=name, dialect=Dialect.OPENAI.value, preset=preset, base_url=base_url, key="", models=list(models))


async def _models(engine: Engine, name: str, base_url: str) -> list[Served]:
    channel = Channel(
        id=ChannelId(f"offer_{name}"),
        name=name,
        dialect=Dialect.OPENAI,
        base_url=base_url,
        timeouts=Timeouts(connect=CONNECT_S, head=ANSWER_S),
    )
    try:
        async with asyncio.timeout(ANSWER_S):
            return await engine.upstreams.fetch_models(channel)
    except (UpstreamError, TimeoutError):
        return []
    finally:
        engine.upstreams.forget(channel.id)
