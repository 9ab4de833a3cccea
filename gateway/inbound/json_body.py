"""A request's bytes to the raw values of one strict JSON object, without decoding what nobody reads.

Checked here, before anything is parsed: size of the structure, depth, repeated top-level keys, absurd numbers. Two
parsers must never see two different requests (RFC 8259 leaves open which of two equal names counts).

The checks work on a *skeleton*: the body with every string replaced by ``s``, made with a few passes of C speed. Short
ones are all alike, so what was found of them is remembered. No step may take longer than linear time: the whole event
loop waits for it.
"""

import re
from collections.abc import Collection, Sequence
from functools import lru_cache
from itertools import accumulate, compress
from typing import Final

import msgspec

from gateway.domain import rawjson
from gateway.domain.errors import BadRequest
from gateway.domain.json_text import Value, read_typed
from gateway.domain.rawjson import Fields

MAX_DEPTH = 64
MAX_STRUCTURE = 200_000
"""The most objects, arrays and commas of one body; 8 MiB of ``[],`` would otherwise stop the event loop for a
second."""
MAX_FIELDS = 4096
"""The most fields at the top level; the decoder does not stop before it has read them all."""
MAX_BARE = 2 << 20
"""The most bytes outside of strings, without whitespace."""
MAX_QUOTES = 4 * MAX_STRUCTURE + 4
"""The most quotes: ``MAX_STRUCTURE`` leaves no room for more strings."""


class BodyLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a body may be other than text."""

    structure: int = MAX_STRUCTURE
    bare: int = MAX_BARE


USUAL = BodyLimits()

PIECE = 4 << 10
"""Bytes of a body that are split at once."""
SHORT = 512
"""The most bytes of a skeleton that is remembered, and how many are."""

BOM = b"\xef\xbb\xbf"
BLANKS = b" \t\r\n"
_HUGE = re.compile(rb"[^\d.]\d{20,}+(?![.eE])|[^\d.]\d{300,}+|\d[eE]\+?+0*+(?:[3-9]\d\d|[1-9]\d{3})")
"""Integers beyond 19 digits, powers of ten beyond 299: other parsers read them differently, or not at all."""

_BETWEEN_NUMBERS = re.compile(rb"[^0-9.eE+-]")
_STEP = [{ord("{"): 1, ord("["): 1, ord("}"): -1, ord("]"): -1}.get(byte, 0) for byte in range(256)]
_IS_COLON = [byte == ord(":") for byte in range(256)]
_NO_MARKS = bytes(byte for byte in range(256) if byte not in b"{}[]:")

STAND_INS = (b"e", b"f", b"a", b"b", b"c", b"9", b"8", b"7", b"6", b"5", b"4", b"3", b"2", b"1")
"""First hex digits that can replace the ``d`` of a surrogate's escape, private characters first."""

_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def fields_of(body: bytes, limits: BodyLimits = USUAL) -> tuple[Fields, bytes]:
    """Returns the top level of the object, and the digit that surrogate escapes were masked with (empty: none was).

    Raises BadRequest with the position where a parser would stop.
    """
    body = body.removeprefix(BOM)
    skeleton = _skeleton(body)
    keys = _known_keys(skeleton) if len(skeleton) <= SHORT else _keys(skeleton, limits)
    digit = b""
    try:
        fields = _parse(body)
    except BadRequest:
        masked, digit = mask(body)
        if not digit:
            raise
        fields = _parse(masked)
    if len(fields) != keys:
        raise BadRequest("the body has a key twice at its top level; send each field once", code="duplicate_key")
    return fields, digit


def decode_body(decoder: "msgspec.json.Decoder[Value]", body: bytes, fields: Fields, mask: bytes) -> Value:
    """Returns what is read of a request: of its fields if ``body`` is empty or no strict JSON. Raises BadRequest."""
    strict = body and not (mask or body.startswith(BOM))
    return read_typed(decoder, body if strict else rawjson.encode(fields), "")


def unread_in(fields: Fields, name: str, read: Collection[str]) -> list[str]:
    """Returns the names of what an object in a request has beside the fields that are read: ``reasoning.context``."""
    decoded = rawjson.maybe(fields.get(name))
    given = decoded if isinstance(decoded, dict) else {}
    return [f"{name}.{inner}" for inner, value in given.items() if inner not in read and value not in _NOTHING]


_NOTHING: Final[Sequence[object]] = (None, False, [], {})


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


def _skeleton(body: bytes) -> bytes:
    """Returns the body with each string replaced by ``s``. Raises BadRequest if it has too many.

    It is split piece by piece: the end of a string that is longer than a piece is found in a fiftieth of the time that
    splitting it takes.
    """
    plain = body.replace(b"\\\\", b"__").replace(b'\\"', b"__") if b"\\" in body else body
    if len(plain) <= PIECE:
        return b"s".join(plain.split(b'"')[0::2])
    bare, quotes, start = list[bytes](), 0, 0
    while start < len(plain):
        parts = plain[start : start + PIECE].split(b'"')
        bare.append(b"s".join(parts[0::2]))
        quotes += len(parts) - 1
        start += PIECE
        if len(parts) % 2 == 0:  # it ends within a string
            bare.append(b"s")
            quotes += 1
            start = plain.find(b'"', start) + 1 or len(plain)
        if quotes > MAX_QUOTES:
            raise BadRequest(f"the body has more than {MAX_QUOTES // 2} strings", code="too_complex")
    return b"".join(bare)


def _keys(skeleton: bytes, limits: BodyLimits = USUAL) -> int:
    """Returns how many keys the outermost object has, repeated ones included. Raises BadRequest for too much
    structure.
    """
    skeleton = skeleton.translate(None, BLANKS)
    _check_size(skeleton, limits)
    keys = _top_keys(skeleton)
    if keys > MAX_FIELDS:
        raise BadRequest(f"the body has {keys} fields; the limit is {MAX_FIELDS}", code="too_complex")
    return keys


_known_keys = lru_cache(maxsize=SHORT)(_keys)


def _check_size(skeleton: bytes, limits: BodyLimits) -> None:
    size = skeleton.count(b"{") + skeleton.count(b"[") + skeleton.count(b",")
    if size > limits.structure:
        msg = f"the body has {size} objects, arrays and commas; the limit is {limits.structure}"
        raise BadRequest(msg, code="too_complex")
    if len(skeleton) > limits.bare:
        msg = f"the body has {len(skeleton)} bytes outside of strings; the limit is {limits.bare}"
        raise BadRequest(msg, code="too_complex")
    if (huge := _huge_number(skeleton)) is not None:
        number = huge.group()[1:24].decode("ascii", "replace")
        raise BadRequest(f"a number with {number} in it is too large to be read safely", code="invalid_value")


def _huge_number(skeleton: bytes) -> "re.Match[bytes] | None":
    start = 0
    while start < len(skeleton):
        gap = _BETWEEN_NUMBERS.search(skeleton, start + (64 << 10))
        end = len(skeleton) if gap is None else gap.start()
        if (match := _HUGE.search(skeleton, start, end)) is not None:
            return match
        start = end
    return None


def _top_keys(skeleton: bytes) -> int:
    """Raises BadRequest if it is nested too deeply."""
    marks = skeleton.translate(None, _NO_MARKS)
    depths = list(accumulate(map(_STEP.__getitem__, marks), initial=0))
    if max(depths) > MAX_DEPTH:
        raise BadRequest(f"the body is nested deeper than {MAX_DEPTH} levels", code="too_deep")
    return list(compress(depths[1:], map(_IS_COLON.__getitem__, marks))).count(1)


def mask(body: bytes) -> tuple[bytes, bytes]:
    r"""Replace lone surrogate escapes, which are legal JSON but which strict decoders refuse, by ordinary characters.

    Every escape ``\udXXX`` gets another first digit, pairs too, so that nothing has to be paired up. A digit is free if
    the body has no escape with it, so unmasking is exact. Returns the masked body and the digit, empty if nothing was
    masked.
    """
    if b"\0" in body:  # not JSON at all, and our stand-in for an escaped backslash
        return body, b""
    shielded = body.replace(b"\\\\", b"\0")
    digit = next((digit for digit in STAND_INS if b"\\u" + digit not in shielded), b"")
    masked = shielded.replace(b"\\uD", b"\\ud").replace(b"\\ud", b"\\u" + digit).replace(b"\0", b"\\\\")
    return (body, b"") if not digit or masked == body else (masked, digit)


def unmask(body: bytes, digit: bytes) -> bytes:
    """Restore the surrogate escapes (the case of their ``d`` is not kept). Without a digit there are none."""
    if not digit:
        return body
    shielded = body.replace(b"\\\\", b"\0")
    return shielded.replace(b"\\u" + digit, b"\\ud").replace(b"\0", b"\\\\")
