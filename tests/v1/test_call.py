"""POST /v1/chat/completions: what is refused is refused before more is read, and recorded with its token."""

import gc
import tracemalloc

import pytest

from gateway.domain.call import Outcome
from gateway.domain.channel import Dialect
from tests.fakes.client import read_answer
from tests.fakes.gateway import Gateway
from tests.fakes.messages import speak_messages
from tests.fakes.provider import Provider
from tests.fakes.replies import Doc, speak


async def test_long_names_of_fields_are_not_kept_after_their_call(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url.removesuffix("/v1"), dialect=Dialect.ANTHROPIC)
    provider.on("m", speak_messages())
    await gateway.client.chat(seed=1)
    tracemalloc.start()
    try:
        for number in range(20):
            fields: Doc = {f"max_tokens_{number}" + "x" * 200_000: 1, "\x1b": 1}
            answer = await gateway.client.chat(**fields)
            assert len(answer.head.get("x-gateway-dropped-params")) <= 200
        gc.collect()
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert kept < 2_000_000
    (mark,) = gateway.records[-1].marks
    assert (len(mark) < 1100, mark.isprintable()) == (True, True)


ARRAYS = b'{"model":"m","a":[' + b"[]," * (4 << 20) + b"1]}"
NAMES = b'{"model":"m",%b"a":1}' % b"".join(b'"n%d":1,' % i for i in range(800_000))
COMPLETED = ("/v1/responses", "/v1/responses/input_tokens", "/openai/deployments/m/chat/completions", "/api/show")
"""Paths whose bodies are read before the call is parsed."""


@pytest.mark.parametrize("body", [ARRAYS, NAMES], ids=["arrays", "names"])
@pytest.mark.parametrize("path", COMPLETED)
async def test_a_body_with_a_large_structure_is_refused_before_it_is_decoded(
    gateway: Gateway, path: str, body: bytes
) -> None:
    """While Python decodes JSON, no call goes on: 32 MiB of arrays or names took up to three seconds, and 800 MB."""
    gateway.channel("http://127.0.0.1:1/v1")
    tracemalloc.start()
    try:
        assert (await gateway.client.ask("POST", path, body)).status == 400
        assert tracemalloc.get_traced_memory()[1] < 6 * len(body)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "headers", [{"content-length": "2000000"}, {"content-length": None, "transfer-encoding": "chunked"}]
)
async def test_half_a_body_is_not_kept_when_its_client_is_gone(
    gateway: Gateway, headers: dict[str, str | None], caplog: pytest.LogCaptureFixture
) -> None:
    """Not even until the garbage collector runs, which may be hours."""
    request = gateway.client.request("POST", "/v1/chat/completions", b"1e8480\r\n" + bytes(1_000_000), headers)
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        for _ in range(3):
            peer = await gateway.client.send(request)
            await gateway.until(lambda: gateway.engine.pressure.body_bytes > 900_000)
            peer.reset()
            await gateway.until(lambda: gateway.engine.pressure.body_bytes == 0)
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
        gc.enable()
    assert kept < 500_000
    assert (gateway.records, caplog.records) == ([], [])


async def test_an_unknown_caller_is_refused_before_its_body(gateway: Gateway) -> None:
    peer = await gateway.client.connect()
    head = gateway.client.request(
        "POST", "/v1/chat/completions", b"{}", {"content-length": "1000", "authorization": "Bearer no"}
    )
    await peer.write(head)
    assert (await read_answer(peer)).refusal == (401, "invalid_api_key", None)
    assert gateway.record.status == 401
    peer.reset()


async def test_a_body_of_another_kind_is_refused_unread_and_recorded(gateway: Gateway) -> None:
    answer = await gateway.client.post(b"{}", {"content-type": "text/plain", "content-length": "1000"})
    assert answer.status == 415
    assert (gateway.record.token_name, gateway.record.code) == ("laptop", "unsupported_media_type")
    assert gateway.record.outcome is Outcome.REFUSED


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, "invalid_json"),
        (b"[]", 400, "invalid_type"),
        (b'{"model":"m"}', 400, "missing_required_parameter"),
        (b'{"model":"other","messages":[{"role":"user"}]}', 404, "model_not_found"),
    ],
)
async def test_a_refusal_is_recorded_with_its_call(gateway: Gateway, body: bytes, status: int, code: str) -> None:
    answer = await gateway.client.post(body, {"content-length": str(len(body))})
    record = gateway.record
    assert (answer.status, answer.error["code"], record.status, record.code) == (status, code, status, code)
    assert answer.error["gateway"]["call_id"] == record.id == answer.head.get("x-request-id")
    assert f"[call {record.id}]" in answer.error["message"]
    assert (record.cost, record.outcome) == (0, Outcome.REFUSED)


async def test_a_stopping_gateway_takes_no_calls(gateway: Gateway) -> None:
    gateway.engine.refuse_calls()
    answer = await gateway.client.chat()
    assert answer.refusal == (503, "gateway_stopping", None)
    assert answer.head.get("retry-after") == "5"


async def test_its_api_makes_no_line_of_the_ledger_longer(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", speak("well"))
    await gateway.client.chat("m")
    assert (gateway.record.api, gateway.record.native) == ("chat", False)
    files = [path for path in gateway.engine.config.home.rglob("*") if path.name.startswith(("calls-", "inflight"))]
    written = b"".join(path.read_bytes() for path in files)
    assert gateway.record.id.encode() in written
    assert b'"api"' not in written
    assert b'"native"' not in written
