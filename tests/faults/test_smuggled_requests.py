"""What a request cannot do: lead a call elsewhere, leave its place in a path, be upgraded."""

from typing import Any
from urllib.parse import unquote

import pytest

from gateway.domain.channel import Dialect, ServedModel
from tests.fakes.client import read_answer
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider
from tests.fakes.replies import dumps, fail
from tests.fakes.wire import Gone


async def test_a_body_cannot_redirect_a_call(gateway: Gateway, provider: Provider) -> None:
    strange: dict[str, Any] = {
        "api_base": "http://127.0.0.1:1/v1",
        "base_url": "http://127.0.0.1:1/v1",
        "api_key": "sk-other",
        "headers": {"authorization": "Bearer x"},
        "extra_headers": {"authorization": "Bearer x"},
        "channel": "ch_other",
    }
    assert (await gateway.client.chat(**strange)).status == 200
    assert provider.last.head.get("authorization") == "Bearer sk-upstream-canary"
    assert {key: provider.last.json[key] for key in strange} == strange


@pytest.mark.parametrize(
    "name", ["plain", "../../v1/keys", "..", "a?key=x", "a#b", "a b", "%2e%2e", "ü", "a:b@c", "a\\b"]
)
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


@pytest.mark.parametrize("trailer", ["Authorization: Bearer x", "X-Title: evil", "Origin: http://evil.example"])
async def test_a_trailer_is_not_a_header_of_the_next_request(gateway: Gateway, trailer: str) -> None:
    """A proxy may send the requests of several clients over one connection."""
    body = dumps({"model": "m", "messages": [{"role": "user", "content": "Hi"}]})
    headers = {"transfer-encoding": "chunked", "content-length": None}
    ended = b"%x\r\n%b\r\n0\r\n%b\r\n\r\n" % (len(body), body, trailer.encode())
    first = gateway.client.request("POST", "/v1/chat/completions", body, headers).removesuffix(body) + ended
    peer = await gateway.client.send(first + gateway.client.request("POST", "/v1/chat/completions", body))
    try:
        answer = await read_answer(peer)
        assert (answer.status, answer.head.get("connection")) == (200, "close")
        with pytest.raises(Gone):
            await read_answer(peer)
    finally:
        peer.close()
    assert [record.app for record in await gateway.settled(1)] == [""]


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
