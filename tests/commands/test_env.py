"""The lines for SDKs and for programs."""

import shlex
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pytest

from gateway.commands import env
from gateway.commands.exit_codes import Exit
from gateway.domain.errors import NotFound
from gateway.domain.views import CallPage
from tests.commands.runner import Control, run
from tests.commands.samples import HOSTILE, MODEL, STATUS, TOKEN

CONTROL = {"GET /status": STATUS, "GET /tokens/laptop": TOKEN}
KEY = "sk-tk-" + "a" * 43
OWN_KEY = "sk-tk-abcd" + "a" * 35 + "wxyz"
OTHER = msgspec.structs.replace(TOKEN, id="tok_2", name="other", hint="sk-tk-zzzz…zzzz")
APPS = {**CONTROL, "GET /tokens": [TOKEN], "GET /models": [MODEL], "GET /calls": CallPage(calls=[])}


@pytest.mark.parametrize(
    ("shell", "line"),
    [
        ("bash", f"export OPENAI_API_KEY='{KEY}'"),
        ("zsh", f"export OPENAI_API_KEY='{KEY}'"),
        ("fish", f"set -gx OPENAI_API_KEY '{KEY}'"),
        ("powershell", f"$env:OPENAI_API_KEY = '{KEY}'"),
    ],
)
def test_the_lines_of_each_shell(shell: str, line: str) -> None:
    ran = run("env", "--shell", shell, "--key", KEY, answers=CONTROL)
    assert line in ran.out.splitlines()
    assert "http://127.0.0.1:8655/v1" in ran.out
    assert ran.err == ""


@pytest.mark.parametrize(
    ("host", "url"),
    [("0.0.0.0", "http://127.0.0.1:8655/v1"), ("::", "http://[::1]:8655/v1"), ("10.0.0.7", "http://10.0.0.7:8655/v1")],
)
def test_a_server_that_will_listen_everywhere_is_reached_on_this_machine(tmp_path: Path, host: str, url: str) -> None:
    (tmp_path / "config.json").touch()
    unopened = {"GET /status": msgspec.structs.replace(STATUS, address="")}
    ran = run("env", "--shell", "sh", answers=unopened, env={"TOLLKEEPER_HOME": str(tmp_path), "TOLLKEEPER_HOST": host})
    assert ran.out.splitlines()[0] == f"export OPENAI_BASE_URL='{url}'"


def test_a_key_that_is_not_known_is_a_comment_to_complete(tmp_path: Path) -> None:
    (tmp_path / "config.json").touch()
    ran = run("env", "--shell", "sh", answers=CONTROL, env={"TOLLKEEPER_HOME": str(tmp_path)})
    assert ran.out.splitlines() == [
        "export OPENAI_BASE_URL='http://127.0.0.1:8655/v1'",
        "# export OPENAI_API_KEY='sk-tk-...'",
    ]
    assert "tollkeeper token rotate" in ran.err


def test_without_data_there_is_no_key_that_was_shown(tmp_path: Path) -> None:
    ran = run("env", control=Control({}, running=False), env={"TOLLKEEPER_HOME": str(tmp_path / "none")})
    assert (ran.code, "tollkeeper serve" in ran.err, "rotate" in ran.err) == (0, True, False)


def test_the_token_shows_which_key_it_was() -> None:
    assert TOKEN.hint in run("env", "--token", "laptop", answers=CONTROL).err
    missing = run("env", "--token", "laptop", answers={"GET /tokens/laptop": NotFound("no token 'laptop'")})
    assert (missing.code, missing.out) == (Exit.NOT_FOUND, "")


def test_the_key_may_come_from_stdin_or_the_environment() -> None:
    assert KEY in run("env", "--key", "-", answers=CONTROL, stdin=f"{KEY}\n").out
    assert KEY in run("env", answers=CONTROL, env={"TOLLKEEPER_TOKEN": KEY}).out


@pytest.mark.parametrize("more", [[], ["--for", "aider"]])
def test_the_key_in_the_environment_is_left_out_if_it_is_that_of_another_token(more: list[str]) -> None:
    for key, there in ((KEY, False), (OWN_KEY, True)):
        ran = run("env", "--token", "laptop", *more, answers=APPS, env={"OPENAI_API_KEY": key})
        assert (ran.code, key in ran.out) == (0, there), ran.out
        assert ("token rotate laptop" in ran.err) is not there


def test_a_key_that_is_given_must_be_that_of_the_token() -> None:
    ran = run("env", "--token", "laptop", "--key", "-", answers=APPS, stdin=f"{KEY}\n")
    assert (ran.code, KEY in ran.out) == (Exit.TOKEN, False)
    assert f"the key does not belong to token 'laptop', whose key is {TOKEN.hint}" in ran.err
    assert f"nothing was printed for this key; save it now: {KEY}" in ran.err


def test_without_a_server_it_is_the_address_it_would_have() -> None:
    ran = run("env", control=Control({}, running=False), env={"TOLLKEEPER_PORT": "8700", "TOLLKEEPER_HOST": "::1"})
    assert "http://[::1]:8700/v1" in ran.out


def test_a_program_gets_all_it_needs_with_the_models_that_the_token_sees() -> None:
    ran = run("env", "--for", "codex", "--key", OWN_KEY, "--shell", "sh", answers=APPS)
    file, _, line = ran.out.rstrip().rpartition("\n")
    assert tomllib.loads(file)["model"] == MODEL.name
    assert line == f"export TOLLKEEPER_TOKEN='{OWN_KEY}'"
    assert ran.err.startswith("\N{RIGHTWARDS ARROW} ~/.codex/config.toml")
    assert {"GET /models?token=tok_1", "GET /calls?token=tok_1&limit=20"} <= {asked for asked, _ in ran.asked}


def test_a_key_selects_the_models_of_its_token() -> None:
    control = Control({**APPS, "GET /tokens": [OTHER, TOKEN]})
    assert run("env", "--for", "aider", "--key", OWN_KEY, control=control).code == 0
    assert "GET /models?token=tok_1" in [asked for asked, _ in control.asked]
    ran = run("env", "--for", "aider", "--key", KEY, control=control)
    assert (ran.code, ran.out) == (Exit.TOKEN, "")


@pytest.mark.parametrize(("name", "taken"), [("other", "tok_1"), ("aider", "tok_2")])
def test_the_token_named_like_the_app_is_used_else_the_one_used_last(name: str, taken: str) -> None:
    unused = msgspec.structs.replace(OTHER, name=name, last_used_ms=None)
    control = Control({**APPS, "GET /tokens": [unused, TOKEN]})
    assert run("env", "--for", "aider", control=control).code == 0
    assert [asked for asked, _ in control.asked if "models" in asked] == [f"GET /models?token={taken}"]


def test_the_named_token_is_used_even_if_another_one_was_used_last() -> None:
    unused = msgspec.structs.replace(OTHER, last_used_ms=None)
    control = Control({**APPS, "GET /tokens": [unused, TOKEN], "GET /tokens/other": unused})
    assert run("env", "--for", "aider", "--token", "other", control=control).code == 0
    assert [asked for asked, _ in control.asked if "models" in asked] == ["GET /models?token=tok_2"]


def test_a_key_from_a_pipe_that_no_part_has_is_not_lost() -> None:
    line = ("env", "--for", "codex", "--shell", "sh", "--key")
    ran = run(*line, "-", "--only", "file", answers=APPS, stdin=OWN_KEY)
    assert OWN_KEY not in ran.out
    assert ran.err.endswith(f"the printed settings do not contain the key; save it now: {OWN_KEY}\n")
    for known in ((*line, OWN_KEY, "--only", "file"), (*line, "-"), (*line, "-", "--only", "variables")):
        assert "save it now" not in run(*known, answers=APPS, stdin=OWN_KEY).err


@pytest.mark.parametrize("more", [("--for", "emacs"), ("--for", "codex", "--model", "gpt-9"), ("--only", "file")])
def test_a_key_from_a_pipe_is_not_lost_when_nothing_can_be_printed(more: Sequence[str]) -> None:
    ran = run("env", *more, "--key", "-", answers=APPS, stdin=OWN_KEY)
    assert (ran.code != 0, ran.out) == (True, "")
    assert f"nothing was printed for this key; save it now: {OWN_KEY}\n" in ran.err
    assert OWN_KEY not in run("env", *more, "--key", OWN_KEY, answers=APPS).err


NAMED = {**APPS, "GET /tokens": [msgspec.structs.replace(TOKEN, name="claude")]}


@pytest.mark.parametrize(
    ("line", "answers", "code", "out", "err"),
    [
        (f"--key {KEY}", APPS, Exit.OK, "set -gx ", ""),  # the user's shell
        (
            "--for claude --shell sh",
            APPS,
            Exit.OK,
            "export ANTHROPIC_AUTH_TOKEN='sk-tk-...'",
            "add claude | tollkeeper env",
        ),
        ("--for claude --shell sh", NAMED, Exit.OK, "", "rotate claude | tollkeeper env --for claude --key -"),
        (
            "--for llm --token laptop",
            APPS,
            Exit.OK,
            "llm keys set tollkeeper",
            "\nthe key is not stored; for a new one: ",
        ),
        ("--for llm --token laptop", APPS, Exit.OK, "", ": tollkeeper token rotate laptop\n"),
        (f"--for claude --model {MODEL.name}", APPS, Exit.OK, f"MODEL '{MODEL.name}'", ""),
        ("--for claude --model gpt-9", APPS, Exit.NOT_FOUND, "", f"it sees: {MODEL.name}"),
        ("--for claud", APPS, Exit.NOT_FOUND, "", "unknown app 'claud'. Did you mean 'claude'?"),
        ("--for qwenn", APPS, Exit.NOT_FOUND, "", "Did you mean 'qwen-code'?"),
        ("--for emacs", APPS, Exit.NOT_FOUND, "", "the apps are: claude, codex"),
    ],
)
def test_env_is_printed(line: str, answers: Mapping[str, object], code: Exit, out: str, err: str) -> None:
    ran = run("env", *shlex.split(line), answers=answers, env={"SHELL": "/usr/bin/fish"})
    assert (ran.code, out in ran.out, err in ran.err) == (code, True, True), ran.out + ran.err


@pytest.mark.parametrize("app", ["llm", "codex"])
def test_a_file_that_needs_no_key_says_nothing_of_one(app: str) -> None:
    ran = run("env", "--for", app, "--only", "file", answers=APPS)
    assert ("sk-tk-" in ran.out, "key" in ran.err) == (False, False)


def test_the_variables_or_the_file_alone() -> None:
    variables = run("env", "--for", "aider", "--only", "variables", "--shell", "sh", answers=APPS).out
    assert [line.partition("=")[0] for line in variables.splitlines()] == [
        "export AIDER_OPENAI_API_BASE",
        "export AIDER_OPENAI_API_KEY",
        "export AIDER_MODEL",
    ]
    file = run("env", "--for", "codex", "--only", "file", answers=APPS).out
    assert tomllib.loads(file)["model_provider"] == "tollkeeper"
    none = run("env", "--for", "cursor", "--only", "variables", answers=APPS)
    assert (none.code, none.out) == (Exit.USAGE, "")


@pytest.mark.parametrize("app", ["openai", "anthropic", "curl", "aider", "claude"])
def test_a_shell_can_evaluate_what_is_printed_into_a_pipe(app: str) -> None:
    printed = run("env", "--for", app, "--key", OWN_KEY, "--shell", "sh", answers=APPS).out
    lines = printed.splitlines()
    exports = [line for line in lines if line.startswith("export ")]
    assert len(exports) < len(lines)
    assert all(line.startswith("#") for line in lines if line not in exports)


def test_a_terminal_gets_what_can_be_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(env, "is_terminal", lambda: True)
    printed = run("env", "--for", "openai", "--shell", "sh", answers=APPS).out
    assert "\nfrom openai import OpenAI\n" in printed


def test_as_json_each_part_stands_by_itself() -> None:
    parts = run("env", "--for", "zed", "--json", "--key", OWN_KEY, answers=APPS).json
    assert [part["where"].split()[0] for part in parts] == ["~/.config/zed/settings.json", "the", "or,"]
    assert parts[1]["text"] == OWN_KEY


def test_the_variables_as_json() -> None:
    found = run("env", "--json", "--key", OWN_KEY, answers=APPS).json
    assert found == {"OPENAI_BASE_URL": STATUS.address, "OPENAI_API_KEY": OWN_KEY}


def test_what_belongs_to_a_program_needs_one() -> None:
    control = Control(APPS)
    for more in (("--only", "file"), ("--model", "gpt-4o")):
        ran = run("env", *more, "--token", "laptop", "--key", "-", control=control, stdin=OWN_KEY)
        assert (ran.code, control.asked) == (Exit.USAGE, [])


@pytest.mark.parametrize("app", ["aider", "claude", "codex", "llm", "pydantic-ai"])
def test_a_model_with_a_hostile_name_is_printed_harmless(app: str) -> None:
    hostile = msgspec.structs.replace(MODEL, name=HOSTILE)
    ran = run("env", "--for", app, "--shell", "sh", answers={**APPS, "GET /models": [hostile]})
    assert ran.code == 0
    assert not [char for char in ran.out if not char.isprintable() and char != "\n"]
