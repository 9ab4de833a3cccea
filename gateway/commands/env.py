"""``env``: prints the settings that point an SDK or a program at this gateway."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from gateway.client.app import PLACEHOLDER_KEY, AppTarget, Snippet
from gateway.client.apps import APPS, find_app, key_in, last_used_token
from gateway.client.connect_card import KEY_VARIABLE, URL_VARIABLE, Shell, environment
from gateway.client.control import ControlClient
from gateway.client.model_choice import choose_model, recent_calls
from gateway.commands import stdin
from gateway.commands.base import Command
from gateway.commands.completion import MODELS, TOKENS, complete_apps
from gateway.commands.exit_codes import Exit, Quit
from gateway.commands.options import TEXT
from gateway.commands.output import is_terminal, notify, out, out_json, wants_json
from gateway.commands.session import current_config, run
from gateway.config import is_home
from gateway.domain.addresses import own_address
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
        'eval "$(tollkeeper env --key -)"',
        "tollkeeper env --for codex --token laptop",
        "tollkeeper token add claude | tollkeeper env --for claude --key -",
        "tollkeeper env --for zed --only file > settings.json",
    ],
)
@click.option(
    "--for", "app", type=TEXT, metavar="APP", shell_complete=complete_apps, help=f"The program: {', '.join(APPS)}."
)
@click.option(
    "--model",
    type=TEXT,
    shell_complete=MODELS,
    help="The model to start with (default: the one that the token called last; see docs/apps.md).",
)
@click.option("--shell", type=click.Choice(list(SHELLS)), help="The shell to write for (default: the one in SHELL).")
@click.option("--key", metavar="KEY", help="The token's key; - reads a line of stdin.")
@click.option("--token", metavar="NAME", shell_complete=TOKENS, help="The token, if --key is not given.")
@click.option(
    "--only", type=click.Choice(("variables", "file")), help="With --for: print only the variables, or only the file."
)
def env(
    app: str | None, model: str | None, shell: str | None, key: str | None, token: str | None, only: str | None
) -> None:
    """Print the settings that point an SDK or a program at this gateway.

    With --for, everything that the program needs is printed, with the models that the token sees; stderr says where
    each part goes. If the first part is variables, a pipe gets the other parts as comments, so that a shell can
    evaluate the whole output. Keys are not stored and cannot be looked up: without --key, a placeholder is printed.
    """
    own_shell = SHELLS.get(Path(os.environ.get("SHELL", "")).name, "powershell" if os.name == "nt" else "sh")
    shell_kind = SHELLS[shell] if shell else own_shell
    secret = _read_key(key)
    piped_key, note = secret if key == "-" else "", ""
    with _print_key_on_failure(piped_key):
        if app is None and (model or only):
            raise click.UsageError("--model and --only need --for")
        named = None if token is None else run(lambda client: client.token(token))
        secret = _check_key(secret, named, is_option=key is not None)
        if app is None:
            note = "" if secret else _key_note(named)
            _print_variables(secret, shell_kind)
        else:
            snippets = _snippets(app, secret, named, model, only)
            _print_guide(snippets, shell_kind)
            settings = "\n".join(snippet.lines(shell_kind) for snippet in snippets)
            if not secret:
                note = _app_key_note(settings, app, token, only)
            elif piped_key not in settings:  # it cannot be read again
                note = f"the printed settings do not contain the key; save it now: {piped_key}"
    notify(note)


@contextmanager
def _print_key_on_failure(key: str) -> Iterator[None]:
    """Print a key that was read from a pipe if the block fails, because it can be read only once."""
    try:
        yield
    except (GatewayError, click.ClickException):
        if key.startswith(PREFIX):
            notify(f"nothing was printed for this key; save it now: {plain(key)}")
        raise


def target_of(models: Sequence[ModelView], *, base_url: str, key: str, model: str | None) -> AppTarget:
    """Returns the gateway as apps need it. Raises Quit if the token sees no models, or not the named one."""
    target = AppTarget.of(base_url, models, model=model or "", key=key)
    if not target.models:
        raise Quit("the token sees no models; 'tollkeeper doctor' finds out why", Exit.NOT_FOUND)
    if target.model not in target.models:
        names = ", ".join(target.models)
        raise Quit(f"the token does not see model '{target.model}'; it sees: {names}", Exit.NOT_FOUND)
    return target


def _snippets(app: str, key: str, named: TokenView | None, model: str | None, only: str | None) -> Sequence[Snippet]:
    """Returns the app's snippets; with ``only``, just the first one with variables or with a file. Raises Quit."""
    program = find_app(app)

    async def fetch_models(client: ControlClient) -> tuple[Sequence[ModelView], str]:
        token = named or await _choose_token(client, key, app)
        models = await client.models(token.id)
        if model:
            return models, model
        calls = await recent_calls(client, token.id)
        return models, choose_model([view.name for view in models], calls, program.family)[0]

    models, first_model = run(fetch_models)
    snippets = program.setup(target_of(models, base_url=_address(), key=key, model=first_model)).guide
    if only is None:
        return snippets
    selected = [snippet for snippet in snippets if (snippet.is_file if only == "file" else snippet.variables)]
    if not selected:
        raise Quit(f"{app} has no {only.removesuffix('s')} to set; leave --only out", Exit.USAGE)
    return selected[:1]


async def _choose_token(client: ControlClient, key: str, app: str) -> TokenView:
    """Returns the token with this key, else the app's, or the one used last. Raises Quit."""
    tokens = await client.tokens()
    if key:
        tokens = [token for token in tokens if token.hint == hint(key)]
        if not tokens:
            raise Quit("no token of this gateway has that key; 'tollkeeper token list' lists the tokens", Exit.TOKEN)
    else:
        tokens = [token for token in tokens if not token.temporary]
    if not tokens:
        raise Quit("no tokens yet; create one: tollkeeper token add NAME", Exit.NOT_FOUND)
    named_like_app = [token for token in tokens if token.name == app]
    active = [token for token in tokens if token.state == "active"]
    return named_like_app[0] if named_like_app else last_used_token(active or tokens)


def _print_variables(key: str, shell: Shell) -> None:
    """Print the base URL and the key as an SDK reads them; without a key, the line of the key is a comment."""
    if wants_json():
        out_json({URL_VARIABLE: _address(), KEY_VARIABLE: key or None})
        return
    for line in environment(_address(), key, shell).splitlines():
        out(f"# {line}" if KEY_VARIABLE in line and not key else line)


def _print_guide(snippets: Sequence[Snippet], shell: Shell) -> None:
    parts = [(snippet.place, snippet.lines(shell)) for snippet in snippets]
    if wants_json():
        out_json([{"where": place, "text": text} for place, text in parts])
        return
    for_eval = bool(snippets[0].variables) and not is_terminal()
    for number, (place, text) in enumerate(parts):
        notify(f"\N{RIGHTWARDS ARROW} {place}:")
        commented = for_eval and number > 0  # else eval "$(tollkeeper env …)" would run them
        out("\n".join(f"# {line}".rstrip() for line in text.splitlines()) if commented else text)


def _read_key(option: str | None) -> str:
    """Returns the key in ``--key``, on stdin, or in the environment, or an empty string."""
    if option == "-":
        return stdin.read_secret("key", "without --key, a placeholder is printed")
    environment_key = key_in(os.environ)
    return option or (environment_key if environment_key.startswith(PREFIX) else "")


def _check_key(key: str, named: TokenView | None, *, is_option: bool) -> str:
    """Returns the key; empty if it is another token's. Raises Quit for another token's in ``--key`` (``is_option``)."""
    if named is None or not key or named.hint == hint(key):
        return key
    if is_option:
        raise Quit(f"the key does not belong to token '{plain(named.name)}', whose key is {named.hint}", Exit.TOKEN)
    return ""


def _address() -> str:
    """Returns the base URL of the running server, else the configured or the last one. Raises Quit if none is known."""
    try:
        if address := run(lambda client: client.status(), running=True).address:
            return address
    except Quit as error:
        if error.exit_code is not Exit.UNREACHABLE:
            raise
    config = current_config()
    last = last_address(config.last_address)
    if last and not (config.address_given and config.port):
        return last
    if not config.port:
        raise Quit("the port is chosen when the server starts; 'tollkeeper serve' prints it", Exit.UNREACHABLE)
    return own_address(config.host, config.port)


def _app_key_note(settings: str, app: str, token: str | None, only: str | None) -> str:
    """Returns a note on how to get a key, for settings that have a placeholder instead of it, or do not need it."""
    token_exists = token is not None or app in [view.name for view in run(lambda client: client.tokens())]
    create = f"tollkeeper token {'rotate' if token_exists else 'add'} {word(token or app)}"
    if PLACEHOLDER_KEY in settings:
        command = f"{create} | tollkeeper env --for {word(app)} --key -"
        return f"{PLACEHOLDER_KEY} stands for the key, which is not stored; with a new key: {command}"
    return "" if only else f"the key is not stored; for a new one: {create}"


def _key_note(named: TokenView | None) -> str:
    if named is None and not is_home(current_config().home):
        return "no tokens yet: 'tollkeeper serve' creates the first one, and shows its key"
    if named is None:
        return "the key was shown when the token was created; for a new one: tollkeeper token rotate NAME"
    rotate = f"tollkeeper token rotate {word(named.name)}"
    return f"the key of '{plain(named.name)}' is {named.hint}; for a new one: {rotate}"
