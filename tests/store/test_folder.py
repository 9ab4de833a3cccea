"""A data folder whose path leads elsewhere while a server runs: the server's files stay in its own folder."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.domain.account import Grant
from gateway.domain.history import ChangeSource, HistoryEntry
from gateway.domain.registry import Change
from gateway.domain.units import DOLLAR, Millis, Nanos
from gateway.store.errors import StoreError
from gateway.store.files import Folder
from gateway.store.store import Store
from tests.fakes.audit import verify
from tests.fakes.syncing import sync_store
from tests.store.samples import T0, funded_store, grant, record, running, settle, store_of

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere folders in use are not renamed, or are checked"
)


def rename(home: Path) -> Path:
    """Where the folder is now."""
    return home.rename(home.with_name("moved"))


def swap(home: Path) -> Path:
    """Another home, with calls of its own, is at the path now."""
    other = home.with_name("other")
    store = store_of(other)
    grant(store, 77)
    settle(store, 500)
    store.close()
    moved = rename(home)
    other.rename(home)
    return moved


def restore(home: Path) -> Path:
    """An older copy of the same home is at the path now."""
    copy = home.with_name("backup")
    shutil.copytree(home, copy)
    moved = rename(home)
    copy.rename(home)
    return moved


def point_elsewhere(home: Path) -> Path:
    """The path is a link, and leads to another folder now."""
    other = home.with_name("other")
    store_of(other).close()
    moved = home.resolve()
    home.unlink()
    home.symlink_to(other)
    return moved


def everything(store: Store) -> None:
    """All kinds of changes that a server makes."""
    for i in range(10, 40):
        settle(store, i)
    store.books.open(running(90))
    entry = HistoryEntry(id=1, time=Millis(T0), source=ChangeSource(), done="a", undone="b", changes=[])
    store.history.append(entry)
    store.entities.apply([Change("grants", "g9", Grant(id="g9", nanos=Nanos(DOLLAR), time=Millis(T0)))])
    store.save_incidents([])
    sync_store(store)
    store.books.settle(record(90))
    sync_store(store)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("change", [rename, swap, restore, point_elsewhere])
def test_what_is_at_the_path_is_left_alone_and_nothing_lost(tmp_path: Path, change: Callable[[Path], Path]) -> None:
    home = tmp_path / "home"
    if change is point_elsewhere:
        (tmp_path / "real").mkdir(mode=0o700)
        home.symlink_to(tmp_path / "real")
    store = funded_store(home, 5, segment_bytes=4000)
    assert store.folder.missing_reason == ""
    moved = change(home)
    before = contents(home) if home.exists() else None
    everything(store)
    assert store.folder.missing_reason in ("was renamed or deleted", "was replaced by another folder")
    assert (verify(store).equal, store.books.healthy) == (True, True)
    store.close()
    assert (contents(home) if home.exists() else None) == before
    again = store_of(moved, segment_bytes=4000)
    assert (again.calls.count, again.books.balance(), again.notes) == (36, store.books.balance(), [])
    assert (again.entities.granted, verify(again).equal) == (11 * DOLLAR, True)
    again.close()


def test_calls_end_with_a_deleted_folder_and_a_new_one_gets_none_of_them(tmp_path: Path) -> None:
    home = tmp_path / "home"
    store = funded_store(home)
    settle(store, 1)
    shutil.rmtree(home)
    new = store_of(home)
    before = contents(home)
    with pytest.raises(OSError, match="No such file"):
        sync_store(store)
    assert (store.folder.missing_reason, store.books.healthy) == ("was replaced by another folder", False)
    with pytest.raises(Exception, match="No such file"):
        store.books.open(running(2))
    with pytest.raises(Exception, match="may not survive"):
        store.close()
    assert contents(home) == before
    new.close()


@pytest.mark.parametrize("delete", [True, False])
def test_a_lock_file_that_is_deleted_or_replaced_lets_no_second_writer_in(tmp_path: Path, delete: bool) -> None:
    home = tmp_path / "home"
    store = store_of(home)
    (home / "lock").unlink()
    if not delete:
        (home / "lock").write_bytes(b"1")
    with pytest.raises(StoreError, match="is using the store"):
        store_of(home)
    store.close()
    store_of(home).close()


def test_a_path_that_cannot_be_looked_at_for_a_moment_is_not_misplaced(tmp_path: Path) -> None:
    inner = tmp_path / "closed" / "home"
    inner.mkdir(parents=True)
    folder = Folder(inner)
    away = inner.rename(tmp_path / "away")
    assert folder.missing_reason == "was renamed or deleted"
    away.rename(inner)
    assert folder.missing_reason == ""
    folder.close()
