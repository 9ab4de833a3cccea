"""``env``: the lines that point an SDK or a program at this gateway."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from gateway.client.app import PLACEHOLDER_KEY, AppTarget, Snippet
from gateway.client.apps import APPS, find_app, key_in, used_last
from gateway.client.connect_card import KEY_VARIABLE, URL_VARIABLE, Shell, environment
from gateway.client.control import ControlClient
from gateway.client.model_choice import usual_model
from gateway.commands import stdin
from gateway.commands.base import Command
from gateway.commands.completion import MODELS, TOKENS, complete_apps
from gateway.commands.exit_codes import Exit, Quit
from gateway.commands.options import SOME, json_option
from gateway.commands.output import on_terminal, out, out_json, words
from gateway.commands.session import config, run
from gateway.config import is_home
from gateway.domain.errors import GatewayError
from gateway.domain.key_owners import hint
from gateway.domain.text import plain, word
from gateway.domain.token import PREFIX
from gateway.domain.views import ModelView, TokenView
from gateway.runfile import last_address

SHELLS: dict[str, Shell] = {"bash": "sh", "zsh": "sh", "sh": "sh", "fish": "fish", "powershell": "powershell"}


@click.command(
    cls=Command,
    examples=[
        'eval "$(tollkeeper env --key sk-tk-...)"',
        "tollkeeper env --for codex --token laptop",
        "tollkeeper token add claude | tollkeeper env --for claude --key -",
        "tollkeeper env --for zed --only file > settings.json",
    ],
)
@click.option(
    "--for", "app", type=SOME, metavar="APP", shell_complete=complete_apps, help=f"The program: {', '.join(APPS)}."
)
@click.option(
    "--model",
    type=SOME,
    shell_complete=MODELS,
    help="The model to start with (default: the one that the token called last; see docs/apps.md).",
)
@click.option("--shell", type=click.Choice(list(SHELLS)), help="The shell to write for (default: that of SHELL).")
@click.option("--key", metavar="KEY", help="The token's key; - reads it from stdin.")
@click.option("--token", metavar="NAME", shell_complete=TOKENS, help="The token, if its key is not given.")
@click.option(
    "--only", type=click.Choice(("variables", "file")), help="With --for: only the variables, or only the file."
)
@json_option
def env(
    app: str | None,
    model: str | None,
    shell: str | None,
    key: str | None,
    token: str | None,
    only: str | None,
    *,
    as_json: bool,
) -> None:
    """Print the settings that point an SDK or a program at this gateway.

    With --for it prints everything that the program needs, with the models that the token sees; stderr says where each
    part goes. If the first part is variables, a pipe gets the other parts as comments, so that a shell can evaluate all
    of it. Keys are not stored and cannot be looked up: without --key, a placeholder is printed.
    """
    kind = SHELLS[shell] if shell else _own_shell()
    known = _key(key)
    with _saved_from_loss(known if key == "-" else ""):
        if app is None and (model or only):
            raise click.UsageError("--model and --only go with --for", click.get_current_context())
        known = _key_of(known, token, given=key is not None)
        note = "" if known or app else _where_the_key_is(token)
        if app is not None:
            chosen = _choose_snippets(_snippets(app, known, token, model), only, app)
            _print_guide(chosen, kind, as_json=as_json)
            printed = "\n".join(snippet.lines(kind) for snippet in chosen)
            if not known:
                note = _key_of_app(printed, app, token, only)
            elif key == "-" and known not in printed:  # a pipe cannot be read again
                note = f"what was printed does not contain the key; save it now: {known}"
        elif as_json:
            out_json({URL_VARIABLE: _address(), KEY_VARIABLE: known or None})
        else:
            for line in environment(_address(), known, kind).splitlines():
                out(f"# {line}" if KEY_VARIABLE in line and not known else line)
    if note:
        words(note)


@contextmanager
def _saved_from_loss(key: str) -> Iterator[None]:
    """Prints a key that was read from a pipe if the block fails, because it can be read only once."""
    try:
        yield
    except (GatewayError, click.ClickException):
        if key.startswith(PREFIX):
            words(f"nothing was printed for this key; save it now: {plain(key)}")
        raise


def target_of(models: Sequence[ModelView], *, base_url: str, key: str, model: str | None) -> AppTarget:
    """Returns the gateway as a program needs it. Raises Quit if the token does not see that model, or none at all."""
    target = AppTarget.of(base_url, models, model=model or "", key=key)
    if not target.models:
        raise Quit("the token sees no model; 'tollkeeper doctor' finds out why", Exit.NOT_FOUND)
    if target.model not in target.models:
        known = ", ".join(target.models)
        raise Quit(f"the token does not see model '{target.model}'; it sees: {known}", Exit.NOT_FOUND)
    return target


def _snippets(app: str, key: str, token: str | None, model: str | None) -> Sequence[Snippet]:
    program = find_app(app)

    async def work(client: ControlClient) -> tuple[Sequence[ModelView], str]:
        of = (await _token_of(client, key, token, app)).id
        models = await client.models(of)
        if model:
            return models, model
        choice = await usual_model(client, [view.name for view in models], family=program.family, token=of)
        return models, choice.model

    models, first = run(work)
    return program.guide(target_of(models, base_url=_address(), key=key, model=first))


def _choose_snippets(snippets: Sequence[Snippet], only: str | None, app: str) -> Sequence[Snippet]:
    """Returns all of them, or the first of that kind. Raises Quit if there is none."""
    if only is None:
        return snippets
    fitting = [snippet for snippet in snippets if (snippet.is_file if only == "file" else snippet.variables)]
    if not fitting:
        raise Quit(f"there is no {only.removesuffix('s')} to set for {app}; leave --only out", Exit.USAGE)
    return fitting[:1]


async def _token_of(client: ControlClient, key: str, name: str | None, app: str) -> TokenView:
    """Returns the named token, else that of the key, else the one named like the app, else the one used last.

    Raises Quit, or NotFound for the name.
    """
    if name is not None:
        return await client.token(name)
    tokens = await client.tokens()
    if key:
        tokens = [token for token in tokens if token.hint == hint(key)]
        if not tokens:
            raise Quit("the key is not one of this gateway's; 'tollkeeper token list' shows its tokens", Exit.TOKEN)
    else:
        tokens = [token for token in tokens if not token.temporary]
    if len(tokens) == 1:
        return tokens[0]
    if not tokens:
        raise Quit("no token yet; create one: tollkeeper token add NAME", Exit.NOT_FOUND)
    own = [token for token in tokens if token.name == app]
    return own[0] if own else used_last([token for token in tokens if token.state == "active"] or tokens)


def _print_guide(snippets: Sequence[Snippet], shell: Shell, *, as_json: bool) -> None:
    parts = [(snippet.where, snippet.lines(shell)) for snippet in snippets]
    if as_json:
        out_json([{"where": where, "text": text} for where, text in parts])
        return
    only_variables = bool(snippets[0].variables) and not on_terminal()
    for at, (where, text) in enumerate(parts):
        words(f"\N{RIGHTWARDS ARROW} {where}:")
        commented = only_variables and at > 0  # eval "$(tollkeeper env …)" would run it
        out("\n".join(f"# {line}".rstrip() for line in text.splitlines()) if commented else text)


def _own_shell() -> Shell:
    name = Path(os.environ.get("SHELL", "")).name
    return SHELLS.get(name, "powershell" if os.name == "nt" else "sh")


def _key(given: str | None) -> str:
    if given == "-":
        return stdin.secret("key", "without --key a placeholder stands for it")
    own = key_in(os.environ)
    return given or (own if own.startswith(PREFIX) else "")


def _key_of(key: str, token: str | None, *, given: bool) -> str:
    """Returns the key if it belongs to the token; another one from the environment is ignored.

    Raises Quit if it was ``given``, or NotFound for the name.
    """
    if token is None or not key:
        return key
    view = run(lambda client: client.token(token))
    if view.hint == hint(key):
        return key
    if given:
        raise Quit(f"the key is not that of token '{plain(view.name)}', which is {view.hint}", Exit.TOKEN)
    return ""


def _address() -> str:
    """Returns the running server's base URL; else the one it would have: the given address, else the last one."""
    try:
        address = run(lambda client: client.status(), running=True).address
    except Quit as error:
        if error.exit_code is not Exit.UNREACHABLE:
            raise
        address = ""
    if address:
        return address
    where = config()
    last = last_address(where.last_address)
    if last and not (where.address_given and where.port):
        return last
    if not where.port:
        raise Quit("the port is chosen when the server starts: 'tollkeeper serve' prints it", Exit.UNREACHABLE)
    host = f"[{where.host}]" if ":" in where.host else where.host
    return f"http://{host}:{where.port}/v1"


def _key_of_app(printed: str, app: str, token: str | None, only: str | None) -> str:
    """Returns a note on how to get a key, for output that has a placeholder for it or leaves it out."""
    exists = token is not None or app in [view.name for view in run(lambda client: client.tokens())]
    create = f"tollkeeper token {'rotate' if exists else 'add'} {word(token or app)}"
    if PLACEHOLDER_KEY in printed:
        filled = f"{create} | tollkeeper env --for {word(app)} --key -"
        return f"{PLACEHOLDER_KEY} stands for the key, which is not stored; with a new one: {filled}"
    return "" if only else f"the key is not stored; for a new one: {create}"


def _where_the_key_is(token: str | None) -> str:
    if token is None and not is_home(config().home):
        return "no token yet: 'tollkeeper serve' creates the first one, and shows its key"
    if token is None:
        return "the key was shown when the token was created; for a new one: tollkeeper token rotate NAME"
    view = run(lambda client: client.token(token))
    return f"the key of '{plain(view.name)}' is {view.hint}; for a new one: tollkeeper token rotate {word(view.name)}"
