"""Lines: how documents lie in a file that is grown in place and is valid JSON after every append.

    {"meta":{"1":{"format":1}},"calls":{
    "1":{"ts":1763680000000,"token":"tk_01","cost":815,"_crc":"5e1f0c2a"}
    ,"2":{"ts":1763680000120,"token":"tk_02","cost":77,"_crc":"90a1b2c3"}
    }}

An append writes a line and new closing braces over the old closing braces. The comma leads the line, so a document
and the newline behind it are written once and never again: a torn append can damage nothing but itself. The checksum
covers the id and the content.
"""

import re
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

FORMAT = 1
"""Grows when the layout changes; documents themselves have no schema."""

TAIL = b"\n}}\n"
CRC = b'"_crc":"'

_SPACED = re.compile(rb" (?:(?<=[{\[,:] )|(?=[}\],:]))").search
"""Finds a blank between two parts of a line; also some blanks in texts."""

_decode = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.Encoder().encode

_FORMAT_IN_HEAD = re.compile(rb'\{\s*"meta":\s*\{\s*"1":\s*\{\s*"format":\s*(\d+)')


def head(table: str) -> bytes:
    """The first line of a file of one table."""
    return b'{"meta":{"1":{"format":%d}},"%s":{' % (FORMAT, table.encode())


def format_of(data: bytes) -> int | None:
    """The format that a file's first bytes tell; None if they are none of ours."""
    found = _FORMAT_IN_HEAD.match(data)
    return int(found[1]) if found else None


def pack(doc_id: int, body: bytes) -> bytes:
    """One line without its comma; ``body`` is a JSON object."""
    line = b'"%d":%s%s' % (doc_id, body[:-1], b"," if len(body) > 2 else b"")
    return b'%s%s%08x"}' % (line, CRC, zlib.crc32(line))


def fit(doc_id: int, body: bytes, size: int) -> bytes | None:
    """The same in exactly so many bytes, filled up with blanks; None if it is longer."""
    missing = size - len(pack(doc_id, body))
    return pack(doc_id, body[:-1] + b" " * missing + b"}") if missing >= 0 else None


def intact(line: bytes) -> bool:
    """Whether the line is exactly as it was packed."""
    cut = line.rfind(CRC)
    return cut > 0 and line[cut:] == b'%s%08x"}' % (CRC, zlib.crc32(line[:cut]))


def canonical(line: bytes) -> bytes:
    """An intact line as this program writes it, which is the same line unless something else wrote it.

    Searches for bytes rely on it: JSON allows other escapes and blanks, and a checksum fits any of them.
    """
    if not (b"\\" in line or b"\t" in line or b"\r" in line or _SPACED(line)):
        return line  # neither escapes nor blanks: there is no other way to write it
    try:
        document = _decode(body_of(line))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return line
    document.pop("_crc", None)
    doc_id, body = id_of(line), _encode(document)
    return line if fit(doc_id, body, len(line)) == line else pack(doc_id, body)


def id_of(line: bytes) -> int:
    """The document id of an intact line."""
    return int(line[1 : line.index(b'"', 1)])


def body_of(line: bytes) -> bytes:
    """The document of an intact line, its checksum included."""
    return line[line.index(b":") + 1 :]


def join(lines: Iterable[bytes], *, first: bool) -> bytes:
    """What is put between the present end of a file and its closing braces."""
    return (b"\n" if first else b"\n,") + b"\n,".join(lines)


def split(data: bytes) -> Iterator[bytes]:
    """The lines without their commas, in the order of the file, whatever is in them."""
    return (raw.removeprefix(b",") for raw in data.split(b"\n"))
