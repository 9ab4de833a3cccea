"""Frozen: what is special about the one-file executable, which unpacks itself into a folder at every start.

It is two processes: an outer one that unpacks, waits and cleans up, and the inner one, the program. Killed hard,
the outer one leaves the folder behind; so the inner one writes down who uses it, and the next server sweeps up.
"""

import asyncio
import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

MARK = "tollkeeper.pid"
"""Written into the folder: the process that uses it."""

WATCH_S = 1.0


def folder() -> Path | None:
    """Where this process's executable has unpacked itself; None if it has not."""
    unpacked = getattr(sys, "_MEIPASS", "")
    return Path(unpacked) if unpacked and Path(unpacked).name.startswith("_MEI") else None


def settle_in() -> None:
    """Say that this process uses its folder, and delete the folders of dead ones."""
    mine = folder()
    if mine is None:
        return
    with suppress(OSError):
        (mine / MARK).write_text(str(os.getpid()))
    for other in mine.parent.glob("_MEI*"):
        if other != mine and _is_dead(other / MARK):
            shutil.rmtree(other, ignore_errors=True)


async def parent_gone() -> None:
    """Returns when the outer process is gone; never where there is none."""
    if folder() is None:
        await asyncio.Event().wait()
    parent = os.getppid()
    while os.getppid() == parent:  # noqa: ASYNC110 - no event tells of it
        await asyncio.sleep(WATCH_S)


def _is_dead(mark: Path) -> bool:
    """Whether the process named there is gone; a folder without a mark belongs to somebody else."""
    try:
        pid = int(mark.read_text())
    except (OSError, ValueError):
        return False
    if os.name == "nt":
        return True  # a folder in use cannot be deleted there
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
