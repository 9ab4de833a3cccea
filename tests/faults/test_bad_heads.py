"""Wrong headers, keys, hosts, origins, paths and methods."""

from typing import Any
from urllib.parse import unquote

import pytest

from gateway.domain.channel import Dialect, ServedModel
from gateway.domain.units import Millis
from tests.fakes.client import HELLO, Client, read_answer
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider
from tests.fakes.replies import fail, speak
from tests.faults.refusals import nothing_happened, plainly

BODY: dict[str, Any] = {"model": "m", "messages": HELLO}


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "identity", "gzip, gzip", "x"])
async def test_b9_a_compressed_request_is_not_taken(gateway: Gateway, provider: Provider, coding: str) -> None:
    answer = await gateway.client.post(BODY, {"content-encoding": coding})
    plainly(answer)
    assert answer.refusal == (415, "unsupported_media_type", None)
    nothing_happened(gateway, provider)


@pytest.mark.parametrize(
    "kind",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/json; charset=utf-16",
        "text/json",
        "application/jsonp",
        "",
    ],
)
async def test_b10_only_json_is_taken(gateway: Gateway, provider: Provider, kind: str) -> None:
    answer = await gateway.client.post(BODY, {"content-type": kind})
    assert answer.refusal == (415, "unsupported_media_type", None)
    nothing_happened(gateway, provider)


@pytest.mark.parametrize("kind", [None, "application/json", "Application/JSON", 'application/json; charset="UTF-8"'])
async def test_b10_json_by_any_spelling_passes(gateway: Gateway, provider: Provider, kind: str | None) -> None:
    provider.on("m", speak())
    assert (await gateway.client.post(BODY, {"content-type": kind})).status == 200


KEYS: dict[str, tuple[str, str]] = {
    "": ("", "missing_api_key"),
    "scheme alone": ("Bearer", "missing_api_key"),
    "scheme and blank": ("Bearer ", "missing_api_key"),
    "other scheme": ("Basic {key}", "invalid_api_key"),
    "no scheme": ("{key}", "invalid_api_key"),
    "cut": ("Bearer {key:.20}", "invalid_api_key"),
    "longer": ("Bearer {key}x", "invalid_api_key"),
    "two keys": ("Bearer {key} {key}", "invalid_api_key"),
    "other case": ("Bearer {upper}", "invalid_api_key"),
    "8 KB": ("Bearer " + "x" * (8 << 10), "invalid_api_key"),
    "not ASCII": ("Bearer \xe9\xff", "invalid_api_key"),
}


@pytest.mark.parametrize("name", KEYS)
async def test_b15_a_wrong_key_is_distinguished_from_none(gateway: Gateway, provider: Provider, name: str) -> None:
    form, code = KEYS[name]
    key = gateway.client.key
    answer = await gateway.client.post(BODY, {"authorization": form.format(key=key, upper=key.upper()) or None})
    plainly(answer)
    assert answer.refusal == (401, code, None)
    assert answer.head.get("www-authenticate") == "Bearer"
    nothing_happened(gateway, provider)


async def test_b15_a_key_in_the_query_is_none(gateway: Gateway, provider: Provider) -> None:
    stranger = Client(gateway.port)
    answer = await stranger.get(f"/v1/models?key={gateway.client.key}&api_key={gateway.client.key}")
    assert answer.refusal == (401, "missing_api_key", None)


async def test_b15_two_authorization_headers_are_refused(gateway: Gateway, provider: Provider) -> None:
    request = gateway.client.request("GET", "/v1/models").replace(b"\r\n\r\n", b"\r\nauthorization: Bearer x\r\n\r\n")
    assert (await gateway.client.raw(request)).refusal == (401, "invalid_api_key", None)


@pytest.mark.parametrize("header", ["authorization", "api-key", "x-api-key"])
@pytest.mark.parametrize("form", ["bearer {key}", "BEARER {key}", "Bearer {key} ", "Bearer   {key}"])
async def test_b15_every_accepted_spelling(gateway: Gateway, header: str, form: str) -> None:
    value = form.format(key=gateway.client.key) if header == "authorization" else gateway.client.key
    answer = await gateway.client.get("/v1/models", {"authorization": None, header: value})
    assert answer.status == 200


@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        ({"enabled": False}, 401, "token_disabled"),
        ({"expires": Millis(1)}, 401, "token_expired"),
        ({"enabled": False, "expires": Millis(1)}, 401, "token_disabled"),
        ({"group": "empty"}, 404, "model_not_found"),
        ({"models": ("gpt-*",)}, 404, "model_not_found"),
    ],
)
async def test_b16_a_token_that_may_not_learns_why(
    gateway: Gateway, provider: Provider, fields: dict[str, Any], status: int, code: str
) -> None:
    gateway.group("empty")
    answer = await gateway.token("other", **fields).chat()
    plainly(answer)
    assert (answer.status, answer.error["code"]) == (status, code)
    nothing_happened(gateway, provider)


def _port(form: str, gateway: Gateway) -> str:
    return form.replace("PORT", str(gateway.port))


@pytest.mark.parametrize("host", ["127.0.0.1:PORT", "127.0.0.1", "localhost:PORT", "LOCALHOST:PORT", "[::1]:PORT"])
async def test_b17_the_gateways_own_names_are_accepted(gateway: Gateway, host: str) -> None:
    assert (await gateway.client.get("/v1/models", {"host": _port(host, gateway)})).status == 200


@pytest.mark.parametrize("path", ["/", "/health", "/v1/models", "/v1/chat/completions", "/nope"])
@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:PORT",
        "127.0.0.1.evil.example:PORT",
        "localhost.evil.example",
        "127.0.0.1:100000",
        "127.0.0.1:PORT:PORT",
        "127.0.0.1:PORTx",
        "[::1",
        "[::1]x:PORT",
        "user@127.0.0.1:PORT",
        "127.1:PORT",
        "2130706433",
        "0.0.0.0:PORT",
        "localhost.:PORT",
        "gateway.lan",
        "",
    ],
)
async def test_b17_every_other_host_is_refused_on_every_path(
    gateway: Gateway, provider: Provider, host: str, path: str
) -> None:
    answer = await gateway.client.get(path, {"host": _port(host, gateway)})
    plainly(answer)
    assert answer.status in {400, 421}
    assert answer.error["code"] in {"wrong_host", "bad_http"}
    nothing_happened(gateway, provider)


async def test_b17_hosts_the_owner_added_are_accepted(gateway: Gateway) -> None:
    gateway.settings(hosts=("gateway.lan",))
    for host, status in (("gateway.lan", 200), (f"gateway.lan:{gateway.port}", 200), ("evil.lan", 421)):
        assert (await gateway.client.get("/v1/models", {"host": host})).status == status


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:PORT", "file://", ""])
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
async def test_b17_web_pages_may_not_call(gateway: Gateway, provider: Provider, origin: str, method: str) -> None:
    path = "/v1/models" if method == "GET" else "/v1/chat/completions"
    answer = await gateway.client.ask(method, path, headers={"origin": _port(origin, gateway)})
    assert answer.refusal == (403, "origin_not_allowed", None)
    assert not answer.head.get("access-control-allow-origin")
    nothing_happened(gateway, provider)


@pytest.mark.parametrize("stream", [False, True])
async def test_b17_origins_the_owner_listed_may_call(gateway: Gateway, provider: Provider, stream: bool) -> None:
    provider.on("m", speak())
    gateway.settings(origins=("https://chat.lan",))
    answer = await gateway.client.post({**BODY, "stream": stream}, {"origin": "https://chat.lan"})
    assert (answer.status, answer.text) == (200, "Hello")
    assert answer.head.get("access-control-allow-origin") == "https://chat.lan"
    preflight = await gateway.client.ask("OPTIONS", "/v1/chat/completions", headers={"origin": "https://chat.lan"})
    assert (preflight.status, preflight.head.get("access-control-allow-origin")) == (204, "https://chat.lan")


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v2", 404, "unknown_url"),
        ("GET", "/v1/model", 404, "unknown_url"),
        ("GET", "/v1/models;x", 404, "unknown_url"),
        ("GET", "/v1/%2e%2e/v1/models", 404, "unknown_url"),
        ("GET", "/control/status", 404, "unknown_url"),
        ("GET", "/v1/chat/completions", 405, "method_not_allowed"),
        ("PUT", "/v1/chat/completions", 405, "method_not_allowed"),
        ("DELETE", "/v1/models/m", 405, "method_not_allowed"),
        ("POST", "/v1/models", 405, "method_not_allowed"),
        ("OPTIONS", "/v1/models", 405, "method_not_allowed"),
        ("TRACE", "/v1/models", 405, "method_not_allowed"),
        ("PATCH", "/health", 405, "method_not_allowed"),
        ("POST", "/v1/chat/completions/1", 404, "unknown_url"),
        ("POST", "/v1/images/generations", 404, "unknown_url"),
    ],
)
async def test_b18_wrong_paths_and_methods_are_reported_in_json(
    gateway: Gateway, provider: Provider, method: str, path: str, status: int, code: str
) -> None:
    answer = await gateway.client.ask(method, path)
    plainly(answer)
    assert answer.status == status
    assert answer.error["code"] == code
    assert bool(answer.head.get("allow")) == (status == 405)
    nothing_happened(gateway, provider)


@pytest.mark.parametrize("path", ["/v1/models?model=m", "/v1/models?", "/v1/models/m?x=%00"])
async def test_b18_a_query_changes_nothing(gateway: Gateway, path: str) -> None:
    assert (await gateway.client.get(path)).status == 200


async def test_b18_head_is_answered_without_a_body(gateway: Gateway) -> None:
    for path, status in (("/health", 200), ("/", 200), ("/v1/models", 200), ("/nope", 404)):
        peer = await gateway.client.connect()
        await peer.write(gateway.client.request("HEAD", path))
        answer = await read_answer(peer, bodyless=True)
        assert answer.status == status
        await peer.write(gateway.client.request("GET", "/health"))
        assert (await read_answer(peer)).status == 200
        peer.close()


@pytest.mark.parametrize(
    "name", ["plain", "../../v1/keys", "..", "a?key=x", "a#b", "a b", "%2e%2e", "ü", "a:b@c", "a\\b"]
)
@pytest.mark.parametrize("stream", [False, True])
async def test_b19_a_model_name_cannot_leave_its_place_in_a_path(
    gateway: Gateway, provider: Provider, name: str, stream: bool
) -> None:
    """Gemini's own interface names the model in the path."""
    gateway.channel(provider.base_url, dialect=Dialect.GEMINI, models=(ServedModel(name="m", upstream=name),))
    provider.other = fail(400, "seen")
    assert "seen" in (await gateway.client.chat(stream=stream)).error["message"]
    path, _, query = provider.last.path.partition("?")
    root, _, rest = path.partition("/models/")
    model, _, verb = rest.rpartition(":")
    assert (root, unquote(model)) == ("/v1", name)
    assert verb in {"generateContent", "streamGenerateContent"}
    assert "key=x" not in query


@pytest.mark.parametrize("agent", ["\xff\xfe", "caf\xe9/1.0", "x" * 4000, "a\tb", "", "/", "<script>/1"])
async def test_b20_any_user_agent_is_accepted(gateway: Gateway, provider: Provider, agent: str) -> None:
    provider.on("m", speak())
    assert (await gateway.client.post(BODY, {"user-agent": agent})).status == 200
    app = gateway.record.app
    assert len(app) <= 40
    assert app.isprintable()


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"authorization": "Bearer wrong"}, 401), ({"content-length": str(40 << 20)}, 413), ({"content-type": "x"}, 415)],
)
async def test_b22_a_bad_request_is_not_told_to_continue(
    gateway: Gateway, provider: Provider, headers: dict[str, str], status: int
) -> None:
    usual = {"expect": "100-continue", "content-type": "application/json", "content-length": "100"}
    peer = await gateway.client.connect()
    await peer.write(gateway.client.request("POST", "/v1/chat/completions", headers={**usual, **headers}))
    assert (await peer.read_head()).status == status
    peer.reset()
    nothing_happened(gateway, provider)


async def test_b22_a_good_request_gets_a_continue(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", speak())
    request = gateway.client.chat_bytes()
    head, _, body = request.partition(b"\r\n\r\n")
    peer = await gateway.client.connect()
    await peer.write(head + b"\r\nexpect: 100-continue\r\n\r\n")
    assert (await peer.read_head()).status == 100
    await peer.write(body)
    assert (await read_answer(peer)).text == "Hello"
    peer.close()


@pytest.mark.parametrize(
    "headers",
    [
        {"upgrade": "websocket", "connection": "Upgrade", "sec-websocket-key": "x" * 24, "sec-websocket-version": "13"},
        {"upgrade": "h2c", "connection": "Upgrade, HTTP2-Settings", "http2-settings": "AAMAAABkAAQAAP__"},
    ],
)
async def test_b23_nothing_is_upgraded(gateway: Gateway, headers: dict[str, str]) -> None:
    answer = await gateway.client.get("/v1/models", headers)
    assert answer.status in {200, 400}
    assert not answer.head.get("upgrade")
