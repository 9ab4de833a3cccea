"""InboundApi: what an API that clients may speak has to provide. Each has its own package beside this file.

The rest of the gateway handles every API alike. It knows a request as an ``InboundRequest``, whose ``fields`` are those
of a chat completion, and an answer as the ``Whole`` or ``AnswerStream`` of an adapter. What differs from API to API is
asked here: how a request is parsed, how a channel is called and its answer written, and how errors, keep-alives and
facts beside the answer look. An implementation is one value without state.

``Pipeline`` calls ``parse`` and ``order``, ``Attempts`` ``adapter``, ``LiveCalls`` sends ``keep_alive``; the web server
writes the rest. A new API is an implementation of this protocol, and a row in ``v1.endpoints``.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from gateway.domain.channel import Channel, Dialect, Overrides, Served
from gateway.domain.errors import GatewayError
from gateway.domain.long_strings import NOTHING_LONG, LongStrings
from gateway.domain.units import CallId, Millis
from gateway.inbound.json_body import Fields
from gateway.upstream.adapter import Adapter, Order
from gateway.upstream.output_limit import OutputLimit
from gateway.upstream.overrides import apply_overrides

LARGE = 256 << 10
"""Bytes of a body beyond which it is parsed beside the event loop, see ``large_body``."""
ANSWER_LIMIT = 64 << 20
"""Bytes of a plain answer, decompressed."""

OutputRule = Callable[[Fields, Channel, Served], OutputLimit]
"""The most output that a request allows as it goes out to a channel."""


class HttpRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A client's request as it arrived."""

    body: bytes
    target: str
    """Path and query."""
    headers: Mapping[str, str]
    """Names may be written in any case."""


class InboundRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A checked request."""

    body: bytes
    """A whole chat completion request as it was sent; empty if only ``fields`` may be used."""
    fields: Fields
    """The top level of the chat completion request, values as they were sent."""
    mask: bytes
    """Digit that replaces the first one of lone surrogates; empty: there are none (``json_body.unmask``)."""
    model: str
    stream: bool
    include_usage: bool
    """The client wants the usage at the end of a stream."""
    choices: int
    output_cap: int | None
    """The client's own limit of output tokens per choice."""
    plain: bool
    """``output_cap`` and ``choices`` alone bear on the length of the output."""
    input_bound: int
    """Upper estimate of the input tokens, for the hold."""
    long: LongStrings = NOTHING_LONG
    """What is missing in ``fields``, if the request is large; ``body`` is whole."""
    prompt: int | None = None
    """Estimate of the input tokens, of a large request alone: it takes a while."""
    output_rule: OutputRule | None = None
    """None: that of the channel's dialect for chat completions."""

    @property
    def large(self) -> bool:
        """Whether work on it takes so long that it is done beside the event loop."""
        return self.prompt is not None


class InboundApi(Protocol):
    """One API. What has a default here is the same for most of them; a class that derives from this has it."""

    name: str
    stream_type: str
    """Content-Type of a streamed answer."""
    keep_alive: bytes
    """What shows a client that its stream is alive; empty: nothing can."""
    id_headers: tuple[str, ...]
    """Names of the response headers that carry the call's id."""
    selective: bool = False
    """Some channels cannot answer; see ``obstacle``."""
    falls_back: bool = True
    """Another model may answer when no channel can serve the requested one."""
    answer_limit: int = ANSWER_LIMIT

    def parse(self, request: HttpRequest) -> InboundRequest:
        """Check and read a request. Raises BadRequest, ``param`` naming the field at fault as the client knows it.

        A body of more than ``LARGE`` bytes is parsed in a worker thread.
        """

    def order(self, request: InboundRequest, call: CallId, ts: Millis) -> Order:
        """The request as it is put to adapters."""

    def obstacle(self, request: InboundRequest, channel: Channel) -> str:
        """Why this channel cannot answer the request; empty if it can. Only a ``selective`` API is asked."""
        return ""

    def override(self, order: Order, overrides: Overrides) -> Order:
        """The order with the overrides of the channel's owner."""
        return apply_overrides(order, overrides)

    def adapter(self, dialect: Dialect, chat: Adapter) -> Adapter:
        """The adapter by which a channel of this dialect is called. It writes answers as this API has them.

        ``chat`` is the dialect's adapter for chat completions. It is wrapped; where the dialect is this API it is
        replaced by one that passes the bytes on.
        """

    def comment(self, facts: Mapping[str, str]) -> bytes:
        """Facts that clients ignore, in the middle of a stream; empty if there is no way to write them."""

    def status(self, error: GatewayError) -> int:
        """The HTTP status of an error; by default ``error.http_status``."""

    def error_body(self, error: GatewayError, call: str) -> bytes:
        """The body of an error that is sent instead of an answer. ``call``: its id, if there is one."""

    def error_event(self, error: GatewayError, call: str) -> bytes:
        """The last bytes of a stream that broke."""
