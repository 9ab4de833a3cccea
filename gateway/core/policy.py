"""Policy: in which order a group's channels are asked for a model. Pure; worked out when the configuration changes.

``priority``: the highest first. ``cheapest``: by what three input tokens and one output token cost there: as the
upstream tells, else by the price of its own name of the model, else by the model's; local servers without a price are
free. ``local``: servers of this machine and this network first, each only while it has no other call, if its limits
say nothing else. ``fastest``: as measured, which ``routing`` looks up. What is equal is ordered by priority.
"""

from collections.abc import Sequence

import msgspec

from gateway.domain.channel import Channel, Dialect, Served
from gateway.domain.group import Policy
from gateway.domain.money import brief_dollars
from gateway.domain.registry import Registry
from gateway.domain.units import MILLION
from gateway.domain.urls import is_near

UNKNOWN = 10**18
"""A price above all others."""
SPILL = 1
"""A local server with so many calls is busy."""

Offer = tuple[Channel, Served]


class Rank(msgspec.Struct, frozen=True):
    """Where a channel stands among those that serve a model."""

    tier: int = 0
    """Lower is asked first."""
    place: str = ""
    """Why, in words."""
    spill: int = 0
    """Calls in flight from which it is passed over as busy; 0: it never is."""
    timed: bool = False
    """Which one is first is measured."""


def ranked(policy: Policy, offers: Sequence[Offer], registry: Registry) -> list[tuple[Offer, Rank]]:
    """The channels of one model in the order they are asked."""
    marked = sorted((*_mark(policy, offer, registry), offer[0].name, offer) for offer in offers)
    marks = sorted({mark for mark, *_ in marked})
    timed = policy is Policy.FASTEST
    return [
        (offer, Rank(marks.index(mark), place, _spill(policy, offer[0]), timed)) for mark, place, _, offer in marked
    ]


def is_local(channel: Channel) -> bool:
    """Whether it answers on this machine or in this network."""
    return channel.dialect is Dialect.MOCK or is_near(channel.base_url)


def _mark(policy: Policy, offer: Offer, registry: Registry) -> tuple[tuple[int, int], str]:
    """What the order goes by, smaller first, and the same in words."""
    channel, priority = offer[0], f"priority {offer[0].priority}"
    if policy is Policy.FASTEST:
        return (0, 0), "fastest"
    if policy is Policy.LOCAL:
        near = is_local(channel)
        return (not near, -channel.priority), f"{'local' if near else 'not local'}, {priority}"
    if policy is Policy.CHEAPEST:
        nanos = _dearness(offer, registry)
        if nanos is None:
            return (UNKNOWN, -channel.priority), f"price unknown, {priority}"
        return (nanos, -channel.priority), f"about {brief_dollars(nanos)} a million tokens, {priority}"
    return (0, -channel.priority), priority


def _dearness(offer: Offer, registry: Registry) -> int | None:
    """Nano-dollars per million tokens at this channel; None if its price is not known."""
    channel, served = offer
    price = served.told or registry.prices.get(served.upstream_name) or registry.prices.get(served.name)
    if price is None:
        return 0 if is_local(channel) else None
    return (3 * price.input + price.output) * channel.cost_factor // (4 * MILLION)


def _spill(policy: Policy, channel: Channel) -> int:
    return SPILL if policy is Policy.LOCAL and is_local(channel) and channel.limits.concurrent is None else 0
