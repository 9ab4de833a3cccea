"""Launch: find the running server, start one as a child that outlives us, stop one.

A server is alive when its status echoes the instance of the runfile; a process id alone proves nothing. The child gets
its own session (a process group on Windows), so that no key press in our terminal reaches it.
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
from gateway.config import Config
from gateway.domain.errors import GatewayError, Unavailable
from gateway.domain.text import plain
from gateway.runfile import Endpoint, read

START_S = 15.0
"""How long a server may take to begin to answer."""

ONE_FILE_S = 0.3
"""How long a child in one file may take to find that another server was faster."""

POLL_S = 0.03
ASK_S = 3.0
TAIL_LINES = 12
TAIL_BYTES = 16 * 1024


class Child(subprocess.Popen[bytes]):
    """A process that is meant to outlive us: letting go of it while it runs is no mistake to be warned of."""

    def __del__(self) -> None:
        return


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """A running server, and its process if it is our child."""

    endpoint: Endpoint
    child: Child | None = None

    @property
    def started_here(self) -> bool:
        """Whether it was started by us and not found."""
        return self.child is not None


async def find(config: Config) -> Endpoint | None:
    """The server that runs on this home; None if there is none that answers as itself."""
    endpoint = read(config.runfile)
    if endpoint is None or not await answers(endpoint):
        return None
    return endpoint


async def answers(endpoint: Endpoint) -> bool:
    """Whether the server of this runfile is alive and is the one that wrote it."""
    try:
        status = await ControlClient(endpoint, timeout_s=ASK_S).status()
    except GatewayError:
        return False
    return status.instance == endpoint.instance


async def ensure(config: Config) -> Server:
    """The running server, or a new one. Raises Unavailable when none comes up."""
    if (endpoint := await find(config)) is not None:
        return Server(endpoint=endpoint)
    return await start(config)


async def start(config: Config) -> Server:
    """A new server in the background; its words go to the log in the home.

    Raises Unavailable with the end of that log when it ends at once or does not answer within 15 seconds. If another
    starter was faster, its server is given.
    """
    config.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    begin = _size(config.log)
    child = _spawn(config)
    try:
        async with asyncio.timeout(START_S):
            while (endpoint := await find(config)) is None:
                if child.poll() is not None:
                    break
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        _kill(child)
        raise _failure(config, begin, f"the server did not answer within {START_S:.0f} seconds") from None
    except BaseException:
        _kill(child)
        raise
    if endpoint is None:
        return await _beaten(config, child, begin)
    if await _is_foreign(endpoint, child):
        return Server(endpoint=endpoint)
    if is_one_file():
        await asyncio.to_thread(sweep, cache_of(config), endpoint.started / 1000 - START_S)
    return Server(endpoint=endpoint, child=child)


async def stop(endpoint: Endpoint, *, now: bool = False, wait_s: float = 60.0) -> None:
    """Ask a server to drain and end, and wait until it is gone.

    Raises Unavailable when it still answers after ``wait_s`` seconds; it then goes on draining.
    """
    client = ControlClient(endpoint, timeout_s=ASK_S)
    with suppress(Unavailable):
        await client.stop(now=now)
    try:
        async with asyncio.timeout(wait_s):
            while await answers(endpoint):  # noqa: ASYNC110 - the event happens in another process
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        raise Unavailable(
            f"the server still waits for running calls after {wait_s:.0f} seconds; 'tollkeeper stop --now' ends them",
            code="still_draining",
        ) from None


def command(config: Config) -> list[str]:
    """How the server is started: the frozen program itself, or this Python with ``cli.py``."""
    program = [sys.executable]
    if not getattr(sys, "frozen", False):
        program.append(str(Path(__file__).resolve().parents[2] / "cli.py"))
    return [*program, "serve", "--home", str(config.home), "--host", config.host, "--port", str(config.port)]


def environment(environ: Mapping[str, str], cache: Path) -> dict[str, str]:
    """The child's environment.

    A frozen child unpacks itself anew and into our cache: the parent's folder is deleted when the parent ends, and
    cleaners of ``/tmp`` know nothing of servers.
    """
    child = dict(environ)
    if getattr(sys, "frozen", False):
        child["PYINSTALLER_RESET_ENVIRONMENT"] = "1"
        child["TMPDIR"] = str(cache)
    return child


def cache_of(config: Config) -> Path:
    """Where the frozen server of this home unpacks itself; each home has a folder of its own."""
    name = hashlib.sha256(os.fsencode(config.home)).hexdigest()[:16]
    return Path(platformdirs.user_cache_dir("tollkeeper", appauthor=False)) / name


def sweep(cache: Path, before_s: float) -> None:
    """Delete what killed servers unpacked and left: all that is older than our server, which holds the home's lock."""
    for folder in cache.glob("_MEI*"):
        with suppress(OSError):
            if folder.stat().st_mtime < before_s:
                shutil.rmtree(folder)


def _spawn(config: Config) -> Child:
    cache = cache_of(config)
    if getattr(sys, "frozen", False):
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(config.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        return Child(
            command(config),
            stdin=subprocess.DEVNULL,
            stdout=handle,
            stderr=handle,
            cwd=config.home,
            env=environment(os.environ, cache),
            start_new_session=os.name != "nt",
            creationflags=_windows_flags(),
        )
    except OSError as exc:
        raise Unavailable(f"the server cannot be started: {exc}", code="start_failed") from exc
    finally:
        os.close(handle)


def _windows_flags() -> int:
    """A group of its own and no window, but not detached: a detached child's own children would pop up consoles."""
    if sys.platform == "win32":
        return subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
    return 0


async def _is_foreign(endpoint: Endpoint, child: Child) -> bool:
    """Whether another starter's server was faster; then our child finds the home in use and ends.

    A program in one file unpacks itself and runs as a child of the process we know, so there the ids never agree.
    """
    if endpoint.pid == child.pid:
        return False
    with suppress(TimeoutError):
        async with asyncio.timeout(ONE_FILE_S if is_one_file() else START_S):
            while child.poll() is None:  # noqa: ASYNC110 - the event happens in another process
                await asyncio.sleep(POLL_S)
    return child.poll() is not None


def is_one_file() -> bool:
    """Whether this is the frozen program that unpacks itself into a folder elsewhere."""
    unpacked = Path(getattr(sys, "_MEIPASS", sys.executable))
    return not unpacked.is_relative_to(Path(sys.executable).parent)


async def _beaten(config: Config, child: Child, begin: int) -> Server:
    """Our child ended: another server holds the home, or it failed."""
    for _ in range(10):
        if (endpoint := await find(config)) is not None:
            return Server(endpoint=endpoint)
        await asyncio.sleep(POLL_S)
    raise _failure(config, begin, f"the server ended with status {child.returncode} before it answered")


def _failure(config: Config, begin: int, what: str) -> Unavailable:
    lines = tail(config.log, begin)
    said = "; it said:\n" + "\n".join(lines) if lines else f"; it said nothing in {config.log}"
    return Unavailable(what + said, code="start_failed")


def tail(log: Path, begin: int = 0) -> list[str]:
    """The last lines of a log after ``begin`` bytes, made harmless for a terminal."""
    try:
        with log.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(min(begin, end), end - TAIL_BYTES))
            text = file.read(TAIL_BYTES).decode("utf-8", "replace")
    except OSError:
        return []
    return [plain(line) for line in text.splitlines() if line.strip()][-TAIL_LINES:]


def _size(log: Path) -> int:
    try:
        return log.stat().st_size
    except OSError:
        return 0


def _kill(child: Child) -> None:
    """End a child that did not come up, with all it started."""
    with suppress(OSError):
        if os.name == "nt":
            child.kill()
        else:
            os.killpg(child.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        child.wait(5)
