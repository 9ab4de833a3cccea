"""Bodies that are not a request, or a wrong one, are refused before any effect."""

from typing import Any

import pytest

from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider
from tests.fakes.replies import speak
from tests.faults.refusals import nothing_happened, plainly

JSON = {"content-type": "application/json"}
GOOD = b'"model":"m","messages":[{"role":"user","content":"x"}]'


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        (b"   ", "invalid_json", None),
        (b'{%b,"model":"other"}' % GOOD, "duplicate_key", None),
        (b'{%b,"max_tokens":-1}' % GOOD, "invalid_value", "max_tokens"),
        (b'{"model":"m","messages":[{"role":"user"},{"role":7}]}', "invalid_type", "messages[1].role"),
    ],
)
async def test_bad_bodies(gateway: Gateway, provider: Provider, body: bytes, code: str, param: str | None) -> None:
    headers = {**JSON, "content-length": str(len(body))}
    answer = await gateway.client.ask("POST", "/v1/chat/completions", body, headers)
    plainly(answer)
    assert answer.refusal == (400, code, param)
    nothing_happened(gateway, provider)


STRANGE = ["../../etc/passwd", "[red]x", "\u202eevil", "a\x1b[31mb", "m\n"]


@pytest.mark.parametrize("name", STRANGE)
async def test_a_strange_model_is_unknown_and_shown_plainly(gateway: Gateway, provider: Provider, name: str) -> None:
    answer = await gateway.client.chat(name)
    plainly(answer)
    assert answer.refusal == (404, "model_not_found", "model")
    nothing_happened(gateway, provider)
    assert not {"\x1b", "\u202e", "\n"} & set(gateway.record.error)


async def test_a_body_cannot_redirect_a_call(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", speak())
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
