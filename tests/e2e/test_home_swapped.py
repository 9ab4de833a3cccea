"""A server whose data folder is renamed, deleted or replaced says so, ends its calls, and touches nothing else."""

import asyncio
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway import runfile
from tests.server import serving
from tests.test_server import records

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a folder in use is not renamed, or is only looked at")


def rename(home: Path) -> Path:
    return home.rename(home.with_name("moved"))


def delete(home: Path) -> Path:
    shutil.rmtree(home)
    return home


@pytest.mark.parametrize("change", [rename, delete])
async def test_the_server_stops_says_why_and_leaves_a_new_one_alone(home: Path, change: Callable[[Path], Path]) -> None:
    async with serving(home) as old:
        assert (await old.client.chat("demo-echo")).status == 200
        moved = change(home)
        async with serving(home) as new:
            process = old.process
            _, errors = await asyncio.to_thread(process.communicate, timeout=90)
            said = errors.decode()
            # it may look before the new server has made its folder
            assert any(f"the data folder {home} was {what}" in said for what in ("replaced by", "renamed or deleted"))
            assert process.returncode == (1 if change is rename else 3)  # the last calls may not survive
            assert (str(moved) if change is rename else "it is gone, and with it the records of its calls") in said
            found = runfile.read(home / "run.json")
            assert found is not None
            assert (found.pid, (home / "control.sock").is_socket()) == (new.process.pid, True)
            assert (await new.client.chat("demo-echo")).status == 200
            new.signal()
            assert await new.ended() == 0
    assert [record.channel_name for record in records(home)] == ["demo"]
    if change is rename:
        assert [record.channel_name for record in records(moved)] == ["demo"]
        assert not (moved / "run.json").exists()
        assert not (moved / "control.sock").exists()


async def test_what_somebody_put_where_the_socket_was_stays(home: Path) -> None:
    async with serving(home) as server:
        (home / "control.sock").unlink()
        (home / "control.sock").write_bytes(b"theirs")
        server.signal()
        assert await server.ended() == 0
    assert (home / "control.sock").read_bytes() == b"theirs"
