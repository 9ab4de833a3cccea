"""StickyRoutes: which channel and key answered recent conversations, so that a prompt cache there is used again.

A conversation is recognized by its token, its model and its messages up to the user's first one. The memory is bounded.
"""

from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b

import msgspec

from gateway.domain.rawjson import Fields
from gateway.domain.units import ChannelId


class StickyRoute(msgspec.Struct, frozen=True):
    """The channel and key that answered a conversation."""

    channel: ChannelId
    key_id: ChannelId


class StickyRoutes:
    """Recent conversations, or answers of upstreams, and where they are."""

    def __init__(self, mono: Callable[[], float] = lambda: 0.0, *, keep_s: float = 3600.0, most: int = 10_000) -> None:
        self._mono = mono
        self._keep_s = keep_s
        self._most = most
        self._routes: OrderedDict[bytes, tuple[StickyRoute, float]] = OrderedDict()

    def find(self, id: bytes) -> StickyRoute | None:
        """Returns where the conversation or answer with this id is."""
        entry = self._routes.get(id)
        return entry[0] if entry is not None and self._mono() - entry[1] <= self._keep_s else None

    def note(self, id: bytes, route: StickyRoute) -> None:
        """Remember where it is."""
        self._routes[id] = (route, self._mono())
        self._routes.move_to_end(id)
        if len(self._routes) > self._most:
            self._routes.popitem(last=False)


class _Message(msgspec.Struct):
    role: str = ""


_MESSAGES = msgspec.json.Decoder(list[msgspec.Raw])
_MESSAGE = msgspec.json.Decoder(_Message)


def conversation_id(token: str, model: str, fields: Fields, session: str = "") -> bytes:
    """Returns a digest that identifies a request's conversation. ``session`` is the client's own id for it."""
    digest = blake2b(f"{token}\n{model}\n{session}".encode("utf-8", "surrogatepass"), digest_size=16)
    if session:
        return digest.digest()
    messages = memoryview(fields["messages"])
    if bytes(messages[:1]) != b"[":
        digest.update(messages[: 64 << 10])
        return digest.digest()
    for message in _MESSAGES.decode(messages)[:8]:  # more are not examined
        digest.update(memoryview(message)[: 64 << 10])
        if _MESSAGE.decode(message).role == "user":
            break
    return digest.digest()
