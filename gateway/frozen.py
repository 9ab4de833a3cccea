"""Frozen: what is special about the one-file executable, which unpacks itself into a folder at every start.

It runs as two processes: an outer one that unpacks, waits and cleans up, and an inner one, which is the program. If the
outer one is killed, the folder stays. So the inner one locks a file in it, and the next server deletes folders whose
file is not locked. The kernel releases the lock when the process ends, however it ends. A process that was killed
before it locked the file leaves a folder without one, which is deleted only where nothing else unpacks itself.
"""

import asyncio
import os
import shutil
import sys
import time
from contextlib import suppress
from pathlib import Path

if sys.platform != "win32":
    import fcntl

MARK = "tollkeeper.lock"
"""The file that is locked by the process that uses the folder."""
CACHE = "tollkeeper"
"""The name of the folder that servers in the background unpack themselves into (``client.launch.spawn``)."""


def folder() -> Path | None:
    """Returns the folder that this process's executable unpacked itself into; None if it is not one-file."""
    unpacked = getattr(sys, "_MEIPASS", "")
    return Path(unpacked) if unpacked and Path(unpacked).name.startswith("_MEI") else None


def lock_own_folder() -> int:
    """Lock this process's folder, and delete dead processes' folders. Returns the descriptor to keep open, or -1."""
    own = folder()
    if own is None or os.name == "nt":  # Windows refuses to delete a folder in use, and has no such lock
        return -1
    is_cache = own.parent.name == CACHE
    for other in own.parent.glob("_MEI*"):
        if other != own and (_is_unlocked(other / MARK) or (is_cache and _is_abandoned(other))):
            shutil.rmtree(other, ignore_errors=True)
    return _lock(own / MARK, os.O_RDWR | os.O_CREAT)


async def wait_for_parent_exit() -> None:
    """Wait until the outer process has ended; forever without one."""
    if folder() is None:
        await asyncio.Event().wait()
    parent = os.getppid()
    while os.getppid() == parent:  # noqa: ASYNC110 - no event reports it
        await asyncio.sleep(1.0)


def _is_unlocked(mark: Path) -> bool:
    """Returns whether the file exists and no process has locked it. Other programs' folders do not have it."""
    descriptor = _lock(mark, os.O_RDWR)
    if descriptor < 0:
        return False
    os.close(descriptor)
    return True


def _is_abandoned(unpacked: Path) -> bool:
    """Returns whether a folder has no file to lock, though its process has had a minute to make one."""
    with suppress(OSError):
        return not (unpacked / MARK).exists() and unpacked.stat().st_mtime_ns < time.time_ns() - 60 * 10**9
    return False


def _lock(mark: Path, flags: int) -> int:
    """Returns the descriptor of the locked file; -1 if it is missing or another process has it."""
    try:
        descriptor = os.open(mark, flags | os.O_CLOEXEC, 0o600)
    except OSError:
        return -1
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return -1
    return descriptor
