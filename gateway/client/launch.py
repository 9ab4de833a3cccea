"""Launch: finds the running server, starts one, and stops one.

A server is alive if it returns the instance id in the runfile; a process id alone proves nothing. A server that we
start outlives us: it gets its own session (on Windows its own process group), so that no key press in our terminal
reaches it. Its messages go to the log in the home, but its results go nowhere, because a log must not contain secrets.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import platformdirs

from gateway.client.control import ControlClient
from gateway.client.http import is_listening, too_many_files
from gateway.config import ENV_PREFIX, Config, make_home
from gateway.domain.errors import GatewayError, Unavailable
from gateway.domain.text import plain
from gateway.runfile import Endpoint, read

START_S = 15.0
"""The time that a server may take until it answers, in seconds."""

BUSY_S = 5.0
"""How long to wait for a home that a command or a stopping server still uses, in seconds."""

STORE_FAILED = 8
"""The exit code of a server whose home is in use or damaged."""

_WINDOWS_FLAGS = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0) | getattr(subprocess, "CREATE_NO_WINDOW", 0)
"""A process group without a window: children of a detached process would open consoles."""

POLL_S = 0.03
"""The time between two looks at a server that starts or stops, in seconds."""
ASK_S = 3.0
"""How long to wait for the instance id of a server, in seconds."""


class Child(subprocess.Popen[bytes]):
    """A process that is meant to outlive us, so Python must not warn that it is still running."""

    def __del__(self) -> None:
        return


def spawn(config: Config) -> Child:
    """Start a server in a process of its own. Raises Unavailable if home, log or program cannot be used."""
    # packaged servers unpack themselves here; ``frozen`` deletes what dead ones leave
    cache = Path(platformdirs.user_cache_dir("tollkeeper", appauthor=False))
    try:
        make_home(config.home)
        if is_frozen():
            cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        log = os.open(config.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0), 0o600)
        with os.fdopen(log, "ab") as stderr:
            return Child(
                command(config),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # results, such as a first token's key, need a reader
                stderr=stderr,
                cwd=config.home,
                env=environment(config, os.environ, cache),
                start_new_session=os.name != "nt",
                creationflags=_WINDOWS_FLAGS,
            )
    except OSError as exc:
        place = f" ({exc.filename})" if exc.filename else ""
        raise Unavailable(f"the server cannot be started: {exc.strerror}{place}", code="start_failed") from exc


def kill(child: Child) -> None:
    """Kill a child that did not start properly, and all processes that it has started."""
    with suppress(OSError):
        if os.name == "nt":
            child.kill()
        else:
            os.killpg(child.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        child.wait(5)


def command(config: Config) -> list[str]:
    """Returns the command line that starts the server: the packaged program, or this Python with ``cli.py``."""
    program = [sys.executable]
    if not is_frozen():
        program.append(str(Path(__file__).resolve().parents[2] / "cli.py"))
    address = ["--host", config.host, "--port", str(config.port), "--drain", f"{config.drain_s:g}"]
    # nobody would see the key of a first token
    return [*program, "serve", "--home", str(config.home), *address, "--no-token"]


def environment(config: Config, environ: Mapping[str, str], cache: Path) -> dict[str, str]:
    """Returns the child's environment.

    A packaged child unpacks itself again, into our cache: the parent's folder is deleted when the parent ends, and a
    cleaner of ``/tmp`` could delete files of a running server.
    """
    variables = {**environ, f"{ENV_PREFIX}STARTER": config.starter}
    if is_frozen():
        variables["PYINSTALLER_RESET_ENVIRONMENT"] = "1"
        variables["TMPDIR"] = str(cache)
    return variables


def is_frozen() -> bool:
    """Returns whether this is the packaged program."""
    return bool(getattr(sys, "frozen", False))


def tail(log: Path, begin: int = 0) -> list[str]:
    """Returns the last lines of a log after ``begin`` bytes, without control characters: at most twelve, of 16 KiB."""
    with suppress(OSError), log.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(min(begin, end), end - 16_384))
        text = file.read(16_384).decode("utf-8", "replace")
        return [plain(line) for line in text.splitlines() if line.strip()][-12:]
    return []


async def find(config: Config) -> Endpoint | None:
    """Returns the server on this home; None if none answers. Raises Unavailable if no more files can be opened."""
    try:
        return await find_unless_silent(config)
    except Unavailable as error:
        if error.code == "too_many_files":
            raise
        return None


async def find_unless_silent(config: Config) -> Endpoint | None:
    """Returns the server on this home, or None if it has none. Raises Unavailable if a process listens at its control
    socket but does not answer, if the home cannot be read, and if no more files can be opened.
    """
    try:
        endpoint = read(config.runfile)
    except PermissionError as exc:
        text = f"{config.runfile} cannot be read; make the data folder yours, or name another one with --home"
        raise Unavailable(text, code="store_failed") from exc
    except OSError as exc:
        raise too_many_files(exc) from exc
    if endpoint is None:
        return None
    try:
        instance = await ControlClient(endpoint, timeout_s=ASK_S).instance()
    except GatewayError as error:
        if error.code == "too_many_files":
            raise
        is_silent = error.code in ("server_slow", "server_gone") and endpoint.socket  # a port may be another program's
        if is_silent and await is_listening(endpoint):
            raise _silent_error(config, endpoint, error) from error
        return None
    return endpoint if instance == endpoint.instance else None


async def is_running(endpoint: Endpoint) -> bool:
    """Returns whether the server that wrote this runfile is alive."""
    with suppress(GatewayError):
        return await ControlClient(endpoint, timeout_s=ASK_S).instance() == endpoint.instance
    return False


async def ensure(config: Config) -> Endpoint:
    """Returns the running server, or starts one. Raises Unavailable if it does not start."""
    return await find(config) or await start(config)


async def start(config: Config) -> Endpoint:
    """Start a server in the background, once no command uses the home. Returns the server that answers.

    That is another one if a second process starts one at the same time: ours finds the home in use, and ends.
    Raises Unavailable with the end of the log if the server ends at once, or does not answer within ``START_S``.
    """
    deadline = asyncio.get_running_loop().time() + BUSY_S
    while True:
        begin = config.log.stat().st_size if config.log.exists() else 0
        child = spawn(config)
        endpoint = await _first_answer(config, child, begin)
        if endpoint is not None:
            return endpoint
        if child.returncode != STORE_FAILED or asyncio.get_running_loop().time() >= deadline:
            await find_unless_silent(config)  # its error says more
            raise _start_error(config, begin, f"the server ended with status {child.returncode} before it answered")
        await asyncio.sleep(POLL_S)


async def stop(endpoint: Endpoint, *, now: bool = False, wait_s: float = 60.0) -> None:
    """Tell a server to stop, and wait for it. Raises Unavailable if it still answers after ``wait_s`` seconds."""
    client = ControlClient(endpoint, timeout_s=ASK_S)
    with suppress(Unavailable):
        await client.stop(now=now)
    try:
        async with asyncio.timeout(wait_s):
            while await is_running(endpoint):  # noqa: ASYNC110 - the event happens in another process
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        span = f"{wait_s:g} second{'' if wait_s == 1 else 's'}"
        text = f"the server still waits for running calls after {span}; 'tollkeeper stop --now' ends them"
        raise Unavailable(text, code="still_draining") from None


async def _first_answer(config: Config, child: Child, begin: int) -> Endpoint | None:
    """Returns the first server that answers, which may be another one; None if the child ends before that."""
    try:
        async with asyncio.timeout(START_S):
            while child.poll() is None:
                if (endpoint := await find(config)) is not None:
                    return endpoint
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        kill(child)
        raise _start_error(config, begin, f"the server did not answer within {START_S:.0f} seconds") from None
    except BaseException:
        kill(child)
        raise
    return await find(config)


def _silent_error(config: Config, endpoint: Endpoint, error: GatewayError) -> Unavailable:
    reason = "it answers too late" if error.code == "server_slow" else "it closes the connection"
    silence = f"the server of {config.home} (pid {endpoint.pid}) is running but does not answer: {reason}"
    advice = f"see {config.log.name} in its data folder, or its output"
    text = f"{silence}. It may have reached its limit of open files, or hang; {advice}"
    return Unavailable(text, code="server_slow")


def _start_error(config: Config, begin: int, text: str) -> Unavailable:
    """Returns the error of a failed start, with the reason that the server logged, or with the end of its log."""
    lines = tail(config.log, begin)
    if lines and lines[-1].startswith("tollkeeper: "):  # as every failed command writes
        return Unavailable(f"the server did not start: {lines[-1].removeprefix('tollkeeper: ')}", code="start_failed")
    output = "; its last output:\n" + "\n".join(lines) if lines else f"; it wrote nothing to {config.log}"
    return Unavailable(text + output, code="start_failed")
