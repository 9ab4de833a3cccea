"""Reads the body of a request: the raw values of one strict JSON object, without decoding what nobody needs.

Size of the structure, depth, repeated top-level keys and absurd numbers are checked before anything is parsed. Two
parsers must never see two different requests (RFC 8259 leaves open which of two equal names counts).

The checks work on a *skeleton*: the body with every string replaced by ``s``, made with a few passes of C speed. Short
skeletons are often the same, so their results are cached. Each step takes linear time, because the event loop waits for
it.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from itertools import accumulate, compress

import msgspec

from gateway.domain import rawjson
from gateway.domain.errors import BadRequest
from gateway.domain.json_text import Value, read_typed, replace_lone_surrogates
from gateway.domain.rawjson import Fields
from gateway.domain.sse import BOM

MAX_DEPTH = 64
MAX_STRUCTURE = 200_000
"""The most objects, arrays and commas of one body; 8 MiB of ``[],`` would stop the event loop for a second."""
MAX_FIELDS = 4096
"""The most fields at the top level; the decoder does not stop before it has read them all."""
MAX_BARE = 2 << 20
"""The most bytes outside of strings, without whitespace."""
MAX_QUOTES = 4 * MAX_STRUCTURE + 4
"""The most quotes: ``MAX_STRUCTURE`` leaves no room for more strings."""


class BodyLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much a body may have outside of its strings."""

    structure: int = MAX_STRUCTURE
    bare: int = MAX_BARE


DEFAULT_LIMITS = BodyLimits()
TOKEN_LIMITS = BodyLimits(structure=1_000_000, bare=8 << 20)
"""For APIs whose texts may come as tokens: 300,000 numbers and more in one request."""

PIECE_SIZE = 4 << 10
"""How many bytes of a body are split at once."""

_HUGE_NUMBER = re.compile(rb"[^\d.]\d{20,}+(?![.eE])|[^\d.]\d{300,}+|\d[eE]\+?+0*+(?:[3-9]\d\d|[1-9]\d{3})")
"""Integers beyond 19 digits, powers of ten beyond 299: other parsers read them differently, or not at all."""

_BETWEEN_NUMBERS = re.compile(rb"[^0-9.eE+-]")
_DEPTH_STEPS = [{ord("{"): 1, ord("["): 1, ord("}"): -1, ord("]"): -1}.get(byte, 0) for byte in range(256)]
_IS_COLON = [byte == ord(":") for byte in range(256)]
_ALL_BUT_MARKS = bytes(byte for byte in range(256) if byte not in b"{}[]:")

_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def fields_of(body: bytes, limits: BodyLimits = DEFAULT_LIMITS) -> Fields:
    """Returns the body's fields, with lone surrogates replaced. Raises BadRequest."""
    body = body.removeprefix(BOM)
    skeleton = _skeleton_of(body)
    keys = _cached_key_count(skeleton) if len(skeleton) <= 512 else _key_count(skeleton, limits)
    try:
        fields = _parse(body)
    except BadRequest:
        repaired = replace_lone_surrogates(body)
        if repaired == body:
            raise
        fields = _parse(repaired)
    if len(fields) != keys:
        raise BadRequest("the body has a key twice at its top level; send each field once", code="duplicate_key")
    return fields


def decode_body(decoder: "msgspec.json.Decoder[Value]", body: bytes, fields: Fields) -> Value:
    """Returns the decoded body, or the decoded ``fields`` if it is empty or not strict JSON. Raises BadRequest."""
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return read_typed(decoder, rawjson.encode(fields), "")


def unread_names(fields: Fields, read_names: Mapping[str, Collection[str]]) -> list[str]:
    """Returns the members of objects, by their names, that are set but not read, such as ``reasoning.context``."""
    names: list[str] = []
    for name, members in read_names.items():
        names += unread_members([rawjson.maybe_fields(fields.get(name))], f"{name}.", members)
    return names


def unread_members(objects: Iterable[Fields], prefix: str, read_names: Collection[str]) -> list[str]:
    """Returns the members of objects in a list that are set but not read, each once, such as ``tools[].examples``."""
    members = (member for fields in objects for member in fields.items())
    names = (name for name, raw in members if name not in read_names and not rawjson.is_nothing(raw))
    return [prefix + name for name in dict.fromkeys(names)]


def check_text(raw: msgspec.Raw, where: str) -> msgspec.Raw:
    """Returns a JSON string of a request. Raises BadRequest for another value."""
    if not rawjson.is_text(raw):
        raise BadRequest(f"{where}: must be a string", code="invalid_type", param=where)
    return raw


def _parse(body: bytes) -> Fields:
    try:
        if not body.isascii():
            body.decode()
        return _decode(body)
    except UnicodeDecodeError as error:
        raise BadRequest(f"the body is not UTF-8: byte {error.start}", code="invalid_json") from error
    except msgspec.ValidationError as error:
        raise BadRequest("the body must be one JSON object", code="invalid_type") from error
    except msgspec.DecodeError as error:
        raise BadRequest(f"the body is not valid JSON: {error}", code="invalid_json") from error


def _skeleton_of(body: bytes) -> bytes:
    """Returns the body with each string replaced by ``s``. Raises BadRequest if it has too many.

    It is split piece by piece. The rest of a string that is longer than a piece is skipped, in a fiftieth of the time
    that splitting takes.
    """
    unescaped = body.replace(b"\\\\", b"__").replace(b'\\"', b"__") if b"\\" in body else body
    if len(unescaped) <= PIECE_SIZE:
        return b"s".join(unescaped.split(b'"')[0::2])
    bare, quotes, start = list[bytes](), 0, 0
    while start < len(unescaped):
        parts = unescaped[start : start + PIECE_SIZE].split(b'"')
        bare.append(b"s".join(parts[0::2]))
        quotes += len(parts) - 1
        start += PIECE_SIZE
        if len(parts) % 2 == 0:  # the piece ends within a string
            bare.append(b"s")
            quotes += 1
            start = unescaped.find(b'"', start) + 1 or len(unescaped)
        if quotes > MAX_QUOTES:
            raise BadRequest(f"the body has more than {MAX_QUOTES // 2} strings", code="too_complex")
    return b"".join(bare)


def _key_count(skeleton: bytes, limits: BodyLimits = DEFAULT_LIMITS) -> int:
    """Returns how many keys the outermost object has, repeated ones included. Raises BadRequest."""
    skeleton = skeleton.translate(None, b" \t\r\n")
    _check_size(skeleton, limits)
    marks = skeleton.translate(None, _ALL_BUT_MARKS)
    depths = list(accumulate(map(_DEPTH_STEPS.__getitem__, marks), initial=0))
    if max(depths) > MAX_DEPTH:
        raise BadRequest(f"the body is nested deeper than {MAX_DEPTH} levels", code="too_deep")
    colons = compress(depths[1:], map(_IS_COLON.__getitem__, marks))  # the depth of each
    keys = list(colons).count(1)
    if keys > MAX_FIELDS:
        raise BadRequest(f"the body has {keys} fields; the limit is {MAX_FIELDS}", code="too_complex")
    return keys


_cached_key_count = lru_cache(maxsize=512)(_key_count)


def _check_size(skeleton: bytes, limits: BodyLimits) -> None:
    size = skeleton.count(b"{") + skeleton.count(b"[") + skeleton.count(b",")
    if size > limits.structure:
        msg = f"the body has {size} objects, arrays and commas; the limit is {limits.structure}"
        raise BadRequest(msg, code="too_complex")
    if len(skeleton) > limits.bare:
        msg = f"the body has {len(skeleton)} bytes outside of strings; the limit is {limits.bare}"
        raise BadRequest(msg, code="too_complex")
    if (match := _find_huge_number(skeleton)) is not None:
        number = match.group()[1:24].decode("ascii", "replace")
        raise BadRequest(f"a number with {number} in it is too large to be read safely", code="invalid_value")


def _find_huge_number(skeleton: bytes) -> "re.Match[bytes] | None":
    """Returns the first match. The search goes in steps, because each one keeps all other threads from running."""
    start = 0
    while start < len(skeleton):
        gap = _BETWEEN_NUMBERS.search(skeleton, start + (64 << 10))
        end = len(skeleton) if gap is None else gap.start()
        if (match := _HUGE_NUMBER.search(skeleton, start, end)) is not None:
            return match
        start = end
    return None
