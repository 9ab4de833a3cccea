"""The root of the command line: fast and helpful."""

import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest

import cli
from gateway import __version__
from gateway.commands import base
from gateway.commands.base import Noun
from gateway.commands.exit_codes import Exit
from tests import fork_server
from tests.commands.program import PROGRAM, environment, serving, tollkeeper
from tests.commands.runner import Control, run
from tests.commands.samples import ACCOUNT, STATUS, TOKEN
from tests.house import ROOT
from tests.tui.terminal import terminal


def test_the_help_names_every_command_and_exit_code() -> None:
    text = run("--help").out
    for word in [*cli.COMMANDS, *(str(int(code)) for code in Exit)]:
        assert re.search(rf"^  {word} ", text, re.MULTILINE), word


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_is_found_where_the_table_says(name: str) -> None:
    with click.Context(cli.tollkeeper) as ctx:
        command = cli.tollkeeper.get_command(ctx, name)
    assert command is not None
    assert command.name == name


def test_a_misspelt_command_is_one_line_that_guesses() -> None:
    ran = run("tokn", "list")
    assert (ran.code, ran.err) == (
        Exit.USAGE,
        "tollkeeper: No such command 'tokn'. Did you mean 'token'? See 'tollkeeper --help'\n",
    )


@pytest.mark.parametrize("args", [("tokn",), ("undoo",), ("stpo",), ("token", "remov"), ("token", "add", "x", "--ye")])
def test_a_guess_is_never_a_command_that_destroys(args: tuple[str, ...]) -> None:
    assert not re.search(r"mean.*'(undo|stop|remove|--yes)'", run(*args).err)


def test_words_that_people_know_from_elsewhere_are_answered_with_ours() -> None:
    assert "Did you mean 'tollkeeper usage tail'? See" in run("logs").err
    with click.Context(cli.tollkeeper) as ctx:
        for meant in set(cli.SUGGESTIONS.values()) - {"tollkeeper"}:
            command: click.Command | None = cli.tollkeeper
            for word in re.sub(r" (--|CHANNEL).*", "", meant).split():
                assert isinstance(command, click.Group)
                command = command.get_command(ctx, word)
                assert command is not None, meant


@pytest.mark.parametrize(
    ("noun", "path", "answer"),
    [("token", "/tokens", [TOKEN]), ("tokens", "/tokens", [TOKEN]), ("account", "/account", ACCOUNT)],
)
def test_a_noun_alone_shows_its_list_or_its_state(noun: str, path: str, answer: object) -> None:
    answers = {"GET /account/grants": [], f"GET {path}": answer}
    ran = run(noun, answers=answers)
    assert (ran.code, ran.out != "") == (0, True)
    assert run(noun, "--json", answers=answers).json


def test_every_noun_has_something_to_show() -> None:
    with click.Context(cli.tollkeeper) as ctx:
        nouns = [command for name in cli.COMMANDS if isinstance(command := cli.tollkeeper.get_command(ctx, name), Noun)]
    assert [noun.name for noun in nouns if noun.bare not in noun.commands] == []


@pytest.mark.parametrize("typed", base.SUGGESTIONS)
def test_words_for_a_noun_are_answered_with_a_command_that_exists(typed: str) -> None:
    noun, word = typed.split()
    ran = run(*(("channel", noun) if noun == "key" else (noun,)), word)
    assert f"Did you mean 'tollkeeper {base.SUGGESTIONS[typed]}'? See" in ran.err
    words = re.sub(r" (--|CHANNEL|NAME|last).*", "", base.SUGGESTIONS[typed]).split()
    assert run(*words, "--help").code == 0


def test_a_name_instead_of_a_command_is_answered_with_the_one_that_shows_it() -> None:
    assert "Did you mean 'tollkeeper token show alice'? See" in run("token", "alice").err
    assert "Did you mean 'tollkeeper model show 'my model''? See" in run("model", "my model").err
    assert "Did you mean 'tollkeeper usage show req_1'? See" in run("usage", "req_1").err
    assert "Did you mean 'tollkeeper history show 3'? See" in run("history", "3").err
    assert "Did you mean 'edit'? See" in run("token", "edi").err
    for words in (
        ("token", "rotat"),
        ("account", "alice"),
        ("settings", "alice"),
        ("history", "alice"),
        ("token", "a", "b"),
    ):
        assert "Did you mean" not in run(*words).err


@pytest.mark.parametrize("words", [("version",), ("-V",), ("--version",)])
def test_the_version_in_every_spelling(words: tuple[str, ...]) -> None:
    assert run(*words).out == f"tollkeeper {__version__}\n"


@pytest.mark.parametrize(
    "words",
    [("help", "token", "add"), ("token", "help", "add"), ("token", "create", "--help"), ("help", "token", "new")],
)
def test_the_help_in_every_spelling(words: tuple[str, ...]) -> None:
    assert "  Create a token." in run(*words).out


def test_the_help_of_what_does_not_exist() -> None:
    ran = run("help", "token", "ad")
    assert (ran.code, "Did you mean 'add'?" in ran.err) == (Exit.USAGE, True)
    assert run("help").out == run("--help").out


@pytest.mark.parametrize("word", ["rm", "delete"])
def test_other_words_for_commands_of_a_noun(word: str) -> None:
    control = Control({"POST /batch": {"done": "removed price 'gpt-4o'"}})
    assert run("price", word, "gpt-4o", "--yes", control=control).code == 0
    assert [asked for asked, _ in control.asked] == ["POST /batch"]


def test_a_host_or_port_before_another_command_is_refused() -> None:
    ran = run("--port", "9000", "token", "list")
    assert (ran.code, "go with 'serve', 'env' or no command" in ran.err) == (Exit.USAGE, True)


@pytest.mark.parametrize(
    "line",
    ["--home /a token list", "token --home /a list", "token list --home /a", "token --home /a", "token --home=/a ls"],
)
def test_the_home_may_stand_anywhere(line: str) -> None:
    ran = run(*line.split(), answers={"GET /tokens": [TOKEN]})
    assert (ran.code, ran.out[:4]) == (0, "Name")


def test_the_bare_command_serves_at_the_port_given(home: Path, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with serving(home, "--port", str(port)) as server:
        assert f"running at http://127.0.0.1:{port}/v1" in server.greeting
    assert f"'http://127.0.0.1:{port}/v1'" in tollkeeper(home, "env").out
    assert "'http://127.0.0.1:7/v1'" in tollkeeper(home, "--port", "7", "env").out
    nowhere = tollkeeper(tmp_path / "none", "env")
    assert (nowhere.code, "'tollkeeper serve' prints it" in nowhere.err) == (Exit.UNREACHABLE, True)


def test_the_port_of_the_running_server_opens_its_console(home: Path) -> None:
    with serving(home, "--port", "0") as server:
        port = server.greeting.partition("127.0.0.1:")[2].partition("/")[0]
        with terminal("cli.py", "--home", str(home), "--port", port) as shown:
            shown.wait("following", "First steps")
            shown.keys("\x11")  # ctrl+q: from a dialog, too
            assert shown.ended() == 0
        elsewhere = tollkeeper(home, "--port", "7")
        assert (elsewhere.code, f"already serving at http://127.0.0.1:{port}/v1" in elsewhere.err) == (Exit.STORE, True)


def test_a_tail_ends_quietly_when_nobody_reads_any_more(home: Path) -> None:
    with serving(home) as server:
        assert tollkeeper(home, "chat", "hi", "--model", "demo-echo").code == 0
        tail = [*PROGRAM, "usage", "tail"]
        reader, writer = os.pipe()
        os.close(reader)
        try:
            ran = fork_server.run(tail, env=environment(home), stdout=writer, timeout=90)
        finally:
            os.close(writer)
        assert (ran.returncode, ran.stderr) == (0, "")
        assert server.process.poll() is None


def test_it_serves_with_all_streams_closed_and_makes_no_key_that_nobody_sees(home: Path) -> None:
    closed = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *PROGRAM]
    with subprocess.Popen(closed, env=environment(home)) as server:
        until = time.monotonic() + 20
        while tollkeeper(home, "status").code:
            assert time.monotonic() < until
        assert tollkeeper(home, "token", "list", "--json").json == []
        assert tollkeeper(home, "stop").code == 0
        assert server.wait(10) == 0


def test_a_bug_keeps_its_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.commands.server._print_status", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run("status", answers={"GET /status": STATUS})


@pytest.mark.bench
def test_the_version_costs_less_than_100_ms_over_python_itself() -> None:
    def best(*args: str) -> float:
        spans = []
        for _ in range(7):
            began = time.perf_counter()
            subprocess.run([sys.executable, *args], cwd=ROOT, env=os.environ, capture_output=True, check=True)
            spans.append(time.perf_counter() - began)
        return min(spans)

    bare = best("-c", "pass")
    for wanted in ("--version", "--help"):
        assert best(PROGRAM[1], wanted) - bare < 0.1


COLLECTED = """
import gc, runpy, sys
found = []
gc.callbacks.append(lambda phase, info: found.append(gc.get_freeze_count()) if "click" in sys.modules else None)
sys.argv = ["cli.py", "--version"]
try:
    runpy.run_path("cli.py", run_name="__main__")
finally:
    assert gc.isenabled()
    assert 0 not in found, f"{found.count(0)} while modules were loaded"
"""


def test_garbage_is_not_collected_while_modules_are_loaded() -> None:
    """That was a fifth of the time of the shortest commands."""
    subprocess.run([sys.executable, "-c", COLLECTED], check=True, cwd=ROOT)
