"""Signal relay: runs a program in our terminal, and passes our signals on to it."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, Self

from gateway.commands.exit_codes import Exit, Quit
from gateway.domain.text import plain

FROM_OTHERS = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")
"""Other processes send these to us only."""
FROM_KEYBOARD = ("SIGINT", "SIGQUIT", "SIGTSTP")
"""The terminal sends these to the program as well as to us. We stop only when the program has stopped."""


class SignalRelay:
    """Passes our signals on to the program. Signals that arrive before its start are sent once it has started.

    No signal ends this process during the block, so the token is always ended.
    """

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._pending: list[int] = []
        self._previous_handlers: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for name in (*FROM_OTHERS, *FROM_KEYBOARD):
            number = getattr(signal, name, None)  # Windows has few of them
            if number is not None:
                self._previous_handlers[number] = signal.signal(number, self._forward)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous_handlers.items():
            signal.signal(number, handler)

    def supervise(self, command: list[str], environment: Mapping[str, str]) -> int:
        """Run a program to its end. Returns its exit code, or 128 plus its signal. Raises Quit if it cannot start."""
        try:
            self._child = subprocess.Popen(command, env=environment)
        except OSError as error:
            reason = _start_failure(command[0], error)
            raise Quit(f"'{plain(command[0])}' could not be started: {reason}", Exit.FAILED) from error
        for number in self._pending:
            self._forward(number, None)
        code = _wait(self._child)
        return code if code >= 0 else 128 - code  # it is minus the number of a signal

    def _forward(self, number: int, _frame: FrameType | None) -> None:
        if self._child is None:
            self._pending.append(number)
            return
        sent_by_terminal = signal.Signals(number).name in FROM_KEYBOARD and _is_in_foreground()
        if not sent_by_terminal:
            with suppress(OSError):
                self._child.send_signal(number)


def _start_failure(program: str, error: OSError) -> str:
    """Returns why a program cannot be started. The system hides that a script's interpreter is missing."""
    with suppress(OSError), Path(program).open("rb") as file:
        first_line = file.readline(1_000)
        if isinstance(error, FileNotFoundError) and first_line.startswith(b"#!"):
            interpreter = plain(first_line[2:].decode("utf-8", "replace").strip())
            return f"its first line names an interpreter that does not exist: {interpreter}"
    return error.strerror or str(error)


def _wait(child: subprocess.Popen[bytes]) -> int:
    """Returns the exit code. We stop with the program (Ctrl-Z), so that the shell gets the terminal back."""
    if os.name == "nt":
        return child.wait()
    while True:
        _, status = os.waitpid(child.pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            child.returncode = os.waitstatus_to_exitcode(status)
            return child.returncode
        os.kill(os.getpid(), signal.SIGSTOP)
        child.send_signal(signal.SIGCONT)


def _is_in_foreground() -> bool:
    """Returns whether the terminal sends signals from the keyboard to our process group, which includes the program."""
    with suppress(OSError):
        return os.name == "nt" or os.tcgetpgrp(sys.__stdin__.fileno() if sys.__stdin__ else 0) == os.getpgrp()
    return False
