"""The ledger keeps the sums of sealed segments, and survives the loss of any one file."""

from pathlib import Path

import msgspec
import pytest
from tinydb import TinyDB

from gateway.domain.units import DAY_MS
from gateway.store import files
from gateway.store.errors import StoreDamaged
from gateway.store.ledger import Ledger, check_complete
from gateway.store.rollup import SealedSegment
from gateway.store.segment import Segment
from tests.store.samples import T0, log_of, scan, segments


def sealed(folder: Path, number: int = 0, *, latest: int = T0) -> SealedSegment:
    """The sums of ten calls under the name of a segment."""
    log_of(folder / f"calls{number}", 10).log.close()
    segment = Segment(segments(folder / f"calls{number}")[0])
    scan(segment)
    name = f"calls-20251120-{number:04d}.json"
    first = number * 10 + 1
    return msgspec.structs.replace(segment.seal(), name=name, first=first, last=first + 9, latest=latest)


def test_a_stored_segment_is_found(tmp_path: Path) -> None:
    one = sealed(tmp_path)
    Ledger(tmp_path).put(one)
    found = Ledger(tmp_path)
    assert found.sealed == {one.name: one}
    assert not found.damaged


def test_putting_a_segment_again_replaces_it(tmp_path: Path) -> None:
    ledger, one = Ledger(tmp_path), sealed(tmp_path)
    ledger.put(one, sealed(tmp_path, 1))
    ledger.put(msgspec.structs.replace(one, count=9))
    assert [found.count for found in Ledger(tmp_path).sealed.values()] == [9, 10]


def test_stock_tinydb_reads_it(tmp_path: Path) -> None:
    Ledger(tmp_path).put(sealed(tmp_path))
    with TinyDB(tmp_path / "ledger.json", access_mode="r") as stock:
        assert [document["n"] for document in stock.table("segments")] == [10]


def test_old_segments_lose_their_hours(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.put(sealed(tmp_path, 0, latest=T0))
    ledger.put(sealed(tmp_path, 1, latest=T0 + (40 + 1) * DAY_MS))
    assert [one.hourly for one in Ledger(tmp_path).sealed.values()] == [False, True]


def test_a_failed_write_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(tmp_path)
    ledger.put(sealed(tmp_path))
    monkeypatch.setattr(files, "replace", lambda *_, **__: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.raises(OSError, match="full"):
        ledger.put(sealed(tmp_path, 1))
    assert list(ledger.sealed) == list(Ledger(tmp_path).sealed) == ["calls-20251120-0000.json"]


def test_a_damaged_line_is_taken_from_the_former_version(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    for number in range(3):
        ledger.put(sealed(tmp_path, number))
    data = ledger.path.read_bytes()
    ledger.path.write_bytes(data.replace(b'"calls-20251120-0001.json"', b'"calls-20251120-9991.json"'))
    found = Ledger(tmp_path)
    assert found.damaged
    assert sorted(found.sealed) == [f"calls-20251120-000{number}.json" for number in range(3)]


@pytest.mark.parametrize("rest", [b"", b"garbage", b"\x00" * 500])
def test_a_ledger_that_is_lost_is_taken_from_the_former_version(tmp_path: Path, rest: bytes) -> None:
    ledger = Ledger(tmp_path)
    ledger.put(sealed(tmp_path, 0))
    ledger.put(sealed(tmp_path, 1))
    ledger.path.write_bytes(rest)
    found = Ledger(tmp_path)
    assert (found.damaged, list(found.sealed)) == (True, ["calls-20251120-0000.json"])


def part(folder: Path, number: int, *, deleted: bool = False) -> Segment:
    one = sealed(folder, number)
    segment = Segment(folder / one.name, one)
    segment.deleted = deleted
    return segment


@pytest.mark.parametrize("numbers", [[0, 1, 2], [0, 2]])
def test_nothing_is_missing_as_long_as_the_oldest_calls_are_there(tmp_path: Path, numbers: list[int]) -> None:
    check_complete(tmp_path / "ledger.json", [part(tmp_path, number) for number in numbers])


def test_sums_of_deleted_calls_that_are_nowhere_are_missed(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    with pytest.raises(StoreDamaged, match="sums of calls 1 to 10 are lost"):
        check_complete(path, [part(tmp_path, 1)])
    with pytest.raises(StoreDamaged, match="sums of calls 11 to 20 are lost"):
        check_complete(path, [part(tmp_path, 0, deleted=True), part(tmp_path, 2)])
