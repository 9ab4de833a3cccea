"""Exit: how the console was left, as an exit code and a sentence for the shell, and what happens after a crash.

A bug in our code restores the terminal, prints one sentence and writes a report without values. Textual would print a
traceback with all local variables, and forms contain keys.
"""

import traceback
from pathlib import Path
from typing import TypeVar

import msgspec
from textual.worker import WorkerFailed

from tui.key_queue import KeyQueueApp


class ExitStatus(msgspec.Struct, frozen=True):
    """The result of the app."""

    sentence: str = ""
    code: int = 0


def after_leaving(address: str, program: str = "tollkeeper") -> ExitStatus:
    """Returns the status if the server keeps running. ``program`` is the command line that finds this data folder."""
    where = f"still serving {address}" if address else "the server keeps running"
    return ExitStatus(f"console closed; {where} ('{program}' reopens it, '{program} stop' stops the server)")


def while_draining() -> ExitStatus:
    """Returns the status if the server stops by itself."""
    return ExitStatus("console closed; the server stops when its running calls have finished")


REPORT = "console-crash.log"

Result = TypeVar("Result")


class CrashReportingApp(KeyQueueApp[Result]):
    """An app that keeps its exception for its caller."""

    crash: Exception | None = None

    def _fatal_error(self) -> None:
        """Store the uncaught exception: Textual calls this, with it in ``_exception``."""
        error = self._exception
        self.crash = error.error if isinstance(error, WorkerFailed) and isinstance(error.error, Exception) else error
        self._close_messages_no_wait()


def write_report(home: Path, error: Exception) -> str:
    """Write the traceback into the home. Returns the sentence about it."""
    path = home / REPORT
    where = f"details are in {path}"
    try:
        path.touch(mode=0o600)
        path.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
    except OSError as exc:
        where = f"no report could be written: {exc.strerror}"
    return f"the console crashed ({type(error).__name__}); the server keeps running, and {where}"
