"""Prices, a model at a time."""

import msgspec
from aiohttp import web

from gateway.control import checks
from gateway.control.desk import Desk
from gateway.control.inputs import fields, required
from gateway.control.price_list import load, proposed
from gateway.control.views import price_view
from gateway.core.price_change import change_of, differs, guard_of
from gateway.domain.change import Change
from gateway.domain.channel import Channel
from gateway.domain.errors import NotFound
from gateway.domain.offered import PriceProposal
from gateway.domain.price import Price
from gateway.domain.text import plain
from gateway.domain.views import PriceView
from gateway.upstream.traits import traits_of

MANUAL = "manual"
"""Source of a price that the owner set."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What to take over from the price list."""

    apply: bool = False
    models: list[str] | None = None
    """None: all."""
    channel: str = ""
    """Name of a channel or a preset; empty: all."""
    accept: bool = False
    """Also steep rises and what looks like another unit."""


EDITABLE = ("input", "output", "cached_input", "cache_write", "per_call", "tiers", "source")


async def listed(desk: Desk, _: web.Request) -> list[PriceView]:
    """GET /prices."""
    return [price_view(price, desk.now) for _, price in sorted(desk.registry.prices.items())]


async def put(desk: Desk, request: web.Request) -> PriceView:
    """PUT /prices/{model}: the whole price; ``input`` and ``output`` are required."""
    body, model = await request.read(), request.match_info["model"]
    required(body, "input", "output")
    price = Price(model=model, updated=desk.now, **fields(body, Price, EDITABLE))
    checks.price(price)
    desk.commit(f"set the price of '{model}'", Change("prices", model, price))
    return price_view(price, desk.now)


async def take_over(desk: Desk, request: web.Request) -> list[PriceProposal]:
    """POST /prices/import {apply, models?, channel?, accept}: what vendors charge for the models that are served.

    With ``apply`` those that differ are taken over in one change, but for prices that the owner set by hand, and,
    without ``accept``, for those that leap; with ``models`` and ``channel`` only these. What is answered is what was
    there before.
    """
    asked = Asked(**fields(await request.read(), Asked, Asked.__struct_fields__))
    channels = [c for c in desk.registry.channels.values() if not asked.channel or _is(c, asked.channel)]
    if asked.channel and not channels:
        raise NotFound(f"there is no channel or vendor '{plain(asked.channel)}' among the channels", param="channel")
    found = proposed(channels, desk.registry.lists, await load(), desk.now)
    wanted = [(c, p) for c, p in found if asked.models is None or p.model in asked.models]
    proposals = [_proposal(desk, channel, price, asked) for channel, price in wanted]
    news = {proposal.model for proposal in proposals if proposal.applied}
    changes = [Change("prices", price.model, price) for _, price in wanted if price.model in news]
    if changes:
        desk.commit(f"took over {len(changes)} prices from {wanted[0][1].source}", *changes)
    return proposals


def _is(channel: Channel, name: str) -> bool:
    return name in (channel.name, traits_of(channel.preset, channel.base_url).name)


def _proposal(desk: Desk, channel: Channel, listed: Price, asked: Asked) -> PriceProposal:
    now = desk.registry.prices.get(listed.model)
    kept = now is not None and now.source == MANUAL
    changes, guard = differs(now, listed), guard_of(now, listed)
    return PriceProposal(
        model=listed.model,
        channel=channel.name,
        now=price_view(now, desk.now) if now is not None else None,
        listed=price_view(listed, desk.now),
        kept=kept,
        differs=changes,
        change=change_of(now, listed),
        guard=guard,
        applied=asked.apply and changes and not kept and (asked.accept or not guard),
    )


async def remove(desk: Desk, request: web.Request) -> dict[str, str]:
    """DELETE /prices/{model}: it is unpriced from now on."""
    model = request.match_info["model"]
    if model not in desk.registry.prices:
        raise NotFound(f"there is no price for '{plain(model)}'", param="model")
    return desk.commit(f"removed the price of '{model}'", Change("prices", model, None))
