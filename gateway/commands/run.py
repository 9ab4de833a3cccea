"""``run``: starts a program that calls this gateway, with a token that ends when the program does.

The program gets the key in its environment, or in a file that only this user can read, never on a command line. While
``run`` is running, it extends the token; if it is killed, the token expires.
"""

import os
import secrets
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import msgspec

from gateway.client.app import KEY_VARIABLE, App, Launch
from gateway.client.apps import UNKNOWN_PROGRAM, app_of_program, find_app, names_program, program_stem, require_api
from gateway.client.control import ControlClient
from gateway.client.exports import create_private
from gateway.client.model_choice import ProgramStart, choose_model, recent_calls
from gateway.client.test_call import require_serving
from gateway.commands import stdin
from gateway.commands.base import Command
from gateway.commands.completion import MODELS, complete_apps
from gateway.commands.editing import field_options, patch_of
from gateway.commands.env import target_of
from gateway.commands.exit_codes import Exit, Quit
from gateway.commands.options import TEXT, ParsedText, now
from gateway.commands.output import notify
from gateway.commands.session import run
from gateway.commands.signal_relay import SignalRelay
from gateway.domain.budget import Budget, Window
from gateway.domain.errors import BadRequest, GatewayError, NotFound
from gateway.domain.fields import TOKEN
from gateway.domain.human_values import count_text
from gateway.domain.money import brief_dollars, parse_dollars
from gateway.domain.text import plain, word
from gateway.domain.token import TokenFields
from gateway.domain.units import HOUR_MS, Nanos
from gateway.domain.views import NewToken, TokenView

LEASE_MS = 12 * HOUR_MS
"""The time until a token expires unless ``run`` extends it, in milliseconds."""
LOOPBACK = "127.0.0.1,localhost,::1"
RUNNERS = ("bunx", "npx", "pipx", "pnpx", "uvx")
"""Programs that start the package which one of their arguments names."""
PACKAGE_OPTIONS = ("--from", "--package", "--spec", "-p")
"""Their options for a package whose program has another name, which follows."""

FIELDS = [field for field in TOKEN if field.name in ("group", "expires", "hold_output", "fit_output")]
"""The fields of the token that options set as in ``token add``."""


def _parse_total(text: str) -> int:
    """Returns the nano-dollars of ``2``, or of ``ever=2`` as in ``token add``. Raises BadRequest for other windows."""
    window, equals, amount = text.rpartition("=")
    if equals and window != Window.EVER:
        advice = f"use --budget {plain(amount) or 2}"
        raise BadRequest(f"{text!r} has a window, but the budget is for the whole run; {advice}")
    return parse_dollars(amount)


TOTAL: ParsedText[int] = ParsedText("dollars", _parse_total)


@click.command(
    "run",
    cls=Command,
    json_help="",
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
    type=TEXT,
    metavar="APP",
    shell_complete=complete_apps,
    help="The app that PROGRAM is; 'env --help' lists the apps.",
)
@click.option("--budget", type=TOTAL, metavar="DOLLARS", help="How much it may spend in total.")
@click.option(
    "--model",
    type=TEXT,
    shell_complete=MODELS,
    help="The model to start with (default: the one that this program called last; see docs/apps.md).",
)
@field_options(FIELDS)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="[--] PROGRAM [ARGUMENT]...")
def run_program(
    app: str | None, budget: int | None, model: str | None, command: tuple[str, ...], **values: Any
) -> None:
    """Start PROGRAM with an environment that points at this gateway.

    The program gets a token of its own. It is named after the program and the folder, ends with the program, and lowers
    output limits to what is left, unless --no-fit-output is given. The program's settings files stay unchanged. The
    command ends with the program's exit code. A program that 'env --for' does not know gets the variables that OpenAI's
    and Anthropic's SDKs read.
    """
    program = shutil.which(command[0])
    if program is None:
        name = plain(command[0])
        raise Quit(f"no executable at '{name}'" if "/" in name else f"no program '{name}' in PATH", Exit.NOT_FOUND)
    index = program_index(command)
    launcher, arguments = (program, *command[1 : index + 1]), command[index + 1 :]
    if app is None:
        require_api(launcher[-1])
    name = app or app_of_program(launcher[-1])
    known_app = find_app(name) if name else UNKNOWN_PROGRAM
    label, folder = _label(launcher), Path.cwd().name or "root"
    start = ProgramStart(program=label, folder=folder, model=model or "", arguments=arguments)
    chosen = patch_of(FIELDS, values, TokenFields(name="", group=""))
    body = {
        "name": f"{label}-{folder}-{secrets.token_hex(3)}",
        "note": _note(label),
        "expires": now() + LEASE_MS,
        "budgets": [Budget(window=Window.EVER, nanos=Nanos(budget))] if budget is not None else [],
        "fit_output": True,
        **chosen,
    }
    with SignalRelay() as relay, _temporary_token(body, extended="expires" not in chosen) as created:
        code = _supervise(relay, created, launcher, known_app, start)
    click.get_current_context().exit(code)


def _supervise(relay: SignalRelay, created: NewToken, launcher: Sequence[str], app: App, start: ProgramStart) -> int:
    """Run a program with the key of a token. ``launcher``: the words before its arguments. Returns its exit code."""
    with tempfile.TemporaryDirectory(prefix="tollkeeper-run-", ignore_cleanup_errors=True) as private:
        folder = Path(private)  # only this user can read it
        launch, environment = run(lambda client: _prepare(client, created, app, start, folder), running=True)
        if launch.warning:
            notify(f"note: {launch.warning}")
        with private_files(launch, folder):
            code = relay.supervise([*launcher, *launch.arguments, *start.arguments], environment)
        if launch.resume and stdin.is_terminal() and _has_called(created):
            notify(f"To resume the session: tollkeeper run -- {launch.resume}")
    return code


def program_index(command: Sequence[str]) -> int:
    """Returns the index of a known program's name, which is not 0 in ``python -m NAME`` and ``npx NAME``."""
    first = program_stem(command[0])
    for index, (before, name) in enumerate(pairwise(command), start=1):
        is_package = first in RUNNERS and before not in PACKAGE_OPTIONS
        is_module = first.startswith("python") and (index, before) == (2, "-m")
        if (is_package or is_module) and names_program(name):
            return index
        if is_package and not before.startswith("-") and not name.startswith("-") and name != "run":
            break  # another package; what follows are its arguments
    return 0


async def _prepare(
    client: ControlClient, created: NewToken, app: App, start: ProgramStart, folder: Path
) -> tuple[Launch, Mapping[str, str]]:
    """Returns how to start the program, with its environment. Raises Quit if the token does not see the model."""
    models = await client.models(created.token.id)
    names = [view.name for view in models]
    wanted = start.model or next((name for name in start.model_arguments if name in names), "")
    model, reason = wanted, ""
    if not wanted:
        model, reason = choose_model(names, await recent_calls(client, start=start), app.family)
    target = target_of(models, base_url=(await client.status()).address, key=created.key, model=model)
    launch = app.launch_for(target, folder)
    is_model_used = launch != app.launch_for(msgspec.structs.replace(target, model=""), folder)
    if is_model_used:
        if reason:
            chosen = f"{start.program} starts with {plain(model)}, {reason}"
            notify(f"{chosen}; --model chooses another one")
    elif start.model:
        decides = f"a program like this one ({app.title}), which decides itself which model it calls"
        unknown = "an unknown program; --for APP says which app it is"
        notify(f"note: --model has no effect on {unknown if app is UNKNOWN_PROGRAM else decides}")
    return launch, _environment(launch, created.key, folder)


def _environment(launch: Launch, key: str, folder: Path) -> Mapping[str, str]:
    variables = {KEY_VARIABLE: key, **launch.variables}
    if launch.folder_variable:
        variables[launch.folder_variable] = str(folder)
    inherited = {name: value for name, value in os.environ.items() if name not in variables}
    environment = {**launch.defaults, **inherited, **{name: value for name, value in variables.items() if value}}
    if any(name.lower() in ("http_proxy", "all_proxy") for name in environment):
        for name in ("no_proxy", "NO_PROXY"):  # some programs read one of them, some the other
            environment[name] = ",".join(filter(None, (environment.get(name), LOOPBACK)))
    return environment


@contextmanager
def _temporary_token(body: dict[str, Any], *, extended: bool) -> Iterator[NewToken]:
    """Create a token that ends with the block, and is then removed if unused. ``extended``: a thread extends it."""

    async def create(client: ControlClient) -> NewToken:
        require_serving(await client.status())
        return await client.add_token(body)

    created = run(create, running=True)
    ended, has_run = threading.Event(), True
    extension = threading.Thread(
        target=_keep_extending, args=(click.get_current_context(), created.token.id, ended), daemon=True
    )
    try:
        if extended:
            extension.start()
        yield created
    except (GatewayError, Quit):
        has_run = False
        raise
    finally:
        ended.set()
        if extended:
            extension.join()  # a late extension must not follow the end
        try:
            summary = run(lambda client: _end_token(client, created.token), running=True)
            if has_run:
                notify(summary)
        except NotFound:
            notify(f"the token '{created.token.name}' was removed before the program ended")
        except (GatewayError, Quit) as error:
            notify(f"the token '{created.token.name}' could not be ended, but will expire: {error}")


def _has_called(created: NewToken) -> bool:
    """Returns whether the program made a call; True if the server cannot tell."""
    with suppress(GatewayError, Quit):
        return bool(run(lambda client: client.calls(token=created.token.id, limit=1), running=True).calls)
    return True


async def _end_token(client: ControlClient, token: TokenView) -> str:
    """Let the token expire, or remove it if it was never used. Returns a line about its calls."""
    view = await client.token(token.id)
    newest = next(iter((await client.calls(token=token.id, limit=1)).calls), None)
    if not (view.calls or newest):
        await client.remove_token(token.id)
        return f"{plain(view.name)}: no calls"
    await client.edit_token(token.id, {"expires": now()})
    calls = f"{count_text(view.calls, 'call')}, {brief_dollars(view.spent_nanos)}"
    error = plain(newest.error.partition("; ")[0]).rstrip(".") if newest else ""
    if newest and newest.code.startswith("token_quota"):  # a budget of this token
        calls += f"; a call was rejected: {error}. To allow more: tollkeeper run --budget DOLLARS"
    elif newest and newest.state == "running":  # the program was stopped in the middle of it
        calls += "; the last call had not ended yet"
    elif not view.calls:
        calls = f"no call was accepted: {error}"
    elif newest and newest.status >= 400 and newest.code != "client_closed":  # some programs do not show why
        calls += f"; the last call failed: {error}"
    return f"{plain(view.name)}: {calls}; see tollkeeper usage list --token {word(view.name)}"


def _keep_extending(context: click.Context, token: str, ended: threading.Event) -> None:
    """Extend the token every six hours until the program has ended. Runs in a thread, with the command's context."""
    while not ended.wait(LEASE_MS / 2_000):
        with suppress(GatewayError, Quit, OSError), context.scope(cleanup=False):  # the server may be restarting
            run(lambda client: client.edit_token(token, {"expires": now() + LEASE_MS}), running=True)


def _label(launcher: Sequence[str]) -> str:
    """Returns the program's name for its token: the name of the file, or of the module or package."""
    if len(launcher) > 1:
        return program_stem(launcher[-1])
    return Path(launcher[0]).stem if os.name == "nt" else Path(launcher[0]).name


def _note(program: str) -> str:
    """Returns where a program is run: the folder, and its repository and branch by git."""
    note, git = f"run of {program} in {Path.cwd()}", shutil.which("git") or "git"
    with suppress(OSError, ValueError, subprocess.TimeoutExpired):  # it has no repository, or git is missing
        command = [git, "rev-parse", "--show-toplevel", "--abbrev-ref", "HEAD"]
        result = subprocess.run(command, capture_output=True, text=True, timeout=2.0, check=False)
        top, branch = result.stdout.splitlines()
        note += f", repository {Path(top).name}, branch {branch}"
    return plain(note, limit=500)


@contextmanager
def private_files(launch: Launch, folder: Path) -> Iterator[None]:
    """Make ``folder`` the program's folder of settings: our files, and links to what is in the real folder.

    Our files may contain the run's key, so they are never in the real folder. What the program adds is saved there.
    """
    for name, text in launch.files.items():
        with create_private(folder / name) as file:
            file.write(text)
    if not launch.folder_variable:
        yield
        return
    real = Path(os.environ.get(launch.folder_variable) or click.get_app_dir(launch.folder_default))
    with suppress(OSError):  # the folder may not exist, and Windows may not allow links
        for entry in real.iterdir():
            if entry.name not in launch.files:
                (folder / entry.name).symlink_to(entry)
    try:
        yield
    finally:
        for entry in folder.iterdir():
            if entry.name not in launch.files and not entry.is_symlink():
                _save(entry, real)


def _save(entry: Path, real: Path) -> None:
    """Copy what the program added to the real folder, or to a new name there if another program has added that too."""
    name, place = plain(entry.name), plain(str(real), 1_000)
    is_taken = (real / entry.name).exists()
    target = real / (f"{entry.name}-{secrets.token_hex(3)}" if is_taken else entry.name)
    try:
        real.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".tollkeeper-", dir=real, ignore_cleanup_errors=True) as temp:
            copy = Path(temp, entry.name)
            if entry.is_dir():
                shutil.copytree(entry, copy, symlinks=True)
            else:
                shutil.copy2(entry, copy)
            copy.rename(target)
    except OSError as error:
        notify(f"{name} could not be saved in {place}: {plain(error.strerror or str(error), 1_000)}")
        with suppress(OSError):  # the disk may be full
            kept = entry.rename(Path(tempfile.mkdtemp(prefix="tollkeeper-kept-"), entry.name))
            notify(f"what the program wrote is {plain(str(kept), 1_000)}; copy it before the system removes it")
        return
    if is_taken:
        notify(f"note: another program has also written {name}; the version of this one is {plain(str(target), 1_000)}")
