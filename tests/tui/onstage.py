"""Onstage: the console in front of the fake server, as a program: ``python -m tests.tui.onstage HOME [WHAT]``."""

import sys
from pathlib import Path

from gateway.config import Config
from tests.tui.hostile import owner, strings
from tests.tui.stage import FakeClient, FakeLauncher, calls
from tui.app import run
from tui.session import AttachedServer


class Broken(FakeLauncher):
    """A bug of ours."""

    async def ensure(self) -> AttachedServer:
        secret = "sk-tk-hidden"
        raise RuntimeError(f"a bug of length {len(secret)}")


def main(home: str, what: str = "") -> int:
    client = owner(strings()) if what == "hostile" else FakeClient(calls(400))
    return run(Config(home=Path(home)), Broken(client) if what == "crash" else FakeLauncher(client))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
