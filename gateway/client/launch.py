"""Finds the running server, starts one, stops one.

A server is alive when it repeats the instance of the runfile; a process id alone proves nothing. A server that
we start outlives us: it gets its own session (a process group on Windows), so that no key press in our terminal reaches
it. Its messages go to the log in the home, its results nowhere, because a log must not hold secrets.
"""

import asyncio
import hashlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
import platformdirs

from gateway.client.control import ControlClient
from gateway.client.http import Address, listens, too_many_files
from gateway.config import Config, make_home
from gateway.domain.errors import GatewayError, Unavailable
from gateway.domain.text import plain
from gateway.runfile import Endpoint, read


class Child(subprocess.Popen[bytes]):
    """A process that is meant to outlive us: leaving it running needs no warning."""

    def __del__(self) -> None:
        return


def spawn(config: Config) -> Child:
    """Start the server of a home. Raises Unavailable when the program cannot be run."""
    cache = cache_of(config)
    if is_frozen():
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = os.open(config.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        return Child(
            command(config),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,  # results, such as a first token's key, need a reader
            stderr=log,
            cwd=config.home,
            env=environment(os.environ, cache),
            start_new_session=os.name != "nt",
            creationflags=_windows_flags(),
        )
    except OSError as exc:
        raise Unavailable(f"the server cannot be started: {exc}", code="start_failed") from exc
    finally:
        os.close(log)


def kill(child: Child) -> None:
    """End a child that did not start up, with everything it started."""
    with suppress(OSError):
        if os.name == "nt":
            child.kill()
        else:
            os.killpg(child.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        child.wait(5)


def command(config: Config) -> list[str]:
    """Returns how the server is started: the frozen program itself, or this Python with ``cli.py``."""
    program = [sys.executable]
    if not is_frozen():
        program.append(str(Path(__file__).resolve().parents[2] / "cli.py"))
    place = ["--home", str(config.home), "--host", config.host, "--port", str(config.port)]
    return [*program, "serve", *place, "--no-token"]  # nobody would see its key


def environment(environ: Mapping[str, str], cache: Path) -> dict[str, str]:
    """Returns the child's environment.

    A frozen child unpacks itself again, into our cache: the parent's folder is deleted when the parent ends, and
    cleaners of ``/tmp`` know nothing about servers.
    """
    child = dict(environ)
    if is_frozen():
        child["PYINSTALLER_RESET_ENVIRONMENT"] = "1"
        child["TMPDIR"] = str(cache)
    return child


def is_frozen() -> bool:
    """Returns whether this is the packaged program, not its source."""
    return bool(getattr(sys, "frozen", False))


def is_one_file() -> bool:
    """Returns whether this is the packaged program that unpacks itself into a folder elsewhere."""
    unpacked = Path(getattr(sys, "_MEIPASS", sys.executable))
    return not unpacked.is_relative_to(Path(sys.executable).parent)


def cache_of(config: Config) -> Path:
    """Returns where the packaged server of this home unpacks itself; each home has a folder of its own."""
    name = hashlib.sha256(os.fsencode(config.home)).hexdigest()[:16]
    return Path(platformdirs.user_cache_dir("tollkeeper", appauthor=False)) / name


def sweep(cache: Path, before_s: float) -> None:
    """Delete folders that killed servers left behind. Ours holds the home's lock, so anything older is unused."""
    for folder in cache.glob("_MEI*"):
        with suppress(OSError):
            if folder.stat().st_mtime < before_s:
                shutil.rmtree(folder)


def log_size(log: Path) -> int:
    """Returns the bytes of a log; 0 if there is none."""
    try:
        return log.stat().st_size
    except OSError:
        return 0


def tail(log: Path, begin: int = 0) -> list[str]:
    """Returns the last lines of a log after ``begin`` bytes, made harmless for a terminal: twelve, of 16 KiB."""
    try:
        with log.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(min(begin, end), end - 16_384))
            text = file.read(16_384).decode("utf-8", "replace")
    except OSError:
        return []
    return [plain(line) for line in text.splitlines() if line.strip()][-12:]


def _windows_flags() -> int:
    """Returns flags for a group of its own and no window, but not detached: a detached child's children would open
    consoles.
    """
    if sys.platform == "win32":
        return subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
    return 0


START_S = 15.0
"""Seconds that a server may take to begin to answer."""


BUSY_S = 5.0
"""Seconds for which a home may be in use by something other than a server: a command on its own, or a server that just
ends."""

STORE_FAILED = 8
"""The program's exit status when the home is in use or damaged."""

POLL_S = 0.03
ASK_S = 3.0


class ServerState(msgspec.Struct, frozen=True, kw_only=True):
    """What was found at a home: a server that answers, one that does not, or neither."""

    endpoint: Endpoint | None = None
    silent: Unavailable | None = None
    """Set if a process listens at the control socket but does not answer."""


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """A running server, and its process if it is our child."""

    endpoint: Endpoint
    child: Child | None = None

    @property
    def started_here(self) -> bool:
        """Returns whether we started it."""
        return self.child is not None


async def find(config: Config) -> Endpoint | None:
    """Returns the server on this home; None if none answers as itself.

    Raises Unavailable if this process can open no more files.
    """
    return (await look(config)).endpoint


async def look(config: Config) -> ServerState:
    """Returns the server on this home, or what is wrong with it. Raises Unavailable as ``find`` does."""
    try:
        endpoint = read(config.runfile)
    except OSError as exc:
        raise too_many_files(exc) from exc
    if endpoint is None:
        return ServerState()
    try:
        instance = await ControlClient(endpoint, timeout_s=ASK_S).instance()
    except GatewayError as error:
        if error.code == "too_many_files":
            raise
        silent = error.code in ("server_slow", "server_gone") and await _is_there(endpoint)
        return ServerState(silent=_silent(config, endpoint, error) if silent else None)
    return ServerState(endpoint=endpoint if instance == endpoint.instance else None)


async def answers(endpoint: Endpoint) -> bool:
    """Returns whether the server of this runfile is alive and wrote it."""
    try:
        instance = await ControlClient(endpoint, timeout_s=ASK_S).instance()
    except GatewayError:
        return False
    return instance == endpoint.instance


async def ensure(config: Config) -> Server:
    """Returns the running server, or a new one. Raises Unavailable when none starts up."""
    if (endpoint := await find(config)) is not None:
        return Server(endpoint=endpoint)
    return await start(config)


async def start(config: Config) -> Server:
    """Start a server in the background.

    Raises Unavailable with the end of its log when it ends at once or does not answer within 15 seconds. If another
    starter was faster, its server is returned; if a command uses the home, it is waited for.
    """
    make_home(config.home)
    deadline = asyncio.get_running_loop().time() + BUSY_S
    while True:
        begin = log_size(config.log)
        child = spawn(config)
        endpoint = await _first_answer(config, child, begin)
        if endpoint is not None:
            return await _server(config, child, endpoint)
        if child.returncode != STORE_FAILED or asyncio.get_running_loop().time() >= deadline:
            if (silent := (await look(config)).silent) is not None:
                raise silent
            raise _failure(config, begin, f"the server ended with status {child.returncode} before it answered")
        await asyncio.sleep(POLL_S)


async def stop(endpoint: Endpoint, *, now: bool = False, wait_s: float = 60.0) -> None:
    """Ask a server to drain and end, and wait until it is gone.

    Raises Unavailable if it still answers after ``wait_s`` seconds; the server keeps draining.
    """
    client = ControlClient(endpoint, timeout_s=ASK_S)
    with suppress(Unavailable):
        await client.stop(now=now)
    try:
        async with asyncio.timeout(wait_s):
            while await answers(endpoint):  # noqa: ASYNC110 - the event happens in another process
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        waited = f"{wait_s:g} second{'' if wait_s == 1 else 's'}"
        raise Unavailable(
            f"the server still waits for running calls after {waited}; 'tollkeeper stop --now' ends them",
            code="still_draining",
        ) from None


async def _first_answer(config: Config, child: Child, begin: int) -> Endpoint | None:
    """Returns the server that answers first, the child's or another one; None if the child ends without one."""
    try:
        async with asyncio.timeout(START_S):
            while child.poll() is None:
                if (endpoint := await find(config)) is not None:
                    return endpoint
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        kill(child)
        raise _failure(config, begin, f"the server did not answer within {START_S:.0f} seconds") from None
    except BaseException:
        kill(child)
        raise
    return await find(config)


async def _server(config: Config, child: Child, endpoint: Endpoint) -> Server:
    if await _is_foreign(endpoint, child):
        return Server(endpoint=endpoint)
    if is_one_file():
        await asyncio.to_thread(sweep, cache_of(config), endpoint.started / 1000 - START_S)
    return Server(endpoint=endpoint, child=child)


async def _is_foreign(endpoint: Endpoint, child: Child) -> bool:
    """Returns whether another starter's server was faster; then our child finds the home in use and ends.

    A one-file program unpacks itself and runs as a child of the process we know, so its ids never agree.
    """
    if endpoint.pid == child.pid:
        return False
    with suppress(TimeoutError):
        # seconds to find that another server was faster
        async with asyncio.timeout(0.3 if is_one_file() else START_S):
            while child.poll() is None:  # noqa: ASYNC110 - the event happens in another process
                await asyncio.sleep(POLL_S)
    return child.poll() is not None


async def _is_there(endpoint: Endpoint) -> bool:
    """Returns whether anything listens at the control socket. A TCP port may have another owner by now, and proves
    nothing.
    """
    return bool(endpoint.socket) and await listens(Address(socket=endpoint.socket))


def _silent(config: Config, endpoint: Endpoint, error: GatewayError) -> Unavailable:
    why = "it answers too late" if error.code == "server_slow" else "it closes the connection"
    return Unavailable(
        f"the server of {config.home} (pid {endpoint.pid}) is running but does not answer: {why}. It may have reached "
        f"its limit of open files, or stuck; see {config.log.name} in its data folder, or what it printed",
        code="server_slow",
    )


def _failure(config: Config, begin: int, what: str) -> Unavailable:
    """Returns the error for a failed start: the reason the server logged, otherwise the end of its log."""
    lines = tail(config.log, begin)
    if lines and lines[-1].startswith("tollkeeper: "):  # why a command failed
        return Unavailable(f"the server did not start: {lines[-1].removeprefix('tollkeeper: ')}", code="start_failed")
    said = "; its last output:\n" + "\n".join(lines) if lines else f"; it wrote nothing to {config.log}"
    return Unavailable(what + said, code="start_failed")
