"""Conversations that Anthropic keeps: ``thread`` goes to the channel that has it, and is never dropped in silence."""

import json
from typing import Any

import pytest

from gateway.domain.budget import Budget
from gateway.domain.channel import Dialect
from gateway.domain.units import Nanos
from tests.fakes.gateway import Gateway
from tests.fakes.messages import message, speak_messages
from tests.fakes.provider import Exchange, Provider
from tests.fakes.replies import Doc, dumps, fail, reply, speak
from tests.v1.test_messages import post

TURN = {"role": "user", "content": "Hi"}
BODY: Doc = {"model": "m", "max_tokens": 9, "messages": [TURN]}
CREATE: Doc = {**BODY, "thread": {"type": "create"}}


def going_on(id: str, **more: Any) -> Doc:
    return {**BODY, "thread": {"type": "continue", "previous_message_id": id}, **more}


def native(gateway: Gateway, provider: Provider, name: str, **fields: Any) -> None:
    gateway.channel(provider.base_url, name=name, dialect=Dialect.ANTHROPIC, preset="anthropic", **fields)


@pytest.mark.parametrize(
    ("dialect", "preset"),
    [
        ("openai", ""),
        ("gemini", ""),
        ("mock", ""),
        ("anthropic", "ollama"),
        ("anthropic", "deepseek"),
        ("anthropic", ""),
    ],
)
async def test_a_channel_that_keeps_nothing_refuses_in_the_sdks_words(
    gateway: Gateway, provider: Provider, dialect: str, preset: str, *, stream: bool
) -> None:
    gateway.channel(provider.base_url, dialect=Dialect(dialect), preset=preset)
    for body in (CREATE, going_on("msg_1"), going_on("msg_1", messages=[])):
        answer = await post(gateway, {**body, "stream": stream})
        assert answer.status == 400
        assert answer.error["type"] == "invalid_request_error"
        assert answer.error["details"] == {"error_code": "thread_unsupported_request"}
        assert "keeps no conversations" in answer.error["message"]
    assert provider.exchanges == []
    assert {record.code for record in gateway.records} == {"thread_unsupported_request"}


async def test_a_null_thread_is_translated(gateway: Gateway, provider: Provider) -> None:
    assert (await post(gateway, {**BODY, "thread": None})).status == 200


async def test_a_channel_that_can_keep_the_thread_is_called(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, "m=chat", name="translated", priority=9)
    native(gateway, provider, "native")
    provider.on("chat", speak("Hello"))
    provider.on("m", speak_messages())
    answers = [await post(gateway, body) for body in (BODY, CREATE)]
    assert [answer.head.get("x-gateway-channel") for answer in answers] == ["translated", "native"]
    assert provider.last.json["thread"] == {"type": "create"}


async def test_a_thread_goes_on_where_it_began(gateway: Gateway, provider: Provider, *, stream: bool) -> None:
    for name in ("a", "b", "c", "d"):
        native(gateway, provider, name)

    async def speak_as_next(exchange: Exchange) -> None:
        await speak_messages({**message(), "id": f"msg_{exchange.number}"})(exchange)

    provider.on("m", speak_as_next)
    began = await post(gateway, {**CREATE, "stream": stream})
    first = (await gateway.settled())[0].channel
    for number in range(1, 9):
        body = going_on(f"msg_{number}", messages=[] if number % 2 else [{**TURN, "content": str(number)}])
        assert (await post(gateway, {**body, "stream": stream})).status == began.status == 200
    assert {record.channel for record in await gateway.settled(9)} == {first}


async def test_a_failed_channel_is_not_replaced_by_one_without_the_thread(gateway: Gateway, provider: Provider) -> None:
    native(gateway, provider, "a", priority=9)
    native(gateway, provider, "b")
    provider.on("m", speak_messages({**message(), "id": "msg_1"}), fail(500))
    assert (await post(gateway, CREATE)).status == 200
    answer = await post(gateway, going_on("msg_1"))
    assert (answer.status, {record.channel for record in await gateway.settled(2)}) == (502, {"ch_a"})


async def test_an_answer_whose_id_is_not_text_is_an_answer(gateway: Gateway, provider: Provider) -> None:
    told = dumps({**message(), "id": "half"}).replace(b"half", rb"\ud83d")
    native(gateway, provider, "a")
    provider.on("m", reply(told))
    assert (await post(gateway, CREATE)).status == 200
    assert gateway.record.output == 12


async def test_the_history_that_only_the_upstream_has_is_held_for(gateway: Gateway, provider: Provider) -> None:
    native(gateway, provider, "a")
    poor = gateway.token("poor", budgets=(Budget(nanos=Nanos(100_000_000)),))
    assert (await post(poor, going_on("msg_1"))).status == 429


@pytest.mark.parametrize(
    ("status", "code"),
    [(404, "thread_not_found"), (400, "thread_already_continued"), (400, "thread_continue_in_flight")],
)
async def test_what_the_upstream_says_of_a_thread_reaches_the_sdk_as_it_is(
    gateway: Gateway, provider: Provider, status: int, code: str
) -> None:
    error = {"type": "not_found_error", "message": "No thread.", "details": {"error_code": code}}
    told = dumps({"type": "error", "error": error})
    native(gateway, provider, "a", priority=9)
    native(gateway, provider, "b")
    provider.on("m", reply(told, status=status))
    answer = await post(gateway, going_on("msg_9"))
    assert (answer.status, json.loads(answer.body), len(provider.exchanges)) == (status, json.loads(told), 1)
