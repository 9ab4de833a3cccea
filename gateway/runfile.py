"""Runfile: how to reach the running server, with the secret for it, in a JSON file with mode 0600 in the home.

It is removed when the server stops. The address stays in another file.
"""

import errno
import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import msgspec


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server listens: a Unix socket, or a host and port."""

    socket: str = ""
    """The path of the socket; empty if the server listens on TCP."""
    host: str = "127.0.0.1"
    port: int = 0

    def __str__(self) -> str:
        return self.socket or f"{self.host}:{self.port}"

    @property
    def host_header(self) -> str:
        """Returns the Host header. On a Unix socket the server expects ``localhost``."""
        if self.socket:
            return "localhost"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Endpoint(Address, frozen=True, kw_only=True):
    """How to reach the control API of one running server. It contains the secret, so it must never be printed."""

    instance: str
    """The id of one start of the server, which is also in its status."""
    secret: str
    address: str = ""
    """The base URL of /v1, for example ``http://127.0.0.1:8655/v1``; empty if only the control API runs."""
    host_option: str = ""
    """The host that /v1 listens on, as in ``--host``. The one in ``address`` can be reached."""
    pid: int = 0
    starter: str = ""
    """The id of the console that started it; empty if none did."""
    home: str = ""
    """The folder of the store, absolute and without links, to recognize a runfile in a copy of that folder."""

    def __repr__(self) -> str:
        return f"Endpoint(instance={self.instance!r}, address={self.address!r}, pid={self.pid})"


def write(path: Path, endpoint: Endpoint) -> None:
    """Write the runfile atomically. Raises OSError."""
    replace_file(path, msgspec.json.encode(endpoint) + b"\n")


def last_address(path: Path) -> str:
    """Returns the base URL that a server stored last, or an empty string."""
    with suppress(OSError, UnicodeDecodeError), _open(path) as file:
        address = file.read(400).decode("ascii").strip()
        return address if address.startswith("http://") and address.isprintable() else ""
    return ""


def _open(path: Path) -> BinaryIO:
    """Open a file for reading. A named pipe in its place reads as empty, and does not block."""
    return os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)), "rb")


def replace_file(path: Path, data: bytes, *, durable: bool = False) -> None:
    """Replace a file atomically. The new one has mode 0600, and is synced if ``durable``. Raises OSError."""
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name[:80]}.", dir=path.parent)  # a link is never followed
    try:
        with os.fdopen(handle, "wb") as file:
            if sys.platform != "win32":
                with suppress(PermissionError):  # some file systems have no modes
                    os.fchmod(handle, 0o600)  # the umask may have removed rights of the owner
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
    """Returns the content of the runfile; None if it is missing or damaged, or was copied with another home.

    The server may have died since. Raises OSError if this process may not read it, or has too many open files.
    """
    try:
        endpoint = _endpoint_of(path)
        return None if _is_copy(path.parent, endpoint.home) else endpoint
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    except OSError as exc:
        if exc.errno in (errno.EACCES, errno.EMFILE, errno.ENFILE):
            raise
        return None


def _endpoint_of(path: Path) -> Endpoint:
    with _open(path) as file:
        return msgspec.json.decode(file.read(64 * 1024), type=Endpoint)


def _is_copy(folder: Path, home: str) -> bool:
    """Returns whether the runfile's home exists and is another folder than this one. A moved home does not exist."""
    with suppress(OSError):
        return bool(home) and not folder.samefile(home)
    return False


def remove(path: Path, instance: str) -> None:
    """Remove the runfile, unless another instance of the server has written its own."""
    with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
        if _endpoint_of(path).instance == instance:
            path.unlink()
