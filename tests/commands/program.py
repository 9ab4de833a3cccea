"""The real program, as a child process."""

import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests import fork_server
from tests.commands.runner import Ran

PROGRAM = (sys.executable, fork_server.CLI)
PATIENCE_S = 90.0


@dataclass(frozen=True)
class Served:
    home: Path
    process: "subprocess.Popen[str]"
    greeting: str
    """What it said on stdout until it was ready."""

    @property
    def address(self) -> str:
        return next(word for word in self.greeting.split() if word.startswith("http://"))

    @property
    def key(self) -> str:
        """The first token's key."""
        return next(word for word in self.greeting.split() if word.startswith("sk-tk-"))


def environment(home: Path) -> dict[str, str]:
    """Nothing of the developer's own gateway or accounts."""
    mine = ("TOLLKEEPER_", "OPENAI_", "NO_COLOR")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(mine)}
    return kept | {"TOLLKEEPER_HOME": str(home), "TOLLKEEPER_PORT": "0"}


def tollkeeper(home: Path, *args: str, stdin: str = "") -> Ran:
    ran = fork_server.run([*PROGRAM, *args], env=environment(home), input=stdin, timeout=PATIENCE_S)
    return Ran(ran.returncode, ran.stdout, ran.stderr)


@contextmanager
def serving(
    home: Path,
    *args: str,
    start: Callable[..., "subprocess.Popen[str]"] = fork_server.start,
    environ: Mapping[str, str] = {},
) -> Iterator[Served]:
    """A server on an empty home and a free port, until the block ends. Its variables are the usual and these."""
    variables = environment(home) | dict(environ)
    with start(
        [*PROGRAM, *args], env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Served(home, process, _greeting(process))
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


def _greeting(process: "subprocess.Popen[str]") -> str:
    """Everything up to the last line of a first start; all there is if it ends before."""
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        if line.startswith("export OPENAI_API_KEY="):
            break
    return said


def read_until(terminal: int, wanted: bytes) -> bytes:
    """What a terminal shows up to this, or some of it where anything is wanted."""
    found = b""
    while wanted not in found or not found:
        assert select.select([terminal], [], [], PATIENCE_S)[0], found
        found += os.read(terminal, 4096)
    return found
