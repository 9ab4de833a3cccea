"""Run files: the files that a program reads from a private folder while ``run`` is running.

They may contain the key of the run, so they are never in the program's real folder.
"""

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from gateway.client.app import Launch
from gateway.commands.output import notify
from gateway.domain.text import plain


@contextmanager
def private_files(launch: Launch, folder: Path) -> Iterator[None]:
    """Put our files into ``folder``, beside links to the real one, and at the end save there what the program wrote."""
    for name, text in launch.files.items():
        descriptor = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
    if not launch.folder_variable:
        yield
        return
    real = Path(os.environ.get(launch.folder_variable) or click.get_app_dir(launch.folder_default))
    linked_names = set()
    with suppress(OSError):  # the folder may not exist, and Windows may not allow links
        for entry in real.iterdir():
            if entry.name not in launch.files:
                (folder / entry.name).symlink_to(entry)
                linked_names.add(entry.name)
    try:
        yield
    finally:
        written = [entry for entry in folder.iterdir() if entry.name not in launch.files and not entry.is_symlink()]
        results = [_save(entry, real / entry.name, replace=entry.name in linked_names) for entry in written]
        if not all(results):
            _keep_folder(folder, launch)


def _save(entry: Path, target: Path, *, replace: bool) -> bool:
    """Copy what the program wrote to its real folder, atomically, and beside a file of that name that is new there.
    Returns whether that succeeded.
    """
    is_taken = target.exists() and not replace
    path = target.with_name(f"{target.name}-{secrets.token_hex(3)}") if is_taken else target
    target = Path(os.path.realpath(path))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".tollkeeper-", dir=target.parent, ignore_cleanup_errors=True) as temp:
            copy = Path(temp, entry.name)
            if entry.is_dir():
                shutil.copytree(entry, copy, symlinks=True)
            else:
                shutil.copy2(entry, copy)
            copy.replace(target)
    except OSError as error:
        why = plain(error.strerror or str(error), 1_000)
        notify(f"{plain(entry.name)} could not be saved in {plain(str(target.parent), 1_000)}: {why}")
        return False
    if is_taken:
        name = plain(entry.name)
        notify(f"note: another program has also written {name}; the version of this one is {plain(str(path), 1_000)}")
    return True


def _keep_folder(folder: Path, launch: Launch) -> None:
    """Keep the temporary folder under another name, without our files, which contain the key."""
    with suppress(OSError):
        for name in launch.files:
            (folder / name).unlink(missing_ok=True)
        new_folder = folder.rename(folder.with_name(f"{folder.name}-kept"))
        notify(f"what the program wrote is in {plain(str(new_folder), 1_000)}; copy it before the system removes it")
