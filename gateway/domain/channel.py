"""A channel: one upstream account that can answer calls, what it overrides in requests, and its upstream's models."""

from enum import StrEnum
from typing import Any

import msgspec

from gateway.domain.errors import BadRequest
from gateway.domain.limits import Limits
from gateway.domain.price import Price, PriceAmounts, PriceRule, Tier
from gateway.domain.text import mask, plain
from gateway.domain.units import MILLION, ChannelId, Millis, Nanos

OURS = frozenset({"model", "messages", "stream", "stream_options"})
"""Parameters that the gateway sets itself."""
SYSTEM_LIMIT = 100_000

_TYPES: tuple[tuple[str, tuple[type, ...], frozenset[str]], ...] = (
    (
        "a number",
        (int, float),
        frozenset({"temperature", "top_p", "min_p", "frequency_penalty", "presence_penalty", "repetition_penalty"}),
    ),
    (
        "a whole number",
        (int,),
        frozenset({"max_tokens", "max_completion_tokens", "max_output_tokens", "n", "seed", "top_k", "top_logprobs"}),
    ),
    ("true or false", (bool,), frozenset({"parallel_tool_calls", "store", "echo", "enable_thinking"})),
    ("a text", (str,), frozenset({"reasoning_effort", "service_tier", "verbosity", "user", "suffix"})),
    ("an object", (dict,), frozenset({"response_format", "logit_bias", "metadata", "thinking", "reasoning"})),
    ("a list", (list,), frozenset({"tools", "modalities", "stop_sequences"})),
    ("a text or a list", (str, list), frozenset({"stop"})),
    ("a text or an object", (str, dict), frozenset({"tool_choice"})),
)
"""The types of well-known parameters. Upstreams answer 400 to other types; allowed ranges differ."""


class Overrides(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The owner's changes to requests. Applied in this order: ``remove``, ``default``, ``set``, then the
    system prompt.
    """

    set: dict[str, Any] = {}
    """Parameters that always have this value. Values are the owner's JSON, passed on unread."""
    default: dict[str, Any] = {}
    """Parameters that have this value if the client sends none, or null."""
    remove: tuple[str, ...] = ()
    """Parameters that are never sent."""
    system: str = ""
    """A system prompt; empty: none."""
    replace_system: bool = False
    """Whether it replaces the client's system messages instead of preceding them."""

    def __bool__(self) -> bool:
        return bool(self.set or self.default or self.remove or self.system)


def check_overrides(overrides: Overrides) -> None:
    """Raises BadRequest for invalid names, names that the gateway sets itself, and values of a wrong type."""
    for name in (*overrides.set, *overrides.default, *overrides.remove):
        if not name or name != plain(name, 100) or name != name.strip():
            raise BadRequest(f"overrides: '{plain(name, 100)}' is not a parameter name", param="overrides")
        if name in OURS:
            raise BadRequest(f"overrides: '{name}' is set by the gateway itself", param="overrides")
    for name, value in (*overrides.default.items(), *overrides.set.items()):
        _check_type(name, value)
    both = ", ".join(sorted(overrides.set.keys() & {*overrides.default, *overrides.remove}))
    if both:
        raise BadRequest(f"overrides: what is set has no default and is not removed: {both}", param="overrides")
    if len(overrides.system) > SYSTEM_LIMIT:
        raise BadRequest(f"overrides: the system prompt is longer than {SYSTEM_LIMIT} characters", param="overrides")
    if overrides.replace_system and not overrides.system:
        raise BadRequest("overrides: there is no system prompt to replace the client's with", param="overrides")


def _check_type(name: str, value: Any) -> None:
    """Check a value's type. Null is allowed: it means the upstream's own default."""
    rule = next(((what, types) for what, types, names in _TYPES if name in names), None)
    if rule is None or value is None:
        return
    what, types = rule
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        shown = plain(msgspec.json.encode(value).decode(), 60)
        raise BadRequest(f"overrides: {name} must be {what}, not {shown}", param="overrides")


class DialectInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What is special about channels of a dialect. Their wire format is in ``upstream``."""

    needs_url: bool = True
    """Whether they connect to a base URL. Otherwise they are answered in this process."""
    root_may_vary: bool = False
    """Whether a base URL may lack ``/v1`` or have one too many, because many vendors speak it."""
    lists_models: bool = True
    """Whether their upstreams list models, in a list that may change."""
    has_options: bool = False
    key_header: str = ""
    """The header of the key; empty: the vendor's, usually ``Authorization: Bearer``. A new one is also in
    ``_KEY_HEADERS`` of ``control.validation`` and ``_NEVER_FORWARDED`` of ``inbound.relay``."""
    adds_tools: bool = False
    """Whether requests get tools if the conversation has tool calls but no tools."""
    names_results: bool = False
    """Whether requests get a tool's name beside each of its results."""
    effort_counts: bool = False
    """Whether the requested reasoning effort limits the output."""


class Dialect(StrEnum):
    """The wire format of a channel."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"
    GEMINI = "gemini"
    MOCK = "mock"

    @property
    def info(self) -> DialectInfo:
        """Returns what is special about its channels."""
        return _DIALECTS[self]


_DIALECTS = {
    Dialect.OPENAI: DialectInfo(root_may_vary=True),
    Dialect.ANTHROPIC: DialectInfo(key_header="x-api-key", adds_tools=True),
    Dialect.GEMINI: DialectInfo(key_header="x-goog-api-key", names_results=True, effort_counts=True),
    Dialect.MOCK: DialectInfo(needs_url=False, lists_models=False, has_options=True),
}


class UpstreamPrices(PriceAmounts, frozen=True, kw_only=True, omit_defaults=True):
    """An upstream's published price of a model. Calls are charged at our Price."""

    per_call: Nanos = Nanos(0)
    tiers: tuple[Tier, ...] = ()
    rules: tuple[PriceRule, ...] = ()
    """Prices for service tiers and hours of the day."""


class ServedModel(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One model of a channel: its public name and its upstream name."""

    name: str
    upstream: str = ""
    """The upstream name; empty: the public name."""
    created: Millis = Millis(0)
    """When the model was first seen here. Clients see whole seconds."""
    context: int | None = None
    """Context length in tokens, if the upstream reports it."""
    max_output: int | None = None
    """The most output tokens of one answer, if the upstream reports them, or the context that no answer exceeds.

    A request's higher limit is lowered to it, so a wrong one makes answers shorter but never lets more be spent than is
    held.
    """
    told: UpstreamPrices | None = None
    """Its price there, if the upstream publishes it."""
    live: bool = False
    """Whether a pattern selected it: it is removed when the upstream does not list it any more."""
    price: Price | None = None
    """Its price at this channel, if the owner or a list set one here. It comes before the model's; see
    ``core.model_prices``."""

    @property
    def upstream_name(self) -> str:
        """Returns the name to request from the upstream."""
        return self.upstream or self.name


DEFAULT_HEAD_S = 120.0


class Timeouts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Deadlines of one attempt, in seconds."""

    connect: float = 10.0
    """For DNS, TCP and TLS together."""
    head: float = DEFAULT_HEAD_S
    """From the sent request to the head of the response. Most upstreams send the head of a plain answer only with all
    of it, so for plain calls only a deadline below the default counts; see ``head_s``."""
    idle: float = 300.0
    """Between two data events of a stream. Comments do not count."""
    comments: float = 900.0
    """How long a stream may send only comments."""
    total: float = 600.0
    """For all attempts of a plain call. A stream that keeps sending may take longer."""

    def head_s(self, *, stream: bool) -> float:
        """Returns how long the head of an answer may take: ``head``, but for a plain call ``total`` unless ``head`` is
        short.
        """
        return self.head if stream or self.head < DEFAULT_HEAD_S else max(self.head, self.total)


class TokenLimitField(StrEnum):
    """The name of the output limit that the upstream understands."""

    KEEP = "keep"
    MAX_TOKENS = "max_tokens"
    MAX_COMPLETION_TOKENS = "max_completion_tokens"


class Check(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The last test of a channel."""

    time: Millis
    ok: bool
    """Whether the channel can be used: at least one of its keys is accepted."""
    ms: Millis
    text: str = ""
    failed_keys: int = 0
    """How many of several keys were not accepted."""


class ChannelFields(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the owner edits. ``key``, ``keys``, ``headers`` and ``proxy`` may hold secrets.

    A new field is also a ``Field`` of ``CHANNEL`` in ``domain.fields``.
    """

    name: str
    base_url: str = ""
    """The root above ``/chat/completions``, for example ``https://host/v1``; for ``anthropic`` and ``gemini`` the
    version may be omitted. Empty for ``mock``."""
    key: str = ""
    """The upstream's key, or ``env:NAME``. Never shown, logged or exported."""
    keys: tuple[str, ...] = ()
    """More keys of the same upstream, in the same form. Each is paused on its own when it is limited or rejected."""
    models: tuple[ServedModel, ...] = ()
    patterns: tuple[str, ...] = ()
    """Which names of the upstream's own list are also offered: ``gpt-*``, ``!gpt-*-preview``; empty: only the names in
    ``models``."""
    groups: tuple[str, ...] = ("default",)
    priority: int = 0
    """Higher priorities are tried first."""
    weight: int = 1
    """Its share of the draw within one priority; 0 is never drawn unless all are 0."""
    cost_factor: int = MILLION
    """What its upstream charges, in parts per million of a model's price. Only ``cheapest`` uses it."""
    enabled: bool = True
    """Set by the owner only."""
    preset: str = ""
    """The known upstream whose quirks apply; empty: found by the base URL, if known."""
    limits: Limits = Limits()
    timeouts: Timeouts = Timeouts()
    headers: dict[str, str] = {}
    """Additional request headers. Values may be ``env:NAME``."""
    overrides: Overrides | None = None
    """What is changed in every request; None: nothing."""
    proxy: str = ""
    """``http://user:password@host:port`` of its proxy, or ``env:NAME``; empty: none. It may hold a password: never
    shown, logged or exported as it is."""
    token_limit_field: TokenLimitField | None = None
    """None: the preset's."""
    strict: bool = False
    """Fail instead of calling again without a parameter that the upstream rejected."""
    finish_abandoned: bool = True
    """When the client of a plain call leaves: finish it and charge the true usage (True), or cancel it (False)."""
    cache_marks: bool = True
    """Mark prompts for the vendor's cache if the client sets no marks. Used by Anthropic's dialect."""
    options: dict[str, str | int | float | bool] = {}
    """Options of the ``mock`` dialect."""
    known_prices: bool = True
    """New models without a price get the one that the program knows, if any."""
    note: str = ""


class Channel(ChannelFields, frozen=True, omit_defaults=True):
    """One upstream account: where it is, what it offers, to whom, in which order.

    Its own fields precede the inherited, keyword-only ones, so that an exported channel begins with its dialect.
    """

    id: ChannelId
    dialect: Dialect
    """Set once, when the channel is created."""
    created: Millis = Millis(0)
    last_check: Check | None = None

    @property
    def all_keys(self) -> tuple[str, ...]:
        """Returns its keys in the order of their numbers; empty if it has none."""
        return (self.key, *self.keys) if self.key else ()


def key_id(channel: ChannelId, number: int) -> ChannelId:
    """Returns the id under which the state of one of several keys is kept."""
    return ChannelId(f"{channel}#{number}")


def key_name(number: int, key: str) -> str:
    """Returns a key's name for people: its number, from 1, and its mask."""
    return f"{number} {mask(key)}"


class UpstreamModels(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The last good list of one channel's upstream."""

    channel: ChannelId
    time: Millis
    """When the list came; 0: none ever came, and ``error`` says why."""
    models: tuple[ServedModel, ...] = ()
    new: tuple[str, ...] = ()
    """Upstream names that were not in the list before."""
    gone: tuple[str, ...] = ()
    """Upstream names that were in the list before."""
    unnamed: int = 0
    """How many models were left out: without a name, or with one that is too long or has control characters."""
    tried: Millis = Millis(0)
    """When fetching the list last failed since then; 0: never."""
    error: str = ""
    """Why that failed."""
    key_refused: bool = False
    """Whether it failed because the upstream did not accept the key."""
