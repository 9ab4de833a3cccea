"""Line format: documents as lines of a file that grows in place and is valid JSON after every append.

    {"meta":{"1":{"format":1}},"calls":{
    "1":{"ts":1763680000000,"token":"tk_01","cost":815,"_crc":"5e1f0c2a"}
    ,"2":{"ts":1763680000120,"token":"tk_02","cost":77,"_crc":"90a1b2c3"}
    }}

An append overwrites the closing braces with a line and new closing braces. Because the comma is at the beginning of the
next line, a document and its newline are written once and never again: an append that is cut off damages nothing but
itself. The checksum covers the id and the content.
"""

import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from pathlib import Path

from gateway.store.errors import too_new

FORMAT = 1
"""The version of the layout. The documents themselves have no schema."""

TAIL = b"\n}}\n"
CRC = b'"_crc":"'

_FORMAT_IN_HEAD = re.compile(rb'\{\s*"meta":\s*\{\s*"1":\s*\{\s*"format":\s*(\d+)')


def head(table: str) -> bytes:
    """Returns the first line of a file with one table."""
    return b'{"meta":{"1":{"format":%d}},"%s":{' % (FORMAT, table.encode())


def check_format(path: Path, start: bytes) -> None:
    """Raises StoreError if a newer program wrote the file that begins with these bytes."""
    match = _FORMAT_IN_HEAD.match(start)
    if match and int(match[1]) > FORMAT:
        raise too_new(path, int(match[1]), FORMAT)


def pack(doc_id: int, body: bytes) -> bytes:
    """Returns a document's line without its comma. ``body`` is a JSON object."""
    line = b'"%d":%s%s' % (doc_id, body[:-1], b"," if len(body) > 2 else b"")
    return b'%s%s%08x"}' % (line, CRC, zlib.crc32(line))


def is_intact(line: bytes) -> bool:
    """Returns whether the line is exactly as it was packed."""
    cut = line.rfind(CRC)
    return cut > 0 and line[cut:] == b'%s%08x"}' % (CRC, zlib.crc32(line[:cut]))


def id_of(line: bytes) -> int:
    """Returns the document id of an intact line."""
    return int(line[1 : line.index(b'"', 1)])


def body_of(line: bytes) -> bytes:
    """Returns the document in an intact line, including its checksum."""
    return line[line.index(b":") + 1 :]


def join_lines(lines: Iterable[bytes], *, first: bool) -> bytes:
    """Returns the bytes that append these lines, without the closing braces. ``first``: the file has no lines yet."""
    return (b"\n" if first else b"\n,") + b"\n,".join(lines)


def file_with(first_line: bytes, lines: Sequence[bytes]) -> bytes:
    """Returns the bytes of a file with these lines."""
    return first_line + (join_lines(lines, first=True) if lines else b"") + TAIL


def split_lines(data: bytes) -> Iterator[bytes]:
    """Yields the lines without their commas, in the order of the file, including damaged ones."""
    return (raw.strip(b",\n") for raw in BytesIO(data))


def end_of_lines(data: bytes, first_line: bytes, lines: Iterable[bytes]) -> tuple[int, bool]:
    """Returns where these lines end in a file of their own, and whether ``data`` is that file.

    The lines are taken one at a time, so that memory never holds a large file twice.
    """
    end = len(first_line)
    is_same = data.startswith(first_line)
    for line in lines:
        added = join_lines([line], first=end == len(first_line))
        is_same = is_same and data.startswith(added, end)
        end += len(added)
    return end, is_same and data[end:] == TAIL
