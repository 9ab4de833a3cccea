"""Group policy: the order that a group's channels are tried in for a model, and which other models may answer. Pure.

Both are computed for each catalog. By ``priority``, the highest comes first. ``cheapest`` orders by the price in force
of three input tokens and one output token: the owner's for that channel, else what the upstream publishes, else the one
used for charging; local servers without a price are free. ``local`` puts servers on this machine and network first,
each only while it has no other call, unless its limits say otherwise. ``fastest`` orders by measurements, which
``routing`` looks up. Ties are ordered by priority. A hold covers the most expensive affordable fallback; the charge is
the price of the model that answered.
"""

from collections.abc import Sequence

import msgspec

from gateway.domain.channel import Channel, ServedModel
from gateway.domain.group import Fallback, Policy
from gateway.domain.money import brief_dollars
from gateway.domain.patterns import matches
from gateway.domain.price import in_force
from gateway.domain.units import MILLION, Millis
from gateway.domain.urls import is_private

Offer = tuple[Channel, ServedModel]


class Rank(msgspec.Struct, frozen=True):
    """The rank of a channel among those that serve a model."""

    tier: int = 0
    """Lower tiers are tried first."""
    place: str = ""
    """The reason, in words."""
    busy_from: int = 0
    """It is skipped as busy from this many calls in flight on; 0 if it never is."""
    by_latency: bool = False
    """Whether measurements decide which channel of its tier is tried first."""


def rank_offers(policy: Policy, offers: Sequence[Offer], now: Millis) -> list[tuple[Offer, Rank]]:
    """Returns the channels of one model in the order they are tried."""
    sorted_offers = sorted((*_sort_key(policy, offer, now), offer[0].name, offer) for offer in offers)
    tiers = sorted({key for key, *_ in sorted_offers})
    by_latency = policy is Policy.FASTEST
    return [
        (offer, Rank(tiers.index(key), place, _busy_from(policy, offer[0]), by_latency))
        for key, place, _, offer in sorted_offers
    ]


def is_local(channel: Channel) -> bool:
    """Returns whether a channel's server is on this machine or in this network, or part of this program."""
    return not channel.dialect.info.needs_url or is_private(channel.base_url)


def _sort_key(policy: Policy, offer: Offer, now: Millis) -> tuple[tuple[int, int], str]:
    """Returns the sort key, smaller first, and the same in words."""
    channel, priority = offer[0], f"priority {offer[0].priority}"
    if policy is Policy.FASTEST:
        return (0, 0), "fastest"
    if policy is Policy.LOCAL:
        near = is_local(channel)
        return (not near, -channel.priority), f"{'local' if near else 'not local'}, {priority}"
    if policy is Policy.CHEAPEST:
        nanos = _typical_price(offer, now)
        if nanos is None:
            return (10**18, -channel.priority), f"price unknown, {priority}"  # above all known prices
        return (nanos, -channel.priority), f"about {brief_dollars(nanos)} a million tokens, {priority}"
    return (0, -channel.priority), priority


def _typical_price(offer: Offer, now: Millis) -> int | None:
    """Returns nano-dollars per million tokens at this channel; None if its price is unknown."""
    channel, served = offer
    price = served.published or served.price
    if price is None:
        return 0 if is_local(channel) else None
    price = in_force(price, now)
    return (3 * price.input + price.output) * channel.cost_factor // (4 * MILLION)


def _busy_from(policy: Policy, channel: Channel) -> int:
    """Returns ``Rank.busy_from``: one call makes a local server busy, unless the owner allows more."""
    return 1 if policy is Policy.LOCAL and is_local(channel) and channel.limits.concurrent is None else 0


def fallback_models(model: str, fallbacks: Sequence[Fallback]) -> tuple[str, ...]:
    """Returns the models that may answer for this one, in the order of the first matching rule."""
    for fallback in fallbacks:
        if matches(model, (fallback.model,)):
            return tuple(name for name in fallback.to if name != model)
    return ()
