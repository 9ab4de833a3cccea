import asyncio
import os
import socket
from pathlib import Path

import pytest

from gateway.control.app import ROUTES, check_secret, own_user, peer_uid
from gateway.domain.errors import InvalidToken
from tests.control.conftest import SECRET, Surface
from tests.fakes.client import Client
from tests.fakes.gateway import Gateway

AUTH = {"authorization": f"Bearer {SECRET}"}


async def over_tcp(surface: Surface, headers: dict[str, str | None], path: str = "/control/status") -> int:
    """The status of a request with these headers, whose Host is right if none is given."""
    return (await Client(surface.tcp.port).get(path, {**AUTH, **headers})).status


@pytest.mark.parametrize(
    ("name", "values", "statuses"),
    [
        (
            "authorization",
            [
                None,
                "",
                SECRET,
                "Bearer",
                "Bearer ",
                f"Basic {SECRET}",
                f"Bearer {SECRET}x",
                f"Bearer {SECRET[:-1]}",
                f"Bearer x{SECRET}",
                f"Bearer {SECRET.upper()}",
                "Bearer \xff\xfe",
                "Bearer " + "x" * 5000,
            ],
            {401},
        ),
        ("host", ["127.0.0.1:{}", "localhost:{}", "LOCALHOST:{}", "[::1]:{}", "localhost.:{}"], {200}),
        (
            "host",
            [
                "",
                "127.0.0.1",
                "localhost",
                "127.0.0.1:1",
                "127.0.0.1:{}x",
                "evil.example:{}",
                "127.0.0.1.evil.example:{}",
                "localhost.evil.example:{}",
                "evil.example",
                "127.1:{}",
                "0.0.0.0:{}",
                "[::ffff:127.0.0.1]:{}",
                "localhost..:{}",
                "127.0.0.1:{}:80",
                "user@127.0.0.1:{}",
                "2130706433:{}",
                "169.254.169.254:{}",
            ],
            {400, 421},
        ),
        ("origin", ["https://evil.example", "http://127.0.0.1:{}", "http://localhost", "null", "file://", ""], {403}),
    ],
    ids=["other secrets", "names of this machine", "other names", "web pages"],
)
async def test_the_secret_under_a_name_of_this_machine_opens_it_to_no_web_page(
    surface: Surface, name: str, values: list[str | None], statuses: set[int]
) -> None:
    for value in values:
        sent = None if value is None else value.format(surface.tcp.port)
        assert (value, await over_tcp(surface, {name: sent}) in statuses) == (value, True)


@pytest.mark.parametrize("name", ["secret", "token", "key"])
async def test_the_secret_in_a_url_opens_nothing(surface: Surface, name: str) -> None:
    headers: dict[str, str | None] = {"authorization": None, "cookie": f"secret={SECRET}"}
    assert await over_tcp(surface, headers, f"/control/status?{name}={SECRET}") == 401


async def test_a_preflight_is_refused_without_permissions(surface: Surface) -> None:
    client = Client(surface.tcp.port)
    asked = {"origin": "https://evil.example", "access-control-request-method": "POST"}
    answer = await client.ask("OPTIONS", "/control/tokens", headers=asked)
    assert answer.status == 403
    assert not [name for name, _ in answer.head.headers if name.startswith("access-control")]


async def test_every_route_and_every_other_path_is_guarded(surface: Surface) -> None:
    """Nobody learns which paths there are without the secret."""
    for method, path in [*((method, path) for method, path, _ in ROUTES), ("GET", "/x"), ("PUT", "/status")]:
        filled = "/control" + path.replace("{model:.+}", "m").replace("{", "").replace("}", "")
        answer = await Client(surface.tcp.port).ask(method, filled, b"{}")
        assert (path, answer.refusal) == (path, (401, "invalid_secret", None))


async def test_access_to_v1_gives_no_access_to_control(surface: Surface, gateway: Gateway) -> None:
    assert (await Client(gateway.port).get("/control/status", AUTH)).status in (401, 404)
    assert (await Client(surface.tcp.port).get("/v1/models", {**AUTH})).status == 404


def test_an_empty_secret_opens_nothing() -> None:
    with pytest.raises(InvalidToken):
        check_secret("Bearer ", "")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no users of sockets")
def test_the_user_at_the_other_end_of_a_unix_socket_is_known() -> None:
    one, other = socket.socketpair(socket.AF_UNIX)
    with one, other:
        assert peer_uid(one) == peer_uid(other) == own_user()


def test_other_sockets_have_no_user() -> None:
    with socket.socket(socket.AF_INET) as one:
        assert peer_uid(one) is None


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root can become another user")
async def test_another_user_is_refused_even_with_the_secret(surface: Surface) -> None:
    """The socket's mode keeps others out; here they hold its door open, and still do not get in."""
    connection = _connected_as(65534, Path(surface.unix.socket))
    reader, writer = await asyncio.open_unix_connection(sock=connection)
    writer.write(f"GET /control/status HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {SECRET}\r\n\r\n".encode())
    assert (await reader.readline()).startswith(b"HTTP/1.1 403")
    writer.close()
    await writer.wait_closed()


def _connected_as(uid: int, path: Path) -> socket.socket:
    path.parent.chmod(0o755)
    path.chmod(0o666)
    connection = socket.socket(socket.AF_UNIX)
    os.seteuid(uid)
    try:
        connection.connect(str(path))
    finally:
        os.seteuid(0)
    return connection
