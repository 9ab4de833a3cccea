"""Fixtures of the core's tests."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.core.clocks import Mono
from tests.core.ends import FakeReply, whole
from tests.core.rig import Rig, rigged


@pytest.fixture
def mono() -> Mono:
    return Mono()


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    """A pipeline over a real store; its books must be right when the test is over."""
    with rigged(tmp_path / "home") as made:
        yield made
        await made.tasks.close()


@pytest.fixture
def up(rig: Rig) -> Rig:
    """One channel that answers well, plain calls and streams alike."""
    rig.channel(answer=lambda: FakeReply(whole()))
    return rig
