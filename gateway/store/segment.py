"""Segment: one file of the call log, and what is known of it without reading it."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from gateway.store import files
from gateway.store.errors import StoreTooNew
from gateway.store.files import CRC, FORMAT, TAIL, body_of, format_of, head, id_of, intact, pack, split
from gateway.store.folder import ordinary
from gateway.store.rollup import Countable, Rollup, RollupEntry, SealedSegment, SegmentSums, tables_of, totals_of

HEAD = head("calls")
EMPTY = HEAD + TAIL

BLOCK = 1 << 17
"""Bytes read at once: little memory is used, a search can stop early, and other threads wait only briefly."""

decode_entry = msgspec.json.Decoder(RollupEntry).decode
_decode_file = msgspec.json.Decoder(dict[str, dict[str, dict[str, Any]]]).decode


class Segment:
    """A file of calls. Its numbers describe the file up to ``end``; ``sums`` is a Rollup while it grows and a
    SealedSegment afterwards.
    """

    def __init__(self, path: Path, sealed: SealedSegment | None = None) -> None:
        self.path, self.name = path, path.name
        self.sums: SegmentSums = sealed or Rollup()
        self.gone = False
        """Whether the file was deleted because of its age. Its sums remain."""
        self.partial = sealed is not None and sealed.left is not None
        """Whether the file was damaged after it was sealed, so that it lacks calls that the sums include."""
        self.edited = sealed is not None and sealed.edited
        """Whether another program changed the file, so that the sums may not match its calls."""
        self.n = 0 if sealed is None else sealed.n if sealed.left is None else sealed.left
        self.first, self.last = (sealed.first, sealed.last) if sealed else (0, 0)
        self.t0, self.t1 = (sealed.t0, sealed.t1) if sealed else (0, 0)
        self.end = sealed.end if sealed else len(HEAD)
        """The offset after the last counted line. ``n``, ``first``, ``last``, ``t0``, ``t1``: see ``SealedSegment``."""

    def observe(self, doc_id: int, call: Countable) -> None:
        """Count one more call, whose line follows those counted so far."""
        ts = call.ts
        if not self.n:
            self.first, self.t0 = doc_id, ts
        elif ts < self.t0:
            self.t0 = ts
        self.t1 = max(self.t1, ts)
        self.last = doc_id
        self.n += 1
        if isinstance(self.sums, Rollup):
            self.sums.add(call)

    def scan(self) -> bool:
        """Count the intact new lines after ``end``, and move ``end`` after them.

        Returns whether nothing but the closing braces follows them. Raises StoreTooNew.
        """
        with files.open_to_read(self.path) as file:
            start = file.read(100)
        self._check_format(start)
        ours = start.startswith(HEAD)
        with files.open_to_read(self.path) as file:
            file.seek(self.end if ours else 0)
            fine = self._count(file)
            file.seek(self.end)
            return fine and ours and file.read(len(TAIL) + 1) == TAIL

    def _count(self, file: BinaryIO) -> bool:
        """Count the intact lines from here on. Returns whether all are new, with nothing else between them."""
        fine, at = True, file.tell()
        for raw in file:
            line, comma = raw.rstrip(b"\n").removeprefix(b","), raw.startswith(b",")
            if intact(line):
                doc_id = id_of(line)
                fine = fine and at == self.end + 1 and comma == (self.n > 0) and doc_id > self.last
                self.end = at + len(line) + comma
                if doc_id > self.last:  # ids only grow: an older one is a repeat
                    self.observe(doc_id, decode_entry(body_of(line)))
            at += len(raw)
        return fine

    def _check_format(self, start: bytes) -> None:
        version = format_of(start)
        if version is not None and version > FORMAT:
            raise StoreTooNew(
                f"{ordinary(self.path)} has format {version}, this program supports formats up to {FORMAT}; "
                "use a newer version"
            )

    def seal(self) -> SealedSegment:
        """Returns the summary of the file for the ledger, once the file stops growing."""
        return SealedSegment(
            name=self.name,
            n=self.n,
            first=self.first,
            last=self.last,
            t0=self.t0,
            t1=self.t1,
            end=self.end,
            hourly=True,
            latest=dict(self.sums.used()),
            all=totals_of(self.sums),
            tables=tables_of(self.sums),
        )

    def lines(self) -> Iterator[bytes]:
        """Yields its intact lines, oldest first."""
        with suppress(FileNotFoundError):
            yield from filter(intact, self.all_lines(self.end))

    def all_lines(self, end: int) -> Iterator[bytes]:
        """Yields the lines before the offset ``end``, oldest first, including damaged ones.

        Lines that are appended meanwhile are not read. The call itself raises FileNotFoundError, not the iteration.
        """
        return _lines_up_to(files.open_to_read(self.path), end)

    def newest(self, needles: list[bytes]) -> Iterator[bytes]:
        """Yields its intact lines that contain every needle, newest first, without decoding them."""
        first = needles[0] if needles else CRC
        for block in self.blocks():
            stop = len(block)
            while (hit := block.rfind(first, 0, stop)) >= 0:
                start = block.rfind(b"\n", 0, hit) + 1
                end = block.find(b"\n", hit, stop)
                line = block[start : stop if end < 0 else end].removeprefix(b",")
                stop = start - 1 if start else 0
                if all(needle in line for needle in needles) and intact(line):
                    yield line

    def newest_lines(self, skip: int, end: int) -> Iterator[bytes]:
        """Yields the intact lines before an offset, newest first, without the newest ``skip``."""
        for block in self.blocks(end):
            held = block.count(CRC)
            if skip >= held:
                skip -= held
                continue
            lines = [line for line in split(block) if intact(line)]
            yield from reversed(lines[: max(0, len(lines) - skip)])
            skip = 0

    def blocks(self, end: int | None = None) -> Iterator[bytes]:
        """Yields blocks of whole lines before an offset (by default the present end), newest first.

        Yields nothing if the file is missing.
        """
        stop = self.end if end is None else end  # read once: lines after it may be incomplete
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
                if start > len(HEAD):  # its first line may be cut; the next block has it whole
                    cut = block.find(b"\n") + 1
                    if not cut:
                        size *= 2
                        continue
                    block, start = block[cut:], start + cut
                yield block
                stop, size = start - 1, BLOCK


def _lines_up_to(file: BinaryIO, end: int) -> Iterator[bytes]:
    with file:
        if file.read(len(HEAD)) != HEAD:
            file.seek(0)
            yield from split(convert_foreign_layout(file.read()))
            return
        while (left := end - file.tell()) > 0:
            block = file.read(min(BLOCK, left))
            if not block:
                return
            yield from filter(None, split(block + (file.readline() if left > len(block) else b"")))


def convert_foreign_layout(data: bytes) -> bytes:
    """Returns our lines for the calls of a file in another layout, such as TinyDB's own.

    Returns nothing if the file cannot be read, and leaves out documents that are not calls.
    """
    try:
        calls = _decode_file(data)["calls"]
    except (KeyError, ValueError, RecursionError):
        return b""
    lines = []
    for key, doc in calls.items():
        doc.pop("_crc", None)
        with suppress(ValueError):
            line = pack(int(key), msgspec.json.encode(doc))
            decode_entry(body_of(line))
            lines.append(line)
    return b"\n".join(lines)
