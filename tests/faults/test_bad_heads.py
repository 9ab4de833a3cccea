"""Wrong headers, keys, hosts, origins, paths and methods."""

from typing import Any
from urllib.parse import unquote

import pytest

from gateway.domain.channel import Dialect, ServedModel
from gateway.domain.units import Millis
from tests.fakes.client import HELLO
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider
from tests.fakes.replies import fail
from tests.faults.refusals import nothing_happened, plainly

BODY: dict[str, Any] = {"model": "m", "messages": HELLO}


@pytest.mark.parametrize("coding", ["gzip", "identity"])
async def test_a_compressed_request_is_not_taken(gateway: Gateway, provider: Provider, coding: str) -> None:
    answer = await gateway.client.post(BODY, {"content-encoding": coding})
    plainly(answer)
    assert answer.refusal == (415, "unsupported_media_type", None)
    nothing_happened(gateway, provider)


@pytest.mark.parametrize("kind", ["text/plain", "application/json; charset=utf-16"])
async def test_only_json_is_taken(gateway: Gateway, provider: Provider, kind: str) -> None:
    answer = await gateway.client.post(BODY, {"content-type": kind})
    assert answer.refusal == (415, "unsupported_media_type", None)
    nothing_happened(gateway, provider)


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
async def test_a_wrong_key_is_distinguished_from_none(gateway: Gateway, provider: Provider, name: str) -> None:
    form, code = KEYS[name]
    key = gateway.client.key
    answer = await gateway.client.post(BODY, {"authorization": form.format(key=key, upper=key.upper()) or None})
    plainly(answer)
    assert answer.refusal == (401, code, None)
    assert answer.head.get("www-authenticate") == "Bearer"
    nothing_happened(gateway, provider)


async def test_two_authorization_headers_are_refused(gateway: Gateway, provider: Provider) -> None:
    request = gateway.client.request("GET", "/v1/models").replace(b"\r\n\r\n", b"\r\nauthorization: Bearer x\r\n\r\n")
    assert (await gateway.client.raw(request)).refusal == (401, "invalid_api_key", None)


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
async def test_a_token_that_may_not_learns_why(
    gateway: Gateway, provider: Provider, fields: dict[str, Any], status: int, code: str
) -> None:
    gateway.group("empty")
    answer = await gateway.token("other", **fields).chat()
    plainly(answer)
    assert (answer.status, answer.error["code"]) == (status, code)
    nothing_happened(gateway, provider)


@pytest.mark.parametrize("path", ["/v1/models?model=m", "/v1/models?", "/v1/models/m?x=%00"])
async def test_a_query_changes_nothing(gateway: Gateway, path: str) -> None:
    assert (await gateway.client.get(path)).status == 200


@pytest.mark.parametrize(
    "name", ["plain", "../../v1/keys", "..", "a?key=x", "a#b", "a b", "%2e%2e", "ü", "a:b@c", "a\\b"]
)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_model_name_cannot_leave_its_place_in_a_path(
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


@pytest.mark.parametrize(
    "headers",
    [
        {"upgrade": "websocket", "connection": "Upgrade", "sec-websocket-key": "x" * 24, "sec-websocket-version": "13"},
        {"upgrade": "h2c", "connection": "Upgrade, HTTP2-Settings", "http2-settings": "AAMAAABkAAQAAP__"},
    ],
)
async def test_nothing_is_upgraded(gateway: Gateway, headers: dict[str, str]) -> None:
    answer = await gateway.client.get("/v1/models", headers)
    assert answer.status in {200, 400}
    assert not answer.head.get("upgrade")
