"""The recorder loses no record, whatever the disk does."""

import errno
import os
import shutil
from pathlib import Path
from threading import current_thread

import msgspec
import pytest

from gateway.domain.call import Record
from gateway.store.calls import CallLog
from gateway.store.disk_reserve import DiskReserve
from gateway.store.inflight import Inflight
from gateway.store.log import Log
from gateway.store.recorder import Recorder
from tests.fakes.disk import Disk
from tests.fakes.stored import copied
from tests.fakes.syncing import sync, syncer_of
from tests.store.samples import record, running, segments, stock

SPACE = ("write", "pwrite", "posix_fallocate")
"""Operations that take room."""


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch, tmp_path)


@pytest.fixture
def recorder(tmp_path: Path, disk: Disk) -> Recorder:
    return recorder_of(tmp_path)


def recorder_of(home: Path, sync_s: float = 0) -> Recorder:
    inflight = Inflight(home / "inflight.log")
    return Recorder(Log(home / "usage"), inflight, DiskReserve(home / "reserve", 10_000), syncer_of(sync_s))


def end(recorder: Recorder, i: int) -> None:
    """A call ends, and its record is written at once."""
    recorder.end(record(i))
    recorder.write()


def on_disk(home: Path) -> list[str]:
    with copied(home / "usage") as copy:
        return [call.id for call in reversed(CallLog(Log(copy)).find(limit=999))]


def still_running(home: Path) -> list[str]:
    running: dict[str, None] = {}
    for line in filter(None, (home / "inflight.log").read_bytes().split(b"\n")):
        found = msgspec.json.decode(line)
        if isinstance(found, str):
            running.pop(found, None)
        else:
            running[found["id"]] = None
    return list(running)


def test_a_call_runs_from_its_hold_to_its_record(recorder: Recorder, tmp_path: Path) -> None:
    recorder.begin(running(1))
    recorder.begin(running(2))
    assert still_running(tmp_path) == [running(1).id, running(2).id]
    end(recorder, 1)
    sync(recorder)
    assert (on_disk(tmp_path), still_running(tmp_path)) == ([record(1).id], [running(2).id])


def test_a_call_is_known_to_run_until_its_record_is_synced(recorder: Recorder, disk: Disk, tmp_path: Path) -> None:
    """Otherwise a power cut could take the record and leave the end."""
    recorder.begin(running(1))
    end(recorder, 1)
    assert still_running(tmp_path) == [running(1).id]
    disk.refuse(errno.EIO, "fsync", "fdatasync")
    with pytest.raises(OSError, match="Input/output error"):
        sync(recorder)
    assert still_running(tmp_path) == [running(1).id]
    disk.heal()
    sync(recorder)
    assert still_running(tmp_path) == []


def test_a_hold_that_cannot_be_written_is_refused(recorder: Recorder, disk: Disk, tmp_path: Path) -> None:
    disk.refuse(errno.ENOSPC, *SPACE)
    with pytest.raises(OSError, match="No space left"):
        recorder.begin(running(1))
    assert still_running(tmp_path) == []
    assert "refuses to write" in recorder.disk_errors.text
    assert not sync(recorder)
    disk.heal()
    recorder.begin(running(1))
    assert recorder.disk_errors.text == ""


def test_the_first_record_that_finds_no_room_takes_that_of_the_reserve(
    recorder: Recorder, disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder.begin(running(1))
    disk.refuse(errno.ENOSPC, *SPACE)

    def release(_: DiskReserve) -> bool:
        disk.heal()
        return True

    monkeypatch.setattr(DiskReserve, "release", release)
    end(recorder, 1)
    assert (on_disk(tmp_path), recorder.waiting()) == ([record(1).id], [])
    assert "No space left" in recorder.disk_errors.text


def test_records_that_may_wait_a_moment_are_written_by_one_write(
    recorder: Recorder, disk: Disk, tmp_path: Path
) -> None:
    for i in range(3):
        recorder.begin(running(i))
        recorder.end(record(i))
    assert (on_disk(tmp_path), len(recorder.waiting()), recorder.disk_errors.text) == ([], 3, "")
    disk.seen.clear()
    recorder.write()
    recorder.write()
    assert (on_disk(tmp_path), recorder.waiting()) == ([record(i).id for i in range(3)], [])
    assert [one.name for one in disk.seen].count("pwrite") == 1


@pytest.mark.parametrize("done", ["end", "synced", "close"])
async def test_what_waits_a_moment_is_written_before_all_else(recorder: Recorder, tmp_path: Path, done: str) -> None:
    for i in range(2):
        recorder.begin(running(i))
    recorder.end(record(0))
    if done == "end":
        end(recorder, 1)
    elif done == "synced":
        await recorder.wait_until_synced()
    else:
        recorder.close()
    assert on_disk(tmp_path)[0] == record(0).id


def test_a_moment_later_the_disk_may_refuse(recorder: Recorder, disk: Disk, tmp_path: Path) -> None:
    for i in range(2):
        recorder.begin(running(i))
    disk.refuse(errno.ENOSPC, *SPACE)
    recorder.end(record(0))
    recorder.write()
    assert "refuses to write" in recorder.disk_errors.text
    disk.heal()
    end(recorder, 1)
    assert (on_disk(tmp_path), recorder.waiting()) == ([record(0).id, record(1).id], [])
    assert recorder.disk_errors.text  # until the reserve is there again


def test_records_of_failures_are_not_tried_again_by_every_call(recorder: Recorder, disk: Disk, tmp_path: Path) -> None:
    """Nobody waits for them; what every call would try again takes time from all."""
    for i in range(2):
        recorder.begin(running(i))
    disk.refuse(errno.ENOSPC, *SPACE)
    end(recorder, 0)
    disk.heal()
    recorder.end(record(1, status=502))
    recorder.write()
    assert (on_disk(tmp_path), len(recorder.waiting())) == ([], 2)
    sync(recorder)
    assert (on_disk(tmp_path), recorder.waiting()) == ([record(0).id, record(1).id], [])


def test_an_answer_whose_record_is_refused_is_a_free_failure(recorder: Recorder, disk: Disk, tmp_path: Path) -> None:
    changed: list[tuple[Record, Record]] = []
    recorder.on_withheld = lambda old, new: changed.append((old, new))
    calls = [record(1, balance=900), record(2, status=502, balance=890, cost=10), record(3, balance=880)]
    for i, call in enumerate(calls, 1):
        recorder.begin(running(i))
        recorder.end(call)
    disk.refuse(errno.ENOSPC, *SPACE)
    recorder.write()
    assert [old for old, _ in changed] == [calls[0], calls[2]]
    kept = recorder.waiting()
    assert [(call.status, call.cost, call.possible, call.code) for call in kept] == [
        (503, 0, 1001, "store_failed"),
        (502, 10, 0, ""),
        (503, 0, 1003, "store_failed"),
    ]
    assert [call.balance for call in kept] == [1901, 1891, 880 + 1001 + 1003]
    assert "No space left on device" in kept[0].error
    disk.heal()
    sync(recorder)
    with copied(tmp_path / "usage") as copy:
        assert CallLog(Log(copy)).find(limit=9)[::-1] == kept


@pytest.mark.parametrize("number", [errno.EIO, errno.EFBIG, errno.ENOSPC])
def test_a_file_that_refuses_is_left_for_a_new_one(
    recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Its limit of size may be reached, or its place on the disk be bad."""
    for i in range(3):
        recorder.begin(running(i))
    end(recorder, 0)
    first = (tmp_path / "usage" / "calls-20251120-0000.json").stat().st_ino
    real = os.pwrite

    def pwrite(fd: int, data: bytes, at: int) -> int:
        if os.fstat(fd).st_ino == first and at > 60:
            raise OSError(number, os.strerror(number))
        return real(fd, data, at)

    monkeypatch.setattr(os, "pwrite", pwrite)
    end(recorder, 1)
    end(recorder, 2)
    assert [len(stock(path)) for path in segments(tmp_path / "usage")] == [1, 2]
    assert (on_disk(tmp_path), recorder.waiting()) == ([record(i).id for i in range(3)], [])
    assert bool(recorder.disk_errors.text) == (number == errno.ENOSPC)  # its reserve was released without success
    assert (tmp_path / "reserve").exists() == (number != errno.ENOSPC)


def test_what_the_disk_took_of_a_write_that_cannot_be_undone_counts(
    recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be found after a crash: so its calls are charged, and their answers go out."""
    for i in range(4):
        recorder.begin(running(i))
    end(recorder, 0)
    for i in range(1, 4):
        recorder.end(record(i))
    changed: list[Record] = []
    recorder.on_withheld = lambda old, _: changed.append(old)
    with monkeypatch.context() as patch:
        real, left = os.pwrite, [600]

        def pwrite(fd: int, data: bytes, at: int) -> int:
            if not left:
                raise OSError(errno.EIO, "bad")
            return real(fd, data[: left.pop()], at)

        for name in ("ftruncate", "open"):
            patch.setattr(os, name, lambda *_: (_ for _ in ()).throw(OSError(errno.EIO, "bad")))
        patch.setattr(os, "pwrite", pwrite)
        recorder.write()
        image = tmp_path / "image"
        shutil.copytree(tmp_path / "usage", image / "usage")
    assert changed == [record(3)]
    assert on_disk(image) == [record(i).id for i in range(3)]
    sync(recorder)
    assert on_disk(tmp_path) == [record(i).id for i in range(4)]
    assert sum(len(stock(path)) for path in segments(tmp_path / "usage")) == 4


def test_trouble_is_reported_when_it_begins_and_when_it_ends(recorder: Recorder, disk: Disk) -> None:
    told: list[str] = []
    recorder.disk_errors.on_change = lambda: told.append(recorder.disk_errors.text)
    recorder.begin(running(0))
    disk.refuse(errno.ENOSPC, *SPACE)
    for i in range(3):
        with pytest.raises(OSError, match="No space left"):
            recorder.begin(running(1 + i))
    end(recorder, 0)
    disk.heal()
    recorder.begin(running(9))
    assert told == ["the disk refuses to write: No space left on device", ""]


def test_unwritten_records_let_no_call_in(recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder.begin(running(0))

    def fails(*_: object, **__: object) -> None:
        raise TypeError("a bug")

    with monkeypatch.context() as patch:
        patch.setattr(Log, "append", fails)
        end(recorder, 0)
        assert "a bug" in recorder.disk_errors.text
        with pytest.raises(OSError, match="a bug"):
            recorder.begin(running(1))
    recorder.begin(running(1))
    assert (on_disk(tmp_path), recorder.disk_errors.text) == ([record(0).id], "")


def test_syncing_writes_what_waits(recorder: Recorder, disk: Disk, tmp_path: Path) -> None:
    recorder.begin(running(0))
    disk.refuse(errno.ENOSPC, *SPACE)
    end(recorder, 0)
    assert not sync(recorder)
    disk.heal()
    assert not sync(recorder)
    assert sync(recorder)
    assert (on_disk(tmp_path), recorder.disk_errors.text) == ([record(0).id], "")


def test_a_disk_that_does_not_sync_admits_no_call_until_it_does(recorder: Recorder, disk: Disk) -> None:
    recorder.begin(running(0))
    end(recorder, 0)
    disk.refuse(errno.EIO, "fsync", "fdatasync")
    with pytest.raises(OSError, match="Input/output error"):
        sync(recorder)
    with pytest.raises(OSError, match="refuses to sync"):
        recorder.begin(running(1))
    disk.heal()
    assert sync(recorder)
    recorder.begin(running(1))


def test_a_store_on_a_full_disk_opens_and_admits_nothing(disk: Disk, tmp_path: Path) -> None:
    recorder_of(tmp_path).close()
    (tmp_path / "reserve").unlink()
    disk.refuse(errno.ENOSPC, *SPACE)
    recorder = recorder_of(tmp_path)
    assert "No space left" in recorder.disk_errors.text
    with pytest.raises(OSError, match="No space left"):
        recorder.begin(running(0))


async def test_with_a_thread_it_syncs_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: set[str] = set()
    monkeypatch.setattr(os, "fdatasync", lambda _: threads.add(current_thread().name))
    recorder = recorder_of(tmp_path, sync_s=60.0)
    recorder.begin(running(0))
    end(recorder, 0)
    await recorder.wait_until_synced()
    assert threads == {"tollkeeper-sync"}
    recorder.close()
