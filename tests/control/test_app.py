import asyncio

import pytest

from gateway.client.control import ControlClient
from gateway.client.http import ClientRequest, request
from gateway.control import app
from gateway.control.app import BODY_LIMIT
from gateway.domain.errors import BadRequest, Conflict, GatewayError, NotFound, TooLarge
from gateway.runfile import Address
from tests.control.conftest import SECRET, Surface
from tests.fakes.client import Client
from tests.fakes.gateway import Gateway

AUTH = {"authorization": f"Bearer {SECRET}"}


async def raw(surface: Surface, data: bytes, wait_s: float = 5.0) -> bytes:
    """What comes back for these bytes on the Unix socket, until the server hangs up or falls silent."""
    reader, writer = await asyncio.open_unix_connection(surface.unix.socket)
    try:
        writer.write(data)
        await writer.drain()
        async with asyncio.timeout(wait_s):
            return await reader.read(65536)
    except ConnectionError:
        return b""
    finally:
        writer.transport.abort()


async def test_an_unknown_path_is_reported(owner: ControlClient) -> None:
    with pytest.raises(NotFound) as caught:
        await owner.send(owner.build_request("GET", "/nothing"))
    assert caught.value.code == "unknown_url"


@pytest.mark.parametrize(
    ("call", "body", "param"),
    [
        ("PATCH /account", {"status": "rich"}, "status"),
        ("PATCH /account", {"budgets": [{}]}, "budgets"),
        ("PATCH /account", {"balance": 5}, "balance"),
        ("POST /account/grants", {}, "nanos"),
        ("POST /account/grants", {"nanos": 0}, "nanos"),
        ("POST /account/grants", {"nanos": "5"}, "nanos"),
        ("POST /account/grants", {"nanos": 1, "note": "a\nb"}, "note"),
        ("POST /channels", {"name": "x", "dialect": "smtp"}, "dialect"),
        ("POST /channels", {"name": "x", "last_check": None}, "last_check"),
        ("POST /channels", {"name": "x", "limits": {"rps": 1}}, "limits.rps"),
        ("PATCH /channels/up", {"models": [{"name": "m", "price": {"input": -1, "output": 1}}]}, "models"),
        ("POST /groups", {}, "name"),
        ("PUT /prices/m", {"input": 1}, "output"),
        ("PATCH /settings", {"keep_days": 0}, "keep_days"),
        ("POST /tokens", {}, "name"),
        ("POST /tokens", {"name": "x", "colour": "red"}, "colour"),
        ("POST /config", {}, "text"),
        ("POST /stop", {"now": "yes"}, "now"),
        ("GET /calls?limit=0", None, "limit"),
        ("GET /calls?limit=9999999", None, "limit"),
        ("GET /calls?since=x", None, "since"),
        ("GET /calls?a=b", None, "a"),
        ("GET /usage?by=colour", None, "by"),
        ("GET /usage?step=week", None, "step"),
        ("GET /usage?since=now", None, "since"),
        ("GET /usage?by=token|model&step=day", None, "step"),
        ("GET /events?recent=0", None, "recent"),
        ("GET /events?recent=1001", None, "recent"),
        ("GET /events?recent=many", None, "recent"),
    ],
)
async def test_what_makes_no_sense_is_refused_with_its_name_and_changes_nothing(
    owner: ControlClient, gateway: Gateway, call: str, body: dict[str, object] | None, param: str
) -> None:
    before, (method, path) = gateway.engine.catalog.registry, call.split()
    with pytest.raises(BadRequest) as caught:
        await owner.send(owner.build_request(method, path, body))
    assert caught.value.param == param
    assert gateway.engine.catalog.registry is before


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("POST /channels", "up"),
        ("POST /tokens", "laptop"),
        ("POST /tokens", "tok_laptop"),
        ("POST /groups", "work"),
        ("PATCH /groups/work", "default"),
    ],
)
async def test_a_name_is_used_once(owner: ControlClient, gateway: Gateway, call: str, name: str) -> None:
    gateway.group("work")
    method, path = call.split()
    with pytest.raises(Conflict):
        await owner.send(
            owner.build_request(method, path, {"name": name, **({"dialect": "mock"} if path == "/channels" else {})})
        )


async def test_another_method_is_reported_with_those_there_are(surface: Surface) -> None:
    answer = await Client(surface.tcp.port).ask("DELETE", "/control/account", headers=AUTH)
    assert answer.refusal == (405, "method_not_allowed", None)
    assert answer.head.get("allow") == "GET, PATCH"


async def test_a_refusal_has_the_body_of_all_refusals(surface: Surface) -> None:
    answer = await Client(surface.tcp.port).ask("PATCH", "/control/account", b'{"a":1}', AUTH)
    assert answer.refusal == (400, "unknown_field", "a")
    assert set(answer.error) == {"message", "type", "param", "code"}


async def test_a_bug_is_reported_as_one_without_its_insides(
    owner: ControlClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("insides")

    monkeypatch.setattr(app, "account_view", broken)
    with pytest.raises(GatewayError) as caught:
        await owner.account()
    assert caught.value.code == "internal_error"
    assert "insides" not in caught.value.message
    assert "insides" in caplog.text


async def test_a_body_of_unusual_size_is_refused(surface: Surface, owner: ControlClient) -> None:
    fits = b'{"note":"' + b"x" * (BODY_LIMIT - 11) + b'"}'
    answer = await Client(surface.tcp.port).ask("PATCH", "/control/channels/up", fits, AUTH)
    assert answer.refusal == (400, "invalid_value", "note")
    with pytest.raises(TooLarge):
        await owner.edit_channel("up", {"note": "x" * BODY_LIMIT})


async def test_a_thousand_silent_connections_do_no_harm(surface: Surface, owner: ControlClient) -> None:
    for _ in range(4):
        opened = [await asyncio.open_unix_connection(surface.unix.socket) for _ in range(250)]
        try:
            for _, writer in opened[::2]:
                writer.write(b"GET /control/st")
            began = asyncio.get_running_loop().time()
            assert (await owner.status()).state == "serving"
            assert asyncio.get_running_loop().time() - began < 1.0
        finally:
            for _, writer in opened:
                writer.transport.abort()


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /control/status HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
        b'{"cmd":"status"}\n',
    ],
)
async def test_garbage_is_refused_and_forgotten(surface: Surface, owner: ControlClient, data: bytes) -> None:
    assert not (await raw(surface, data)).startswith(b"HTTP/1.1 200")
    assert (await owner.status()).state == "serving"


async def test_a_line_without_end_is_cut_off_early(surface: Surface, owner: ControlClient) -> None:
    """A hundred megabytes are offered; the server hangs up after the first few."""
    reader, writer = await asyncio.open_unix_connection(surface.unix.socket)
    sent = 0
    try:
        for _ in range(1600):
            writer.write(b"GET /" + b"x" * 65531 if not sent else b"x" * 65536)
            sent += 65536
            await writer.drain()
            if writer.transport.is_closing() or reader.at_eof():
                break
    except ConnectionError:
        pass
    finally:
        writer.transport.abort()
    assert sent < 8 << 20
    assert (await owner.status()).state == "serving"


async def test_changes_at_once_are_all_made(owner: ControlClient) -> None:
    await asyncio.gather(*(owner.add_token({"name": f"t{number}"}) for number in range(20)))
    assert len(await owner.tokens()) == 21


async def test_a_body_that_comes_late_undoes_no_edit(surface: Surface, owner: ControlClient) -> None:
    reader, writer = await asyncio.open_unix_connection(surface.unix.socket)
    body, token = b'{"stop_when_empty":true}', AUTH["authorization"]
    head = (
        f"PATCH /control/account HTTP/1.1\r\nHost: localhost\r\nAuthorization: {token}\r\nContent-Length: {len(body)}"
    )
    writer.write(f"{head}\r\n\r\n".encode())
    await asyncio.sleep(0.1)
    await owner.set_account({"status": "suspended"})
    writer.write(body)
    answer = await reader.readline()
    writer.transport.abort()
    account = await owner.account()
    assert (answer[9:12], account.status, account.stop_when_empty) == (b"200", "suspended", True)


async def test_closing_ends_the_server_at_once(surface: Surface, owner: ControlClient) -> None:
    await owner.status()
    began = asyncio.get_running_loop().time()
    await surface.runner.cleanup()
    assert asyncio.get_running_loop().time() - began < 1.0
    with pytest.raises(GatewayError):
        await request(Address(socket=surface.unix.socket), ClientRequest(method="GET", path="/"))
