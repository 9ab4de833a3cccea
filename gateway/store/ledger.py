"""Ledger: the sums of sealed segments, kept for ever in ``ledger.json``, one line for each segment.

A segment's sums enter in one atomic write, under its name. A segment in the ledger is never counted again, and one that
is not always is, so each call counts exactly once, wherever a crash hit. The version before the last write stays as
``ledger.old.json``; what damage takes from one file is found in the other, or in the segments.
"""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from gateway.store import files
from gateway.store.errors import StoreDamaged, StoreTooNew
from gateway.store.files import FORMAT, TAIL, body_of, format_of, head, intact, join, pack
from gateway.store.folder import ordinary
from gateway.store.rollup import DAY, SealedSegment, coarse
from gateway.store.segment import Segment

HEAD = head("segments")
END = TAIL.removeprefix(b"\n")
"""The last line."""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(SealedSegment).decode


class Ledger:
    """All sealed segments by name, in order. Raises StoreTooNew."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "ledger.json"
        self._old = folder / "ledger.old.json"
        self.damaged = False
        """Something was lost. The former version, which is then kept, and the segments must replace it."""
        self.sealed: dict[str, SealedSegment] = {}
        self.there = self._take(self.path)
        """The file exists. It may have no segments, if none was ever sealed."""
        if self.damaged or not self.there:
            known, lost = self.sealed, self.damaged
            self.sealed = {}
            self._take(self._old)
            self.sealed, self.damaged = {**self.sealed, **known}, lost or bool(self.sealed)
        self.sealed = dict(sorted(self.sealed.items(), key=lambda item: item[1].first))

    def put(self, *sealed: SealedSegment) -> None:
        """Add or replace segments, in one atomic write. On OSError nothing changes."""
        new = {**self.sealed, **{segment.name: segment for segment in sealed}}
        # hourly charts and windows of a month need no more
        before = max((segment.t1 for segment in new.values()), default=0) - 40 * DAY
        new = {
            name: coarse(segment) if segment.hourly and segment.t1 < before else segment
            for name, segment in new.items()
        }
        lines = [pack(i, _encode(segment)) for i, segment in enumerate(new.values(), 1)]
        if self.path.exists() and not self.damaged:
            files.replace(self._old, files.read(self.path))
        files.replace(self.path, HEAD + (join(lines, first=True) if lines else b"") + TAIL)
        self.sealed, self.there = new, True

    def restore(self, moment: int) -> Path:
        """Keep a copy of a damaged file and rewrite it from what is known. Returns the copy's path. Raises OSError."""
        kept = files.keep(self.path, files.read(self.path), moment)
        self.put()
        self.damaged = False
        return kept

    def _take(self, path: Path) -> bool:
        """Read a file line by line, so that it is never in memory twice. Returns False if it is missing."""
        try:
            file = files.open_to_read(path)
        except FileNotFoundError:
            return False
        with file:
            first = file.readline()
            version = format_of(first[:100])
            if version is not None and version > FORMAT:
                raise StoreTooNew(
                    f"{ordinary(path)} has format {version}, this program supports formats up to {FORMAT}; "
                    "use a newer version"
                )
            held = b"" if first == HEAD + b"\n" else first
            self.damaged = self.damaged or bool(held)
            for raw in file:
                self._take_line(held)
                held = raw
            if held != END:
                self._take_line(held)
                self.damaged = self.damaged or bool(first)
        return bool(first)

    def _take_line(self, raw: bytes) -> None:
        line = raw.rstrip(b"\n").removeprefix(b",")
        if intact(line):
            segment = _decode(body_of(line))
            self.sealed[segment.name] = segment
        elif line:
            self.damaged = True


def check_complete(path: Path, segments: Iterable[Segment]) -> None:
    """Check that the segments a damaged ledger lost still exist and were counted. Raises StoreDamaged if not.

    Old segments are deleted from the beginning, so only what lies before an existing segment can be missing. Calls that
    damage took from the beginning of a segment are found nowhere else.
    """
    expected, before_is_there = 1, False
    for segment in segments:
        if segment.n and segment.first > expected and not before_is_there and not _repaired(segment):
            raise StoreDamaged(
                f"{ordinary(path)} is damaged or missing, and so is its former version: the sums of calls {expected} "
                f"to {segment.first - 1} are lost and their records are deleted, so balances cannot be known. "
                f"Restore {path.name} from a backup",
                details={"file": str(ordinary(path))},
            )
        expected, before_is_there = segment.last + 1, not segment.gone


def _repaired(segment: Segment) -> bool:
    return any(segment.path.parent.glob(f"{segment.name}.*.damaged"))
