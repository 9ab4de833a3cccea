"""Sticky: which channel, and which of its keys, answered a conversation last, so that its prompt cache is used again.

A conversation is known by its token, its model and its messages up to the first of the user. Bounded, in memory.
"""

from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b

import msgspec

from gateway.core.body import Fields
from gateway.domain.units import ChannelId

MOST = 10_000
"""Conversations that are remembered."""
KEEP_S = 3600.0
"""After this no vendor's cache remembers either."""
BEGINNING = 8
"""Messages that are looked at, at most."""


class Place(msgspec.Struct, frozen=True):
    """Where a conversation was answered."""

    channel: ChannelId
    key_id: ChannelId


class _Message(msgspec.Struct):
    role: str


_MESSAGES = msgspec.json.Decoder(list[msgspec.Raw])
_MESSAGE = msgspec.json.Decoder(_Message)


def conversation(token: str, model: str, fields: Fields) -> bytes:
    """A short name of the conversation that a request belongs to."""
    named = blake2b(f"{token}\n{model}\n".encode(), digest_size=16)
    for raw in _MESSAGES.decode(fields["messages"])[:BEGINNING]:
        named.update(raw)
        if _MESSAGE.decode(raw).role == "user":
            break
    return named.digest()


class Sticky:
    """The conversations of late."""

    def __init__(self, mono: Callable[[], float]) -> None:
        self._mono = mono
        self._places: OrderedDict[bytes, tuple[Place, float]] = OrderedDict()

    def place(self, pin: bytes) -> Place | None:
        """Where the conversation was answered last."""
        found = self._places.get(pin)
        return found[0] if found is not None and self._mono() - found[1] <= KEEP_S else None

    def note(self, pin: bytes, place: Place) -> None:
        """It was answered there."""
        self._places[pin] = (place, self._mono())
        self._places.move_to_end(pin)
        if len(self._places) > MOST:
            self._places.popitem(last=False)
