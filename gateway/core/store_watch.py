"""StoreWatch: reports once that the store failed and why, and once that it works again.

The log (stderr, or ``server.log`` of a server in the background) gets a line for each, the watchers a notice. A disk
that fails and recovers again and again does not fill the log: within half a minute only one failure is reported, and
then the state at its end. The same holds for repairs.
"""

import asyncio
import logging
from collections.abc import Callable

_log = logging.getLogger("tollkeeper")

QUIET_S = 30.0
"""Seconds in which at most one failure is reported, and each repair once."""


class StoreWatch:
    """``trouble`` returns what is wrong now, empty if all is well; ``changed`` is called when that begins or ends.

    It runs on the event loop. ``mono`` returns monotonic seconds.
    """

    def __init__(
        self, home: str, trouble: Callable[[], str], changed: Callable[[], None], mono: Callable[[], float]
    ) -> None:
        self._home = home
        self._trouble = trouble
        self._changed = changed
        self._mono = mono
        self._reported = False
        """Whether a failure was reported, and its end not yet."""
        self._quiet_until = 0.0
        self._later: asyncio.TimerHandle | None = None
        self._notes: dict[str, float] = {}
        """The repairs reported, and when."""

    def look(self) -> None:
        """Check whether a failure began or ended."""
        self._changed()
        self._report()

    def note(self, text: str) -> None:
        """Report what the store did to keep its calls."""
        now = self._mono()
        self._notes = {text: at for text, at in self._notes.items() if now - at < QUIET_S}
        if text not in self._notes:
            self._notes[text] = now
            _log.warning("the store in %s: %s", self._home, text)

    def close(self) -> None:
        """Report nothing more."""
        if self._later is not None:
            self._later.cancel()

    def _report(self) -> None:
        trouble, now = self._trouble(), self._mono()
        if bool(trouble) is self._reported:
            return
        if not trouble:
            self._reported = False
            _log.warning("the store in %s works again, and calls are accepted", self._home)
        elif now >= self._quiet_until:
            self._reported, self._quiet_until = True, now + QUIET_S
            _log.error(
                "the store in %s has failed: %s. Calls are refused until it works again; answers that it cannot record "
                "are withheld and cost nothing",
                *(self._home, trouble),
            )
        elif self._later is None:
            loop = asyncio.get_running_loop()
            self._later = loop.call_later(self._quiet_until - now, self._report_later)

    def _report_later(self) -> None:
        self._later = None
        self._report()
