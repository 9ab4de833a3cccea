"""Prices, a model at a time."""

from aiohttp import web

from gateway.control import checks
from gateway.control.desk import Desk
from gateway.control.inputs import fields, required
from gateway.control.views import price_view
from gateway.domain.change import Change
from gateway.domain.errors import NotFound
from gateway.domain.price import Price
from gateway.domain.text import plain
from gateway.domain.views import PriceView

EDITABLE = ("input", "output", "cached_input", "cache_write", "per_call", "tiers", "source")


async def listed(desk: Desk, _: web.Request) -> list[PriceView]:
    """GET /prices."""
    return [price_view(price) for _, price in sorted(desk.registry.prices.items())]


async def put(desk: Desk, request: web.Request) -> PriceView:
    """PUT /prices/{model}: the whole price; ``input`` and ``output`` are required."""
    body, model = await request.read(), request.match_info["model"]
    required(body, "input", "output")
    price = Price(model=model, updated=desk.now, **fields(body, Price, EDITABLE))
    checks.price(price)
    desk.commit(f"set the price of '{model}'", Change("prices", model, price))
    return price_view(price)


async def remove(desk: Desk, request: web.Request) -> dict[str, str]:
    """DELETE /prices/{model}: it is unpriced from now on."""
    model = request.match_info["model"]
    if model not in desk.registry.prices:
        raise NotFound(f"there is no price for '{plain(model)}'", param="model")
    return desk.commit(f"removed the price of '{model}'", Change("prices", model, None))
