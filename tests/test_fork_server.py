"""A fork is as good as an ordinary start: its environment, streams, signals, exit code, files and terminal."""

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import fork_server
from tests.house import FULL, ROOT

pytestmark = pytest.mark.skipif(FULL or sys.platform != "linux", reason="nothing is forked")

TELL = "import os, sys; print(os.getppid(), os.getcwd(), dict(os.environ), sys.argv[1:], sys.stdin.read())"


def python(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", code, *arguments]


def test_it_has_its_own_folder_environment_arguments_and_stdin_and_is_a_child(tmp_path: Path) -> None:
    ran = fork_server.run(python(TELL, "a", "b c"), cwd=tmp_path, env={"NAME": "value"}, input="typed", timeout=90)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == f"{os.getpid()} {tmp_path} {{'NAME': 'value'}} ['a', 'b c'] typed\n"


@pytest.mark.parametrize(("code", "status"), [("", 0), ("raise SystemExit(7)", 7), ("1 / 0", 1)])
def test_its_exit_code_is_that_of_the_program(code: str, status: int) -> None:
    ran = fork_server.run(python(code), timeout=90)
    assert (ran.returncode, "ZeroDivisionError" in ran.stderr) == (status, status == 1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_signals_reach_it(number: signal.Signals) -> None:
    # In one long wait Python would not look for a signal that came just before it began.
    waits = "import time; print('ready', flush=True)\nwhile True: time.sleep(0.05)"
    pipe = subprocess.PIPE
    with fork_server.start(python(waits), stdout=pipe, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        assert process.wait(20) == -number


def test_it_holds_no_files_of_others() -> None:
    code = (
        "import os; print(sorted(int(n) for n in os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{n}')))"
    )
    assert fork_server.run(python(code), timeout=90).stdout == "[0, 1, 2]\n"


def test_warnings_are_errors_if_asked_for() -> None:
    code = "import warnings; warnings.warn('odd')"
    assert fork_server.run(python(code), timeout=90).returncode == 0
    assert fork_server.run([sys.executable, "-W", "error", *python(code)[1:]], timeout=90).returncode == 1


def test_a_terminal_controls_its_session() -> None:
    code = "import os; print(os.getsid(0) == os.getpid(), os.tcgetpgrp(0) == os.getpid(), os.get_terminal_size())"
    found = fork_server.open_terminal(python(code), os.environ, 70, 20)
    assert found is not None
    pid, ours = found
    said = b""
    while b"\n" not in said:
        said += os.read(ours, 1000)
    os.close(ours)
    os.waitpid(pid, 0)
    assert said == b"True True os.terminal_size(columns=70, lines=20)\r\n"


def test_output_into_a_terminal_is_line_by_line() -> None:
    ours, theirs = pty.openpty()
    code = "import sys; print('one'); sys.stdin.read()"
    with fork_server.start(python(code), stdin=subprocess.PIPE, stdout=theirs) as process:
        os.close(theirs)
        said = os.read(ours, 100)
        said += b"" if b"\n" in said else os.read(ours, 100)  # a terminal may pass a line on in two pieces
        assert said == b"one\r\n"
        process.communicate(timeout=90)
    os.close(ours)


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (["sh", "-c", "true"], {}),
        ([sys.executable, "other.py"], {}),
        (python(""), {"preexec_fn": os.setsid}),
        (python(""), {"env": {"PYTHONUTF8": "0"}}),
        (python(""), {"env": {"LC_ALL": "de_DE.ISO-8859-1"}}),
    ],
)
def test_what_concerns_the_start_of_python_is_an_ordinary_start(words: list[str], options: dict[str, object]) -> None:
    assert not fork_server.may_fork(words, options)
    assert fork_server.may_fork([sys.executable, str(ROOT / "cli.py"), "serve"], {"env": {"LANG": "C.UTF-8"}})
