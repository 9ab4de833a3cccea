"""Completion in a shell: ``completion``, the names that a running server knows, and what bash needs.

bash cuts the line into words of its own and inserts the answer as it is: of the word under the cursor it replaces only
what follows the last character of ``COMP_WORDBREAKS``, a colon for instance, and the inserted text must be quoted as
the line demands. click's own completion does neither, so the whole line is read here, as bash reads it.
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
"""Stands at the end of a line while it is read: the word at the cursor may be empty."""


class ShellLine(NamedTuple):
    """A line up to the cursor, as bash reads it."""

    words: list[str]
    """Whole ones, without their quotes."""
    word: str
    """The one at the cursor."""
    kept: str
    """The part of it that bash leaves as it is."""
    quote: str
    """The quotation mark that is open."""

    def quoted(self, text: str) -> str:
        """Returns the text quoted for the place of the cursor."""
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
        """Returns the words before the cursor's word, without the first, and that word."""
        line = self._line()
        return line.words[1:], line.word

    def format_completion(self, item: CompletionItem[str]) -> str:
        """Returns ``plain,VALUE``: what bash inserts for the part of the word that it replaces."""
        line = self._line()
        option, equals, value = line.word.partition("=")
        whole = item.value
        if equals and line.word.startswith("-") and not whole.startswith(line.word) and whole.startswith(value):
            whole = f"{option}={whole}"
        kept = line.kept if whole.startswith(line.kept) else ""
        return f"{item.type},{line.quoted(whole.removeprefix(kept))}"

    def _line(self) -> ShellLine:
        return line_of(os.environ.get("COMP_LINE", ""), os.environ.get("COMP_WORDBREAKS", ""))


def register() -> None:
    """Register this support for bash with click."""
    shell_completion.add_completion_class(BashComplete)


Completer = Callable[[click.Context, click.Parameter, str], list[str]]


def name_completer(ask: Callable[[ControlClient], Awaitable[Sequence[Any]]]) -> Completer:
    """Completes names that a client can list; nothing if it cannot."""

    def complete(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
        try:
            with ctx.scope(cleanup=False):
                entities = run(ask, running=True)
        except (GatewayError, click.ClickException):
            return []
        return [named.name for named in entities if named.name.startswith(incomplete)]

    return complete


def several(completer: Completer) -> Completer:
    """Completes the last of several names with commas between them."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        there = before.split(",")
        return [f"{before}{comma}{name}" for name in completer(ctx, param, last) if name not in there]

    return complete


def complete_apps(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Completes the names of programs that can be connected."""
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
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"no completion for {shell}")
    script = kind(click.get_current_context().find_root().command, {}, PROGRAM, COMPLETE).source()
    if shell == "fish":  # click's script takes all after a second comma for another field; values may be lists
        script = script.replace('string split ","', 'string split --max 1 ","')
    elif shell == "zsh":  # without a .zshrc that does so, zsh has no completion to add to
        script = script.replace(f"#compdef {PROGRAM}\n", f"#compdef {PROGRAM}\n\n{COMPINIT}\n", 1)
    out(script)
