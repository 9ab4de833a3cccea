"""Our storage of small tables is a TinyDB storage: everything TinyDB promises holds on it.

The first part is our own list of those promises, for every public method. The second part runs TinyDB's own tests,
which are not ours to keep: from the folder named by TOLLKEEPER_TINYDB_TESTS, or fetched when TOLLKEEPER_FULL is set.
"""

import importlib.metadata
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tinydb import Query, TinyDB, where
from tinydb.operations import decrement, delete, increment
from tinydb.table import Document

from gateway.store.documents import AtomicStorage

CHARS = [{"int": 1, "char": char} for char in "abc"]


def atomic(folder: Path) -> TinyDB:
    folder.mkdir(exist_ok=True)
    return TinyDB(folder / "db.json", storage=AtomicStorage)


@pytest.fixture
def db(tmp_path: Path) -> TinyDB:
    """With three documents."""
    made = atomic(tmp_path)
    assert made.insert_multiple(CHARS) == [1, 2, 3]
    return made


@pytest.fixture
def reopen(tmp_path: Path) -> Callable[[], TinyDB]:
    """The same data by a new TinyDB at each call."""
    return lambda: atomic(tmp_path)


# Reading


def test_all_and_iteration_give_every_document_in_order(db: TinyDB) -> None:
    assert db.all() == CHARS == list(db)
    assert [document.doc_id for document in db] == [1, 2, 3]


def test_len_counts(db: TinyDB) -> None:
    assert len(db) == 3
    assert db.count(where("int") == 1) == 3
    assert db.count(where("char") == "d") == 0


def test_search(db: TinyDB) -> None:
    assert db.search(where("int") == 1) == CHARS
    assert db.search((where("int") == 1) & (where("char") != "b")) == [CHARS[0], CHARS[2]]
    assert db.search(Query().char.one_of(["c", "z"])) == [CHARS[2]]
    assert db.search(where("int") == 5) == []
    assert db.search(where("int") == 1) == CHARS  # again: a cached answer is the same


def test_get_by_condition_gives_the_first(db: TinyDB) -> None:
    found: Any = db.get(where("int") == 1)
    assert (found, found.doc_id) == (CHARS[0], 1)
    assert db.get(where("int") == 2) is None


def test_get_by_id_and_ids(db: TinyDB) -> None:
    assert db.get(doc_id=2) == CHARS[1]
    assert db.get(doc_id=99) is None
    assert db.get(doc_id=float("nan")) is None
    assert db.get(doc_ids=[3, 1, 99]) == [CHARS[0], CHARS[2]]


def test_get_needs_something_to_go_by(db: TinyDB) -> None:
    with pytest.raises(RuntimeError):
        db.get()
    with pytest.raises(RuntimeError):
        db.contains()


def test_contains(db: TinyDB) -> None:
    assert db.contains(where("char") == "a")
    assert not db.contains(where("char") == "d")
    assert db.contains(doc_id=3)
    assert not db.contains(doc_id=4)


def test_values_of_every_kind_come_back(db: TinyDB) -> None:
    document = {"none": None, "list": [1, [2]], "dict": {"ü": '\n"\\\x00🙂'}, "float": 0.1, "big": 1 << 60, "": ""}
    assert db.get(doc_id=db.insert(document)) == document


# Inserting


def test_insert_gives_growing_ids(db: TinyDB) -> None:
    assert db.insert({}) == 4
    assert db.insert_multiple({"int": i} for i in range(3)) == [5, 6, 7]
    assert db.insert_multiple([]) == []


def test_insert_takes_any_mapping_and_nothing_else(db: TinyDB) -> None:
    class Odd(Mapping[str, int]):
        def __getitem__(self, key: str) -> int:
            return {"odd": 7}[key]

        def __iter__(self) -> Any:
            return iter(["odd"])

        def __len__(self) -> int:
            return 1

    assert db.get(doc_id=db.insert(Odd())) == {"odd": 7}
    for wrong in ([1, 2], {"a"}, "text"):
        with pytest.raises(ValueError, match="not a Mapping"):
            db.insert(wrong)
        with pytest.raises(ValueError, match="not a Mapping"):
            db.insert_multiple([{}, wrong])
    assert len(db) == 4


def test_insert_with_an_id_of_ones_own(db: TinyDB) -> None:
    assert db.insert(Document({"a": 1}, doc_id=10)) == 10
    assert db.insert_multiple([Document({"a": 2}, doc_id=12), {"a": 3}][:1]) == [12]
    assert db.insert({"a": 4}) == 13
    with pytest.raises(ValueError, match="already exists"):
        db.insert(Document({"a": 5}, doc_id=12))
    with pytest.raises(ValueError, match="already exists"):
        db.insert_multiple([Document({"a": 5}, doc_id=20), Document({"a": 5}, doc_id=20)])
    assert [document.doc_id for document in db] == [1, 2, 3, 10, 12, 13]


def test_an_insert_that_fails_inserts_nothing(db: TinyDB) -> None:
    def documents() -> Any:
        yield {"a": 1}
        raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        db.insert_multiple(documents())
    assert db.all() == CHARS
    assert db.insert({"a": 1}) in {4, 5}


def test_what_was_inserted_is_there_for_the_next(reopen: Callable[[], TinyDB]) -> None:
    with reopen() as first:
        first.insert_multiple(CHARS)
    with reopen() as second:
        assert second.all() == CHARS
        assert second.insert({"int": 4}) == 4


def test_a_query_sees_what_was_inserted_after_it_was_first_asked(db: TinyDB) -> None:
    assert db.count(where("int") == 1) == 3
    db.insert({"int": 1})
    assert db.count(where("int") == 1) == 4


# Changing


def test_update(db: TinyDB) -> None:
    assert db.update({"int": 2}, where("char") == "a") == [1]
    assert db.update({"int": 3}, doc_ids=[2, 99]) == [2]
    assert [document["int"] for document in db] == [2, 3, 1]
    assert db.update({"new": True}) == [1, 2, 3]
    assert db.count(where("new") == True) == 3  # noqa: E712 - this is how queries are written


def test_update_by_operations(db: TinyDB) -> None:
    db.update(increment("int"), where("char") == "a")
    db.update(decrement("int"), where("char") == "b")
    db.update(delete("int"), where("char") == "c")
    assert db.all() == [{"int": 2, "char": "a"}, {"int": 0, "char": "b"}, {"char": "c"}]


def test_update_multiple(db: TinyDB) -> None:
    assert db.update_multiple([({"int": 2}, where("char") == "a"), ({"int": 4}, where("char") == "b")]) == [1, 2]
    assert [document["int"] for document in db] == [2, 4, 1]


def test_an_update_that_fails_changes_nothing(db: TinyDB) -> None:
    def update(document: Any) -> None:
        document["int"] = 9
        if document["char"] == "c":
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        db.update(update)
    assert db.all() == CHARS


def test_upsert(db: TinyDB) -> None:
    assert db.upsert({"int": 5, "char": "a"}, where("char") == "a") == [1]
    assert db.upsert({"int": 9, "char": "x"}, where("char") == "x") == [4]
    assert db.upsert(Document({"int": 7}, doc_id=4)) == [4]
    assert [document["int"] for document in db] == [5, 1, 1, 7]
    with pytest.raises(ValueError, match="doc_id"):
        db.upsert({"no": "id"})


def test_remove(db: TinyDB) -> None:
    assert db.remove(where("char") == "b") == [2]
    assert db.remove(doc_ids=[3, 99]) == [3]
    assert db.all() == CHARS[:1]
    with pytest.raises(RuntimeError):
        db.remove()


def test_truncate_starts_over(db: TinyDB) -> None:
    db.truncate()
    assert (len(db), db.all(), db.insert({})) == (0, [], 1)


def test_tables_are_apart(db: TinyDB) -> None:
    one, two = db.table("one"), db.table("two")
    one.insert_multiple(CHARS)
    two.insert({"int": 1})
    assert db.tables() == {"_default", "one", "two"}
    assert (len(one), len(two), len(db)) == (3, 1, 3)
    assert db.table("one") is one
    db.drop_table("one")
    assert db.tables() == {"_default", "two"}
    db.drop_tables()
    assert (db.tables(), len(two)) == (set(), 0)


def test_an_empty_table_can_be_kept(db: TinyDB) -> None:
    db.table("empty", persist_empty=True)
    assert "empty" in db.tables()


def test_the_cache_can_be_cleared_and_is_after_changes(db: TinyDB) -> None:
    table = db.table("t", cache_size=1)
    table.insert({"int": 1})
    assert table.count(where("int") == 1) == 1
    table.update({"int": 2})
    table.clear_cache()
    assert table.count(where("int") == 1) == 0


def test_reading_before_anything_was_written(tmp_path: Path) -> None:
    empty = atomic(tmp_path)
    assert (empty.all(), len(empty), empty.get(doc_id=1), empty.search(where("a") == 1)) == ([], 0, None, [])


# TinyDB's own tests

CONFTEST = """
import pytest
from tests.store.test_tinydb import atomic

@pytest.fixture
def db(tmp_path):
    made = atomic(tmp_path / "data")
    made.insert_multiple({"int": 1, "char": char} for char in "abc")
    return made
"""

OURS = "not repr and not test_yaml"
"""Tests that spell out the names of TinyDB's own classes."""


@pytest.fixture(scope="session")
def foreign_tests(tmp_path_factory: pytest.TempPathFactory) -> Path:
    named = os.environ.get("TOLLKEEPER_TINYDB_TESTS")
    if named:
        return Path(named)
    if not os.environ.get("TOLLKEEPER_FULL"):
        pytest.skip("TinyDB's own tests run with TOLLKEEPER_FULL=1, or from the folder TOLLKEEPER_TINYDB_TESTS")
    return fetched(tmp_path_factory.mktemp("tinydb"))


def fetched(folder: Path) -> Path:
    version = importlib.metadata.version("tinydb")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
    pip += ["--disable-pip-version-check", "--retries", "1", "--timeout", "15"]
    done = subprocess.run([*pip, f"tinydb=={version}", "--dest", str(folder)], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"TinyDB's own tests cannot be fetched: {done.stderr.decode()[-200:]}")
    with tarfile.open(next(folder.glob("tinydb-*.tar.gz"))) as archive:
        archive.extractall(folder, filter="data")
    return next(folder.glob("tinydb-*/tests"))


def test_tinydbs_own_tests_pass(foreign_tests: Path, tmp_path: Path) -> None:
    for file in ("test_tables.py", "test_tinydb.py"):
        (tmp_path / file).write_text((foreign_tests / file).read_text())
    (tmp_path / "conftest.py").write_text(CONFTEST)
    options = ["-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", ".", "-k", OURS]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) >= 60
