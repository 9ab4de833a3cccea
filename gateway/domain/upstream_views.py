"""Upstream views: known vendors, the models of upstreams, and prices in price lists."""

import msgspec

from gateway.domain.limits import Limits
from gateway.domain.price import UpstreamPrices
from gateway.domain.price_view import PriceView
from gateway.domain.units import Millis
from gateway.domain.views import ChannelView, ModelView


class PresetView(msgspec.Struct, frozen=True, kw_only=True):
    """A known vendor or model server: the values that a channel gets from its preset."""

    name: str
    dialect: str
    base_url: str
    """The base URL; empty if it differs."""
    key_variable: str
    """The environment variable that its documentation uses for the key, or an empty string."""
    local: bool
    """Whether it usually runs on the same machine."""


class ListedModel(msgspec.Struct, frozen=True, kw_only=True):
    """One model in an upstream's own list, compared with what the channel offers."""

    name: str
    """Its name at the upstream."""
    state: str
    """``new`` or ``gone`` by the last change of the list; else ``offered`` or ``kept_out``."""
    served: bool
    public: str
    """The name that clients use, preferably the upstream's; empty if it is not offered."""
    context: int | None
    published: UpstreamPrices | None
    max_output: int | None = None
    known_context: int | None = None
    """The context length that counts: the upstream's, else the price list's."""
    context_source: str = ""
    """The source of ``known_context``: ``upstream`` or the name of the price list; empty if it is unknown."""


class ListingView(msgspec.Struct, frozen=True, kw_only=True):
    """The last list of models that a channel's upstream sent."""

    channel: str
    patterns: list[str]
    time_ms: Millis | None
    """When it was fetched; None until that succeeds."""
    stale: bool
    """Whether it is old, or could not be refreshed."""
    error: str
    """Why it could not be refreshed."""
    models: list[ListedModel]
    unnamed: int = 0
    """The number of models that were left out because their names cannot be used."""
    unpriced: list[str] = []
    refuses_unpriced: bool = False


class ModelRoute(msgspec.Struct, frozen=True, kw_only=True):
    """One channel that serves a model for a group."""

    group: str = ""
    """The name of the group; empty if the channel serves no group, or is disabled."""
    order: int = 0
    """Its place, from 1, where equal ones share the calls by weight; 0 if it is not tried."""
    place: str = ""
    """Why it has this order, for example ``priority 10``."""
    channel: str
    dialect: str
    upstream_model: str
    state: str
    """The state of the channel: ``ok``, ``cooling``, ``half_open``, ``attention`` or ``off``."""
    reason: str
    weight: int
    limits: Limits
    context: int | None
    max_output: int | None
    """The maximum output tokens of one answer there; None if unknown."""
    context_source: str = ""
    """See ``ModelView.context_source``."""
    price: PriceView | None = None
    """The price of calls that this channel answers."""


class ModelDetail(ModelView, frozen=True, kw_only=True):
    """Everything about one public model name."""

    max_output: int | None
    """The highest limit of its channels; None if it is unknown at one of them."""
    fallbacks: dict[str, list[str]]
    """By group, the models that may answer if no channel can serve it; for an alias, those that it stands for."""
    tokens: list[str]
    """The names of the tokens that see it."""
    routes: list[ModelRoute]
    refuses_unpriced: bool = False


class PriceProposal(msgspec.Struct, frozen=True, kw_only=True):
    """The price of a model in a price list, compared with the current one."""

    model: str
    channel: str
    """The name of the channel whose vendor charges this price."""
    now: PriceView | None
    listed: PriceView
    kept: bool
    """Whether the owner set the current price, so that the list does not replace it."""
    differs: bool
    """Whether importing it would change what calls cost."""
    change: str = ""
    """``new``, ``up`` (if any rate rises), ``down`` or ``same``."""
    guard: str = ""
    """Why it is imported only after confirmation, because it rises much or looks like another unit; else empty."""
    applied: bool = False
    """Whether this request imported it."""


class SavedChannel(ChannelView, frozen=True, kw_only=True, omit_defaults=False):
    """A channel that was created or edited."""

    new_prices: tuple[PriceView, ...] = ()
    """The list prices that its new models got."""
    unpriced: tuple[str, ...] = ()
    """Its new or changed models without a price, whose calls are refused or not charged. The demo's need none."""
    refuses_unpriced: bool = False
    unchanged: bool = False
    """Whether nothing changed, not even what is not shown."""
