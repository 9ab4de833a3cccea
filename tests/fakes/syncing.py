"""Syncing: a syncer without a thread, which works when a test asks for it."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial

from gateway.store.recorder import Recorder, Syncer
from gateway.store.store import Store


class ManualSyncer(Syncer):
    """Syncs in the thread of the caller."""

    def __init__(self, work: Callable[[], None], clean_up: Callable[[], bool]) -> None:
        self._work, self._clean_up = work, clean_up

    def wake(self) -> None:
        """Nothing is synced until ``sync``."""

    async def wait(self) -> None:
        self.sync()

    def close(self) -> None:
        with suppress(OSError):
            self.sync()

    def sync(self) -> bool:
        """Whether nothing is left to do."""
        self._work()
        return self._clean_up()


def syncer_of(interval_s: float) -> Callable[..., Syncer]:
    """With an interval of 0, one that syncs only when asked."""
    return partial(Syncer, interval_s=interval_s) if interval_s else ManualSyncer


def sync(recorder: Recorder) -> bool:
    """Write and sync everything. Whether nothing is left to do."""
    recorder.write()
    syncer = recorder._syncer  # noqa: SLF001 - only tests sync by hand
    assert isinstance(syncer, ManualSyncer)
    return syncer.sync()


def sync_store(store: Store) -> bool:
    """The same for a whole store."""
    return sync(store.books._recorder)  # noqa: SLF001 - only tests sync by hand
