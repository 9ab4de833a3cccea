"""A segment is read in blocks, from its end, and its intact lines are what counts."""

import json
from pathlib import Path

import pytest
from tinydb import TinyDB

from gateway.store import segment as module
from gateway.store.line_format import TAIL, id_of, is_intact, join_lines, pack
from gateway.store.rollup import Rollup
from gateway.store.segment import HEAD, Segment, convert_foreign_layout
from tests.store.samples import T0, log_of, segments, stock


def segment_of(folder: Path, count: int) -> Segment:
    log_of(folder, count).log.close()
    return Segment(segments(folder)[0])


def test_scanning_counts_what_is_there(tmp_path: Path) -> None:
    segment = segment_of(tmp_path, 10)
    assert segment.scan()
    assert (segment.count, segment.first, segment.last) == (10, 1, 10)
    assert (segment.earliest, segment.latest) == (T0, T0 + 9)
    assert segment.end + len(TAIL) == segment.path.stat().st_size


def test_scanning_again_finds_only_what_is_new(tmp_path: Path) -> None:
    segment = segment_of(tmp_path, 3)
    segment.scan()
    log_of(tmp_path, 2).log.close()
    assert segment.scan()
    assert segment.count == 5
    assert isinstance(segment.sums, Rollup)
    assert sum(counts.calls for counts in segment.sums.totals("app").values()) == 5


def test_a_line_with_an_old_id_is_a_repeat(tmp_path: Path) -> None:
    path = tmp_path / "calls-20251120-0000.json"
    lines = [pack(number, b'{"id":"","ts":0}') for number in (5, 5, 4, 6)]
    path.write_bytes(HEAD + join_lines(lines, first=True) + TAIL)
    segment = Segment(path)
    assert not segment.scan()
    assert (segment.count, segment.last) == (2, 6)


@pytest.mark.parametrize("size", [1, 300, 5000, 1 << 20])
def test_lines_are_whole_and_ordered_in_any_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(module, "BLOCK", size)
    segment = segment_of(tmp_path, 40)
    segment.scan()
    assert [id_of(line) for line in segment.lines()] == list(range(40, 0, -1))
    assert [id_of(line) for line in segment.lines(b'"token":"tok_3"')] == [39, 34, 29, 24, 19, 14, 9, 4]


def test_a_damaged_line_is_recognized(tmp_path: Path) -> None:
    segment = segment_of(tmp_path, 5)
    segment.scan()
    segment.path.write_bytes(segment.path.read_bytes().replace(b'"cost":1002', b'"cost":9002'))
    assert [id_of(line) for line in segment.lines() if is_intact(line)] == [5, 4, 2, 1]


def test_a_deleted_file_has_no_lines(tmp_path: Path) -> None:
    segment = segment_of(tmp_path, 5)
    segment.scan()
    segment.path.unlink()
    assert list(segment.lines()) == []


def test_another_layout_is_read_as_lines(tmp_path: Path) -> None:
    data = json.dumps({"calls": {"3": {"id": "", "ts": 5, "_crc": "old"}, "4": {"cost": 5}}}).encode()
    assert convert_foreign_layout(data) == pack(3, b'{"id":"","ts":5}')
    assert (
        convert_foreign_layout(b"[]") == convert_foreign_layout(b'{"calls": 5}') == convert_foreign_layout(b"{") == b""
    )


def test_stock_tinydb_reads_it(tmp_path: Path) -> None:
    assert [call["cost"] for call in stock(segment_of(tmp_path, 3).path)] == [1000, 1001, 1002]


def test_a_file_that_stock_tinydb_rewrites_meanwhile_is_still_read(tmp_path: Path) -> None:
    segment = segment_of(tmp_path, 5)
    segment.scan()
    with TinyDB(segment.path) as tinydb:
        tinydb.table("calls").remove(doc_ids=[2])
    assert [id_of(line) for line in segment.lines()] == [5, 4, 3, 1]
    assert [id_of(line) for line in segment.lines(b'"cost":1003')] == [4]
