"""Crash: a bug of ours ends the console with its terminal in order, one sentence, and a report that holds no values.

Textual would print a traceback with all local variables: forms hold keys.
"""

import traceback
from pathlib import Path
from typing import TypeVar

from textual.worker import WorkerFailed

from tui.keys import InOrder

REPORT = "console-crash.log"

Result = TypeVar("Result")


class CrashSafe(InOrder[Result]):
    """An app that keeps its exception for who ran it."""

    crash: Exception | None = None

    def _fatal_error(self) -> None:
        """What Textual calls for an exception that nobody caught; the exception is kept in ``_exception`` then."""
        found = self._exception
        self.crash = found.error if isinstance(found, WorkerFailed) and isinstance(found.error, Exception) else found
        self._close_messages_no_wait()


def report(home: Path, error: Exception) -> str:
    """Write the traceback into the home, and give the sentence about it."""
    path = home / REPORT
    where = f"{path} tells more"
    try:
        path.touch(mode=0o600)
        path.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
    except OSError as exc:
        where = f"no report could be written: {exc.strerror}"
    return f"the console failed ({type(error).__name__}); the server goes on, and {where}"
