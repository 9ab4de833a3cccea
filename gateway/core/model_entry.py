"""ModelEntry and Route: a model as one group sees it, and the channels that serve it."""

from collections.abc import Sequence

import msgspec

from gateway.core.channel_effects import NO_EFFECTS, ChannelEffects
from gateway.core.group_policy import Rank
from gateway.core.rate_scopes import RateScope
from gateway.domain.channel import Channel, ServedModel
from gateway.domain.price import UpstreamPrices
from gateway.domain.units import ChannelId, Millis


class Route(msgspec.Struct, frozen=True):
    """A channel that serves a model, and the model as that channel serves it."""

    channel: Channel
    served: ServedModel
    scope: RateScope
    rank: Rank = Rank()
    keys: tuple["Route", ...] = ()
    """This route once for each key, with a ``channel`` that has only that key; empty if the channel has one key."""
    key_id: ChannelId = ChannelId("")
    """The id that the state of one of several keys is kept under."""
    key_name: str = ""
    """The key's number and mask, for records."""
    api: str = ""
    """The inbound API that the route is for, if not every channel offers that API."""

    @property
    def subject(self) -> str:
        """Returns the name that the upstream's lack is remembered by: the model's, or ``MODEL by API``."""
        return f"{self.served.name} by {self.api}" if self.api else self.served.name

    def for_api(self, api: str) -> "Route":
        return msgspec.structs.replace(self, api=api, keys=tuple(route.for_api(api) for route in self.keys))


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
    """The maximum duration of a call with all its attempts, in seconds."""
    fallbacks: tuple["ModelEntry", ...] = ()
    """Other models that may answer when no route can. They have no fallbacks of their own."""
    scopes: tuple[RateScope, ...] = ()
    """The limits of its only channel, if it has rates. They are reported to clients like the token's."""
    effects: ChannelEffects = NO_EFFECTS
    """What its channels, without those of its fallbacks, do to a call's input, output and cost."""
    published_price: UpstreamPrices | None = None
    """The price at the first channel whose upstream publishes one."""
    max_output: int | None = None
    """The largest output limit of its channels; None if the limit of one is unknown."""


def scopes_of_only_channel(routes: Sequence[Route]) -> tuple[RateScope, ...]:
    """Returns the limits of the only channel if it has rates; empty if not, or if there are several channels."""
    return (routes[0].scope,) if len(routes) == 1 and routes[0].scope.has_rates else ()


def answering_model(entry: ModelEntry) -> ModelEntry:
    """Returns the model itself, or, for an alias of a group, the first model that answers for it."""
    return entry.fallbacks[0] if entry.fallbacks and not entry.routes else entry
