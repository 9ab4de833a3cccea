"""Segment: one file of the call log, and what is known of it without reading it."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from gateway.store import files
from gateway.store.errors import StoreTooNew
from gateway.store.files import CRC, FORMAT, TAIL, body_of, canonical, format_of, head, id_of, intact, pack, split
from gateway.store.rollup import Countable, Rollup, RollupEntry, SealedSegment, SegmentSums, tables_of, totals_of

HEAD = head("calls")
EMPTY = HEAD + TAIL

BLOCK = 1 << 17
"""Bytes read at once: memory stays flat, a limit stops early, and searching one holds no other thread up for long."""

AHEAD = 1 << 20
"""Bytes that the system should fetch before they are read: by itself it expects files to be read forwards."""

decode_entry = msgspec.json.Decoder(RollupEntry).decode
_decode_file = msgspec.json.Decoder(dict[str, dict[str, dict[str, Any]]]).decode


class Segment:
    """Its numbers are right up to ``end``; ``sums`` is a Rollup while it grows and a Sealed afterwards."""

    def __init__(self, path: Path, sealed: SealedSegment | None = None) -> None:
        self.path, self.name = path, path.name
        self.sums: SegmentSums = sealed or Rollup()
        self.gone = False
        """The file was deleted for its age; its sums remain."""
        self.damaged = False
        """A line that is not as it was written was met while reading."""
        self.partial = sealed is not None and sealed.left is not None
        """Its file does not hold the calls its sums are of: damage took some, or all, after it was sealed."""
        self.foreign = False
        """A line was met that something else wrote, in another spelling of JSON."""
        self.edited = sealed is not None and sealed.edited
        """Its sums may be of other calls than those in its file."""
        self.n, self.first, self.last = (_count_held(sealed), sealed.first, sealed.last) if sealed else (0, 0, 0)
        self.t0, self.t1 = (sealed.t0, sealed.t1) if sealed else (0, 0)
        self.end = sealed.end if sealed else len(HEAD)

    def observe(self, doc_id: int, call: Countable) -> None:
        """Count one more call: its line lies behind those counted so far."""
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

    def recount(self, old: Countable, new: Countable) -> None:
        """A line was replaced by another one of the same call."""
        if isinstance(self.sums, Rollup):
            self.sums.replace(old, new)

    def scan(self) -> bool:
        """Count the intact new lines behind ``end``, which is behind the last of them afterwards.

        False if anything but these lines and the closing braces is there. Raises StoreTooNew.
        """
        with self.path.open("rb") as file:
            start = file.read(100)
            self._check_format(start)
            ours = start.startswith(HEAD)
            fine = self._count(file, self.end if ours else 0)
            file.seek(self.end)
            return fine and ours and file.read(len(TAIL) + 1) == TAIL

    def _count(self, file: BinaryIO, at: int) -> bool:
        """Read from an offset to the end of the file; whether nothing but new lines of ours stands before its end."""
        fine, suspect, end = True, False, file.seek(at)
        for raw in file:
            line = raw.rstrip(b"\n")
            comma, line = line.startswith(b","), line.removeprefix(b",")
            if intact(line):
                doc_id = id_of(line)
                self.foreign = self.foreign or canonical(line) != line
                fine = fine and not suspect and not self.foreign and comma == (self.n > 0) and doc_id > self.last
                suspect, end = False, at + len(raw.rstrip(b"\n"))
                if doc_id > self.last:  # ids only grow: an older one is a repeat
                    self.observe(doc_id, decode_entry(body_of(line)))
            elif line:
                suspect = True  # the closing braces, or damage if an intact line follows
            at += len(raw)
        self.end = max(end, len(HEAD))
        return fine

    def _check_format(self, start: bytes) -> None:
        found = format_of(start)
        if found is not None and found > FORMAT:
            raise StoreTooNew(
                f"{self.path} has format {found}, this program supports formats up to {FORMAT}; use a newer version"
            )

    def seal(self) -> SealedSegment:
        """Everything that is kept once the file no longer grows."""
        return SealedSegment(
            name=self.name,
            n=self.n,
            first=self.first,
            last=self.last,
            t0=self.t0,
            t1=self.t1,
            end=self.end,
            hourly=True,
            aborts_counted=True,
            refused_ms_counted=True,
            repeats_counted=True,
            lost_counted=True,
            waited_counted=True,
            latest=dict(self.sums.used()),
            all=totals_of(self.sums),
            tables=tables_of(self.sums),
        )

    def lines(self) -> Iterator[bytes]:
        """Its intact lines, oldest first."""
        for block in self._blocks():
            for line in split(block):
                if intact(line):
                    yield line
                elif line:
                    self.damaged = True

    def newest(self, needles: list[bytes]) -> Iterator[bytes]:
        """Its intact lines that hold every needle, newest first; nothing is decoded."""
        first = needles[0] if needles else CRC
        for block in self.blocks():
            stop = len(block)
            while (hit := block.rfind(first, 0, stop)) >= 0:
                start = block.rfind(b"\n", 0, hit) + 1
                end = block.find(b"\n", hit, stop)
                line = block[start : stop if end < 0 else end].removeprefix(b",")
                stop = start - 1 if start else 0
                if all(needle in line for needle in needles):
                    if intact(line):
                        yield line
                    else:
                        self.damaged = True

    def newest_after(self, skip: int) -> Iterator[bytes]:
        """Its intact lines, newest first, without the newest ``skip``: those are counted, not looked at."""
        for block in self.blocks():
            held = block.count(CRC)
            if skip >= held:
                skip -= held
                continue
            lines = [line for line in split(block) if intact(line)]
            yield from reversed(lines[: max(0, len(lines) - skip)])
            skip = 0

    def blocks(self, below: int | None = None) -> Iterator[bytes]:
        """Its lines in blocks, newest first: all of them, or those with smaller ids than ``below`` and a few more.

        Nothing if the file is gone.
        """
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return
        with file:
            if file.read(len(HEAD)) != HEAD:
                file.seek(0)
                yield foreign_lines(file.read())
                return
            stop = self.end if below is None else self._end_of(below, file)
            size, fetched = (BLOCK + 1) // 2, stop
            while stop > len(HEAD):
                start = max(len(HEAD), stop - size)
                if size == BLOCK and start < fetched + AHEAD // 2:
                    ahead = max(len(HEAD), fetched - AHEAD)
                    files.fetch(file.fileno(), ahead, fetched - ahead)
                    fetched = ahead
                file.seek(start)
                block = file.read(stop - start)
                if start > len(HEAD):  # its first line is whole in the block before
                    cut = block.find(b"\n") + 1
                    if not cut:
                        size *= 2
                        continue
                    block, start = block[cut:], start + cut
                yield b"\n".join(map(_canonical, split(block))) if self.foreign else block
                stop, size = start - 1, BLOCK

    def _end_of(self, below: int, file: BinaryIO) -> int:
        """An offset behind all lines with smaller ids, and at most some blocks behind the last of them."""
        low, high = len(HEAD), self.end
        while high - low > BLOCK:
            middle = (low + high) // 2
            found = _first_id(file, middle, high)
            if found is not None and found[0] < below:
                low = found[1]
            else:
                high = middle
        file.seek(high)
        return min(self.end, high + len(file.readline().rstrip(b"\n"))) if high < self.end else high

    def _blocks(self) -> Iterator[bytes]:
        """Its lines in blocks, oldest first."""
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return
        with file:
            if file.read(len(HEAD)) != HEAD:
                file.seek(0)
                yield foreign_lines(file.read())
                return
            while (left := self.end - file.tell()) > 0:
                block = file.read(min(BLOCK, left))
                if not block:
                    return
                yield block + (file.readline() if left > len(block) else b"")


def _first_id(file: BinaryIO, start: int, stop: int) -> tuple[int, int] | None:
    """The id of the first intact line that begins behind an offset, and where it ends; None if there is none."""
    file.seek(start)
    at = start + len(file.readline())
    while at < stop:
        raw = file.readline()
        line = raw.rstrip(b"\n").removeprefix(b",")
        at += len(raw)
        if intact(line):
            return id_of(line), at
        if not raw:
            break
    return None


def _canonical(line: bytes) -> bytes:
    return canonical(line) if intact(line) else line


def _count_held(sealed: SealedSegment) -> int:
    return sealed.n if sealed.left is None else sealed.left


def foreign_lines(data: bytes) -> bytes:
    """The calls of a file in a layout that is not ours, as our lines: stock TinyDB may have rewritten it.

    Empty if it cannot be read; a document that is not a call is left out.
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
