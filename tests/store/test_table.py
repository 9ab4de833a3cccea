"""Calls is a TinyDB: TinyDB's own reads and inserts work on the log, changes are refused."""

from pathlib import Path
from typing import Any

import pytest
from tinydb import TinyDB, where
from tinydb.table import Document

from gateway.store.calls import CallLog
from gateway.store.errors import StoreError
from gateway.store.table import CallRows, SegmentStorage
from tests.store.samples import record, segments, stock


@pytest.fixture
def db(tmp_path: Path) -> CallRows:
    return CallRows(tmp_path)


def test_records_are_its_documents(tmp_path: Path) -> None:
    storage = SegmentStorage(tmp_path)
    CallLog(storage.log).append([record(i) for i in range(20)])
    db = TinyDB(storage.log, storage=SegmentStorage)
    assert db.table("calls").count(where("calls") == 1) == 0


def test_what_is_inserted_is_a_record(db: CallRows) -> None:
    document = {"id": record(1).id, "ts": record(1).ts, "cost": 5, "token": "tok_1"}
    assert db.insert(document) == 1
    storage: Any = db.storage
    found = CallLog(storage.log).get(record(1).id)
    assert found is not None
    assert (found.cost, found.token) == (5, "tok_1")


@pytest.mark.parametrize("document", [{"cost": "much"}, {"ts": None}, {"token": 5}])
def test_what_could_not_be_summed_is_refused(db: CallRows, document: dict[str, Any]) -> None:
    with pytest.raises(StoreError, match="not a call"):
        db.insert(document)
    assert len(db) == 0


def test_what_json_cannot_hold_is_refused(db: CallRows) -> None:
    with pytest.raises(TypeError):
        db.insert_multiple([{"a": 1}, {"a": object()}])
    assert db.insert({"a": 2}) == 1


def test_changes_are_refused(db: CallRows) -> None:
    db.insert({"cost": 1})
    table: Any = db.table("calls")
    for change in (
        lambda: table.update({"cost": 2}),
        lambda: table.update_multiple([]),
        lambda: table.upsert({"cost": 2}, where("cost") == 1),
        lambda: table.remove(doc_ids=[1]),
        table.truncate,
        db.drop_tables,
        lambda: db.drop_table("calls"),
    ):
        with pytest.raises(StoreError, match="only be added"):
            change()
    assert db.all() == [{"cost": 1}]


def test_there_is_no_other_table(db: CallRows) -> None:
    with pytest.raises(StoreError, match="no other"):
        db.table("other")


def test_ids_grow_and_are_never_used_twice(db: CallRows) -> None:
    assert db.insert_multiple([{"n": 1}, {"n": 2}]) == [1, 2]
    assert db.insert(Document({"n": 3}, doc_id=7)) == 7
    with pytest.raises(ValueError, match="already exists"):
        db.insert(Document({"n": 4}, doc_id=5))
    assert db.insert({"n": 5}) == 8


def test_results_are_copies(db: CallRows) -> None:
    db.insert({"list": [1]})
    db.all()[0]["list"].append(2)
    assert db.all() == [{"list": [1]}]


def test_stock_tinydb_reads_every_segment(tmp_path: Path) -> None:
    db = CallRows(tmp_path, limit=200)
    for n in range(20):
        db.insert({"ts": n, "n": n})
    db.close()
    assert [call["n"] for path in segments(tmp_path) for call in stock(path)] == list(range(20))
    assert [document["n"] for document in CallRows(tmp_path)] == list(range(20))


def test_ids_can_be_listed_without_the_documents(db: CallRows) -> None:
    db.insert_multiple([{"n": 1}, {"n": 2}])
    assert list(SegmentStorage(db.storage.log)) == ["1", "2"]  # type: ignore[attr-defined]
