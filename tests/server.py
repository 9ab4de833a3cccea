"""Server: a real one in a child process, for what concerns the whole process: signals, locks, exit codes."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import fork_server
from tests.fakes.client import Client
from tests.house import ROOT

CODE = """
import json, sys, traceback
from pathlib import Path
import msgspec
from gateway.config import Config
from gateway.domain.errors import GatewayError
from gateway.server import run
home, host, port, drain_s = sys.argv[1:]
config = Config(home=Path(home), host=host, port=int(port), drain_s=float(drain_s))
try:
    sys.exit(run(config, lambda welcome: print(msgspec.json.encode(welcome).decode(), flush=True)))
except GatewayError as error:
    print(json.dumps({"code": error.code, "message": error.message}), flush=True)
    sys.exit(3)
"""

PATIENCE_S = 90.0


@dataclass(eq=False)
class Child:
    """The process, and the first line it printed: its welcome, or why it did not start."""

    process: "subprocess.Popen[bytes]"
    said: dict[str, Any]

    @property
    def port(self) -> int:
        return int(self.said["address"].rpartition(":")[2].partition("/")[0])

    @property
    def client(self) -> Client:
        """Presents the first token's key."""
        return Client(self.port, self.said["key"])

    def signal(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    async def ended(self) -> int:
        """The exit code; what went to stderr must be nothing."""
        _, errors = await asyncio.to_thread(self.process.communicate, timeout=PATIENCE_S)
        assert errors == b"", errors.decode()
        assert self.process.returncode is not None
        return self.process.returncode


@asynccontextmanager
async def serving(
    home: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    drain_s: float = 10.0,
    start: Callable[..., "subprocess.Popen[bytes]"] = fork_server.start,
) -> AsyncIterator[Child]:
    """A server that has said its first line; killed at the end if it still runs."""
    process = start(
        [sys.executable, "-W", "error", "-c", CODE, str(home), host, str(port), str(drain_s)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE_S):
            line = await asyncio.to_thread(process.stdout.readline)
        yield Child(process, json.loads(line or b"{}"))
    finally:
        process.kill()
        with process:
            pass
