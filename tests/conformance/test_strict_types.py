"""Everything that clients get is of the types that the official SDKs declare, strictly: no value has to be converted.

The SDKs' own decoding lets anything pass; what is wrong shows later, in the program. Every recorded answer of every
dialect is read by every API.
"""

import importlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
from pydantic import TypeAdapter

from gateway.domain.channel import Dialect
from tests.cases import streams as openai
from tests.cases.anthropic import streams as anthropic
from tests.cases.gemini import streams as gemini
from tests.cases.same import PLAIN, STREAMED
from tests.conformance.shapes import stream_faults
from tests.conformance.test_completions import writes
from tests.conformance.test_embeddings import vectors
from tests.fakes.client import Answer, Doc
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider
from tests.fakes.replies import dumps, fail, reply, speak, stream_bytes

HALF_PAIR = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
"""The SDKs' types take no half of a surrogate pair; a piece of a stream may be one."""
RECORDED: dict[Dialect, list[openai.Case]] = {
    Dialect.OPENAI: openai.STREAMS,
    Dialect.ANTHROPIC: anthropic.STREAMS,
    Dialect.GEMINI: gemini.STREAMS,
}
WORDS: dict[Dialect, tuple[bytes, bytes] | None] = {
    Dialect.OPENAI: None,
    Dialect.ANTHROPIC: (PLAIN[Dialect.ANTHROPIC], STREAMED[Dialect.ANTHROPIC]),
    Dialect.GEMINI: (PLAIN[Dialect.GEMINI], STREAMED[Dialect.GEMINI]),
}
"""Of chats, plain and streamed, where the upstream has no completions."""
MESSAGES: Doc = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 100}


@dataclass(frozen=True)
class Types:
    """An API and what its SDK says that it answers."""

    path: str
    body: Doc
    plain: str
    event: str
    error: str
    """Types: a module and a name in it."""
    lines: bool = False
    """A stream is lines of JSON, not events."""

    def error_of(self, doc: Doc) -> bytes:
        """What the type describes of an error."""
        return json.dumps(doc if "type" in doc or self.lines else doc["error"]).encode()


STRINGS = dict[str, str]
OPENAI_ERROR = "openai.types:ErrorObject"
CHAT = "openai.types.chat:"
RESPONSES = "openai.types.responses:"
ANTHROPIC = "anthropic.types:"
OLLAMA = "ollama:"
LINE = f"{OLLAMA}ChatResponse"
APIS = {
    "chat": Types(
        "/v1/chat/completions", MESSAGES, f"{CHAT}ChatCompletion", f"{CHAT}ChatCompletionChunk", OPENAI_ERROR
    ),
    "messages": Types(
        *("/v1/messages", MESSAGES),
        *(f"{ANTHROPIC}Message", f"{ANTHROPIC}RawMessageStreamEvent", f"{ANTHROPIC}ErrorResponse"),
    ),
    "responses": Types(
        *("/v1/responses", {"input": "Hi"}), *(f"{RESPONSES}Response", f"{RESPONSES}ResponseStreamEvent", OPENAI_ERROR)
    ),
    "ollama": Types("/api/chat", {"messages": MESSAGES["messages"]}, LINE, LINE, f"{__name__}:STRINGS", lines=True),
}
EVERY = pytest.mark.parametrize("name", APIS)
DIALECTS = pytest.mark.parametrize("dialect", RECORDED)
MADE_HERE = pytest.mark.parametrize(
    ("name", "dialect"),
    [(name, dialect) for name in APIS for dialect in RECORDED if (name, dialect) != ("messages", Dialect.ANTHROPIC)],
)
"""Where the answer is not the upstream's own, which passes byte by byte."""
CODEX_CODES = re.compile(rb'"code":"(insufficient_quota|context_length_exceeded)"')
"""By these a failed response says what Codex does next; the vendor's API has them, the SDK's types have not."""
TOO_LARGE = "request_too_large"
"""The vendor documents this type of error, its SDK has a class for the status, but its types lack it."""


@cache
def type_of(path: str) -> TypeAdapter[Any]:
    """Imported when a test needs it: the SDKs take seconds, and each worker collects all tests."""
    module, _, name = path.partition(":")
    return TypeAdapter(getattr(importlib.import_module(module), name))


def strict(kind: str, data: bytes) -> Any:
    """The JSON as this type, every field of the declared type."""
    return type_of(kind).validate_json(HALF_PAIR.sub(b"?", data), strict=True)


async def call(gateway: Gateway, api: Types, *, stream: bool, fields: Doc | None = None) -> Answer:
    body = dumps({"model": "m", **api.body, "stream": stream, **(fields or {})})
    return await gateway.client.ask("POST", api.path, body, headers={"User-Agent": "OpenAI/Python 3.57.0"})


def pieces(api: Types, answer: Answer) -> Iterator[bytes]:
    """The JSON of every event of a stream."""
    for line in answer.body.splitlines():
        if api.lines:
            yield line
        elif line.startswith(b"data: {"):
            yield line.removeprefix(b"data: ")


def check_stream(api: Types, answer: Answer) -> int:
    """The number of events except errors; all of them are valid."""
    good = 0
    for data in pieces(api, answer):
        doc = json.loads(data)
        if doc.get("type") == "ping":
            continue
        if "error" in doc and doc.get("type", "error") == "error":
            strict(api.error, api.error_of(doc))
        else:
            strict(api.event, CODEX_CODES.sub(b'"code":"server_error"', data))
            good += 1
    return good


@pytest.mark.slow
@MADE_HERE
async def test_every_recorded_stream(gateway: Gateway, provider: Provider, name: str, dialect: Dialect) -> None:
    api, good = APIS[name], 0
    _channel(gateway, provider, dialect)
    for case in [case for case in RECORDED[dialect] if case.came]:
        provider.other = stream_bytes(case.came)
        choices = {"n": len(case.said.finish)} if name == "chat" and len(case.said.finish) > 1 else {}
        answer = await call(gateway, api, stream=True, fields=choices)
        if answer.status == 200:
            good += check_stream(api, answer) > 0
            if name == "chat":
                assert stream_faults(answer.body, error=case.error != "") == []
        else:
            strict(api.error, api.error_of(answer.json))
    assert good > len(RECORDED[dialect]) // 2


@MADE_HERE
async def test_a_plain_answer_with_calls(gateway: Gateway, provider: Provider, name: str, dialect: Dialect) -> None:
    api = APIS[name]
    _channel(gateway, provider, dialect)
    provider.other = reply(PLAIN[dialect])
    answer = await call(gateway, api, stream=False)
    assert answer.status == 200
    strict(api.plain, answer.body)


@pytest.mark.sampled(30)
@EVERY
@DIALECTS
@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422, 429, 500, 503, 529])
async def test_errors_have_a_type(
    gateway: Gateway, provider: Provider, name: str, dialect: Dialect, status: int
) -> None:
    api = APIS[name]
    _channel(gateway, provider, dialect)
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": "it broke"}}
    provider.other = reply(error, status=status) if dialect is Dialect.ANTHROPIC else fail(status, "it broke")
    answer = await call(gateway, api, stream=False)
    assert answer.status >= 400
    if name == "messages" and answer.error["type"] == TOO_LARGE:
        assert status == 413
    else:
        strict(api.error, api.error_of(answer.json))


@DIALECTS
async def test_completions_are_typed(gateway: Gateway, provider: Provider, dialect: Dialect, *, stream: bool) -> None:
    _channel(gateway, provider, dialect)
    body = WORDS[dialect]
    provider.other = writes("Hel", "lo") if body is None else stream_bytes(body[1]) if stream else reply(body[0])
    answer = await gateway.client.ask(
        "POST", "/v1/completions", dumps({"model": "m", "prompt": "Hi", "max_tokens": 9, "stream": stream})
    )
    assert answer.status == 200
    for data in pieces(APIS["chat"], answer) if stream else [answer.body]:
        ended = data.replace(b'"finish_reason":null', b'"finish_reason":"stop"')  # the type is that of the end
        strict("openai.types:Completion", ended)


@pytest.mark.parametrize("dialect", [Dialect.OPENAI, Dialect.GEMINI])
@pytest.mark.parametrize("form", ["float", "base64"])
async def test_embeddings_have_openais_type(gateway: Gateway, provider: Provider, dialect: Dialect, form: str) -> None:
    _channel(gateway, provider, dialect)
    provider.other = vectors() if dialect is Dialect.OPENAI else reply({"embedding": {"values": [0.5, 1.0]}})
    body = {"model": "m", "input": "a", "encoding_format": form}
    answer = await gateway.client.ask("POST", "/v1/embeddings", dumps(body))
    assert answer.status == 200
    doc = answer.json
    for one in doc["data"]:
        assert isinstance(one["embedding"], str) is (form == "base64")
        one["embedding"] = [] if form == "base64" else one["embedding"]  # the type is what the SDK makes of it
    strict("openai.types:CreateEmbeddingResponse", json.dumps(doc).encode())


async def test_models_and_counts(gateway: Gateway) -> None:
    models = await gateway.client.get("/v1/models", {"anthropic-version": "2023-06-01"})
    for one in models.json["data"]:
        for kind in ("openai.types:Model", f"{ANTHROPIC}ModelInfo"):
            strict(kind, json.dumps(one).encode())
    body = dumps({"model": "m", **MESSAGES})
    counted = await gateway.client.ask("POST", "/v1/messages/count_tokens", body)
    strict(f"{ANTHROPIC}MessageTokensCount", counted.body)


OTHER_ANSWERS: list[tuple[str, Doc | None, str]] = [
    ("tags", None, f"{OLLAMA}ListResponse"),
    ("show", {}, f"{OLLAMA}ShowResponse"),
    ("generate", {"prompt": "Hi", "stream": False}, f"{OLLAMA}GenerateResponse"),
    ("embed", {"input": "a"}, f"{OLLAMA}EmbedResponse"),
    ("embeddings", {"prompt": "a"}, f"{OLLAMA}EmbeddingsResponse"),
]


@pytest.mark.parametrize(("path", "body", "kind"), OTHER_ANSWERS, ids=[answer[0] for answer in OTHER_ANSWERS])
async def test_ollamas_answers_are_typed(
    gateway: Gateway, provider: Provider, path: str, body: Doc | None, kind: str
) -> None:
    provider.on("m", vectors() if "embed" in path else speak("Hello"))
    client = gateway.client
    method, data = ("GET", b"") if body is None else ("POST", dumps({"model": "m", **body}))
    answer = await client.ask(method, f"/api/{path}", data)
    assert answer.status == 200
    # Some have times, which are texts in JSON.
    type_of(kind).validate_json(answer.body, strict=path not in ("tags", "show"))


def _channel(gateway: Gateway, provider: Provider, dialect: Dialect) -> None:
    gateway.channel(provider.root(dialect), dialect=dialect, preset="cerebras" if dialect is Dialect.OPENAI else "")
