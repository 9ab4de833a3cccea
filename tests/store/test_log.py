"""The log of segments: when one ends and the next begins, what is sealed, and what opening finds."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.domain.settings import ExpiringRecords
from gateway.domain.units import DAY_MS, HOUR_MS, Millis
from gateway.store import files
from gateway.store.calls import CallLog, expiring_records
from gateway.store.errors import StoreDamaged
from gateway.store.ledger import Ledger
from gateway.store.line_format import TAIL
from gateway.store.log import Log
from gateway.store.rollup import DIMENSIONS
from gateway.store.segment import EMPTY
from gateway.store.sums import FOREVER, Step, Sums
from tests.store.samples import HURTS, T0, log_of, record, seal, segments, stock, sums_of

SMALL = 3000
"""Bytes: about ten calls."""


def names(folder: Path) -> list[str]:
    return [path.name for path in segments(folder)]


def reopened(folder: Path, report: Callable[[str], None] = lambda _: None) -> CallLog:
    return CallLog(Log(folder, limit=SMALL, report=report))


def all_sums(calls: CallLog) -> list[Sums]:
    """By everything, over all time and over the one hour, in total and over time."""
    steps: tuple[Step, ...] = ("hour", "day", "")
    hour = T0 // HOUR_MS * HOUR_MS
    spans = [(0, FOREVER), (hour, hour + HOUR_MS)]
    return [calls.sums(by, Millis(a), Millis(b), step) for by in DIMENSIONS for step in steps for a, b in spans]


def test_a_new_day_begins_a_new_segment(tmp_path: Path) -> None:
    calls = log_of(tmp_path)
    for day in (0, 0, 1, 3):
        calls.log.append([record(day, ts=T0 + day * DAY_MS)])
    assert names(tmp_path) == [f"calls-202511{day}-0000.json" for day in (20, 21, 23)]


def test_a_clock_set_back_does_not_reorder_the_files(tmp_path: Path) -> None:
    calls = log_of(tmp_path, limit=SMALL)
    for i in range(30):
        calls.log.append([record(i, ts=T0 + DAY_MS if i < 10 else 5 + i)])
    calls.log.close()
    assert names(tmp_path) == [f"calls-20251121-000{number}.json" for number in range(3)]
    assert [call.id for call in reopened(tmp_path).find(limit=1)] == [record(29, ts=34).id]


def test_a_clock_set_far_ahead_ends_no_earlier_than_the_calendar(tmp_path: Path) -> None:
    log_of(tmp_path).log.append([record(1, ts=1 << 60)])
    assert names(tmp_path) == ["calls-99991231-0000.json"]


def test_syncing_seals_what_is_closed(tmp_path: Path) -> None:
    calls = log_of(tmp_path, 25, limit=SMALL)
    assert list(Ledger(tmp_path).sealed) == []
    seal(calls)
    assert list(Ledger(tmp_path).sealed) == names(tmp_path)[:2]
    assert sum(one.count for one in Ledger(tmp_path).sealed.values()) + calls.log.segments[-1].count == 25


def test_opening_gives_the_same_calls_and_sums(tmp_path: Path) -> None:
    calls = log_of(tmp_path, 45, limit=SMALL)
    seal(calls)
    calls.log.append([record(45)])
    calls.log.close()
    again = reopened(tmp_path)
    assert again.find(limit=99) == calls.find(limit=99)
    assert sums_of(again, "model") == sums_of(calls, "model")
    assert again.log.last == 46


def test_opening_reads_no_sealed_segment(tmp_path: Path) -> None:
    calls = log_of(tmp_path, 25, limit=SMALL)
    calls.log.close()
    sealed = segments(tmp_path)[0]
    sealed.write_bytes(bytes(sealed.stat().st_size))
    assert reopened(tmp_path).count == 25


def test_a_crash_before_the_seal_leaves_it_to_the_next_start(tmp_path: Path) -> None:
    log_of(tmp_path, 25, limit=SMALL)  # never closed
    calls = reopened(tmp_path)
    assert (calls.count, len(Ledger(tmp_path).sealed)) == (25, 0)
    calls.log.append([record(25)])
    seal(calls)
    assert len(Ledger(tmp_path).sealed) == 2
    assert reopened(tmp_path).count == 26


def test_what_is_closed_while_a_sync_runs_is_sealed_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, real = log_of(tmp_path, 11, limit=SMALL), os.fdatasync

    def slow(fd: int) -> None:
        monkeypatch.setattr(os, "fdatasync", real)
        calls.log.append([record(i) for i in range(11, 30)])
        calls.log.append([record(30)])
        real(fd)

    monkeypatch.setattr(os, "fdatasync", slow)
    seal(calls)
    assert (len(names(tmp_path)), len(Ledger(tmp_path).sealed)) == (2, 0)
    seal(calls)
    assert len(Ledger(tmp_path).sealed) == 1


def test_names_that_were_not_synced_are_synced_next_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = log_of(tmp_path, 3)
    synced: list[Path] = []
    with monkeypatch.context() as patch:
        patch.setattr(files, "sync_folder", lambda _: (_ for _ in ()).throw(OSError(5, "refused")))
        with pytest.raises(OSError, match="refused"):
            seal(calls)
    monkeypatch.setattr(files, "sync_folder", synced.append)
    seal(calls)
    seal(calls)
    assert synced == [tmp_path]


def test_a_full_disk_keeps_the_open_segment_growing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = log_of(tmp_path, 12, limit=SMALL)
    monkeypatch.setattr(files, "create", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
    for i in range(12, 40):
        calls.log.append([record(i)])
    assert (len(names(tmp_path)), calls.count) == (1, 40)


def test_a_seal_that_fails_is_tried_again_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = log_of(tmp_path, 25, limit=SMALL)
    with monkeypatch.context() as patch:
        patch.setattr(files, "replace", lambda *_, **__: (_ for _ in ()).throw(OSError(28, "full")))
        seal(calls)
    for _ in range(101):
        seal(calls)
    assert len(Ledger(tmp_path).sealed) == 2


def test_a_sync_that_fails_rewrites_the_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[str] = []
    calls = log_of(tmp_path, 5, report=notes.append)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", lambda _: (_ for _ in ()).throw(OSError(5, "refused")))
        calls.log.sync()
    calls.log.append([record(5)])
    calls.log.sync()
    assert [call["cost"] for call in stock(segments(tmp_path)[0])] == [1000, 1001, 1002, 1003, 1004, 1005]
    assert "refused to sync" in notes[0]


def _shorten(data: bytes) -> bytes:
    return data[: data.rindex(b"\n,")] + TAIL


EDITS: dict[str, tuple[Callable[[bytes], bytes], int]] = {
    "the ends of its lines": (lambda data: data.replace(b"\n", b"\r\n"), 20),
    "its layout": (lambda data: json.dumps(json.loads(data), indent=2).encode(), 20),
    "a mark at its beginning": (lambda data: b"\xef\xbb\xbf" + data, 20),
    "a call less": (_shorten, 19),
    "nothing left": (lambda _: b"", 0),
}
"""What an editor changes in a file of twenty calls, and how many calls are in it afterwards."""


@pytest.mark.parametrize("later", [0, 5])
@pytest.mark.parametrize("edit", EDITS)
def test_a_file_that_an_editor_saves_while_it_grows_keeps_its_sums(tmp_path: Path, edit: str, later: int) -> None:
    notes: list[str] = []
    calls = log_of(tmp_path, 20, report=notes.append)
    change, left = EDITS[edit]
    (path,) = segments(tmp_path)
    path.write_bytes(change(path.read_bytes()))
    for i in range(later):
        calls.log.append([record(20 + i)])
        calls.log.sync()
    calls.log.close()
    assert notes == [f"another program changed {path.name}; calls continue in a new file"]
    again = reopened(tmp_path)
    assert sums_of(again, "app").total.cost == sum(1000 + i for i in range(20 + later))
    assert (again.count, len(again.find(limit=99))) == (left + later, left + later)


def test_old_segments_are_deleted_and_their_sums_stay(tmp_path: Path) -> None:
    log_of(tmp_path, 25, limit=SMALL).log.close()
    notes: list[str] = []
    for old in (
        CallLog(Log(tmp_path, oldest=lambda _: T0 + 15, report=notes.append)),
        reopened(tmp_path, notes.append),
    ):
        assert (old.count, len(segments(tmp_path)), notes) == (13, 2, [])
        assert sums_of(old, "group").total.calls == 25
        assert [call.id for call in old.find(limit=99)] == [record(i).id for i in range(24, 11, -1)]
        assert old.get(record(3).id) is None
        old.log.close()


def test_expiring_records_are_known(tmp_path: Path) -> None:
    log_of(tmp_path, 25, limit=SMALL).log.close()
    calls = CallLog(Log(tmp_path))
    assert expiring_records(calls, T0) == ExpiringRecords()
    assert expiring_records(calls, T0 + 15) == ExpiringRecords(records=12, days=1)
    kept = CallLog(Log(tmp_path, oldest=lambda _: T0 + 15))
    assert (kept.count, expiring_records(kept, T0 + 15)) == (13, ExpiringRecords())


@pytest.mark.parametrize("hurt", HURTS)
def test_whatever_happens_to_a_sealed_segment_its_sums_stay(tmp_path: Path, hurt: str) -> None:
    calls = log_of(tmp_path, 25, limit=SMALL)
    calls.log.close()
    before = all_sums(calls)
    path = segments(tmp_path)[0]
    path.write_bytes(HURTS[hurt](path.read_bytes()))
    for start in range(3):
        notes: list[str] = []
        again = reopened(tmp_path, notes.append)
        assert all_sums(again) == before
        assert ["Sums and balances stay" in note for note in notes] == [True] * (start == 0)
        assert again.count == len(again.find(limit=99)) == sum(len(stock(one)) for one in segments(tmp_path))
        again.log.close()


def test_a_sealed_segment_that_holds_as_many_other_calls_is_damaged(tmp_path: Path) -> None:
    calls = log_of(tmp_path, 38, limit=SMALL)
    calls.log.close()
    before, (first, second, *_) = all_sums(calls), segments(tmp_path)
    assert calls.log.segments[0].count == calls.log.segments[1].count
    first.write_bytes(second.read_bytes() + b" ")
    again = reopened(tmp_path)
    assert (all_sums(again), again.log.segments[0].incomplete) == (before, True)


def test_a_sealed_segment_may_be_brought_back(tmp_path: Path) -> None:
    log_of(tmp_path, 25, limit=SMALL).log.close()
    path = segments(tmp_path)[0]
    whole = path.read_bytes()
    path.write_bytes(EMPTY)
    reopened(tmp_path).log.close()
    path.write_bytes(whole)
    notes: list[str] = []
    again = reopened(tmp_path, notes.append)
    assert notes == [f"{path} holds all of its calls; it had 12. Sums and balances stay as they were"]
    assert (again.count, again.log.segments[0].incomplete) == (25, False)


@pytest.mark.parametrize("lost", ["ledger.json", "ledger.old.json"])
def test_a_lost_ledger_is_rebuilt_from_the_segments(tmp_path: Path, lost: str) -> None:
    calls = log_of(tmp_path, 25, limit=SMALL)
    seal(calls)
    calls.log.append([record(i) for i in range(25, 40)])
    calls.log.append([record(40)])
    calls.log.close()
    expected = sums_of(calls, "token")
    (tmp_path / lost).unlink()
    again = reopened(tmp_path)
    assert sums_of(again, "token") == expected
    again.log.append([record(41)])
    again.log.close()
    assert reopened(tmp_path).count == 42


@pytest.mark.parametrize("hurt", [lambda data: data.replace(b'"n":', b'"m":', 1), HURTS["a field of another type"]])
def test_a_damaged_ledger_is_kept_aside_and_rebuilt(tmp_path: Path, hurt: Callable[[bytes], bytes]) -> None:
    log_of(tmp_path, 25, limit=SMALL).log.close()
    ledger = tmp_path / "ledger.json"
    ledger.write_bytes(hurt(ledger.read_bytes()))
    notes: list[str] = []
    again = reopened(tmp_path, notes.append)
    assert "ledger.json was damaged" in notes.pop()
    assert sums_of(again, "group").total.calls == 25
    assert len(list(tmp_path.glob("ledger.json.*.damaged"))) == 1
    again.log.close()
    assert (reopened(tmp_path, notes.append).count, notes) == (25, [])


def test_sums_of_deleted_calls_that_are_lost_are_not_passed_over(tmp_path: Path) -> None:
    log_of(tmp_path, 25, limit=SMALL).log.close()
    segments(tmp_path)[0].unlink()
    for name in ("ledger.json", "ledger.old.json"):
        (tmp_path / name).unlink(missing_ok=True)
    with pytest.raises(StoreDamaged, match="sums of calls 1 to 12 are lost"):
        reopened(tmp_path)


def test_calls_that_damage_took_from_the_beginning_are_not_looked_for_elsewhere(tmp_path: Path) -> None:
    log_of(tmp_path, 5).log.close()
    path = segments(tmp_path)[0]
    path.write_bytes(path.read_bytes().replace(b'"cost":1000', b'"cost":9000'))
    assert [reopened(tmp_path).count for _ in range(2)] == [4, 4]


def test_a_segment_that_cannot_be_opened_is_not_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = log_of(tmp_path, 12, limit=SMALL)
    with monkeypatch.context() as patch:
        patch.setattr("gateway.store.log.Tail", lambda _: (_ for _ in ()).throw(OSError(24, "too many files")))
        calls.log.append([record(12)])
    assert len(names(tmp_path)) == 1
    calls.log.append([record(13)])
    assert (len(names(tmp_path)), calls.count) == (2, 14)


def test_a_segment_before_a_sealed_one_grows_no_more(tmp_path: Path) -> None:
    """Ids would no longer grow from one file to the next."""
    calls = log_of(tmp_path, 24, limit=SMALL)
    calls.log.append([record(24)])
    calls.log.close()
    ledger = Ledger(tmp_path)
    ledger.sealed = {name: one for name, one in ledger.sealed.items() if name != names(tmp_path)[0]}
    segments(tmp_path)[2].unlink()
    ledger.put()
    again = reopened(tmp_path)
    again.log.append([record(25)])
    again.log.close()
    assert [len(stock(path)) for path in segments(tmp_path)] == [12, 12, 1]
    assert sums_of(reopened(tmp_path), "app").total.calls == 25
