"""Responses that are remembered: clients go on from them through every channel, fetch them and delete them."""

import asyncio
import json
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest

from gateway.core.response_memory import ResponseMemory, TokenMemory
from gateway.domain.channel import Dialect
from gateway.domain.conversation import KeptResponse
from gateway.domain.units import TokenId
from gateway.inbound.responses.recall import RecalledRequest, kept_of
from tests.cases.gemini import streams as gemini
from tests.conformance.open_responses import faults
from tests.conformance.test_open_responses import KINDS, NATIVE, WEATHER, ask, at
from tests.fakes.client import Answer
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider
from tests.fakes.replies import Doc, dumps, reply, usage, whole
from tests.fakes.responses import either, message, parsed, respond

ME = TokenId("tok_1")
CALL = {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}


async def get(gateway: Gateway, path: str, method: str = "GET") -> Answer:
    return await gateway.client.ask(method, f"/v1/responses/{path}")


def sent(provider: Provider) -> str:
    return provider.last.body.decode()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_conversation_goes_on_from_a_response(
    gateway: Gateway, provider: Provider, kind: str, stream: bool
) -> None:
    at(gateway, provider, kind)
    previous: dict[str, Any] = {}
    for turn in range(5):
        answer = await ask(gateway, input=f"turn {turn}", stream=stream, **previous)
        found = parsed(answer.body)[-1]["response"] if stream else answer.json
        assert (found["status"], faults(found, "Response")) == ("completed", [])
        if kind != "native":
            assert (found["store"], found["previous_response_id"]) == (True, previous.get("previous_response_id"))
            assert [f"turn {one}" in sent(provider) for one in range(turn + 1)] == [True] * (turn + 1)
            assert sent(provider).count("Four") == turn
        previous = {"previous_response_id": found["id"]}


@pytest.mark.parametrize("kind", ["chat", "anthropic", "gemini"])
async def test_references_stand_for_what_the_model_said(gateway: Gateway, provider: Provider, kind: str) -> None:
    """Vercel's AI SDK sends so by default: its own words in full, those of the model as references."""
    at(gateway, provider, kind)
    talk: list[Doc] = []
    for turn in range(10):
        talk.append({"role": "user", "content": [{"type": "input_text", "text": f"turn {turn}"}]})
        (item,) = (await ask(gateway, input=talk, tools=[WEATHER])).json["output"]
        talk.append({"type": "item_reference", "id": item["id"]})
        talk.append({"type": "function_call_output", "call_id": item["call_id"], "output": f"result {turn}"})
        answer = await ask(gateway, input=talk)
        assert answer.status == 200
        assert f"result {turn}" in sent(provider)
        talk.append({"type": "item_reference", "id": answer.json["output"][0]["id"]})
    assert sent(provider).count("Four") == 9
    assert sent(provider).count("result ") == 10
    assert "item_reference" not in sent(provider)


@pytest.mark.parametrize("reasoning", [{}, {"summary": "auto"}])
@pytest.mark.parametrize("by", ["previous_response_id", "item_reference"])
async def test_reasoning_goes_back_to_a_channel_that_reads_it(
    gateway: Gateway, provider: Provider, by: str, reasoning: Doc
) -> None:
    said = {"role": "assistant", "content": None, "reasoning_content": "I need it.", "tool_calls": [CALL]}
    choice = {"index": 0, "message": said, "finish_reason": "tool_calls"}
    lacking = reply({"detail": "Not Found"}, status=404)
    provider.on("m", either(lacking, reply(whole("m", choice, spent=usage()))))
    user = {"role": "user", "content": "Weather?"}
    found = (await ask(gateway, input=[user], tools=[WEATHER], reasoning=reasoning)).json
    thought, call = found["output"]
    assert "encrypted_content" not in thought
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "Sunny"}
    more: Doc = {"input": [result], "previous_response_id": found["id"]}
    if by == "item_reference":
        more = {"input": [user, *({"type": "item_reference", "id": item["id"]} for item in found["output"]), result]}
    await ask(gateway, tools=[WEATHER], **more)
    assert provider.last.json["messages"][1]["reasoning_content"] == "I need it."


async def test_what_the_upstream_keeps_is_left_to_it(gateway: Gateway, provider: Provider) -> None:
    at(gateway, provider, "native", respond(message("Hello"), **{**NATIVE, "store": True}))
    found = (await ask(gateway, input="hi")).json
    await ask(gateway, input="more", previous_response_id=found["id"])
    assert provider.last.json == {"model": "m-1", "input": "more", "previous_response_id": found["id"]}


@pytest.mark.parametrize("dialect", [Dialect.ANTHROPIC, Dialect.GEMINI])
async def test_a_model_at_other_channels_cannot_continue_what_an_upstream_keeps(
    gateway: Gateway, provider: Provider, dialect: Dialect
) -> None:
    """A client that changes the model then sends the whole input. It would only repeat the call after a 503."""
    at(gateway, provider, "native", respond(message("Hello"), **{**NATIVE, "store": True}))
    found = (await ask(gateway, input="hi")).json
    gateway.channel(provider.base_url, "other", name="other", dialect=dialect)
    body = {"model": "other", "input": "more", "previous_response_id": found["id"]}
    answer = await gateway.client.ask("POST", "/v1/responses", dumps(body))
    assert (answer.status, answer.json["error"]["code"]) == (400, "previous_response_not_found")


async def test_what_an_upstream_does_not_keep_is_remembered(gateway: Gateway, provider: Provider) -> None:
    at(gateway, provider, "native")
    found = (await ask(gateway, input="hi")).json
    await ask(gateway, input="more", previous_response_id=found["id"])
    user = {"type": "message", "role": "user", "content": "hi"}
    more = {"type": "message", "role": "user", "content": "more"}
    assert provider.last.json == {"model": "m-1", "input": [user, *found["output"], more]}


@pytest.mark.parametrize("field", ["previous_response_id", "input"])
@pytest.mark.parametrize("why", ["unknown", "not stored", "of another token", "switched off", "deleted"])
async def test_what_is_gone_makes_clients_send_all(gateway: Gateway, provider: Provider, field: str, why: str) -> None:
    at(gateway, provider, "chat")
    if why == "switched off":
        gateway.settings(responses_mib=0)
    client = gateway.token("other") if why == "of another token" else gateway.client
    first = await client.ask(
        "POST", "/v1/responses", dumps({"model": "m", "input": "hi", "store": why != "not stored"})
    )
    assert first.json["store"] is (why not in ("not stored", "switched off"))
    id, item = first.json["id"], first.json["output"][0]["id"]
    if why == "deleted":
        await get(gateway, id, "DELETE")
    if why == "unknown":
        id, item = "resp_1", "msg_1"
    asked = {"previous_response_id": id, "input": "more"}
    if field == "input":
        asked = {"input": [{"type": "item_reference", "id": item}]}
    answer = await ask(gateway, **asked)
    param = field if field != "input" else "input[0]"
    assert answer.refusal == (400, "previous_response_not_found", param)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reference", [{"type": "item_reference"}, {}, {"type": None}])
async def test_a_reference_needs_no_type(gateway: Gateway, provider: Provider, kind: str, reference: Doc) -> None:
    """OpenAI's SDKs let it be absent or null."""
    at(gateway, provider, kind)
    (item,) = (await ask(gateway, input="hi")).json["output"]
    question = {"role": "user", "content": "more"}
    answer = await ask(gateway, input=[{**reference, "id": item["id"]}, question], store=False)
    assert (answer.status, "Four" in sent(provider)) == (200, True)
    assert item["id"] not in sent(provider) or kind == "native"


async def test_a_picture_is_referred_to_by_its_id(gateway: Gateway, provider: Provider) -> None:
    """As OpenAI documents it for changing a picture; the kind that a model of Gemini made."""
    picture = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}
    at(gateway, provider, "gemini", reply(gemini.response(picture, finish="STOP", **gemini.spent(30, 7))))
    (item,) = (await ask(gateway, input="a cat")).json["output"]
    question = {"role": "user", "content": "with a hat"}
    await ask(gateway, input=[{"type": "image_generation_call", "id": item["id"]}, question])
    assert picture in provider.last.json["contents"][1]["parts"]


async def test_a_lone_surrogate_is_remembered(gateway: Gateway, provider: Provider) -> None:
    at(gateway, provider, "chat")
    first = await gateway.client.ask("POST", "/v1/responses", rb'{"model":"m","input":"x\ud83dy"}')
    body = rb'{"model":"m","input":"z\udc00","previous_response_id":"%b"}' % first.json["id"].encode()
    assert (await gateway.client.ask("POST", "/v1/responses", body)).status == 200
    assert (rb"x\ufffdy" in provider.last.body, rb"z\ufffd" in provider.last.body) == (True, True)


async def test_a_result_without_its_call_is_refused(gateway: Gateway, provider: Provider) -> None:
    at(gateway, provider, "chat")
    first = (await ask(gateway, input="hi")).json
    result = {"type": "function_call_output", "call_id": "call_x", "output": "x"}
    answer = await ask(gateway, input=[result], previous_response_id=first["id"])
    assert answer.refusal == (400, "invalid_value", "input")


async def test_reasoning_that_nobody_can_read_is_not_sent_back(gateway: Gateway, provider: Provider) -> None:
    bare: Doc = {"id": "rs_1", "type": "reasoning", "summary": []}
    at(gateway, provider, "native", respond(bare, message("Hello"), **NATIVE))
    first = (await ask(gateway, input="hi")).json
    await ask(gateway, input="more", previous_response_id=first["id"])
    assert [item.get("id") for item in provider.last.json["input"]] == [None, "msg_1", None]


async def test_a_native_response_names_the_one_that_it_goes_on_from(gateway: Gateway, provider: Provider) -> None:
    at(gateway, provider, "native", respond(message("Hello"), **NATIVE))
    first = (await ask(gateway, input="hi")).json
    provider.other = respond(message("Hello"), **{**NATIVE, "id": "resp_2"})
    for stream in (False, True):
        answer = await ask(gateway, input="more", previous_response_id=first["id"], stream=stream)
        found = [one["response"] for one in parsed(answer.body) if "response" in one] if stream else [answer.json]
        assert {one["previous_response_id"] for one in found} == {first["id"]}


async def test_a_response_can_be_fetched_and_deleted(gateway: Gateway, provider: Provider) -> None:
    at(gateway, provider, "chat")
    made = (await ask(gateway, input="hi")).json
    assert (await get(gateway, made["id"])).json == made
    assert (await get(gateway, made["id"] + "?stream=true")).status == 400
    assert (await get(gateway, made["id"] + "/cancel", "POST")).status == 400
    deleted = await get(gateway, made["id"], "DELETE")
    assert deleted.json == {"id": made["id"], "object": "response", "deleted": True}
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/input_items"), ("POST", "/cancel")):
        answer = await get(gateway, made["id"] + path, method)
        assert (answer.status, answer.error["code"]) == (404, "not_found")
        assert "is not kept here" in answer.error["message"]


async def test_the_items_that_a_response_answered_are_listed(gateway: Gateway, provider: Provider) -> None:
    at(gateway, provider, "chat")
    first = (await ask(gateway, input=[{"role": "user", "content": "hi"}])).json
    second = (await ask(gateway, input="more", previous_response_id=first["id"])).json
    listed = (await get(gateway, second["id"] + "/input_items?order=asc")).json
    assert [item["role"] for item in listed["data"]] == ["user", "assistant", "user"]
    assert listed["data"][0]["content"] == [{"type": "input_text", "text": "hi"}]
    assert all(faults(item, "Item") == [] for item in listed["data"])
    assert (listed["object"], listed["has_more"]) == ("list", False)
    page = (await get(gateway, second["id"] + "/input_items?limit=1")).json
    assert (page["data"], page["has_more"]) == (listed["data"][-1:], True)
    rest = (await get(gateway, second["id"] + f"/input_items?after={page['last_id']}")).json
    assert rest["data"] == listed["data"][1::-1]
    most = (await get(gateway, second["id"] + "/input_items?limit=" + "9" * 5000)).json
    assert most["data"] == listed["data"][::-1]


async def test_others_have_their_turn_while_many_items_are_listed(gateway: Gateway, provider: Provider) -> None:
    """The loop was held for a fifth of a second."""
    at(gateway, provider, "chat")
    made = (await ask(gateway, input=[{"role": "user", "content": "hi"}] * 45_000)).json
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0.001)
            turns += 1

    counting = asyncio.ensure_future(count_turns())
    page = (await get(gateway, made["id"] + "/input_items?limit=1")).json
    counting.cancel()
    assert page["has_more"]
    assert turns > 3


async def test_what_is_remembered_is_compacted_and_counted(gateway: Gateway, provider: Provider) -> None:
    at(gateway, provider, "chat")
    first = (await ask(gateway, input="We launch on Tuesday. " * 50)).json
    previous = {"input": "more", "previous_response_id": first["id"]}
    assert (await ask(gateway, "/v1/responses/compact", **previous)).status == 200
    assert "We launch on Tuesday." in sent(provider)
    counted = await ask(gateway, "/v1/responses/input_tokens", **previous)
    assert counted.json["input_tokens"] > 200


async def test_the_whole_conversation_is_held_for(gateway: Gateway, provider: Provider) -> None:
    at(gateway, provider, "chat")
    first = (await ask(gateway, input="word " * 5000, max_output_tokens=100)).json
    await ask(gateway, input="more", previous_response_id=first["id"], max_output_tokens=100)
    before, after = gateway.records
    assert after.held > before.held


async def test_the_whole_conversation_counts_as_the_body_of_its_request(gateway: Gateway, provider: Provider) -> None:
    at(gateway, provider, "chat")
    first = (await ask(gateway, input="word " * 20_000)).json
    gateway.engine.pressure.max_body_bytes = 50_000
    answer = await ask(gateway, input="more", previous_response_id=first["id"])
    assert (answer.status, answer.error["code"]) == (503, "out_of_memory")
    await gateway.until(lambda: gateway.engine.pressure.body_bytes == 0)


async def test_one_item_cannot_fill_the_memory_by_many_references(gateway: Gateway, provider: Provider) -> None:
    said = whole("m")
    said["choices"][0]["message"]["content"] = "word " * 100_000
    at(gateway, provider, "chat", reply(said))
    (item,) = (await ask(gateway, input="in")).json["output"]
    tracemalloc.start()
    try:
        answer = await ask(gateway, input=[{"id": item["id"]}] * 1000)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (answer.status, answer.error["code"]) == (400, "request_too_large")
    assert most < 50 << 20


def kept(id: str, previous: str = "", size: int = 1000, item: str = "") -> KeptResponse:
    body = json.dumps({"id": id, "filler": "x" * size}).encode()
    items = {item or f"msg_{id}": msgspec.Raw(b'{"id":1}')}
    return KeptResponse(id=id, previous=previous, input=b'"in"', body=body, items=items)


def test_items_of_one_id_are_all_kept_and_a_response_without_an_id_is_not() -> None:
    items = b'[{"type":"message","id":"a"},{"type":"message","id":"a"}]'
    body = b'{"id":"resp_1","object":"response","status":"completed","output":%b}' % items
    kept = kept_of(RecalledRequest(body=b"{}"), body, "call")
    assert kept is not None
    assert [*kept.items] == ["a", "resp_1/1"]
    assert kept_of(RecalledRequest(body=b"{}"), body.replace(b'"resp_1"', b"null"), "call") is None


def memory(limit: int, clock: Callable[[], float] = lambda: 0.0) -> ResponseMemory:
    return ResponseMemory(lambda: limit, clock)


def test_the_one_used_longest_ago_is_forgotten_first() -> None:
    made = memory(5 * (1000 + 1024 + 100))
    for name in "abcde":
        made.keep(ME, kept(name))
    assert made.find(ME, "a") is not None
    made.keep(ME, kept("f"))
    assert [name for name in "abcdef" if made.find(ME, name)] == ["a", "c", "d", "e", "f"]
    assert made.size <= 5 * (1000 + 1024 + 100)
    assert made.find_item(ME, "msg_b") is None


def test_an_item_whose_id_two_responses_have_is_that_of_the_later_one_as_long_as_it_is_kept() -> None:
    made = memory(1 << 20)
    for name in "abc":
        made.keep(ME, kept(name, item="msg_0"))
    assert made.forget(ME, "a")
    assert made.find_item(ME, "msg_0") == b'{"id":1}'
    assert made.forget(ME, "c")
    assert made.find_item(ME, "msg_0") is None
    assert made.forget(ME, "b")


def test_one_that_would_take_all_the_room_is_not_kept() -> None:
    made = memory(10_000)
    made.keep(ME, kept("a"))
    made.keep(ME, kept("b", size=9_000))
    assert [name for name in "ab" if made.find(ME, name)] == ["a"]


def test_a_conversation_without_its_beginning_is_none() -> None:
    made = memory(1 << 20)
    made.keep(ME, kept("a"))
    made.keep(ME, kept("b", "a"))
    mine = TokenMemory(ME, made)
    assert [one.id for one in mine.conversation("b")] == ["a", "b"]
    made.forget(ME, "a")
    assert (mine.conversation("b"), made.find(ME, "b") is not None) == ([], True)


def test_a_conversation_may_be_in_several_memories() -> None:
    """A connection has one of its own, in front of that of its token."""
    front, behind = memory(1 << 20), memory(1 << 20)
    behind.keep(ME, kept("a"))
    front.keep(ME, kept("b", "a"))
    mine = TokenMemory(ME, front, behind)
    assert [one.id for one in mine.conversation("b")] == ["a", "b"]
    assert mine.item("msg_a") == b'{"id":1}'


def test_a_memory_may_have_room_for_one_response_alone() -> None:
    made = ResponseMemory(lambda: 10_000, lambda: 0.0, parts=1)
    made.keep(ME, kept("a", size=8_000))
    assert made.find(ME, "a") is not None


def test_what_was_not_used_for_a_day_is_forgotten() -> None:
    now = [0.0]
    made = memory(1 << 20, lambda: now[0])
    made.keep(ME, kept("a"))
    now[0] = (24 * 3600.0) - 1
    assert made.find(ME, "a") is not None
    now[0] += (24 * 3600.0) + 1
    assert made.find(ME, "a") is None
    assert made.size == 0


def test_nothing_is_remembered_with_a_limit_of_zero() -> None:
    made = memory(0)
    made.keep(ME, kept("a"))
    assert (made.enabled, made.size, made.find(ME, "a")) == (False, 0, None)


def test_what_is_not_looked_for_is_read_in_time() -> None:
    made = memory(1 << 20)
    for number in range(200):
        made.keep_lazily(ME, partial(kept, f"r{number}"), 100)
    assert made.size > 0
    assert made.find(ME, "r199") is not None
    assert made.forget(ME, "r0")
