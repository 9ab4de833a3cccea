"""Exit: how the console was left, as an exit code and a sentence for the shell, and what happens after a crash.

A bug of ours restores the terminal, prints one sentence and writes a report without values. Textual would print a
traceback with all local variables, and forms hold keys.
"""

import traceback
from pathlib import Path
from typing import TypeVar

import msgspec
from textual.worker import WorkerFailed

from tui.key_queue import InOrder


class Farewell(msgspec.Struct, frozen=True):
    """The result of the app."""

    sentence: str = ""
    code: int = 0


def left_by_user(address: str) -> Farewell:
    """The server goes on."""
    where = f"still serving {address}" if address else "the server goes on"
    return Farewell(f"left; {where} ('tollkeeper' comes back, 'tollkeeper stop' ends it)")


def stopped() -> Farewell:
    """The server ended, too."""
    return Farewell("stopped; clients are no longer served ('tollkeeper' starts it again)")


def draining() -> Farewell:
    """The server will end by itself."""
    return Farewell("left; the server ends when its running calls have ended")


def gone() -> Farewell:
    """There was no server to leave behind."""
    return Farewell("left; no server is running ('tollkeeper' starts one)")


def terminated(number: int) -> Farewell:
    """A signal ended the console."""
    return Farewell("", 128 + number)


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
