"""Life: a gateway's store at work, told as acknowledgements, so that a crash at any point can be judged afterwards.

Each acknowledgement is what somebody outside may rely on from then on: H (a hold: an upstream may be asked), C (the
call goes to another channel), S (a settled or noted call: the client saw it finish), G (a grant), Y (everything before
survives a power cut).
"""

import asyncio
import os
import random
from collections.abc import Callable
from pathlib import Path

import msgspec

from gateway.config import Config
from gateway.domain.account import Grant
from gateway.domain.call import Record
from gateway.domain.registry import Change
from gateway.domain.units import Millis, Nanos
from gateway.store.inflight import Inflight
from gateway.store.store import Store
from tests.fakes.syncing import sync_store, syncer_of
from tests.store.samples import T0, record, running

Tell = Callable[[str, bytes], None]

SEGMENT_BYTES = 4000
"""So small that sealing is a matter of every dozen calls."""

INFLIGHT_BYTES = 1500
"""So small that the file of running calls is rewritten again and again."""

_encode = msgspec.json.encode


def small_inflight() -> None:
    """There is no setting for this size: no owner would want to choose it."""
    defaults = Inflight.__init__.__kwdefaults__
    assert defaults is not None
    defaults["limit"] = INFLIGHT_BYTES


def live(
    home: Path, tell: Tell, *, seed: int, calls: int, sync_s: float = 0.0, segment_bytes: int = SEGMENT_BYTES
) -> None:
    """Open the store, let calls begin and end in random order, and leave without closing it."""
    rng = random.Random(seed)
    clock = T0 + seed * 3_600_000
    store = Store(Config(home=home), now=lambda: Millis(clock), syncer=syncer_of(sync_s), segment_bytes=segment_bytes)
    open_calls: list[int] = []
    for step in range(calls):
        number = seed * 100_000 + step
        call = running(number, held=rng.randrange(9999))
        store.books.open(call)
        tell("H", call.id.encode())
        open_calls.append(number)
        if rng.random() < 0.3:
            store.books.update(running(number, held=call.held, channel="ch_other"))
            tell("C", call.id.encode())
        while len(open_calls) > 3 or (open_calls and rng.random() < 0.4):
            _settle(store, tell, open_calls.pop(rng.randrange(len(open_calls))))
        if step % 7 == 3:
            sync_store(store) if sync_s == 0 else asyncio.run(store.books.wait_until_synced())
            tell("Y", b"")
        if step % 200 in {5, 16, 27}:
            _grant(store, tell, f"g{number}")
        if step % 13 == 8:
            _note(store, tell, number + 50_000)


def _settle(store: Store, tell: Tell, number: int) -> None:
    tell("S", _encode(store.books.settle(record(number))))


def _note(store: Store, tell: Tell, number: int) -> None:
    refused = record(number, cost=0, status=429)
    store.books.record_refusal(refused)
    noted = store.calls.get(refused.id)
    assert noted is not None
    tell("S", _encode(noted))


def _grant(store: Store, tell: Tell, key: str) -> None:
    grant = Grant(id=key, nanos=Nanos(1_000_000), time=Millis(T0))
    store.entities.apply([Change("grants", key, grant)])
    tell("G", key.encode())


def settled(data: bytes) -> Record:
    """The record of an S."""
    return msgspec.json.decode(data, type=Record)


def fork_life(live: Callable[[Callable[[bytes], None]], None]) -> tuple[int, int]:
    """Fork a process that lives and tells lines, a bug after ``!``; its id, and where to read the lines."""
    ears, mouth = os.pipe()
    if pid := os.fork():
        os.close(mouth)
        return pid, ears
    os.close(ears)
    write, leave = os.write, os._exit
    try:
        live(lambda line: _tell_line(write, mouth, line))
        leave(0)
    except BaseException as exc:  # noqa: BLE001 - whatever it is, the test is to see it
        _tell_line(write, mouth, b"! " + repr(exc).replace("\n", " ").encode())
        leave(1)


def _tell_line(write: Callable[[int, bytes], int], mouth: int, line: bytes) -> None:
    write(mouth, line + b"\n")
