"""Wrong keys, queries, upgrades, and names of models that would leave their place in a path."""

from typing import Any
from urllib.parse import unquote

import pytest

from gateway.domain.channel import Dialect, ServedModel
from tests.fakes.client import HELLO
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider
from tests.fakes.replies import fail
from tests.faults.refusals import nothing_happened, plainly

BODY: dict[str, Any] = {"model": "m", "messages": HELLO}


@pytest.mark.parametrize(
    ("form", "code"), [("", "missing_api_key"), ("Bearer ", "missing_api_key"), ("{key}", "invalid_api_key")]
)
async def test_a_wrong_key_is_not_a_missing_one(gateway: Gateway, provider: Provider, form: str, code: str) -> None:
    answer = await gateway.client.post(BODY, {"authorization": form.format(key=gateway.client.key) or None})
    plainly(answer)
    assert answer.refusal == (401, code, None)
    assert answer.head.get("www-authenticate") == "Bearer"
    nothing_happened(gateway, provider)


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
