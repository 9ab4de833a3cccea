"""The crash tests notice when a safety mechanism is missing. Each of these must find something broken."""

from pathlib import Path

import pytest

from tests.crash.damage import Specimen, examine
from tests.crash.life import small_inflight
from tests.crash.mutants import MUTANTS
from tests.crash.nursery import Nursery
from tests.crash.test_disk import failing, tried
from tests.crash.test_kills import dies_at
from tests.crash.test_powercut import broken_promises
from tests.fakes.audit import verify
from tests.store.samples import grant, segments, stock, store_of

POINTS = 400
"""System calls at which a mutant has the opportunity to fail."""


@pytest.mark.parametrize("name", ["hold_ends_first", "no_hold", "replace_in_place", "begun_in_place"])
def test_a_kill_finds(nursery: Nursery, scratch: Path, name: str) -> None:
    assert any(dies_at(nursery, scratch / "home", at, name) for at in range(1, POINTS))


def test_a_kill_finds_unread_records(nursery: Nursery, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS["no_look_for_records"](monkeypatch)
    assert any(dies_at(nursery, scratch / "home", at) for at in range(1, POINTS))


@pytest.mark.parametrize("name", ["no_sync_before_rename", "no_folder_sync", "no_sync", "seal_unsynced"])
def test_a_power_cut_finds(scratch: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    small_inflight()
    MUTANTS[name](monkeypatch)
    assert any(broken_promises(scratch, seed, monkeypatch) for seed in range(60))


def test_damage_finds_that_there_is_no_checksum(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    specimen, folder = Specimen(scratch / "whole"), scratch / "hurt"
    folder.mkdir()
    MUTANTS["no_checksum"](monkeypatch)
    assert any(hurt(specimen, folder, case) for case in range(60))


def hurt(specimen: Specimen, folder: Path, case: int) -> str:
    """What is wrong after damage; that the log does not open any more is wrong, too."""
    try:
        return examine(specimen, folder, case)
    except ValueError as exc:
        return str(exc)


def test_a_full_disk_finds_that_nothing_is_undone(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS["no_undo"](monkeypatch)
    assert any(invalid_for_stock(scratch / f"home-{n}", n, monkeypatch) for n in range(20))


def test_a_full_disk_is_undone_as_it_is(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not any(invalid_for_stock(scratch / f"home-{n}", n, monkeypatch) for n in range(20))


def invalid_for_stock(home: Path, n: int, patch: pytest.MonkeyPatch) -> bool:
    """Whether a write that fails leaves a file that TinyDB cannot read."""
    store = store_of(home)
    grant(store)
    with patch.context() as failed:
        failing(failed, n)
        for i in range(10):
            tried(store, i)
    try:
        found = sum(len(stock(path)) for path in segments(home / "usage"))
    except ValueError:
        return True
    return found != store.calls.count or not verify(store).equal
