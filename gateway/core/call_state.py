"""Call state: what changes of a call while it runs.

``AttemptState`` is the attempt that runs, ``CallLimits`` its rates and places, ``Delivery`` what the client has,
``CallResult`` what its record is made of.
"""

from collections.abc import Callable, Mapping

import msgspec

from gateway.core.catalog import Route
from gateway.core.rate_scopes import ConcurrencyGate, RateScope
from gateway.core.ratelimit import Ticket
from gateway.domain.call import Attempt, Outcome
from gateway.domain.errors import GatewayError
from gateway.domain.price import Price
from gateway.domain.units import ChannelId
from gateway.domain.usage import NOTHING, Usage
from gateway.upstream.adapter import AnswerStream


class AttemptState(msgspec.Struct):
    """The attempt that runs, or ran last."""

    number: int = 0
    """From 1."""
    price: Price | None = None
    """Of the model that is requested, which is another one after a fallback."""
    route: Route | None = None
    route_reason: str = ""
    """Why this route: for the answer's headers."""
    stream: AnswerStream | None = None
    """The answer, if it is streamed."""
    reply_headers: Mapping[str, str] = {}
    """Headers of the upstream's answer that may be passed on; see ``Screen.headers``."""
    channel_ticket: Ticket | None = None
    """What it has taken of its channel's rates."""
    dropped: tuple[str, ...] = ()
    """Parameters that were left out of the request."""
    native: bool = False
    """The channel speaks the client's API: request and answer pass as they are, except for the model's name. False for
    chat completions, see ``Record.native``."""
    lowered: int | None = None
    """The output limit that was sent, if the client's was higher: the model's own, or what the money left pays for."""
    repairs: tuple[str, ...] = ()
    """Marks of what was repaired in the client's request."""
    parts: int = 0
    """Parts of a request in several that have been answered, until the last is."""


class CallLimits(msgspec.Struct):
    """The rates and places of a call."""

    scopes: tuple[RateScope, ...] = ()
    """Whose rates the answer's headers tell."""
    headers: dict[str, str] = {}
    """``x-ratelimit-*`` of these."""
    read_headers: Callable[[], dict[str, str]] | None = None
    """Reads them, once for each attempt."""
    gates: tuple[ConcurrencyGate, ...] = ()
    """Where the call already has a place, because it had to wait."""
    ticket: Ticket | None = None
    """What it has taken of the rates and places of its token and group; None if these limit nothing."""
    channel_slot: ConcurrencyGate | None = None
    """The same at a channel, until its attempt begins."""
    budget_warning: str = ""
    """The budgets of which most is spent."""
    unaffordable: tuple[str, ...] = ()
    """Fallbacks that may not answer, as what is left does not pay for them."""
    marks: tuple[str, ...] = ()
    """Marks for the record: of that warning, of a wait for a slot, of a conversation that stayed at its channel."""

    def read(self) -> None:
        """Read how the limits stand, unless that is done."""
        read, self.read_headers = self.read_headers, None
        if read is not None:
            self.headers = read()


class Delivery(msgspec.Struct):
    """What has been sent to the client, and when. Times are monotonic seconds."""

    last_write: float
    writing_since: float | None = None
    """Set while a write waits for the client."""
    deadline: float | None = None
    first_byte: float | None = None
    content_sent: bool = False
    facts_due: bool = False
    """The head went out before the facts of the answer were known."""
    reported_at: float = 0.0
    """When watchers last got a report of the call's progress."""


class CallResult(msgspec.Struct):
    """How a call ended, as far as that is known: what its record is made of."""

    attempts: list[Attempt] = []
    billed: list[tuple[ChannelId, Price | None]] = []
    """Of each of them that its upstream may have billed: the channel, and the price of the model that was tried."""
    usage: Usage = NOTHING
    outcome: Outcome = Outcome.DONE
    ended_by: Outcome | None = None
    """Set by whoever ends the call from outside, before its task is cancelled."""
    error: GatewayError | None = None
    finish: str = ""
    upstream_id: str = ""
    marks: tuple[str, ...] = ()
    overhead_us: int = 0
    """The time until the request was ready for the first upstream."""
    after_break: bool = False
    """The same call had a stream that broke a moment ago; see ``BrokenStreams``."""
    settled: bool = False
