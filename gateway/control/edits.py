"""Edits: the owner's changes. Each is one atomic change of the engine, and can be undone."""

import asyncio
from collections import deque
from collections.abc import Sequence

from gateway.core.engine import Engine
from gateway.domain.errors import Conflict, Unavailable
from gateway.domain.registry import Change, Registry
from gateway.domain.units import Millis

UNDO_LIMIT = 50
"""Changes that can be undone, in memory only."""


class ConfigEdits:
    """The engine, and how to undo what was changed."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.searching = asyncio.Semaphore()
        """One search of the call log at a time: each takes turns with the thread that serves calls."""
        self._undo: deque[tuple[str, Sequence[Change]]] = deque(maxlen=UNDO_LIMIT)

    @property
    def registry(self) -> Registry:
        """The configuration as it is now."""
        return self.engine.catalog.registry

    @property
    def now(self) -> Millis:
        """The wall clock."""
        return self.engine.now()

    def commit(self, done: str, undone: str, *changes: Change) -> dict[str, str]:
        """Make the changes, all or none, and remember how to undo them.

        ``done`` says what was changed, ``undone`` what is so once that is undone.
        """
        self._undo.append((undone, self.change(*changes)))
        return {"done": done}

    def change(self, *changes: Change) -> Sequence[Change]:
        """Make changes, and return those that undo them. Raises Unavailable if they cannot be written."""
        try:
            return self.engine.change(changes)
        except OSError as exc:
            reason = exc.strerror or str(exc)
            raise Unavailable(
                f"nothing was changed, because it cannot be written: {reason}", code="store_failed"
            ) from exc

    def undo(self) -> str:
        """Undo the newest change and say what that did. Raises Conflict if there is none."""
        if not self._undo:
            raise Conflict("there is nothing to undo since the gateway started", code="nothing_to_undo")
        undone, inverse = self._undo[-1]
        self.change(*inverse)
        self._undo.pop()
        return undone
