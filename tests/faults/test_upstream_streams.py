"""Streams that stall, break, lie or never end, and what is booked of them."""

import asyncio
import time

import pytest

from gateway.domain.call import FailureKind, Outcome
from gateway.domain.channel import Dialect, Timeouts
from gateway.domain.usage import UsageSource
from gateway.upstream.adapter import EVENT_LIMIT
from gateway.upstream.http import reply as incoming
from tests.cases.anthropic import streams as anthropic
from tests.conformance.shapes import error_faults, stream_faults
from tests.fakes.client import Answer
from tests.fakes.gateway import INPUT, OUTPUT, Gateway
from tests.fakes.provider import Exchange, Provider, Script
from tests.fakes.replies import (
    DONE,
    chunk,
    delta,
    dumps,
    endless,
    event,
    in_steps,
    raw,
    reply,
    speak,
    story,
    usage,
    whole,
)

WORDS = [f"w{n} " for n in range(60)]
BEGUN = story(*WORDS)[:41]
"""The role and forty of sixty words."""


def said_then(*ends: bytes) -> Script:
    """Forty words, then these bytes, then silence with the connection open."""
    return in_steps(b"".join(map(event, BEGUN)), *ends, hangs=True)


def booked_as_cut(gateway: Gateway, answer: Answer, outcome: Outcome, code: str) -> None:
    """An error event without [DONE], the forty words charged once, and only they."""
    assert (answer.status, stream_faults(answer.body, error=True)) == (200, [])
    assert b"[DONE]" not in answer.body
    assert answer.chunks[-1]["error"]["code"] == code
    assert answer.text.split() == [word.strip() for word in WORDS[:40]]
    record = gateway.record
    assert (record.outcome, record.source, record.possible) == (outcome, UsageSource.ESTIMATED, 0)
    assert 40 <= record.output <= 130
    assert record.cost == (record.input * INPUT + record.output * OUTPUT) // 1_000_000
    assert [a.kind for a in record.attempts] == [FailureKind.CUT]


async def test_a_stall_is_cut_at_the_idle_deadline(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, timeouts=Timeouts(idle=0.2))
    provider.on("m", said_then())
    booked_as_cut(gateway, await gateway.client.chat(stream=True), Outcome.TIMEOUT, "upstream_timeout")


@pytest.mark.parametrize("comes", [True, False])
@pytest.mark.parametrize("deadline", ["idle", "head", "total"])
async def test_bytes_that_came_while_the_process_was_stopped_are_read_before_a_deadline_counts(
    gateway: Gateway, provider: Provider, deadline: str, *, comes: bool
) -> None:
    """As by Ctrl-Z, or when its virtual machine is paused. The deadlines of a head and of a plain answer also count."""
    body = dumps(whole("m", spent=usage(9, 2)))

    async def script(exchange: Exchange) -> None:
        if deadline == "idle":
            await exchange.begin_stream()
            await exchange.piece(b"".join(map(event, BEGUN)))
        elif deadline == "total":
            await exchange.begin(headers={"content-length": str(len(body))})
        await asyncio.sleep(0.3)
        if comes and deadline == "idle":
            await exchange.piece(b"".join(map(event, story(*WORDS)[41:])) + DONE)
        elif comes:
            await (exchange.write(body) if deadline == "total" else exchange.answer(body))
        time.sleep(1.5)  # noqa: ASYNC251 - nothing else runs meanwhile
        await exchange.left()

    gateway.channel(provider.base_url, timeouts=Timeouts(**{deadline: 0.6}))
    provider.on("m", script)
    answer = await gateway.client.chat(stream=deadline == "idle")
    if comes:
        assert (await gateway.settled())[0].outcome is Outcome.DONE
    elif deadline == "idle":
        booked_as_cut(gateway, answer, Outcome.TIMEOUT, "upstream_timeout")
    else:
        assert (answer.status, answer.json["error"]["code"]) == (504, "upstream_timeout")


ENDED = {
    "/v1/chat/completions": event(chunk(delta("Hi"))) + event(chunk(delta(finish="stop"), usage=usage(9, 2))),
    "/v1/messages": anthropic.start({"input_tokens": 9})
    + anthropic.text("Hi")
    + anthropic.end(output_tokens=2).removesuffix(anthropic.STOP),
}
"""Streams without their last event, by the path at which they are native."""


@pytest.mark.parametrize("path", ENDED)
@pytest.mark.parametrize(
    "kept", [b"", b": ka\n\n", b"event: ping\ndata: {}\n\n", b'event: ping\ndata: {"type": "ping"}\n\n']
)
async def test_a_complete_answer_whose_last_event_does_not_come_ends_well(
    gateway: Gateway, provider: Provider, monkeypatch: pytest.MonkeyPatch, path: str, kept: bytes
) -> None:
    monkeypatch.setattr(incoming, "TAIL_S", 0.1)
    dialect = Dialect.ANTHROPIC if "messages" in path else Dialect.OPENAI
    gateway.channel(provider.base_url, dialect=dialect, timeouts=Timeouts(idle=30))
    provider.on("m", endless(kept, first=ENDED[path], pause=0.02))
    body = dumps({"model": "m", "stream": True, "max_tokens": 99, "messages": [{"role": "user", "content": "Hi"}]})
    answer = await gateway.client.ask("POST", path, body)
    assert answer.body.endswith((DONE, b'event: message_stop\ndata: {"type":"message_stop"}\n\n'))
    assert (gateway.record.outcome, gateway.record.input, gateway.record.output) == (Outcome.DONE, 9, 2)


async def test_a_pause_after_a_finish_reason_does_not_end_an_answer_that_goes_on(
    gateway: Gateway, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incoming, "TAIL_S", 0.1)
    pauses = [0.06] * 6 + [0.4] + [0.06] * 5
    said = [step for n, pause in enumerate(pauses) for step in (chunk(delta(f"{n} ", finish="stop")), pause)]
    gateway.channel(provider.base_url)
    provider.on("m", in_steps(*said, event(chunk(usage=usage(9, 2))) + DONE))
    assert (await gateway.client.chat(stream=True)).text.split() == [str(number) for number in range(12)]


@pytest.mark.slow
@pytest.mark.parametrize("begun", [False, True])
async def test_a_larger_one_ends_the_stream(gateway: Gateway, provider: Provider, begun: bool) -> None:
    sent = 0

    async def flood(exchange: Exchange) -> None:
        nonlocal sent
        sent = 0
        await exchange.begin_stream()
        await exchange.piece(b"".join(map(event, BEGUN)) if begun else b"")
        await exchange.piece(b"data: ")
        while not exchange.gone.is_set() and sent < 1 << 30:
            await exchange.piece(b"x" * (1 << 20))
            await asyncio.sleep(0)  # a writer whose peer has gone never waits, and so never learns of it
            sent += 1 << 20

    provider.on("m", flood)
    answer = await gateway.client.chat(stream=True)
    assert sent < EVENT_LIMIT + (16 << 20)
    if begun:
        booked_as_cut(gateway, answer, Outcome.UPSTREAM_CUT, "upstream_bad_response")
    else:
        assert (answer.status, answer.error["code"], gateway.record.cost) == (502, "upstream_bad_response", 0)


async def test_without_a_fallback_it_ends_at_once_and_leaves_peace(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", said_then(event({"error": {"message": "no room", "code": 503}})))
    began = time.monotonic()
    assert stream_faults((await gateway.client.chat(stream=True)).body, error=True) == []
    assert time.monotonic() - began < 1
    await gateway.settled()
    busy, began = time.process_time(), time.monotonic()
    await asyncio.sleep(0.3)
    assert time.process_time() - busy < 0.5 * (time.monotonic() - began)


async def test_an_endless_stream_is_cut(gateway: Gateway, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incoming, "STREAM_LIMIT", 2 << 20)
    provider.on("m", endless(event(chunk(delta("more " * 1000)))))
    answer = await gateway.client.chat(stream=True)
    assert stream_faults(answer.body, error=True) == []
    assert "longer than 2 MiB" in answer.chunks[-1]["error"]["message"]
    assert (gateway.record.outcome, gateway.record.source) == (Outcome.UPSTREAM_CUT, UsageSource.ESTIMATED)
    assert gateway.record.cost > 0


@pytest.mark.parametrize("pause", [0.0, 0.05])
async def test_usage_after_the_end_counts(gateway: Gateway, provider: Provider, pause: float) -> None:
    said = b"".join(map(event, story("Hello"))) + DONE
    provider.on("m", in_steps(said, pause, event(chunk(usage=usage(9, 2)))[:-2]))
    answer = await gateway.client.chat(stream=True)
    assert (answer.text, stream_faults(answer.body)) == ("Hello", [])
    record = gateway.record
    assert (record.input, record.output, record.source) == (9, 2, UsageSource.REPORTED)


async def test_what_is_large_after_the_end_is_not_read(gateway: Gateway, provider: Provider) -> None:
    large = b'data: {"choices":[' + b",".join([b"{}"] * 400_000) + b"]}\n\n"
    provider.on("m", in_steps(b"".join(map(event, story("Hello"))) + DONE, large, chunk(usage=usage(9, 2))))
    busy = time.process_time()
    answer = await gateway.client.chat(stream=True)
    assert (answer.text, stream_faults(answer.body)) == ("Hello", [])
    assert time.process_time() - busy < 1


LINES = b'{"a":1}\n' * 40_000
"""Events of no known kind: a third of a megabyte that takes half a second to read."""


@pytest.mark.parametrize("kind", ["chat", "stream", "messages"])
async def test_a_large_body_does_not_stop_the_loop(gateway: Gateway, provider: Provider, kind: str) -> None:
    """Bodies of 16 MB did so for 25 seconds, and all other calls waited. Another thread reads them."""
    provider.on("m", reply(LINES))
    loop, all_threads = time.thread_time(), time.process_time()
    client = gateway.client
    answer = await (client.messages() if kind == "messages" else client.chat(stream=kind == "stream"))
    loop, all_threads = time.thread_time() - loop, time.process_time() - all_threads
    assert answer.status == 502
    assert loop < all_threads / 3


async def test_a_body_of_more_lines_than_an_answer_has_is_not_read(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", reply(b'{"a":1}\n' * 600_001))
    busy = time.process_time()
    assert (await gateway.client.chat()).error["message"].startswith("channel 'up': the upstream sent a bad answer")
    assert time.process_time() - busy < 2


GOOD = dumps(whole("m", spent=usage()))


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
LENGTH = b"Content-Length: %d\r\n" % len(GOOD)
CHUNKED = b"Transfer-Encoding: chunked\r\n"
CHUNKS = b"%x\r\n%b\r\n0\r\n\r\n" % (len(GOOD), GOOD)

BROKEN: dict[str, bytes] = {
    "length too long": HEAD + b"Content-Length: 100000\r\n\r\n" + GOOD,
    "bad chunk": HEAD + CHUNKED + b"\r\nzz\r\n" + GOOD,
    "no last chunk": HEAD + CHUNKED + b"\r\n" + CHUNKS[:-5],
    "garbage": b"\x00\x01\x02\x03\r\n\r\n",
    "204": b"HTTP/1.1 204 No Content\r\n\r\n",
    "101": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    "nothing": b"",
    "endless 103": b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 1000,
    "long header": HEAD + b"X: " + b"y" * (1 << 20) + b"\r\n" + LENGTH + b"\r\n" + GOOD,
}


@pytest.mark.parametrize("name", BROKEN)
async def test_broken_http_is_a_failed_attempt(gateway: Gateway, provider: Provider, name: str, stream: bool) -> None:
    provider.on("m", raw(BROKEN[name]))
    answer = await gateway.client.chat(stream=stream)
    assert answer.status == 502, answer.body
    assert error_faults(answer.json) == []
    assert answer.error["code"].startswith("upstream_")
    assert (gateway.record.cost, gateway.record.source) == (0, UsageSource.NONE)
    provider.on("m", speak())
    gateway.engine.health.clear(gateway.engine.catalog.channel("up").id)
    assert (await gateway.client.chat(stream=stream)).text == "Hello"
