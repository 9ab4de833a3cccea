"""Answers: what surrounds the content of an answer that went well (ids, headers, fields beside the messages) shows no
secret of its channel. The content itself is never looked at.

This is on the path of every call, so it is quick: short texts are searched in full, by one look-up for every few
characters; long fields are searched for the values as they stand in JSON.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from operator import itemgetter

import msgspec

from gateway.upstream import rawjson
from gateway.upstream.rawjson import Fields
from gateway.upstream.redaction.search import BLOCK, Needles, aligned, all_of, blanked, lowered

LONG = 4096
"""Characters of a field above which it is not searched for pieces and other spellings."""
SHORT = 256
"""Characters of an id or a header, for which it is known what to look up."""
HARMLESS = 7
"""Characters that are too few for a secret."""

REQUEST_ID = "x-upstream-request-id"

_PASSED = frozenset({"openai-processing-ms", "retry-after", "retry-after-ms"})
_LIMIT = re.compile(r"x-ratelimit-(?:limit|remaining|reset|used)(?:[-_][a-z]{1,11}){0,4}")
_LIMIT_VALUE = re.compile(r"[\w.:+,; /-]{1,64}", re.ASCII)
_IDS = ("x-request-id", "request-id", "x-generation-id", "mistral-correlation-id")
_ID = re.compile(r"[\w.:+/=-]{1,120}", re.ASCII)
_KNOWN = frozenset(
    {
        *("choices", "created", "delta", "finish_reason", "id", "index", "logprobs", "message", "model", "object"),
        "usage",
    }
)
"""Fields that are content, or that are looked at or written elsewhere."""


class Screen:
    """Keeps one channel's secrets out of its answers."""

    __slots__ = ("_grams", "_needles", "_values")

    def __init__(self, needles: Needles) -> None:
        self._needles = needles
        self._grams = frozenset(gram for spelling in needles.long for gram in all_of(spelling, BLOCK))
        self._values = tuple(dict.fromkeys(form for value in needles.values for form in _in_json(value)))

    def shows(self, text: str) -> bool:
        """Whether a short text shows a secret, or a piece of one."""
        if len(text) <= HARMLESS:
            return False
        low = text.lower() if text.isascii() else lowered(text)
        blocks = _blocks_of(len(low))(low) if 2 * BLOCK <= len(low) <= SHORT else aligned(low)
        if not self._grams.isdisjoint(blocks) or "%" in text or "\\" in text or "&" in text:
            return bool(self._needles.spans(text))
        for short in self._needles.short:  # noqa: SIM110 - a generator would cost more than all this
            if short in low:
                return True
        return False

    def hides(self, raw: msgspec.Raw) -> bool:
        """Whether a JSON value has a secret in it."""
        data = bytes(raw)
        if len(data) <= HARMLESS:
            return False
        if len(data) <= LONG:
            return self.shows(data.decode("utf-8", "replace"))
        return any(value in data for value in self._values)

    def clean(self, fields: Fields) -> bool:
        """Blank the secrets in the fields of an answer, chunk or choice, but for its content; whether any was there."""
        bad = self._hiding(fields)
        for name in bad:
            text = bytes(fields[name]).decode("utf-8", "replace")
            value = rawjson.maybe(blanked(text, self._needles.spans(text)).encode())
            fields[name] = rawjson.NULL if value is None else rawjson.raw(value)
        return bool(bad)

    def hides_in(self, fields: Fields) -> bool:
        """Whether there is anything to ``clean``."""
        return bool(self._hiding(fields))

    def _hiding(self, fields: Fields) -> list[str]:
        return [name for name, raw in fields.items() if name not in _KNOWN and self.hides(raw)]

    def headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """What of an answer's headers goes on to the client: limits, times, and the upstream's id of the call."""
        out = {}
        for name in _passed_on(tuple(headers)):
            value = headers[name]
            if len(value) <= HARMLESS or (_LIMIT_VALUE.fullmatch(value) and not self.shows(value)):
                out[name] = value
        for name in _IDS:
            found = headers.get(name)
            if found:
                if _ID.fullmatch(found) and not self.shows(found):
                    out[REQUEST_ID] = found
                break
        return out


@lru_cache(maxsize=256)
def _passed_on(names: tuple[str, ...]) -> tuple[str, ...]:
    """The headers that a client may use; an upstream's answers have nearly always the same."""
    return tuple(name for name in names if name in _PASSED or _LIMIT.fullmatch(name))


@lru_cache(maxsize=SHORT)
def _blocks_of(size: int) -> Callable[[str], tuple[str, ...]]:
    """What gives the aligned blocks of a text of that many characters, two at least, in one call of a built-in."""
    return itemgetter(*(slice(start, start + BLOCK) for start in range(0, size - BLOCK + 1, BLOCK)))


def _in_json(value: str) -> tuple[bytes, ...]:
    """The value as it stands in a JSON string, with and without the slash escaped."""
    written = msgspec.json.encode(value)[1:-1]
    return (written, written.replace(b"/", b"\\/"))


NO_SCREEN = Screen(Needles())
