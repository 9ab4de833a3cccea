"""StoreWatch: reports once that the store failed and why, and once that it works again.

Each is a line in the log (stderr, or ``server.log`` of a server in the background) and a notice to the watchers. A disk
that fails and recovers again and again does not fill the log: within half a minute only one failure is reported, and
after that the current state. Each kind of repair is reported once in that time.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from gateway.store.store import Store

_log = logging.getLogger("tollkeeper")

QUIET_S = 30.0
"""At most one failure, and each repair once, is reported within this many seconds."""


class StoreWatch:
    """Reports the state of the store. It runs on the event loop; the store may call from a thread of its own."""

    def __init__(self, store: Store, home: str, changed: Callable[[], None]) -> None:
        """``changed`` informs the watchers."""
        self._errors = store.books.disk_errors
        self._home = home
        self._changed = changed
        self._reported = False
        """Whether a failure was reported, and its end was not."""
        self._quiet: asyncio.TimerHandle | None = None
        """The timer since the last reported failure; None if the next one may be reported at once."""
        self._notes: set[str] = set()
        """The repairs that were reported in the last ``QUIET_S`` seconds."""
        loop = asyncio.get_running_loop()
        self._errors.on_change = lambda: _call_soon(loop, self.check)
        store.on_note = lambda text: _call_soon(loop, partial(self.note, text))
        if self._errors.text:
            self.check()

    def check(self) -> None:
        """Inform the watchers, and report a failure that began or ended."""
        self._changed()
        self._report()

    def note(self, text: str) -> None:
        """Report a repair: what the store did to keep its records."""
        if text not in self._notes:
            self._notes.add(text)
            asyncio.get_running_loop().call_later(QUIET_S, self._notes.discard, text)
            _log.warning("the store in %s: %s", self._home, text)

    def close(self) -> None:
        if self._quiet is not None:
            self._quiet.cancel()

    def _report(self) -> None:
        """Log a failure that began or ended. A failure soon after another one is logged later, if it lasts."""
        trouble = self._errors.text
        if bool(trouble) is self._reported or (trouble and self._quiet is not None):
            return
        self._reported = bool(trouble)
        if not trouble:
            _log.warning("the store in %s works again, and calls are accepted", self._home)
            return
        self._quiet = asyncio.get_running_loop().call_later(QUIET_S, self._end_quiet)
        effect = "Calls are refused until it works again; answers that it cannot record are withheld and cost nothing"
        _log.error("the store in %s has failed: %s. %s", self._home, trouble, effect)

    def _end_quiet(self) -> None:
        self._quiet = None
        self._report()


def _call_soon(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    with suppress(RuntimeError):  # the loop has ended
        loop.call_soon_threadsafe(callback)
