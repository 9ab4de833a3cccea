"""What comes on stdin means the same in every locale, and a secret that is typed is not seen."""

import os
import select
import subprocess
from pathlib import Path

import pytest

from gateway.commands.exit_codes import Exit
from tests import fork_server
from tests.commands.program import PATIENCE_S, PROGRAM, environment, tollkeeper
from tests.commands.runner import Control, run
from tests.commands.samples import CHANNEL

LATIN_1 = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "latin-1"}


def test_a_text_is_utf8_whatever_the_locale(home: Path) -> None:
    assert tollkeeper(home, "token", "add", "only").code == 0
    ran = subprocess.run(
        [*PROGRAM, "chat", "--model", "demo-echo"],
        env=environment(home) | LATIN_1, input="Straße".encode(), capture_output=True, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stdout) == (0, "Straße\n".encode("latin-1"))


@pytest.mark.parametrize("args", [("chat", "--model", "m"), ("channel", "key", "add", "x"), ("env", "--key", "-")])
def test_a_closed_stdin_is_an_empty_one(args: tuple[str, ...], home: Path) -> None:
    closed = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *PROGRAM, *args], env=environment(home), capture_output=True, check=False
    )
    assert (closed.returncode, closed.stderr.count(b"\n")) == (Exit.USAGE, 1)


def test_a_secret_that_is_not_text_is_left_to_its_check() -> None:
    control = Control({"POST /channels/x/keys": CHANNEL})
    run("channel", "key", "add", "x", control=control, stdin="\udcff\n".encode(errors="surrogateescape"))
    assert control.bodies == [{"key": "\ufffd"}]


def test_a_secret_is_prompted_for_and_not_echoed(home: Path) -> None:
    ours, theirs = pytest.importorskip("pty").openpty()
    args = ("channel", "add", "x", "--dialect", "mock", "--models", "m", "--key", "-")
    with fork_server.start(
        [*PROGRAM, *args], env=environment(home), stdin=theirs, stdout=subprocess.PIPE, stderr=theirs,
        start_new_session=True,
    ) as process:  # fmt: skip
        asked = _read_until(ours, b"key:")
        os.write(ours, b"sk-typed-secret-of-an-upstream\n")
        told = asked + _read_until(ours, b"channel test x")
        assert process.wait(PATIENCE_S) == 0
    assert b"sk-typed" not in told
    assert tollkeeper(home, "channel", "show", "x", "--json").json["key"] == "…ream"


def _read_until(terminal: int, wanted: bytes) -> bytes:
    found = b""
    while wanted not in found:
        assert select.select([terminal], [], [], PATIENCE_S)[0], found
        found += os.read(terminal, 4096)
    return found
