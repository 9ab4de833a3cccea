"""AtomicStorage is TinyDB's JSON file, replaced as a whole."""

import json
from pathlib import Path
from typing import Any

import pytest
from tinydb import TinyDB, where

from gateway.store import files
from gateway.store.entities import AtomicStorage, layout
from gateway.store.errors import StoreDamaged
from tests.fakes.disk import refuse


def test_stock_tinydb_reads_what_it_wrote(tmp_path: Path) -> None:
    path = tmp_path / "db.json"
    TinyDB(path, storage=AtomicStorage).table("tokens").insert({"name": "laptop", "ö": None})
    with TinyDB(path, access_mode="r") as stock:
        assert stock.table("tokens").get(where("name") == "laptop") == {"name": "laptop", "ö": None}


def test_a_document_has_a_line_of_its_own(tmp_path: Path) -> None:
    data = layout({"a": {1: {"x": 1}, 2: {"x": 2}}, "b": {}})
    assert json.loads(data) == {"a": {"1": {"x": 1}, "2": {"x": 2}}, "b": {}}
    assert b'"2":{"x":2}\n' in data


def test_changing_what_was_read_changes_nothing(tmp_path: Path) -> None:
    storage = AtomicStorage(tmp_path / "db.json")
    storage.write({"t": {"1": {"list": [1]}}})
    first: Any = storage.read()
    first["t"]["1"]["list"].append(2)
    assert storage.read() == {"t": {"1": {"list": [1]}}}


def test_a_failed_write_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    db = TinyDB(tmp_path / "db.json", storage=AtomicStorage)
    db.insert({"n": 1})
    monkeypatch.setattr(files, "replace", refuse)
    with pytest.raises(OSError, match="refused"):
        db.insert({"n": 2})
    assert db.all() == [{"n": 1}]


def test_what_json_cannot_hold_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    db = TinyDB(tmp_path / "db.json", storage=AtomicStorage)
    db.insert({"n": 1})
    with pytest.raises(TypeError):
        db.insert({"n": object()})
    assert AtomicStorage(tmp_path / "db.json").read() == {"_default": {"1": {"n": 1}}}


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"[]",
        b'{"t":[]}',
        b'{"t":{}}x',
        b"\x00\x00",
        b'{"\xff":{}}',
        b'{"t":{"1":"\xff"}}',
        b'{"t":{"1":' + b"[" * 9999,
    ],
)
def test_a_damaged_file_fails_when_it_is_opened(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "db.json").write_bytes(data)
    with pytest.raises(StoreDamaged, match=r"db\.json cannot be used: it is damaged"):
        AtomicStorage(tmp_path / "db.json")
