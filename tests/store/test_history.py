"""The history of the configuration survives restarts and crashes, and is bounded."""

import json
from pathlib import Path

import msgspec
import pytest
from tinydb import TinyDB

from gateway.domain.group import Group
from gateway.domain.history import ChangeSource, EntityChange, HistoryEntry
from gateway.domain.registry import Change
from gateway.domain.units import Millis
from gateway.store import files, history
from gateway.store.entities import Entities
from gateway.store.history import History

SOURCE = ChangeSource(via="console", session="abc", place="pts/3")


class Home:
    """A folder, and the number that its configuration has."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.applied = 0
        self.notes: list[str] = []

    def open(self) -> History:
        return History(self.path, lambda: self.applied, lambda: Millis(7), self.notes.append)

    def add(self, kept: History, note: str = "n") -> HistoryEntry:
        found = entry(kept.next_id, note)
        kept.append(found)
        self.applied = found.id
        return found


def entry(number: int, note: str) -> HistoryEntry:
    change = EntityChange(table="groups", key="a", name="a", after={"name": "a", "note": note})
    return HistoryEntry(
        id=number,
        time=Millis(5),
        source=SOURCE,
        done="added group 'a'",
        undone="group 'a' is removed",
        changes=[change],
    )


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_entries_survive_a_restart(home: Home) -> None:
    kept = home.open()
    written = [home.add(kept), home.add(kept)]
    assert home.open().entries == written
    assert home.open().next_id == 3


def test_the_file_is_a_tinydb(home: Home) -> None:
    home.add(home.open())
    with TinyDB(home.path / "history.json") as database:
        assert [row["done"] for row in database.table("history").all()] == ["added group 'a'"]


def test_an_entry_whose_change_a_crash_prevented_is_left_out(home: Home) -> None:
    kept = home.open()
    first = home.add(kept)
    kept.append(entry(2, "never made"))
    again = home.open()
    assert (again.entries, again.next_id, home.notes) == ([first], 2, [])


def test_a_history_newer_than_a_restored_configuration_is_kept_aside(home: Home) -> None:
    kept = home.open()
    first, *_ = [home.add(kept) for _ in range(4)]
    home.applied = 1
    assert home.open().entries == [first]
    assert [path.name for path in home.path.glob("*.changed")] == ["history.json.7.changed"]
    assert "newer than the configuration" in home.notes[0]


@pytest.mark.parametrize("damage", [b"{", b"[]", b'{"history":[]}', b'{"history":{"1":{}}}'])
def test_a_damaged_file_is_kept_aside_and_stops_nothing(home: Home, damage: bytes) -> None:
    home.add(home.open())
    (home.path / "history.json").write_bytes(damage)
    again = home.open()
    assert (again.entries, again.next_id) == ([], 2)
    home.add(again)
    assert len(home.open().entries) == 1
    assert [path.read_bytes() for path in home.path.glob("*.damaged")] == [damage]


def test_only_the_newest_are_kept(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MAX_ENTRIES", 3)
    kept = home.open()
    for _ in range(5):
        home.add(kept)
    assert [one.id for one in home.open().entries] == [3, 4, 5]


def test_the_file_stays_small_but_the_newest_entry_is_kept(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MAX_BYTES", 2_000)
    kept = home.open()
    for _ in range(9):
        home.add(kept, "x" * 300)
    assert (home.path / "history.json").stat().st_size < 2_500
    home.add(kept, "y" * 5_000)
    assert [one.id for one in home.open().entries] == [10]


def test_the_file_is_for_the_owner_alone(home: Home) -> None:
    home.add(home.open(), "sk-canary")
    assert {path.name: path.stat().st_mode & 0o777 for path in home.path.iterdir()} == {"history.json": 0o600}


def test_clearing_forgets_keys_as_well(home: Home) -> None:
    kept = home.open()
    home.add(kept, "sk-canary")
    kept.clear()
    assert (list(home.open().entries), home.open().next_id) == ([], 2)
    assert "sk-canary" not in (home.path / "history.json").read_text()


def test_an_entry_of_a_later_version_is_read_as_far_as_it_is_known(home: Home) -> None:
    home.add(home.open())
    path = home.path / "history.json"
    tables = json.loads(path.read_text())
    tables["history"]["1"]["further"] = 1
    path.write_bytes(msgspec.json.encode(tables))
    assert [one.id for one in home.open().entries] == [1]


class Killed(BaseException):
    """The process ends here."""


def reopened(home: Path) -> tuple[Entities, History]:
    entities = Entities(home / "config.json")
    return entities, History(home, lambda: entities.applied, lambda: Millis(7), lambda _: None)


def changed(home: Path) -> None:
    """A change as the gateway makes it: the entry is written, then the configuration."""
    entities, kept = reopened(home)
    number = kept.next_id
    kept.append(entry(number, "n"))
    entities.apply([Change("groups", f"g{number}", Group(name=f"g{number}"))], number)


@pytest.mark.parametrize("after", [False, True])
def test_a_crash_leaves_history_and_catalog_equal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool) -> None:
    """A file is replaced by one rename; the process is killed before or after each of them."""
    rename, steps = files.rename, 0

    for last in range(1, 10):
        home = tmp_path / str(last)
        home.mkdir()
        changed(home)
        steps = 0

        def dies(new: Path, path: Path, last: int = last) -> None:
            nonlocal steps
            steps += 1
            if steps == last and not after:
                raise Killed
            rename(new, path)
            if steps == last:
                raise Killed

        monkeypatch.setattr(files, "rename", dies)
        try:
            changed(home)
        except Killed:
            pass
        else:
            break
        finally:
            monkeypatch.setattr(files, "rename", rename)
        entities, kept = reopened(home)
        assert [f"g{one.id}" for one in kept.entries] == [*entities.registry.groups]
        changed(home)
        assert len(Entities(home / "config.json").registry.groups) == len(kept.entries) + 1
    assert steps >= 3
