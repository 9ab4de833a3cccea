"""Call state: what changes while a call runs.

``AttemptState`` is the current attempt, ``CallLimits`` the rates and slots of the call, ``Delivery`` what was sent to
the client, and ``CallResult`` what the record is made of.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from gateway.core.model_entry import Route
from gateway.core.rate_scopes import ConcurrencyGate
from gateway.core.ratelimit import CountedCall
from gateway.domain.call import Attempt, Outcome
from gateway.domain.errors import GatewayError, QuotaExceeded
from gateway.domain.price import Price
from gateway.domain.units import ChannelId
from gateway.domain.usage import NOTHING, Usage
from gateway.upstream.adapter import AnswerStream


class AttemptState(msgspec.Struct):
    """The current or last attempt."""

    price: Price | None = None
    """The price of the model that is called: of the fallback, if one is called."""
    route: Route | None = None
    route_reason: str = ""
    """Why this route was taken, for the answer's headers."""
    stream: AnswerStream | None = None
    """The answer, if it is streamed."""
    reply_headers: Mapping[str, str] = {}
    """Headers of the upstream's answer that may be passed on; see ``Screen.headers``."""
    counted_calls: Sequence[CountedCall] = ()
    """What the attempt adds to its channel's rates."""
    dropped: str = ""
    """The client's names of the parameters that were left out, with commas between them."""
    lowered_cap: int | None = None
    """The output limit that was sent, if it is not the client's: model or hold allow no more, or the vendor no less."""
    repairs: tuple[str, ...] = ()
    """Marks for what was repaired in the client's request."""
    parts: int = 0
    """How many parts of a request in parts have been answered; 0 once all have."""


class CallLimits(msgspec.Struct):
    """The rates and slots of a call."""

    headers: Callable[[], dict[str, str]] = dict
    """Returns the ``x-ratelimit-*`` headers."""
    gates: tuple[ConcurrencyGate, ...] = ()
    """The gates of its token and group where the call has a slot."""
    counted_calls: Sequence[CountedCall] = ()
    """What the call adds to the rates of its token and group."""
    channel_slot: ConcurrencyGate | None = None
    """The channel's gate where the call has a slot, until its attempt ends."""
    budget_warning: str = ""
    unaffordable: Mapping[str, QuotaExceeded] = {}
    """Fallbacks that may not answer, because what is left does not pay for them, with their errors."""
    marks: tuple[str, ...] = ()
    """Marks for the record: a budget warning, a wait for a slot, a conversation that stayed at its channel."""


class Delivery(msgspec.Struct):
    """What was sent to the client, and when. Times are monotonic seconds."""

    last_write: float
    """When the last write began; before the first one, when the call began."""
    writing: bool = False
    """Whether a write waits for the client."""
    deadline: float | None = None
    """When a plain call ends; None for a stream."""
    first_byte: float | None = None
    """When the upstream's answer began to arrive, or a whole one had arrived."""
    content_sent: bool = False
    facts_due: bool = False
    """Whether the head was sent before the facts of the answer were known, so that they must still be sent."""
    reported_at: float = 0.0
    """When watchers last got a report on the call."""


class CallResult(msgspec.Struct):
    """The result of a call so far. Its record is made from it."""

    attempts: list[Attempt] = []
    billed: list[tuple[ChannelId, Price | None]] = []
    """For each attempt that an upstream may have billed: the channel, and the price of the model that was tried."""
    usage: Usage = NOTHING
    outcome: Outcome = Outcome.DONE
    ended_by: Outcome | None = None
    """The outcome of a call that is ended from outside, set before its task is cancelled."""
    error: GatewayError | None = None
    finish: str = ""
    upstream_id: str = ""
    marks: tuple[str, ...] = ()
    overhead_us: int = 0
    """Microseconds until the request was ready for the first upstream."""
    resends: int = 0
    """How often the request was sent to the same channel again, because the upstream had refused it as it was."""
    after_break: bool = False
    """Whether a stream of the same call broke a moment ago; see ``BrokenStreams``."""
    settled: bool = False
