"""The server as a whole: it starts on an empty home, is alone on it, and leaves in good order."""

import asyncio
import signal
import socket
import stat
import sys
import time
from pathlib import Path

import pytest

from gateway import runfile
from gateway.client.control import ControlClient
from gateway.config import Config
from gateway.domain.call import Outcome, Record
from gateway.domain.errors import BadRequest, GatewayError
from gateway.server import embedded_server, open_engine
from gateway.store.errors import StoreDamaged
from gateway.v1.ports import open_public_port
from tests.fakes.client import Client, read_answer
from tests.fakes.replies import DONE
from tests.fakes.stored import stored
from tests.server import serving

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and modes of files")


def records(home: Path) -> list[Record]:
    """What a stopped server has left."""
    with stored(home) as store:
        return store.calls.find(limit=1000)


async def test_the_first_key_is_reported_once_and_kept_nowhere(home: Path) -> None:
    async with serving(home) as first:
        key = first.said["key"]
        first.signal()
        await first.ended()
    async with serving(home) as second:
        assert second.said["key"] == ""
        assert (await Client(second.port, key).chat("demo-echo")).status == 200
        second.signal()
        await second.ended()
    assert holding(home, key) == []


def holding(home: Path, text: str) -> list[Path]:
    """The files in which a text stands."""
    return [path for path in home.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


async def test_everything_in_the_home_is_for_its_owner_alone(home: Path) -> None:
    async with serving(home) as server:
        await server.client.chat("demo-echo")
        found = modes(home)
    assert {"run.json", "control.sock", "config.json"} <= set(found)
    assert {name: oct(mode) for name, mode in found.items() if mode & 0o077} == {}


def modes(home: Path) -> dict[str, int]:
    """Of the home and all that is in it."""
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in [home, *home.rglob("*")]}


async def test_a_port_that_is_taken_is_reported_and_no_key_is_lost(home: Path, tmp_path: Path) -> None:
    async with serving(home) as first:
        async with serving(tmp_path / "other", port=first.port) as second:
            assert (second.said["code"], str(first.port) in second.said["message"]) == ("port_in_use", True)
            assert await second.ended() == 3
        async with serving(tmp_path / "other") as third:
            assert third.said["key"] != ""


@pytest.mark.parametrize("host", ["a..b", "\udcff", "192.0.2.1"])
async def test_a_host_that_is_none_is_reported(home: Path, host: str) -> None:
    async with open_engine(Config(home=home, host=host, port=0)) as engine:
        with pytest.raises(BadRequest, match="choose another with --host"):
            await open_public_port(engine, engine.config).__aenter__()


async def refused(client: Client) -> None:
    """Wait until nobody new is let in."""
    async with asyncio.timeout(10):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", client.port)
            except ConnectionError:
                return
            writer.close()
            await asyncio.sleep(0.01)


SILENT = [{"role": "user", "content": "!silence=3 one two three four five"}]


@pytest.mark.parametrize("asked", [False, True], ids=["nothing asked yet", "kept alive"])
async def test_an_idle_connection_does_not_hold_the_server_up(home: Path, asked: bool) -> None:
    async with serving(home) as server:
        peer = await server.client.connect()
        if asked:
            await peer.write(server.client.request("GET", "/v1/models"))
            assert (await read_answer(peer)).status == 200
        else:
            assert (await server.client.get("/health")).status == 200  # connections are accepted in their order
        server.signal()
        began = time.monotonic()
        assert await server.ended() == 0
        await peer.gone.wait()
        peer.close()
    assert time.monotonic() - began < 2.5


async def test_a_stream_that_outlives_the_drain_holds_the_server_up_for_less_than_a_second(home: Path) -> None:
    async with serving(home, drain_s=0.5) as server, server.client.streaming("demo-echo", messages=SILENT) as answer:
        await answer.event()
        stalled = await server.client.connect()
        await stalled.write(b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{")
        server.signal()
        began = time.monotonic()
        assert b'"code":"gateway_stopping"' in await answer.rest()
        assert await server.ended() == 0
        stalled.close()
    assert time.monotonic() - began < 0.5 + 1.0 + 1.0, "the second one is for a busy machine"


async def test_the_status_says_how_long_calls_may_finish_when_the_server_stops(home: Path) -> None:
    async with serving(home, drain_s=0.5):
        endpoint = runfile.read(home / "run.json")
        assert endpoint is not None
        assert (await ControlClient(endpoint).status()).drain_s == 0.5


async def test_a_request_to_stop_may_be_repeated_and_cuts_no_call(home: Path) -> None:
    async with serving(home) as server:
        endpoint = runfile.read(home / "run.json")
        assert endpoint is not None
        words = [{"role": "user", "content": "!speed=40 " + "word " * 40}]
        async with server.client.streaming("demo-echo", messages=words) as answer:
            await answer.event()
            for _ in range(3):
                await ControlClient(endpoint).stop()
            await refused(server.client)
            assert (await answer.rest()).endswith(DONE)
        assert await server.ended() == 0
    assert [record.outcome for record in records(home)] == [Outcome.DONE]


async def test_a_repeated_request_to_stop_may_end_running_calls(home: Path) -> None:
    async with serving(home) as server, server.client.streaming("demo-echo", messages=SILENT) as answer:
        endpoint = runfile.read(home / "run.json")
        assert endpoint is not None
        await answer.event()
        await ControlClient(endpoint).stop()
        await ControlClient(endpoint).stop(now=True)
        assert b'"code":"gateway_stopping"' in await answer.rest()
        assert await server.ended() == 0


async def test_a_killed_server_leaves_a_home_that_starts_again(home: Path) -> None:
    async with serving(home) as server, server.client.streaming("demo-echo", messages=SILENT) as answer:
        await answer.event()
        server.signal(signal.SIGKILL)
        await asyncio.to_thread(server.process.wait)
    assert (home / "run.json").exists()
    async with serving(home) as again:
        assert len(again.said["notes"]) == 1
        again.signal()
        await again.ended()
    (record,) = records(home)
    assert (record.outcome, record.cost, record.channel_name) == (Outcome.LOST, 0, "demo")
    assert record.possible == record.held > 0


async def test_reached_from_inside(home: Path) -> None:
    async with embedded_server(Config(home=home)) as endpoint:
        assert endpoint.address == ""
        assert not (home / "run.json").exists()
        socket = home / "control.sock"
        assert endpoint.socket == str(socket)
        assert stat.S_IMODE(socket.stat().st_mode) == 0o600
    assert not socket.exists()


async def test_a_home_that_cannot_be_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(GatewayError, match="cannot be opened"):
        async with embedded_server(Config(home=tmp_path / "file" / "home")):
            pass


async def test_a_runfile_that_cannot_be_written_is_reported_like_a_store_that_cannot_be_opened(home: Path) -> None:
    async with embedded_server(Config(home=home)):
        pass
    (home / "run.json").mkdir()
    async with serving(home) as server:
        assert server.said["code"] == "store_failed"
        assert server.said["message"].startswith(f"the store in {home} cannot be opened: Is a directory")
        assert await server.ended() == 3


async def test_a_folder_in_the_place_of_the_control_socket_is_reported(home: Path) -> None:
    (home / "control.sock").mkdir(parents=True)
    with pytest.raises(GatewayError) as caught:
        async with embedded_server(Config(home=home)):
            pass
    assert caught.value.message == f"the store in {home} cannot be opened: Is a directory (control.sock)"


async def test_the_socket_of_a_killed_server_is_replaced(home: Path) -> None:
    async with serving(home) as server:
        server.signal(signal.SIGKILL)
        await asyncio.to_thread(server.process.wait)
    assert (home / "control.sock").is_socket()
    async with embedded_server(Config(home=home)) as endpoint:
        assert await ControlClient(endpoint).instance() == endpoint.instance
    assert not (home / "control.sock").exists()


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('"name":"demo-echo"', '"name":"demo-story"', "channels.demo.models: 'demo-story' is listed twice"),
        ('"priority":-100', '"keys":["a"]', "channels.demo.keys: a key is empty"),
        ('"priority":-100', '"base_url":"http://[::1"', "channels.demo.base_url"),
        ('"name":"default"', '"name":"friends"', "channels.demo.groups: no group 'default'; the groups are: friends"),
        ('"input":100000000', '"input":-1', "prices.demo-echo.input: must not be negative"),
    ],
)
async def test_an_edited_configuration_is_checked_like_any_change(home: Path, old: str, new: str, why: str) -> None:
    async with embedded_server(Config(home=home)):
        path = home / "config.json"
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(StoreDamaged) as caught:
        async with embedded_server(Config(home=home)):
            pass
    assert why in caught.value.message


async def test_a_server_inside_may_listen_too(home: Path) -> None:
    async with embedded_server(Config(home=home, host="0.0.0.0", port=1), listen=True) as endpoint:
        assert endpoint.address.startswith("http://127.0.0.1:")
        port = int(endpoint.address.rpartition(":")[2].partition("/")[0])
        assert (await Client(port).get("/health")).json["status"] == "ok"
        assert (await Client(port).chat("demo-echo")).status == 401


async def test_a_control_socket_of_too_long_a_path_is_none(tmp_path: Path) -> None:
    home = tmp_path / ("h" * max(1, 101 - len(str(tmp_path))))
    async with embedded_server(Config(home=home)) as endpoint:
        assert (endpoint.socket, endpoint.port > 0) == ("", True)


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="needs IPv6")
async def test_bound_to_all_of_ipv6_its_address_leads_to_it(home: Path) -> None:
    async with serving(home, host="::") as server:
        port = int(server.said["address"].removeprefix("http://[::1]:").removesuffix("/v1"))
        with socket.create_connection(("::1", port), timeout=10):
            pass


async def test_bound_to_all_the_owner_is_warned(home: Path) -> None:
    async with serving(home, host="0.0.0.0") as server:
        assert "other machines can reach it" in server.said["notes"][0]
        assert server.said["address"].startswith("http://127.0.0.1:")
        assert (await server.client.chat("demo-echo")).status == 200
