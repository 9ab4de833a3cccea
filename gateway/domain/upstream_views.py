"""Upstream views: the known vendors, what an upstream lists, and what price lists have."""

import msgspec

from gateway.domain.channel import UpstreamPrices
from gateway.domain.limits import Limits
from gateway.domain.price_view import PriceView
from gateway.domain.units import Millis
from gateway.domain.views import ChannelView, ModelView


class PresetView(msgspec.Struct, frozen=True, kw_only=True):
    """A known vendor or model server: what a channel gets from its preset."""

    name: str
    dialect: str
    base_url: str
    """The base URL; empty: it has no fixed one."""
    key_variable: str
    """The variable in which its documentation keeps the key; empty: none is needed, or named."""
    local: bool
    """Whether it usually runs on the same machine."""


class ListedModel(msgspec.Struct, frozen=True, kw_only=True):
    """One model of an upstream's own list, compared with what the channel offers."""

    name: str
    """Its name at the upstream."""
    state: str
    """``new`` and ``gone``: since the list changed last; ``offered``; ``kept_out``: listed and not offered."""
    served: bool
    """Whether the channel offers it to clients."""
    public: str
    """The name that clients use, its own if that is one of several; empty if it is not offered."""
    context: int | None
    told: UpstreamPrices | None
    max_output: int | None = None
    known_context: int | None = None
    """The context used here: as listed, else from the price list."""
    context_source: str = ""
    """Of ``known_context``: ``upstream``, or the name of the price list; empty: it is not known."""


class ListingView(msgspec.Struct, frozen=True, kw_only=True):
    """The last good list of a channel's upstream."""

    channel: str
    patterns: list[str]
    time_ms: Millis | None
    """When it came; None without a list."""
    stale: bool
    """Whether it could not be refreshed since, or is old."""
    error: str
    """Why it could not be refreshed."""
    models: list[ListedModel]
    unnamed: int = 0
    """How many models were left out because their names cannot be used."""
    unpriced: list[str] = []
    """Models that the channel offers without a price."""


class ModelRoute(msgspec.Struct, frozen=True, kw_only=True):
    """One channel that serves a model, as one group has it."""

    group: str
    """Empty: the channel serves no group, or is disabled."""
    order: int
    """Its order: 1 is tried first; channels with the same number share the calls by weight. 0: not tried."""
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
    """The channel's limits."""
    context: int | None
    max_output: int | None
    """The most output tokens of one answer there; None: unknown."""
    context_source: str = ""
    """As in a ``ModelView``."""
    price: PriceView | None = None
    """The price of calls that this channel answers."""


class ModelDetail(ModelView, frozen=True, kw_only=True):
    """Everything about one public model name."""

    max_output: int | None
    """The highest limit of its channels; None: unknown at some channel."""
    fallbacks: dict[str, list[str]]
    """By group, the models that answer if no channel can serve it; for an alias, the ones it stands for."""
    tokens: list[str]
    """Names of the tokens that see it."""
    routes: list[ModelRoute]


class PriceProposal(msgspec.Struct, frozen=True, kw_only=True):
    """A model's price in a price list, beside the present one."""

    model: str
    channel: str
    """The name of the channel whose vendor charges this price."""
    now: PriceView | None
    listed: PriceView
    kept: bool
    """Whether the owner set the present price: the list does not replace it."""
    differs: bool
    """Whether importing it would change what calls cost."""
    change: str = ""
    """``new``, ``up`` (any of its rates), ``down`` or ``same``."""
    guard: str = ""
    """Why it is imported only after confirmation: a steep rise, or what looks like another unit; else empty."""
    applied: bool = False
    """Whether this request imported it."""


class SavedChannel(ChannelView, frozen=True, kw_only=True, omit_defaults=False):
    """Answer to creating or editing a channel."""

    new_prices: tuple[PriceView, ...] = ()
    """Known prices that its new models got."""
    unpriced: tuple[str, ...] = ()
    """Its unpriced models: their calls are counted, not charged, or refused."""
    refuses_unpriced: bool = False
    """Calls of models without a price are refused."""
    unchanged: bool = False
    """Whether nothing changed, including what is not shown."""

    def of_changed(self, before: ChannelView) -> "SavedChannel":
        """Returns the same with only those unpriced models that an edit changed."""
        known = {(model.name, model.upstream) for model in before.models}
        changed = {model.name for model in self.models if (model.name, model.upstream) not in known}
        return msgspec.structs.replace(self, unpriced=tuple(name for name in self.unpriced if name in changed))
