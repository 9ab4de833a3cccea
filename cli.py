"""Command line: the table of commands, and how the program ends. A command's file is imported when it is used.

Only click and a few of our files are imported here, so that ``--version``, ``--help`` and completion are fast.
"""

import gc

if __name__ == "__main__":
    gc.disable()  # until the command runs: imports leave no garbage, and dozens of collections would take time

import importlib
import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import NoReturn

import click
from click.shell_completion import CompletionItem

from gateway import __version__
from gateway.commands.base import COMPLETE, CONSOLE, HOME, HOST, PORT, SuggestingGroup, address_options, show_help
from gateway.commands.exit_codes import PROGRAM, Exit, report
from gateway.domain.errors import GatewayError

COMMANDS: Mapping[str, tuple[str, str]] = {
    "serve": ("server:serve", "Run the gateway in the foreground."),
    "status": ("server:status", "Show the running server."),
    "stop": ("server:stop", "Let running calls finish, then stop the server."),
    "chat": ("chat:chat", "Send one prompt through the gateway."),
    "env": ("env:env", "Print the settings that point an SDK or a program at this gateway."),
    "run": ("run:run_program", "Start a program that uses this gateway, with a token of its own."),
    "doctor": ("doctor:doctor", "Find the first thing that keeps calls from working."),
    "why": ("why:why", "Explain what would happen to a call, without making it."),
    "account": ("account:account", "The account: balance, grants, budgets."),
    "token": ("token:token", "The API keys of clients."),
    "group": ("group:group", "Which tokens use which channels, and at what price."),
    "channel": ("channel:channel", "The upstream accounts that serve calls."),
    "discover": ("discover:discover", "Find local model servers and vendors' keys, and add them."),
    "price": ("price:price", "What models cost."),
    "model": ("model:model", "The models that clients see."),
    "usage": ("usage:usage", "Calls and what they cost."),
    "incident": ("incident:incident", "What failed when, and which channels answered its calls."),
    "config": ("config:config", "Export and import the whole configuration as a file."),
    "settings": ("settings:settings", "Settings of the whole gateway."),
    "verify": ("maintenance:verify", "Recompute every balance from the call log."),
    "history": ("history:history", "What was changed, when and by whom; undo any change."),
    "undo": ("history:undo", "Undo the last configuration change."),
    "redo": ("history:redo", "Redo the change that was undone last."),
    "service": ("service:service", "Start the gateway at every login."),
    "selftest": ("maintenance:selftest", "Check that this program works on this machine."),
    "licences": ("maintenance:licences", "Print the licences of the bundled packages."),
    "completion": ("completion:completion", "Print a shell completion script."),
}
"""The file and the function of each command, and its help."""

ALIASES: Mapping[str, str] = {
    **{f"{noun}s": noun for noun in ("account", "token", "group", "channel", "price", "model", "incident")},
    "licenses": "licences",
}

SUGGESTIONS: Mapping[str, str] = {
    **dict.fromkeys(("console", "tui", "ui", "dashboard"), "tollkeeper"),
    **dict.fromkeys(("start", "restart", "reload", "up", "server", "daemon"), "serve"),
    **dict.fromkeys(("key", "keys", "user", "users", "list", "ls"), "token list"),
    **dict.fromkeys(("provider", "providers", "upstream", "upstreams", "vendor", "vendors"), "channel list"),
    **dict.fromkeys(("log", "logs", "tail"), "usage tail"),
    **dict.fromkeys(("call", "calls", "requests"), "usage list"),
    **dict.fromkeys(("cost", "costs", "stats", "report", "spend"), "usage summary"),
    **dict.fromkeys(("balance", "money", "credit", "credits", "quota"), "account show"),
    "presets": "channel presets",
    **dict.fromkeys(("test", "check", "debug"), "doctor"),
    **dict.fromkeys(("connect", "setup", "init", "login"), "env"),
    **dict.fromkeys(("export", "import", "backup"), "config export"),
    **dict.fromkeys(("today", "bill"), "usage summary --since today"),
    **dict.fromkeys(("events", "errors", "alerts"), "incident list"),
    "setting": "settings",
    **dict.fromkeys(("alias", "aliases"), "channel edit CHANNEL --map ALIAS=MODEL"),
    **dict.fromkeys(("ask", "prompt"), "chat"),
}
"""The commands to suggest for words that are not commands."""


class LazyGroup(SuggestingGroup):
    """A group that imports a command when it is called, and none for its help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _HIDDEN:
            return _HIDDEN[cmd_name]
        place, _ = COMMANDS.get(ALIASES.get(cmd_name, cmd_name), ("", ""))
        file, _, function = place.partition(":")
        return getattr(importlib.import_module(f"gateway.commands.{file}"), function) if file else None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        names = [CompletionItem(name, help=text) for name, (_, text) in COMMANDS.items() if name.startswith(incomplete)]
        return names + click.Command.shell_complete(self, ctx, incomplete)

    def suggestion(self, ctx: click.Context, args: list[str]) -> str:
        command = SUGGESTIONS.get(args[0], "")
        return f"{PROGRAM} {command}" if command not in ("", PROGRAM) else command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(int(code)), code.meaning) for code in Exit])


@click.command("version", hidden=True)
def version() -> None:
    """Show the version."""
    click.echo(f"{PROGRAM} {__version__}")


_HIDDEN: Mapping[str, click.Command] = {"help": show_help, "version": version}
"""Commands that are not listed, because options do the same."""


@click.group(cls=LazyGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", message=f"{PROGRAM} %(version)s", help="Show the version.")
@click.pass_context
def tollkeeper(ctx: click.Context) -> None:
    """Tollkeeper: a personal gateway for language models.

    Without a command it opens the console; without a terminal it serves in the foreground. Every command has --help
    with examples, and takes --home.
    """
    if os.environ.get("NO_COLOR"):
        ctx.color = False
    ctx.meta[CONSOLE] = lambda config: importlib.import_module("tui.selftest").draw(config)
    if ctx.invoked_subcommand is None:
        _start(ctx)
    if (HOST in ctx.meta or PORT in ctx.meta) and ctx.invoked_subcommand not in ("serve", "env"):
        message = f"--host and --port go with 'serve', 'env' or no command, not with '{ctx.invoked_subcommand}'"
        raise click.UsageError(message)


tollkeeper.params[1:1] = address_options()  # after --home


def _start(ctx: click.Context) -> NoReturn:
    """Open the console; without a terminal or a console, serve; on a plain terminal, print a line for each call."""
    streams = (sys.stdin, sys.stdout, sys.stderr)  # Textual draws on stderr
    has_terminal = all(stream is not None and stream.isatty() for stream in streams)
    is_plain = os.environ.get("TERM") == "dumb" or os.environ.get("TOLLKEEPER_PLAIN", "") not in ("", "0")
    console = _console() if has_terminal and not is_plain and importlib.util.find_spec("tui.app") else None
    from gateway.config import load

    config = load(home=ctx.meta.get(HOME), host=ctx.meta.get(HOST), port=ctx.meta.get(PORT))
    if HOST in ctx.meta or PORT in ctx.meta:
        from gateway.commands.server import require_no_server

        require_no_server(config, elsewhere=True)  # the console would use that server, wherever it listens
    if console is not None:
        ctx.exit(console.run(config))
    from gateway.commands.server import follow_or_serve, serve_here

    ctx.exit(follow_or_serve(config) if has_terminal and is_plain else serve_here(config))


def _console() -> ModuleType:
    """Returns the console's module. Garbage collection is off during the import, which defines a thousand classes."""
    gc.disable()
    try:
        return importlib.import_module("tui.app")
    finally:
        gc.freeze()
        gc.enable()


def main(args: Sequence[str] | None = None, reach: object = None) -> NoReturn:
    """Run the command line. A failure ends with one line and an exit code. Tests have their own ``session.reach``."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
    _occupy_closed_streams()
    if COMPLETE in os.environ:
        importlib.import_module("gateway.commands.completion").register()
    try:
        code = tollkeeper.main(args, prog_name=PROGRAM, standalone_mode=False, obj=reach)
    except (GatewayError, click.ClickException, click.Abort, KeyboardInterrupt, OSError) as error:
        sys.exit(report(error))
    sys.exit(code if isinstance(code, int) else 0)


def _occupy_closed_streams() -> None:
    """Open the null device for closed standard streams, so that no socket or file gets their numbers."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # this gets the lowest free number, which is ``number``


if __name__ == "__main__":
    main()
