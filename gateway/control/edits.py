"""Desk: where the owner's changes are made. Each is one atomic change of the engine, and can be taken back."""

import asyncio
from collections import deque
from collections.abc import Sequence

from gateway.core.engine import Engine
from gateway.domain.errors import Conflict, Unavailable
from gateway.domain.registry import Change, Registry
from gateway.domain.units import Millis

UNDO_LIMIT = 50
"""Changes that can be taken back, in memory only."""


class ConfigEdits:
    """The engine, and the way back."""

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

    def commit(self, sentence: str, *changes: Change) -> dict[str, str]:
        """Make the changes, all or none, and remember how to undo them under this sentence in the past tense."""
        self._undo.append((sentence, self.change(*changes)))
        return {"done": sentence}

    def change(self, *changes: Change) -> Sequence[Change]:
        """Make changes that are not worth undoing; the way back. Raises Unavailable if they cannot be written."""
        try:
            return self.engine.change(changes)
        except OSError as exc:
            reason = exc.strerror or str(exc)
            raise Unavailable(f"nothing was changed, for it cannot be written: {reason}", code="store_failed") from exc

    def undo(self) -> str:
        """Take the newest change back and say which it was. Raises Conflict when there is none."""
        if not self._undo:
            raise Conflict("there is nothing to undo since the gateway started", code="nothing_to_undo")
        sentence, inverse = self._undo[-1]
        self.change(*inverse)
        self._undo.pop()
        return sentence
