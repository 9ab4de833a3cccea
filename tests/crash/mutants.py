"""Mutants: the store with one of its safety mechanisms taken away. A test that does not notice is useless."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.domain.call import Record
from gateway.store import files, line_format, segment
from gateway.store.inflight import Inflight
from gateway.store.line_format import TAIL, join_lines
from gateway.store.log import Log
from gateway.store.recorder import Recorder
from gateway.store.segment import HEAD
from gateway.store.tail import Tail

Patch = pytest.MonkeyPatch


def no_checksum(patch: Patch) -> None:
    """A line that looks complete is believed."""

    def intact(line: bytes) -> bool:
        return line.startswith(b'"') and line_format.CRC in line and line.endswith(b'"}')

    for module in (line_format, segment):
        patch.setattr(module, "is_intact", intact)


def no_undo(patch: Patch) -> None:
    """What a failed write left in the file stays there."""

    def append(tail: Tail, new: list[bytes]) -> None:
        end = tail.segment.end
        body = join_lines(new, first=end == len(HEAD))
        files.write_all(tail._fd, body + TAIL, end)  # noqa: SLF001
        tail.segment.end = end + len(body)
        tail._unsynced += new  # noqa: SLF001

    patch.setattr(Tail, "append", append)


def hold_ends_first(patch: Patch) -> None:
    """The end of a hold is written before the record."""
    real_end, real_write = Recorder.end, Recorder.write

    def end(recorder: Recorder, record: Record) -> None:
        recorder._inflight.end([record.id])  # noqa: SLF001
        real_end(recorder, record)

    def write(recorder: Recorder, record: Record | None = None) -> None:
        if record is not None:
            recorder._inflight.end([record.id])  # noqa: SLF001
        real_write(recorder, record)

    patch.setattr(Recorder, "end", end)
    patch.setattr(Recorder, "write", write)


def no_hold(patch: Patch) -> None:
    """Calls begin without anything being written."""

    def begin(inflight: Inflight, call: object) -> None: ...

    patch.setattr(Inflight, "begin", begin)


def replace_in_place(patch: Patch) -> None:
    """Files are written over instead of being replaced."""

    def replace(path: Path, data: bytes, *, durable: bool = True) -> None:
        fd = files.open_file(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            files.write_all(fd, data)
            os.fsync(fd)
        finally:
            os.close(fd)

    patch.setattr(files, "replace", replace)


def begun_in_place(patch: Patch) -> None:
    """A segment has its name before its first line."""

    def create(path: Path, data: bytes) -> None:
        fd = files.open_file(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            files.write_all(fd, data)
        finally:
            os.close(fd)

    patch.setattr(files, "create", create)


def no_sync_before_rename(patch: Patch) -> None:
    """A file gets its name before its content is on the disk."""
    real = files.replace

    def replace(path: Path, data: bytes, *, durable: bool = True) -> None:
        real(path, data, durable=False)
        if durable:
            files.sync_folder(path.parent)

    patch.setattr(files, "replace", replace)


def no_folder_sync(patch: Patch) -> None:
    """New names are not made durable."""
    patch.setattr(files, "sync_folder", lambda _: None)


def no_sync(patch: Patch) -> None:
    """The log is never synced."""
    patch.setattr(files, "sync", lambda _: None)


def seal_unsynced(patch: Patch) -> None:
    """The ledger counts a segment that is not on the disk yet."""
    patch.setattr(Log, "_sync", lambda *_: None)
    patch.setattr(Tail, "dirty", property(lambda tail: False))


def no_look_for_records(patch: Patch) -> None:
    """What was running is lost, even if its record was written just before the crash."""
    patch.setattr("gateway.store.calls.CallLog.recorded_ids", lambda *_: set())


MUTANTS: dict[str, Callable[[Patch], None]] = {
    mutant.__name__: mutant
    for mutant in (
        *(no_checksum, no_undo, hold_ends_first, no_hold, replace_in_place, begun_in_place),
        *(no_sync_before_rename, no_folder_sync, no_sync, seal_unsynced, no_look_for_records),
    )
}
