"""An answer that an upstream cut at any byte is never shown as a complete one, by whichever API it is requested.

TOLLKEEPER_FULL=1: 5,000 cuts for each API.
"""

import asyncio
import json
import os
import random
from collections import Counter
from dataclasses import dataclass

import pytest

from gateway.domain.channel import Channel, Dialect, ServedModel
from gateway.domain.units import ChannelId
from tests.cases.same import PLAIN, STREAMED
from tests.fakes.client import Answer
from tests.fakes.gateway import Gateway
from tests.fakes.messages import grammar_faults, joined_blocks, read_events
from tests.fakes.provider import EVENTS, JSON, Exchange, Provider
from tests.fakes.wire import Gone, chunked

CUTS = 5_000 if os.environ.get("TOLLKEEPER_FULL") else 180
AT_ONCE = 24
MODELS = {Dialect.OPENAI: "gpt-4o", Dialect.ANTHROPIC: "claude-sonnet-4-5", Dialect.GEMINI: "gemini-3.8-flash"}
CALLS = [("locate", '{"hint":"a"}'), ("weather", '{"city":"b"}')]


@dataclass(frozen=True)
class Cut:
    """One answer and where it ends."""

    dialect: Dialect
    stream: bool
    framing: str
    """``length``, ``chunks`` or ``close``."""
    share: float
    """Of the answer's bytes, head and all, how many are sent."""
    reset: bool

    @property
    def wire(self) -> bytes:
        """The whole answer as it would go over the wire."""
        return self.wire_of((STREAMED if self.stream else PLAIN)[self.dialect])

    def wire_of(self, body: bytes) -> bytes:
        """The same for another answer."""
        kind = EVENTS if self.stream else JSON
        head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n"
        if self.framing == "length":
            return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body
        if self.framing == "close":
            return f"{head}connection: close\r\n\r\n".encode() + body
        pieces = b"".join(chunked(body[at : at + 70]) for at in range(0, len(body), 70)) + chunked(b"")
        return f"{head}transfer-encoding: chunked\r\n\r\n".encode() + pieces


def cuts(count: int) -> list[Cut]:
    chance = random.Random(5)
    return [
        Cut(
            dialect=chance.choice(list(MODELS)),
            stream=chance.random() < 0.7,
            framing=chance.choice(["length", "chunks", "close"]),
            share=chance.random(),
            reset=chance.random() < 0.5,
        )
        for _ in range(count)
    ]


ENDS = {"chat": b"data: [DONE]", "messages": b"event: message_stop"}
"""What the end of a complete stream has."""


def shown(answer: Answer, api: str, *, stream: bool) -> bool:
    """Whether a client takes it for a complete answer."""
    return answer.status == 200 and (not stream or ENDS[api] in answer.body)


def whole_message(answer: Answer, *, stream: bool) -> bool:
    """Whether nothing is missing of a message."""
    if not stream:
        found, reason = answer.json["content"], answer.json["stop_reason"]
    else:
        events = read_events(answer.body)
        found, reason = joined_blocks(events), events[-2]["delta"]["stop_reason"]
        assert grammar_faults(events) == []
    text = "".join(block["text"] for block in found if block["type"] == "text")
    made = [(block["name"], block["input"]) for block in found if block["type"] == "tool_use"]
    calls = [(name, given if isinstance(given, dict) else json.loads(given)) for name, given in made]
    return (text, calls, reason) == ("I look.", [(name, json.loads(given)) for name, given in CALLS], "tool_use")


def whole_chat(answer: Answer, *, stream: bool) -> bool:
    """Whether nothing is missing of a chat completion."""
    if not stream:
        choice = answer.json["choices"][0]
        made = [call["function"] for call in choice["message"].get("tool_calls") or []]
    else:
        choices = [doc["choices"][0] for doc in answer.chunks if doc["choices"]]
        calls = [call for one in choices for call in one["delta"].get("tool_calls") or []]
        made = [{"name": "", "arguments": ""} for _ in {call["index"] for call in calls}]
        for call in calls:
            for field, text in call.get("function", {}).items():
                made[call["index"]][field] += text
        choice = next(one for one in choices if one["finish_reason"])
    found = [(call["name"], call["arguments"]) for call in made]
    return (answer.text, found, choice["finish_reason"]) == ("I look.", CALLS, "tool_calls")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("api", ENDS)
async def test_no_truncated_answer_is_shown_as_a_success(gateway: Gateway, provider: Provider, api: str) -> None:
    wanted: asyncio.Queue[Cut] = asyncio.Queue()
    for cut in cuts(CUTS):
        wanted.put_nowait(cut)
    gateway.grant(10**13)
    for dialect, upstream in MODELS.items():
        _channel(gateway, provider, dialect, upstream)
    counts: Counter[str] = Counter()

    async def play() -> None:
        while not wanted.empty():
            counts[await _outcome(gateway, wanted.get_nowait(), api)] += 1

    await asyncio.gather(*(play() for _ in range(AT_ONCE)))
    assert counts["truncated"] == 0
    assert counts["whole"] + counts["refused"] + counts["broken off"] == CUTS
    assert min(counts["refused"], counts["broken off"]) > 0


def _channel(gateway: Gateway, provider: Provider, dialect: Dialect, upstream: str) -> None:
    """The request says where to cut, so that a second attempt is cut at the same place."""

    async def script(exchange: Exchange) -> None:
        said = exchange.body.decode()
        mark = said[said.index("cut ") + 4 :].split("!")[0].split()
        cut = Cut(Dialect(mark[0]), mark[1] == "1", mark[2], float(mark[3]), mark[4] == "1")
        data = cut.wire
        await exchange.write(data[: int(cut.share * len(data))])
        if cut.reset:
            await asyncio.sleep(0.005)  # a reset discards what the peer has not read yet
            exchange.socket.reset()
        else:
            exchange.socket.close()

    provider.other = script
    root = provider.base_url if dialect is Dialect.OPENAI else provider.base_url.removesuffix("/v1")
    name = f"up-{dialect}"
    served = (ServedModel(name=dialect.value, upstream=upstream),)
    made = Channel(id=ChannelId(name), name=name, dialect=dialect, base_url=root, models=served, key="sk-x")
    gateway.change("channels", name, made)
    gateway.price(dialect.value)


async def _outcome(gateway: Gateway, cut: Cut, api: str) -> str:
    mark = f"cut {cut.dialect} {int(cut.stream)} {cut.framing} {cut.share:.9f} {int(cut.reset)}!"
    messages = [{"role": "user", "content": mark}]
    try:
        ask = gateway.client.chat if api == "chat" else gateway.client.messages
        answer = await ask(cut.dialect.value, messages=messages, stream=cut.stream)
    except Gone:
        return "broken off"
    if shown(answer, api, stream=cut.stream):
        whole = whole_chat if api == "chat" else whole_message
        return "whole" if whole(answer, stream=cut.stream) else "truncated"
    return "broken off" if answer.status == 200 else "refused"
