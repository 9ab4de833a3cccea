"""The growing end of a segment: all or nothing, and what is not synced is remembered."""

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gateway.store.line_format import TAIL, pack
from gateway.store.segment import EMPTY, Segment
from gateway.store.tail import PartlyWritten, Tail

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


def test_a_write_that_cannot_be_undone_counts_as_far_as_its_lines_are_whole(
    tail: Tail, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a crash would find them; and what stands behind them is cut off before anything else is written."""
    tail.append(LINES[:1])
    size = len(b"".join(LINES[1:4])) + 6 + 5
    with monkeypatch.context() as patch:
        takes_only(patch, size)
        patch.setattr(os, "ftruncate", refuse)
        with pytest.raises(PartlyWritten, match="No space left") as caught:
            tail.append(LINES[1:])
        assert (caught.value.count, tail.dirty) == (3, True)
        with pytest.raises(OSError, match="refused"):
            tail.append(LINES[4:])
        with pytest.raises(OSError, match="Input/output"):
            tail.sync()
    fresh = Segment(tail.segment.path)
    assert (fresh.scan(), fresh.n, fresh.end) == (False, 4, tail.segment.end)
    tail.append(LINES[4:])
    assert Segment(tail.segment.path).scan()
    assert content(tail) == EMPTY.removesuffix(TAIL) + b"\n" + b"\n,".join(LINES) + TAIL


def test_lines_of_a_failed_write_are_never_left_behind_closing_braces(
    tail: Tail, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that cannot be cut is not closed either: the lines behind would be counted after a crash."""
    tail.append(LINES[:1])
    with monkeypatch.context() as patch:
        takes_only(patch, len(LINES[1]) + 1)  # one byte of its newline and comma is missing
        patch.setattr(os, "ftruncate", refuse)
        with pytest.raises(OSError, match="No space left"):
            tail.append(LINES[1:])
    fresh = Segment(tail.segment.path)
    assert (fresh.scan(), fresh.n) == (False, 1)


def test_a_line_that_is_not_safe_can_be_replaced_where_it_stands(tail: Tail) -> None:
    tail.append(LINES[:1])
    tail.covered(tail.mark())
    tail.append(LINES[1:])
    mark = tail.mark()
    new = pack(3, b'{"cost":8}')
    assert tail.amend(b'"cost":3', lambda _: new)
    assert content(tail) == EMPTY.removesuffix(TAIL) + b"\n" + b"\n,".join([*LINES[:2], new, *LINES[3:]]) + TAIL
    tail.covered(mark)
    assert tail.dirty  # the sync that had begun may have covered the old line
    tail.covered(tail.mark())
    assert not tail.dirty


@pytest.mark.parametrize("why", ["safe", "unknown", "longer", "refused"])
def test_a_line_that_cannot_be_replaced_stays(tail: Tail, monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    tail.append(LINES)
    before = content(tail)
    if why == "safe":
        tail.covered(tail.mark())
    if why == "refused":
        monkeypatch.setattr(os, "pwrite", refuse)
    needle = b"nothing" if why == "unknown" else b'"cost":3'
    assert not tail.amend(needle, lambda line: line + b" " if why == "longer" else line[::-1])
    assert content(tail) == before


def test_a_line_of_which_nothing_was_changed_when_the_disk_refused_stays(
    tail: Tail, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The part that was written is as it was before."""
    tail.append(LINES)
    before = content(tail)
    takes_only(monkeypatch, 8)
    assert not tail.amend(b'"cost":3', lambda _: pack(3, b'{"cost":9}'))
    assert content(tail) == before


def test_a_line_that_was_spoilt_while_it_was_replaced_is_written_anew(
    tail: Tail, monkeypatch: pytest.MonkeyPatch
) -> None:
    tail.append(LINES)
    new = pack(3, b'{"cost":9}')
    with monkeypatch.context() as patch:
        takes_only(patch, 13)
        assert tail.amend(b'"cost":3', lambda _: new)
    with pytest.raises(OSError, match="Input/output"):
        tail.sync()
    tail.rebuild()
    assert content(tail) == EMPTY.removesuffix(TAIL) + b"\n" + b"\n,".join([*LINES[:2], new, *LINES[3:]]) + TAIL


@pytest.mark.parametrize("name", ["open", "fsync"])
def test_a_file_that_cannot_be_opened_after_it_was_written_anew_is_opened_later(
    tail: Tail, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The table of files may be full, or the folder not be synced: then the new file is there, and the old one lost."""
    tail.append(LINES[:2])
    real, calls = getattr(os, name), list[int]()

    def second_fails(*args: Any) -> Any:
        calls.append(1)
        return real(*args) if len(calls) == 1 else refuse()

    with monkeypatch.context() as patch:
        patch.setattr(os, name, second_fails)
        with suppress(OSError):
            tail.rebuild()
    tail.append(LINES[2:])
    assert content(tail) == EMPTY.removesuffix(TAIL) + b"\n" + b"\n,".join(LINES) + TAIL
    tail.rebuild()
    assert not tail.dirty


def takes_only(patch: pytest.MonkeyPatch, size: int) -> None:
    """The disk takes a part of the next write, and then nothing."""
    real, left = os.pwrite, [size]

    def pwrite(fd: int, data: bytes, at: int) -> int:
        part, left[0] = data[: left[0]], 0
        return real(fd, part, at) if part else 0

    patch.setattr(os, "pwrite", pwrite)


def refuse(*_: object) -> Any:
    raise OSError(errno.EIO, "refused")
