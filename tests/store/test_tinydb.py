"""Our storage of small tables is a TinyDB storage: everything TinyDB promises holds on it.

The first part is what depends on the storage. The second part runs TinyDB's own tests, which are not ours to keep: from
the folder named by TOLLKEEPER_TINYDB_TESTS, or fetched when TOLLKEEPER_FULL is set.
"""

import importlib.metadata
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from tinydb import TinyDB, where

from gateway.store.entities import AtomicStorage

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


def test_values_of_every_kind_come_back(db: TinyDB) -> None:
    document = {"none": None, "list": [1, [2]], "dict": {"ü": '\n"\\\x00🙂'}, "float": 0.1, "big": 1 << 60, "": ""}
    assert db.get(doc_id=db.insert(document)) == document


def test_what_was_inserted_is_there_for_the_next(tmp_path: Path) -> None:
    with atomic(tmp_path) as first:
        first.insert_multiple(CHARS)
    with atomic(tmp_path) as second:
        assert second.all() == CHARS
        assert second.insert({"int": 4}) == 4


def test_an_empty_table_can_be_kept(db: TinyDB) -> None:
    db.table("empty", persist_empty=True)
    assert "empty" in db.tables()


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
