"""Channel: one upstream account that can answer calls."""

from enum import StrEnum

import msgspec

from gateway.domain.limits import Limits
from gateway.domain.overrides import Overrides
from gateway.domain.units import MILLION, ChannelId, Millis, Nanos


class Dialect(StrEnum):
    """Wire format of a channel."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"
    GEMINI = "gemini"
    MOCK = "mock"


class Told(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an upstream says a model costs there, in nano-dollars per million tokens. Calls are booked at our Price."""

    input: Nanos
    output: Nanos
    cached_input: Nanos | None = None
    cache_write: Nanos | None = None


class Served(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One model of a channel: the public name and what the upstream calls it."""

    name: str
    upstream: str = ""
    """Empty: the same as the public name."""
    created: Millis = Millis(0)
    """When the model was first seen here; shown to clients in whole seconds."""
    context: int | None = None
    """Context length in tokens, where the upstream tells."""
    max_output: int | None = None
    """The most output tokens of one answer, where the upstream tells, or the context that no answer is longer than.
    A request's higher limit is lowered to it, so a wrong one makes answers shorter but lets nobody spend more than is
    held."""
    told: Told | None = None
    """Its price there, where the upstream tells."""
    live: bool = False
    """Let in by a pattern of the channel: it goes when the upstream lists it no more."""

    @property
    def upstream_name(self) -> str:
        """The name to ask the upstream for."""
        return self.upstream or self.name


class Timeouts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Deadlines of one attempt, in seconds."""

    connect: float = 10.0
    """DNS, TCP and TLS together."""
    head: float = 120.0
    """From the request being sent to the upstream's response head."""
    idle: float = 300.0
    """Between two data events of a stream; comments do not count."""
    comments: float = 900.0
    """How long a stream may send nothing but comments."""
    total: float = 600.0
    """All attempts of a plain call; a stream that keeps sending may go on."""


class TokenLimitField(StrEnum):
    """Which name of the output limit the upstream understands."""

    KEEP = "keep"
    MAX_TOKENS = "max_tokens"
    MAX_COMPLETION_TOKENS = "max_completion_tokens"


class Check(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The last test of a channel."""

    time: Millis
    ok: bool
    ms: Millis
    text: str = ""


class Channel(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One upstream account: where it is, what it offers, to whom, in which order."""

    id: ChannelId
    name: str
    dialect: Dialect
    base_url: str = ""
    """The root under which ``/chat/completions`` lies, for example ``https://host/v1``; that of ``anthropic`` and
    ``gemini`` may be given without the version. Empty for ``mock``."""
    key: str = ""
    """The upstream's key, or ``env:NAME``. Never shown, logged or exported."""
    keys: tuple[str, ...] = ()
    """Further keys of the same upstream, of the same form; each rests by itself when it is limited or refused."""
    models: tuple[Served, ...] = ()
    patterns: tuple[str, ...] = ()
    """Which names of the upstream's own list are offered besides: ``gpt-*``, ``!gpt-*-preview``; none: only those of
    ``models`` that are named there."""
    groups: tuple[str, ...] = ("default",)
    priority: int = 0
    """Higher is asked first."""
    weight: int = 1
    """Share of the draw within one priority; 0 is never drawn unless all members are 0."""
    cost_factor: int = MILLION
    """What its upstream asks, as a multiple of a model's price in parts per million; only ``cheapest`` looks at it."""
    enabled: bool = True
    """Set by the user; the machine never changes it."""
    preset: str = ""
    """Row of the table of known upstreams whose quirks apply; empty: found by the base URL, else none."""
    limits: Limits = Limits()
    timeouts: Timeouts = Timeouts()
    headers: dict[str, str] = {}
    """Further request headers. Values may be ``env:NAME``."""
    overrides: Overrides | None = None
    """What is changed in every request; None: nothing."""
    proxy: str = ""
    """``http://user:password@host:port`` of the proxy through which it is reached, or ``env:NAME``; empty: none. May
    hold a password: never shown, logged or exported as it is."""
    token_limit_field: TokenLimitField | None = None
    """None: as the preset says."""
    strict: bool = False
    """Never drop a parameter to save a call that the upstream refused."""
    finish_abandoned: bool = True
    """When the client of a plain call goes away: finish it and book the true usage (True) or cancel it (False)."""
    options: dict[str, str | int | float | bool] = {}
    """Knobs of the ``mock`` dialect."""
    created: Millis = Millis(0)
    last_check: Check | None = None
    note: str = ""

    @property
    def all_keys(self) -> tuple[str, ...]:
        """Its keys as they are numbered, from 1; none if it has no key."""
        return (self.key, *self.keys) if self.key else ()


def key_id(channel: ChannelId, number: int) -> ChannelId:
    """What one of several keys is called where its state is remembered."""
    return ChannelId(f"{channel}#{number}")
