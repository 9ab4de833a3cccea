"""Repair keeps every good call, and the file as it was."""

from pathlib import Path

import pytest
from tinydb import TinyDB

from gateway.store.line_format import TAIL
from gateway.store.segment import EMPTY, HEAD, Segment
from gateway.store.tail import restore
from tests.store.samples import log_of, segments, stock


@pytest.fixture
def segment(tmp_path: Path) -> Segment:
    log_of(tmp_path, 10).log.close()
    return Segment(segments(tmp_path)[0])


def damaged(segment: Segment) -> list[bytes]:
    return [path.read_bytes() for path in segment.path.parent.glob("*.damaged")]


def test_a_whole_segment_is_left_alone(segment: Segment) -> None:
    before = segment.path.stat()
    assert restore(segment, 0, 1) == ""
    assert (segment.n, segment.path.stat().st_mtime_ns) == (10, before.st_mtime_ns)


def test_a_damaged_call_is_left_out_and_the_original_kept(segment: Segment) -> None:
    broken = segment.path.read_bytes().replace(b'"cost":1004', b'"cost":9004')
    segment.path.write_bytes(broken)
    assert "9 calls of it are good" in restore(segment, 0, 7)
    assert damaged(segment) == [broken]
    assert [call["cost"] for call in stock(segment.path)] == [1000, 1001, 1002, 1003, 1005, 1006, 1007, 1008, 1009]
    assert Segment(segment.path).scan()


def test_every_damaged_original_has_a_name_of_its_own(segment: Segment) -> None:
    for _ in range(3):
        segment.path.write_bytes(segment.path.read_bytes() + b"x")
        restore(Segment(segment.path), 0, 7)
    assert len(damaged(segment)) == 3


@pytest.mark.parametrize("end", range(len(EMPTY)))
def test_no_segment_is_ever_without_its_head_and_end_so_that_is_damage(segment: Segment, end: int) -> None:
    segment.path.write_bytes(EMPTY[:end])
    original = "the original is calls-" if end else "not a byte was left"
    assert f"0 calls of it are good, {original}" in restore(segment, 4, 7)
    assert segment.path.read_bytes() == EMPTY
    assert (segment.n, segment.end, damaged(segment)) == (0, len(HEAD), [EMPTY[:end]] if end else [])


def test_calls_that_an_earlier_segment_has_are_repeats(segment: Segment) -> None:
    assert restore(segment, 4, 7)
    assert (segment.n, segment.first, len(damaged(segment))) == (6, 5, 1)


def test_an_altered_call_is_not_accepted_though_it_is_the_only_one(tmp_path: Path) -> None:
    log_of(tmp_path, 1).log.close()
    alone = Segment(segments(tmp_path)[0])
    broken = alone.path.read_bytes().replace(b'"cost":1000', b'"cost":9000')
    alone.path.write_bytes(broken)
    assert "0 calls of it are good" in restore(alone, 0, 7)
    assert damaged(alone) == [broken]


def test_what_stock_tinydb_wrote_is_taken_over(segment: Segment) -> None:
    with TinyDB(segment.path) as tinydb:
        tinydb.table("calls").remove(doc_ids=[5])
        tinydb.table("calls").update({"cost": 7}, doc_ids=[7])
    assert restore(segment, 0, 7)
    assert (segment.n, segment.last) == (9, 10)
    fresh = Segment(segment.path)
    assert fresh.scan()
    assert sum(counts.cost for counts in fresh.sums.totals("app").values()) == sum(range(1000, 1010)) - 1004 - 1006 + 7


def test_nothing_readable_leaves_an_empty_segment_and_the_original(segment: Segment) -> None:
    segment.path.write_bytes(b"\x00" * 5000)
    assert restore(segment, 0, 7)
    assert (segment.path.read_bytes(), damaged(segment)) == (HEAD + TAIL, [b"\x00" * 5000])
