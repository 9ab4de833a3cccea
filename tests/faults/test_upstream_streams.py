"""Streams that stall, break, lie or never end, and what is booked of them."""

import asyncio
import time

import pytest

from gateway.domain.call import FailureKind, Outcome
from gateway.domain.channel import Timeouts
from gateway.domain.sse import EVENT_LIMIT
from gateway.domain.usage import UsageSource
from gateway.upstream.http import reply as incoming
from tests.conformance.shapes import error_faults, stream_faults
from tests.fakes.client import Answer
from tests.fakes.gateway import INPUT, OUTPUT, Gateway
from tests.fakes.provider import Exchange, Provider, Script
from tests.fakes.replies import (
    DONE,
    chunk,
    cut,
    delta,
    event,
    fail,
    reply,
    silence,
    speak,
    story,
    stream,
    stream_bytes,
    usage,
    whole,
)

WORDS = [f"w{n} " for n in range(60)]
BEGUN = story(*WORDS)[:41]
"""The role and forty of sixty words."""


def said_then(*ends: bytes) -> Script:
    """Forty words, then these bytes, then silence with the connection open."""

    async def script(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.piece(b"".join(map(event, BEGUN)))
        for end in ends:
            await exchange.piece(end)
        await silence(exchange)

    return script


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


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_upstream_that_never_answers(gateway: Gateway, provider: Provider, streamed: bool) -> None:
    gateway.channel(provider.base_url, timeouts=Timeouts(head=0.2))
    provider.on("m", silence)
    answer = await gateway.client.chat(stream=streamed)
    assert (answer.status, answer.error["code"]) == (504, "upstream_timeout")
    assert len(provider.exchanges) == 1
    record = gateway.record
    assert (record.cost, record.possible > 0) == (0, True)
    assert [(a.kind, a.billed) for a in record.attempts] == [(FailureKind.SLOW, True)]


async def test_a_reset_after_forty_words(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, name="other")
    provider.on("m", cut(*BEGUN))
    booked_as_cut(gateway, await gateway.client.chat(stream=True), Outcome.UPSTREAM_CUT, "upstream_stream_truncated")
    assert len(provider.exchanges) == 1


@pytest.mark.parametrize("done", [False, True])
async def test_an_end_without_a_reason_to_end(gateway: Gateway, provider: Provider, done: bool) -> None:
    provider.on("m", stream(*BEGUN, done=done))
    booked_as_cut(gateway, await gateway.client.chat(stream=True), Outcome.UPSTREAM_CUT, "upstream_stream_truncated")


@pytest.mark.parametrize("reported", [False, True])
async def test_a_missing_done_is_added(gateway: Gateway, provider: Provider, reported: bool) -> None:
    spent = [chunk(usage=usage(9, 60))] if reported else []
    provider.on("m", stream(*story(*WORDS), *spent, done=False))
    answer = await gateway.client.chat(stream=True)
    assert (answer.status, stream_faults(answer.body)) == (200, [])
    assert answer.body.endswith(DONE)
    record = gateway.record
    assert (record.outcome, record.source) == (
        Outcome.DONE,
        UsageSource.REPORTED if reported else UsageSource.ESTIMATED,
    )
    assert "no_done" in record.marks


async def test_a_stall_is_cut_at_the_idle_deadline(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, timeouts=Timeouts(idle=0.2))
    provider.on("m", said_then())
    booked_as_cut(gateway, await gateway.client.chat(stream=True), Outcome.TIMEOUT, "upstream_timeout")


async def test_comments_do_not_keep_it_alive_for_ever(gateway: Gateway, provider: Provider) -> None:
    async def chatter(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.piece(b"".join(map(event, BEGUN)))
        while not exchange.gone.is_set():
            await exchange.piece(b": still thinking\n\n")
            await asyncio.sleep(0.02)

    gateway.channel(provider.base_url, timeouts=Timeouts(idle=0.1, comments=0.4))
    provider.on("m", chatter)
    began = time.monotonic()
    booked_as_cut(gateway, await gateway.client.chat(stream=True), Outcome.TIMEOUT, "upstream_timeout")
    assert time.monotonic() - began > 0.3  # comments put the idle deadline off


@pytest.mark.slow
async def test_an_event_of_the_largest_size_passes(gateway: Gateway, provider: Provider) -> None:
    frame = len(event(chunk(delta(""))))
    first, _, last = story("")
    large = chunk(delta("x" * (EVENT_LIMIT - frame - 64)))
    provider.on("m", stream(first, large, last, chunk(usage=usage())))
    answer = await gateway.client.chat(stream=True)
    assert (answer.status, gateway.record.outcome) == (200, Outcome.DONE)
    assert len(answer.body) > EVENT_LIMIT - 1000


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


GOOD = [*story("Grüße ", "🌍!"), chunk(usage=usage())]
ODD = {
    "as it should be": b"".join(map(event, GOOD)) + DONE,
    "carriage returns": (b"".join(map(event, GOOD)) + DONE).replace(b"\n", b"\r\n"),
    "carriage returns alone": (b"".join(map(event, GOOD)) + DONE).replace(b"\n", b"\r"),
    "a byte order mark": b"\xef\xbb\xbf" + b"".join(map(event, GOOD)) + DONE,
    "comments": b": hello\n\n" + b": more\n\n".join(map(event, GOOD)) + b":\n\n" + DONE,
    "no blank after the colon": (b"".join(map(event, GOOD)) + DONE).replace(b"data: ", b"data:"),
    "other fields": b"".join(b"id: 7\nretry: 5\n" + event(doc) for doc in GOOD) + DONE,
}


@pytest.mark.parametrize("size", [0, 1, 7])
@pytest.mark.parametrize("name", ODD)
async def test_odd_streams_are_understood_at_any_split(
    gateway: Gateway, provider: Provider, name: str, size: int
) -> None:
    provider.on("m", stream_bytes(ODD[name], size=size))
    answer = await gateway.client.chat(stream=True)
    assert (answer.status, answer.text, stream_faults(answer.body)) == (200, "Grüße 🌍!", [])
    assert (gateway.record.source, gateway.record.outcome) == (UsageSource.REPORTED, Outcome.DONE)


GARBAGE = {
    "binary": b"\x00\xff\xfe" * 100 + b"\n\n",
    "no data": b"event: x\nid: 1\n\n" * 3,
    "bad utf-8": b'data: {"x":"\xff\xfe"}\n\n',
    "half an object": b'data: {"id": \n\n',
    "a page": b"<html><title>Sorry</title></html>",
}


@pytest.mark.parametrize("name", GARBAGE)
async def test_garbage_before_anything_good_is_a_failed_attempt(
    gateway: Gateway, provider: Provider, name: str
) -> None:
    provider.on("m", stream_bytes(GARBAGE[name]))
    answer = await gateway.client.chat(stream=True)
    assert (answer.status, error_faults(answer.json)) == (502, [])
    assert answer.error["code"] in ("upstream_bad_response", "upstream_stream_truncated")
    assert (gateway.record.cost, gateway.record.source) == (0, UsageSource.NONE)


async def test_one_malformed_event_is_dropped_and_noted(gateway: Gateway, provider: Provider) -> None:
    body = b"".join(map(event, GOOD[:2])) + b'data: {"id": \n\n' + b"".join(map(event, GOOD[2:])) + DONE
    provider.on("m", stream_bytes(body))
    answer = await gateway.client.chat(stream=True)
    assert (answer.text, stream_faults(answer.body)) == ("Grüße 🌍!", [])
    assert any(mark.startswith("bad_chunks") for mark in gateway.record.marks)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        ({"message": "slow down", "code": 429}, 429, "upstream_rate_limited"),
        ({"message": "no room", "code": 503}, 503, "upstream_overloaded"),
        ({"message": "insufficient_quota", "code": "insufficient_quota"}, 502, None),
    ],
)
async def test_an_error_with_status_200_is_an_error(
    gateway: Gateway, provider: Provider, streamed: bool, error: dict[str, object], status: int, code: str | None
) -> None:
    provider.on("m", stream({"error": error}) if streamed else reply({"error": error}))
    answer = await gateway.client.chat(stream=streamed)
    assert (answer.status, error_faults(answer.json)) == (status, [])
    assert code is None or answer.error["code"] == code
    assert (gateway.record.cost, gateway.record.source) == (0, UsageSource.NONE)
    gateway.channel(provider.base_url, "m=good", name="other", priority=-1)
    provider.on("good", speak())
    gateway.engine.health.clear(gateway.engine.catalog.channel("up").id)
    assert (await gateway.client.chat(stream=streamed)).text == "Hello"


async def test_an_error_inside_a_stream_is_reported_and_not_charged(gateway: Gateway, provider: Provider) -> None:
    error = {"message": "overloaded " * 200, "type": "overloaded_error", "code": 529}
    provider.on("m", stream(*BEGUN, {"error": error}))
    answer = await gateway.client.chat(stream=True)
    assert stream_faults(answer.body, error=True) == []
    assert "overloaded" in answer.chunks[-1]["error"]["message"]
    assert b"[DONE]" not in answer.body
    record = gateway.record
    assert (record.outcome, record.source) == (Outcome.UPSTREAM_CUT, UsageSource.ESTIMATED)
    assert 40 <= record.output <= 130


async def test_without_a_fallback_it_ends_at_once_and_leaves_peace(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", said_then(event({"error": {"message": "no room", "code": 503}})))
    began = time.monotonic()
    answer = await gateway.client.chat(stream=True)
    assert stream_faults(answer.body, error=True) == []
    assert time.monotonic() - began < 1
    await gateway.settled()
    busy, began = time.process_time(), time.monotonic()
    await asyncio.sleep(0.3)
    assert time.process_time() - busy < 0.5 * (time.monotonic() - began)


async def test_an_endless_stream_is_cut(gateway: Gateway, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incoming, "STREAM_LIMIT", 2 << 20)

    async def endless(exchange: Exchange) -> None:
        await exchange.begin_stream()
        while not exchange.gone.is_set():
            await exchange.piece(event(chunk(delta("more " * 1000))))
            await asyncio.sleep(0)

    provider.on("m", endless)
    answer = await gateway.client.chat(stream=True)
    assert stream_faults(answer.body, error=True) == []
    assert "longer than 2 MiB" in answer.chunks[-1]["error"]["message"]
    assert (gateway.record.outcome, gateway.record.source) == (Outcome.UPSTREAM_CUT, UsageSource.ESTIMATED)
    assert gateway.record.cost > 0


@pytest.mark.parametrize("date", ["Thu, 01 Jan 1970 00:00:00 GMT", "Fri, 31 Dec 2099 23:59:59 GMT", "yesterday", ""])
async def test_the_upstreams_clock_does_not_matter(gateway: Gateway, provider: Provider, date: str) -> None:
    body = {**whole("m", spent=usage()), "created": 5}
    provider.on("m", reply(body, headers={"date": date, "expires": date} if date else {}))
    answer = await gateway.client.chat()
    assert (answer.status, gateway.record.source) == (200, UsageSource.REPORTED)
    assert abs(gateway.record.ts - time.time() * 1000) < 60_000


async def test_a_wait_until_a_date_is_counted_on_the_upstreams_own_clock(gateway: Gateway, provider: Provider) -> None:
    dates = {"date": "Thu, 01 Jan 2099 00:00:00 GMT", "retry-after": "Thu, 01 Jan 2099 00:00:30 GMT"}
    provider.on("m", fail(429, "slow down", headers=dates))
    answer = await gateway.client.chat()
    assert (answer.status, answer.head.get("retry-after")) == (429, "30")
