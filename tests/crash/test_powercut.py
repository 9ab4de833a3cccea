"""After a power cut everything that was synced is there, nothing is altered, and the books agree."""

import random
import shutil
from pathlib import Path

import pytest

from tests.crash.judge import judge
from tests.crash.life import live, small_inflight
from tests.crash.powercut import PowerCut
from tests.house import amount

SHARDS = 4
CUTS_A_LIFE = 10


class _Cut(Exception):
    """The life ends here."""


def broken_promises(scratch: Path, seed: int, patch: pytest.MonkeyPatch) -> list[str]:
    """Let a store live until its random end, and judge some of the folders that a power cut could have left."""
    rng = random.Random(seed)
    home = scratch / f"home-{seed}"
    home.mkdir()
    left = [rng.randrange(4, 160)]
    said: list[tuple[str, str]] = []

    def tell(kind: str, data: bytes) -> None:
        said.append((kind, data.decode()))
        left[0] -= 1
        if not left[0]:
            raise _Cut

    with patch.context() as watching:
        cut = PowerCut(home, watching)
        with pytest.raises(_Cut):
            live(home, tell, seed=seed, calls=1000)
        images = [scratch / f"image-{number}" for number in range(CUTS_A_LIFE)]
        for image in images:
            cut.image(image, rng)
    broken = [text for image in images for text in judge(image, safe(said), power=False)]
    for folder in (home, *images):
        shutil.rmtree(folder)
    return broken


def safe(said: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """What a power cut may not take: everything before the last sync, and every change of the configuration."""
    synced = max((i for i, (kind, _) in enumerate(said) if kind == "Y"), default=0)
    return [ack for i, ack in enumerate(said) if i < synced or ack[0] == "G"]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("shard", range(SHARDS))
def test_any_power_cut(scratch: Path, monkeypatch: pytest.MonkeyPatch, shard: int) -> None:
    small_inflight()
    lives = range(shard, amount(120, 3000) // CUTS_A_LIFE, SHARDS)
    found = {seed: broken_promises(scratch, seed, monkeypatch) for seed in lives}
    assert {seed: texts for seed, texts in found.items() if texts} == {}
