"""Streams of every API that are made of chat completions: when they begin and end, and what is shown of them."""

import asyncio
import json
from typing import Any

import pytest

from gateway.core.live_calls import CallDeadlines
from gateway.domain.channel import Dialect
from tests.conformance.test_completions import answered, said
from tests.fakes.gateway import Gateway, running
from tests.fakes.messages import grammar_faults, joined_blocks, read_events
from tests.fakes.provider import Exchange, Provider, Script
from tests.fakes.replies import (
    DONE,
    Doc,
    at_path,
    chunk,
    delta,
    dumps,
    event,
    in_steps,
    reply,
    stream,
    stream_bytes,
    tool_call,
    usage,
)
from tests.inbound.responses.grammar import checked
from tests.v1.test_every_api import CASES, call, docs_of
from tests.v1.test_messages import HELLO, post

STREAMED = pytest.mark.parametrize("api", [name for name, case in CASES.items() if case.streams])
CALLS = 100


def no_responses(answer: Script) -> Script:
    """An upstream without that API."""
    return at_path("/responses", reply({"detail": "Not Found"}, status=404), answer)


def piece(api: str, text: str, finish: str | None = None) -> bytes:
    """A chunk as the upstream of this API writes it."""
    if api == "completions":
        return event(answered(said(text, finish=finish)))
    return event(chunk(delta(text, finish=finish)))


@STREAMED
async def test_the_first_piece_does_not_wait_for_the_second(gateway: Gateway, provider: Provider, api: str) -> None:
    seen = asyncio.Event()
    provider.on("m", no_responses(in_steps(piece(api, "first "), seen, piece(api, "second", "stop") + DONE)))
    case, client = CASES[api], gateway.client
    body = dumps({"model": "m", **case.body, "stream": True})
    peer = await client.send(client.request("POST", case.path, body, dict(case.headers)))
    pieces, said = peer.pieces(await peer.read_head(), answer=True), b""
    async with asyncio.timeout(20):
        while b"first" not in said:
            said += await anext(pieces)
    assert b"second" not in said
    seen.set()
    peer.reset()


@pytest.mark.parametrize("api", ["messages", "responses", "chat"])
async def test_a_long_stream_of_a_hundred_calls_ends_as_it_should(provider: Provider, home: Any, api: str) -> None:
    """It is silent so often that signs of life come between its calls."""
    quick = CallDeadlines(first_event=0.05, keep_alive=0.02, tick=0.01)
    steps: list[Doc | float] = []
    for number in range(CALLS):
        begun = tool_call(number, f"call_{number}", "f", '{"number":')
        more = {"index": number, "function": {"arguments": f"{number}}}"}}
        pause = 0.05 if number % 20 == 0 else 0.0
        steps += [chunk(delta(tool_calls=[begun])), pause, chunk(delta(tool_calls=[more]))]
    ends = event(chunk(delta(finish="tool_calls"))) + event(chunk(usage=usage(9, 12))) + DONE
    async with running(home / "quick", patience=quick) as gateway:
        gateway.channel(provider.base_url)
        provider.on("m", no_responses(in_steps(*steps, ends)))
        answer = await call(gateway.client, api, stream=True)
    if api == "messages":
        events = read_events(answer.body)
        assert grammar_faults(events) == []
        found = [(block["name"], block["input"]) for block in joined_blocks(events)]
        alive = sum(doc["type"] == "ping" for doc in events)
    elif api == "responses":
        found = [(item["name"], item["arguments"]) for item in checked(answer.body).response["output"]]
        alive = answer.body.count(b": keep-alive")
    else:
        calls = [
            one for doc in docs_of(answer) for part in doc["choices"] for one in part["delta"].get("tool_calls", ())
        ]
        texts = [""] * CALLS
        for one in calls:
            texts[one["index"]] += one["function"]["arguments"]
        found = [("f", text) for text in texts]
        alive = answer.body.count(b": keep-alive")
    assert found == [("f", f'{{"number":{number}}}') for number in range(CALLS)]
    assert alive >= 1
    assert CASES[api].ends in answer.body


@STREAMED
@pytest.mark.parametrize("data", [event({"error": {"message": "no slot is free", "type": "server_error"}})])
async def test_an_error_as_first_event_is_a_status(gateway: Gateway, provider: Provider, api: str, data: bytes) -> None:
    """llama.cpp answers 200 before it knows whether it can."""
    provider.on("m", no_responses(stream_bytes(data)))
    answer = await call(gateway.client, api, stream=True)
    assert answer.status in (502, 503)
    assert b"no slot is free" in answer.body
    assert CASES[api].ends not in answer.body


BLOCK: Doc = {"type": "thinking", "thinking": "Let me see.", "signature": "EqQB" + "x" * 40}
REPEATED = (
    chunk(delta(reasoning_content="Let me ")),
    chunk(delta(reasoning_content="see.")),
    chunk(delta(thinking_blocks=[BLOCK])),
    chunk(delta("So", finish="stop")),
    chunk(usage=usage(9, 12)),
)
"""What relays of Anthropic's models write in chat completions: the thought in pieces, then once more with its seal."""


async def test_a_thought_that_comes_again_with_its_seal_is_one_item(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", no_responses(stream(*REPEATED)))
    more: Doc = {"reasoning": {"summary": "auto"}, "include": ["reasoning.encrypted_content"]}
    answer = await call(gateway.client, "responses", stream=True, **more)
    thought, _ = checked(answer.body).response["output"]
    assert [part["text"] for part in thought["summary"]] == ["Let me see."]
    assert b"".join(answer.body.split(b"Let me see.")) != answer.body


def strictly(exchange: Exchange) -> str:
    """What Mistral's template says about the messages; empty: nothing."""
    role = ""
    for message in exchange.json["messages"]:
        calls, content = message.get("tool_calls"), message.get("content")
        if message["role"] == "assistant" and not (calls or content):
            return "Invalid assistant message: role='assistant' content=None tool_calls=None"
        if message["role"] == "assistant" and role == "assistant":
            return "Expected last role User or Tool for assistant"
        if message["role"] == "tool" and role not in ("tool", "assistant"):
            return "Unexpected role 'tool'"
        role = message["role"]
    return (
        "" if role in ("user", "tool") else f"Expected last role User or Tool (or Assistant with prefix) but got {role}"
    )


@pytest.mark.parametrize("thinks", [False, True])
async def test_two_turns_with_tools_are_as_mistral_wants(gateway: Gateway, provider: Provider, thinks: bool) -> None:
    gateway.channel(provider.base_url, preset="mistral")
    faults: list[str] = []

    async def script(exchange: Exchange) -> None:
        results = sum(message["role"] == "tool" for message in exchange.json["messages"])
        faults.append(strictly(exchange))
        said = [chunk(delta(reasoning_content="Hm"))] if thinks else []
        made = tool_call(0, f"call{results}abcd", "f", '{"a":1}')
        called = chunk(delta(tool_calls=[made], finish="tool_calls"))
        end = chunk(delta("Done.", finish="stop")) if results == 2 else called
        await stream(*said, end, chunk(usage=usage(9, 12)))(exchange)

    provider.on("m", script)
    tools = [{"name": "f", "input_schema": {"type": "object", "properties": {"a": {"type": "integer"}}}}]
    turns, said = list(HELLO["messages"]), list[Doc]()
    for _ in range(3):
        body = {**HELLO, "stream": True, "tools": tools, "messages": turns}
        said = joined_blocks(read_events((await post(gateway, body)).body))
        for block in said:
            block.update({"input": json.loads(block["input"])} if "input" in block else {})
        results = [
            {"type": "tool_result", "tool_use_id": block["id"], "content": ""} for block in said if "input" in block
        ]
        turns = [*turns, {"role": "assistant", "content": said}, {"role": "user", "content": results}]
    assert faults == ["", "", ""]
    assert said[-1]["text"] == "Done."


PROMPTS = {
    "english": ("Reading a ledger takes patience, and writing one takes more: every number has a place. " * 30, 541),
    "german": ("Die Brücke über den Fluss war gefallen, und niemand lachte mehr. " * 30, 571),
    "code": (
        "def total(values: list[int]) -> int:\n    return sum(value for value in values if value > 0)\n" * 30,
        720,
    ),
    "json": ('{"name": "toll", "value": [1, 2, 3], "ok": true}, ' * 40, 961),
    "chinese": ("桥在冬天倒塌了" * 60, 660),
    "short": ("Hi", 1),
}
"""Texts, with their tokens as the tokenizer cl100k_base counts them."""
OVERHEAD = 7
"""Tokens that OpenAI adds to a single message."""


@pytest.mark.parametrize("dialect", [Dialect.OPENAI, Dialect.GEMINI])
@pytest.mark.parametrize("prompt", PROMPTS)
async def test_the_first_count_of_the_input_is_not_above_the_last(
    gateway: Gateway, provider: Provider, prompt: str, dialect: Dialect
) -> None:
    """Programs take the larger of both, and would shorten their conversation too early."""
    gateway.channel(provider.base_url, dialect=dialect)
    text, tokens = PROMPTS[prompt]
    true = tokens + OVERHEAD
    counts = {"promptTokenCount": true, "candidatesTokenCount": 2, "totalTokenCount": true + 2}
    candidate = {"content": {"role": "model", "parts": [{"text": "So"}]}, "finishReason": "STOP", "index": 0}
    if dialect is Dialect.GEMINI:
        provider.other = stream_bytes(event({"candidates": [candidate]}) + event({"usageMetadata": counts}))
    else:
        provider.on("m", stream(chunk(delta("So", finish="stop")), chunk(usage=usage(true, 2))))
    turns = [{"role": "user", "content": text}]
    events = read_events((await post(gateway, {**HELLO, "messages": turns, "stream": True})).body)
    first = events[0]["message"]["usage"]["input_tokens"]
    (last,) = [doc["usage"]["input_tokens"] for doc in events if doc["type"] == "message_delta"]
    assert last == true
    assert 0 < first <= 1.05 * last + 1
