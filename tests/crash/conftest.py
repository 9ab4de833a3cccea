"""Fixtures: how much to do, where, and who gives birth."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.nursery import Nursery

MEMORY = Path("/dev/shm")
"""A disk that syncs for nothing, where there is one."""


FULL = bool(os.environ.get("TOLLKEEPER_FULL"))
"""Whether there is time for everything."""


def amount(fast: int, full: int) -> int:
    """The usual number of cases, or with TOLLKEEPER_FULL=1 that of the goals."""
    return full if FULL else fast


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A fast empty folder."""
    folder = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery() as opened:
        yield opened
