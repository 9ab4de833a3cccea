"""What bash inserts is what was meant: after a colon, with blanks, inside quotation marks."""

import asyncio
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest
from click.shell_completion import CompletionItem
from msgspec.structs import replace

from gateway.commands.base import Command
from gateway.commands.completion import (
    CHANNELS,
    GROUPS,
    MODELS,
    TOKENS,
    BashComplete,
    Completer,
    comma_separated,
    name_completer,
)
from gateway.domain.errors import Unavailable
from tests import fork_server
from tests.commands.program import PATIENCE_S, PROGRAM, Served, environment, read_until, tollkeeper
from tests.commands.runner import Control, run
from tests.commands.samples import CHANNEL, GROUP, MODEL, TOKEN
from tests.house import ROOT

BREAKS = " \t\n\"'@><=;|&(:"


@pytest.mark.parametrize(
    ("text", "value", "inserted"),
    [
        ("tk set qwen3:", "qwen3:8b", "8b"),
        ("tk chat --model qwen3:8", "qwen3:8b", "8b"),
        ("tk chat --model=qw", "qwen3:8b", "qwen3:8b"),
        ("tk chat --model=qwen3:", "qwen3:8b", "8b"),
        ("tk show wei", "weird name", "weird\\ name"),
        ('tk show "wei', "we$ird name", "we\\$ird name"),
        ("tk show 'it", "it's", "it'\\''s"),
        ("tk show ", "$(x);y", "\\$\\(x\\)\\;y"),
        ("tk show 日", "日本", "日本"),
        ("tk chat --mo", "--model", "--model"),
        ("tk edit --group default,fr", "default,friends", "default,friends"),
    ],
)
def test_inserted_text_is_escaped(text: str, value: str, inserted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMP_LINE", text)
    monkeypatch.setenv("COMP_WORDBREAKS", BREAKS)
    shell = BashComplete(click.Command("tk"), {}, "tk", "_TK_COMPLETE")
    assert shell.format_completion(CompletionItem(value)) == f"plain,{inserted}"


@pytest.fixture(scope="module")
def named(served: Served) -> Served:
    """A server with names that are hard to type."""
    tollkeeper(served.home, "channel", "add", "hard", "--dialect", "mock", "--models", "qwen3:8b")
    tollkeeper(served.home, "token", "add", "weird name")
    tollkeeper(served.home, "group", "add", "friends")
    return served


@pytest.mark.skipif(not shutil.which("bash"), reason="there is no bash here")
@pytest.mark.parametrize(
    ("typed", "args"),
    [
        ("price set qwen3:\t", "<price><set><qwen3:8b>"),
        ("chat --model=qwen3:\t", "<chat><--model=qwen3:8b>"),
        ("token show wei\t", "<token><show><weird name>"),
        ('token show "wei\t', "<token><show><weird name>"),
        ("doctor --token wei\t", "<doctor><--token><weird name>"),
        ("token add x --group fr\t", "<token><add><x><--group><friends>"),
        ("channel edit hard --group default,fr\t", "<channel><edit><hard><--group><default,friends>"),
        ("channel add x --preset openr\t", "<channel><add><x><--preset><openrouter>"),
        ("channel ed\t", "<channel><edit>"),
    ],
)
def test_a_real_bash_completes(typed: str, args: str, named: Served, tmp_path: Path) -> None:
    program = tmp_path / "tollkeeper"
    (tmp_path / "completion").write_text(run("completion", "bash").out)
    program.write_text(
        "#!/bin/sh\n"
        f'[ -n "$_TOLLKEEPER_COMPLETE" ] && exec {" ".join(PROGRAM)} "$@"\n'
        "printf 'got:'; printf '<%s>' \"$@\"; echo ' end'\n"
    )
    program.chmod(0o700)
    said = _typed(
        [f'. "{tmp_path}/completion"', f"tollkeeper {typed}"],
        environment(named.home) | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PS1": "", "TERM": "dumb"},
    )
    assert f"got:{args} end" in said


def _typed(lines: list[str], env: dict[str, str]) -> str:
    """What a terminal with a bash shows after these lines."""
    ours, theirs = pytest.importorskip("pty").openpty()
    shell = ["bash", "--norc", "--noprofile", "-i"]
    with subprocess.Popen(shell, env=env, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True) as bash:
        said = b""
        for number, line in enumerate(lines):
            os.write(ours, line.encode())
            said += read_until(ours, b"") if line.endswith("\t") else b""
            os.write(ours, f"\necho done-{number}-$((6*7))\n".encode())
            said += read_until(ours, f"done-{number}-42".encode())
        os.write(ours, b"exit\n")
        bash.wait(PATIENCE_S)
    os.close(ours)
    os.close(theirs)
    return said.decode(errors="replace")


ANSWERS = {"GET /tokens": [TOKEN], "GET /groups": [GROUP], "GET /channels": [CHANNEL], "GET /models": [MODEL]}
PARAM = click.Argument(["ref"])


def completed(completer: Completer, incomplete: str, control: Control) -> list[str]:
    return completer(click.Context(Command("x"), obj=control.reach), PARAM, incomplete)


@pytest.mark.parametrize(
    ("completer", "begin", "name"),
    [(TOKENS, "la", "laptop"), (GROUPS, "", "default"), (CHANNELS, "open", "openai"), (MODELS, "gpt-", "gpt-4o")],
)
def test_names_are_those_of_the_running_server(completer: Completer, begin: str, name: str) -> None:
    assert completed(completer, begin, Control(ANSWERS)) == [name]
    assert completed(completer, "zzz", Control(ANSWERS)) == []


def test_the_last_of_several_names_is_completed() -> None:
    two = Control({"GET /groups": [GROUP, replace(GROUP, name="friends")]})
    assert completed(comma_separated(GROUPS), "fr", two) == ["friends"]
    assert completed(comma_separated(GROUPS), "friends,", two) == ["friends,default"]
    assert completed(comma_separated(GROUPS), "x,fr", two) == ["x,friends"]


def test_nothing_is_shown_when_no_question_is_possible() -> None:
    assert completed(TOKENS, "", Control(ANSWERS, running=False)) == []
    assert completed(TOKENS, "", Control({"GET /tokens": Unavailable("gone")})) == []


def test_a_server_that_hangs_delays_the_shell_for_a_second_only() -> None:
    began = time.monotonic()
    assert completed(name_completer(lambda _: asyncio.sleep(60, [])), "", Control({})) == []
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_script(shell: str) -> None:
    ran = run("completion", shell)
    assert (ran.code, "_TOLLKEEPER_COMPLETE" in ran.out) == (0, True)


def test_in_zsh_completion_is_switched_on_where_it_is_not() -> None:
    script = run("completion", "zsh").out
    assert script.startswith("#compdef tollkeeper\n"), "zsh reads the first line of a file in its fpath"
    assert script.index("compinit") < script.index("compdef _tollkeeper_completion tollkeeper")


def test_in_fish_a_value_may_hold_commas() -> None:
    assert 'string split --max 1 "," $completion' in run("completion", "fish").out


@pytest.mark.parametrize(
    ("words", "wanted"),
    [("tollkeeper to", {"token"}), ("tollkeeper token ro", {"rotate"}), ("tollkeeper usage list --er", {"--errors"})],
)
def test_a_shells_words_are_completed(words: str, wanted: set[str]) -> None:
    asked = {"COMP_LINE": words, "COMP_WORDBREAKS": " :=", "_TOLLKEEPER_COMPLETE": "bash_complete"}
    env = {**os.environ, **asked}
    program = [sys.executable, "cli.py"]
    answer = fork_server.run(program, env=env, cwd=ROOT, timeout=PATIENCE_S)
    assert {line.partition(",")[2] for line in answer.stdout.splitlines()} == wanted
