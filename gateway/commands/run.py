"""``run``: starts a program with its environment pointed at this gateway, and a token that ends with it.

The key reaches the program through its environment or a file of ours that only this user can read, never through a
command line. The token expires by itself if ``run`` is killed; while ``run`` lives, it is extended.
"""

import os
import secrets
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import click
import msgspec

from gateway.client.app import KEY_VARIABLE, App, Launch
from gateway.client.apps import app_of_program, demand_api, find_app, generic_launch
from gateway.client.control import ControlClient
from gateway.client.model_choice import FormerRuns, usual_model
from gateway.client.test_call import demand_serving
from gateway.commands import stdin
from gateway.commands.base import Command
from gateway.commands.completion import GROUPS, MODELS, complete_apps
from gateway.commands.env import target_of
from gateway.commands.exit_codes import Exit, Quit
from gateway.commands.options import SOME, ParsedText, WholeNumber, given_values, now
from gateway.commands.output import words
from gateway.commands.session import run
from gateway.commands.signal_relay import SignalRelay
from gateway.domain.budget import Budget, Window
from gateway.domain.errors import BadRequest, GatewayError
from gateway.domain.human_values import count_text, parse_future
from gateway.domain.money import brief_dollars, parse_dollars
from gateway.domain.text import plain, word
from gateway.domain.units import Millis, Nanos
from gateway.domain.views import NewToken, TokenView

LEASE_MS = 12 * 3_600_000
"""Milliseconds for which a token lives without being extended by ``run``."""
OWN_BUDGET = "token_quota"
"""The start of error codes of calls whose token's budget is too small."""
LOOPBACK = "127.0.0.1,localhost,::1"

WHEN: ParsedText[Millis] = ParsedText("when", lambda text: parse_future(text, now()))


def _total(text: str) -> int:
    """Returns the dollars for the whole run; ``ever=2`` as for tokens is the same. Raises BadRequest for
    other windows.
    """
    window, equals, amount = text.rpartition("=")
    if equals and window != Window.EVER:
        raise BadRequest(f"{text!r} has a window, but the budget is for the whole run: --budget {plain(amount) or 2}")
    return parse_dollars(amount)


TOTAL: ParsedText[int] = ParsedText("dollars", _total)


@click.command(
    "run",
    cls=Command,
    context_settings={"allow_interspersed_args": False},  # options after the program are its own
    examples=[
        "tollkeeper run --budget 2 -- claude",
        "tollkeeper run --model qwen3:8b -- codex exec 'fix the failing test'",
        "tollkeeper run --for langchain -- python agent.py",
    ],
)
@click.option(
    "--for",
    "app",
    type=SOME,
    metavar="APP",
    shell_complete=complete_apps,
    help="The app that PROGRAM is; 'env --help' lists them.",
)
@click.option("--budget", type=TOTAL, metavar="DOLLARS", help="How much it may spend in total.")
@click.option(
    "--model",
    type=SOME,
    shell_complete=MODELS,
    help="The model to begin with (default: the one that this program called last; see docs/apps.md).",
)
@click.option(
    "--hold-output",
    type=WholeNumber(min=1),
    metavar="TOKENS",
    help="Hold at most this many output tokens for each call; see 'token edit --help'.",
)
@click.option(
    "--fit-output/--no-fit-output",
    default=True,
    help="Lower a call's output limit to what the budget still pays for, or reject the call.",
)
@click.option("--group", type=SOME, shell_complete=GROUPS, help="The group of its token (default: the usual one).")
@click.option("--expires", type=WHEN, help="When its token ends at the latest: 2h, 30d, 2026-12-31.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="[--] PROGRAM [ARGUMENT]...")
def run_program(
    app: str | None,
    budget: int | None,
    model: str | None,
    group: str | None,
    expires: Millis | None,
    command: tuple[str, ...],
    *,
    hold_output: int | None,
    fit_output: bool,
) -> None:
    """Start PROGRAM with its environment pointed at this gateway.

    The program gets a token of its own, which is named after the program and the folder and ends with the program. None
    of its settings files is changed. The command ends with the program's exit code. A program that 'env --for' does not
    know gets the variables that OpenAI's and Anthropic's SDKs read.
    """
    program = shutil.which(command[0])
    if program is None:
        raise Quit(f"no program '{plain(command[0])}' in PATH", Exit.NOT_FOUND)
    name = app or app_of(program, command[1:])
    if app is not None:
        find_app(app)
    else:
        demand_api(program)
    runs = FormerRuns(program=_label(program, command[1:]), folder=Path.cwd().name or "root", arguments=command[1:])
    body: dict[str, Any] = {
        "name": f"{runs.program}-{runs.folder}-{secrets.token_hex(3)}",
        "note": _note(runs.program),
        "expires": expires or now() + LEASE_MS,
        "budgets": [Budget(window=Window.EVER, nanos=Nanos(budget))] if budget is not None else [],
    }
    body |= given_values(group=group, hold_output=hold_output) | {"fit_output": fit_output}
    with (
        SignalRelay() as relay,
        _own_token(body, renewed=expires is None) as created,
        tempfile.TemporaryDirectory(prefix="tollkeeper-run-", ignore_cleanup_errors=True) as private,
    ):
        folder = Path(private)  # only this user can read it
        launch, environment = run(lambda client: _prepare(client, created, name, model or runs, folder), running=True)
        if launch.warning:
            words(f"note: {launch.warning}")
        with _own_files(launch, folder):
            code = relay.supervise([program, *launch.arguments, *command[1:]], environment)
        if launch.note and stdin.on_terminal() and _has_called(created):
            words(launch.note)
    click.get_current_context().exit(code)


def app_of(program: str, arguments: Sequence[str]) -> str:
    """Returns the name of the started app, also for ``python -m NAME``; empty if unknown."""
    return app_of_program(program) or app_of_program(_module(program, arguments))


def _module(program: str, arguments: Sequence[str]) -> str:
    """Returns the module started as ``python -m NAME``; empty if none is."""
    is_python = Path(program).name.casefold().startswith("python")
    return arguments[1] if is_python and len(arguments) > 1 and arguments[0] == "-m" else ""


async def _prepare(
    client: ControlClient, created: NewToken, name: str, model: str | FormerRuns, folder: Path
) -> tuple[Launch, Mapping[str, str]]:
    """Returns how the program is started and its environment, and prints the chosen model.

    Raises Quit if its token does not see that.
    """
    models = await client.models(created.token.id)
    seen = {view.name for view in models}
    app, chosen = find_app(name) if name else None, ""
    if by_option := not isinstance(model, FormerRuns):
        first = model
    elif named := [name for name in model.model_arguments if name in seen]:
        first = named[0]
    else:
        family = app.family if app else ()
        choice = await usual_model(client, [view.name for view in models], family=family, runs=model)
        chosen = f"{model.program} begins with {plain(choice.model)}, {choice.reason}; --model chooses another one"
        first = choice.model
    target = target_of(models, base_url=(await client.status()).address, key=created.key, model=first)
    launch = app.launched(target, folder) if app else generic_launch(target)
    if app and launch != app.launched(msgspec.structs.replace(target, model=""), folder):
        if chosen:
            words(chosen)
    elif by_option:
        words(f"note: --model has no effect on {_who_names_models(app)}")
    variables = {KEY_VARIABLE: created.key, **launch.variables}
    if launch.folder_variable:
        variables[launch.folder_variable] = str(folder)
    kept = {variable: value for variable, value in os.environ.items() if variable not in variables}
    environment = {**launch.defaults, **kept, **{variable: value for variable, value in variables.items() if value}}
    if any(variable.lower() in ("http_proxy", "all_proxy") for variable in environment):
        for variable in ("no_proxy", "NO_PROXY"):  # some programs read the one, some the other
            environment[variable] = ",".join(filter(None, (environment.get(variable), LOOPBACK)))
    return launch, environment


def _who_names_models(app: App | None) -> str:
    if app is None:
        return "a program that is not recognized; --for APP says which it is"
    return f"a program like this one ({app.title}): nothing but the program itself says which model it calls"


@contextmanager
def _own_token(body: dict[str, Any], *, renewed: bool) -> Iterator[NewToken]:
    """Create a token for the block. At the end it is removed if it made no call, else it is made to expire."""

    async def create(client: ControlClient) -> NewToken:
        demand_serving(await client.status())
        return await client.add_token(body)

    created = run(create, running=True)
    over, started = threading.Event(), True
    renewal = threading.Thread(target=_renew, args=(click.get_current_context(), created.token.id, over), daemon=True)
    try:
        if renewed:
            renewal.start()
        yield created
    except (GatewayError, Quit):
        started = False
        raise
    finally:
        over.set()
        if renewed:
            renewal.join()  # an extension that is under way must not come after the end
        try:
            text = run(lambda client: _end(client, created.token), running=True)
            if started:
                words(text)
        except (GatewayError, Quit) as error:
            words(f"the token '{created.token.name}' could not be ended and expires by itself: {error}")


def _has_called(created: NewToken) -> bool:
    """Returns whether the program made a call. Without a server that is unknown, so it may have."""
    try:
        return bool(run(lambda client: client.calls(token=created.token.id, limit=1), running=True).calls)
    except (GatewayError, Quit):
        return True


async def _end(client: ControlClient, token: TokenView) -> str:
    """End the token. Returns a line that says what it was used for."""
    view = await client.token(token.id)
    last = (await client.calls(token=token.id, limit=1)).calls
    if not (view.calls or last):
        await client.remove_token(token.id)
        return f"{plain(view.name)}: no calls"
    await client.edit_token(token.id, {"expires": now()})
    calls = f"{count_text(view.calls, 'call')}, {brief_dollars(view.spent_nanos)}"
    why = plain(last[0].error.partition("; ")[0]) if last else ""
    if last and last[0].code.startswith(OWN_BUDGET):
        calls += f"; a call was refused: {why}. Give it more: tollkeeper run --budget DOLLARS"
    elif not view.calls:
        calls = f"no call was accepted: {why}"
    return f"{plain(view.name)}: {calls}; see tollkeeper usage list --token {word(view.name)}"


def _renew(context: click.Context, token: str, over: threading.Event) -> None:
    """Extend the token now and then, in a thread. The history names the command there too."""
    while not over.wait(LEASE_MS / 2_000):
        with suppress(GatewayError, Quit, OSError), context.scope(cleanup=False):  # the server may be starting again
            run(lambda client: client.edit_token(token, {"expires": now() + LEASE_MS}), running=True)


@contextmanager
def _own_files(launch: Launch, folder: Path) -> Iterator[None]:
    """Put our files into it, and links to everything else in the program's real folder, which also keeps what
    is new.
    """
    for name, text in launch.files.items():
        with os.fdopen(
            os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8"
        ) as file:
            file.write(text)
    if not launch.folder_variable:
        yield
        return
    real = Path(os.environ.get(launch.folder_variable) or click.get_app_dir(launch.folder_default))
    linked = set()
    with suppress(OSError):  # there may be none, and Windows may not allow links
        for entry in real.iterdir():
            if entry.name not in launch.files:
                (folder / entry.name).symlink_to(entry)
                linked.add(entry.name)
    try:
        yield
    finally:
        written = [entry for entry in folder.iterdir() if entry.name not in launch.files and not entry.is_symlink()]
        saved = [_keep(entry, real / entry.name, replace=entry.name in linked) for entry in written]
        if not all(saved):
            _leave(folder, launch)


def _keep(entry: Path, place: Path, *, replace: bool) -> bool:
    """Copy what the program wrote into its real folder, beside what another program wrote there meanwhile.

    A file is replaced at once, also through a link, or stays as it was. Returns whether the copy is there.
    """
    taken = place.exists() and not replace
    shown = place.with_name(f"{place.name}-{secrets.token_hex(3)}") if taken else place
    place = Path(os.path.realpath(shown))
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".tollkeeper-", dir=place.parent, ignore_cleanup_errors=True) as beside:
            copy = Path(beside, entry.name)
            if entry.is_dir():
                shutil.copytree(entry, copy, symlinks=True)
            else:
                shutil.copy2(entry, copy)
            copy.replace(place)
    except OSError as error:
        why = plain(error.strerror or str(error), 1_000)
        words(f"{plain(entry.name)} could not be saved in {plain(str(place.parent), 1_000)}: {why}")
        return False
    if taken:
        name = plain(entry.name)
        words(f"note: another program wrote {name} meanwhile; that of this one is {plain(str(shown), 1_000)}")
    return True


def _leave(folder: Path, launch: Launch) -> None:
    """Keep our folder under another name, without the files that contain the key."""
    with suppress(OSError):
        for name in launch.files:
            (folder / name).unlink(missing_ok=True)
        kept = folder.rename(folder.with_name(f"{folder.name}-kept"))
        words(f"what the program wrote is in {plain(str(kept), 1_000)}: copy it before your system removes it")


def _label(program: str, arguments: Sequence[str]) -> str:
    """Returns the program's name for its token: the file's, or for a known program its module's."""
    module = _module(program, arguments)
    if app_of_program(module):
        return module
    return Path(program).stem if os.name == "nt" else Path(program).name


def _note(program: str) -> str:
    """Returns what the token is for: program, folder, repository and branch."""
    parts = [f"run of {program} in {Path.cwd()}"]
    if top := _git("rev-parse", "--show-toplevel"):
        parts.append(f"repository {Path(top).name}")
        parts.append(f"branch {_git('rev-parse', '--abbrev-ref', 'HEAD') or 'none'}")
    return plain(", ".join(parts), limit=500)


def _git(*arguments: str) -> str:
    """Returns git's output in this folder; empty on failure."""
    git = shutil.which("git")
    if git is None:
        return ""
    try:
        done = subprocess.run([git, *arguments], capture_output=True, text=True, timeout=2.0, check=False)
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
