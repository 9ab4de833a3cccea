"""Fixtures: where to do it, and who gives birth."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.nursery import Nursery

MEMORY = Path("/dev/shm")
"""A disk that syncs for nothing, where there is one."""


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
