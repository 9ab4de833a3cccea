"""Why a server cannot listen at its address: which program has the port, and which other port is free.

Linux shows it in /proc, other systems through lsof. Neither shows the processes of other users, and Windows has
neither. Of a command line only the program is shown: its arguments may be secrets.
"""

import errno
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from gateway.config import DEFAULT_HOST, Config
from gateway.domain.errors import BadRequest, Conflict, GatewayError
from gateway.domain.text import plain, word
from gateway.web.listener import listening

_NAME_LIMIT = 40
_SCRIPT_ENDS = (".py", ".js", ".mjs", ".rb", ".pl", ".sh")


def listening_error(config: Config, error: OSError | UnicodeError) -> GatewayError:
    """Returns the error of a server that cannot listen at its address: the reason; then, after ``;``, what to do."""
    if isinstance(error, UnicodeError | socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        message = f"{config.host!a} is not an address of this machine; choose another with --host"
        return BadRequest(message, param="host")
    reason = error.strerror or str(error)
    if error.errno == errno.EADDRINUSE:
        reason = f"{port_owner(config.port) or 'another program'} already listens there"
    port = free_port(config.host, config.port) or "PORT"
    host_option = f"--host {word(config.host)} " if config.host != DEFAULT_HOST else ""
    serve = " serve" if config.first_token else ""  # a console starts servers without one
    command = f"tollkeeper{serve}{config.home_option} {host_option}--port {port}"
    message = f"cannot listen on {config.host}:{config.port}: {reason}; use another port: {command}"
    return Conflict(message, code="port_in_use")


def port_owner(port: int) -> str:
    """Returns name and process id of the listener, such as ``nginx (pid 812)``; empty if unknown."""
    if Path("/proc/net/tcp").exists():
        return owner_by_proc(port)
    return owner_by_lsof(port)


def free_port(host: str, port: int) -> int | None:
    """Returns the first free port of the next 20; None if all of them are in use."""
    for other in range(port + 1, min(port + 20, 65_535) + 1):
        with suppress(OSError):
            for sock in listening(host, other):
                sock.close()
            return other
    return None


def owner_by_proc(port: int) -> str:
    """Returns the listener as ``port_owner`` does, found in /proc."""
    owners = dict(_listeners(port))
    if not owners:
        return ""
    sockets = {f"socket:[{inode}]" for inode in owners}
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and _has_socket(process, sockets):
            return f"{program_of(process)} (pid {process.name})"
    return f"a process of user {_user(next(iter(owners.values())))}"


def _listeners(port: int) -> Iterator[tuple[str, int]]:
    """Yields inode and user id of the sockets that listen (state ``0A``) at a port."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError):
            for line in Path(table).read_text(encoding="ascii").splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                    yield fields[9], int(fields[7])


def _has_socket(process: Path, sockets: set[str]) -> bool:
    """Returns whether the process has one of these sockets open. Other users' processes cannot be seen."""
    with suppress(OSError):
        for handle in (process / "fd").iterdir():
            with suppress(OSError):
                if os.readlink(handle) in sockets:  # noqa: PTH115 - a socket, not a path
                    return True
    return False


def program_of(process: Path) -> str:
    """Returns the name of a process's program, followed by the script or module that it runs."""
    words: list[str] = []
    name = "a process"
    with suppress(OSError):
        name = (process / "comm").read_text(errors="replace").strip()
        words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
    script = words[1] if len(words) > 1 and words[1].endswith(_SCRIPT_ENDS) else ""
    if len(words) > 2 and words[1] == "-m":
        script = f"-m {words[2]}"
    return plain(f"{name} {script.rpartition('/')[2]}".rstrip(), _NAME_LIMIT)


def _user(number: int) -> str:
    with suppress(ImportError, KeyError):
        import pwd  # noqa: PLC0415 - Windows lacks it

        return plain(pwd.getpwuid(number).pw_name, _NAME_LIMIT)
    return str(number)


def owner_by_lsof(port: int) -> str:
    """Returns the listener as ``port_owner`` does, found by lsof."""
    program = shutil.which("lsof")
    if program is None:
        return ""
    command = [program, "-nP", f"-iTCP:{port}", "-sTCP:LISTEN", "-Fpc"]
    with suppress(OSError, subprocess.TimeoutExpired):
        result = subprocess.run(command, capture_output=True, timeout=3.0, check=False)
        return read_lsof(result.stdout.decode(errors="replace"))
    return ""


def read_lsof(text: str) -> str:
    """Returns name and process id of the first process in lsof's output for programs."""
    values = {line[:1]: line[1:] for line in reversed(text.splitlines())}
    if "p" not in values:
        return ""
    return f"{plain(values.get('c', 'a process'), _NAME_LIMIT)} (pid {plain(values['p'], _NAME_LIMIT)})"
