"""A store that fails is reported, and that it works again, in a line each and not in a flood."""

import logging
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.core import store_watch
from gateway.core.store_watch import StoreWatch
from gateway.store.errors import DiskErrors
from tests.fakes.clock import skip

ERROR = "the disk refuses to write: Input/output error"


class Store:
    """One whose trouble a test turns on and off."""

    def __init__(self) -> None:
        self.errors = DiskErrors()
        self.changes = 0
        store: Any = SimpleNamespace(books=SimpleNamespace(disk_errors=self.errors))
        self.watch = StoreWatch(store, "/home/me", self._changed)

    def _changed(self) -> None:
        self.changes += 1

    def becomes(self, trouble: str) -> None:
        self.errors.write = trouble
        self.watch.check()


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    made = Store()
    yield made
    made.watch.close()


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "tollkeeper"]


async def test_a_failure_and_its_end_are_a_line_each(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    store.becomes(ERROR)
    store.watch.check()
    store.becomes("")
    first, second = lines(caplog)
    assert first.startswith(f"the store in /home/me has failed: {ERROR}. Calls are refused until it works again")
    assert second == "the store in /home/me works again, and calls are accepted"
    assert [record.levelno for record in caplog.records] == [logging.ERROR, logging.WARNING]
    assert store.changes == 3


async def test_a_store_that_fails_again_and_again_does_not_flood_the_log(
    store: Store, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_watch, "QUIET_S", 0.05)
    for _ in range(100):
        store.becomes(ERROR)
        store.becomes("")
    assert [line.partition(":")[0] for line in lines(caplog)] == [
        "the store in /home/me has failed",
        "the store in /home/me works again, and calls are accepted",
    ]
    assert store.changes == 200


@pytest.mark.hasty(0.001)
@pytest.mark.parametrize("lasts", [True, False])
async def test_a_failure_that_was_passed_over_is_reported_later_if_it_lasts(
    store: Store, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, lasts: bool
) -> None:
    monkeypatch.setattr(store_watch, "QUIET_S", 0.05)
    for trouble in (ERROR, "", "the disk is full", "the disk is full"):
        store.becomes(trouble)
    if not lasts:
        store.becomes("")
    await skip(0.1)
    assert len(lines(caplog)) == (3 if lasts else 2)
    assert ("the disk is full" in lines(caplog)[-1]) is lasts


@pytest.mark.hasty(0.001)
async def test_a_repair_is_noted_once_in_a_while(
    store: Store, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_watch, "QUIET_S", 0.05)
    for _ in range(10):
        store.watch.note("calls go on in a new file")
        store.watch.note("it was written again")
    await skip(0.1)
    store.watch.note("it was written again")
    assert lines(caplog) == [
        "the store in /home/me: calls go on in a new file",
        "the store in /home/me: it was written again",
        "the store in /home/me: it was written again",
    ]
