"""Ledger: the sums of sealed segments, kept for ever in ``ledger.json``, one line for each segment.

A segment's sums are added under its name in one atomic write. A segment in the ledger is never counted again, and every
other segment is, so each call counts exactly once, whenever a crash happens. The version before the last write stays as
``ledger.old.json``: what is damaged in one file is read from the other, or from the segments.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from gateway.domain.units import DAY_MS
from gateway.store import files
from gateway.store.errors import StoreDamaged
from gateway.store.line_format import body_of, check_format, end_of_lines, file_with, head, is_intact, pack, split_lines
from gateway.store.rollup import SealedSegment, to_daily
from gateway.store.segment import Segment

HEAD = head("segments")

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(SealedSegment).decode


class Ledger:
    """All sealed segments by name, in order. Raises StoreError."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "ledger.json"
        self._old = folder / "ledger.old.json"
        self.exists, is_damaged, current = _read(self.path)
        """Whether the file exists. It has no segments if none was ever sealed."""
        former = {} if self.exists and not is_damaged else _read(self._old)[2]
        self.damaged = is_damaged or bool(former)
        """Whether something was lost. Then the former version, which must replace it, is not overwritten."""
        sealed = {**former, **current}
        self.sealed = dict(sorted(sealed.items(), key=lambda item: item[1].first))

    def put(self, *sealed: SealedSegment) -> None:
        """Add or replace segments in one atomic write. Raises OSError; then nothing has changed."""
        new = {**self.sealed, **{segment.name: segment for segment in sealed}}
        # hourly charts and windows of a month need no older hours
        before = max((segment.latest for segment in new.values()), default=0) - 40 * DAY_MS
        new = {
            name: to_daily(segment) if segment.hourly and segment.latest < before else segment
            for name, segment in new.items()
        }
        lines = [pack(i, _encode(segment)) for i, segment in enumerate(new.values(), 1)]
        if self.path.exists() and not self.damaged:
            files.replace(self._old, files.read(self.path))
        files.replace(self.path, file_with(HEAD, lines))
        self.sealed, self.exists = new, True

    def rebuild(self, moment: int) -> Path:
        """Copy the damaged file, then rewrite it from what could be read. Returns the copy's path. Raises OSError."""
        copy = files.save_copy(self.path, files.read(self.path), moment)
        self.put()
        self.damaged = False
        return copy


def _read(path: Path) -> tuple[bool, bool, dict[str, SealedSegment]]:
    """Returns whether a file has any bytes, whether it is damaged, and the segments that can be read."""
    data = files.read(path)
    check_format(path, data[:100])
    sealed: dict[str, SealedSegment] = {}

    def lines() -> Iterator[bytes]:
        for line in filter(is_intact, split_lines(data)):
            with suppress(ValueError, RecursionError):  # a field of another type
                segment = _decode(body_of(line))
                sealed[segment.name] = segment
                yield line

    _, is_whole = end_of_lines(data, HEAD, lines())
    return bool(data), bool(data) and not is_whole, sealed


def check_complete(path: Path, segments: Iterable[Segment]) -> None:
    """Check that the files of all segments which a damaged ledger lost still exist. Raises StoreDamaged if not.

    Old segments are deleted first, so only those before the first existing file can be missing. If the first calls of a
    segment are missing because its file was repaired, nothing else has them either.
    """
    expected, previous_exists = 1, False
    for segment in segments:
        has_gap = segment.count and segment.first > expected and not previous_exists
        copies_before_repairs = segment.path.parent.glob(f"{segment.name}.*.damaged")
        if has_gap and not any(copies_before_repairs):
            raise StoreDamaged(
                f"{files.ordinary_path(path)} is damaged or missing, and so is its former version: the sums of calls "
                f"{expected} to {segment.first - 1} are lost and their records deleted, so balances cannot be known. "
                f"Restore {path.name} from a backup",
                details={"file": str(files.ordinary_path(path))},
            )
        expected, previous_exists = segment.last + 1, not segment.deleted
