"""Which path leads where; every failure is the one error object, every answer has its id.

Long: all paths, headers and failures of one surface.
"""

import json
import threading
from pathlib import Path

import pytest

from gateway.domain.account import Account, AccountStatus
from gateway.web import connection_limits
from tests.fakes.client import Answer, read_answer
from tests.fakes.gateway import Gateway, running
from tests.fakes.provider import Provider
from tests.web.door import until

CHAT = "/v1/chat/completions"


async def ask(gateway: Gateway, method: str, path: str, **headers: str | None) -> Answer:
    peer = await gateway.client.send(gateway.client.request(method, path, headers=headers))
    answer = await read_answer(peer, bodyless=method == "HEAD")
    peer.reset()
    return answer


PATHS = [
    ("GET", "/", 200, ""),
    ("HEAD", "/", 200, ""),
    ("POST", "/", 405, "GET, HEAD"),
    ("GET", "/health", 200, ""),
    ("HEAD", "/v1/health", 200, ""),
    ("DELETE", "/health", 405, "GET, HEAD"),
    ("GET", "/v1/models", 200, ""),
    ("GET", "/v1/models?limit=1", 200, ""),
    ("HEAD", "/v1/models", 200, ""),
    ("GET", "/v1/models/m", 200, ""),
    ("HEAD", "/v1/models/m", 200, ""),
    ("HEAD", "/v1/models/other", 404, ""),
    ("DELETE", "/v1/models/m", 405, "GET, HEAD"),
    ("GET", "/v1/models/other", 404, ""),
    ("GET", "/v1/models/", 200, ""),
    ("GET", "/v1/modelsx", 404, ""),
    ("GET", CHAT, 405, "POST"),
    ("HEAD", CHAT, 405, "POST"),
    ("OPTIONS", CHAT, 405, "POST"),
    ("PUT", CHAT, 405, "POST"),
    ("TRACE", CHAT, 405, "POST"),
    ("PROPFIND", CHAT, 405, "POST"),
    ("GET", CHAT + "/", 405, "POST"),
    ("GET", "//v1/models", 200, ""),
    ("GET", "/v1//models", 200, ""),
    ("GET", "/v1/models//m/", 200, ""),
    ("GET", "/models", 200, ""),
    ("GET", "/models/m", 200, ""),
    ("GET", "/models/other", 404, ""),
    ("GET", "/v1/v1/models?limit=1", 200, ""),
    ("GET", "/v1/v1/models/m", 200, ""),
    ("GET", "/v1", 200, ""),
    ("HEAD", "/v1/", 200, ""),
    ("GET", "/chat/completions", 405, "POST"),
    ("GET", "/v2/models", 404, ""),
    ("GET", "/v1/models;x", 404, ""),
    ("GET", "/V1/models", 404, ""),
    ("GET", "/v1/nothing", 404, ""),
    ("GET", "/control/status", 404, ""),
    ("GET", "/metrics", 404, ""),
]


async def test_paths_and_methods(gateway: Gateway) -> None:
    for method, path, status, allow in PATHS:
        answer = await ask(gateway, method, path)
        assert (method, path, answer.status, answer.head.get("allow")) == (method, path, status, allow)
        assert answer.head.get("x-request-id").startswith("req_")
        assert answer.head.get("server") == "tollkeeper"
        if status >= 400:
            assert answer.head.get("content-type") == "application/json"
        if status >= 400 and method != "HEAD":
            assert set(answer.error) >= {"message", "type", "param", "code"}


async def test_a_wrong_path_names_what_exists(gateway: Gateway) -> None:
    answer = await ask(gateway, "GET", "/v1/%1b%5b2Jcompletions")
    assert answer.refusal == (404, "unknown_url", None)
    assert "POST /v1/chat/completions" in answer.error["message"]
    assert answer.error["message"].isprintable()


@pytest.mark.parametrize(
    "path", ["/", "/health", "/v1/models", "/openai/models?api-version=1", "/v1/models/m", "/api/tags", "/api/version"]
)
async def test_head_says_what_get_says_without_the_body(gateway: Gateway, path: str) -> None:
    got, head = await ask(gateway, "GET", path), await ask(gateway, "HEAD", path)
    names = ("content-type", "content-length")
    assert (head.status, [head.head.get(name) for name in names]) == (200, [got.head.get(name) for name in names])
    assert (head.body, int(head.head.get("content-length"))) == (b"", len(got.body))


@pytest.mark.parametrize(
    "path",
    [
        "/v1/models/x:generateContent",
        "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse",
        "/v1alpha/models/x:countTokens",
        "/models/x:embedContent",
        "/v1/tunedModels/x:generateContent",
    ],
)
async def test_geminis_paths_are_named_as_such(gateway: Gateway, path: str) -> None:
    answer = await ask(gateway, "POST", path)
    assert answer.refusal == (404, "unknown_url", None)
    assert "this is Gemini's API: choose an OpenAI-compatible provider" in answer.error["message"]


@pytest.mark.parametrize("path", ["/chat/completions", "/v1/v1/chat/completions/", "//v1//chat/completions?beta=true"])
async def test_a_call_reaches_its_api_by_any_base_url(gateway: Gateway, provider: Provider, path: str) -> None:
    answer = await gateway.client.ask("POST", path, b'{"model":"m","messages":[{"role":"user","content":"Hi"}]}')
    assert (answer.status, answer.text) == (200, "Hello")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"authorization": "Bearer {key}"}, 200),
        ({"x-api-key": "{key}"}, 200),
        ({"api-key": "{key}"}, 200),
        ({"authorization": "Bearer {key}", "x-api-key": "{key}"}, 200),
        ({"authorization": "Bearer sk-of-another-service", "x-api-key": "{key}"}, 200),
        ({"authorization": "Bearer {key}", "x-api-key": "sk-of-another-service"}, 200),
        ({"authorization": "Basic dXNlcjpwYXNz", "x-api-key": "{key}"}, 200),
        ({"authorization": "Bearer sk-of-another-service", "x-api-key": "sk-of-yet-another"}, 401),
        ({}, 401),
    ],
)
async def test_the_header_with_a_tokens_key_counts(gateway: Gateway, headers: dict[str, str], status: int) -> None:
    sent = {"authorization": None, **{name: value.format(key=gateway.client.key) for name, value in headers.items()}}
    answer = await ask(gateway, "GET", "/v1/models", **sent)
    assert (answer.status, answer.head.get("x-should-retry")) == (status, "" if status == 200 else "false")


async def test_a_probe_without_a_key_is_not_a_failed_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_limits, "is_this_machine", lambda _: False)
    async with running(tmp_path) as gateway:
        for _ in range(11):
            assert (await ask(gateway, "HEAD", "/", authorization=None)).status == 200
        assert (await ask(gateway, "GET", "/v1/models")).status == 200
        assert gateway.records == []


@pytest.mark.parametrize(
    ("path", "id"),
    [("org%2Fm%3Afree", "org/m:free"), ("org/m:free", "org/m:free"), ("with%20space", "with space"), ("m@v1", "m@v1")],
)
async def test_a_model_may_have_any_name_in_a_path(gateway: Gateway, provider: Provider, path: str, id: str) -> None:
    gateway.channel(provider.base_url, "org/m:free", "with space", "m@v1")
    assert (await ask(gateway, "GET", f"/v1/models/{path}")).json["id"] == id


@pytest.mark.parametrize("headers", [{"content-length": "3"}, {"transfer-encoding": "chunked"}])
async def test_a_body_where_none_belongs_is_refused(gateway: Gateway, headers: dict[str, str]) -> None:
    body = b"abc" if "content-length" in headers else b"3\r\nabc\r\n0\r\n\r\n"
    head = {"content-length": None, "content-type": None, **headers}
    answer = await gateway.client.ask("GET", "/v1/models", body, head)
    assert answer.refusal == (400, "unexpected_body", None)


async def test_another_machine_without_a_token_is_kept_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_limits, "is_this_machine", lambda _: False)
    async with running(tmp_path) as gateway:
        for _ in range(10):
            assert (await ask(gateway, "GET", "/v1/models", authorization="Bearer nothing")).status == 401
        answer = await ask(gateway, "GET", "/v1/models")
        assert answer.refusal == (429, "rate_limit_exceeded", None)
        assert 0 < int(answer.head.get("retry-after")) <= 60
        assert (await ask(gateway, "GET", "/health")).status == 200


async def test_a_strangers_name_and_page_are_refused_on_every_path(gateway: Gateway) -> None:
    for path in ("/", "/health", "/v1/models", CHAT, "/nowhere"):
        assert (await ask(gateway, "GET", path, host="evil.example")).refusal == (421, "wrong_host", None)
        refused = await ask(gateway, "GET", path, origin="https://evil.example")
        assert refused.refusal == (403, "origin_not_allowed", None)
        assert refused.head.all("access-control-allow-origin") == []


APP = "app://obsidian.md"


async def test_a_permitted_app_may_ask_and_read(gateway: Gateway, provider: Provider, stream: bool) -> None:
    """Preflight, answer, error, stream and unknown path: all can be read, and a cache keeps them apart by origin."""
    gateway.settings(app_origins=True)
    wanted = {
        "origin": APP,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type,anthropic-version,x-stainless-lang",
        "access-control-request-private-network": "true",
    }
    allowed = await ask(gateway, "OPTIONS", "/v1/v1/chat/completions", authorization=None, **wanted)
    assert allowed.status == 204
    assert allowed.head.get("access-control-allow-methods") == "GET, POST, DELETE"  # of stored responses
    assert allowed.head.get("access-control-allow-headers") == wanted["access-control-request-headers"]
    assert allowed.head.get("access-control-allow-private-network") == "true"
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": stream}
    answer = await gateway.client.post(body, {"origin": APP})
    refused = await gateway.client.post(b"{}", {"origin": APP})
    missing = await ask(gateway, "GET", "/v1/nothing", origin=APP)
    keyless = await ask(gateway, "GET", "/v1/models", origin=APP, authorization=None)
    assert [found.status for found in (answer, refused, missing, keyless)] == [200, 400, 404, 401]
    for found in (allowed, answer, refused, missing, keyless):
        assert found.head.all("access-control-allow-origin") == [APP]
        assert found.head.get("access-control-expose-headers") == "*"
        assert "Origin" in found.head.get("vary")
        assert found.head.all("access-control-allow-credentials") == []


@pytest.mark.parametrize("path", ["/", "/v1/models", CHAT, "/nowhere"])
async def test_a_page_that_is_not_permitted_can_read_nothing(gateway: Gateway, provider: Provider, path: str) -> None:
    gateway.settings(app_origins=True)
    for origin in ("http://localhost:3000", "https://evil.example"):
        for method in ("GET", "POST", "OPTIONS"):
            found = await ask(gateway, method, path, origin=origin)
            assert found.refusal == (403, "origin_not_allowed", None)
            assert "Origin" in found.head.get("vary")
            assert not any(name.lower().startswith("access-control") for name, _ in found.head.headers)
    assert provider.exchanges == []


async def test_a_listed_page_may_ask_and_read(gateway: Gateway, provider: Provider) -> None:
    gateway.settings(origins=("https://app.example",))
    allowed = await ask(gateway, "OPTIONS", CHAT, origin="https://app.example")
    assert allowed.status == 204
    assert "authorization" in allowed.head.get("access-control-allow-headers")
    assert allowed.head.get("access-control-expose-headers") == "*"
    answer = await gateway.client.post(
        {"model": "m", "messages": [{"role": "user"}]}, {"origin": "https://app.example"}
    )
    refused = await ask(gateway, "GET", "/v1/models/other", origin="https://app.example")
    for found in (allowed, answer, refused):
        assert found.head.get("access-control-allow-origin") == "https://app.example"
        assert "Origin" in found.head.get("vary")


async def test_a_request_for_what_does_not_exist_is_recorded_with_advice(gateway: Gateway) -> None:
    headers = {"user-agent": "claude-cli/2.1 (external)", "anthropic-version": "2023-06-01"}
    answer = await ask(gateway, "POST", "/v1/files?api_key=canary-in-the-query", **headers)
    assert answer.status == 404
    found = gateway.record
    assert (found.request, found.app, found.status, found.code) == ("POST /v1/files", "claude-cli", 404, "unknown_url")
    assert found.api == ""  # the headers decide the form of the error, but no API has this address
    assert (found.outcome, found.token_name, found.cost, found.id) == (
        "refused",
        "laptop",
        0,
        answer.head.get("x-request-id"),
    )
    assert "that a vendor stores are not supported" in found.error
    written = b"".join(path.read_bytes() for path in gateway.engine.config.home.rglob("calls-*"))
    assert b"in-the-query" not in written
    assert not written.count(gateway.client.key.encode())


@pytest.mark.parametrize(
    ("method", "path", "headers", "code", "token"),
    [
        ("PUT", CHAT, {}, "method_not_allowed", "laptop"),
        ("GET", "/v1/nothing", {"authorization": None}, "unknown_url", ""),
        ("GET", "/v1/nothing", {"authorization": "Bearer wrong"}, "unknown_url", ""),
        ("GET", "/v1/nothing", {"authorization": "Basic wrong"}, "unknown_url", ""),
        ("OPTIONS", CHAT, {"origin": "app://obsidian.md"}, "origin_not_allowed", ""),
        ("POST", CHAT, {"origin": "https://evil.example"}, "origin_not_allowed", ""),
        ("POST", CHAT, {"host": "gateway.lan"}, "wrong_host", ""),
        ("GET", "/v1/models", {"authorization": "Basic wrong"}, "invalid_api_key", ""),
        ("GET", "/v1/models/other", {}, "model_not_found", "laptop"),
        ("HEAD", "/v1/models/other", {}, "model_not_found", "laptop"),
        ("GET", "/v1/responses", {}, "method_not_allowed", "laptop"),
        ("GET", "/v1/responses", {"upgrade": "websocket"}, "websocket_not_supported", "laptop"),
        ("GET", "/v1/responses/resp_1", {}, "not_found", "laptop"),
        ("DELETE", "/v1/responses/resp_1", {}, "not_found", "laptop"),
        ("POST", "/v1/models/x:generateContent", {}, "unknown_url", "laptop"),
        ("POST", "/v1/messages/count_tokens", {"content-type": "text/plain"}, "unsupported_media_type", "laptop"),
        ("POST", "/api/show", {}, "invalid_type", "laptop"),
    ],
)
async def test_whatever_reaches_no_api_is_recorded_once(
    gateway: Gateway, method: str, path: str, headers: dict[str, str | None], code: str, token: str
) -> None:
    await ask(gateway, method, path, **headers)
    assert (gateway.record.request, gateway.record.code) == (f"{method} {path}", code)
    assert gateway.record.token_name == token


async def test_what_is_refused_by_an_api_is_recorded_once_and_without_its_path(gateway: Gateway) -> None:
    await ask(gateway, "POST", CHAT, authorization="Bearer wrong")
    assert (gateway.record.code, gateway.record.request) == ("invalid_api_key", "")


@pytest.mark.parametrize(("path", "headers"), [("/scan/{}", {}), ("/v1/responses", {"upgrade": "websocket"})])
async def test_a_flood_is_cheap_and_counted(gateway: Gateway, path: str, headers: dict[str, str]) -> None:
    """Of wrong addresses, and of upgrades that are refused."""
    for number in range(100):
        await ask(gateway, "GET", path.format(number), **headers)
    await until(lambda: len(gateway.records) + repeated(gateway) >= 100)
    assert (len(gateway.records) < 30, len(gateway.records) + repeated(gateway)) == (True, 100)


def repeated(gateway: Gateway) -> int:
    """How many refusals records count beside their own."""
    return sum(int(mark.removeprefix("repeated=")) for record in gateway.records for mark in record.marks)


@pytest.mark.parametrize(
    ("agent", "count", "app", "retry"),
    [
        ("", "", "", 0),
        ("curl/8", "-1", "curl", 0),
        ("ls/JS 5.23.2", "0", "OpenAI", 0),
        ("OpenAI/JS 5.23.2", "2", "OpenAI", 2),
        ("go/1.2", "0", "go", 0),
        ("\x80\xff/1", "\xb2", "\ufffd\ufffd", 0),
        ("x" * 500, "9999", "x" * 39 + "…", 0),
    ],
)
async def test_a_visitor_is_recorded_plainly(gateway: Gateway, agent: str, count: str, app: str, retry: int) -> None:
    headers = {"user-agent": agent, "x-stainless-retry-count": count}
    await gateway.client.post(b"[]", headers)
    assert (gateway.record.app, gateway.record.retry) == (app, retry)


@pytest.mark.parametrize(("broken", "method", "path"), [("identify", "GET", "/v1/models"), ("run", "POST", CHAT)])
async def test_a_bug_is_reported_without_a_trace(
    gateway: Gateway,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    broken: str,
    method: str,
    path: str,
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(gateway.engine.pipeline, broken, fails)
    answer = await gateway.client.ask(method, path, b"{}" if method == "POST" else b"")
    assert answer.refusal == (500, "internal_error", None)
    assert b"secret" not in answer.body
    assert json.loads(answer.body)["error"]["gateway"]["call_id"] in caplog.text


async def test_a_large_request_without_a_thread_may_be_sent_again(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("can't start new thread")  # Python's words at the limit of a container

    monkeypatch.setattr(threading.Thread, "start", fails)
    answer = await gateway.client.post(b"[" + b"0," * (1 << 20) + b"0]")
    assert answer.refusal == (503, "overloaded", None)
    assert answer.head.get("retry-after") == "1"


@pytest.mark.parametrize(
    ("headers", "name"),
    [
        ({"x-app": "My tool"}, "My tool"),
        ({"x-title": "Cline", "http-referer": "https://cline.bot"}, "Cline"),
        ({"http-referer": "https://user@www.roocode.com:8443/path?x=1"}, "roocode.com:8443"),
        ({"x-app": "A", "x-title": "B"}, "A"),
        ({"x-app": "cli", "anthropic-version": "2023-06-01"}, "OpenAI"),
        ({"x-title": "  "}, "OpenAI"),
        ({"user-agent": "pi (linux 6.18; x64)"}, "pi"),
        ({"user-agent": "", "originator": "codex_exec"}, "codex_exec"),
        ({"originator": "codex_exec"}, "OpenAI"),
        ({"x-title": "a\u202e" + "x" * 300}, "a\N{REPLACEMENT CHARACTER}" + "x" * 37 + "…"),
    ],
)
async def test_a_program_gives_its_name_in_a_header(gateway: Gateway, headers: dict[str, str], name: str) -> None:
    sent = {key: value.encode().decode("latin-1") for key, value in headers.items()}
    await ask(gateway, "GET", "/v1/no-such-path", **{"user-agent": "OpenAI/Python 2.0", **sent})
    assert [record.app for record in gateway.records] == [name]


async def test_a_post_to_the_root_gets_the_base_url(gateway: Gateway) -> None:
    message = (await ask(gateway, "POST", "/")).json["error"]["message"]
    assert message.startswith("POST / does not exist here: check the program's base URL: it is http://127.0.0.1:")
    assert "//" not in message.replace("http://", "")


async def test_the_list_of_models_says_that_the_account_is_suspended(gateway: Gateway, provider: Provider) -> None:
    before = await gateway.client.get("/v1/models")
    assert before.head.get("x-gateway-account") == ""
    gateway.change("account", "", Account(status=AccountStatus.SUSPENDED))
    after = await gateway.client.get("/v1/models")
    assert after.head.get("x-gateway-account") == "suspended; calls are rejected until it is active again"
    assert (after.status, after.body) == (200, before.body)
