"""Completions through every kind of channel, read by the official SDK as editors and frameworks do."""

import json
from typing import Any

import pytest

from gateway.domain.channel import Dialect, Overrides
from gateway.domain.usage import UsageSource
from tests.conformance import nodejs
from tests.conformance.sdk import openai
from tests.fakes.client import Answer, Client, events
from tests.fakes.gateway import Gateway
from tests.fakes.messages import message, text_block
from tests.fakes.provider import Exchange, Provider, Script
from tests.fakes.replies import DONE, Doc, at_path, dumps, event, in_steps, reply, stream_bytes, usage


def said(text: str, *, index: int = 0, finish: str | None = "stop", **more: Any) -> Doc:
    """One choice."""
    return {"index": index, "text": text, "logprobs": None, "finish_reason": finish, **more}


def answered(*choices: Doc, spent: Doc | None = None, **more: Any) -> Doc:
    """A plain answer, or a chunk."""
    doc: Doc = {"id": "cmpl-up", "object": "text_completion", "created": 1_763_500_000, "model": "m"}
    return {**doc, "choices": list(choices), **({} if spent is None else {"usage": spent}), **more}


def writes(*words: str, prompt: int = 9, completion: int = 12) -> Script:
    """The good upstream: plain or streamed as requested, usage if requested."""

    async def script(exchange: Exchange) -> None:
        asked = exchange.json
        if not asked.get("stream"):
            await exchange.answer(dumps(answered(said("".join(words)), spent=usage(prompt, completion))))
            return
        chunks = [answered(said(word, finish=None)) for word in words] + [answered(said(""))]
        if (asked.get("stream_options") or {}).get("include_usage"):
            chunks.append(answered(spent=usage(prompt, completion)))
        await in_steps(*chunks, DONE)(exchange)

    return script


async def complete(client: Client, body: Doc | bytes) -> Answer:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return await client.ask("POST", "/v1/completions", data)


def texts(answer: Answer) -> str:
    return "".join(choice["text"] for chunk in answer.chunks for choice in chunk["choices"])


@pytest.mark.parametrize("wanted", [None, True, False])
async def test_a_stream_with_suffix_goes_out_raw(gateway: Gateway, provider: Provider, *, wanted: bool | None) -> None:
    gateway.channel(f"http://127.0.0.1:{provider.port}", "m", preset="deepseek")
    provider.on("m", writes("a", "+ b"))
    body: Doc = {"model": "m", "prompt": "def add(a, b): return ", "suffix": "\\n", "stream": True, "max_tokens": 32}
    if wanted is not None:
        body["stream_options"] = {"include_usage": wanted}
    answer = await complete(gateway.client, body)
    assert texts(answer) == "a+ b"
    assert provider.last.path == "/beta/completions"
    assert provider.last.json == {**body, "stream_options": {"include_usage": True}}
    assert [chunk["usage"]["total_tokens"] for chunk in answer.chunks if "usage" in chunk] == ([21] if wanted else [])
    assert events(answer.body)[-1] == b"[DONE]"
    record = gateway.record
    assert (record.input, record.output, record.source, record.finish) == (9, 12, UsageSource.REPORTED, "stop")
    assert record.cost == 9 * 2_500 + 12 * 10_000


async def test_a_plain_answer_passes_byte_by_byte(gateway: Gateway, provider: Provider) -> None:
    doc = answered(said("x", logprobs={"tokens": ["x"]}), spent=usage())
    body = json.dumps(doc, indent=1).encode()
    provider.on("m", reply(body))
    sent = b'{ "model":"m", "prompt":"p","max_tokens": 5, "odd": 1.50 }'
    answer = await complete(gateway.client, sent)
    assert (answer.body, provider.last.body) == (body, sent)


@pytest.mark.parametrize("n", [1, 3])
async def test_streamed_choices_keep_their_numbers(gateway: Gateway, provider: Provider, n: int) -> None:
    chunks = [answered(said(str(i), index=i, finish=None)) for i in range(n)]
    chunks += [answered(said("", index=i)) for i in range(n)]
    provider.on("m", stream_bytes(b"".join(map(event, chunks)) + DONE))
    answer = await complete(gateway.client, {"model": "m", "prompt": "p", "n": n, "stream": True})
    assert [choice["index"] for chunk in answer.chunks for choice in chunk["choices"]] == [*range(n), *range(n)]
    assert gateway.record.source is UsageSource.ESTIMATED


CLAUDE = message(text_block("a chat"), stop="max_tokens", spent={"input_tokens": 5, "output_tokens": 3})


@pytest.mark.parametrize(
    ("beyond", "more"),
    [
        ("suffix", {"suffix": "x"}),
        ("echo", {"echo": True}),
        ("logprobs", {"logprobs": 0}),
        ("n", {"n": 2}),
        ("best_of", {"best_of": 3}),
        ("is one text", {"prompt": ["a", "b"]}),
        ("is one text", {"prompt": [1, 2]}),
    ],
)
async def test_fields_unknown_to_chats_fail(gateway: Gateway, provider: Provider, beyond: str, more: Doc) -> None:
    gateway.channel(f"http://127.0.0.1:{provider.port}", "c", dialect=Dialect.ANTHROPIC, name="claude")
    answer = await complete(gateway.client, {"model": "c", "prompt": "p", **more})
    assert answer.refusal == (400, "unsupported_parameter", "model")
    assert beyond in answer.error["message"]
    assert "use POST /v1/chat/completions" in answer.error["message"]
    assert provider.exchanges == []


async def test_a_channel_that_has_completions_is_taken(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(f"http://127.0.0.1:{provider.port}", "c", dialect=Dialect.ANTHROPIC, name="claude", priority=9)
    gateway.channel(provider.base_url, "c", name="other")
    provider.on("c", writes("x"))
    assert (await complete(gateway.client, {"model": "c", "prompt": "p", "suffix": "s"})).status == 200
    assert gateway.record.channel_name == "other"


async def test_a_plain_prompt_becomes_a_chat(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(f"http://127.0.0.1:{provider.port}", "m", dialect=Dialect.ANTHROPIC)
    provider.other = reply(CLAUDE)
    async with openai(gateway) as client:
        answer = await client.completions.create(model="m", prompt="Once upon", stop=["."], temperature=0.5)
    assert (answer.object, answer.choices[0].text, answer.choices[0].finish_reason) == (
        "text_completion",
        "a chat",
        "length",
    )
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.model) == (5, 3, "m")
    asked = provider.last.json
    assert (asked["max_tokens"], asked["stop_sequences"], asked["temperature"]) == (16, ["."], 0.5)
    assert gateway.record.cost == 5 * 2_500 + 3 * 10_000


async def test_a_stream_that_was_a_chat(gateway: Gateway) -> None:
    gateway.channel("", "demo-echo", dialect=Dialect.MOCK, name="demo")
    async with openai(gateway) as client:
        stream = await client.completions.create(
            model="demo-echo", prompt=["one two three"], stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].text for chunk in chunks if chunk.choices) == "one two three"
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert chunks[-1].usage is not None
    assert {chunk.object for chunk in chunks} == {"text_completion"}
    assert {chunk.id for chunk in chunks} == {"cmpl-" + gateway.record.id[-24:]}
    assert (chunks[-1].usage.prompt_tokens, chunks[-1].usage.completion_tokens) == (
        gateway.record.input,
        gateway.record.output,
    )


async def test_a_channel_of_openai_that_lacks_them_gets_a_chat(gateway: Gateway, provider: Provider) -> None:
    said = {"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}
    chat = reply({"id": "x", "model": "m", "choices": [said], "usage": usage(3, 1)})
    provider.on("m", at_path("/chat/completions", chat))
    for _ in range(2):
        answer = await complete(gateway.client, {"model": "m", "prompt": "p"})
        assert (answer.status, answer.json["choices"][0]["text"]) == (200, "hi")
    assert [exchange.path for exchange in provider.exchanges] == [
        "/v1/completions",
        "/v1/chat/completions",
        "/v1/chat/completions",
    ]
    assert gateway.engine.health.state(gateway.engine.catalog.channel("up")).name == "ok"
    refused = await complete(gateway.client, {"model": "m", "prompt": "p", "suffix": "s"})
    assert (refused.status, refused.error["param"]) == (400, "suffix")


async def test_the_default_limit_is_sent(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, "m", preset="ollama")
    provider.on("m", writes("x"))
    await complete(gateway.client, {"model": "m", "prompt": "p" * 30})
    assert provider.last.json["max_tokens"] == 16
    assert gateway.record.held == 20 * 2_500 + 16 * 10_000


async def test_the_owner_s_limit_is_held_and_sent(gateway: Gateway, provider: Provider) -> None:
    edits = Overrides(default={"max_completion_tokens": 100}, set={"top_k": 5, "tools": []}, system="Be brief")
    gateway.channel(provider.base_url, "m", overrides=edits)
    provider.on("m", writes("x"))
    await complete(gateway.client, {"model": "m", "prompt": "p"})
    assert provider.last.json == {"model": "m", "prompt": "p", "max_tokens": 100, "top_k": 5}
    assert gateway.record.held >= 100 * 10_000


async def test_sticky_groups_take_prompts_too(gateway: Gateway, provider: Provider, *, stream: bool) -> None:
    gateway.group("default", sticky=True)
    gateway.channel(provider.base_url, "m", name="second")
    provider.on("m", writes("x"))
    assert (await complete(gateway.client, {"model": "m", "prompt": "p", "stream": stream})).status == 200


@nodejs.may_wait
async def test_the_javascript_sdk_reads_a_stream(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", writes("upon", " a time"))
    (found,) = await nodejs.run(gateway, {"do": "complete", "model": "m"})
    assert found == {"text": "upon a time"}
