"""A conversation is compacted through a channel of every kind, and goes on from its summary through any other."""

import base64
import json
from typing import Any

import pytest

from gateway.domain.units import Nanos
from tests.conformance.open_responses import faults
from tests.conformance.test_open_responses import KINDS, NATIVE, PIXEL, SCRIPTS, WEATHER, ask, at
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Exchange, Provider, Script
from tests.fakes.replies import at_path, choice, dumps, fail, reply, usage, whole
from tests.fakes.responses import parsed, respond, response, spent

PATH = "/v1/responses/compact"
TALK: list[Any] = [
    {"type": "message", "role": "user", "content": "We launch on Tuesday."},
    {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "call_1", "output": "Sunny"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Understood."}]},
]
TRIGGER = {"type": "compaction_trigger"}
OWN = {"type": "compaction", "id": "cmp_up", "encrypted_content": "gAAAA"}


WITHOUT_PATH = at_path("/responses", SCRIPTS["native"])
"""A native upstream that has no such path."""


def script_of(kind: str) -> Script:
    return WITHOUT_PATH if kind == "native" else _plain_of(kind)


def _plain_of(kind: str) -> Script:
    """An upstream that answers with a text, whatever tools it is offered."""

    async def script(exchange: Exchange) -> None:
        asked = {name: value for name, value in exchange.json.items() if name != "tools"}
        exchange.body = dumps(asked)
        await SCRIPTS[kind](exchange)

    return script


@pytest.mark.parametrize("kind", KINDS)
async def test_a_conversation_becomes_an_item(gateway: Gateway, provider: Provider, kind: str) -> None:
    at(gateway, provider, kind, script_of(kind))
    answer = await ask(gateway, PATH, input=TALK, prompt_cache_key="k")
    assert (answer.status, faults(answer.json, "CompactedResponse")) == (200, [])
    (item,) = answer.json["output"]
    assert item["type"] == "compaction"
    assert json.loads(base64.b64decode(item["encrypted_content"].removeprefix("tk1.c."))) == "Four"
    record = gateway.record
    assert "compaction" in record.marks
    assert (record.api, record.cost > Nanos(0)) == ("responses", True)
    assert record.held >= record.cost
    assert answer.json["usage"]["input_tokens"] == record.input


@pytest.mark.parametrize("kind", KINDS)
async def test_a_trigger_asks_for_the_item(gateway: Gateway, provider: Provider, kind: str, stream: bool) -> None:
    at(gateway, provider, kind, script_of(kind))
    answer = await ask(gateway, input=[*TALK, TRIGGER], stream=stream, store=False)
    events = parsed(answer.body) if stream else []
    assert [fault for event in events for fault in faults(event, "Event", event["type"])] == []
    found = events[-1]["response"] if stream else answer.json
    assert (found["status"], faults(found, "Response")) == ("completed", [])
    assert [item["type"] for item in found["output"]] == ["compaction"]
    if stream:
        done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
        assert done == found["output"]
    assert "compaction_trigger" not in provider.last.body.decode()
    assert "compaction" in gateway.record.marks


@pytest.mark.parametrize("kind", KINDS)
async def test_a_conversation_goes_on_from_its_summary(gateway: Gateway, provider: Provider, kind: str) -> None:
    at(gateway, provider, "chat", reply(whole("m", choice('The "launch" is on Tuesday.'), spent=usage())))
    compacted = (await ask(gateway, PATH, input=TALK)).json["output"]
    at(gateway, provider, kind)
    answer = await ask(gateway, input=[*compacted, {"type": "message", "role": "user", "content": "When?"}])
    assert (answer.status, answer.json["status"]) == (200, "completed")
    sent = provider.last.body.decode()
    assert r"The \"launch\" is on Tuesday." in sent
    assert "tk1." not in sent


async def test_a_path_of_the_upstream_is_used(gateway: Gateway, provider: Provider) -> None:
    whole_answer = {"id": "resp_c", "object": "response.compaction", "created_at": 1, "output": [OWN], "usage": spent()}
    at(gateway, provider, "native", at_path("/compact", reply(whole_answer), fail(500, "not here")))
    answer = await ask(gateway, PATH, input=TALK, instructions="Be brief.")
    assert answer.json == whole_answer
    assert provider.last.path == "/v1/responses/compact"
    assert provider.last.json == {"model": "m-1", "input": TALK, "instructions": "Be brief."}
    assert "compaction" in gateway.record.marks
    assert (gateway.record.input, gateway.record.output) == (9, 12)


async def test_openai_gets_the_trigger_itself(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, "m=m-1", preset="openai")
    provider.other = respond(OWN, **NATIVE)
    assert (await ask(gateway, input=[*TALK, TRIGGER])).json["output"] == [OWN]
    assert provider.last.json["input"][-1] == TRIGGER
    assert "compaction" in gateway.record.marks


async def test_an_unknown_upstream_is_found_not_to_have_it(gateway: Gateway, provider: Provider) -> None:
    """Its Responses API is still used, and the next conversation is compacted without a detour."""
    gateway.channel(provider.base_url, "m=m-1")
    provider.other = at_path("/chat/completions", reply(whole("m", choice("Four"), spent=usage())))
    assert (await ask(gateway, PATH, input=TALK)).status == 200
    before = len(provider.exchanges)
    assert (await ask(gateway, PATH, input=TALK)).status == 200
    assert [exchange.path for exchange in provider.exchanges[before:]] == ["/v1/chat/completions"]


async def test_the_model_reads_the_whole_conversation_and_calls_nothing(gateway: Gateway, provider: Provider) -> None:
    at(gateway, provider, "native", WITHOUT_PATH)
    provider.other = at_path("/compact", fail(404, "Not Found"), respond(**NATIVE))
    await ask(gateway, PATH, input=TALK, tools=[WEATHER])
    sent = provider.last.json
    assert sent["input"][: len(TALK)] == TALK
    assert "summary" in sent["input"][-1]["content"]
    assert (sent["tool_choice"], sent["store"], sent["tools"]) == ("none", False, [WEATHER])


async def test_nor_a_tool_that_an_item_adds(gateway: Gateway, provider: Provider) -> None:
    at(gateway, provider, "chat")
    await ask(gateway, input=[{"type": "additional_tools", "tools": [WEATHER]}, *TALK, TRIGGER])
    sent = provider.last.json
    assert (sent["tool_choice"], len(sent["tools"])) == ("none", 1)


@pytest.mark.parametrize("kind", ["chat", "native"])
async def test_an_answer_without_summary_fails(gateway: Gateway, provider: Provider, kind: str, stream: bool) -> None:
    empty = {"chat": reply(whole("m", choice(""), spent=usage())), "native": reply(response(model="m-1"))}
    at(gateway, provider, kind, empty[kind])
    answer = await ask(gateway, input=[*TALK, TRIGGER], stream=stream)
    if answer.status == 200:
        assert parsed(answer.body)[-1]["type"] == "response.failed"
    else:
        assert (answer.status, answer.error["code"]) == (502, "upstream_bad_response")


async def test_a_request_without_a_model_is_refused(gateway: Gateway) -> None:
    answer = await gateway.client.ask("POST", PATH, dumps({"input": TALK}))
    assert answer.refusal == (400, "missing_required_parameter", "model")


async def test_another_vendors_compaction_is_for_that_vendor(gateway: Gateway, provider: Provider) -> None:
    at(gateway, provider, "chat")
    answer = await ask(gateway, input=[OWN, {"role": "user", "content": [{"type": "input_text", "text": PIXEL}]}])
    assert answer.refusal == (400, "unsupported_parameter", "input[0]")


async def test_what_the_hold_does_not_pay_for_is_a_shorter_summary(gateway: Gateway, provider: Provider) -> None:
    """The upstream's own path has no output limit, so that the model writes a summary."""
    gateway.grant(-9_990_000_000)
    at(gateway, provider, "native", at_path("/compact", fail(500, "not here"), respond(**NATIVE)))
    assert (await ask(gateway, PATH, input=TALK)).status == 200
    assert provider.last.json["max_output_tokens"] < 1000
    assert gateway.record.cost <= gateway.record.held
