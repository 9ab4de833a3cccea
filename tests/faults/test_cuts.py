"""An answer that an upstream cut at any byte is never shown as a complete one, by whichever API it is requested.

TOLLKEEPER_FULL=1: 5,000 cuts for each API.
"""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from gateway.domain.channel import Dialect
from tests.cases.anthropic import streams as anthropic
from tests.cases.gemini import streams as gemini
from tests.cases.same import PLAIN, STREAMED
from tests.conformance.test_completions import answered, said
from tests.fakes.client import Answer
from tests.fakes.gateway import Gateway
from tests.fakes.messages import grammar_faults, joined_blocks, message, read_events, text_block
from tests.fakes.provider import EVENTS, JSON, Exchange, Provider, Script
from tests.fakes.replies import DONE, Doc, dumps, event, usage
from tests.fakes.responses import events_of, function_call, message as response_message, parsed, response
from tests.fakes.wire import Gone, chunked
from tests.house import amount

CUTS = amount(80, 5_000)
AT_ONCE = 24
MODELS = {"openai": "gpt-4o", "anthropic": "claude-sonnet-4-5", "gemini": "gemini-3.8-flash", "native": "native"}
"""By the name that clients use: that of the dialect, or of a channel that speaks the Responses API."""
CALLS = [("locate", '{"hint":"a"}'), ("weather", '{"city":"b"}')]
DECODED_CALLS = [(name, json.loads(arguments)) for name, arguments in CALLS]
TEXT = ["I look ", "at the sea, ", "and it ", "looks at me."]
VECTORS = [[0.25, -0.5, 0.125, 1.5], [1.0, 0.75, -2.5, 0.5]]
SPENT = {"input_tokens": 30, "output_tokens": 7}
Bodies = dict[tuple[str, bool], bytes]
"""What the upstream of each model sends, plain and as a stream."""

TURNS: Bodies = {
    **{(dialect.value, True): body for dialect, body in STREAMED.items()},
    **{(dialect.value, False): body for dialect, body in PLAIN.items()},
}
NATIVE = response(
    response_message("I look."),
    function_call(*CALLS[0], call="c1", id="fc_1"),
    function_call(*CALLS[1], call="c2", id="fc_2"),
    model="native",
)
RESPONSES: Bodies = {**TURNS, ("native", True): b"".join(events_of(NATIVE)), ("native", False): dumps(NATIVE)}
WRITTEN_CHUNKS = [*(answered(said(text, finish=None)) for text in TEXT), answered(said("")), answered(spent=usage())]
GEMINI_EVENTS = [
    *(gemini.response(gemini.say(text), **gemini.spent(30, 2), responseId="x1") for text in TEXT[:-1]),
    gemini.response(gemini.say(TEXT[-1]), finish="STOP", **gemini.spent(30, 7), responseId="x1"),
]
WRITTEN: Bodies = {
    ("openai", False): dumps(answered(said("".join(TEXT)), spent=usage())),
    ("openai", True): b"".join(map(event, WRITTEN_CHUNKS)) + DONE,
    ("anthropic", False): dumps(message(text_block("".join(TEXT)), spent=SPENT)),
    ("anthropic", True): anthropic.start(SPENT, id="x1") + anthropic.text(*TEXT) + anthropic.end("end_turn"),
    ("gemini", False): dumps(gemini.response(gemini.say("".join(TEXT)), finish="STOP", **gemini.spent(30, 7))),
    ("gemini", True): b"".join(map(gemini.event, GEMINI_EVENTS)),
}
EMBEDDED_VECTORS = [
    {"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(VECTORS)
]
EMBEDDED: Bodies = {
    ("openai", False): dumps(
        {"object": "list", "data": EMBEDDED_VECTORS, "model": "m", "usage": {"prompt_tokens": 7, "total_tokens": 7}}
    ),
    ("gemini", False): dumps({"embeddings": [{"values": vector} for vector in VECTORS]}),
}


def whole_chat(answer: Answer, stream: bool) -> bool:
    if not stream:
        choice = answer.json["choices"][0]
        made = [call["function"] for call in choice["message"].get("tool_calls") or []]
    else:
        choices = [doc["choices"][0] for doc in answer.chunks if doc["choices"]]
        calls = [call for one in choices for call in one["delta"].get("tool_calls") or []]
        made = [{"name": "", "arguments": ""} for _ in {call["index"] for call in calls}]
        for call in calls:
            for part, text in call.get("function", {}).items():
                made[call["index"]][part] += text
        choice = next(one for one in choices if one["finish_reason"])
    found = [(call["name"], call["arguments"]) for call in made]
    return (answer.text, found, choice["finish_reason"]) == ("I look.", CALLS, "tool_calls")


def whole_message(answer: Answer, stream: bool) -> bool:
    if not stream:
        found, reason = answer.json["content"], answer.json["stop_reason"]
    else:
        events = read_events(answer.body)
        found, reason = joined_blocks(events), events[-2]["delta"]["stop_reason"]
        assert grammar_faults(events) == []
    text = "".join(block["text"] for block in found if block["type"] == "text")
    made = [(block["name"], block["input"]) for block in found if block["type"] == "tool_use"]
    calls = [(name, given if isinstance(given, dict) else json.loads(given)) for name, given in made]
    return (text, calls, reason) == ("I look.", DECODED_CALLS, "tool_use")


def whole_response(answer: Answer, stream: bool) -> bool:
    made = parsed(answer.body)[-1]["response"] if stream else answer.json
    items = made["output"]
    text = "".join(part["text"] for item in items if item["type"] == "message" for part in item["content"])
    calls = [(item["name"], item["arguments"]) for item in items if item["type"] == "function_call"]
    return (text, calls, made["status"]) == ("I look.", CALLS, "completed")


def whole_completion(answer: Answer, stream: bool) -> bool:
    choices = [one for doc in (answer.chunks if stream else [answer.json]) for one in doc["choices"]]
    reasons = [one["finish_reason"] for one in choices if one["finish_reason"]]
    return ("".join(one["text"] for one in choices), reasons) == ("".join(TEXT), ["stop"])


def whole_lines(answer: Answer, stream: bool) -> bool:
    docs = [json.loads(line) for line in answer.body.splitlines()] if stream else [answer.json]
    text = "".join(doc["message"]["content"] for doc in docs)
    made = [call["function"] for doc in docs for call in doc["message"].get("tool_calls") or ()]
    calls = [(call["name"], call["arguments"]) for call in made]
    return (text, calls, docs[-1]["done"]) == ("I look.", DECODED_CALLS, True)


def whole_vectors(answer: Answer, stream: bool) -> bool:
    return not stream and [one["embedding"] for one in answer.json["data"]] == VECTORS


def asked(mark: str) -> Doc:
    return {"messages": [{"role": "user", "content": mark}], "max_tokens": 50}


@dataclass(frozen=True)
class CutApi:
    """An API, what its upstreams send, and what a client makes of the answers."""

    path: str
    sent: Bodies
    whole: Callable[[Answer, bool], bool]
    """Whether nothing is missing of an answer that ends as a success."""
    end: bytes = b""
    """What the end of a complete stream has; empty for an API without streams."""
    body: Callable[[str], Doc] = asked
    """The request that has this mark in it."""
    presets: dict[str, str] = field(default_factory=dict)


APIS = {
    "chat": CutApi("/v1/chat/completions", TURNS, whole_chat, b"data: [DONE]"),
    "messages": CutApi("/v1/messages", TURNS, whole_message, b"event: message_stop"),
    "responses": CutApi(
        *("/v1/responses", RESPONSES, whole_response, b"event: response.completed"),
        body=lambda mark: {"input": mark},
        presets={"openai": "cerebras", "native": "vllm"},
    ),
    "completions": CutApi(
        *("/v1/completions", WRITTEN, whole_completion, b"data: [DONE]"),
        body=lambda mark: {"prompt": mark, "max_tokens": 50},
    ),
    "embeddings": CutApi(
        *("/v1/embeddings", EMBEDDED, whole_vectors),
        body=lambda mark: {"input": [mark, "b"], "encoding_format": "float"},
    ),
    "ollama": CutApi("/api/chat", TURNS, whole_lines, b'"done":true'),
}


@dataclass(frozen=True)
class Cut:
    """One answer and where it ends."""

    model: str
    stream: bool
    framing: str
    """``length``, ``chunks`` or ``close``."""
    share: float
    """Of the answer's bytes, head and all, how many are sent."""
    reset: bool

    def wire_of(self, body: bytes) -> bytes:
        """The whole answer as it would go over the wire."""
        kind = EVENTS if self.stream else JSON
        head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n"
        if self.framing == "length":
            return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body
        if self.framing == "close":
            return f"{head}connection: close\r\n\r\n".encode() + body
        pieces = b"".join(chunked(body[at : at + 70]) for at in range(0, len(body), 70)) + chunked(b"")
        return f"{head}transfer-encoding: chunked\r\n\r\n".encode() + pieces


def cuts(api: CutApi) -> Iterator[Cut]:
    """Random ones, and every answer once without a cut."""
    chance, models = random.Random(5), sorted({model for model, _ in api.sent})
    for number in range(CUTS):
        yield Cut(
            model=models[number % len(models)],
            stream=bool(api.end) and chance.random() < 0.7,
            framing=chance.choice(["length", "chunks", "close"]),
            share=chance.random(),
            reset=chance.random() < 0.5,
        )
    for model, stream in api.sent:
        yield Cut(model, stream, "length", 1.0, reset=False)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", APIS)
async def test_no_truncated_answer_is_shown_as_a_success(gateway: Gateway, provider: Provider, name: str) -> None:
    api = APIS[name]
    wanted = cuts(api)
    gateway.grant(10**13)
    provider.other = cut_off(api)
    for model in {model for model, _ in api.sent}:
        serve(gateway, provider, api, model)
    counts: Counter[str] = Counter()

    async def play() -> None:
        for cut in wanted:
            counts[await outcome(gateway, api, cut)] += 1

    await asyncio.gather(*(play() for _ in range(AT_ONCE)))
    assert counts["truncated"] == 0
    assert counts["whole"] + counts["refused"] + counts["broken off"] == CUTS + len(api.sent)
    assert counts["whole"] >= len(api.sent)
    assert counts["refused"] > 0
    assert bool(counts["broken off"]) is bool(api.end)


def cut_off(api: CutApi) -> Script:
    async def script(exchange: Exchange) -> None:
        given = exchange.body.decode()
        model, stream, framing, share, reset = given[given.index("cut ") + 4 :].split("!")[0].split()
        cut = Cut(model, stream == "1", framing, float(share), reset == "1")
        data = cut.wire_of(api.sent[cut.model, cut.stream])
        await exchange.write(data[: int(cut.share * len(data))])
        if cut.reset:
            await asyncio.sleep(0.005)  # a reset discards what the peer has not read yet
            exchange.socket.reset()
        else:
            exchange.socket.close()

    return script


def serve(gateway: Gateway, provider: Provider, api: CutApi, model: str) -> None:
    dialect = Dialect.OPENAI if model == "native" else Dialect(model)
    name, preset = f"up-{model}", api.presets.get(model, "")
    gateway.channel(provider.root(dialect), f"{model}={MODELS[model]}", name=name, dialect=dialect, preset=preset)
    gateway.price(model)


async def outcome(gateway: Gateway, api: CutApi, cut: Cut) -> str:
    """The cut is in the request, so that a second attempt is cut at the same place."""
    mark = f"cut {cut.model} {int(cut.stream)} {cut.framing} {cut.share:.9f} {int(cut.reset)}!"
    stream = {"stream": cut.stream} if api.end else {}
    try:
        answer = await gateway.client.ask("POST", api.path, dumps({"model": cut.model, **api.body(mark), **stream}))
    except Gone:
        return "broken off"
    if answer.status != 200:
        return "refused"
    if not cut.stream or api.end in answer.body:
        return "whole" if api.whole(answer, cut.stream) else "truncated"
    return "broken off"
