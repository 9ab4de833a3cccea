"""Child: the server as a process that we start and that outlives us.

It gets its own session (a process group on Windows), so that no key press in our terminal reaches it. Its words go to
the log in the home, its results nowhere: a log keeps no secrets. The frozen program is its own server.
"""

import hashlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import platformdirs

from gateway.config import Config
from gateway.domain.errors import Unavailable
from gateway.domain.text import plain

TAIL_LINES = 12
TAIL_BYTES = 16 * 1024


class Child(subprocess.Popen[bytes]):
    """A process that is meant to outlive us: letting go of it while it runs is no mistake to be warned of."""

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
            stdout=subprocess.DEVNULL,  # results are for who is there to read them: a first token's key is one
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
    """End a child that did not come up, with all it started."""
    with suppress(OSError):
        if os.name == "nt":
            child.kill()
        else:
            os.killpg(child.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        child.wait(5)


def command(config: Config) -> list[str]:
    """How the server is started: the frozen program itself, or this Python with ``cli.py``."""
    program = [sys.executable]
    if not is_frozen():
        program.append(str(Path(__file__).resolve().parents[2] / "cli.py"))
    place = ["--home", str(config.home), "--host", config.host, "--port", str(config.port)]
    return [*program, "serve", *place, "--no-token"]  # nobody would see its key


def environment(environ: Mapping[str, str], cache: Path) -> dict[str, str]:
    """The child's environment.

    A frozen child unpacks itself anew and into our cache: the parent's folder is deleted when the parent ends, and
    cleaners of ``/tmp`` know nothing of servers.
    """
    child = dict(environ)
    if is_frozen():
        child["PYINSTALLER_RESET_ENVIRONMENT"] = "1"
        child["TMPDIR"] = str(cache)
    return child


def is_frozen() -> bool:
    """Whether this is the program as it is handed out, and not its source."""
    return bool(getattr(sys, "frozen", False))


def is_one_file() -> bool:
    """Whether this is the frozen program that unpacks itself into a folder elsewhere."""
    unpacked = Path(getattr(sys, "_MEIPASS", sys.executable))
    return not unpacked.is_relative_to(Path(sys.executable).parent)


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


def log_size(log: Path) -> int:
    """Bytes of a log; 0 if there is none."""
    try:
        return log.stat().st_size
    except OSError:
        return 0


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


def _windows_flags() -> int:
    """A group of its own and no window, but not detached: a detached child's own children would pop up consoles."""
    if sys.platform == "win32":
        return subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
    return 0
