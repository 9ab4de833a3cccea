"""Opening a store: what is made, what is repaired, who is let in, and what is said where it cannot be used."""

import errno
import os
import stat
from pathlib import Path

import pytest

from gateway.domain.errors import GatewayError
from gateway.domain.registry import Change
from gateway.domain.settings import Settings
from gateway.domain.units import DAY_MS, DOLLAR
from gateway.store.errors import StoreDamaged, StoreError, cannot_open, too_new
from tests.fakes.audit import verify
from tests.fakes.syncing import sync_store
from tests.store.samples import T0, funded_store, grant, record, running, segments, settle, store_of


def test_a_fresh_home_works_at_once(home: Path) -> None:
    store = store_of(home)
    assert (store.books.balance(), store.calls.count, store.notes) == (0, 0, [])
    store.close()


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777], ids=oct)
def test_all_files_are_private(home: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        store = funded_store(home, 20, segment_bytes=2000)
        store.close()
    finally:
        os.umask(before)
    for path in [home, *home.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_what_was_settled_is_there_after_the_next_start(home: Path) -> None:
    store = funded_store(home)
    settled = [settle(store, i) for i in range(10)]
    store.close()
    again = store_of(home)
    assert again.calls.find(limit=99) == settled[::-1]
    assert again.books.balance() == settled[-1].balance
    assert verify(again).equal


def test_a_second_writer_is_refused_until_the_first_is_done(home: Path) -> None:
    store = store_of(home)
    with pytest.raises(StoreError, match=f"pid {os.getpid()}"):
        store_of(home)
    store.close()
    store_of(home).close()


def test_a_store_that_could_not_be_opened_is_not_locked(home: Path) -> None:
    store_of(home).close()
    (home / "config.json").write_text("{")
    with pytest.raises(StoreDamaged):
        store_of(home)
    (home / "config.json").unlink()
    store_of(home).close()


def test_a_home_that_cannot_be_a_folder_is_refused_with_its_name(home: Path) -> None:
    home.write_text("a file")
    with pytest.raises(StoreError, match=str(home)):
        store_of(home)


def test_calls_without_a_configuration_are_never_taken_for_a_new_store(home: Path) -> None:
    store = store_of(home)
    settle(store, 1)
    store.close()
    (home / "config.json").unlink()
    with pytest.raises(StoreDamaged, match="missing"):
        store_of(home)
    assert not (home / "config.json").exists()


def test_a_lost_configuration_can_be_brought_back_as_the_message_says(home: Path) -> None:
    store = funded_store(home)
    grant(store, 5, "g2")
    store.close()
    (home / "config.json").unlink()
    with pytest.raises(StoreDamaged, match=r"config\.old\.json"):
        store_of(home)
    (home / "config.json").write_bytes((home / "config.old.json").read_bytes())
    again = store_of(home)
    assert again.books.balance() == 10 * DOLLAR


@pytest.mark.parametrize("name", ["config.json", "usage/ledger.json", "usage/calls-20251120-0000.json"])
def test_a_newer_format_of_any_file_is_refused_and_nothing_is_changed(home: Path, name: str) -> None:
    store = store_of(home, segment_bytes=2000)
    for i in range(12):
        settle(store, i)
    store.close()
    path = home / name
    path.write_bytes(path.read_bytes().replace(b'"format":', b'"format":9', 1))
    before = {found: found.read_bytes() for found in home.rglob("*.json")}
    with pytest.raises(StoreError, match=r"has format 9\d.*newer version"):
        store_of(home)
    assert {found: found.read_bytes() for found in home.rglob("*.json")} == before


def test_repairs_are_reported(home: Path) -> None:
    store = store_of(home)
    for i in range(3):
        settle(store, i)
    store.books.open(running(9))
    store.close()
    path = segments(home / "usage")[0]
    path.write_bytes(path.read_bytes()[:-40])
    (home / "config.json").write_bytes((home / "config.json").read_bytes().replace(b'"1":{}', b'"1":{"keep_days":30}'))
    again = store_of(home)
    told = [
        "changed by another program",
        "2 of its calls are intact",
        "record 3 is missing from the end",
        "running when the gateway died: 1",
    ]
    assert [text for text, note in zip(told, again.notes, strict=True) if text in note] == told


def test_records_are_kept_as_long_as_the_settings_say(home: Path) -> None:
    store = store_of(home, clock=T0 + 32 * DAY_MS)
    store.entities.apply([Change("settings", "", Settings(keep_days=30))])
    calls = [record(i, ts=T0 + days * DAY_MS) for i, days in enumerate((0, 0, 2, 31, 32))]
    for call in calls:
        store.calls.log.append([call])
        sync_store(store)
    assert store.calls.find(limit=9) == calls[:1:-1]
    store.close()
    again = store_of(home, clock=T0 + 33 * DAY_MS)
    assert (again.calls.get(calls[0].id), again.books.spent(("account", "")).calls) == (None, 5)
    assert verify(again).equal


def test_a_clock_that_was_ahead_for_a_day_deletes_no_records(home: Path) -> None:
    """As after a start with a wrong clock, before the time is fetched from the network."""
    calls = [record(i, ts=T0 + days * DAY_MS) for i, days in enumerate((0, 1, 3650, 3650, 2))]
    for call in calls:
        store = store_of(home, clock=call.ts)
        store.calls.log.append([call])
        sync_store(store)
        store.close()
    assert store_of(home, clock=T0 + 3 * DAY_MS).calls.find(limit=9) == calls[::-1]


def test_a_last_sync_that_fails_is_reported_and_the_lock_is_let_go(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = store_of(home)
    settle(store, 1)
    with monkeypatch.context() as patch:
        for name in ("os.fsync", "os.fdatasync"):
            patch.setattr(name, lambda _: (_ for _ in ()).throw(OSError(5, "refused", "/proc/self/fd/9/x")))
        with pytest.raises(StoreError, match=r"may not survive a power cut: refused\Z"):
            store.close()
    again = store_of(home)
    assert again.calls.count == 1


def test_errors_of_the_store_have_codes_of_their_own() -> None:
    errors = (StoreError("x"), StoreDamaged("x"), too_new(Path("f"), 9, 1))
    assert [error.code for error in errors] == ["store_failed", "store_damaged", "store_too_new"]
    assert issubclass(StoreError, GatewayError)


@pytest.mark.parametrize(
    ("number", "file", "text"),
    [
        (errno.EROFS, "/h o/lock", " (lock); mount its file system writable, or name another folder with --home"),
        (errno.EACCES, None, "; make it yours: sudo chown -R $(id -u) '/h o', or name another folder with --home"),
        (errno.ENOSPC, None, "; free some disk space, or name another folder with --home"),
        (errno.EIO, "/h o/usage/calls-1.json", " (calls-1.json)"),
    ],
)
def test_a_store_that_cannot_be_opened_says_in_words_what_to_do(number: int, file: str | None, text: str) -> None:
    error = cannot_open(Path("/h o"), OSError(number, os.strerror(number), file))
    assert error.message == f"the store in /h o cannot be opened: {os.strerror(number)}{text}"
