"""Completion: the command ``completion``, the names that a running server knows, and support for bash.

Bash replaces only a part of the word at the cursor: what follows the last character of ``COMP_WORDBREAKS`` in it, such
as a colon. It inserts our text as it is, so the text must be escaped for its place. Click's own support for bash does
not know these two rules, so we parse the line ourselves.
"""

import os
import re
import shlex
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import click
from click import shell_completion
from click.shell_completion import CompletionItem

from gateway.client.apps import APPS
from gateway.client.control import ControlClient
from gateway.commands.base import COMPLETE, Command
from gateway.commands.exit_codes import PROGRAM
from gateway.commands.output import out
from gateway.commands.session import run
from gateway.domain.errors import GatewayError
from gateway.domain.views import TokenView

BASH_SCRIPT = """\
%(complete_func)s() {
    local type value
    COMPREPLY=()
    while IFS=, read -r type value; do
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done < <(env COMP_LINE="${COMP_LINE:0:$COMP_POINT}" COMP_WORDBREAKS="$COMP_WORDBREAKS" \\
        %(complete_var)s=bash_complete "$1")
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""
"""Calls this program with the line up to the cursor. It prints candidates, or asks bash for names of files."""

CURSOR = "\0"
"""Marks the cursor at the end of a line while it is parsed, because the word there may be empty."""


class ShellLine(NamedTuple):
    """A line up to the cursor, as bash parses it."""

    words: list[str]
    """The complete words, without quotes."""
    word: str
    """The word at the cursor, without quotes."""
    fixed: str
    """The beginning of that word, which bash does not replace."""
    quote: str
    """The quotation mark that is open at the cursor; empty if none is."""

    def escape(self, text: str) -> str:
        """Returns the text as it must be typed at the cursor."""
        if self.quote == "'":
            return text.replace("'", "'\\''")  # closes the quotes, adds the mark, and opens them again
        special = r'(["$`\\])' if self.quote else r"([^\w@%+=:,./-])"
        return re.sub(special, r"\\\1", text)


def parse_line() -> ShellLine:
    """Returns the line that our script for bash passes on, parsed."""
    text, breaks = os.environ.get("COMP_LINE", ""), os.environ.get("COMP_WORDBREAKS", "")
    words = list[str]()
    for quote in ("", "'", '"'):
        with suppress(ValueError):  # another quotation mark is open at the cursor
            words = shlex.split(f"{text}{CURSOR}{quote}")
            break
    word = words.pop().removesuffix(CURSOR)
    is_quoted = quote != "" or not text.endswith(word)
    after_break = max((end for end, char in enumerate(word, start=1) if char in breaks), default=0)
    fixed = "" if is_quoted else word[:after_break]  # in quotes, a break has no effect
    return ShellLine(words, word, fixed, quote)


class BashComplete(shell_completion.BashComplete):
    """Support for bash, in place of click's."""

    source_template = BASH_SCRIPT

    def get_completion_args(self) -> tuple[list[str], str]:
        """Returns the words between the program's name and the cursor, and the word at the cursor."""
        line = parse_line()
        return line.words[1:], line.word

    def format_completion(self, item: CompletionItem[str]) -> str:
        """Returns ``plain,TEXT``, where TEXT is for the part of the word at the cursor that bash replaces."""
        line = parse_line()
        word = item.value
        option, equals, value = line.word.partition("=")
        is_option_value = equals and option.startswith("-") and word.startswith(value)
        if is_option_value and not word.startswith(line.word):
            word = f"{option}={word}"
        return f"{item.type},{line.escape(word.removeprefix(line.fixed))}"


def register() -> None:
    """Register our support for bash with click."""
    shell_completion.add_completion_class(BashComplete)


Completer = Callable[[click.Context, click.Parameter, str], list[str]]


def name_completer(fetch: Callable[[ControlClient], Awaitable[Sequence[Any]]]) -> Completer:
    """Returns a completer of the names of what is fetched; without a server that answers soon, it completes nothing."""

    def complete(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
        with suppress(GatewayError, click.ClickException, TimeoutError), ctx.scope(cleanup=False):
            entities = run(fetch, running=True, timeout_s=1.0)
            return [entity.name for entity in entities if entity.name.startswith(incomplete)]
        return []

    return complete


def comma_separated(completer: Completer) -> Completer:
    """Returns a completer of the last name in a list with commas. It leaves out the names that are in the list."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        chosen = before.split(",")
        return [f"{before}{comma}{name}" for name in completer(ctx, param, last) if name not in chosen]

    return complete


def complete_apps(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Returns the names of apps that begin with ``incomplete``."""
    return [name for name in APPS if name.startswith(incomplete)]


async def _usable_tokens(client: ControlClient) -> list[TokenView]:
    return [token for token in await client.tokens() if not token.program_ended]


TOKENS = name_completer(_usable_tokens)
GROUPS = name_completer(lambda client: client.groups())
CHANNELS = name_completer(lambda client: client.channels())
MODELS = name_completer(lambda client: client.models())
PRESETS = name_completer(lambda client: client.presets())

SHELLS = {"bash": BashComplete, "zsh": shell_completion.ZshComplete, "fish": shell_completion.FishComplete}
LOAD_ZSH_COMPLETION = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }"


@click.command(
    cls=Command,
    json_help="",
    examples=[
        """bash: echo 'eval "$(tollkeeper completion bash)"' >> ~/.bashrc""",
        """zsh:  echo 'eval "$(tollkeeper completion zsh)"' >> ~/.zshrc""",
        "fish: tollkeeper completion fish > ~/.config/fish/completions/tollkeeper.fish",
    ],
)
@click.argument("shell", type=click.Choice(list(SHELLS)))
def completion(shell: str) -> None:
    """Print the script that completes commands and options in SHELL."""
    completion_class = SHELLS[shell]
    script = completion_class(click.get_current_context().find_root().command, {}, PROGRAM, COMPLETE).source()
    if shell == "fish":  # click's script splits at every comma, but a value may contain commas
        script = script.replace('string split ","', 'string split --max 1 ","')
    elif shell == "zsh":  # zsh may not have loaded its completion system
        script = script.replace(f"#compdef {PROGRAM}\n", f"#compdef {PROGRAM}\n\n{LOAD_ZSH_COMPLETION}\n", 1)
    out(script)
