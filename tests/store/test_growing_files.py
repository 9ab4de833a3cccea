"""Readers of files that grow: what is written while they read is neither seen half nor taken for damage."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

import pytest

from gateway.domain.query import EVERYTHING, Query
from gateway.domain.units import Millis
from gateway.store.calls import CallLog
from gateway.store.line_format import id_of
from gateway.store.search import SearchDeadline
from gateway.store.store import Store
from gateway.store.verify import Audit
from tests.fakes.audit import verify
from tests.fakes.syncing import sync_store, syncer_of
from tests.house import amount
from tests.store.samples import T0, funded_store, log_of, record, running, seal, settle, where


@pytest.fixture
def store(home: Path) -> Iterator[Store]:
    opened = funded_store(home, 20)
    sync_store(opened)
    yield opened
    with suppress(Exception):
        opened.close()


def test_lines_that_are_appended_while_others_are_read_are_not_among_them(tmp_path: Path) -> None:
    calls = log_of(tmp_path, 40)
    lines = calls.log.segments[0].lines()
    found = [id_of(line) for line in islice(lines, 3)]
    calls.log.append([record(i) for i in range(40, 80)])
    found += [id_of(line) for line in lines]
    assert found == list(range(40, 0, -1))


@pytest.mark.parametrize("whole", [EVERYTHING, where(since=Millis(T0 + 2))], ids=["all", "a span"])
def test_a_search_finds_each_call_once_whatever_is_appended_meanwhile(tmp_path: Path, whole: Query) -> None:
    calls = log_of(tmp_path, 40)
    deadline = _Appending(calls, 40)
    found = calls.search(whole, limit=99, deadline=deadline)[0]
    assert [one.id for one in found] == [record(i).id for i in range(39, -1 if whole == EVERYTHING else 1, -1)]


class _Appending(SearchDeadline):
    """A call ends at every look at the clock."""

    def __init__(self, calls: CallLog, number: int) -> None:
        super().__init__()
        self._calls, self._next = calls, number

    def passed(self) -> bool:
        self._calls.log.append([record(self._next)])
        self._next += 1
        return False


def test_a_page_by_numbers_is_of_one_moment(tmp_path: Path) -> None:
    calls = log_of(tmp_path)
    ended, faults = threading.Event(), []

    def read() -> None:
        while not ended.is_set():
            count = calls.count
            if (page := calls.by_number(count, 3)) and page[0].id != record(count - 1).id:
                faults.append((count, page[0].id))

    reader = threading.Thread(target=read)
    reader.start()
    for i in range(amount(1500, 10_000)):
        calls.log.append([record(i)])
    ended.set()
    reader.join()
    assert faults == []


def _append(store: Store) -> None:
    for i in range(20, 40):
        settle(store, i)


def _sync_and_append(store: Store) -> None:
    _append(store)
    sync_store(store)
    settle(store, 40)


def _rebuild(store: Store) -> None:
    """A sync failed: the file is written again from memory."""
    path = store.calls.log.segments[-1].path
    path.unlink()
    sync_store(store)
    assert path.exists()


def _seal(store: Store) -> None:
    store.calls.log.append([record(21, ts=T0 + 100 * 86_400_000)], in_new_file=True)
    seal(store.calls)


def _expire(store: Store) -> None:
    _seal(store)
    store.calls.log._oldest = lambda _: T0 + 50 * 86_400_000  # noqa: SLF001 - time goes on
    store.calls.log.append([record(22, ts=T0 + 101 * 86_400_000)], in_new_file=True)
    seal(store.calls)
    assert store.calls.log.segments[0].deleted
    assert not store.calls.log.segments[0].path.exists()


CHANGES = (_append, _sync_and_append, _rebuild, _seal, _expire)


@pytest.mark.parametrize("change", CHANGES, ids=[change.__name__.strip("_") for change in CHANGES])
def test_files_that_change_after_a_snapshot_do_not_matter(store: Store, change: Callable[[Store], None]) -> None:
    settle(store, 20)
    audit = Audit(store)
    change(store)
    verdict = audit.verdict()
    assert (verdict.difference, verdict.damage, verdict.calls) == ("", [], 21)


def test_a_check_beside_running_calls_finds_no_difference(home: Path) -> None:
    store = funded_store(home, syncer=syncer_of(0.001), segment_bytes=200_000)
    ended, found = threading.Event(), []
    audits = [Audit(store)]

    def audit() -> None:
        while not ended.is_set():
            if audits:
                found.append(audits.pop().verdict().difference)

    auditor = threading.Thread(target=audit)
    auditor.start()
    until = time.monotonic() + amount(1, 20)
    i = 0
    while time.monotonic() < until:
        store.books.open(running(i))
        store.books.settle(record(i))
        i += 1
        if i % 50 == 0:
            audits[:] = [Audit(store)]
    ended.set()
    auditor.join()
    assert set(found) == {""}
    assert verify(store).equal
    store.close()


def test_real_damage_is_found_by_every_check_until_it_is_repaired(store: Store) -> None:
    path = store.calls.log.segments[0].path
    good = path.read_bytes()
    path.write_bytes(good.replace(b'"cost":1003', b'"cost":1004'))
    assert [verify(store).difference for _ in range(2)] == [
        f"{path.name}: its content differs from what was written; its sums stay as they were"
    ] * 2
    path.write_bytes(good)
    assert verify(store).difference == ""
