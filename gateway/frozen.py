"""Frozen: what is special about the one-file executable, which unpacks itself into a folder at every start.

It is two processes: an outer one that unpacks, waits and cleans up, and an inner one, the program. Killed hard, the
outer one leaves the folder behind; so the inner one marks and locks it, and the next server deletes folders that are
marked and not locked. The kernel releases the lock when the process ends, however it ends.
"""

import asyncio
import os
import shutil
import sys
from pathlib import Path

if sys.platform != "win32":
    import fcntl

MARK = "tollkeeper.lock"
"""The file that the process using the folder keeps locked."""


def folder() -> Path | None:
    """Returns where this process's executable unpacked itself; None if it did not."""
    unpacked = getattr(sys, "_MEIPASS", "")
    return Path(unpacked) if unpacked and Path(unpacked).name.startswith("_MEI") else None


def lock_own_folder() -> int:
    """Mark and lock this process's folder, and delete the folders of dead ones.

    Returns the lock's descriptor, which must stay open; -1 if there is nothing to lock.
    """
    mine = folder()
    if mine is None or os.name == "nt":  # Windows deletes no folder in use, and has no such lock
        return -1
    for other in mine.parent.glob("_MEI*"):
        if other != mine and _is_dead(other / MARK):
            shutil.rmtree(other, ignore_errors=True)
    return _lock(mine / MARK, os.O_RDWR | os.O_CREAT)


async def wait_for_parent_exit() -> None:
    """Returns when the outer process is gone; never without one."""
    if folder() is None:
        await asyncio.Event().wait()
    parent = os.getppid()
    while os.getppid() == parent:  # noqa: ASYNC110 - no event reports it
        await asyncio.sleep(1.0)


def _is_dead(mark: Path) -> bool:
    """Returns whether the mark is not locked. A folder without a mark belongs to something else."""
    held = _lock(mark, os.O_RDWR)
    if held < 0:
        return False
    os.close(held)
    return True


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
