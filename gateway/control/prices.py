"""Prices, a model at a time."""

import msgspec
from aiohttp import web

from gateway.control import checks
from gateway.control.desk import Desk
from gateway.control.inputs import fields, required
from gateway.control.price_list import load, proposed
from gateway.control.views import price_view
from gateway.domain.change import Change
from gateway.domain.channel import Channel
from gateway.domain.errors import NotFound
from gateway.domain.price import Price
from gateway.domain.text import plain
from gateway.domain.units import Millis
from gateway.domain.views import PriceProposal, PriceView

MANUAL = "manual"
"""Source of a price that the owner set."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What to take over from the price list."""

    apply: bool = False
    models: list[str] | None = None
    """None: all."""


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


async def take_over(desk: Desk, request: web.Request) -> list[PriceProposal]:
    """POST /prices/import {apply, models?}: what vendors charge for the models that are served.

    With ``apply`` those that differ are taken over in one change, but for prices that the owner set by hand; with
    ``models`` only these. What is answered is what was there before.
    """
    asked = Asked(**fields(await request.read(), Asked, ("apply", "models")))
    found = proposed(desk.registry, await load(), desk.now)
    wanted = [(c, p) for c, p in found if asked.models is None or p.model in asked.models]
    proposals = [_proposal(desk.registry.prices.get(price.model), channel, price) for channel, price in wanted]
    news = {proposal.model for proposal in proposals if proposal.differs and not proposal.kept}
    changes = [Change("prices", price.model, price) for _, price in wanted if price.model in news]
    if asked.apply and changes:
        desk.commit(f"took over {len(changes)} prices from {wanted[0][1].source}", *changes)
    return proposals


def _proposal(now: Price | None, channel: Channel, listed: Price) -> PriceProposal:
    return PriceProposal(
        model=listed.model,
        channel=channel.name,
        now=price_view(now) if now is not None else None,
        listed=price_view(listed),
        kept=now is not None and now.source == MANUAL,
        differs=now is None or _rates(now) != _rates(listed),
    )


def _rates(price: Price) -> Price:
    return msgspec.structs.replace(price, source="", updated=Millis(0))


async def remove(desk: Desk, request: web.Request) -> dict[str, str]:
    """DELETE /prices/{model}: it is unpriced from now on."""
    model = request.match_info["model"]
    if model not in desk.registry.prices:
        raise NotFound(f"there is no price for '{plain(model)}'", param="model")
    return desk.commit(f"removed the price of '{model}'", Change("prices", model, None))
