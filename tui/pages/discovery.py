"""Discovery: what was found on this machine, local servers and keys in the environment, made into channels."""

from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from gateway.domain.errors import GatewayError
from gateway.domain.views import ChannelView, Offer
from tui.safe import safe
from tui.session import Session


def options(offers: Sequence[Offer]) -> list[tuple[str, str]]:
    """Ids, and what is said of each."""
    return [(offer.name, _said(offer)) for offer in offers]


async def add(session: Session, offers: Sequence[Offer], on: Collection[str]) -> tuple[list[ChannelView], list[str]]:
    """The channels that were made, and a sentence about each that could not be; one that fails stops no other."""
    taken = {channel.name for channel in session.board.channels}
    made, failed = [], []
    for offer in offers:
        if offer.name in on:
            try:
                made.append(await session.client.add_channel(body(offer, taken)))
                taken.add(made[-1].name)
            except GatewayError as error:
                failed.append(f"{safe(offer.name)}: {safe(error.message, 500)}")
    return made, failed


def body(offer: Offer, taken: Collection[str]) -> dict[str, Any]:
    """What the server takes; the name is another if it is taken."""
    names = (offer.name, *(f"{offer.name}-{number}" for number in range(2, 1_000)))
    name = next(name for name in names if name not in taken)
    made: dict[str, Any] = {"name": name, "dialect": offer.dialect, "base_url": offer.base_url}
    given = {"key": offer.key, "preset": offer.preset, "models": msgspec.to_builtins(offer.models)}
    return made | {name: value for name, value in given.items() if value}


def _said(offer: Offer) -> str:
    where = safe(offer.base_url, 80)
    if offer.key:
        return f"{safe(offer.name):<12} {where}   with {safe(offer.key)}"
    names = ", ".join(safe(model.name, 40) for model in offer.models[:3])
    more = f" and {len(offer.models) - 3} more" if len(offer.models) > 3 else ""
    return f"{safe(offer.name):<12} {where}   {names}{more}"
