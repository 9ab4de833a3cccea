"""ExitStatus: how the console ended, as an exit code and a sentence for the shell, and the report of a crash.

After a crash the terminal is restored, one sentence is printed, and a report without values is written. Textual would
print a traceback with all local variables, and forms contain keys.
"""

import traceback
from pathlib import Path

import msgspec


class ExitStatus(msgspec.Struct, frozen=True):
    """The result of the app. The sentence is printed to standard error; empty for none."""

    sentence: str = ""
    code: int = 0


def left_status(address: str, program: str = "tollkeeper") -> ExitStatus:
    """Returns the status if the server keeps running. ``program`` is the command line that finds this data folder."""
    state = f"still serving {address}" if address else "the server keeps running"
    return ExitStatus(f"console closed; {state} ('{program}' reopens it, '{program} stop' stops the server)")


DRAINING = ExitStatus("console closed; the server stops when its running calls have finished")
"""The status if the server stops by itself."""


REPORT = "console-crash.log"


def write_report(home: Path, error: Exception) -> str:
    """Write the traceback into the home. Returns the sentence about the crash and the report."""
    path = home / REPORT
    outcome = f"details are in {path}"
    try:
        path.touch(mode=0o600)
        path.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
    except OSError as exc:
        outcome = f"no report could be written: {exc.strerror}"
    return f"the console crashed ({type(error).__name__}); the server keeps running, and {outcome}"
