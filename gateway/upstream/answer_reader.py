"""AnswerReader: what a dialect has to provide to read the answers of its upstreams as parts; see ``domain.answer``.

``AnswerStream`` implementations put a framer before it, and ``AnswerState`` and a renderer behind.
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
    """The terminal event was seen."""
    has_content: bool = False
    """A block of the answer began. Where a native answer is only tapped, the tap says so."""
    stops: bool = False
    """The upstream says when a block is complete."""
    watches: bool = False
    """It wants every event, see ``watch``."""
    default_word: str = ""
    """What an answer ended with that is complete and does not say why; empty: it is not complete."""

    def texts(self, events: bytes, start: int) -> tuple[list[bytes], int]:
        """The texts of the events from ``start`` on that bring more text of the first choice and nothing else, and
        where these events end. They are JSON strings, and none is empty.
        """
        return [], start

    def read(self, event: SSEEvent) -> Iterable[AnswerPart]:
        """The parts that an event means. Raises ValueError if it makes no sense."""

    def read_whole(self, body: bytes) -> Iterable[AnswerPart]:
        """The parts of a whole answer. Raises AttemptFailed if it is an error, or no answer, and ValueError."""

    def end(self) -> Iterable[AnswerPart]:
        """The bytes have ended: the parts that were waiting for that."""
        return ()

    def watch(self, event: AnswerEvent) -> None:
        """Sees every event that the parts became, for a vendor that wants something of its answers back."""
        return


class DialectAdapter(RequestWriter, Protocol):
    """How requests are written and answers are read. Pure."""

    def reader(self, order: Order, channel: Channel) -> AnswerReader:
        """What reads the answer of one attempt."""


class ChannelDialect(DialectAdapter):
    """The dialect of a channel: all that is to be known of it."""

    own_names: Mapping[str, str] = {}
    """Fields of requests that the client knows by another name."""
    base_url: str = ""
    """Where the vendor lives that alone speaks it; empty: many do, or nobody outside."""

    def __init__(self, memory: CallMemory | None = None) -> None:
        """``memory`` is of what the vendor wants back with calls of tools."""
        self._memory = memory or CallMemory()

    def recalled(self, fields: Mapping[str, msgspec.Raw]) -> int:
        return self._memory.tokens_for(fields)

    def failure(self, channel: Channel, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        found = classify(channel, status, read_error(body), headers)
        names = dict.fromkeys(self.own_names.get(name, name) for name in found.parameters)
        return msgspec.structs.replace(found, parameters=tuple(names))

    def output_limit(self, fields: Fields, channel: Channel, served: ServedModel) -> OutputLimit:
        """The most output that a request allows as it goes out to a channel, with the owner's parameters in it."""
        return read_limit(fields)

    def model_limit(self, upstream_model: str) -> int | None:
        """The largest output of a model, if the vendor's models are in a table here; None: unknown."""
        return None

    def remembers(self, channel: Channel) -> bool:
        """Whether requests may get back what the vendor wants to see again with calls of tools."""
        return False

    def ask_models(self, channel: Channel, after: str) -> PreparedRequest | None:
        """The request for the first page of the list of models, or for the one after another; None: there is none."""
        return None


def no_answer(body: bytes, channel: Channel) -> AttemptFailed:
    """The failure of a body that is not an answer of the dialect."""
    fields = read_error(body[:65536])
    what = "not an answer" if fields.json else "not valid JSON"
    said = fields.message or excerpt(body) or "an empty body"
    return AttemptFailed(bad_response(channel, f"it is {what}: {said}"))
