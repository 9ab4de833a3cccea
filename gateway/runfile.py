"""Runfile: how to reach the running server, and the secret that opens it: a JSON file, mode 0600, in the home.

It is removed with the server. Only the address stays in a file of its own, for later reference.
"""

import errno
import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from gateway.domain.units import Millis


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach one running server. It holds the secret: never print it."""

    instance: str
    """The id of one start of a server; its status repeats it."""
    secret: str
    socket: str = ""
    """The path of the control socket; empty if control listens on loopback TCP."""
    host: str = "127.0.0.1"
    port: int = 0
    """The port of control on TCP."""
    address: str = ""
    """The base URL of /v1, for example ``http://127.0.0.1:8655/v1``; empty when only control runs."""
    host_option: str = ""
    """Where /v1 listens, as given by ``--host``; ``address`` has a host that can be reached."""
    pid: int = 0
    version: str = ""
    started: Millis = Millis(0)
    home: str = ""
    """The folder of the store, absolute and without links. A copy of that folder has this file, but no server."""

    def __repr__(self) -> str:
        return f"Endpoint(instance={self.instance!r}, address={self.address!r}, pid={self.pid})"


def write(path: Path, endpoint: Endpoint) -> None:
    """Write the runfile atomically. Raises OSError."""
    replace_file(path, msgspec.json.encode(endpoint) + b"\n")


def keep_address(path: Path, address: str) -> None:
    """Keep the base URL of a server for ``last_address``. Raises OSError."""
    replace_file(path, address.encode() + b"\n")


def last_address(path: Path) -> str:
    """Returns the base URL that was kept last; empty if none was."""
    with suppress(OSError, UnicodeDecodeError), _open(path) as file:
        address = file.read(400).decode("ascii").strip()
        return address if address.startswith("http://") and address.isprintable() else ""
    return ""


def _open(path: Path) -> BinaryIO:
    """Open it for reading. A named pipe in its place reads as empty, without waiting."""
    return os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)), "rb")


def replace_file(path: Path, data: bytes, *, durable: bool = False) -> None:
    """Replace a file atomically, with mode 0600. ``durable``: sync it first. Raises OSError."""
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name[:80]}.", dir=path.parent)  # a link is never followed
    try:
        with os.fdopen(handle, "wb") as file:
            if sys.platform != "win32":
                with suppress(PermissionError):  # a file system without modes
                    os.fchmod(handle, 0o600)  # a umask may have left even less
            file.write(data)
            if durable:
                file.flush()
                os.fsync(handle)
        os.replace(temporary, path)  # noqa: PTH105 - the pair of mkstemp
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)  # noqa: PTH108 - the pair of mkstemp
        raise


def read(path: Path) -> Endpoint | None:
    """Returns the content of the runfile; None if it cannot be read, or was copied here with a home.

    It does not prove that the server runs. Raises OSError if this process can open no more files: then nothing is
    known.
    """
    try:
        endpoint = _endpoint_of(path)
        return None if _copied(path.parent, endpoint.home) else endpoint
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    except OSError as exc:
        if exc.errno in (errno.EMFILE, errno.ENFILE):
            raise
        return None


def _endpoint_of(path: Path) -> Endpoint:
    with _open(path) as file:
        return msgspec.json.decode(file.read(64 * 1024), type=Endpoint)


def _copied(folder: Path, home: str) -> bool:
    """Returns whether the runfile's home exists and is another folder than this. A home may have moved since."""
    with suppress(OSError):
        return bool(home) and not folder.samefile(home)
    return False


def remove(path: Path, instance: str) -> bool:
    """Remove the runfile if it belongs to this instance: a successor may have written its own."""
    with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
        if _endpoint_of(path).instance == instance:
            path.unlink()
            return True
    return False
