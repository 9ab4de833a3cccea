"""No altered call is accepted, no untouched call is lost, and the original is kept, whatever was hit."""

from pathlib import Path

import pytest

from tests.crash.damage import Specimen, examine
from tests.house import amount

SHARDS = 4


@pytest.mark.timeout(900)
@pytest.mark.parametrize("shard", range(SHARDS))
def test_random_damage_is_found_or_harmless(scratch: Path, shard: int) -> None:
    specimen, folder = Specimen(scratch / "whole"), scratch / "hurt"
    folder.mkdir()
    found = {case: examine(specimen, folder, case) for case in range(shard, amount(60, 3000), SHARDS)}
    assert {case: text for case, text in found.items() if text} == {}
