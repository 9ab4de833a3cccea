"""A disk that is full or refuses to sync loses no settled call, doubles none, and is got over without a restart."""

import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.call import Record
from gateway.domain.errors import Unavailable
from gateway.store.store import Store
from tests.crash.judge import judge
from tests.fakes.audit import verify
from tests.fakes.syncing import sync_store
from tests.house import amount
from tests.store.samples import grant, record, running, segments, settle, stock, store_of

DISK_BYTES = 3 << 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of three mebibytes; only root may make one."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "none", str(tmp_path)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no disk can be mounted: {mounted.stderr.decode().strip()}")
    try:
        yield tmp_path
    finally:
        subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


def enlarge(disk: Path) -> None:
    subprocess.run(["mount", "-o", f"remount,size={4 * DISK_BYTES}", str(disk)], check=True)


def work_until_refused(store: Store, most: int, at_once: int) -> list[Record]:
    """Open and settle calls, some at a time, until none is admitted; what was settled."""
    done: list[Record] = []
    admitted = list(range(at_once))
    for i in range(0, most, at_once):
        if len(admitted) < at_once:
            break
        admitted = []
        for k in range(i, i + at_once):
            with suppress(Unavailable):
                store.books.open(running(k))
                admitted.append(k)
        done += [store.books.settle(record(k)) for k in admitted]
        sync_store(store)
    assert len(admitted) < at_once, "the disk never got full"
    return done


@pytest.mark.timeout(300)
@pytest.mark.parametrize("segment_bytes", [150_000, 32 << 20])
@pytest.mark.parametrize("at_once", [1, 40])
def test_a_disk_that_gets_full(small_disk: Path, segment_bytes: int, at_once: int) -> None:
    home = small_disk / "home"
    store = store_of(home, segment_bytes=segment_bytes)
    grant(store)
    done = work_until_refused(store, 20_000, at_once)
    assert not healthy(store)
    assert verify(store).equal
    assert sum(len(stock(path)) for path in segments(home / "usage")) == store.calls.count
    enlarge(small_disk)
    later = settle(store, 90_000)
    assert healthy(store)
    store.close()
    again = store_of(home, segment_bytes=segment_bytes)
    assert again.calls.find(limit=99_999) == [later, *reversed(done)]
    assert again.books.balance() == later.balance
    assert verify(again).equal
    again.close()


def test_calls_that_run_when_the_disk_gets_full_are_recorded_on_it(small_disk: Path) -> None:
    """The reserve is for them: even a kill takes nothing."""
    home = small_disk / "home"
    store = store_of(home)
    grant(store)
    for k in range(50):
        store.books.open(running(k))
    _fill(small_disk / "hog")
    done = [store.books.settle(record(k)) for k in range(50)]
    assert store.calls.find(limit=99) == done[::-1]
    with suppress(Unavailable):  # each time less is kept back
        for k in range(60, 80):
            store.books.open(running(k))
            _fill(small_disk / f"hog {k}")
            done.append(store.books.settle(record(k)))
    assert (store.books.healthy, store.calls.find(limit=99)) == (False, done[::-1])
    (small_disk / "hog").unlink()
    store.books.open(running(90))
    assert store.books.healthy
    store.close()


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as hog:
        for size in (1 << 16, 1 << 12, 1):
            with suppress(OSError):
                for _ in range(DISK_BYTES // size):
                    hog.write(bytes(size))


def test_every_place_where_the_disk_can_be_full(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The n-th system call that takes space fails, and all after it, for each n."""
    for n in range(amount(36, 600)):
        home = scratch / f"home-{n}"
        store = store_of(home, segment_bytes=4000)
        grant(store)
        with monkeypatch.context() as patch:
            failing(patch, n)
            done = [settled for i in range(30) if (settled := tried(store, i))]
            with suppress(OSError):
                sync_store(store)
            assert {r.id for r in done} >= {r.id for r in store.calls.find(limit=99)}, n
        sync_store(store)
        assert store.calls.find(limit=99) == done[::-1], n
        assert verify(store).difference == "", n
        store.close()
        assert judge(home, []) == [], n


def test_every_sync_that_can_fail(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The n-th sync fails, once, or from then on until the disk is well."""
    for n in range(amount(20, 200)):
        for times in (1, 1 << 30):
            home = scratch / f"home-{n}-{times}"
            store = store_of(home, segment_bytes=4000)
            grant(store)
            with monkeypatch.context() as patch:
                failing_sync(patch, n, times)
                done = []
                for i in range(30):
                    done += [settled] if (settled := tried(store, i)) else []
                    with suppress(OSError):
                        sync_store(store)
            sync_store(store)
            assert store.books.healthy
            assert store.calls.find(limit=99) == done[::-1], (n, times)
            store.close()
            assert judge(home, []) == [], (n, times)


def healthy(store: Store) -> bool:
    return store.books.healthy


def tried(store: Store, i: int) -> Record | None:
    with suppress(Unavailable):
        return settle(store, i)
    return None


def failing(patch: pytest.MonkeyPatch, n: int) -> None:
    left = [n]

    def limited(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(fd: int, data: bytes, *rest: int) -> Any:
            left[0] -= 1
            if left[0] >= 0 or len(data) <= 4:  # closing braces go over space that the file has
                return real(fd, data, *rest)
            part = real(fd, data[: len(data) // 3], *rest)
            if left[0] % 2:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return part

        return call

    for name in ("write", "pwrite"):
        patch.setattr(os, name, limited(getattr(os, name)))
    patch.setattr(os, "posix_fallocate", lambda *_: refuse(errno.ENOSPC))


def failing_sync(patch: pytest.MonkeyPatch, n: int, times: int) -> None:
    left = [n]

    def limited(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(fd: int) -> None:
            left[0] -= 1
            if -times <= left[0] < 0:
                refuse(errno.EIO)
            real(fd)

        return call

    for name in ("fsync", "fdatasync"):
        patch.setattr(os, name, limited(getattr(os, name)))


def refuse(number: int) -> None:
    raise OSError(number, os.strerror(number))
