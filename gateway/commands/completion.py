"""Completion: the command ``completion``, the names that a running server knows, and support for bash.

Bash replaces only the part of the word under the cursor that follows the last character of ``COMP_WORDBREAKS``, such as
a colon, and inserts our text as it is, so the text must be quoted for its place. Click's own support for bash does
neither, so the whole line is parsed here as bash parses it.
"""

import os
import re
import shlex
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

import click
from click import shell_completion
from click.shell_completion import CompletionItem, get_completion_class

from gateway.client.apps import APPS
from gateway.client.control import ControlClient
from gateway.commands.base import COMPLETE, Command
from gateway.commands.exit_codes import PROGRAM
from gateway.commands.output import out
from gateway.commands.session import run
from gateway.domain.errors import GatewayError
from gateway.domain.views import TokenView

SOURCE = """\
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

CURSOR = "\0"
"""Marks the cursor at the end of a line while it is parsed, because the word there may be empty."""


class ShellLine(NamedTuple):
    """A line up to the cursor, as bash parses it."""

    words: list[str]
    """The complete words, without quotes."""
    word: str
    """The word at the cursor, without quotes."""
    kept: str
    """The part of that word that bash keeps."""
    quote: str
    """The quotation mark that is open at the cursor; empty if none is."""

    def quoted(self, text: str) -> str:
        """Returns the text quoted for the place at the cursor."""
        if self.quote == "'":
            return text.replace("'", "'\\''")
        return re.sub(r'(["$`\\])' if self.quote else r"([^\w@%+=:,./-])", r"\\\1", text)


def line_of(text: str, breaks: str) -> ShellLine:
    """Read a line. ``breaks`` are the characters of ``COMP_WORDBREAKS``."""
    reader = shlex.shlex(f"{text}{CURSOR}", posix=True)
    reader.whitespace_split, reader.commenters = True, ""
    words, quote = [], ""
    try:
        while (word := reader.get_token()) is not None:
            words.append(word)
    except ValueError:
        words, quote = [*words, reader.token], str(getattr(reader, "state", ""))
    word = words.pop().removesuffix(CURSOR)
    end = max((at for at, char in enumerate(word, 1) if char in breaks), default=0)
    plain = not quote and text.endswith(word)
    return ShellLine(words, word, word[:end] if plain else "", quote)


class BashComplete(shell_completion.BashComplete):
    """click's support for bash."""

    source_template = SOURCE

    def get_completion_args(self) -> tuple[list[str], str]:
        """Returns the words between the program's name and the cursor, and the word at the cursor."""
        line = self._line()
        return line.words[1:], line.word

    def format_completion(self, item: CompletionItem[str]) -> str:
        """Returns ``plain,VALUE``, where VALUE replaces the part of the word that bash does not keep."""
        line = self._line()
        option, equals, value = line.word.partition("=")
        word = item.value
        if equals and line.word.startswith("-") and not word.startswith(line.word) and word.startswith(value):
            word = f"{option}={word}"
        kept = line.kept if word.startswith(line.kept) else ""
        return f"{item.type},{line.quoted(word.removeprefix(kept))}"

    def _line(self) -> ShellLine:
        return line_of(os.environ.get("COMP_LINE", ""), os.environ.get("COMP_WORDBREAKS", ""))


def register() -> None:
    """Register our support for bash with click."""
    shell_completion.add_completion_class(BashComplete)


Completer = Callable[[click.Context, click.Parameter, str], list[str]]


def name_completer(ask: Callable[[ControlClient], Awaitable[Sequence[Any]]]) -> Completer:
    """Returns a completer of the names that a client lists. Without a running server it completes nothing."""

    def complete(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
        try:
            with ctx.scope(cleanup=False):
                entities = run(ask, running=True)
        except (GatewayError, click.ClickException):
            return []
        return [named.name for named in entities if named.name.startswith(incomplete)]

    return complete


def several(completer: Completer) -> Completer:
    """Returns a completer of the last of several names with commas between them."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        chosen = before.split(",")
        return [f"{before}{comma}{name}" for name in completer(ctx, param, last) if name not in chosen]

    return complete


def complete_apps(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Returns the names of apps that begin with ``incomplete``."""
    return [name for name in APPS if name.startswith(incomplete)]


async def _tokens(client: ControlClient) -> list[TokenView]:
    return [token for token in await client.tokens() if not token.outlived]


TOKENS = name_completer(_tokens)
GROUPS = name_completer(lambda client: client.groups())
CHANNELS = name_completer(lambda client: client.channels())
MODELS = name_completer(lambda client: client.models())
PRESETS = name_completer(lambda client: client.presets())


COMPINIT = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }"


@click.command(
    cls=Command,
    examples=[
        """bash: echo 'eval "$(tollkeeper completion bash)"' >> ~/.bashrc""",
        """zsh:  echo 'eval "$(tollkeeper completion zsh)"' >> ~/.zshrc""",
        "fish: tollkeeper completion fish > ~/.config/fish/completions/tollkeeper.fish",
    ],
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that completes commands and options in SHELL."""
    register()
    completion_class = get_completion_class(shell)
    if completion_class is None:
        raise click.UsageError(f"no completion for {shell}")
    script = completion_class(click.get_current_context().find_root().command, {}, PROGRAM, COMPLETE).source()
    if shell == "fish":  # click's script splits at every comma, but a value may be a list
        script = script.replace('string split ","', 'string split --max 1 ","')
    elif shell == "zsh":  # zsh may not have loaded its completion system
        script = script.replace(f"#compdef {PROGRAM}\n", f"#compdef {PROGRAM}\n\n{COMPINIT}\n", 1)
    out(script)
