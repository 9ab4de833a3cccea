"""Verify finds every difference between what the gateway uses and what the log says."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from gateway.domain.budget import Amounts
from gateway.domain.call import ACCOUNT
from gateway.domain.units import DAY_MS, Millis, Nanos
from gateway.store.rollup import Rollup, SealedSegment
from gateway.store.store import Store
from gateway.store.verify import Audit
from tests.fakes.audit import verify
from tests.fakes.syncing import sync_store
from tests.store.samples import HURTS, T0, busy, grant, log_of, record, running, segments, settle, store_of


@pytest.fixture
def store(home: Path) -> Iterator[Store]:
    opened = store_of(home, segment_bytes=8000)
    grant(opened)
    for i, call in enumerate(busy(2, 60, days=2)):
        opened.books.open(running(i, channel=call.channel))
        opened.books.settle(msgspec.structs.replace(call, id=running(i).id))
    sync_store(opened)
    opened.books.spent(("token", "tok_1"), Millis(T0 + DAY_MS + 5))
    for day in (0, 1):  # of sealed calls and of others, with calls after its end
        opened.books.spent(ACCOUNT, Millis(T0 + day * DAY_MS), Millis(T0 + day * DAY_MS + DAY_MS // 2))
    opened.books.spent(ACCOUNT, Millis(T0 - 2 * DAY_MS), Millis(T0 - DAY_MS))
    yield opened
    opened.close()


def test_a_store_agrees_with_its_log(store: Store) -> None:
    verdict = verify(store)
    assert (verdict.equal, verdict.difference, verdict.calls) == (True, "", 60)
    assert verdict.balance_nanos == verdict.granted_nanos - verdict.cost_nanos == store.books.balance()
    assert verdict.checks > 30


def test_a_snapshot_is_not_disturbed_by_later_calls(store: Store) -> None:
    audit = Audit(store)
    settle(store, 100)
    assert audit.verdict().equal
    assert Audit(store).verdict().calls == 61


def test_calls_that_are_not_written_yet_are_counted(store: Store) -> None:
    store.books.open(running(100))
    store.books.settle(record(100, cost=Nanos(7)), deferred=True)
    verdict = verify(store)
    assert (verdict.equal, verdict.difference, verdict.calls) == (True, "", 61)


def test_sums_of_deleted_calls_are_believed(store: Store) -> None:
    store.calls.log.segments[0].path.unlink()
    store.calls.log.segments[0].deleted = True
    verdict = verify(store)
    assert (verdict.equal, verdict.difference, verdict.calls) == (True, "", 60)


@pytest.mark.parametrize("hurt", HURTS)
def test_the_sums_of_a_damaged_sealed_segment_count_and_the_damage_is_reported(home: Path, hurt: str) -> None:
    store = store_of(home, segment_bytes=8000)
    grant(store)
    for i in range(60):
        settle(store, i)
    store.close()
    path = segments(home / "usage")[0]
    path.write_bytes(HURTS[hurt](path.read_bytes()))
    for _ in range(3):
        again = store_of(home, segment_bytes=8000)
        assert again.books.balance() == store.books.balance()
        spent = [again.books.spent(("token", f"tok_{i}"), Millis(since)) for i in range(5) for since in (0, T0)]
        assert spent == [store.books.spent(("token", f"tok_{i}"), Millis(since)) for i in range(5) for since in (0, T0)]
        verdict = verify(again)
        assert (verdict.equal, verdict.difference, verdict.calls) == (True, "", 60)
        told = [text.partition(" left it ")[0] for text in verdict.damage]
        assert told == ([] if hurt == "no end" else [f"{path.name}: damage"])
        again.close()


def test_a_line_that_was_taken_out_is_missed(store: Store, home: Path) -> None:
    store.close()
    path = segments(home / "usage")[-1]
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([*lines[:2], *lines[4:]]))
    last = store.calls.log.segments[-1]
    for _ in range(2):
        again = store_of(home, segment_bytes=8000)
        verdict = verify(again)
        assert (verdict.equal, again.notes, len(verdict.damage)) == (True, [], 1)
        assert f"records {last.first + 1} to {last.first + 2} are missing before {last.first + 3}" in verdict.damage[0]
        again.close()


def test_damage_that_was_repaired_is_reported_by_the_process_that_found_it(store: Store, home: Path) -> None:
    store.close()
    path = segments(home / "usage")[-1]
    path.write_bytes(b"")
    damages = []
    for _ in range(2):
        again = store_of(home, segment_bytes=8000)
        damages.append((verify(again).equal, verify(again).damage, again.notes[:1]))
        again.close()
    told = f"{path} was damaged; 0 of its calls are intact, not a byte was left"
    last = store.calls.log.segments[-1]
    missing = f"{last.first} to {last.last} are missing from the end"
    later = f"records {missing} of {home / 'usage'}: the newest call file was deleted or truncated. The cost"
    damage = f"records {missing}; the cost is in no sum"
    assert damages == [
        (True, [told, damage], [told]),
        (True, [damage], [f"{later} is missing from all sums. Restore the file from a backup if there is one"]),
    ]


def test_a_deleted_segment_that_was_not_sealed_is_missed(home: Path) -> None:
    store_of(home).close()
    log_of(home / "usage", 60, limit=3000)  # never closed: nothing is sealed
    segments(home / "usage")[1].unlink()
    again = store_of(home, segment_bytes=8000)
    verdict = verify(again)
    assert verdict.equal
    assert f"{segments(home / 'usage')[1].name}: records 13 to 24 are missing before 25" in verdict.damage[0]


def test_a_missing_call_is_found(store: Store, home: Path) -> None:
    path = segments(home / "usage")[0]
    path.write_bytes(path.read_bytes().replace(b'"cost":1003', b'"cost":1004'))
    verdict = verify(store)
    assert "differs from what was written" in verdict.difference
    assert (verdict.calls, verdict.damage) == (59, [])


def test_a_wrong_number_of_calls_is_found(store: Store) -> None:
    audit = Audit(store)
    audit.segments[0][1].count += 1
    assert "number of calls: the gateway has" in audit.verdict().difference


def test_wrong_sums_are_found(store: Store) -> None:
    sealed = next(s for s in store.calls.log.segments if isinstance(s.sums, SealedSegment))
    assert isinstance(sealed.sums, SealedSegment)
    wrong = sealed.sums.totals("app")
    wrong["curl"].ttft += 1
    sealed.sums.raw_totals["app"] = msgspec.Raw(msgspec.json.encode(wrong))
    assert "totals by app curl: the gateway has Counts" in verify(store).difference


def test_wrong_sums_of_the_open_segment_are_found(store: Store) -> None:
    settle(store, 100)
    sums = store.calls.log.segments[-1].sums
    assert isinstance(sums, Rollup)
    sums.add(record(101))
    assert "totals by token" in verify(store).difference


def test_wrong_counters_are_found(store: Store) -> None:
    store.books.counters.add(record(101, token="tok_1", ts=T0 + 2 * DAY_MS))
    assert verify(store).difference.startswith("what account spent since 0")


def test_a_wrong_window_is_found(store: Store) -> None:
    audit = Audit(store)
    scope = ("token", "tok_1")
    audit.counters = [(s, since, Amounts() if s == scope else spent) for s, since, spent in audit.counters]
    assert "what token tok_1 spent since" in audit.verdict().difference


def test_a_wrong_balance_is_found(store: Store) -> None:
    audit = Audit(store)
    audit.balance = Nanos(5)
    assert audit.verdict().difference.startswith("the balance")


def test_a_call_that_is_recorded_twice_is_found(store: Store) -> None:
    store.calls.log.append(store.calls.find(limit=1))
    assert "recorded twice" in verify(store).difference


def test_calls_that_changed_places_are_found(store: Store, home: Path) -> None:
    path = segments(home / "usage")[0]
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([*lines[:2], lines[3], lines[2], *lines[4:]]))
    assert "record 2 follows 3" in verify(store).difference
