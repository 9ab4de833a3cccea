"""Bodies that are not a request, or a wrong one, are refused before any effect."""

import json
import time
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
    Bad("B1", b"", "invalid_json"),
    Bad("B1", b"   ", "invalid_json"),
    Bad("B1", b"[]", "invalid_type"),
    Bad("B1", b'"x"', "invalid_type"),
    Bad("B1", b"null", "invalid_type"),
    Bad("B1", b"1", "invalid_type"),
    Bad("B1", b"true", "invalid_type"),
    Bad("B2", b'{%b,"x":"\xff"}' % GOOD, "invalid_json"),
    Bad("B2", b'{%b,"x":"\xed\xa0\x80"}' % GOOD, "invalid_json"),
    Bad("B2", json.dumps({"model": "m", "messages": HELLO}).encode("utf-16"), "invalid_json"),
    Bad("B2", json.dumps({"model": "m", "messages": HELLO}).encode("utf-32"), "invalid_json"),
    Bad("B2", b'{%b,"x":"\x00"}' % GOOD, "invalid_json"),
    Bad("B2", b"\x00{%b}" % GOOD, "invalid_json"),
    Bad("B3", b"{%b} {}" % GOOD, "invalid_json"),
    Bad("B3", b"{%b}," % GOOD, "invalid_json"),
    Bad("B3", b"{%b,}" % GOOD, "invalid_json"),
    Bad("B3", b"{%b /* x */}" % GOOD, "invalid_json"),
    Bad("B3", b"{'model':'m'}", "invalid_json"),
    Bad("B3", b'{%b,"x":NaN}' % GOOD, "invalid_json"),
    Bad("B3", b'{%b,"x":[-Infinity]}' % GOOD, "invalid_json"),
    Bad("B3", b'{%b,"x":1e999}' % GOOD, "invalid_value"),
    Bad("B3", b'{%b,"x":01}' % GOOD, "invalid_json"),
    Bad("B3", b'{%b,"x":"\n"}' % GOOD, "invalid_json"),
    Bad("B4", b'{%b,"model":"other"}' % GOOD, "duplicate_key"),
    Bad("B4", b'{%b,"mod\\u0065l":"other"}' % GOOD, "duplicate_key"),
    Bad("B4", b'{%b,"x":{"y":1},"x":2}' % GOOD, "duplicate_key"),
    Bad("B5", NESTED + b"[" * 64 + b"]" * 64 + b"}", "too_deep"),
    Bad("B5", NESTED + b"[" * 100_000 + b"]" * 100_000 + b"}", "too_deep"),
    Bad("B5", NESTED + b'{"a":' * 5_000 + b"1" + b"}" * 5_000 + b"}", "too_deep"),
    Bad("B6", b'{%b,"x":%b}' % (GOOD, b"9" * 5_000), "invalid_value"),
    Bad("B6", b'{%b,"x":%b}' % (GOOD, b"9" * 1_000_000), "invalid_value"),
    Bad("B6", b'{%b,"max_tokens":%b}' % (GOOD, b"9" * 25), "invalid_value"),
    field("B11", '"stream":"true"', "invalid_type", "stream"),
    field("B11", '"stream":1', "invalid_type", "stream"),
    field("B11", '"stream":[]', "invalid_type", "stream"),
    field("B11", '"max_tokens":-1', "invalid_value", "max_tokens"),
    field("B11", '"max_tokens":0', "invalid_value", "max_tokens"),
    field("B11", '"max_tokens":1.5', "invalid_type", "max_tokens"),
    field("B11", '"max_tokens":true', "invalid_type", "max_tokens"),
    field("B11", '"max_tokens":"5"', "invalid_type", "max_tokens"),
    field("B11", '"max_completion_tokens":-7', "invalid_value", "max_completion_tokens"),
    field("B11", '"max_tokens":1000000001', "invalid_value", "max_tokens"),
    field("B11", '"n":0', "invalid_value", "n"),
    field("B11", '"n":-1', "invalid_value", "n"),
    field("B11", '"n":1000', "invalid_value", "n"),
    field("B11", '"n":{}', "invalid_type", "n"),
    field("B11", '"temperature":"hot"', "invalid_type", "temperature"),
    field("B11", '"tools":{}', "invalid_type", "tools"),
    field("B11", '"stream_options":[]', "invalid_type", "stream_options"),
    field("B11", '"stream_options":{"include_usage":true}', "invalid_value", "stream_options"),
    Bad("B12", b'{"messages":[{"role":"user"}]}', "missing_required_parameter", "model"),
    Bad("B12", b'{"model":null,"messages":[{"role":"user"}]}', "missing_required_parameter", "model"),
    Bad("B12", b'{"model":"","messages":[{"role":"user"}]}', "missing_required_parameter", "model"),
    Bad("B12", b'{"model":7,"messages":[{"role":"user"}]}', "invalid_type", "model"),
    Bad("B12", b'{"model":["m"],"messages":[{"role":"user"}]}', "invalid_type", "model"),
    Bad("B12", b'{"model":"%b","messages":[{"role":"user"}]}' % (b"m" * 10_240), "invalid_value", "model"),
    Bad("B13", b'{"model":"m"}', "missing_required_parameter", "messages"),
    Bad("B13", b'{"model":"m","messages":[]}', "invalid_value", "messages"),
    Bad("B13", b'{"model":"m","messages":{}}', "invalid_type", "messages"),
    Bad("B13", b'{"model":"m","messages":"hello"}', "invalid_type", "messages"),
    Bad("B13", b'{"model":"m","messages":["hello"]}', "invalid_type", "messages[0]"),
    Bad("B13", b'{"model":"m","messages":[{"content":"x"}]}', "invalid_type", "messages[0]"),
    Bad("B13", b'{"model":"m","messages":[{"role":"user"},{"role":7}]}', "invalid_type", "messages[1].role"),
]


@pytest.mark.parametrize("bad", BODIES, ids=lambda bad: f"{bad.row} {bad.body[-24:]!r}")
async def test_a_bad_body_is_refused(gateway: Gateway, provider: Provider, bad: Bad) -> None:
    headers = {**JSON, "content-length": str(len(bad.body))}
    answer = await gateway.client.ask("POST", "/v1/chat/completions", bad.body, headers)
    plainly(answer)
    assert answer.refusal == (bad.status, bad.code, bad.param)
    nothing_happened(gateway, provider)


async def test_b2_a_bom_is_tolerated(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", speak())
    assert (await gateway.client.post(b"\xef\xbb\xbf{%b}" % GOOD)).status == 200


async def test_b5_sixty_four_levels_pass(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", speak())
    assert (await gateway.client.post(NESTED + b"[" * 63 + b"]" * 63 + b"}")).status == 200


async def test_b7_a_body_of_brackets_is_refused_quickly(gateway: Gateway, provider: Provider) -> None:
    body = NESTED + b"[" + b"[]," * ((8 << 20) // 3) + b"[]]}"
    seconds = []
    for _ in range(3):
        began = time.process_time()
        answer = await gateway.client.post(body)
        seconds.append(time.process_time() - began)
        assert answer.refusal == (400, "too_complex", None)
    assert min(seconds) < 0.3  # of both ends; parsing it takes more than a second
    nothing_happened(gateway, provider)


LIMIT = 32 << 20


@pytest.mark.slow
async def test_b8_the_body_limit_is_exact(gateway: Gateway, provider: Provider) -> None:
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


async def test_b8_an_absurd_length_is_refused_unread(gateway: Gateway, provider: Provider) -> None:
    for length in (1 << 62, (1 << 63) - 1):
        headers = {**JSON, "content-length": str(length)}
        answer = await gateway.client.ask("POST", "/v1/chat/completions", headers=headers)
        assert answer.refusal == (413, "request_too_large", None)
    nothing_happened(gateway, provider)


async def test_b8_chunks_beyond_the_limit_are_refused(gateway: Gateway, provider: Provider) -> None:
    peer = await gateway.client.connect()
    headers = {**JSON, "transfer-encoding": "chunked"}
    await peer.write(gateway.client.request("POST", "/v1/chat/completions", headers=headers))
    block = b"%x\r\n%b\r\n" % (1 << 20, b"x" * (1 << 20))
    for _ in range(40):
        if peer.buffer:
            break
        await peer.write(block)
    assert (await peer.read_head()).status == 413
    peer.reset()
    nothing_happened(gateway, provider)


STRANGE = [
    *("../../etc/passwd", "[/]", "[red]x", "m/../m", "%6d", "m ", " m", "M", "a" * 256),
    *("\u202eevil", "a\x1b[31mb", "m\n", "\U0001f642"),
]


@pytest.mark.parametrize("name", STRANGE)
async def test_b12_a_strange_model_name_is_unknown_and_shown_plainly(
    gateway: Gateway, provider: Provider, name: str
) -> None:
    answer = await gateway.client.chat(name)
    plainly(answer)
    assert answer.refusal == (404, "model_not_found", "model")
    nothing_happened(gateway, provider)
    assert not {"\x1b", "\u202e", "\n"} & set(gateway.record.error)


async def test_b13_a_hundred_thousand_messages_are_refused_or_passed_and_never_fatal(
    gateway: Gateway, provider: Provider
) -> None:
    provider.on("m", speak())
    answer = await gateway.client.chat(messages=[{"role": "user", "content": ""}] * 100_000)
    assert answer.refusal == (400, "too_complex", None)
    assert (await gateway.client.chat(messages=[{"role": "user", "content": ""}] * 10_000)).status == 200


@pytest.mark.parametrize("content", [None, [], "", [{"type": "text", "text": "x"}], [{"type": "x_new"}], {"x": 1}, 7])
@pytest.mark.parametrize("role", ["user", "tool", "narrator"])
async def test_b13_what_a_message_holds_is_the_upstreams_business(
    gateway: Gateway, provider: Provider, content: Any, role: str
) -> None:
    provider.on("m", speak())
    message = {"role": role, "content": content}
    assert (await gateway.client.chat(messages=[message])).status == 200
    assert provider.last.json["messages"] == [message]


async def test_b14_a_body_cannot_redirect_a_call(gateway: Gateway, provider: Provider) -> None:
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
