"""A store that fails, as clients see it over HTTP: no answer is complete whose record is not kept."""

import asyncio
import errno
from pathlib import Path

import pytest

from gateway.domain.call import Record
from gateway.domain.events import StatusChanged
from tests.fakes.client import read_answer
from tests.fakes.disk import REASONS, Disk, Operation, Refusal
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider
from tests.fakes.replies import speak, speak_after


@pytest.fixture
def disk(home: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch, home)


async def test_a_connection_goes_on_behind_a_withheld_answer(gateway: Gateway, provider: Provider, disk: Disk) -> None:
    """The next request on it gets an answer of its own."""
    go_on = asyncio.Event()
    provider.on("m", speak(), speak_after(go_on))
    await gateway.client.chat()
    peers = [await gateway.client.connect() for _ in range(3)]
    for peer in peers:
        await peer.write(gateway.client.chat_bytes())
    await provider.asked(4)
    inflight = "inflight.log"

    def judge(operation: Operation) -> Refusal | None:
        return None if operation.file == inflight else REASONS["EIO"]

    disk.judge = judge
    go_on.set()
    first = [await read_answer(peer) for peer in peers]
    disk.heal()
    await gateway.until(lambda: gateway.engine.store.books.healthy)
    for peer in peers:
        await peer.write(gateway.client.chat_bytes())
    second = [await read_answer(peer) for peer in peers]
    for peer in peers:
        peer.close()
    assert [answer.status for answer in first] == [503] * 3
    assert [answer.status for answer in second] == [200] * 3


async def test_a_failure_is_reported_with_its_reason_and_so_is_its_end(
    gateway: Gateway, disk: Disk, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk.judge = lambda operation: REASONS["EIO"] if operation.file == "inflight.log" else None
    with gateway.engine.bus.watch() as watcher:
        for _ in range(20):
            assert (await gateway.client.chat()).refusal[:2] == (503, "store_unavailable")
        batch = await watcher.next_batch(1)
        health = await gateway.client.get("/v1/health")
        assert [type(notice) for notice in batch.notices if not isinstance(notice, Record)] == [StatusChanged]
        disk.heal()
        await gateway.until(lambda: gateway.engine.store.books.healthy)
        batch = await watcher.next_batch(1)
        assert [type(notice) for notice in batch.notices if not isinstance(notice, Record)] == [StatusChanged]
    reason = "the disk refuses to write: Input/output error"
    assert (health.status, health.json["store"], health.json["store_error"]) == (503, "failed", reason)
    assert str(home).encode() not in health.body
    well = await gateway.client.get("/v1/health")
    assert (well.status, well.json["store"], well.json["store_error"]) == (200, "ok", "")
    assert [record.getMessage().partition(". Calls")[0] for record in caplog.records] == [
        f"the store in {home} has failed: {reason}",
        f"the store in {home} works again, and calls are accepted",
    ]


async def test_what_the_store_does_to_keep_its_calls_is_reported(
    gateway: Gateway, provider: Provider, disk: Disk, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert (await gateway.client.chat()).status == 200
    (name,) = {operation.file for operation in disk.seen if operation.name == "pwrite" and "calls" in operation.file}
    disk.refuse(errno.EFBIG, "pwrite", file=name)
    for _ in range(3):
        assert (await gateway.client.chat()).status == 200
    assert gateway.engine.store.books.healthy
    await asyncio.sleep(0)
    messages = [record.getMessage() for record in caplog.records]  # a sync after 100 ms may add another one
    note = f"the store in {home}: a call file cannot be written (File too large); calls continue in a new one"
    assert messages[0] == note
