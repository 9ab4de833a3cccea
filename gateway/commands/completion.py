"""``completion``: the script that completes commands in a shell."""

import click
from click.shell_completion import get_completion_class

from gateway.commands import bash
from gateway.commands.base import COMPLETE, Command
from gateway.commands.exits import PROGRAM
from gateway.commands.output import out


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
    bash.register()
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"no completion for {shell}")
    script = kind(click.get_current_context().find_root().command, {}, PROGRAM, COMPLETE).source()
    # click's script for fish takes all after a second comma for another field; values here may be lists with commas
    out(script.replace('string split ","', 'string split --max 1 ","') if shell == "fish" else script)
