"""The console as its owner uses it: an empty home, a channel, a token, an SDK's call, its cost, one cut off, goodbye.

The upstream is another gateway with its built-in demo channel.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import fork_server
from tests.commands.program import serving
from tests.house import ROOT
from tests.tui.terminal import Terminal, terminal
from tests.tui.test_in_a_terminal import ALTERNATE_SCREEN, restored

KEY = re.compile(r"sk-tk-[0-9A-Za-z]{43}")
ADDRESS = re.compile(r"http://127\.0\.0\.1:[0-9]+/v1")
PATIENCE_S = 90

SDK = """
import openai, sys
model, stream = sys.argv[1], sys.argv[2] == "stream"
with openai.OpenAI(max_retries=0) as client:
    asked = [{"role": "user", "content": "Tell me a long story about a bridge !speed=3"}]
    answer = client.chat.completions.create(model=model, messages=asked, stream=stream)
    if not stream:
        print("said", answer.choices[0].message.content)
    else:
        try:
            print("finished", [chunk.choices[0].finish_reason for chunk in answer if chunk.choices][-1])
        except openai.APIError as error:
            print("cut", error)
"""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals of Unix")


@contextmanager
def console(home: Path) -> Iterator[Terminal]:
    """The bare command on this home; the server that it started is stopped at the end."""
    environ = {"TOLLKEEPER_PORT": "0", "HOME": str(home)}
    try:
        with terminal("cli.py", "--home", str(home / "gateway"), columns=110, rows=36, environ=environ) as shown:
            yield shown
    finally:
        command(home, "stop", "--now")


def command(home: Path, *arguments: str) -> str:
    """What a command on the same home prints."""
    words = [sys.executable, fork_server.CLI, *arguments, "--home", str(home / "gateway")]
    run = fork_server.run(words, cwd=ROOT, timeout=PATIENCE_S)
    return f"{run.stdout}{run.stderr}"


def sdk(address: str, key: str, model: str, how: str) -> "subprocess.Popen[str]":
    environ = os.environ | {"OPENAI_BASE_URL": address, "OPENAI_API_KEY": key}
    return subprocess.Popen([sys.executable, "-c", SDK, model, how], env=environ, stdout=subprocess.PIPE, text=True)


def first_steps(shown: Terminal, url: str, key: str) -> tuple[str, str]:
    """Through the wizard, with a channel of one's own; the address and the new token's key."""
    shown.wait("1 of 4").keys("\r").wait("2 of 4").keys("\x1b[D").wait("another address")
    shown.keys("\t" + url + "\t" + key + "\tfriend\r").wait("3 of 4", "friend", "demo-story").keys("\r")
    shown.wait("4 of 4").keys("\r").wait("key is shown only this once", "200 · finished (stop)")
    found = KEY.findall(shown.text.replace("\n", " "))
    return ADDRESS.findall(shown.text)[0], found[0]


@pytest.mark.slow
@pytest.mark.long
def test_from_an_empty_home_to_goodbye(tmp_path: Path) -> None:
    with serving(tmp_path / "friend", "serve") as friend, console(tmp_path) as shown:
        address, key = first_steps(shown, friend.address, friend.key)
        shown.keys("\x1b").wait("following", "friend")

        plain = sdk(address, key, "demo-echo", "plain")
        assert plain.communicate(timeout=PATIENCE_S)[0].startswith("said")
        shown.keys("g").wait("2 calls", "✓200", "running 0")
        cost = re.search(r"\$0\.[0-9]+", shown.screen.display[4])
        assert cost is not None, shown.text
        assert cost[0] != "$0.00"

        stream = sdk(address, key, "demo-story", "stream")
        shown.wait("running 1", "▸").keys("x").wait("End the call to demo-story").keys("y").wait("running 0")
        assert stream.communicate(timeout=PATIENCE_S)[0].split()[0] in ("cut", "finished")
        shown.keys("\r").wait("cancelled", "tokens", "balance")

        shown.keys("q")
        assert shown.ended() == 0
        assert restored(shown)
        assert b"console closed; still serving " + address.encode() in shown.raw
        assert key.encode() not in shown.raw[shown.raw.rindex(b"\x1b[?1049l") :]


@pytest.mark.slow
def test_it_comes_back_when_its_server_is_killed_and_started_again(tmp_path: Path) -> None:
    with console(tmp_path) as shown:
        shown.wait("1 of 4").keys("\x1b").wait("No calls yet")
        pid = re.search(r'"pid":([0-9]+)', (tmp_path / "gateway" / "run.json").read_text())
        assert pid is not None
        os.kill(int(pid[1]), 9)
        shown.wait("no server", "r starts one").keys("r").wait("running 0")
        shown.until(lambda: "no server" not in shown.text, "it stayed gone")
        shown.keys("Q").wait("Stop the server?").keys("y")
        assert shown.ended() == 0
        assert b"tollkeeper: server stopped" in shown.raw
        assert not (tmp_path / "gateway" / "run.json").exists()


@pytest.mark.slow
def test_two_consoles_show_the_same_server_and_leaving_one_changes_nothing(tmp_path: Path) -> None:
    with console(tmp_path) as one:
        one.wait("1 of 4").keys("\x1b").wait("No calls yet")
        with terminal("cli.py", "--home", str(tmp_path / "gateway"), columns=110, rows=36) as two:
            two.wait("http://127.0.0.1:")
            assert ALTERNATE_SCREEN in two.raw
            assert "5" in command(tmp_path, "account", "grant", "5")
            two.child.close(force=True)
        one.keys("6").wait("$15")
        one.keys("Q").wait("Stop the server?").keys("y")
        assert one.ended() == 0


def test_a_terminal_that_cannot_draw_gets_lines_of_a_server_there_and_then_of_one_that_runs(tmp_path: Path) -> None:
    environ = {"TOLLKEEPER_PORT": "0", "HOME": str(tmp_path), "TERM": "dumb"}
    words = ("cli.py", "--home", str(tmp_path / "gateway"))
    with terminal(*words, columns=110, rows=36, environ=environ) as first:
        first.wait("OPENAI_API_KEY")
        with terminal(*words, columns=110, rows=36, environ=environ) as second:
            second.wait("each call is a line when it ends; Ctrl-C leaves the server running")
            assert "demo-story" in command(tmp_path, "chat", "--model", "demo-story", "hello")
            for one in (first, second):
                one.wait("demo-story")
                assert ALTERNATE_SCREEN not in one.raw
            second.keys("\x03")
            second.ended()
        assert "serving" in command(tmp_path, "status")
        first.keys("\x03")
        first.ended()
