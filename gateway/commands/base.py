"""Base: the classes of all commands. Each takes ``--home``, most take ``--json``, and help ends with examples.

A noun alone shows its list or state. Words that people type out of habit, such as ``ls``, ``rm`` and ``create``, are
aliases. The error for an unknown word suggests similar commands, unless they are destructive.
"""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, cast

import click

from gateway.domain.key_owners import handles_in, without_keys
from gateway.domain.text import word

COMPLETE = "_TOLLKEEPER_COMPLETE"
"""The environment variable that a shell's completion script sets when it runs the program."""

HOME = "tollkeeper.home"
HOST = "tollkeeper.host"
PORT = "tollkeeper.port"
JSON = "tollkeeper.json"
"""The keys in ``click.Context.meta`` of the values of these options, wherever they are on the command line."""

CONSOLE = "tollkeeper.console"
"""The key in ``click.Context.meta`` of a function that draws the console once and returns it as text."""

HANDLES = "tollkeeper.handles"
"""The key in ``click.Context.meta`` of the handles that replaced keys on the command line, to name their owners."""

JSON_HELP = "Print JSON; field names are stable."

SEARCH_PARAMS = frozenset(
    {"app", "channel", "channels", "group", "model", "names", "ref", "refs", "search", "token", "words"}
)
"""Parameters that name something or search for it. A key in one of them stands for its owner."""

ALIASES: Mapping[str, str] = {
    "ls": "list",
    **dict.fromkeys(("rm", "delete", "del"), "remove"),
    **dict.fromkeys(("create", "new"), "add"),
}
"""Other words for the commands of a noun. A command that really has such a name takes precedence."""

SUGGESTIONS: Mapping[str, str] = {
    "account add": "account grant",
    **dict.fromkeys(("account suspend", "account disable"), "account set --status suspended"),
    **dict.fromkeys(("account resume", "account enable"), "account set --status active"),
    "account budget": "account set --budget month=50",
    "channel clear": "channel resume",
    "key clear": "channel key resume",
    **dict.fromkeys(("config show", "config list"), "config export"),
    **dict.fromkeys(("settings list", "settings get"), "settings show"),
    "settings edit": "settings set",
    **{f"usage {span}": f"usage summary --since {span}" for span in ("today", "month")},
    **{f"usage {span}": f"usage summary --since {span} --until {span}" for span in ("yesterday", "last-month")},
    "usage last": "usage show last",
    "usage stats": "usage summary",
    "usage top": "usage list --sort cost",
    "channel check": "channel test",
    "channel keys": "channel key list",
    "model add": "channel models CHANNEL --add",
    "model alias": "channel edit CHANNEL --map ALIAS=MODEL",
    **dict.fromkeys(("price add", "price edit"), "price set"),
    **{f"{noun} pause": f"{noun} disable" for noun in ("token", "channel")},
    **{f"token {verb}": "token disable" for verb in ("suspend", "block", "revoke")},
    "token resume": "token enable",
    **{f"{noun} {verb}": f"{noun} edit" for noun in ("token", "group", "channel") for verb in ("set", "update")},
    **{f"{noun} budget": f"{noun} edit NAME --budget month=50" for noun in ("token", "group")},
}
"""The commands to suggest for words that are not commands, by noun and word."""

DESTRUCTIVE = frozenset({"cancel", "clear", "import", "redo", "remove", "rotate", "stop", "undo"})
DESTRUCTIVE_OPTIONS = frozenset({"--force", "--now", "--prune", "--set", "--yes"})
"""Options that are never suggested for a mistyped word, because suggestions are copied without much thought."""


class Command(click.Command):
    """A command with examples in its help, and with ``--json`` unless ``json_help`` is empty."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), json_help: str = JSON_HELP, **options: Any) -> None:
        super().__init__(*args, **options)
        self.examples = examples
        if json_help:
            self.params.append(_stored_option("json", json_help, is_flag=True, default=None))
        self.params.append(home_option())

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            refuse_repeated_options(self, ctx, args)
            unparsed = super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.possibilities:
                error.possibilities[:] = [name for name in error.possibilities if name not in DESTRUCTIVE_OPTIONS]
            raise
        if not ctx.resilient_parsing and self.name not in ("chat", "doctor", "env", "run"):  # which need the key itself
            _replace_keys(ctx)
        return unparsed

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Examples"):
            for line in self.examples:
                formatter.write(f"{'':>{formatter.current_indent}}{line}\n")


def _replace_keys(ctx: click.Context) -> None:
    """Replace the keys in search parameters by their handles, and add these to HANDLES, to name the owners later."""
    for name in SEARCH_PARAMS & ctx.params.keys():
        value = ctx.params[name]
        texts = value if isinstance(value, tuple) else (value,)
        hidden = tuple(without_keys(text) if isinstance(text, str) else text for text in texts)
        if hidden != texts:
            ctx.params[name] = hidden if isinstance(value, tuple) else hidden[0]
            ctx.meta.setdefault(HANDLES, []).extend(handles_in(" ".join(map(str, hidden))))


def refuse_repeated_options(command: click.Command, ctx: click.Context, args: Sequence[str]) -> None:
    """Raise UsageError for a repeated option that takes one value. Click would silently use the last value."""
    if ctx.resilient_parsing:
        return
    _, _, order = command.make_parser(ctx).parse_args(list(args))
    for param in order:
        takes_one = isinstance(param, click.Option) and not (param.multiple or param.count)
        if takes_one and order.count(param) > 1 and (param.secondary_opts or not getattr(param, "is_flag", False)):
            name = " / ".join(max(names, key=len) for names in (param.opts, param.secondary_opts) if names)
            raise click.UsageError(f"{name} is given {order.count(param)} times; it takes one value", ctx)


class SuggestingGroup(click.Group):
    """A group with ``--home``, whose error for an unknown word suggests a command."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.params.insert(0, home_option())

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        refuse_repeated_options(self, ctx, args)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            if suggestion := self.suggestion(ctx, args):
                raise click.UsageError(f"No such command '{args[0]}'. Did you mean '{suggestion}'?", ctx)
            names = [name for name in self.list_commands(ctx) if name not in DESTRUCTIVE]
            raise click.exceptions.NoSuchCommand(args[0], possibilities=names, ctx=ctx)
        return super().resolve_command(ctx, args)

    def suggestion(self, ctx: click.Context, args: list[str]) -> str:
        """Returns the command line to suggest instead of an unknown word, or an empty string."""
        raise NotImplementedError


class Noun(SuggestingGroup):
    """A group of commands about one thing. Help lists the usual ones first, then the others as they are defined."""

    command_class = Command

    def __init__(self, *args: Any, bare: str = "", **options: Any) -> None:
        """``bare`` is the command that the noun alone runs. If it is empty, the help is shown."""
        super().__init__(*args, **options)
        self.bare = bare

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if self.bare and not ctx.resilient_parsing and self._names_no_command(args):
            args = [self.bare, *args]
        return super().parse_args(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == show_help.name:
            return show_help
        return super().get_command(ctx, cmd_name) or super().get_command(ctx, ALIASES.get(cmd_name, ""))

    def suggestion(self, ctx: click.Context, args: list[str]) -> str:
        names, suggestion = self.list_commands(ctx), SUGGESTIONS.get(f"{self.name} {args[0]}")
        if not suggestion and len(args) == 1 and not get_close_matches(args[0], names) and self._may_show(args[0]):
            suggestion = f"{self.name} show {word(args[0])}"
        return f"tollkeeper {suggestion}" if suggestion else ""

    def _may_show(self, typed: str) -> bool:
        """Returns whether ``show`` could show something with this name or number."""
        show = self.commands.get("show")
        types = [param.type for param in show.params if isinstance(param, click.Argument)] if show is not None else []
        return any(type_ is click.STRING or typed.isdecimal() for type_ in types)

    def _names_no_command(self, args: Sequence[str]) -> bool:
        """Returns whether the arguments name no command and do not ask for help."""
        remaining = iter(args)
        for arg in remaining:
            if arg == "--home":
                next(remaining, None)  # its value
            elif arg in ("-h", "--help") or not arg.startswith("-"):
                return False
            elif not arg.startswith("--home="):
                return True  # an option of the bare command
        return True

    def list_commands(self, ctx: click.Context) -> list[str]:
        usual = ("list", "show", "add", "set", "edit")
        names = [name for name, command in self.commands.items() if not command.hidden]
        return sorted(names, key=lambda name: usual.index(name) if name in usual else len(usual))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands with their first sentences, which click would cut."""
        with formatter.section("Commands"):
            names = self.list_commands(ctx)
            formatter.write_dl([(name, self.commands[name].get_short_help_str(200)) for name in names])


def address_options() -> list[click.Parameter]:
    """Returns ``--host`` and ``--port``."""
    return [
        _stored_option("host", "Address to listen on (default: TOLLKEEPER_HOST, else 127.0.0.1)."),
        _stored_option("port", "Port of /v1 (default: TOLLKEEPER_PORT, else 8655); 0 for any free one.", "NUMBER"),
    ]


def home_option() -> click.Option:
    """Returns ``--home``."""
    text = "The data folder (default: TOLLKEEPER_HOME, else the user's data folder)."
    return _stored_option("home", text, "FOLDER", is_eager=True)


def _stored_option(name: str, text: str, metavar: str | None = None, **settings: Any) -> click.Option:
    """Returns an option with this help, whose value is in ``click.Context.meta`` instead of a parameter."""
    names = [f"--{name}"]
    return click.Option(names, help=text, metavar=metavar, expose_value=False, callback=_store, **settings)


def _store(ctx: click.Context, param: click.Parameter, value: object) -> None:
    """Store an option as ``tollkeeper.NAME``. Raises UsageError for two values, one before and one after the command.

    Raises it for an empty value too: a script whose variable is not set must not change the default home.
    """
    if value is None:
        return
    if not value:
        raise click.UsageError(f"{param.opts[0]} is empty", ctx)
    before = ctx.meta.setdefault(f"tollkeeper.{param.name}", value)
    if before != value:
        raise click.UsageError(f"{param.opts[0]} is given twice, as {before} and {value}; give it only once", ctx)


@click.command("help", hidden=True)
@click.argument("words", nargs=-1, metavar="[COMMAND]...")
def show_help(words: tuple[str, ...]) -> None:
    """Show the help of a command, as --help does."""
    own_ctx = click.get_current_context()
    ctx = own_ctx.parent or own_ctx
    for name in words:
        if not isinstance(ctx.command, click.Group):
            break
        command = cast("click.Command", ctx.command.resolve_command(ctx, [name])[1])  # raises for an unknown name
        ctx = click.Context(command, info_name=command.name, parent=ctx)
    click.echo(ctx.get_help())
