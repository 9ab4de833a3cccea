"""Server: a real one in a child process, for what concerns the whole process: signals, locks, exit codes."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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

PATIENCE_S = 20.0


@dataclass(eq=False)
class Child:
    """The process, and the first line it printed: its welcome, or why it did not start."""

    process: asyncio.subprocess.Process
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
        async with asyncio.timeout(PATIENCE_S):
            _, errors = await self.process.communicate()
        assert errors == b""
        assert self.process.returncode is not None
        return self.process.returncode


@asynccontextmanager
async def serving(home: Path, *, host: str = "127.0.0.1", port: int = 0, drain_s: float = 10.0) -> AsyncIterator[Child]:
    """A server that has said its first line; killed at the end if it still runs."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-W", "error", "-c", CODE, str(home), host, str(port), str(drain_s)),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE_S):
            line = await process.stdout.readline()
        yield Child(process, json.loads(line or b"{}"))
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
