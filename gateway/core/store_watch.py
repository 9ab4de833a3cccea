"""StoreWatch: reports once that the store failed and why, and once that it works again.

Each is a line in the log (stderr, or ``server.log`` of a server in the background) and a notice to the watchers. A disk
that fails and recovers again and again does not fill the log: within half a minute only one failure is reported, and
after that the current state. Each kind of repair is reported once in that time.
"""

import asyncio
import logging
from collections.abc import Callable

_log = logging.getLogger("tollkeeper")

QUIET_S = 30.0
"""At most one failure, and each repair once, is reported within this many seconds."""


class StoreWatch:
    """Reports the state of the store. It runs on the event loop."""

    def __init__(
        self, home: str, trouble: Callable[[], str], changed: Callable[[], None], mono: Callable[[], float]
    ) -> None:
        """``trouble`` returns what is wrong now; empty if nothing is. ``changed`` informs the watchers."""
        self._home = home
        self._trouble = trouble
        self._changed = changed
        self._mono = mono
        self._reported = False
        """Whether a failure was reported, and its end was not."""
        self._next_report = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._notes: dict[str, float] = {}
        """When each repair was last reported."""

    def check(self) -> None:
        """Inform the watchers, and report a failure that began or ended."""
        self._changed()
        self._report()

    def note(self, text: str) -> None:
        """Report a repair: what the store did to keep its records."""
        now = self._mono()
        self._notes = {text: at for text, at in self._notes.items() if now - at < QUIET_S}
        if text not in self._notes:
            self._notes[text] = now
            _log.warning("the store in %s: %s", self._home, text)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _report(self) -> None:
        """Log a failure that began or ended, or set a timer if the last failure was logged a moment ago."""
        trouble, now = self._trouble(), self._mono()
        if bool(trouble) is self._reported:
            return
        if not trouble:
            self._reported = False
            _log.warning("the store in %s works again, and calls are accepted", self._home)
        elif now >= self._next_report:
            self._reported, self._next_report = True, now + QUIET_S
            _log.error(
                "the store in %s has failed: %s. Calls are refused until it works again; answers that it cannot record "
                "are withheld and cost nothing",
                *(self._home, trouble),
            )
        elif self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._next_report - now, self._report_later)

    def _report_later(self) -> None:
        self._timer = None
        self._report()
