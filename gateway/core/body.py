"""Body: a request's bytes to the raw values of one strict JSON object, without decoding what nobody reads.

Checked here, before anything is parsed: size of the structure, depth, repeated top-level keys, absurd numbers. Two
parsers must never see two different requests (``reliability.md`` F-B1 to F-B7).

The checks work on a *skeleton*: the body with every string replaced by ``s``, made with a few passes of C speed.
"""

import re
from functools import partial

import msgspec

from gateway.domain.errors import BadRequest

MAX_DEPTH = 64
MAX_STRUCTURE = 200_000
"""Objects, arrays and commas of one body; 8 MiB of ``[],`` would otherwise stop the event loop for a second."""

_BOM = b"\xef\xbb\xbf"
_INNERMOST = re.compile(rb"\{[^{}\[\]]*\}|\[[^{}\[\]]*\]")
_HUGE = re.compile(rb"(?<![\d.])\d{20,}(?![\d.eE])|\d[eE]\+?0*[3-9]\d\d|\d[eE]\+?0*[1-9]\d{3}")
"""Integers beyond 19 digits, exponents beyond 299: other parsers read them as something else, or not at all."""
_LONE_SURROGATE = re.compile(
    rb"(?<!\\)((?:\\\\)*)(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|(?<!\\)((?:\\\\)*)\\u([dD][89a-fA-F][0-9a-fA-F]{2})"
)

_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

Fields = dict[str, msgspec.Raw]
"""The top level of a JSON object: keys in their order, values as they were sent."""


def fields_of(body: bytes) -> tuple[Fields, int]:
    """The top level of the object, and the block that lone surrogates were masked into (0: there were none).

    Raises BadRequest with the position where a parser would stop.
    """
    body = body.removeprefix(_BOM)
    skeleton = _skeleton(body)
    _check_size(skeleton)
    block = 0
    try:
        body.decode()
        fields = _parse(body)
    except UnicodeDecodeError as error:
        raise BadRequest(f"the body is not UTF-8: byte {error.start}", code="invalid_json") from error
    except msgspec.DecodeError as error:
        masked, block = _mask(body)
        if not block:
            raise BadRequest(f"the body is not valid JSON: {error}", code="invalid_json") from error
        fields = _parse_masked(masked)
    _check_top(skeleton, len(fields))
    return fields, block


def _parse(body: bytes) -> Fields:
    try:
        return _decode(body)
    except msgspec.ValidationError as error:
        raise BadRequest("the body must be one JSON object", code="invalid_type") from error
    except RecursionError as error:
        raise _too_deep() from error


def _parse_masked(body: bytes) -> Fields:
    try:
        return _parse(body)
    except msgspec.DecodeError as error:
        raise BadRequest(f"the body is not valid JSON: {error}", code="invalid_json") from error


def _skeleton(body: bytes) -> bytes:
    if b"\\" in body:
        body = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    return b"s".join(body.split(b'"')[0::2])


def _check_size(skeleton: bytes) -> None:
    size = skeleton.count(b"{") + skeleton.count(b"[") + skeleton.count(b",")
    if size > MAX_STRUCTURE:
        msg = f"the body has {size} objects, arrays and commas; the limit is {MAX_STRUCTURE}"
        raise BadRequest(msg, code="too_complex")
    if (huge := _HUGE.search(skeleton)) is not None:
        number = huge.group()[:24].decode()
        raise BadRequest(f"a number begins with {number} and is too large to be read safely", code="invalid_value")


def _check_top(skeleton: bytes, keys: int) -> None:
    """Fold the innermost brackets until only the top level is left: the number of rounds is the depth."""
    top = skeleton.strip()[1:-1]
    for _ in range(MAX_DEPTH - 1):
        top, folded = _INNERMOST.subn(b"v", top)
        if not folded:
            break
    if b"{" in top or b"[" in top:
        raise _too_deep()
    if top.count(b":") != keys:
        msg = "a key stands twice at the top level of the body; send each field once"
        raise BadRequest(msg, code="duplicate_key")


def _too_deep() -> BadRequest:
    return BadRequest(f"the body is nested deeper than {MAX_DEPTH} levels", code="too_deep")


def _mask(body: bytes) -> tuple[bytes, int]:
    """Lone surrogate escapes are legal JSON, but no strict decoder takes them: put private-use escapes in their place.

    Returns the masked body and the private block used (0xE0 or 0xE8), or 0 if there was nothing to mask. A block is
    free if the body itself has no escape of it, so unmasking is exact.
    """
    for block in (0xE0, 0xE8, 0xF0):
        if not re.search(rb"\\u" + _block_pattern(block), body):
            masked = _LONE_SURROGATE.sub(partial(_masked, block), body)
            return (masked, block) if masked != body else (body, 0)
    return body, 0


def _masked(block: int, found: re.Match[bytes]) -> bytes:
    if found.group(2) is not None:
        return found.group()
    code = int(found.group(4), 16)
    return (found.group(3) or b"") + b"\\u%04x" % (code - 0xD800 + (block << 8))


def unmask(body: bytes, block: int) -> bytes:
    """Put the lone surrogate escapes back (the letters' case is not kept)."""

    def restore(found: re.Match[bytes]) -> bytes:
        return found.group(1) + b"\\u%04x" % (int(found.group(2), 16) - (block << 8) + 0xD800)

    return re.sub(rb"(?<!\\)((?:\\\\)*)\\u(" + _block_pattern(block) + rb")", restore, body)


def _block_pattern(block: int) -> bytes:
    """Hex digits of the 2048 code points that begin at ``block`` << 8."""
    high = b"%02x" % block
    first = b"[%c%c]" % (high[0], high[:1].upper()[0])
    return first + (b"[0-7]" if high[1:] == b"0" else b"[89a-fA-F]") + b"[0-9a-fA-F]{2}"
