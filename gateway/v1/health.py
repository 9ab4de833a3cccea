"""GET /v1/health, /health and /: whether the gateway can be reached. They call no upstream and need no token.

A passing health check proves only that the gateway can be reached; only a real call proves that token, group, model and
route work. A new counter comes from ``Engine.status`` and is also a row in ``docs/http.md``.
"""

import msgspec
from aiohttp import web

from gateway import __version__
from gateway.core.call import CallOrigin
from gateway.core.engine import Engine
from gateway.web.response import Response

STATES = ("ok", "cooling", "half_open", "attention", "off")


async def answer_health(engine: Engine, _request: web.BaseRequest, _origin: CallOrigin) -> Response:
    """Answer GET and HEAD /v1/health. The body names no channels; the status is 503 while calls are rejected."""
    status = engine.status()
    body = {
        "status": {"serving": "ok", "draining": "stopping"}.get(status.state, status.state),
        "version": __version__,
        "uptime_s": engine.uptime_s,
        "inflight": status.in_flight,
        "channels": {state: status.channels.get(state, 0) for state in STATES},
        "store": "failed" if status.store_error else "ok",
        "store_error": status.store_error,
    }
    return Response(msgspec.json.encode(body), status=200 if status.state == "serving" else 503)


async def answer_front_page(engine: Engine, _request: web.BaseRequest, _origin: CallOrigin) -> Response:
    """Answer GET and HEAD / with a page of plain text for browsers. Programs probe it without a token."""
    page = (
        f"Tollkeeper {__version__}: a personal gateway to language models.\n\n"
        f"Base URL for your SDKs and tools:  {engine.address}\n"
        "A token:                           tollkeeper token add NAME\n"
        "The lines to export:               tollkeeper env\n"
        "Find out what is wrong:            tollkeeper doctor\n\n"
        "This page proves only that the gateway can be reached. Whether a token, its group, a model and its channel\n"
        "work is proved by a real request alone; 'tollkeeper doctor' makes one.\n"
    )
    return Response(page.encode(), content_type="text/plain; charset=utf-8")
