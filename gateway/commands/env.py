"""``env``: the lines that point an SDK at this gateway."""

import os
from pathlib import Path

import click

from gateway.client.connect_card import KEY_VARIABLE, Shell, environment
from gateway.commands import stdin
from gateway.commands.base import Command
from gateway.commands.completion import TOKENS
from gateway.commands.exit_codes import Exit, Quit
from gateway.commands.output import out, words
from gateway.commands.session import config, run
from gateway.domain.text import plain, word
from gateway.domain.token import PREFIX

SHELLS: dict[str, Shell] = {"bash": "sh", "zsh": "sh", "sh": "sh", "fish": "fish", "powershell": "powershell"}


@click.command(
    cls=Command, examples=['eval "$(tollkeeper env --key sk-tk-...)"', "tollkeeper env --shell fish --token laptop"]
)
@click.option("--shell", type=click.Choice(list(SHELLS)), help="For which shell (default: that of SHELL).")
@click.option("--key", metavar="KEY", help="The token's key, to stand in the lines; - reads it from stdin.")
@click.option("--token", metavar="NAME", shell_complete=TOKENS, help="Whose key it is, if it is not given.")
def env(shell: str | None, key: str | None, token: str | None) -> None:
    """Print the lines that point an SDK at this gateway.

    A key is stored nowhere, so it cannot be looked up: give it, or its line is a comment to complete.
    """
    kind = SHELLS[shell] if shell else _own_shell()
    known = _key(key)
    for line in environment(_address(), known, kind).splitlines():
        out(f"# {line}" if KEY_VARIABLE in line and not known else line)
    if not known:
        words(_where_the_key_is(token))


def _own_shell() -> Shell:
    name = Path(os.environ.get("SHELL", "")).name
    return SHELLS.get(name, "powershell" if os.name == "nt" else "sh")


def _key(given: str | None) -> str:
    if given == "-":
        return stdin.secret("key", "without --key its line is a comment to complete")
    own = os.environ.get("TOLLKEEPER_TOKEN", "")
    return given or (own if own.startswith(PREFIX) else "")


def _address() -> str:
    """The running server's base URL, else the one it would have."""
    try:
        address = run(lambda client: client.status(), running=True).address
    except Quit as error:
        if error.exit_code is not Exit.UNREACHABLE:
            raise
        address = ""
    where = config()
    host = f"[{where.host}]" if ":" in where.host else where.host
    return address or f"http://{host}:{where.port}/v1"


def _where_the_key_is(token: str | None) -> str:
    if token is None:
        return "the key was shown when the token was made; for a new one: tollkeeper token rotate NAME"
    view = run(lambda client: client.token(token))
    return f"the key of '{plain(view.name)}' is {view.hint}; for a new one: tollkeeper token rotate {word(view.name)}"
