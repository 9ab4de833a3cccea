"""Lines tell whether they are as they were written."""

import json
from pathlib import Path

import pytest

from gateway.store.errors import StoreTooNew
from gateway.store.line_format import TAIL, body_of, check_format, head, id_of, is_intact, join_lines, pack, split_lines

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
    with pytest.raises(StoreTooNew, match="has format 7"):
        check_format(path, b'{"meta": {"1": {"format": 7}}, "calls"')
