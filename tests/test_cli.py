"""The root of the command line: fast and helpful."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest

import cli
from gateway import __version__
from gateway.commands.exit_codes import MEANINGS, Exit
from tests.commands.program import PROGRAM, environment, serving, tollkeeper
from tests.commands.runner import Control, run
from tests.commands.samples import STATUS, TOKEN
from tests.house import ROOT


def test_the_version() -> None:
    assert run("--version").out == f"tollkeeper {__version__}\n"


def test_the_help_names_every_command_and_exit_code() -> None:
    text = run("--help").out
    for word in [*cli.COMMANDS, *(str(int(code)) for code in MEANINGS)]:
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
        "tollkeeper: No such command 'tokn'. Did you mean 'token'; see 'tollkeeper --help'\n",
    )


def test_a_noun_alone_shows_its_help() -> None:
    ran = run("token")
    assert (ran.code, "rotate" in ran.err) == (Exit.USAGE, True)


@pytest.mark.parametrize(
    "args",
    [("--home", "/a", "token", "list"), ("token", "--home", "/a", "list"), ("token", "list", "--home", "/a")],
)
def test_the_home_may_stand_anywhere(args: tuple[str, ...]) -> None:
    assert run(*args, control=Control({"GET /tokens": [TOKEN]})).code == 0


def test_the_bare_command_serves_where_there_is_no_terminal(home: Path) -> None:
    with serving(home) as server:
        assert tollkeeper(home, "status").code == 0
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(10) == 0


def test_a_tail_ends_quietly_when_nobody_reads_any_more(home: Path) -> None:
    with serving(home) as server:
        assert tollkeeper(home, "chat", "hi", "--model", "demo-echo").code == 0
        tail = [*PROGRAM, "usage", "tail"]
        reader, writer = os.pipe()
        os.close(reader)
        try:
            ran = subprocess.run(
                tail, env=environment(home), stdout=writer, stderr=subprocess.PIPE, timeout=30, check=False
            )
        finally:
            os.close(writer)
        assert (ran.returncode, ran.stderr) == (0, b"")
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
    monkeypatch.setattr("gateway.commands.server._print", lambda _view: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run("status", control=Control({"GET /status": STATUS}))


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
