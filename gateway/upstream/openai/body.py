"""Body: a whole JSON answer, or a page, that comes where a stream was asked for."""

from collections.abc import Iterator
from io import SEEK_END, BytesIO

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
    """Gathers the bytes until their end. It grows in one place, and gives what it has away without a copy."""

    def __init__(self) -> None:
        self._bytes = BytesIO()

    @property
    def size(self) -> int:
        """Bytes so far."""
        return self._bytes.tell()

    def add(self, data: bytes, channel: Channel) -> None:
        """Raises AttemptFailed if it is too long."""
        if self.size:
            self._bytes.write(data)
        else:  # a body that comes at once is not copied
            self._bytes = BytesIO(data)
            self._bytes.seek(0, SEEK_END)
        if self.size > BODY_LIMIT:
            raise AttemptFailed(bad_response(channel, f"it is longer than {BODY_LIMIT >> 20} MiB"))

    def take(self) -> bytes:
        """All that was gathered. Nothing of it is kept here."""
        gathered, self._bytes = self._bytes, BytesIO()
        return gathered.getvalue()

    def read(self, order: Order, channel: Channel) -> tuple[Iterator[Fields], tuple[str, ...]]:
        """The answer as the chunks of a stream, still to be normalised, and its marks. Raises AttemptFailed."""
        whole = read_whole(self.take(), order, channel)
        return chunks_of(whole.body), whole.marks
