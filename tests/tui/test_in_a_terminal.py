"""The console in a real pseudo-terminal: what reaches it, what it does to it, and how it leaves it."""

import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.house import ROOT
from tests.tui.terminal import Terminal, run_in_terminal, terminal

ALTERNATE_SCREEN, NORMAL_SCREEN = b"\x1b[?1049h", b"\x1b[?1049l"
SHOW_CURSOR = b"\x1b[?25h"
MOUSE_OFF = b"\x1b[?1000l"
COLOUR = re.compile(rb"\x1b\[(?:[0-9;]*;)?(?:[349][0-7]|10[0-7]|[34]8;[25];[0-9;]*)(?:;[0-9;]*)?m")


@contextmanager
def console(home: Path, *what: str, rows: int = 30, environ: Mapping[str, str] | None = None) -> Iterator[Terminal]:
    with terminal("-m", "tests.tui.onstage", str(home), *what, rows=rows, environ=environ) as shown:
        yield shown


def restored(shown: Terminal) -> bool:
    """Whether the terminal is as it was: screen, cursor and mouse."""
    tail = bytes(shown.raw[shown.raw.rindex(ALTERNATE_SCREEN) :])
    return all(sequence in tail for sequence in (NORMAL_SCREEN, SHOW_CURSOR, MOUSE_OFF))


def test_at_80_by_24_columns_leave_and_meaning_stays(tmp_path: Path) -> None:
    with console(tmp_path) as shown:
        shown.wait("Channel", "Token")
        shown.resize(80, 24)
        wanted = {"Time", "Model", "St", "Dur", "First", "In", "Out", "Cost", "Token"}
        shown.until(lambda: set(shown.screen.display[3].split()) == wanted, "these are not the columns")
        shown.keys("q")
        assert shown.ended() == 0


def test_the_sorting_is_remembered(tmp_path: Path) -> None:
    with console(tmp_path) as shown:
        shown.wait("following").keys("s").wait("sorted").keys("q")
        assert shown.ended() == 0
    with console(tmp_path) as shown:
        shown.wait("sorted").keys("q")
        assert shown.ended() == 0


@pytest.mark.parametrize("environ", [{"NO_COLOR": "1"}, {"TERM": "linux", "COLORTERM": ""}])
def test_no_colour_means_none_and_few_colours_too(environ: dict[str, str], tmp_path: Path) -> None:
    with console(tmp_path, environ=environ) as shown:
        shown.wait("✓200", "Quit").keys("jjj\r").wait("tokens      in").keys("?").wait("Keys: Live").keys("q")
        shown.keys("q")
        assert shown.ended() == 0
        assert COLOUR.findall(bytes(shown.raw)) == []


def test_a_crash_restores_the_terminal_and_shows_no_values(tmp_path: Path) -> None:
    with console(tmp_path, "crash") as shown:
        assert shown.ended() == 1
        assert restored(shown)
        assert b"the console crashed (RuntimeError)" in shown.raw
        assert b"sk-tk-hidden" not in shown.raw
    assert "RuntimeError" in (tmp_path / "console-crash.log").read_text()


def test_sigterm_restores_the_terminal(tmp_path: Path) -> None:
    with console(tmp_path) as shown:
        shown.wait("following").signal(signal.SIGTERM)
        assert shown.ended() == 143
        assert restored(shown)


def test_ctrl_z_suspends_and_fg_brings_it_back(tmp_path: Path) -> None:
    with console(tmp_path) as shown:
        shown.wait("following").keys("\x1a")
        shown.until(lambda: NORMAL_SCREEN in shown.raw, "it kept the screen")
        shown.until(lambda: _state(shown.child.pid) == "T", "it was not stopped")
        del shown.raw[:]
        shown.signal(signal.SIGCONT)
        shown.until(lambda: ALTERNATE_SCREEN in shown.raw, "it did not come back").wait("following")
        shown.keys("q")
        assert shown.ended() == 0


def test_after_fg_in_a_shell_with_job_control_all_of_the_screen_is_drawn_again(tmp_path: Path) -> None:
    with run_in_terminal("bash", "--norc", "--noprofile", "-i", environ={"PS1": "shell$ "}) as shown:
        shown.wait("shell$").keys(f"{sys.executable} -m tests.tui.onstage {tmp_path}\r")
        everything = ("following  402 calls", "✓200", "1 Live", "running", "Quit")
        shown.wait(*everything).drained()
        shown.keys("\x1a").wait("Stopped", "shell$").keys("clear; fg\r")
        shown.wait(*everything).until(lambda: all(map(str.strip, shown.screen.display)), "a line was not drawn again")
        shown.keys("q").wait("console closed")


def test_it_ends_when_its_terminal_vanishes_although_sighup_is_ignored(tmp_path: Path) -> None:
    master, slave = pty.openpty()
    deaf = ["sh", "-c", "trap '' HUP; exec \"$@\"", "sh"]
    child = subprocess.Popen(
        [*deaf, sys.executable, "-m", "tests.tui.onstage", str(tmp_path)],
        cwd=ROOT,
        env=os.environ | {"TERM": "xterm-256color", "LANG": "C.UTF-8"},
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    try:
        seen, end = b"", time.monotonic() + 20
        while b"following" not in seen and time.monotonic() < end:
            seen += os.read(master, 65536)
        os.close(master)
        assert child.wait(20) == 129
    finally:
        child.kill()
        child.wait()


def test_the_mouse_works(tmp_path: Path) -> None:
    with console(tmp_path) as shown:
        shown.wait("following", "✓200")
        shown.keys("\x1b[<0;20;8M\x1b[<0;20;8m").wait("not following")
        shown.keys("\x1b[<0;28;2M\x1b[<0;28;2m").wait("Groups")
        shown.keys("q")
        assert shown.ended() == 0


def test_copying_speaks_osc_52(tmp_path: Path) -> None:
    with console(tmp_path) as shown:
        shown.wait("following", "✓200").keys("y").wait("Copied: req_")
        assert b"\x1b]52;c;" in shown.raw
        shown.keys("q")
        assert shown.ended() == 0


def _state(pid: int) -> str:
    """The state of a process as the system tells it: T is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
