"""A segment is read in blocks, from its end, and its intact lines are what counts."""

import json
from pathlib import Path

import pytest
from tinydb import TinyDB

from gateway.store import segment as module
from gateway.store.errors import StoreError
from gateway.store.line_format import TAIL, body_of, check_format, head, id_of, is_intact, join_lines, pack, split_lines
from gateway.store.segment import HEAD, Segment, convert_foreign_layout
from tests.store.samples import T0, log_of, scan, segments, stock


def segment_of(folder: Path, count: int) -> Segment:
    log_of(folder, count).log.close()
    return Segment(segments(folder)[0])


def test_scanning_counts_what_is_there(tmp_path: Path) -> None:
    segment = segment_of(tmp_path, 10)
    assert scan(segment)
    assert (segment.count, segment.first, segment.last) == (10, 1, 10)
    assert (segment.earliest, segment.latest) == (T0, T0 + 9)
    assert segment.end + len(TAIL) == segment.path.stat().st_size


def test_a_line_with_an_old_id_is_a_repeat(tmp_path: Path) -> None:
    path = tmp_path / "calls-20251120-0000.json"
    lines = [pack(number, b'{"id":"","ts":0}') for number in (5, 5, 4, 6)]
    path.write_bytes(HEAD + join_lines(lines, first=True) + TAIL)
    segment = Segment(path)
    assert not scan(segment)
    assert (segment.count, segment.last) == (2, 6)


@pytest.mark.parametrize("size", [1, 300, 5000, 1 << 20])
def test_lines_are_whole_and_ordered_in_any_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(module, "BLOCK", size)
    segment = segment_of(tmp_path, 40)
    scan(segment)
    assert [id_of(line) for line in segment.lines()] == list(range(40, 0, -1))
    assert [id_of(line) for line in segment.lines(b'"token":"tok_3"')] == [39, 34, 29, 24, 19, 14, 9, 4]


def test_a_damaged_line_is_recognized(tmp_path: Path) -> None:
    segment = segment_of(tmp_path, 5)
    scan(segment)
    segment.path.write_bytes(segment.path.read_bytes().replace(b'"cost":1002', b'"cost":9002'))
    assert [id_of(line) for line in segment.lines() if is_intact(line)] == [5, 4, 2, 1]


def test_a_deleted_file_has_no_lines(tmp_path: Path) -> None:
    segment = segment_of(tmp_path, 5)
    scan(segment)
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
    scan(segment)
    with TinyDB(segment.path) as tinydb:
        tinydb.table("calls").remove(doc_ids=[2])
    assert [id_of(line) for line in segment.lines()] == [5, 4, 3, 1]
    assert [id_of(line) for line in segment.lines(b'"cost":1003')] == [4]


LINE = pack(17, b'{"token":"tok_1","cost":5}')


def test_a_file_of_lines_is_json() -> None:
    lines = [pack(1, b'{"a":1}'), pack(2, b"{}")]
    data = head("calls") + join_lines(lines[:1], first=True) + join_lines(lines[1:], first=False) + TAIL
    found = json.loads(data)
    assert found["meta"] == {"1": {"format": 1}}
    assert {key: set(document) for key, document in found["calls"].items()} == {"1": {"a", "_crc"}, "2": {"_crc"}}


def test_a_line_gives_back_its_id_and_its_document() -> None:
    assert is_intact(LINE)
    assert id_of(LINE) == 17
    assert json.loads(body_of(LINE))["cost"] == 5


@pytest.mark.parametrize("at", range(len(LINE)))
def test_any_changed_byte_is_noticed(at: int) -> None:
    assert not any(is_intact(LINE[:at] + bytes([LINE[at] ^ flip]) + LINE[at + 1 :]) for flip in (1, 2, 8, 32, 64))


@pytest.mark.parametrize("end", range(len(LINE)))
def test_no_beginning_of_a_line_is_a_line(end: int) -> None:
    assert not is_intact(LINE[:end])


def test_splitting_takes_the_leading_commas_off() -> None:
    assert list(split_lines(b"\n" + LINE + b"\n," + LINE)) == [b"", LINE, LINE]


def test_a_newer_format_is_refused_in_any_spacing() -> None:
    path = Path("calls.json")
    check_format(path, head("calls"))
    check_format(path, b"anything")
    with pytest.raises(StoreError, match="has format 7"):
        check_format(path, b'{"meta": {"1": {"format": 7}}, "calls"')
