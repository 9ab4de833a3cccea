"""The growing end of a segment: all or nothing, and what is not synced is remembered."""

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tinydb import TinyDB

from gateway.store import files
from gateway.store.line_format import TAIL, pack
from gateway.store.segment import EMPTY, HEAD, Segment
from gateway.store.tail import PartlyWritten, Tail, repair
from tests.fakes.disk import refuse, takes_only
from tests.store.samples import log_of, scan, segments, stock

LINES = [pack(i, b'{"id":"","ts":0,"cost":%d}' % i) for i in range(1, 6)]


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
        assert scan(fresh)
        assert (fresh.count, fresh.end) == (count, tail.segment.end)


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
    assert scan(Segment(tail.segment.path))


def test_what_is_there_at_the_start_was_perhaps_never_synced(tail: Tail) -> None:
    assert tail.dirty
    mark = tail.mark()
    tail.sync()
    tail.mark_synced(mark)
    assert not tail.dirty


def test_a_sync_covers_what_was_appended_before_it_began(tail: Tail) -> None:
    tail.append(LINES[:1])
    mark = tail.mark()
    tail.append(LINES[1:2])
    tail.mark_synced(mark)
    assert tail.dirty
    tail.mark_synced(tail.mark())
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


def test_a_file_system_that_does_not_tell_files_apart_is_not_asked_whether_this_one_is_in_place(
    tail: Tail, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some network drives give a file another number each time."""
    numbers = iter(range(99))

    monkeypatch.setattr(files, "identity", lambda _: (0, next(numbers)))
    other = Tail(tail.segment)
    other.append(LINES[:1])
    other.sync()
    other.close()


def test_rebuilding_makes_a_new_file_with_every_line_once(tail: Tail) -> None:
    tail.append(LINES[:2])
    tail.mark_synced(tail.mark())
    tail.append(LINES[2:4])
    inode, before = tail.segment.path.stat().st_ino, content(tail)
    tail.segment.path.write_bytes(before[: tail.mark()[1] - 30] + bytes(30) + TAIL)  # what was not synced is lost
    tail.rebuild()
    tail.append(LINES[4:])
    assert tail.segment.path.stat().st_ino != inode
    assert content(tail) == EMPTY.removesuffix(TAIL) + b"\n" + b"\n,".join(LINES) + TAIL


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="open files are counted in /proc")
def test_rebuilding_leaves_no_file_open(tail: Tail) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        tail.rebuild()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_rebuild_that_fails_can_be_tried_again(tail: Tail, monkeypatch: pytest.MonkeyPatch) -> None:
    tail.append(LINES[:2])
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(errno.EIO, "refused")))
        with pytest.raises(OSError, match="refused"):
            tail.rebuild()
    tail.append(LINES[2:3])
    tail.rebuild()
    assert not tail.dirty
    assert scan(Segment(tail.segment.path))


@pytest.mark.parametrize("part", [0, 5], ids=["nothing of the next line", "a part of the next line"])
def test_a_write_that_is_not_undone_counts_as_far_as_it_is_whole(
    tail: Tail, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    """For a crash would find them; and what stands behind them is cut off before anything else is written."""
    tail.append(LINES[:1])
    size = len(b"".join(LINES[1:4])) + 6 + part
    with monkeypatch.context() as patch:
        takes_only(patch, "pwrite", size)
        patch.setattr(os, "ftruncate", refuse)
        with pytest.raises(PartlyWritten, match="No space left") as caught:
            tail.append(LINES[1:])
        assert (caught.value.count, tail.dirty) == (3, True)
        with pytest.raises(OSError, match="refused"):
            tail.append(LINES[4:])
        with pytest.raises(OSError, match="Input/output"):
            tail.sync()
    fresh = Segment(tail.segment.path)
    assert (scan(fresh), fresh.count, fresh.end) == (False, 4, tail.segment.end)
    tail.append(LINES[4:])
    assert scan(Segment(tail.segment.path))
    assert content(tail) == EMPTY.removesuffix(TAIL) + b"\n" + b"\n,".join(LINES) + TAIL


def test_no_lines_follow_closing_braces_after_a_failed_write(tail: Tail, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that cannot be cut is not closed either: the lines behind would be counted after a crash."""
    tail.append(LINES[:1])
    with monkeypatch.context() as patch:
        takes_only(patch, "pwrite", len(LINES[1]) + 1)  # one byte of its newline and comma is missing
        patch.setattr(os, "ftruncate", refuse)
        with pytest.raises(OSError, match="No space left"):
            tail.append(LINES[1:])
    fresh = Segment(tail.segment.path)
    assert (scan(fresh), fresh.count) == (False, 1)


@pytest.mark.parametrize("name", ["open", "fsync"])
def test_a_file_that_cannot_be_opened_after_it_was_rewritten_is_opened_later(
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


@pytest.fixture
def segment(tmp_path: Path) -> Segment:
    log_of(tmp_path, 10).log.close()
    return Segment(segments(tmp_path)[0])


def damaged(segment: Segment) -> list[bytes]:
    return [path.read_bytes() for path in segment.path.parent.glob("*.damaged")]


def test_a_whole_segment_is_left_alone(segment: Segment) -> None:
    before = segment.path.stat()
    assert repair(segment, 0, 1) == ""
    assert (segment.count, segment.path.stat().st_mtime_ns) == (10, before.st_mtime_ns)


def test_a_damaged_call_is_left_out_and_the_original_kept(segment: Segment) -> None:
    broken = segment.path.read_bytes().replace(b'"cost":1004', b'"cost":9004')
    segment.path.write_bytes(broken)
    assert "9 of its calls are intact" in repair(segment, 0, 7)
    assert damaged(segment) == [broken]
    assert [call["cost"] for call in stock(segment.path)] == [1000, 1001, 1002, 1003, 1005, 1006, 1007, 1008, 1009]
    assert scan(Segment(segment.path))


@pytest.mark.parametrize(("usual", "other"), [(b"\n", b"\r\n"), (b"\n,", b",\n")], ids=["CRLF", "comma last"])
def test_other_ends_of_lines_lose_no_call(segment: Segment, usual: bytes, other: bytes) -> None:
    before = segment.path.read_bytes()
    segment.path.write_bytes(before.replace(usual, other))
    assert "10 of its calls are intact" in repair(segment, 0, 7)
    assert (segment.path.read_bytes(), segment.count) == (before, 10)


@pytest.mark.parametrize("end", range(len(EMPTY)))
def test_no_segment_is_ever_without_its_head_and_end_so_that_is_damage(segment: Segment, end: int) -> None:
    segment.path.write_bytes(EMPTY[:end])
    original = "the original is calls-" if end else "not a byte was left"
    assert f"0 of its calls are intact, {original}" in repair(segment, 4, 7)
    assert segment.path.read_bytes() == EMPTY
    assert (segment.count, segment.end, damaged(segment)) == (0, len(HEAD), [EMPTY[:end]] if end else [])


def test_calls_that_an_earlier_segment_has_are_repeats(segment: Segment) -> None:
    assert repair(segment, 4, 7)
    assert (segment.count, segment.first, len(damaged(segment))) == (6, 5, 1)
    assert [call["cost"] for call in stock(segment.path)] == [1004, 1005, 1006, 1007, 1008, 1009]
    assert segment.end + len(TAIL) == segment.path.stat().st_size


def test_an_altered_call_is_not_accepted_though_it_is_the_only_one(tmp_path: Path) -> None:
    log_of(tmp_path, 1).log.close()
    alone = Segment(segments(tmp_path)[0])
    broken = alone.path.read_bytes().replace(b'"cost":1000', b'"cost":9000')
    alone.path.write_bytes(broken)
    assert "0 of its calls are intact" in repair(alone, 0, 7)
    assert damaged(alone) == [broken]


def test_edits_by_stock_tinydb_are_read(segment: Segment) -> None:
    with TinyDB(segment.path) as tinydb:
        tinydb.table("calls").remove(doc_ids=[5])
        tinydb.table("calls").update({"cost": 7}, doc_ids=[7])
    assert repair(segment, 0, 7)
    assert (segment.count, segment.last) == (9, 10)
    fresh = Segment(segment.path)
    assert scan(fresh)
    assert sum(counts.cost for counts in fresh.sums.totals("app").values()) == sum(range(1000, 1010)) - 1004 - 1006 + 7
