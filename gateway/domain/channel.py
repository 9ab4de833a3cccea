"""Channel: one upstream account that can answer calls, its changes to requests, and its upstream's models."""

from enum import StrEnum
from typing import Any

import msgspec

from gateway.domain.errors import BadRequest
from gateway.domain.json_elements import elements_of
from gateway.domain.limits import Limits
from gateway.domain.price import Price, UpstreamPrices
from gateway.domain.text import mask, plain
from gateway.domain.units import MILLION, ChannelId, Factor, Millis

OURS = frozenset({"model", "messages", "stream", "stream_options"})
"""Parameters that the gateway sets itself."""

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
"""The types of well-known parameters. All upstreams agree on them, but not on the ranges."""


class Overrides(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The owner's changes to requests, applied in this order: ``remove``, ``default``, ``set``, the system prompt."""

    set: dict[str, Any] = {}
    """Parameters that every request gets, with any JSON as values."""
    default: dict[str, Any] = {}
    """Parameters that have this value if the client sends none, or null."""
    remove: tuple[str, ...] = ()
    """Parameters that are never sent."""
    system: str = ""
    replace_system: bool = False
    """Whether it replaces the client's system messages instead of preceding them."""

    def __bool__(self) -> bool:
        return bool(self.set or self.default or self.remove or self.system)


def check_overrides(value: Overrides | None) -> None:
    """Raises BadRequest for invalid names, names that the gateway sets itself, and values of a wrong type or depth."""
    overrides = Overrides() if value is None else value
    for name in (*overrides.set, *overrides.default, *overrides.remove):
        if not name or name != plain(name, 100) or name != name.strip():
            raise BadRequest(f"overrides: '{plain(name, 100)}' is not a parameter name", param="overrides")
        if name.partition(".")[0] in OURS:
            raise BadRequest(f"overrides: '{name}' is set by the gateway itself", param="overrides")
    for name, parameter in (*overrides.default.items(), *overrides.set.items()):
        _check_type(name, parameter)
        if elements_of(parameter).depth > 51:  # an export writes each level in a function call
            raise BadRequest(f"overrides: {name} is nested deeper than 50 levels", param="overrides")
    both = ", ".join(sorted(overrides.set.keys() & {*overrides.default, *overrides.remove}))
    if both:
        msg = f"overrides: a parameter that is set can neither have a default nor be removed: {both}"
        raise BadRequest(msg, param="overrides")
    if len(overrides.system) > 100_000:
        raise BadRequest("overrides: the system prompt is longer than 100000 characters", param="overrides")
    if overrides.replace_system and not overrides.system:
        raise BadRequest("overrides: a system prompt is needed to replace the client's", param="overrides")


def _check_type(name: str, value: Any) -> None:
    """Raises BadRequest for a value of the wrong type. Null is allowed, because it means the upstream's default."""
    rule = next(((expected, types) for expected, types, names in _TYPES if name in names), None)
    if rule is None or value is None:
        return
    expected, types = rule
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        text = plain(msgspec.json.encode(value).decode(), 60)
        raise BadRequest(f"overrides: {name} must be {expected}, not {text}", param="overrides")


class DialectInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What is special about the channels of a dialect. The wire format itself is in ``upstream``."""

    needs_url: bool = True
    """Whether they connect to a base URL; otherwise they answer in this process."""
    root_may_vary: bool = False
    """Whether ``/v1`` may be missing from a base URL or be too much in it, because many vendors use the dialect."""
    lists_models: bool = True
    """Whether their upstreams have a list of models, which may change."""
    has_options: bool = False
    key_header: str = ""
    """The header of the key; empty for the vendor's, usually ``Authorization: Bearer``. Add a new one to
    ``_KEY_HEADERS`` of ``control.validation`` and to ``_NEVER_FORWARDED`` of ``inbound.relay``."""
    adds_tools: bool = False
    """Whether requests get tools if the conversation has tool calls but no tools."""
    names_results: bool = False
    """Whether requests get a tool's name in each of its results."""


class Dialect(StrEnum):
    """The wire format of a channel."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"
    GEMINI = "gemini"
    MOCK = "mock"

    @property
    def info(self) -> DialectInfo:
        return _DIALECTS[self]


_DIALECTS = {
    Dialect.OPENAI: DialectInfo(root_may_vary=True),
    Dialect.ANTHROPIC: DialectInfo(key_header="x-api-key", adds_tools=True),
    Dialect.GEMINI: DialectInfo(key_header="x-goog-api-key", names_results=True),
    Dialect.MOCK: DialectInfo(needs_url=False, lists_models=False, has_options=True),
}


class ServedModel(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One model of a channel: its public name and its upstream name."""

    name: str
    upstream: str = ""
    """The name at the upstream; empty if it is the public name."""
    created: Millis = Millis(0)
    """When the model was first seen here. Clients get it in whole seconds."""
    context: int | None = None
    """The context length in tokens, if the upstream reports it."""
    max_output: int | None = None
    """The maximum output tokens of one answer, if the upstream reports them; else its context length, if known.

    A higher limit in a request is lowered to this. If it is wrong, answers get shorter, but cost no more than is held.
    """
    published: UpstreamPrices | None = msgspec.field(name="told", default=None)
    """The upstream's price, if it publishes one."""
    live: bool = False
    """Whether a pattern selected it, so that it is removed when the upstream no longer lists it."""
    price: Price | None = None
    """The price at this channel only, set by the owner or imported; see ``core.model_prices``."""

    @property
    def upstream_name(self) -> str:
        return self.upstream or self.name


DEFAULT_HEAD_S = 120.0


class Timeouts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Deadlines of one attempt, in seconds."""

    connect: float = 10.0
    """The time for DNS, TCP and TLS together."""
    head: float = DEFAULT_HEAD_S
    """The time from the sent request to the head of the response. Most upstreams send the head of a plain answer
    together with its body, so for plain calls only a deadline below the default counts; see ``head_s``."""
    idle: float = 300.0
    """The time between two data events of a stream. Comments do not count."""
    comments: float = 900.0
    """How long a stream may send only comments."""
    total: float = 600.0
    """The time for all attempts of a plain call. A stream that keeps sending may take longer."""

    def head_s(self, *, stream: bool) -> float:
        """Returns the time for a head: ``head``, or for plain calls ``total`` unless ``head`` is below its default."""
        return self.head if stream or self.head < DEFAULT_HEAD_S else max(self.head, self.total)


class TokenLimitField(StrEnum):
    """The name that the output limit has at the upstream."""

    KEEP = "keep"
    MAX_TOKENS = "max_tokens"
    MAX_COMPLETION_TOKENS = "max_completion_tokens"


class Check(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of the last test of a channel."""

    time: Millis
    ok: bool
    """Whether the channel can be used: at least one of its keys is accepted."""
    ms: Millis
    text: str = ""
    failed_keys: int = 0
    """The number of keys that were not accepted, if the channel has several."""


class ChannelFields(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the owner edits. ``key``, ``keys``, ``headers`` and ``proxy`` may hold secrets.

    A new field is also a ``Field`` of ``CHANNEL`` in ``domain.fields``.
    """

    name: str
    base_url: str = ""
    """The URL before ``/chat/completions``, for example ``https://host/v1``. For ``anthropic`` and ``gemini`` the
    version may be omitted; for ``mock`` it is empty."""
    key: str = ""
    """The upstream's key, or ``env:NAME``. Never shown, logged or exported."""
    keys: tuple[str, ...] = ()
    """More keys of the same upstream, in the same form. Each is paused on its own when it is limited or rejected."""
    models: tuple[ServedModel, ...] = ()
    patterns: tuple[str, ...] = ()
    """Patterns such as ``gpt-*`` and ``!gpt-*-preview`` for names in the upstream's list that are offered too."""
    groups: tuple[str, ...] = ("default",)
    priority: int = 0
    """Higher priorities are tried first."""
    weight: int = 1
    """Its share of the calls within one priority; 0 means none, unless all weights are 0."""
    cost_factor: Factor = MILLION
    """What its upstream charges of a model's price. Only ``cheapest`` uses it."""
    enabled: bool = True
    """Whether it may get calls. Only the owner changes this."""
    preset: str = ""
    """The name of the known upstream whose quirks apply; if empty, it is recognized by the base URL."""
    limits: Limits = Limits()
    timeouts: Timeouts = Timeouts()
    headers: dict[str, str] = {}
    """Additional request headers. Values may be ``env:NAME``."""
    overrides: Overrides | None = None
    """What is changed in every request; None if nothing is."""
    proxy: str = ""
    """The URL ``http://user:password@host:port`` of its proxy, or ``env:NAME``; empty if it has none. Because of the
    password, it is never shown, logged or exported as it is."""
    token_limit_field: TokenLimitField | None = None
    """The name of the output limit; None for the preset's."""
    strict: bool = False
    """Whether a call fails if the upstream rejects a parameter, instead of being retried without it."""
    finish_abandoned: bool = True
    """Whether a plain call whose client disconnects is finished and charged; otherwise it is cancelled."""
    cache_marks: bool = True
    """Whether prompts get marks for Anthropic's cache if the client sets none."""
    options: dict[str, str | int | float | bool] = {}
    """Options of the ``mock`` dialect."""
    known_prices: bool = True
    """Whether new models without a price get their vendor's list price, if it is known."""
    note: str = ""


class Channel(ChannelFields, frozen=True, omit_defaults=True):
    """One upstream account: its address, its models and groups, and its place in the order of channels.

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

    @property
    def several_keys(self) -> list[tuple[str, ChannelId, str]]:
        """Returns its keys, each with the id of its state and its name for people; empty if it has at most one."""
        keys = enumerate(self.all_keys if self.keys else (), start=1)
        return [(key, key_id(self.id, number), f"{number} {mask(key)}") for number, key in keys]

    @property
    def state_ids(self) -> list[ChannelId]:
        """Returns the ids for the states of its keys. An only key has the channel's own state."""
        return [key_id(self.id, number + 1) for number in range(len(self.all_keys))] if self.keys else [self.id]

    def with_only_key(self, key: str) -> "Channel":
        return msgspec.structs.replace(self, key=key, keys=())


def key_id(channel: ChannelId, number: int) -> ChannelId:
    """Returns the id for the state of one of several keys."""
    return ChannelId(f"{channel}#{number}")


class UpstreamModels(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The last list of models that a channel's upstream sent."""

    channel: ChannelId
    time: Millis
    """When the list was fetched; 0 if that never succeeded, and ``error`` has the reason."""
    models: tuple[ServedModel, ...] = ()
    new: tuple[str, ...] = ()
    """Upstream names that were not in the list before."""
    gone: tuple[str, ...] = ()
    """Upstream names that were in the list before and are not any more."""
    unnamed: int = 0
    """How many models were left out because they have no name, or one that is too long or has control characters."""
    tried: Millis = Millis(0)
    """When a later attempt to fetch the list failed; 0 if none did."""
    error: str = ""
    """Why that attempt failed."""
    key_refused: bool = False
    """Whether it failed because the upstream did not accept the key."""
