"""Machine: checks of what the gateway needs on its machine: a port, a private folder, disk space and open files."""

import asyncio
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from aiohttp import web

from gateway.config import Config
from gateway.control.edits import ConfigEdits
from gateway.core.open_files import OpenFiles, needed_files
from gateway.domain.text import plain, word
from gateway.domain.views import Step
from gateway.web.listener import listening
from gateway.web.port_owner import listening_error


async def list_machine_checks(edits: ConfigEdits, _: web.Request) -> list[Step]:
    """GET /machine: run the checks, in a thread because disks may be slow."""
    checks = await asyncio.to_thread(check_machine, edits.engine.config, edits.engine.address)
    return [*checks, check_open_files(edits.engine.files, edits.registry.settings.connections)]


def check_machine(config: Config, address: str) -> list[Step]:
    """Check port, folder and disk. ``address`` is the base URL of /v1, or empty if it is not served."""
    return [check_port(config, address), check_home(config.home), check_disk(config.home)]


def check_port(config: Config, address: str) -> Step:
    """Check that the gateway listens on its port, or could do so."""
    if address:
        return Step(name="the port", result="ok", text=f"this gateway listens at {address}")
    try:
        for sock in listening(config.host, config.port):
            sock.close()
    except (UnicodeError, OSError) as error:
        text, _, fix = listening_error(config, error).message.partition("; ")
        return Step(name="the port", result="fail", text=text, fix=fix)
    return Step(name="the port", result="ok", text=f"{config.host}:{config.port} is free")


def check_home(folder: Path) -> Step:
    """Check that only the user can read the folder and its files."""
    if sys.platform == "win32":
        return Step(name="the home", result="ok", text=f"{folder}: as private as your user folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        text = f"{folder} cannot be written to: it belongs to another user, or its file system is read-only"
        fix = f"sudo chown -R $(id -u) {word(str(folder))}, or mount its file system writable"
        return Step(name="the home", result="fail", text=plain(text, 500), fix=fix)
    files = {folder: folder.lstat(), **dict(_contents(folder))}
    links = {path for path, status in files.items() if stat.S_ISLNK(status.st_mode)}
    open_to_others = [path for path, status in files.items() if path not in links and status.st_mode & 0o077]
    foreign = [path for path, status in files.items() if status.st_uid != os.getuid()]
    if not open_to_others and not foreign:
        return Step(name="the home", result="ok", text=f"{folder}: only you can read it")
    examples = (open_to_others or foreign)[:3]
    names = ", ".join(str(folder if path == folder else path.relative_to(folder)) for path in examples)
    if open_to_others:
        text, fix = f"other users can read {names}", f"chmod -R go-rwx {word(str(folder))}"
    else:
        text, fix = f"another user owns {names}", f"sudo chown -R $(id -u) {word(str(folder))}"
    return Step(name="the home", result="fail", text=plain(text, 500), fix=fix)


def check_disk(folder: Path, usage: Callable[[Path], tuple[int, int, int]] = shutil.disk_usage) -> Step:
    """Check that the disk has room for more calls. ``usage`` returns total, used and free bytes."""
    free = usage(folder)[2]
    text = f"{free / 1e9:.1f} GB are free on the disk of {folder}"
    if free < 256 << 20:  # a day of heavy use can write that much
        fix = "free some disk space: calls that cannot be recorded are rejected"
        return Step(name="the disk", result="fail", text=text, fix=fix)
    return Step(name="the disk", result="ok", text=text)


def check_open_files(files: OpenFiles, connections: int) -> Step:
    """Check that the system allows enough open files for the connections that the settings allow."""
    if not files.limited_by_system:
        return Step(name="open files", result="ok", text=f"enough for {connections or 'any number of'} connections")
    clients = files.clients()
    text = f"the system allows {files.limit}, enough for {clients} connections of clients instead of {connections}"
    need = needed_files(connections)
    fix = (
        f"raise the limit where the server is started ('ulimit -Hn {need}', in a systemd unit 'LimitNOFILE={need}'), "
        f"or allow fewer connections: 'tollkeeper settings set --connections {clients}'"
    )
    return Step(name="open files", result="warning", text=text, fix=fix)


def _contents(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yields the files and folders in a folder, at any depth, except for those that have just been deleted."""
    for parent, folders, names in os.walk(folder):
        for path in (Path(parent, name) for name in (*folders, *names)):
            with suppress(OSError):
                yield path, path.lstat()
