"""The growing end of a segment: all or nothing, and what is not synced is remembered."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from gateway.store.lines import TAIL, pack
from gateway.store.segment import EMPTY, Segment
from gateway.store.tail import Tail

LINES = [pack(i, b'{"cost":%d}' % i) for i in range(1, 6)]


@pytest.fixture
def tail(tmp_path: Path) -> Tail:
    path = tmp_path / "calls-20251120-0000.json"
    path.write_bytes(EMPTY)
    return Tail(Segment(path))


def content(tail: Tail) -> bytes:
    return tail.segment.path.read_bytes()


def test_the_file_is_whole_after_every_append(tail: Tail) -> None:
    for count, line in enumerate(LINES, 1):
        tail.append([line])
        fresh = Segment(tail.segment.path)
        assert fresh.scan()
        assert (fresh.n, fresh.end) == (count, tail.segment.end)


@pytest.mark.parametrize("torn", range(0, 40, 3))
def test_a_write_that_fails_in_the_middle_is_undone(tail: Tail, monkeypatch: pytest.MonkeyPatch, torn: int) -> None:
    tail.append(LINES[:2])
    before, real, first = content(tail), os.pwrite, [True]

    def pwrite(fd: int, data: bytes, at: int) -> int:
        if first.pop() if first else False:
            real(fd, data[:torn], at)
            raise OSError(errno.ENOSPC, "full")
        return real(fd, data, at)

    monkeypatch.setattr(os, "pwrite", pwrite)
    with pytest.raises(OSError, match="full"):
        tail.append(LINES[2:])
    assert content(tail) == before
    tail.append(LINES[2:])
    assert Segment(tail.segment.path).scan()


def test_what_is_there_at_the_start_was_perhaps_never_synced(tail: Tail) -> None:
    assert tail.dirty
    mark = tail.mark()
    tail.sync()
    tail.covered(mark)
    assert not tail.dirty


def test_a_sync_covers_what_was_appended_before_it_began(tail: Tail) -> None:
    tail.append(LINES[:1])
    mark = tail.mark()
    tail.append(LINES[1:2])
    tail.covered(mark)
    assert tail.dirty
    tail.covered(tail.mark())
    assert not tail.dirty


def test_a_failed_sync_is_not_tried_again_on_the_same_file(tail: Tail, monkeypatch: pytest.MonkeyPatch) -> None:
    tail.append(LINES[:1])
    refused: list[Any] = []

    def refuse(fd: int) -> None:
        refused.append(fd)
        raise OSError(errno.EIO, "refused")

    monkeypatch.setattr(os, "fdatasync", refuse)
    for _ in range(2):
        with pytest.raises(OSError, match=r"refused|Input/output"):
            tail.sync()
    assert len(refused) == 1


def test_rebuilding_makes_a_new_file_with_every_line_once(tail: Tail) -> None:
    tail.append(LINES[:2])
    tail.covered(tail.mark())
    tail.append(LINES[2:4])
    inode, before = tail.segment.path.stat().st_ino, content(tail)
    tail.segment.path.write_bytes(before[: tail.mark()[1] - 30] + bytes(30) + TAIL)  # what was not synced is lost
    tail.rebuild()
    tail.append(LINES[4:])
    assert tail.segment.path.stat().st_ino != inode
    assert content(tail) == EMPTY.removesuffix(TAIL) + b"\n" + b"\n,".join(LINES) + TAIL


def test_a_rebuild_that_fails_can_be_tried_again(tail: Tail, monkeypatch: pytest.MonkeyPatch) -> None:
    tail.append(LINES[:2])
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(errno.EIO, "refused")))
        with pytest.raises(OSError, match="refused"):
            tail.rebuild()
    tail.append(LINES[2:3])
    tail.rebuild()
    assert not tail.dirty
    assert Segment(tail.segment.path).scan()
