"""Decoder: what reads the events of another dialect, and how they are written as events of chat completions."""

from collections.abc import Iterable
from typing import Protocol

from gateway.upstream import rawjson
from gateway.upstream.adapter import Failure
from gateway.upstream.chat.forms import Json
from gateway.upstream.openai.stream import DONE
from gateway.upstream.said import tidy
from gateway.upstream.sse import BLANK, Event


class Decoder(Protocol):
    """Reads the events of one answer of a dialect."""

    failure: Failure | None
    """Set when the upstream told of a failure."""
    complete: bool
    """The answer's end was seen."""

    @property
    def suspect(self) -> bool:
        """Whether a usage report had numbers that cannot be true."""

    def take(self, event: Event) -> Iterable[Json]:
        """The chunks of chat completions that an event means. Raises ValueError if it makes no sense."""

    def end(self) -> Iterable[Json]:
        """The bytes have ended: the chunks that were waiting for that."""


def transcribe(decoder: Decoder, event: Event) -> bytes:
    """An event in the words of chat completions; one that makes no sense becomes one that makes none there either."""
    try:
        return _written(decoder, decoder.take(event))
    except ValueError:
        excerpt = tidy(event.data[:1000].decode("utf-8", "replace"), 120)
        return b"data: odd event: " + excerpt.encode() + BLANK


def transcribe_end(decoder: Decoder) -> bytes:
    """What the end of the bytes means."""
    return _written(decoder, decoder.end())


def _written(decoder: Decoder, chunks: Iterable[Json]) -> bytes:
    out = b"".join(b"data: " + rawjson.encode(chunk) + BLANK for chunk in chunks)
    return out + DONE if decoder.complete else out
