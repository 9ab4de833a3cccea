"""The recorder loses no record, whatever the disk does."""

import errno
import os
from pathlib import Path

import pytest

from gateway.store.ballast import Ballast
from gateway.store.calls import CallLog
from gateway.store.inflight import Inflight
from gateway.store.log import Log
from gateway.store.recorder import Recorder
from tests.store.samples import record, running


class Disk:
    """Refuses writes while it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = self.unsynced = False
        self._pwrite, self._write, self._fdatasync, self._fsync = os.pwrite, os.write, os.fdatasync, os.fsync
        self._allocate = os.posix_fallocate
        monkeypatch.setattr(os, "pwrite", self.pwrite)
        monkeypatch.setattr(os, "write", self.write)
        monkeypatch.setattr(os, "fdatasync", self.fdatasync)
        monkeypatch.setattr(os, "fsync", self.fsync)
        monkeypatch.setattr(os, "posix_fallocate", self.allocate)

    def _space(self, size: int) -> None:
        if self.full and size > 10:  # closing braces go over space that a file has
            raise OSError(errno.ENOSPC, "the disk is full")

    def pwrite(self, fd: int, data: bytes, at: int) -> int:
        self._space(len(data))
        return self._pwrite(fd, data, at)

    def write(self, fd: int, data: bytes) -> int:
        self._space(len(data))
        return self._write(fd, data)

    def allocate(self, fd: int, at: int, size: int) -> None:
        self._space(size)
        self._allocate(fd, at, size)

    def fdatasync(self, fd: int) -> None:
        if self.unsynced:
            raise OSError(errno.EIO, "no sync")
        self._fdatasync(fd)

    def fsync(self, fd: int) -> None:
        if self.unsynced:
            raise OSError(errno.EIO, "no sync")
        self._fsync(fd)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


@pytest.fixture
def recorder(tmp_path: Path, disk: Disk) -> Recorder:
    return recorder_of(tmp_path)


def recorder_of(home: Path) -> Recorder:
    inflight = Inflight(home / "inflight.log")
    return Recorder(CallLog(Log(home / "usage")), inflight, Ballast(home / "ballast", 10_000), sync_s=0)


def on_disk(home: Path) -> list[str]:
    return [call.id for call in reversed(CallLog(Log(home / "usage", writer=False)).newest(999))]


def still_running(home: Path) -> list[str]:
    return list(Inflight(home / "inflight.log", writer=False).running)


def test_a_call_runs_from_its_hold_to_its_record(recorder: Recorder, tmp_path: Path) -> None:
    recorder.begin(running(1))
    recorder.begin(running(2))
    assert still_running(tmp_path) == [running(1).id, running(2).id]
    recorder.end(record(1))
    recorder.sync()
    assert (on_disk(tmp_path), still_running(tmp_path)) == ([record(1).id], [running(2).id])


def test_a_call_is_known_to_run_until_its_record_is_synced(recorder: Recorder, disk: Disk, tmp_path: Path) -> None:
    """Otherwise a power cut could take the record and leave the end."""
    recorder.begin(running(1))
    recorder.end(record(1))
    assert still_running(tmp_path) == [running(1).id]
    disk.unsynced = True
    with pytest.raises(OSError, match="no sync"):
        recorder.sync()
    assert still_running(tmp_path) == [running(1).id]
    disk.unsynced = False
    recorder.sync()
    assert still_running(tmp_path) == []


def test_a_hold_that_cannot_be_written_is_refused(recorder: Recorder, disk: Disk, tmp_path: Path) -> None:
    disk.full = True
    with pytest.raises(OSError, match="full"):
        recorder.begin(running(1))
    assert still_running(tmp_path) == []
    assert "refuses to write" in recorder.trouble
    assert not recorder.sync()
    disk.full = False
    recorder.begin(running(1))
    assert recorder.trouble == ""


def test_the_first_record_that_finds_no_room_takes_that_of_the_ballast(
    recorder: Recorder, disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder.begin(running(1))
    disk.full = True

    def give_up(_: Ballast) -> bool:
        disk.full = False
        return True

    monkeypatch.setattr(Ballast, "give_up", give_up)
    recorder.end(record(1))
    assert (on_disk(tmp_path), recorder.waiting()) == ([record(1).id], [])
    assert "full" in recorder.trouble


def test_records_that_may_wait_a_moment_are_written_by_one_write(
    recorder: Recorder, disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes: list[int] = []

    def counted(fd: int, data: bytes, at: int) -> int:
        writes.append(len(data))
        return disk.pwrite(fd, data, at)

    for i in range(3):
        recorder.begin(running(i))
        recorder.end(record(i), soon=True)
    assert (on_disk(tmp_path), len(recorder.waiting()), recorder.trouble) == ([], 3, "")
    monkeypatch.setattr(os, "pwrite", counted)
    recorder.write()
    recorder.write()
    assert (on_disk(tmp_path), recorder.waiting(), len(writes)) == ([record(i).id for i in range(3)], [], 1)


@pytest.mark.parametrize("done", ["end", "sync", "synced", "close"])
async def test_what_waits_a_moment_is_written_before_all_else(recorder: Recorder, tmp_path: Path, done: str) -> None:
    for i in range(2):
        recorder.begin(running(i))
    recorder.end(record(0), soon=True)
    if done == "end":
        recorder.end(record(1))
    elif done == "synced":
        await recorder.synced()
    else:
        getattr(recorder, done)()
    assert on_disk(tmp_path)[0] == record(0).id


def test_a_moment_later_the_disk_may_refuse(recorder: Recorder, disk: Disk, tmp_path: Path) -> None:
    for i in range(2):
        recorder.begin(running(i))
    disk.full = True
    recorder.end(record(0), soon=True)
    recorder.write()
    assert "refuses to write" in recorder.trouble
    disk.full = False
    recorder.end(record(1))
    assert (on_disk(tmp_path), len(recorder.waiting())) == ([], 2)
    recorder.sync()
    assert (on_disk(tmp_path), recorder.waiting()) == ([record(0).id, record(1).id], [])


def test_a_record_that_cannot_be_written_lets_no_call_begin(
    recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder.begin(running(0))

    def fails(*_: object) -> None:
        raise TypeError("a bug")

    with monkeypatch.context() as patch:
        patch.setattr(CallLog, "append", fails)
        recorder.end(record(0))
        assert "a bug" in recorder.trouble
        with pytest.raises(OSError, match="a bug"):
            recorder.begin(running(1))
    recorder.begin(running(1))
    assert (on_disk(tmp_path), recorder.trouble) == ([record(0).id], "")


def test_records_wait_in_memory_while_there_is_no_room_at_all(recorder: Recorder, disk: Disk, tmp_path: Path) -> None:
    for i in range(3):
        recorder.begin(running(i))
    disk.full = True
    for i in range(3):
        recorder.end(record(i))
    assert (on_disk(tmp_path), [call.id for call in recorder.waiting()]) == ([], [record(i).id for i in range(3)])
    assert len(still_running(tmp_path)) == 3


def test_no_call_begins_before_what_waits_is_written(recorder: Recorder, disk: Disk, tmp_path: Path) -> None:
    recorder.begin(running(0))
    disk.full = True
    recorder.end(record(0))
    with pytest.raises(OSError, match="full"):
        recorder.begin(running(1))
    disk.full = False
    recorder.begin(running(1))
    recorder.sync()
    assert (on_disk(tmp_path), still_running(tmp_path)) == ([record(0).id], [running(1).id])
    assert (recorder.trouble, recorder.waiting()) == ("", [])


def test_syncing_writes_what_waits(recorder: Recorder, disk: Disk, tmp_path: Path) -> None:
    recorder.begin(running(0))
    disk.full = True
    recorder.end(record(0))
    assert not recorder.sync()
    disk.full = False
    assert not recorder.sync()
    assert recorder.sync()
    assert (on_disk(tmp_path), recorder.trouble) == ([record(0).id], "")


def test_what_a_crash_took_from_memory_is_still_running_on_disk(recorder: Recorder, disk: Disk, tmp_path: Path) -> None:
    recorder.begin(running(0))
    disk.full = True
    recorder.end(record(0))
    assert still_running(tmp_path) == [running(0).id]


def test_a_disk_that_does_not_sync_admits_no_call_until_it_does(recorder: Recorder, disk: Disk) -> None:
    recorder.begin(running(0))
    recorder.end(record(0))
    disk.unsynced = True
    with pytest.raises(OSError, match="no sync"):
        recorder.sync()
    with pytest.raises(OSError, match="refuses to sync"):
        recorder.begin(running(1))
    disk.unsynced = False
    assert recorder.sync()
    recorder.begin(running(1))


def test_a_store_on_a_full_disk_opens_and_admits_nothing(disk: Disk, tmp_path: Path) -> None:
    recorder_of(tmp_path).close()
    (tmp_path / "ballast").unlink()
    disk.full = True
    recorder = recorder_of(tmp_path)
    assert "full" in recorder.trouble
    with pytest.raises(OSError, match="full"):
        recorder.begin(running(0))


async def test_waiting_without_a_thread_syncs_at_once(recorder: Recorder, disk: Disk) -> None:
    recorder.begin(running(0))
    await recorder.synced()
    disk.unsynced = True
    recorder.end(record(0))
    with pytest.raises(OSError, match="no sync"):
        await recorder.synced()


async def test_with_a_thread_it_syncs_there(disk: Disk, tmp_path: Path) -> None:
    inflight = Inflight(tmp_path / "inflight.log")
    calls = CallLog(Log(tmp_path / "usage"))
    recorder = Recorder(calls, inflight, Ballast(tmp_path / "ballast"), sync_s=60.0)
    recorder.begin(running(0))
    recorder.end(record(0))
    await recorder.synced()
    recorder.close()
    calls.log.close()
