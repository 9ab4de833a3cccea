"""Saying: the smallest dialect: an event is a word; ``.`` is the end; a whole answer is its words in an array."""

import json

from gateway.domain.channel import Channel
from gateway.upstream import rawjson
from gateway.upstream.adapter import AttemptFailed, Failure
from gateway.upstream.failures import bad_response
from gateway.upstream.framing import SSEEvent
from gateway.upstream.translate.response import Completion, Json, chunk, completion, delta, message


class Sayings:
    """Implements ``chat.decoder.Decoder``."""

    def __init__(self, channel: Channel, *, late: bool = False) -> None:
        self._channel = channel
        self._late = late
        """Its end is that of the bytes."""
        self.failure: Failure | None = None
        self.complete = False
        self.marks: tuple[str, ...] = ()

    def take(self, event: SSEEvent) -> list[Json]:
        word = json.loads(event.data)
        if word == "!":
            self.failure = bad_response(self._channel, "it said !")
            return []
        if word == "." and not self._late:
            return self.end()
        return [] if word == "." else [chunk("s1", delta(content=word))]

    def end(self) -> list[Json]:
        if self.complete:
            return []
        self.complete = True
        return [chunk("s1", delta(finish="stop"))]

    def whole(self, body: bytes) -> Completion:
        """The words of an array, as a chat completion."""
        words = rawjson.maybe(body)
        if not isinstance(words, list):
            raise AttemptFailed(bad_response(self._channel, "no array"))
        answer = completion("s1", [(message("".join(words)), "stop")], None)
        return Completion(rawjson.encode(answer), self.marks)


def said(*words: str) -> bytes:
    """The events of the words."""
    return b"".join(b"data: " + json.dumps(word).encode() + b"\n\n" for word in words)
