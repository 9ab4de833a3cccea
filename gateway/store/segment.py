"""Segment: one file of the call log, its numbers and sums, and the ways to read it."""

from collections.abc import Iterator
from contextlib import suppress
from copy import copy
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from gateway.domain.call import Record
from gateway.domain.json_text import contains
from gateway.store import files
from gateway.store.line_format import TAIL, body_of, head, id_of, is_intact, pack, split_lines
from gateway.store.rollup import Rollup, SealedSegment, encode_sums

HEAD = head("calls")
EMPTY = HEAD + TAIL

BLOCK = 1 << 17
"""How many bytes are read at once: few, to save memory, to stop early, and to let other threads run."""

_decode_record = msgspec.json.Decoder(Record).decode
_decode_file = msgspec.json.Decoder(dict[str, dict[str, dict[str, Any]]]).decode


def read_call(line: bytes) -> tuple[int, Record] | None:
    """Returns the number and the record in a line; None if the line is damaged.

    So is a line with a field of another type, whatever its checksum: nobody else could read the files with it.
    """
    try:
        return (id_of(line), _decode_record(body_of(line))) if is_intact(line) else None
    except (ValueError, RecursionError):
        return None


class Segment:
    """A file of calls. Its numbers describe the file up to ``end`` and are explained in ``SealedSegment``.

    ``sums`` is a Rollup while the file grows, and a SealedSegment afterwards.
    """

    def __init__(self, path: Path, sealed: SealedSegment | None = None) -> None:
        self.path, self.name = path, path.name
        self.sums: Rollup | SealedSegment = sealed or Rollup()
        self.deleted = False
        """Whether the file was deleted because of its age. Its sums remain."""
        self.incomplete = sealed is not None and sealed.remaining is not None
        """Whether the file was damaged after it was sealed, so that it lacks calls that the sums include."""
        self.edited = sealed is not None and sealed.edited
        """Whether another program changed the file, so that the sums may not match its calls."""
        self.count = 0
        """The number of calls in the file, which is less than in its sums if it is incomplete."""
        if sealed is not None:
            self.count = sealed.count if sealed.remaining is None else sealed.remaining
        self.first, self.last = (sealed.first, sealed.last) if sealed else (0, 0)
        self.earliest, self.latest = (sealed.earliest, sealed.latest) if sealed else (0, 0)
        self.end = sealed.end if sealed else len(HEAD)
        """The offset after the last counted line."""

    @property
    def readable(self) -> bool:
        return self.count > 0 and not self.deleted

    def copy(self) -> "Segment":
        """Returns a copy, which calls that are added later do not change."""
        copied = copy(self)
        copied.sums = self.sums.copy() if isinstance(self.sums, Rollup) else self.sums
        return copied

    def add_call(self, doc_id: int, call: Record) -> None:
        """Count one more call, whose line follows those counted so far."""
        ts = call.ts
        if not self.count:
            self.first, self.earliest = doc_id, ts
        elif ts < self.earliest:
            self.earliest = ts
        self.latest = max(self.latest, ts)
        self.last = doc_id
        self.count += 1
        if isinstance(self.sums, Rollup):
            self.sums.add(call)

    def seal(self) -> SealedSegment:
        """Returns the entry of the file for the ledger, once the file has stopped growing."""
        return SealedSegment(
            name=self.name,
            count=self.count,
            first=self.first,
            last=self.last,
            earliest=self.earliest,
            latest=self.latest,
            end=self.end,
            hourly=True,
            last_used=dict(self.sums.last_used),
            raw_totals=encode_sums(self.sums.totals),
            raw_tables=encode_sums(self.sums.table),
        )

    def lines(self, text: bytes = b"") -> Iterator[bytes]:
        """Yields the lines with this text, newest first, also damaged ones."""
        for block in self.blocks():
            if contains(block, text):
                yield from (line for line in reversed([*split_lines(block)]) if line and text in line)

    def calls(self, text: bytes = b"", skip: int = 0) -> Iterator[tuple[int, Record]]:
        """Yields numbers and records, newest first, without damaged lines. ``skip`` lines are left out first."""
        return filter(None, map(read_call, islice(self.lines(text), skip, None)))

    def blocks(self) -> Iterator[bytes]:
        """Yields blocks of whole lines, newest first, without those added meanwhile. The file may be missing."""
        stop = self.end
        try:
            file = files.open_to_read(self.path)
        except FileNotFoundError:
            return
        with file:
            if file.read(len(HEAD)) != HEAD:
                file.seek(0)
                yield convert_foreign_layout(file.read())
                return
            size = (BLOCK + 1) // 2
            while stop > len(HEAD):
                start = max(len(HEAD), stop - size)
                file.seek(start)
                block = file.read(stop - start)
                if start > len(HEAD):  # its first line may be cut; the next block has all of it
                    first_line = block.find(b"\n") + 1
                    if not first_line:
                        size *= 2
                        continue
                    block, start = block[first_line:], start + first_line
                yield block
                stop, size = start - 1, BLOCK


def convert_foreign_layout(data: bytes) -> bytes:
    """Returns our lines for the calls in a file of another layout, such as TinyDB's own; none if unreadable."""
    try:
        calls = _decode_file(data)["calls"]
    except (KeyError, ValueError, RecursionError):
        return b""
    lines = []
    for key, doc in calls.items():
        doc.pop("_crc", None)
        with suppress(ValueError):
            line = pack(int(key), msgspec.json.encode(doc))
            lines += [line] if read_call(line) else []
    return b"\n".join(lines)
