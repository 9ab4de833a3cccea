"""Bodies that are not a request, or a wrong one, are refused before any effect."""

import json
from dataclasses import dataclass
from typing import Any

import pytest

from tests.fakes.client import HELLO
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider
from tests.fakes.replies import speak
from tests.faults.refusals import nothing_happened, plainly

JSON = {"content-type": "application/json"}
GOOD = b'"model":"m","messages":[{"role":"user","content":"x"}]'


@dataclass(frozen=True, slots=True)
class Bad:
    """A body and what happens to it."""

    row: str
    body: bytes
    code: str
    param: str | None = None
    status: int = 400


def field(row: str, value: str, code: str, param: str) -> Bad:
    """A good body with one more field."""
    return Bad(row, b"{%b,%b}" % (GOOD, value.encode()), code, param)


NESTED = b'{"model":"m","messages":[{"role":"user","content":"x"}],"x":'

BODIES = [
    Bad("B1", b"   ", "invalid_json"),
    Bad("B1", b"[]", "invalid_type"),
    Bad("B2", json.dumps({"model": "m", "messages": HELLO}).encode("utf-16"), "invalid_json"),
    Bad("B3", b"{%b} {}" % GOOD, "invalid_json"),
    Bad("B3", b'{%b,"x":NaN}' % GOOD, "invalid_json"),
    Bad("B4", b'{%b,"model":"other"}' % GOOD, "duplicate_key"),
    Bad("B5", NESTED + b"[" * 100_000 + b"]" * 100_000 + b"}", "too_deep"),
    Bad("B6", b'{%b,"x":%b}' % (GOOD, b"9" * 1_000_000), "invalid_value"),
    field("B11", '"max_tokens":-1', "invalid_value", "max_tokens"),
    field("B11", '"max_tokens":1.5', "invalid_type", "max_tokens"),
    Bad("B12", b'{"model":7,"messages":[{"role":"user"}]}', "invalid_type", "model"),
    Bad("B13", b'{"model":"m"}', "missing_required_parameter", "messages"),
    Bad("B13", b'{"model":"m","messages":[{"role":"user"},{"role":7}]}', "invalid_type", "messages[1].role"),
]


@pytest.mark.parametrize("bad", BODIES, ids=lambda bad: f"{bad.row} {bad.body[-24:]!r}")
async def test_a_bad_body_is_refused(gateway: Gateway, provider: Provider, bad: Bad) -> None:
    headers = {**JSON, "content-length": str(len(bad.body))}
    answer = await gateway.client.ask("POST", "/v1/chat/completions", bad.body, headers)
    plainly(answer)
    assert answer.refusal == (bad.status, bad.code, bad.param)
    nothing_happened(gateway, provider)


async def test_sixty_four_levels_pass(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", speak())
    assert (await gateway.client.post(NESTED + b"[" * 63 + b"]" * 63 + b"}")).status == 200


LIMIT = 32 << 20


@pytest.mark.slow
async def test_the_body_limit_is_exact(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", speak())
    gateway.grant(1_000_000_000_000)
    head, tail = b'{"model":"m","messages":[{"role":"user","content":"', b'"}]}'
    body = head + b"x" * (LIMIT - len(head) - len(tail)) + tail
    assert len(body) == LIMIT
    assert (await gateway.client.post(body)).status == 200
    assert len(provider.exchanges) == 1
    headers = {**JSON, "content-length": str(LIMIT + 1)}
    answer = await gateway.client.ask("POST", "/v1/chat/completions", headers=headers)  # refused before it is sent
    assert answer.refusal == (413, "request_too_large", None)
    assert len(provider.exchanges) == 1


STRANGE = ["../../etc/passwd", "[red]x", "\u202eevil", "a\x1b[31mb", "m\n"]


@pytest.mark.parametrize("name", STRANGE)
async def test_a_strange_model_name_is_unknown_and_shown_plainly(
    gateway: Gateway, provider: Provider, name: str
) -> None:
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
