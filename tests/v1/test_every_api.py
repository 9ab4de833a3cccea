"""What every inbound API has in common: money, the end that waits for its record, lists of models, unknown paths."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gateway.client.connect_card import SAMPLES
from gateway.client.test_call import TESTED
from gateway.commands.usage_reports import FIELDS, csv_line
from gateway.domain.account import Account
from gateway.domain.channel import Dialect
from gateway.domain.group import Fallback
from gateway.domain.units import DOLLAR, MILLION, Nanos
from gateway.domain.usage import UsageSource
from gateway.domain.views import call_view
from gateway.v1.endpoints import APIS
from tests.conformance.test_completions import answered, said, writes
from tests.conformance.test_embeddings import vectors
from tests.fakes.audit import verify
from tests.fakes.client import Answer, Client, Doc
from tests.fakes.disk import REASONS, Disk
from tests.fakes.gateway import GRANTED, Gateway
from tests.fakes.messages import (
    event as message_event,
    grammar_faults,
    message,
    message_events,
    read_events,
    text_block,
)
from tests.fakes.provider import Provider, Script
from tests.fakes.replies import at_path, chunk, delta, dumps, event, in_steps, reply, speak, speak_after
from tests.fakes.responses import event as response_event, events_of, message as response_message, response
from tests.inbound.responses.grammar import checked

HELLO = "Say hello."


@dataclass(frozen=True)
class Case:
    """How one API is called, and how its streams end."""

    path: str
    body: Doc
    ends: bytes
    """What is in the last event of a good stream, and in no other."""
    text: Callable[[list[Doc]], str]
    """What the events of a stream say."""
    streams: bool = True
    headers: tuple[tuple[str, str], ...] = ()


def _chat_text(docs: list[Doc]) -> str:
    return "".join(choice["delta"].get("content") or "" for doc in docs for choice in doc.get("choices", ()))


def _completion_text(docs: list[Doc]) -> str:
    return "".join(choice["text"] for doc in docs for choice in doc.get("choices", ()))


def _message_text(docs: list[Doc]) -> str:
    return "".join(doc["delta"].get("text", "") for doc in docs if doc.get("type") == "content_block_delta")


def _response_text(docs: list[Doc]) -> str:
    return "".join(doc["delta"] for doc in docs if doc.get("type") == "response.output_text.delta")


def _line_text(docs: list[Doc]) -> str:
    return "".join(doc["message"]["content"] for doc in docs if "message" in doc)


MESSAGES = [{"role": "user", "content": HELLO}]
VERSION = (("anthropic-version", "2023-06-01"),)
CASES = {
    "chat": Case("/v1/chat/completions", {"messages": MESSAGES}, b"[DONE]", _chat_text),
    "completions": Case("/v1/completions", {"prompt": HELLO, "max_tokens": 20}, b"[DONE]", _completion_text),
    "messages": Case(
        "/v1/messages", {"messages": MESSAGES, "max_tokens": 20}, b"message_stop", _message_text, headers=VERSION
    ),
    "responses": Case("/v1/responses", {"input": HELLO}, b"response.completed", _response_text),
    "embeddings": Case("/v1/embeddings", {"input": HELLO}, b"", _line_text, streams=False),
    "ollama": Case("/api/chat", {"messages": MESSAGES, "stream": False}, b'"done":true', _line_text),
}
EVERY = pytest.mark.parametrize("name", CASES)
STREAMED = pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.streams])


def upstream(*words: str) -> Script:
    """Has chats, completions and embeddings, but no Responses."""
    chats = at_path("chat/completions", speak(*words), writes(*(words or ("Hel", "lo"))))
    without_responses = at_path("responses", reply({"detail": "Not Found"}, status=404), chats)
    return at_path("embeddings", vectors(used=9), without_responses)


async def call(client: Client, name: str, *, stream: bool = False, model: str = "m", **more: Any) -> Answer:
    case = CASES[name]
    body = {"model": model, **case.body, **({"stream": True} if stream else {}), **more}
    return await client.ask("POST", case.path, dumps(body), dict(case.headers))


def docs_of(answer: Answer) -> list[Doc]:
    """The events of a stream."""
    if answer.head.get("content-type") == "application/x-ndjson":
        return [json.loads(line) for line in answer.body.splitlines()]
    found = [line.removeprefix(b"data: ") for line in answer.body.splitlines() if line.startswith(b"data: {")]
    return [json.loads(data) for data in found]


def test_every_api_is_tested_here_and_has_a_sample_call_for_front_ends() -> None:
    assert set(APIS) == set(CASES) == set(SAMPLES)


def test_the_doctor_can_test_every_api_but_these() -> None:
    """Programs that speak these are few; a new API belongs here or in ``TESTED``."""
    assert set(APIS) - set(TESTED) == {"completions", "ollama"}


@EVERY
async def test_reported_usage_is_recorded(gateway: Gateway, provider: Provider, name: str, *, stream: bool) -> None:
    provider.on("m", upstream())
    stream = stream and CASES[name].streams
    answer = await call(gateway.client, name, stream=stream)
    assert answer.status == 200
    if stream:
        assert CASES[name].text(docs_of(answer)) == "Hello"
    record = gateway.record
    output = 0 if name == "embeddings" else 12
    assert (record.api or "chat", record.input, record.output) == (name, 9, output)
    assert record.source is UsageSource.REPORTED
    assert record.cost == 9 * 2_500 + output * 10_000 <= record.held


@EVERY
async def test_every_record_is_exported_and_verified(gateway: Gateway, provider: Provider, name: str) -> None:
    provider.on("m", upstream())
    await call(gateway.client, name)
    assert {"api", "native", "cache_write_long_tokens"} <= set(FIELDS)
    assert name in csv_line(call_view(gateway.record))
    assert verify(gateway.engine.store).equal


@EVERY
async def test_no_answer_ends_whose_record_is_not_kept(
    gateway: Gateway, provider: Provider, home: Path, monkeypatch: pytest.MonkeyPatch, name: str, *, stream: bool
) -> None:
    disk, go_on, stream = Disk(monkeypatch, home), asyncio.Event(), stream and CASES[name].streams
    wait = at_path("responses", upstream(), speak_after(go_on, upstream()))
    provider.on("m", upstream(), upstream(), wait)
    assert (await call(gateway.client, name)).status == 200
    if name != "responses":  # whose first call asked twice
        assert (await call(gateway.client, name)).status == 200
    balance, asked = gateway.engine.store.books.balance(), len(provider.exchanges)
    running = asyncio.ensure_future(call(gateway.client, name, stream=stream))
    await provider.asked(asked + 1)
    disk.judge = lambda operation: REASONS["EIO"] if operation.file.startswith("usage/") else None
    go_on.set()
    answer = await running
    if stream:
        assert answer.status == 200
        assert CASES[name].ends not in answer.body
    assert (b"error" in answer.body, answer.status in (200, 503)) == (True, True)
    assert gateway.engine.store.books.balance() == balance
    disk.heal()
    await gateway.until(lambda: gateway.engine.store.books.healthy)


@EVERY
async def test_without_money_every_api_is_refused(gateway: Gateway, provider: Provider, name: str) -> None:
    gateway.grant(-10_000_000_000)
    answer = await call(gateway.client, name)
    assert (answer.status, gateway.record.code, gateway.record.cost) == (429, "insufficient_quota", 0)
    assert provider.exchanges == []
    assert (answer.head.get("x-should-retry"), "error" in answer.json) == ("false", True)


async def test_streams_of_all_apis_do_not_mix(gateway: Gateway, provider: Provider) -> None:
    names = [name for name, case in CASES.items() if case.streams]
    models = [f"m{number}" for number in range(10)]
    gateway.channel(provider.base_url, *models)
    for model in models:
        gateway.price(model)
        provider.on(model, upstream(*(f"{model}-{number} " for number in range(20))))
    jobs = [(name, model) for name in names for model in models]
    answers = await asyncio.gather(*(call(gateway.client, name, stream=True, model=model) for name, model in jobs))
    for (name, model), answer in zip(jobs, answers, strict=True):
        said = CASES[name].text(docs_of(answer))
        assert said == "".join(f"{model}-{number} " for number in range(20))
        assert CASES[name].ends in answer.body
        if name == "messages":
            assert grammar_faults(read_events(answer.body)) == []
        elif name == "responses":
            checked(answer.body)
    records = await gateway.settled(len(jobs))
    assert sum(record.cost for record in records) == len(jobs) * (9 * 2_500 + 12 * 10_000)


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/v1/none", {}),
        ("/v1/messages/none", {}),
        ("/messages/none/below", {}),
        ("/v1/messagesx", {}),
        ("/v1/none", {"anthropic-version": "2023-06-01"}),
        ("/api/none", {}),
    ],
)
async def test_an_unknown_path_has_the_form_of_its_api(gateway: Gateway, path: str, headers: dict[str, str]) -> None:
    answer = await gateway.client.ask("POST", path, b"{}", dict(headers))
    assert answer.status == 404
    anthropic = "messages/" in path or headers
    kinds = str if path.startswith("/api") else dict
    assert isinstance(answer.json["error"], kinds)
    assert (answer.json.get("type") == "error") is bool(anthropic)
    assert "POST /v1/chat/completions" in json.dumps(answer.json["error"])


async def test_a_fallback_that_may_write_more_puts_no_limit_on_a_model(gateway: Gateway, provider: Provider) -> None:
    """The money that is left pays for all that the model itself may need, not for the fallback."""
    gateway.channel(provider.base_url, "claude-opus-4-5", name="spare", dialect=Dialect.ANTHROPIC)
    gateway.group("default", fallbacks=(Fallback(model="m", to=("claude-opus-4-5",)),))
    gateway.price(output=Nanos(MILLION))
    gateway.price("claude-opus-4-5", output=Nanos(1_000 * MILLION))
    gateway.grant(DOLLAR // 50 - GRANTED)
    assert (await call(gateway.client, "chat")).status == 200
    assert not {"max_tokens", "max_completion_tokens"} & set(provider.last.json)
    (record,) = await gateway.settled()
    assert (record.held, record.marks) == (DOLLAR // 50, ())


async def test_every_list_has_the_same_models(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, "a-1", "a-2", "b-1")
    client = gateway.token("some", models=("a-*",))
    openai = [model["id"] for model in (await client.get("/v1/models")).json["data"]]
    anthropic = (await client.get("/v1/models", {"anthropic-version": "2023-06-01"})).json["data"]
    tags = [model["name"] for model in (await client.get("/api/tags")).json["models"]]
    assert openai == tags == ["a-1", "a-2"]
    assert {"a-1", "a-2"} <= {model["id"].removeprefix("anthropic/") for model in anthropic}
    assert not any("b-1" in model["id"] for model in anthropic)


Ends = tuple[bytes, bytes]
LONG = "word " * 40_000
CHUNK = event(chunk(delta(LONG)))
BLOCK = message_event("content_block_delta", index=0, delta={"type": "text_delta", "text": LONG})
PLACE: Doc = {"item_id": "msg_1", "output_index": 0, "content_index": 0, "logprobs": []}
PIECE = response_event("response.output_text.delta", 4, **PLACE, delta=LONG)


@pytest.mark.parametrize(
    ("path", "dialect", "begun", "piece", "ends"),
    [
        ("/v1/chat/completions", Dialect.OPENAI, [], CHUNK, (b'"finish_reason":"length"', b"[DONE]")),
        (
            *("/v1/completions", Dialect.OPENAI, [], event(answered(said(LONG, finish=None)))),
            (b'"finish_reason":"length"', b"[DONE]"),
        ),
        ("/v1/messages", Dialect.OPENAI, [], CHUNK, (b'"stop_reason":"max_tokens"', b"event: message_stop")),
        (
            *("/v1/messages", Dialect.ANTHROPIC, message_events(message(text_block("Hi")))[:4], BLOCK),
            (b'"stop_reason":"max_tokens"', b"event: message_stop"),
        ),
        (
            *("/v1/responses", Dialect.OPENAI, events_of(response(response_message("Hello")))[:4], PIECE),
            (b'"reason":"max_output_tokens"', b"event: response.incomplete"),
        ),
        ("/api/chat", Dialect.OPENAI, [], CHUNK, (b'"done_reason":"length"', b'"done":true')),
        ("/api/generate", Dialect.OPENAI, [], CHUNK, (b'"done_reason":"length"', b'"done":true')),
    ],
)
async def test_a_stream_whose_money_is_gone_ends_as_at_its_limit(
    gateway: Gateway, provider: Provider, *, path: str, dialect: Dialect, begun: list[bytes], piece: bytes, ends: Ends
) -> None:
    gateway.channel(provider.base_url, dialect=dialect)
    gateway.change("account", "", Account(stop_when_empty=True))
    goes_on: list[bytes | float] = [0.25, piece]
    provider.on("m", in_steps(b"".join(begun) or piece, lambda: gateway.grant(-GRANTED), *goes_on * 4, hangs=True))
    asked = {"input": HELLO} if path.endswith("responses") else {"messages": MESSAGES, "prompt": HELLO}
    answer = await gateway.client.ask("POST", path, dumps({"model": "m", "stream": True, "max_tokens": 99, **asked}))
    assert [answer.body.count(end) for end in ends] == [1, 1]
    starts = (b"data: ", b"event: ", b": ", b"{")
    assert [line for line in answer.body.splitlines() if line and not line.startswith(starts)] == []
    assert "money_gone" in gateway.record.marks
