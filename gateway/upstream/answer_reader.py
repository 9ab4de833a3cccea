"""AnswerReader: what a dialect provides to read its upstreams' answers as parts; see ``domain.answer``.

``AnswerStream`` implementations put a framer before it, and ``AnswerState`` and a renderer after it.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

import msgspec

from gateway.domain.answer import AnswerEvent, AnswerPart
from gateway.domain.channel import Channel, ServedModel
from gateway.domain.failure import AttemptFailed, Failure
from gateway.domain.order import Order, PreparedRequest
from gateway.domain.output_limit import OutputLimit, read_limit
from gateway.domain.rawjson import Fields
from gateway.domain.sse import SSEEvent
from gateway.upstream.adapter import RequestWriter
from gateway.upstream.call_memory import CallMemory
from gateway.upstream.error_body import excerpt, read_error
from gateway.upstream.failures import bad_response, classify


class AnswerReader(Protocol):
    """Reads one answer. Pure."""

    failure: Failure | None = None
    """Set when the upstream reported a failure."""
    done: bool = False
    """Whether the last event came."""
    has_content: bool = False
    """A block of the answer began. Where a native answer is only tapped, the tap says so."""
    stops: bool = False
    """Whether the upstream says when a block is complete."""
    watches: bool = False
    """Whether it wants every event, see ``watch``."""
    default_word: str = ""
    """The finish word of a complete answer without one; empty: such an answer is not complete."""

    def texts(self, events: bytes, start: int) -> tuple[list[bytes], int]:
        """Returns the texts of the events from ``start`` on that have only more text of the first choice, and where
        these events end. They are JSON strings, and none is empty.
        """
        return [], start

    def read(self, event: SSEEvent) -> Iterable[AnswerPart]:
        """Returns the parts in an event. Raises ValueError if it makes no sense."""

    def read_whole(self, body: bytes) -> Iterable[AnswerPart]:
        """Returns the parts of a whole answer. Raises AttemptFailed if it is an error, or not an answer, and
        ValueError.
        """

    def end(self) -> Iterable[AnswerPart]:
        """Take the end of the bytes. Returns the parts that waited for it."""
        return ()

    def watch(self, event: AnswerEvent) -> None:
        """Gets every event that the parts became, for a vendor that wants something of its answers back."""
        return


class DialectAdapter(RequestWriter, Protocol):
    """How requests are written and answers are read. Pure."""

    def reader(self, order: Order, channel: Channel) -> AnswerReader:
        """Returns the reader of one attempt's answer."""


class ChannelDialect(DialectAdapter):
    """The dialect of a channel: everything that depends on it."""

    own_names: Mapping[str, str] = {}
    """Fields of requests that the client knows by another name."""
    base_url: str = ""
    """The address of the only vendor that speaks it; empty: many do, or none."""

    def __init__(self, memory: CallMemory | None = None) -> None:
        """``memory`` keeps what the vendor wants back with tool calls."""
        self._memory = memory or CallMemory()

    def recalled(self, fields: Mapping[str, msgspec.Raw]) -> int:
        return self._memory.tokens_for(fields)

    def failure(self, channel: Channel, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        found = classify(channel, status, read_error(body), headers)
        names = dict.fromkeys(self.own_names.get(name, name) for name in found.parameters)
        return msgspec.structs.replace(found, parameters=tuple(names))

    def output_limit(self, fields: Fields, channel: Channel, served: ServedModel) -> OutputLimit:
        """Returns the most output that an outgoing request allows, with the owner's parameters in it."""
        return read_limit(fields)

    def model_limit(self, upstream_model: str) -> int | None:
        """Returns a model's largest output, if the vendor's models are in a table here; None: unknown."""
        return None

    def remembers(self, channel: Channel) -> bool:
        """Returns whether requests may get back what the vendor wants to see again with tool calls."""
        return True

    def ask_models(self, channel: Channel, after: str) -> PreparedRequest | None:
        """Returns the request for the first page of the list of models, or for the one after another; None: it has no
        list.
        """
        return None


def no_answer(body: bytes, channel: Channel) -> AttemptFailed:
    """Returns the failure of a body that is not an answer of the dialect."""
    fields = read_error(body[:65536])
    what = "not an answer" if fields.json else "not valid JSON"
    said = fields.message or excerpt(body) or "an empty body"
    return AttemptFailed(bad_response(channel, f"it is {what}: {said}"))
