"""ModelEntry and Route: a model as one group sees it, and the channels that serve it."""

from collections.abc import Sequence

import msgspec

from gateway.core.group_policy import Rank
from gateway.core.quota import NO_EFFECTS, ChannelEffects, effects_of
from gateway.core.rate_scopes import RateScope
from gateway.domain.channel import Channel, ServedModel, UpstreamPrices
from gateway.domain.units import ChannelId, Millis


class Route(msgspec.Struct, frozen=True):
    """One way to a model: the channel, and the model as that channel serves it."""

    channel: Channel
    served: ServedModel
    rank: Rank = Rank()
    keys: tuple["Route", ...] = ()
    """The same route once for each key, if the channel has several: each ``channel`` has that key alone."""
    key_id: ChannelId = ChannelId("")
    """The id under which the state of one of several keys is kept."""
    key_name: str = ""
    """The key's number and mask, for records."""
    scope: RateScope | None = None
    """The channel's limits."""
    api: str = ""
    """The inbound API that the route is for, if not every channel offers that API."""

    @property
    def subject(self) -> str:
        """Returns what is noted as missing if the upstream lacks it: the model, or the model through this API."""
        return f"{self.served.name} by {self.api}" if self.api else self.served.name


class ModelEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A public model name as one group sees it."""

    name: str
    created: Millis
    """When its first channel began to serve it."""
    owner: str
    """The name of the channel that is tried first."""
    context: int | None
    routes: tuple[Route, ...]
    """The routes in the order of the group's policy, then by channel name."""
    total_s: float = 600.0
    """The most seconds that a call may take, with all its attempts."""
    first_tier: tuple[Route, ...] = ()
    """The routes to draw from while all channels are healthy; empty if choosing takes more than a draw."""
    fallbacks: tuple["ModelEntry", ...] = ()
    """Other models that may answer when no route can. They have no fallbacks of their own."""
    scopes: tuple[RateScope, ...] = ()
    """The limits of its only channel, if that has rates: they are reported like those of the token."""
    effects: ChannelEffects = NO_EFFECTS
    """What its channels, without those of its fallbacks, make of a call's input and output."""
    published_price: UpstreamPrices | None = None
    """The price at the first channel whose upstream publishes one."""
    max_output: int | None = None
    """The largest output limit of its channels; None if the limit of one is unknown."""


def narrow_to_api(entry: ModelEntry, api: str, routes: Sequence[Route], fallbacks: Sequence[ModelEntry]) -> ModelEntry:
    """Returns the model for one API, with only these routes, whose channels can answer."""
    narrowed = tuple(_route_for(route, api) for route in routes)
    return msgspec.structs.replace(
        entry,
        routes=narrowed,
        first_tier=first_tier(narrowed),
        fallbacks=tuple(fallbacks),
        scopes=() if fallbacks else only_scopes(narrowed),
        effects=effects_of((route.channel, route.served) for route in narrowed),
        total_s=max((route.channel.timeouts.total for route in narrowed), default=entry.total_s),
    )


def _route_for(route: Route, api: str) -> Route:
    return msgspec.structs.replace(route, api=api, keys=tuple(_route_for(key_route, api) for key_route in route.keys))


def only_scopes(routes: Sequence[Route]) -> tuple[RateScope, ...]:
    """Returns the limits of the only channel, if it has rates."""
    scope = routes[0].scope if len(routes) == 1 else None
    return (scope,) if scope is not None and scope.rated else ()


def first_tier(routes: Sequence[Route]) -> tuple[Route, ...]:
    """Returns the routes of the first tier if only weights decide within it, else nothing."""
    tier = tuple(route for route in routes if route.rank.tier == routes[0].rank.tier)
    rated = any(route.scope is not None and route.scope.rated for route in tier)
    depends_on_state = any(route.keys or route.rank.busy_from or route.rank.by_latency for route in tier)
    return () if rated or depends_on_state else tier


def stands_for(entry: ModelEntry) -> str:
    """Returns the first model that answers for an alias of a group; empty for other models."""
    return "" if (target := answering(entry)) is entry else target.name


def answering(entry: ModelEntry) -> ModelEntry:
    """Returns the model itself, or, for an alias of a group, the first model that answers for it."""
    return entry.fallbacks[0] if entry.fallbacks and not entry.routes else entry
