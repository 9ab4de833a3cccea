"""Offered: views of what is out there: the known vendors, what an upstream lists, and what price lists say."""

import msgspec

from gateway.domain.channel import UpstreamPrices
from gateway.domain.limits import Limits
from gateway.domain.price_view import PriceView
from gateway.domain.units import Millis, Nanos
from gateway.domain.views import ChannelView


class PresetView(msgspec.Struct, frozen=True, kw_only=True):
    """A known vendor or model server: what a channel gets from its preset."""

    name: str
    dialect: str
    base_url: str
    """Empty: it has no fixed place."""
    key_variable: str
    """Where its documentation keeps the key; empty: none is needed, or none is named."""
    local: bool
    """It usually runs on the same machine."""


class ListedModel(msgspec.Struct, frozen=True, kw_only=True):
    """One model of an upstream's own list, beside what the channel offers."""

    name: str
    """What the upstream calls it."""
    state: str
    """``new`` and ``gone``: since the list changed last; ``offered``; ``kept_out``: listed and not offered."""
    served: bool
    """Whether the channel offers it to clients."""
    public: str
    """The name clients know it by, its own if that is one of several; empty if it is not offered."""
    context: int | None
    told: UpstreamPrices | None
    max_output: int | None = None
    known_context: int | None = None
    """Its context in use here: as listed, else that of the price list."""
    context_source: str = ""
    """Of ``known_context``: ``upstream``, or the name of the price list; empty: it is not known."""


class ListingView(msgspec.Struct, frozen=True, kw_only=True):
    """The last good list of a channel's upstream."""

    channel: str
    patterns: list[str]
    time_ms: Millis | None
    """When it came; None: there is none."""
    stale: bool
    """It could not be refreshed since, or is old."""
    error: str
    """Why it could not be refreshed."""
    models: list[ListedModel]
    unnamed: int = 0
    """Models that were left out, because their names cannot be used."""
    unpriced: list[str] = []
    """Models that the channel offers without a price."""


class ModelRoute(msgspec.Struct, frozen=True, kw_only=True):
    """One channel that serves a model, as one group has it."""

    group: str
    """Empty: the channel serves no group, or is disabled."""
    order: int
    """1 is tried first; channels of the same number share the calls by weight. 0: not tried."""
    place: str
    """Why it has this place, for example ``priority 10``."""
    channel: str
    dialect: str
    upstream_model: str
    state: str
    """As a channel's: ``ok``, ``cooling``, ``half_open``, ``attention`` or ``off``."""
    reason: str
    weight: int
    limits: Limits
    """Of the channel."""
    context: int | None
    max_output: int | None
    """The most output tokens of one answer there; None: not known."""
    context_source: str = ""
    """As in a ``ModelView``."""
    price: PriceView | None = None
    """What calls cost that this channel answers."""


class ModelDetail(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about one public model name."""

    name: str
    price: PriceView | None
    told: UpstreamPrices | None
    """The price published by the upstream that is tried first."""
    context: int | None
    max_output: int | None
    """Of several channels the highest; None: of some channel it is not known."""
    groups: list[str]
    """Those that show it."""
    fallbacks: dict[str, list[str]]
    """By group, the models that answer if no channel can serve it; of an alias the ones it stands for."""
    tokens: list[str]
    """Names of the tokens that see it."""
    routes: list[ModelRoute]
    calls: int
    spent_nanos: Nanos
    context_source: str = ""
    """As in a ``ModelView``."""


class PriceProposal(msgspec.Struct, frozen=True, kw_only=True):
    """A model's price as a price list has it, beside the one that holds now."""

    model: str
    channel: str
    """Name of the channel whose vendor asks this price."""
    now: PriceView | None
    listed: PriceView
    kept: bool
    """The owner set the present price by hand: the list does not replace it."""
    differs: bool
    """Importing it would change what calls cost."""
    change: str = ""
    """``new``, ``up`` (any of its rates), ``down`` or ``same``."""
    guard: str = ""
    """Why it is imported only if that is accepted: a steep rise, or what looks like another unit. Else empty."""
    applied: bool = False
    """It was imported by this very request."""


class SavedChannel(ChannelView, frozen=True, kw_only=True, omit_defaults=False):
    """Answer to creating or editing a channel."""

    new_prices: tuple[PriceView, ...] = ()
    """Known prices that its new models got."""
    unpriced: tuple[str, ...] = ()
    """Its models that have no price: their calls are counted, not charged, or refused."""
    refuses_unpriced: bool = False
    """Calls of models without a price are refused."""
    unchanged: bool = False
    """Everything was so already, also what is not shown."""

    def of_changed(self, before: ChannelView) -> "SavedChannel":
        """The same; of models without a price only those that an edit changed."""
        known = {(model.name, model.upstream) for model in before.models}
        changed = {model.name for model in self.models if (model.name, model.upstream) not in known}
        return msgspec.structs.replace(self, unpriced=tuple(name for name in self.unpriced if name in changed))
