"""StoreWatch: reports once that the store has failed and why, and once that it works again.

The log (stderr, or ``server.log`` of a server in the background) gets a line each, the watchers a notice. A disk that
fails and recovers again and again fills no log: within half a minute only one failure is reported, and afterwards what
is so then. The same goes for repairs: each is reported once in that time.
"""

import asyncio
import logging
from collections.abc import Callable

_log = logging.getLogger("tollkeeper")

QUIET_S = 30.0
"""Seconds in which only one failure, and no repair twice, is reported."""


class StoreWatch:
    """``trouble`` returns what is wrong now, empty if all is well; ``changed`` is called when that begins or ends.

    All of it runs on the event loop. ``mono`` gives monotonic seconds.
    """

    def __init__(
        self, home: str, trouble: Callable[[], str], changed: Callable[[], None], mono: Callable[[], float]
    ) -> None:
        self._home = home
        self._trouble = trouble
        self._changed = changed
        self._mono = mono
        self._reported = False
        """That it has failed, and not yet that it works again."""
        self._quiet_until = 0.0
        self._later: asyncio.TimerHandle | None = None
        self._notes: dict[str, float] = {}
        """What was noted, and when."""

    def look(self) -> None:
        """Trouble may have begun or ended."""
        self._changed()
        self._report()

    def note(self, text: str) -> None:
        """Report what the store has done to keep its calls."""
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
