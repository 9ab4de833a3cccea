"""What a home has on the disk at this moment, looked at in a copy, whoever has the home open."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from gateway.config import Config
from gateway.domain.units import Millis
from gateway.store.store import Store
from tests.fakes.syncing import ManualSyncer


def _no_files(folder: str, names: list[str]) -> list[str]:
    """Sockets and pipes cannot be copied."""
    return [name for name in names if not (Path(folder) / name).is_dir() and not (Path(folder) / name).is_file()]


@contextmanager
def copied(path: Path) -> Iterator[Path]:
    with TemporaryDirectory() as folder:
        copy = Path(folder) / path.name
        if path.is_dir():
            shutil.copytree(path, copy, ignore=_no_files)
        elif path.exists():
            shutil.copy(path, copy)
        yield copy


@contextmanager
def stored(home: Path) -> Iterator[Store]:
    with copied(home) as copy, opened(copy) as store:
        yield store


@contextmanager
def opened(home: Path) -> Iterator[Store]:
    """A home that nobody has open, opened."""
    store = Store(Config(home=home), now=lambda: Millis(0), syncer=ManualSyncer)
    try:
        yield store
    finally:
        store.close()
