"""Recent items: what is remembered of calls for a while, among it those that clients repeat because they failed."""

from collections import OrderedDict
from collections.abc import Callable
from copy import copy
from hashlib import blake2b
from typing import Generic, TypeVar

from gateway.domain.errors import UpstreamError
from gateway.inbound.api import InboundRequest

Item = TypeVar("Item")

MAX_FAILURES = 256


class RecentItems(Generic[Item]):
    """The items noted in the last seconds, by their digests. Of too many, the one noted first is forgotten."""

    def __init__(self, mono: Callable[[], float], *, keep_s: float, limit: int) -> None:
        self._mono = mono
        self._keep_s = keep_s
        self._limit = limit
        self.items: OrderedDict[bytes, tuple[Item, float]] = OrderedDict()
        """The items and when they were noted, by digest."""

    def note(self, id: bytes, item: Item) -> None:
        self.items[id] = (item, self._mono())
        self.items.move_to_end(id)
        if len(self.items) > self._limit:
            self.items.popitem(last=False)

    def find(self, id: bytes) -> Item | None:
        """Returns an item; None if it is unknown or was noted too long ago."""
        entry = self.items.get(id)
        return entry[0] if entry is not None and self._mono() - entry[1] <= self._keep_s else None

    def take(self, id: bytes) -> Item | None:
        """Returns an item as ``find`` does, and forgets it."""
        item = self.find(id)
        self.items.pop(id, None)
        return item


class RecentFailures:
    """Calls of the last seconds that failed before their answer began, at every channel that could be tried.

    Some clients repeat a failed call at once, up to thirty times. A repetition gets the same failure, without another
    attempt at the upstreams.
    """

    def __init__(self, mono: Callable[[], float]) -> None:
        self._failures = RecentItems[UpstreamError](mono, keep_s=2.0, limit=MAX_FAILURES)

    def note(self, token: str, body: bytes, error: UpstreamError) -> None:
        """Remember that the call failed now. A mistake in the request does not count."""
        if error.http_status >= 500:
            repeated = copy(error).with_traceback(None)
            repeated.add(" [it failed less than 2 s ago and was not sent again]")
            self._failures.note(_digest(token, body), repeated)

    def check(self, token: str, body: bytes) -> None:
        """Raises the failure of the same call if it failed a moment ago."""
        if self._failures.items and (failure := self._failures.find(_digest(token, body))) is not None:
            raise copy(failure)  # a variable would keep it, and its traceback this frame and the body


class BrokenStreams:
    """Streams of the last seconds that broke after part of the answer was sent.

    Claude Code and other programs then make the whole call again, at once and often without a stream. It is paid for
    twice, so the second call is marked.
    """

    def __init__(self, mono: Callable[[], float]) -> None:
        self.conversations = RecentItems[bool](mono, keep_s=5.0, limit=MAX_FAILURES)
        """The conversations whose streams broke."""

    def note(self, token: str, request: InboundRequest) -> None:
        self.conversations.note(_conversation(token, request), True)

    def is_repetition(self, token: str, request: InboundRequest) -> bool:
        """Returns whether this is the same call again. Only the first repetition of each break counts."""
        return self.conversations.take(_conversation(token, request)) is not None


def _conversation(token: str, request: InboundRequest) -> bytes:
    """Returns a digest that identifies a conversation, the same for a stream and a plain call."""
    turns = memoryview(request.fields.get(request.conversation_field) or request.fields.get("prompt") or b"")
    head = f"{request.session}\0{request.model}\0".encode("utf-8", "replace")
    return _digest(token, head + b"%d\0" % len(turns) + turns[: 64 << 10] + turns[-(64 << 10) :])


def _digest(token: str, body: bytes) -> bytes:
    return blake2b(body, key=token.encode()[:64], digest_size=16).digest()
