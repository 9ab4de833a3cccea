"""Screen: keeps the secrets of a channel out of what surrounds the content of a successful answer: ids, headers, and
fields next to the messages. The content itself is never examined.

It runs for every call, so it is fast: short texts are searched thoroughly with one look-up for every few characters,
long fields only for the values as they are written in JSON.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

import msgspec

from gateway.domain import rawjson
from gateway.domain.rawjson import Fields
from gateway.domain.secret_search import (
    BLOCK,
    PIECE,
    SHORTEST,
    Needles,
    blank_spans,
    blocks_of,
    fold_case,
    has_escapes,
    windows_of,
)

HARMLESS = 7
"""The maximum length of a text that is too short for a secret, in characters."""

_PASSED = frozenset({"openai-processing-ms", "retry-after", "retry-after-ms"})
_LIMIT = re.compile(
    r"x-ratelimit-(?:limit|remaining|reset|used)(?:[-_][a-z]{1,11}){0,4}|anthropic-(?:ratelimit|fast)(?:-[a-z]{1,16}){1,5}"
)
_LIMIT_VALUE = re.compile(r"[\w.:+,; /-]{1,64}", re.ASCII)
ID_HEADERS = ("x-request-id", "request-id", "x-generation-id", "mistral-correlation-id")
"""The headers that may have an upstream's id of the call."""
_ID = re.compile(r"[\w.:+/=-]{1,120}", re.ASCII)
_CONTENT_FIELDS = frozenset(
    {
        *("choices", "created", "delta", "finish_reason", "id", "index", "logprobs", "message", "model", "object"),
        "usage",
    }
)
"""Fields that are content, or that are checked or replaced elsewhere."""


class Screen:
    """Finds and removes the secrets of one channel."""

    __slots__ = ("_grams", "_harmless", "_harmless_names", "_spaced", "_values", "needles", "shortest")

    def __init__(self, needles: Needles) -> None:
        self.needles = needles
        self.shortest = SHORTEST if needles.short else PIECE
        """The length of the shortest text that can contain a secret, or a piece of one."""
        self._spaced = any(len(value.split()) > 1 for value in needles.values)
        """Whether a secret contains spaces."""
        self._harmless: set[bytes] = set()
        """Short values without secrets, which most chunks repeat."""
        self._harmless_names: set[str] = set()
        self._grams = frozenset(gram for spelling in needles.long for gram in windows_of(spelling, BLOCK))
        written = [msgspec.json.encode(value)[1:-1] for value in needles.values]
        self._values = frozenset([*written, *(value.replace(b"/", b"\\/") for value in written)])
        """The secrets as they are written in JSON strings, with and without the slash escaped."""

    def has_secret(self, text: str) -> bool:
        """Returns whether a short text contains a secret, or a piece of one."""
        if len(text) <= HARMLESS:
            return False
        folded = fold_case(text)
        may_match = not self._grams.isdisjoint(blocks_of(folded))
        if may_match or has_escapes(text) or (self._spaced and "++" in folded):
            return bool(self.needles.spans(text))
        for short in self.needles.short:  # noqa: SIM110 - a generator would cost more than all this
            if short in folded:
                return True
        return False

    def value_has_secret(self, raw: msgspec.Raw) -> bool:
        data = bytes(raw)
        if len(data) <= HARMLESS or data in self._harmless:
            return False
        if len(data) > 4096:  # it is not searched for pieces and other spellings
            return any(value in data for value in self._values)
        has_secret = self.has_secret(data.decode("utf-8", "replace"))
        if not has_secret and len(data) <= 64:
            if len(self._harmless) >= 256:
                self._harmless.clear()
            self._harmless.add(data)
        return has_secret

    def clean(self, fields: Fields) -> bool:
        """Blank secrets in fields that are not content; remove fields whose name has one. Returns whether any had."""
        if fields.keys() <= _CONTENT_FIELDS:
            return False
        cleaned = self.without_secrets(fields, _CONTENT_FIELDS)
        is_changed = cleaned != fields
        if is_changed:
            fields.clear()
            fields.update(cleaned)
        return is_changed

    def without_secrets(self, fields: Fields, content: Iterable[str]) -> Fields:
        """Returns a copy of the fields without secrets in values or names. Values of the content are not examined."""
        leaking = () if fields.keys() <= self._harmless_names else self._leaking_names(fields)
        examined = fields.keys() - content
        cleaned = {**fields, **{n: self._blank(fields[n]) for n in examined if self.value_has_secret(fields[n])}}
        for name in leaking:
            del cleaned[name]
        return cleaned

    def _leaking_names(self, fields: Fields) -> set[str]:
        """Returns the names with secrets. Others are not searched again, if they are few and short."""
        leaking = set(filter(self.has_secret, fields))
        if len(fields) <= 64:
            if len(self._harmless_names) >= 256:
                self._harmless_names.clear()
            self._harmless_names.update(name for name in fields if len(name) <= 64 and name not in leaking)
        return leaking

    def _blank(self, value: msgspec.Raw) -> msgspec.Raw:
        text = bytes(value).decode("utf-8", "replace")
        blanked = rawjson.maybe(blank_spans(text, self.needles.spans(text)).encode())
        return rawjson.NULL if blanked is None else rawjson.raw(blanked)

    def headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Returns the headers of an answer that the client gets: limits, times, and the upstream's id of the call."""
        passed = {}
        useful_names, id_names = _useful_headers(tuple(headers))
        for name in useful_names:
            value = headers[name]
            if len(value) <= HARMLESS or (_LIMIT_VALUE.fullmatch(value) and not self.has_secret(value)):
                passed[name] = value
        for name in id_names:
            if request_id := headers[name]:
                if _ID.fullmatch(request_id) and not self.has_secret(request_id):
                    passed["x-upstream-request-id"] = request_id
                break
        return passed


@lru_cache(maxsize=256)
def _useful_headers(names: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the names of headers that a client may use, and of headers with ids. Most answers have the same."""
    useful_names = tuple(name for name in names if name in _PASSED or _LIMIT.fullmatch(name))
    return useful_names, tuple(name for name in ID_HEADERS if name in names)


NO_SCREEN = Screen(Needles())
