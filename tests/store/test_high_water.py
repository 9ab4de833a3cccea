"""The newest call file may not vanish without a trace."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.domain.units import DOLLAR
from gateway.store import files
from gateway.store.log import HighWater
from gateway.store.store import Store
from tests.fakes.audit import verify
from tests.fakes.syncing import sync_store
from tests.store.samples import funded_store, record, segments, settle, store_of

Loss = Callable[[Path], None]


def deleted(home: Path) -> None:
    segments(home / "usage")[-1].unlink()


def cut(home: Path) -> None:
    """At the end of a record, so that the file itself is whole."""
    path = segments(home / "usage")[-1]
    path.write_bytes(b"\n".join(path.read_bytes().split(b"\n")[:3]) + b"\n}}\n")


def all_deleted(home: Path) -> None:
    for path in (home / "usage").iterdir():
        path.unlink()
    (home / "usage").rmdir()


def moved(home: Path) -> None:
    segments(home / "usage")[-1].rename(home / "elsewhere")


def replaced(home: Path) -> None:
    """By a copy, while a backup has a link to the original, as ``cp -al`` and ``rsync --link-dest`` make."""
    path = segments(home / "usage")[-1]
    os.link(path, home / "backup")
    copy = home / "copy"
    copy.write_bytes(path.read_bytes())
    copy.replace(path)


def lived(home: Path, calls: int, **options: int) -> Store:
    store = funded_store(home, calls, **options)
    store.close()
    return store


@pytest.mark.parametrize(
    ("loss", "calls", "segment_bytes", "missing"),
    [
        (deleted, 10, 32 << 20, "records 1 to 10 are missing"),
        (cut, 10, 32 << 20, "records 3 to 10 are missing"),
        (all_deleted, 10, 32 << 20, "records 1 to 10 are missing"),
        (deleted, 10, 2000, "records 9 to 10 are missing"),
        (deleted, 9, 2000, "record 9 is missing"),
        (all_deleted, 10, 2000, "records 1 to 10 are missing"),
    ],
)
def test_missing_records_are_reported_by_verify(
    home: Path, loss: Loss, calls: int, segment_bytes: int, missing: str
) -> None:
    lived(home, calls, segment_bytes=segment_bytes)
    loss(home)
    for _ in range(2):
        again = store_of(home)
        assert [note for note in again.notes if f"{missing} from the end" in note] == again.notes
        verdict = verify(again)
        told = f"{missing} from the end; the cost is in no sum"
        assert (verdict.equal, verdict.damage) == (True, [told])
        again.close()


@pytest.mark.parametrize("loss", [deleted, cut, all_deleted])
def test_later_calls_do_not_hide_that_records_are_missing(home: Path, loss: Loss) -> None:
    lived(home, 10)
    loss(home)
    for i in range(20, 26):
        again = store_of(home, segment_bytes=1500)
        settle(again, i)
        again.close()
    again = store_of(home)
    assert again.notes == []
    (damage,) = verify(again).damage
    assert "to 10 are missing before 11" in damage
    assert again.calls.find(limit=1)[0].id == record(25).id
    again.close()


def test_a_file_that_is_brought_back_is_complete_again(home: Path) -> None:
    before = lived(home, 10)
    path = segments(home / "usage")[-1]
    whole = path.read_bytes()
    path.unlink()
    again = store_of(home)
    settle(again, 20)
    again.close()
    newer = segments(home / "usage")[-1].read_bytes()
    path.write_bytes(whole)
    path.with_name("calls-20251120-0001.json").write_bytes(newer)
    back = store_of(home)
    assert (verify(back).damage, back.notes, back.calls.count) == ([], [], 11)
    assert back.books.balance() == before.books.balance() - record(20).cost
    back.close()


def test_a_store_that_lost_nothing_says_nothing(home: Path) -> None:
    for _ in range(3):
        lived(home, 0, segment_bytes=2000)
    again = store_of(home, segment_bytes=2000)
    assert (again.notes, verify(again).damage) == ([], [])
    for i in range(20):
        settle(again, i)
    assert verify(again).damage == []
    again.close()


def test_without_the_number_nothing_is_known_and_nothing_is_wrong(home: Path) -> None:
    lived(home, 10)
    (home / "high-water").unlink()
    deleted(home)
    again = store_of(home)
    assert (again.notes, verify(again).damage, again.books.balance()) == ([], [], 10 * DOLLAR)
    again.close()


@pytest.mark.parametrize("loss", [deleted, moved, replaced])
def test_a_file_that_is_no_longer_in_its_place_is_rewritten(home: Path, loss: Loss) -> None:
    store = funded_store(home, 3)
    loss(home)
    settle(store, 3)
    assert sync_store(store)
    assert "was deleted, moved or replaced" in store.notes[0]
    settle(store, 4)
    store.close()
    again = store_of(home)
    assert ([call.id for call in again.calls.find(limit=9)][::-1], again.notes) == (
        [record(i).id for i in range(5)],
        [],
    )
    assert verify(again).equal
    again.close()


@pytest.mark.parametrize("loss", [deleted, moved, replaced])
def test_a_lost_file_is_rewritten_once_the_disk_has_space(
    home: Path, monkeypatch: pytest.MonkeyPatch, loss: Loss
) -> None:
    store = funded_store(home, 3)
    assert sync_store(store)
    loss(home)
    settle(store, 3)
    with monkeypatch.context() as patch:
        patch.setattr(files, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "no space")))
        with pytest.raises(OSError, match="no space"):
            sync_store(store)
    assert sync_store(store)
    store.close()
    again = store_of(home)
    assert [call.id for call in again.calls.find(limit=9)][::-1] == [record(i).id for i in range(4)]
    assert verify(again).damage == []
    again.close()


def test_the_number_never_sinks_whatever_the_disk_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "high-water"
    number = HighWater(path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", lambda *_: (_ for _ in ()).throw(OSError(24, "too many files")))
        number.put(3)
    assert (number.last, path.exists()) == (0, False)
    for last in (7, 7, 4):
        number.put(last)
    assert (number.last, HighWater(path).last) == (7, 7)


def test_the_file_stays_small(tmp_path: Path) -> None:
    path = tmp_path / "high-water"
    number = HighWater(path)
    for last in range(1, 3000):
        number.put(last)
        assert path.stat().st_size < 20
    assert HighWater(path).last == 2999


def test_a_number_that_is_cut_off_is_unknown_or_the_former_one(tmp_path: Path) -> None:
    """It is never too large, whatever of it is written over the former one."""
    path = tmp_path / "high-water"
    for before, after in ((25, 31), (99, 100), (1999, 2000), (7, 1234567)):
        old, new = b"%d %d\n" % (before, before), b"%d %d\n" % (after, after)
        for size in range(len(new) + 1):
            path.write_bytes(new[:size] + old[size:])
            assert HighWater(path).last in (0, before, after if size >= len(new) - 1 else 0)
            number = HighWater(path)
            number.put(after + 1)
            assert HighWater(path).last == after + 1


CONTENTS = (b"", b"x", b"\x00" * 64, b"9" * 64, b"12", b"-3 -3\n", b"3 4\n", b"\n25\n\n31\n", b" \n")


@pytest.mark.parametrize("data", CONTENTS)
def test_other_contents_count_as_zero(tmp_path: Path, data: bytes) -> None:
    """Also a longer one, such as the numbers of an earlier version: the next number is found all the same."""
    path = tmp_path / "high-water"
    path.write_bytes(data)
    assert HighWater(path).last == 0
    HighWater(path).put(31)
    assert HighWater(path).last == 31


def test_no_number_is_put_before_its_record_is_safe(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = funded_store(home, 1)
    sync_store(store)
    settle(store, 1)
    assert HighWater(home / "high-water").last == 1
    with monkeypatch.context() as patch:
        for name in ("os.fsync", "os.fdatasync"):
            patch.setattr(name, lambda _: (_ for _ in ()).throw(OSError(5, "refused")))
        with pytest.raises(OSError, match="refused"):
            sync_store(store)
    assert HighWater(home / "high-water").last == 1
    sync_store(store)
    assert HighWater(home / "high-water").last == 2
    store.close()
