"""The lines for SDKs."""

import pytest

from gateway.commands.exit_codes import Exit
from gateway.domain.errors import NotFound
from tests.commands.runner import Control, run
from tests.commands.samples import STATUS, TOKEN

CONTROL = {"GET /status": STATUS, "GET /tokens/laptop": TOKEN}
KEY = "sk-tk-" + "a" * 43


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
    ran = run("env", "--shell", shell, "--key", KEY, control=Control(CONTROL))
    assert line in ran.out.splitlines()
    assert "http://127.0.0.1:8655/v1" in ran.out
    assert ran.err == ""


def test_the_shell_is_the_users() -> None:
    ran = run("env", "--key", KEY, control=Control(CONTROL), env={"SHELL": "/usr/bin/fish"})
    assert ran.out.startswith("set -gx ")


def test_a_key_that_is_not_known_is_a_comment_to_complete() -> None:
    ran = run("env", "--shell", "sh", control=Control(CONTROL))
    assert ran.out.splitlines() == [
        "export OPENAI_BASE_URL='http://127.0.0.1:8655/v1'",
        "# export OPENAI_API_KEY='sk-tk-...'",
    ]
    assert "tollkeeper token rotate" in ran.err


def test_the_token_tells_which_key_it_was() -> None:
    assert TOKEN.hint in run("env", "--token", "laptop", control=Control(CONTROL)).err
    missing = run("env", "--token", "laptop", control=Control({"GET /tokens/laptop": NotFound("no token 'laptop'")}))
    assert missing.code == Exit.NOT_FOUND


def test_the_key_may_come_from_stdin_or_the_environment() -> None:
    assert KEY in run("env", "--key", "-", control=Control(CONTROL), stdin=f"{KEY}\n").out
    assert KEY in run("env", control=Control(CONTROL), env={"TOLLKEEPER_TOKEN": KEY}).out


def test_without_a_server_it_is_the_address_it_would_have() -> None:
    ran = run("env", control=Control({}, running=False), env={"TOLLKEEPER_PORT": "8700", "TOLLKEEPER_HOST": "::1"})
    assert "http://[::1]:8700/v1" in ran.out
