"""Calls that clients repeat: right after they failed, or after their stream broke."""

from collections import OrderedDict
from collections.abc import Callable
from copy import copy
from hashlib import blake2b

from gateway.domain.errors import UpstreamError
from gateway.inbound.api import InboundRequest

KEEP_FAILURE_S = 2.0
MOST_FAILURES = 256


class RecentFailures:
    """Calls of the last seconds that failed before their answer began, at every channel that could be tried.

    Some clients repeat a failed call at once, up to thirty times. A repetition gets the same failure, without another
    attempt at the upstreams.
    """

    def __init__(self, mono: Callable[[], float]) -> None:
        self._mono = mono
        self._failures: OrderedDict[bytes, tuple[UpstreamError, float]] = OrderedDict()

    def note(self, token: str, body: bytes, error: UpstreamError) -> None:
        """Remember that the call failed now. A mistake in the request does not count."""
        if error.http_status < 500:
            return
        self._failures[_digest(token, body)] = copy(error).with_traceback(None), self._mono()
        while len(self._failures) > MOST_FAILURES:
            self._failures.popitem(last=False)

    def check(self, token: str, body: bytes) -> None:
        """Raises the failure of the same call a moment ago, if there was one."""
        if not self._failures:
            return
        key = _digest(token, body)
        failure, failed_at = self._failures.get(key, (None, 0.0))
        if failure is None:
            return
        if self._mono() - failed_at > KEEP_FAILURE_S:
            del self._failures[key]
            return
        repeated = copy(failure)
        repeated.add(f" [it failed less than {KEEP_FAILURE_S:.0f} s ago and was not sent again]")
        raise repeated


class BrokenStreams:
    """Streams of the last seconds that broke after part of the answer was sent.

    Claude Code and other programs then make the whole call again, at once and often without a stream. It is paid for
    twice, so the second call is marked.
    """

    def __init__(self, mono: Callable[[], float]) -> None:
        self._mono = mono
        self.broke_at: OrderedDict[bytes, float] = OrderedDict()
        """When the stream of each conversation broke."""

    def note(self, token: str, request: InboundRequest) -> None:
        self.broke_at[_conversation(token, request)] = self._mono()
        while len(self.broke_at) > MOST_FAILURES:
            self.broke_at.popitem(last=False)

    def is_repetition(self, token: str, request: InboundRequest) -> bool:
        """Returns whether this is the same call again. Only the first repetition of each break counts."""
        broke_at = self.broke_at.pop(_conversation(token, request), None)
        return broke_at is not None and self._mono() - broke_at <= 5.0


def _conversation(token: str, request: InboundRequest) -> bytes:
    """Returns a digest that identifies a conversation, the same for a stream and a plain call."""
    turns = memoryview(request.fields.get(request.conversation_field) or request.fields.get("prompt") or b"")
    head = f"{request.session}\0{request.model}\0".encode("utf-8", "replace")
    return _digest(token, head + b"%d\0" % len(turns) + turns[: 64 << 10] + turns[-(64 << 10) :])


def _digest(token: str, body: bytes) -> bytes:
    return blake2b(body, key=token.encode()[:64], digest_size=16).digest()
