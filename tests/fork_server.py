"""Fork server: starts the program as a fork of a process that has loaded it, for a tenth of an ordinary start.

The interpreter and the imports of a server take half a second of a processor, and hundreds of tests need a process.
A fork is a process as good as any, a child of the tests, with its own signals, streams, folder, environment and exit
code; only how the interpreter starts and what is loaded when is left out. Tests about that use ``subprocess``, and with
TOLLKEEPER_FULL=1 every start is an ordinary one. So it is elsewhere than on Linux, where a child's child cannot be
adopted.
"""

import atexit
import ctypes
import fcntl
import functools
import gc
import importlib
import io
import json
import os
import pkgutil
import pty
import resource
import runpy
import socket
import subprocess
import sys
import termios
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.house import FULL, ROOT

CLI = str(ROOT / "cli.py")
ORDER_BYTES = 1 << 20
PR_SET_CHILD_SUBREAPER = 36
ENCODINGS = ("LC_ALL", "LC_CTYPE", "LANG")
"""Variables of which the first that is set says how Python reads and writes texts, from its start on."""


class Order(NamedTuple):
    words: list[str]
    """What follows ``python``: perhaps ``-W error``, then ``cli.py``, ``-m`` and a module, or ``-c`` and code, then the
    arguments."""
    environment: dict[str, str]
    folder: str
    session: bool
    """It leads a session of its own."""
    terminal: bool = False
    """Its stdin is a terminal, and controls its session."""


def start(words: Sequence[str], **options: Any) -> "subprocess.Popen[Any]":
    """Like ``subprocess.Popen``, with a fork where one will do."""
    kind = ForkedProcess if may_fork(words, options) else subprocess.Popen
    return kind(words, **options)


def run(
    words: Sequence[str], *, input: str | None = None, timeout: float, **options: Any
) -> "subprocess.CompletedProcess[Any]":
    """Like ``subprocess.run`` with both outputs captured, as text."""
    stdin = subprocess.DEVNULL if input is None else subprocess.PIPE
    pipes = {"stdin": stdin, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with start(words, **(pipes | options)) as process:
        try:
            out, err = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(words, process.returncode, out, err)


def open_terminal(words: Sequence[str], environ: Mapping[str, str], columns: int, rows: int) -> tuple[int, int] | None:
    """A process in a pseudo-terminal, and the terminal's other side; None if it needs an ordinary start."""
    if not may_fork(words, {"env": environ}):
        return None
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (rows, columns))
    try:
        order = Order([*words[1:]], {**environ}, str(ROOT), session=True, terminal=True)
        return _server().fork(order, (theirs, theirs, theirs)), ours
    finally:
        os.close(theirs)


class ForkedProcess(subprocess.Popen[Any]):
    """Its constructor calls one method to start the program, which is another here; the names are the library's own."""

    def _execute_child(self, args: Sequence[str], *options: Any) -> None:
        folder, environment, *pipes = [*options[4:6], *options[9:15]]
        files = [number if own == -1 else own for number, own in enumerate(pipes[i] for i in (0, 3, 5))]
        own_session = bool(options[20])
        order = Order([*args[1:]], dict(environment or os.environ), str(folder or Path.cwd()), own_session)
        self.pid = _server().fork(order, files)
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


def may_fork(words: Sequence[str], options: Mapping[str, Any]) -> bool:
    """Whether a fork is the same to the test: the same Python and encoding, nothing unusual about the start."""
    if FULL or sys.platform != "linux" or words[0] != sys.executable:
        return False
    if options.keys() - {"env", "cwd", "stdin", "stdout", "stderr", "text", "start_new_session"}:
        return False
    first = words[3:] if words[1] == "-W" else words[1:]
    environment = options.get("env") or os.environ
    python = {name for name in environment if name.startswith("PYTHON")}
    locale = next((environment[name] for name in ENCODINGS if environment.get(name)), "C")
    return (
        first[0] in {CLI, "cli.py", "-c", "-m"}
        and all(environment.get(name) == os.environ.get(name) for name in python)
        and (locale in {"C", "POSIX"} or locale.upper().endswith("UTF-8"))
    )


class _ForkServer:
    """Its side in the tests."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            number = theirs.fileno()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.fork_server", str(number)],
                pass_fds=[number],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
            )
        self._lock = threading.Lock()
        atexit.register(self.close)

    def fork(self, order: Order, files: Sequence[int]) -> int:
        """The number of the new process."""
        with self._lock, _adopting():
            socket.send_fds(self._socket, [json.dumps(order).encode()], files)
            return int(self._socket.recv(100))

    def close(self) -> None:
        self._socket.close()
        self._process.wait(10)


@functools.cache
def _server() -> _ForkServer:
    """Of this process of tests, once one is needed."""
    return _ForkServer()


@contextmanager
def _adopting() -> Iterator[None]:
    """Children of children that have ended become children of this process."""
    libc = ctypes.CDLL(None)
    assert libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    try:
        yield
    finally:
        libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def serve(orders: socket.socket) -> Order | None:
    """Fork a process for each order. The child gets its order, the parent None when there are no more."""
    load("gateway")
    gc.freeze()
    while True:
        text, files, _, _ = socket.recv_fds(orders, ORDER_BYTES, 3)
        if not text:
            return None
        order = Order(*json.loads(text))
        if order.terminal:
            load("tui")
        if order.words[0] == "-m":
            importlib.import_module(order.words[1])
        if fork(orders):
            become(order, files)
            return order
        for number in files:
            os.close(number)


def fork(orders: socket.socket) -> bool:
    """Whether this is the new process. Its parent ends at once; it goes on when the tests have adopted it."""
    assert threading.active_count() == 1
    (told, tell), (wait, release) = os.pipe(), os.pipe()
    if between := os.fork():
        os.waitpid(between, 0)
        orders.send(os.read(told, 100))
        for number in (told, tell, wait, release):
            os.close(number)
        return False
    if pid := os.fork():
        os.write(tell, str(pid).encode())
        os._exit(0)
    os.close(release)
    os.read(wait, 1)
    return True


def load(package: str) -> None:
    """All modules of it."""
    found = importlib.import_module(package)
    for module in pkgutil.walk_packages(found.__path__, f"{package}."):
        importlib.import_module(module.name)


def become(order: Order, files: Sequence[int]) -> None:
    """Set up the folder, environment and streams of the new process."""
    if order.session:
        os.setsid()
    if order.terminal:
        fcntl.ioctl(files[0], termios.TIOCSCTTY, 0)
    for number, own in enumerate(files):
        os.dup2(own, number)
    os.closerange(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    os.chdir(order.folder)
    os.environ.clear()
    os.environ.update(order.environment)
    time.tzset()
    sys.stdin, sys.stdout, sys.stderr = (
        _text_stream(number, old) for number, old in enumerate((sys.stdin, sys.stdout, sys.stderr))
    )


def _text_stream(number: int, old: Any) -> io.TextIOWrapper:
    """As the interpreter makes them at its start."""
    raw = open(number, "wb" if number else "rb", closefd=False)  # noqa: SIM115 - a descriptor
    lines = number == 2 or raw.isatty()
    return io.TextIOWrapper(raw, encoding=old.encoding, errors=old.errors, line_buffering=lines)


def execute(words: Sequence[str]) -> None:
    """What ``python`` does with these words."""
    if words[0] == "-W":
        warnings.simplefilter(words[1])  # type: ignore[arg-type]
        words = words[2:]
    if words[0] == "-c":
        sys.argv = ["-c", *words[2:]]
        exec(compile(words[1], "<string>", "exec"), {"__name__": "__main__"})
    elif words[0] == "-m":
        sys.argv = [*words[1:]]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = [*words]
        importlib.import_module("cli").main()


def main() -> None:
    """Until the tests have ended; in a fork, until its program has."""
    with socket.socket(fileno=int(sys.argv[1])) as orders:
        order = serve(orders)
        if order:
            orders.detach()
    if order:
        execute(order.words)


if __name__ == "__main__":
    main()
