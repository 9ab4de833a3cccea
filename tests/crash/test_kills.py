"""A process that is killed at any moment takes nothing with it that it had promised."""

import random
import shutil
import signal
from pathlib import Path

import pytest

from tests.crash.judge import judge
from tests.crash.nursery import Nursery
from tests.house import FULL, amount

POINTS = amount(160, 2000)
LATEST_S = 0.4 if FULL else 0.05
"""When a life in the middle of work is over, at the latest."""

MANY_CALLS = 100_000
"""Bytes of a segment: a few hundred calls, so that more time goes into calls than into sealing."""

SHARDS = 4
"""So that both cores have something to do."""


def dies_at(nursery: Nursery, home: Path, at: int, mutant: str = "") -> list[str]:
    """What is broken after a death at one system call of a fresh home's life."""
    shutil.rmtree(home, ignore_errors=True)
    death = nursery.bear(home, seed=1, kill_at=at, mutant=mutant)
    if death.status != -signal.SIGKILL:
        return [f"ended with {death.status}: {death.error}"]
    return judge(home, death.acks)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("shard", range(SHARDS))
def test_death_at_each_system_call(nursery: Nursery, scratch: Path, shard: int) -> None:
    broken = {at: dies_at(nursery, scratch / "home", at) for at in range(1 + shard, POINTS + 1, SHARDS)}
    assert {at: found for at, found in broken.items() if found} == {}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("shard", range(2))
def test_death_again_and_again_close_to_the_start(nursery: Nursery, scratch: Path, shard: int) -> None:
    """Recovery itself is cut off, at every one of its steps, on a store that grows."""
    rng = random.Random(shard)
    acks: list[tuple[str, str]] = []
    for life in range(amount(24, 300)):
        death = nursery.bear(scratch / "home", seed=2 + life, kill_at=rng.randrange(1, 60))
        assert death.status == -signal.SIGKILL, death.error
        acks += death.acks
        if life % 20 == 19:
            assert judge(scratch / "home", acks) == []
    assert judge(scratch / "home", acks) == []


@pytest.mark.timeout(900)
def test_random_kills_in_the_middle_of_work(nursery: Nursery, tmp_path: Path) -> None:
    """On a real disk, with the thread that syncs."""
    rng = random.Random(9)
    acks: list[tuple[str, str]] = []
    for life in range(amount(6, 200)):
        death = nursery.bear(
            tmp_path / "home",
            seed=500 + life,
            kill_after_s=rng.uniform(0.001, LATEST_S),
            sync_s=0.01,
            segment_bytes=MANY_CALLS,
        )
        assert death.status == -signal.SIGKILL, death.error
        acks += death.acks
        if life % 20 == 19:
            assert judge(tmp_path / "home", acks) == []
