"""A further inbound API is a class and a path: pipeline, attempts and records handle its calls like all others."""

import asyncio
import json
from collections.abc import Mapping

import msgspec
import pytest

from gateway.domain.channel import Channel
from gateway.domain.errors import GatewayError
from gateway.domain.order import Order
from gateway.inbound.api import AttemptPlan, HttpRequest, InboundRequest
from gateway.inbound.chat.api import ChatCompletions
from gateway.inbound.chat.native import NativeChat
from gateway.upstream.adapter import DialectAdapter, WholeAnswer
from gateway.upstream.openai.dialect import OpenAIDialect
from gateway.v1 import endpoints
from gateway.v1.call import answer_call
from tests.fakes.client import Answer
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Exchange, Provider
from tests.fakes.replies import speak

PATH = "/v1/shout"


class ShoutAdapter(NativeChat):
    """Writes whole answers in upper case."""

    def whole(self, body: bytes, order: Order, channel: Channel) -> WholeAnswer:
        answer = super().whole(body, order, channel)
        text = json.loads(answer.body)["choices"][0]["message"]["content"]
        return msgspec.structs.replace(answer, body=json.dumps({"shout": text.upper()}).encode())


class Shout(ChatCompletions):
    """Requests are ``{"say": text}``, answers ``{"shout": text}``, errors ``{"oh": code}``."""

    name = "shout"
    id_headers: tuple[str, ...] = ("x-request-id", "shout-id")

    def parse(self, request: HttpRequest) -> InboundRequest:
        text = json.loads(request.body)["say"]
        model = request.headers.get("Shout-Model", "m")
        body = json.dumps({"model": model, "messages": [{"role": "user", "content": text}]}).encode()
        return super().parse(msgspec.structs.replace(request, body=body))

    def plan(self, order: Order, channel: Channel, chat: DialectAdapter, *, lacking: bool) -> AttemptPlan:
        return AttemptPlan(ShoutAdapter(OpenAIDialect()), order, native=True)

    def status(self, error: GatewayError) -> int:
        return 418 if error.code == "model_not_found" else super().status(error)

    def error_body(self, error: GatewayError, call: str) -> bytes:
        return json.dumps({"oh": error.code}).encode()


SHOUT = endpoints.EndpointRow(path=PATH, handlers={"POST": answer_call}, api=Shout())


async def shout(gateway: Gateway, headers: Mapping[str, str | None]) -> Answer:
    return await gateway.client.ask("POST", PATH, b'{"say":"hello"}', headers)


async def test_a_call_of_another_api(gateway: Gateway, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(endpoints.EXACT_ROWS, PATH, SHOUT)
    provider.on("m", speak("well"))
    answer = await shout(gateway, {})
    assert (answer.status, answer.body) == (200, b'{"shout": "WELL"}')
    assert provider.exchanges[-1].json["messages"] == [{"role": "user", "content": "hello"}]
    assert answer.head.get("shout-id") == answer.head.get("x-request-id") == gateway.record.id
    assert (gateway.record.status, gateway.record.cost > 0) == (200, True)
    assert (gateway.record.api, gateway.record.native) == ("shout", True)


async def test_a_running_call_has_its_api(
    gateway: Gateway, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(endpoints.EXACT_ROWS, PATH, SHOUT)
    begun, gate = asyncio.Event(), asyncio.Event()

    async def may_wait(exchange: Exchange) -> None:
        begun.set()
        await gate.wait()
        await speak("well")(exchange)

    provider.on("m", may_wait)
    asked = asyncio.create_task(shout(gateway, {}))
    async with asyncio.timeout(30):
        await begun.wait()
    running = gateway.engine.store.books.running.values()
    assert [(call.api, call.native) for call in running] == [("shout", True)]
    gate.set()
    assert (await asked).status == 200


async def test_a_chat_completion_makes_no_line_longer(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", speak("well"))
    await gateway.client.chat("m")
    assert (gateway.record.api, gateway.record.native) == ("chat", False)
    files = [path for path in gateway.engine.config.home.rglob("*") if path.name.startswith(("calls-", "inflight"))]
    written = b"".join(path.read_bytes() for path in files)
    assert gateway.record.id.encode() in written
    assert b'"api"' not in written
    assert b'"native"' not in written


async def test_an_error_of_another_api(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(endpoints.EXACT_ROWS, PATH, SHOUT)
    answer = await shout(gateway, {"shout-model": "none"})
    assert (answer.status, answer.body) == (418, b'{"oh": "model_not_found"}')
    assert (gateway.record.status, gateway.record.code) == (418, "model_not_found")
    assert gateway.record.api == "shout"
    assert answer.head.get("shout-id") == gateway.record.id
