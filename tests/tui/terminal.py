"""Terminal: a program in a real pseudo-terminal; the screen is what pyte says it is. Every wait is bounded."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import pexpect
import pyte
from pexpect.pty_spawn import ptyprocess

from tests import fork_server
from tests.house import ROOT

LIMIT_S = 60.0


class Terminal:
    """Its screen, its keys, and every byte that reached it."""

    def __init__(self, child: pexpect.spawn, columns: int, rows: int) -> None:
        self.child = child
        self.screen = pyte.Screen(columns, rows)
        self.raw = bytearray()
        self._stream = pyte.ByteStream(self.screen)

    @property
    def text(self) -> str:
        return "\n".join(self.screen.display)

    def keys(self, text: str) -> "Terminal":
        self.child.send(text)
        return self

    def resize(self, columns: int, rows: int) -> "Terminal":
        self.screen.resize(rows, columns)
        self.child.setwinsize(rows, columns)
        return self

    def wait(self, *wanted: str) -> "Terminal":
        """Until all these texts are on the screen."""
        return self.until(lambda: all(text in self.text for text in wanted), f"{wanted} never appeared")

    def until(self, there: Callable[[], bool], failure: str) -> "Terminal":
        end = time.monotonic() + LIMIT_S
        while not there():
            assert time.monotonic() < end, f"{failure}:\n{self.text}"
            self._read()
        return self

    def drained(self) -> "Terminal":
        """Until it has written nothing for a moment."""
        end = time.monotonic() + LIMIT_S
        while self._read(quiet_s=0.15) == "data":
            assert time.monotonic() < end, f"it never stops writing:\n{self.text}"
        return self

    def ended(self) -> int:
        """Wait for the end; the exit code, or minus the signal."""
        self.until(lambda: not self.child.isalive(), "it did not end")
        for _ in range(50):
            if self._read() == "end":
                break
        return int(self.child.exitstatus if self.child.exitstatus is not None else -self.child.signalstatus)

    def signal(self, number: signal.Signals) -> "Terminal":
        self.child.kill(number)
        return self

    def _read(self, quiet_s: float = 0.05) -> str:
        """What came: ``data``, ``nothing``, or the ``end``."""
        try:
            data = self.child.read_nonblocking(65536, timeout=quiet_s)
        except pexpect.TIMEOUT:
            return "nothing"
        except pexpect.EOF:
            return "end"
        self.raw += data
        self._stream.feed(data)
        return "data"


class _Spawned(pexpect.spawn):  # type: ignore[misc]
    """A fork where one will do. The method is pexpect's own, and all that starts a program there."""

    def _spawnpty(self, args: list[str], **options: Any) -> Any:
        rows, columns = options["dimensions"]
        found = fork_server.open_terminal(args, options["env"], columns, rows)
        return ptyprocess.PtyProcess(*found) if found else super()._spawnpty(args, **options)


@contextmanager
def terminal(
    *arguments: str, columns: int = 100, rows: int = 30, environ: Mapping[str, str] | None = None
) -> Iterator[Terminal]:
    """This Python with these arguments, killed at the end of the block if it still runs."""
    with run_in_terminal(sys.executable, *arguments, columns=columns, rows=rows, environ=environ) as shown:
        yield shown


@contextmanager
def run_in_terminal(
    program: str, *arguments: str, columns: int = 100, rows: int = 30, environ: Mapping[str, str] | None = None
) -> Iterator[Terminal]:
    """The same with any program."""
    known = {"PATH": os.environ["PATH"], "HOME": "/nowhere", "LANG": "C.UTF-8", "TZ": "UTC"}
    known |= {"TERM": "xterm-256color", "COLORTERM": "truecolor", **(environ or {})}
    child = _Spawned(
        program, list(arguments), cwd=str(ROOT), env=known, dimensions=(rows, columns), timeout=5, use_poll=True
    )
    try:
        yield Terminal(child, columns, rows)
    finally:
        with suppress(OSError, pexpect.ExceptionPexpect):
            child.close(force=True)
