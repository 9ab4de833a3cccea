"""The same as ``test_cuts`` for completions, embeddings and Ollama's API, at channels of every dialect."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from gateway.domain.channel import Channel, Dialect, ServedModel
from gateway.domain.units import ChannelId
from tests.cases.anthropic import streams as anthropic
from tests.cases.gemini import streams as gemini
from tests.cases.same import PLAIN, STREAMED
from tests.conformance.test_completions import answered, said
from tests.fakes.client import Answer
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Exchange, Provider
from tests.fakes.replies import DONE, Doc, dumps, event, usage
from tests.fakes.wire import Gone
from tests.faults.test_cuts import AT_ONCE, CALLS, CUTS, MODELS, Cut, cuts

TEXT = ["I look ", "at the sea, ", "and it ", "looks at me."]
VECTORS = [[0.25, -0.5, 0.125, 1.5], [1.0, 0.75, -2.5, 0.5]]
Bodies = dict[tuple[Dialect, bool], bytes]
"""What the upstream of each dialect sends, plain and as a stream."""


def _spent() -> Doc:
    return {"input_tokens": 30, "output_tokens": 7}


WRITTEN: Bodies = {
    (Dialect.OPENAI, False): dumps(answered(said("".join(TEXT)), spent=usage(30, 7))),
    (Dialect.OPENAI, True): b"".join(
        event(doc)
        for doc in (
            *(answered(said(text, finish=None)) for text in TEXT),
            answered(said("")),
            answered(spent=usage(30, 7)),
        )
    )
    + DONE,
    (Dialect.ANTHROPIC, False): dumps(
        {
            "id": "x1",
            "type": "message",
            "role": "assistant",
            "content": [{"type": "text", "text": "".join(TEXT)}],
            "stop_reason": "end_turn",
            "usage": _spent(),
        }
    ),
    (Dialect.ANTHROPIC, True): anthropic.start(_spent(), id="x1") + anthropic.text(*TEXT) + anthropic.end("end_turn"),
    (Dialect.GEMINI, False): dumps(
        gemini.response(gemini.say("".join(TEXT)), finish="STOP", **gemini.spent(30, 7), responseId="x1")
    ),
    (Dialect.GEMINI, True): b"".join(
        gemini.event(gemini.response(gemini.say(text), **gemini.spent(30, 2), responseId="x1")) for text in TEXT[:-1]
    )
    + gemini.event(gemini.response(gemini.say(TEXT[-1]), finish="STOP", **gemini.spent(30, 7), responseId="x1")),
}
EMBEDDED: Bodies = {
    (Dialect.OPENAI, False): dumps(
        {
            "object": "list",
            "data": [{"object": "embedding", "index": i, "embedding": vector} for i, vector in enumerate(VECTORS)],
            "model": "m",
            "usage": {"prompt_tokens": 7, "total_tokens": 7},
        }
    ),
    (Dialect.GEMINI, False): dumps({"embeddings": [{"values": vector} for vector in VECTORS]}),
}
TURNS: Bodies = {
    **{(dialect, True): body for dialect, body in STREAMED.items()},
    **{(dialect, False): body for dialect, body in PLAIN.items()},
}


@dataclass(frozen=True)
class CutApi:
    """An API, what its upstreams send, and what a client makes of the answers."""

    path: str
    body: Callable[[str], Doc]
    """The request that has this mark in it."""
    sent: Bodies
    whole: Callable[[Answer, bool], bool]
    """Whether nothing is missing of an answer that ends as a success."""
    end: bytes = b""
    """What the end of a complete stream has."""


def _whole_completion(answer: Answer, stream: bool) -> bool:
    choices = [one for doc in (answer.chunks if stream else [answer.json]) for one in doc["choices"]]
    reasons = [one["finish_reason"] for one in choices if one["finish_reason"]]
    return ("".join(one["text"] for one in choices), reasons) == ("".join(TEXT), ["stop"])


def _whole_lines(answer: Answer, stream: bool) -> bool:
    docs = [json.loads(line) for line in answer.body.splitlines()] if stream else [answer.json]
    text = "".join(doc["message"]["content"] for doc in docs)
    made = [call["function"] for doc in docs for call in doc["message"].get("tool_calls") or ()]
    calls = [(call["name"], call["arguments"]) for call in made]
    return (text, calls, docs[-1]["done"]) == ("I look.", [(name, json.loads(given)) for name, given in CALLS], True)


def _whole_vectors(answer: Answer, stream: bool) -> bool:
    return not stream and [one["embedding"] for one in answer.json["data"]] == VECTORS


APIS = {
    "completions": CutApi(
        "/v1/completions", lambda mark: {"prompt": mark, "max_tokens": 50}, WRITTEN, _whole_completion, b"data: [DONE]"
    ),
    "embeddings": CutApi(
        "/v1/embeddings", lambda mark: {"input": [mark, "b"], "encoding_format": "float"}, EMBEDDED, _whole_vectors
    ),
    "ollama": CutApi(
        "/api/chat",
        lambda mark: {"messages": [{"role": "user", "content": mark}]},
        TURNS,
        _whole_lines,
        b'"done":true',
    ),
}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", APIS)
async def test_no_truncated_answer_is_shown_as_a_success(gateway: Gateway, provider: Provider, name: str) -> None:
    api, wanted = APIS[name], asyncio.Queue[tuple[Dialect, Cut]]()
    dialects = sorted({dialect for dialect, _ in api.sent})
    uncut = {Cut(dialect, stream, "length", 1.0, reset=False) for dialect, stream in api.sent}
    for number, cut in enumerate(cuts(CUTS)):
        wanted.put_nowait((dialects[number % len(dialects)], cut))
    for cut in uncut:
        wanted.put_nowait((cut.dialect, cut))
    gateway.grant(10**13)
    provider.other = _cut_off(api.sent)
    for dialect in dialects:
        _channel(gateway, provider, dialect)
    counts: Counter[str] = Counter()

    async def play() -> None:
        while not wanted.empty():
            counts[await _outcome(gateway, api, *wanted.get_nowait())] += 1

    await asyncio.gather(*(play() for _ in range(AT_ONCE)))
    assert counts["truncated"] == 0
    assert counts["whole"] + counts["refused"] + counts["broken off"] == CUTS + len(uncut)
    assert counts["whole"] >= len(uncut)
    assert counts["refused"] > 0
    assert bool(counts["broken off"]) is bool(api.end)


def _cut_off(sent: Bodies) -> Callable[[Exchange], Any]:
    async def script(exchange: Exchange) -> None:
        given = exchange.body.decode()
        dialect, stream, framing, share, reset = given[given.index("cut ") + 4 :].split("!")[0].split()
        cut = Cut(Dialect(dialect), stream == "1", framing, float(share), reset == "1")
        data = cut.wire_of(sent[cut.dialect, cut.stream])
        await exchange.write(data[: int(cut.share * len(data))])
        if cut.reset:
            await asyncio.sleep(0.005)  # a reset discards what the peer has not read yet
            exchange.socket.reset()
        else:
            exchange.socket.close()

    return script


def _channel(gateway: Gateway, provider: Provider, dialect: Dialect) -> None:
    root = provider.base_url if dialect is Dialect.OPENAI else provider.base_url.removesuffix("/v1")
    served = (ServedModel(name=dialect.value, upstream=MODELS[dialect]),)
    made = Channel(
        id=ChannelId(f"up-{dialect}"), name=f"up-{dialect}", dialect=dialect, base_url=root, models=served, key="sk-x"
    )
    gateway.change("channels", made.id, made)
    gateway.price(dialect.value)


async def _outcome(gateway: Gateway, api: CutApi, dialect: Dialect, cut: Cut) -> str:
    """The cut is in the request, so that a second attempt is cut at the same place."""
    stream = cut.stream and bool(api.end)
    mark = f"cut {dialect} {int(stream)} {cut.framing} {cut.share:.9f} {int(cut.reset)}!"
    body = {"model": dialect.value, **api.body(mark), **({"stream": stream} if api.end else {})}
    try:
        answer = await gateway.client.ask("POST", api.path, dumps(body))
    except Gone:
        return "broken off"
    if answer.status != 200:
        return "refused"
    if not stream or api.end in answer.body:
        return "whole" if api.whole(answer, stream) else "truncated"
    return "broken off"
