"""Body: a whole JSON answer, or a page, that comes where a stream was asked for."""

from gateway.domain.channel import Channel
from gateway.upstream.adapter import AttemptFailed, Order
from gateway.upstream.failures import bad_response
from gateway.upstream.openai.replay import chunks_of
from gateway.upstream.openai.whole import read_whole
from gateway.upstream.rawjson import Fields

BODY_LIMIT = 64 * 1024 * 1024
"""Bytes that are gathered."""

BEGINNINGS = frozenset({b"{", b"[", b"<"})
"""No line of an event stream begins so."""


class Body:
    """Gathers the bytes until their end."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    @property
    def size(self) -> int:
        """Bytes so far."""
        return len(self._bytes)

    def add(self, data: bytes, channel: Channel) -> None:
        """Raises AttemptFailed if it is too long."""
        self._bytes += data
        if len(self._bytes) > BODY_LIMIT:
            raise AttemptFailed(bad_response(channel, f"it is longer than {BODY_LIMIT >> 20} MiB"))

    def read(self, order: Order, channel: Channel) -> tuple[list[Fields], tuple[str, ...]]:
        """The answer as the chunks of a stream, still to be normalised, and its marks. Raises AttemptFailed."""
        whole = read_whole(bytes(self._bytes), order, channel)
        return chunks_of(whole.body), whole.marks
