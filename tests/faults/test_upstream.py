"""Upstreams that lie, cut, bomb and redirect.

Long: the rows of one table of faults, side by side.
"""

import asyncio
import gzip
import zlib
from collections.abc import Callable

import psutil
import pytest

from gateway.domain.call import FailureKind, Outcome
from gateway.domain.channel import Timeouts
from gateway.domain.usage import UsageSource
from tests.conformance.shapes import completion_faults, error_faults, stream_faults
from tests.fakes.gateway import Gateway
from tests.fakes.provider import EVENTS, JSON, Exchange, Provider, Script
from tests.fakes.replies import (
    DONE,
    choice,
    chunk,
    cut,
    delta,
    dumps,
    event,
    fail,
    reply,
    slam,
    speak,
    story,
    stream,
    stream_bytes,
    tool_call,
    usage,
    whole,
)

GOOD = dumps(whole("m", spent=usage()))
SPOKEN = b"".join(map(event, [*story("Hel", "lo"), chunk(usage=usage())])) + DONE


def raw(data: bytes, *, close: bool = True) -> Script:
    """These very bytes as the answer, head and all; then the connection is closed, or kept open in silence."""

    async def script(exchange: Exchange) -> None:
        await exchange.write(data)
        if close:
            exchange.socket.close()
        await exchange.left()

    return script


@pytest.mark.parametrize(
    ("told", "wait"),
    [
        ("2", 2),
        ("59", 59),
        ("0", None),
        ("-1", None),
        ("nan", None),
        ("inf", None),
        ("1e9", None),
        ("soon", None),
        ("", None),
    ],
)
async def test_retry_after_is_believed_within_reason(
    gateway: Gateway, provider: Provider, told: str, wait: int | None
) -> None:
    provider.on("m", fail(429, "slow down", headers={"retry-after": told} if told else {}))
    answer = await gateway.client.chat()
    assert (answer.status, answer.error["code"]) == (429, "upstream_rate_limited")
    if wait is not None:
        assert answer.head.get("retry-after") == str(wait)
    assert not answer.head.get("retry-after") or 1 <= int(answer.head.get("retry-after")) <= 60
    assert gateway.record.attempts[-1].kind is FailureKind.RATE


async def test_a_failure_that_passes_is_not_seen(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, "m=second", name="other", priority=-1)
    provider.on("m", fail(500), speak())
    provider.on("second", speak(prompt=9, completion=12))
    answer = await gateway.client.chat()
    assert answer.text == "Hello"
    assert len(gateway.record.attempts) == 2
    assert gateway.record.cost == 9 * 2_500 + 12 * 10_000


async def test_when_all_fail_there_is_an_end(gateway: Gateway, provider: Provider) -> None:
    for n in range(6):
        gateway.channel(provider.base_url, name=f"c{n}")
    provider.on("m", fail(503))
    answer = await gateway.client.chat()
    assert answer.status in {502, 503}
    assert error_faults(answer.json) == []
    assert len(provider.exchanges) == 3
    assert [a["status"] for a in answer.error["gateway"]["attempts"]] == [503] * 3


@pytest.mark.parametrize("stream", [False, True])
async def test_a_reset_before_any_byte_is_tried_once_more_elsewhere(
    gateway: Gateway, provider: Provider, stream: bool
) -> None:
    for n in range(3):
        gateway.channel(provider.base_url, name=f"c{n}")
    provider.on("m", slam)
    answer = await gateway.client.chat(stream=stream)
    assert (answer.status, answer.error["code"]) == (502, "upstream_unreachable")
    assert len(provider.exchanges) == 2
    record = gateway.record
    assert (record.cost, [a.billed for a in record.attempts]) == (0, [True, True])
    assert record.possible == record.held > 0


async def test_once_bytes_were_given_nothing_is_tried_again(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, name="other")
    provider.on("m", cut(*story("Hel", "lo")[:2]), speak())
    answer = await gateway.client.chat(stream=True)
    assert stream_faults(answer.body, error=True) == []
    assert len(provider.exchanges) == 1


async def test_an_event_that_dribbles_is_silence(gateway: Gateway, provider: Provider) -> None:
    async def dribble(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.piece(event(story("Hel")[0]) + event(story("Hel")[1]))
        while not exchange.gone.is_set():
            await exchange.piece(b"x")
            await asyncio.sleep(0.02)

    gateway.channel(provider.base_url, timeouts=Timeouts(idle=0.3))
    provider.on("m", dribble)
    answer = await gateway.client.chat(stream=True)
    assert answer.chunks[-1]["error"]["code"] == "upstream_timeout"
    assert gateway.record.outcome is Outcome.TIMEOUT


@pytest.mark.parametrize(
    ("status", "text", "code"),
    [
        (401, "canary", "upstream_auth_failed"),
        (403, "canary", "upstream_auth_failed"),
        (402, "canary", "upstream_out_of_credit"),
        (400, "You have reached your specified API usage limits. usage limit canary", "upstream_out_of_credit"),
        (429, "insufficient_quota canary", "upstream_out_of_credit"),
    ],
)
async def test_the_owners_troubles_go_to_the_next_channel_and_stay_private(
    gateway: Gateway, provider: Provider, status: int, text: str, code: str
) -> None:
    provider.on("m", fail(status, text, code=text.split(maxsplit=1)[0]))
    answer = await gateway.client.chat()
    assert (answer.status, answer.error["code"]) == (502, code)
    assert answer.head.get("x-should-retry") == "false"
    assert "canary" not in answer.error["message"]
    assert "up" in answer.error["message"]
    gateway.channel(provider.base_url, "m=fine", name="other", priority=-1)
    provider.on("fine", speak())
    assert (await gateway.client.chat()).text == "Hello"


@pytest.mark.parametrize(
    ("status", "text", "code"),
    [
        (400, "This model's maximum context length is 8 tokens", "context_length_exceeded"),
        (400, "flagged by content management", "content_filter"),
        (422, "field required", "weird"),
    ],
)
async def test_the_clients_own_troubles_are_reported_at_once(
    gateway: Gateway, provider: Provider, status: int, text: str, code: str
) -> None:
    gateway.channel(provider.base_url, name="other")
    provider.on("m", fail(status, text, code=code))
    answer = await gateway.client.chat()
    assert (answer.status, answer.error["code"]) == (status, code)
    assert text in answer.error["message"]
    assert len(provider.exchanges) == 1


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
EVENT_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
LENGTH = b"Content-Length: %d\r\n" % len(GOOD)
CHUNKED = b"Transfer-Encoding: chunked\r\n"
CHUNKS = b"%x\r\n%b\r\n0\r\n\r\n" % (len(GOOD), GOOD)

BROKEN: dict[str, bytes] = {
    "length too long": HEAD + b"Content-Length: 100000\r\n\r\n" + GOOD,
    "length too short": HEAD + b"Content-Length: 20\r\n\r\n" + GOOD,
    "length negative": HEAD + b"Content-Length: -5\r\n\r\n" + GOOD,
    "length absurd": HEAD + b"Content-Length: 9999999999999999999999\r\n\r\n" + GOOD,
    "two lengths": HEAD + LENGTH + b"Content-Length: 5\r\n\r\n" + GOOD,
    "bad chunk": HEAD + CHUNKED + b"\r\nzz\r\n" + GOOD,
    "no last chunk": HEAD + CHUNKED + b"\r\n" + CHUNKS[:-5],
    "garbage": b"\x00\x01\x02\x03\r\n\r\n",
    "http/0.9": GOOD,
    "status 999": b"HTTP/1.1 999 What\r\nContent-Length: 0\r\n\r\n",
    "status none": b"HTTP/1.1 OK\r\nContent-Length: 0\r\n\r\n",
    "no head end": HEAD,
    "204": b"HTTP/1.1 204 No Content\r\n\r\n",
    "304": b"HTTP/1.1 304 Not Modified\r\n\r\n",
    "101": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    "nothing": b"",
    "endless 103": b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 1000,
    "many headers": HEAD + b"".join(b"X-%d: y\r\n" % n for n in range(50_000)) + LENGTH + b"\r\n" + GOOD,
    "long header": HEAD + b"X: " + b"y" * (1 << 20) + b"\r\n" + LENGTH + b"\r\n" + GOOD,
    "long reason": b"HTTP/1.1 200 " + b"K" * (1 << 20) + b"\r\n" + LENGTH + b"\r\n" + GOOD,
}


@pytest.mark.parametrize("stream", [False, True])
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


@pytest.mark.parametrize(
    "answer",
    [
        HEAD + CHUNKED + b"\r\n" + CHUNKS,
        HEAD + LENGTH + CHUNKED + b"\r\n" + CHUNKS,
        HEAD + b"\r\n" + GOOD,
        b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n" + GOOD,
        b"HTTP/1.1 100 Continue\r\n\r\n" * 3 + HEAD + LENGTH + b"\r\n" + GOOD,
        HEAD + LENGTH + b"Connection: close\r\n\r\n" + GOOD,
        b"HTTP/1.1 200\r\nContent-Type: application/json\r\n" + LENGTH + b"\r\n" + GOOD,
        HEAD + CHUNKED + b"Trailer: X-A\r\n\r\n" + CHUNKS[:-2] + b"X-A: b\r\n\r\n",
    ],
    ids=["chunks", "both", "until close", "http/1.0", "continues", "close", "no reason", "trailer"],
)
async def test_odd_http_is_understood_or_refused(gateway: Gateway, provider: Provider, answer: bytes) -> None:
    provider.on("m", raw(answer))
    for _ in range(2):
        got = await gateway.client.chat()
        assert got.status in {200, 502}
        if got.status == 200:
            assert completion_faults(got.json) == []


def _nested(data: bytes, depth: int) -> bytes:
    return data if not depth else _nested(gzip.compress(data), depth - 1)


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True])
async def test_a_bomb_is_cut(gateway: Gateway, provider: Provider, stream: bool) -> None:
    kind = EVENTS if stream else JSON
    provider.on("m", reply(gzip.compress(b" " * (200 << 20), 1), kind=kind, headers={"content-encoding": "gzip"}))
    before = psutil.Process().memory_info().rss
    answer = await gateway.client.chat(stream=stream)
    assert answer.status == 502
    assert psutil.Process().memory_info().rss - before < 160 << 20


WRONGLY_PACKED: dict[str, tuple[str, bytes]] = {
    "truncated": ("gzip", gzip.compress(GOOD)[:-12]),
    "not packed": ("gzip", GOOD),
    "other label": ("deflate", gzip.compress(GOOD)),
    "unknown": ("br", GOOD),
    "nested": ("gzip", _nested(GOOD, 3)),
    "empty": ("gzip", b""),
}


@pytest.mark.parametrize("name", WRONGLY_PACKED)
async def test_wrong_packing_is_a_failed_attempt(gateway: Gateway, provider: Provider, name: str) -> None:
    coding, body = WRONGLY_PACKED[name]
    provider.on("m", reply(body, headers={"content-encoding": coding}))
    answer = await gateway.client.chat()
    assert (answer.status, answer.error["code"]) == (502, "upstream_bad_response")


def _in_two(data: bytes) -> bytes:
    return gzip.compress(data[:50]) + gzip.compress(data[50:])


def _bare(data: bytes) -> bytes:
    """Deflate without its wrapping, as some servers misread the name."""
    return zlib.compress(data)[2:-4]


@pytest.mark.parametrize("pack", [_in_two, _bare])
async def test_odd_packing_is_understood_or_refused(
    gateway: Gateway, provider: Provider, pack: Callable[[bytes], bytes]
) -> None:
    packed = pack(GOOD)
    coding = "gzip" if packed.startswith(b"\x1f\x8b") else "deflate"
    provider.on("m", reply(packed, headers={"content-encoding": coding}))
    answer = await gateway.client.chat()
    assert answer.status in {200, 502}
    assert answer.status == 502 or completion_faults(answer.json) == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("where", ["other", "same", "file:///etc/passwd", "http://u:p@127.0.0.1:9/"])
async def test_redirects_are_not_followed(gateway: Gateway, provider: Provider, status: int, where: str) -> None:
    async with Provider().running() as other:
        other.other = speak()
        target = {"other": other.base_url, "same": provider.base_url}.get(where, where)
        provider.on("m", reply(b"", status=status, headers={"location": target + "/chat/completions"}))
        answer = await gateway.client.chat()
        assert (answer.status, answer.error["code"]) == (502, "upstream_error")
        assert "redirect" in answer.error["message"]
        assert (other.exchanges, len(provider.exchanges)) == ([], 1)


@pytest.mark.parametrize("stream", [False, True])
async def test_only_known_headers_arrive(gateway: Gateway, provider: Provider, stream: bool) -> None:
    strange = {
        "set-cookie": "a=b",
        "location": "http://evil.example",
        "access-control-allow-origin": "*",
        "x-should-retry": "true",
        "server": "evil",
        "www-authenticate": "Basic",
        "content-security-policy": "x",
        "x-request-id": "theirs-1",
        "x-ratelimit-remaining-requests": "7",
        "openai-processing-ms": "12",
    }
    provider.on("m", stream_bytes(SPOKEN, headers=strange) if stream else reply(GOOD, headers=strange))
    answer = await gateway.client.chat(stream=stream)
    assert answer.status == 200
    names = {name for name, _ in answer.head.headers}
    assert not names & {"set-cookie", "location", "access-control-allow-origin", "x-should-retry", "www-authenticate"}
    assert "evil" not in str(answer.head)
    assert answer.head.get("x-request-id") == gateway.record.id
    assert answer.head.get("x-upstream-request-id") == "theirs-1"
    assert answer.head.get("x-ratelimit-remaining-requests") == "7"


@pytest.mark.parametrize(
    ("told", "known"),
    [
        ({"prompt_tokens": 10**18, "completion_tokens": 5, "total_tokens": 10**18 + 5}, False),
        ({"prompt_tokens": 9, "completion_tokens": 1e300, "total_tokens": 1e300}, False),
        ({"prompt_tokens": 9, "completion_tokens": 12, "total_tokens": 5}, True),
        ({"prompt_tokens": 9, "completion_tokens": 12, "total_tokens": None}, True),
        ({"total_tokens": 21}, False),
        ({"prompt_tokens": 9, "completion_tokens": 12, "prompt_tokens_details": {"cached_tokens": 10**15}}, True),
    ],
)
async def test_absurd_usage_never_becomes_an_absurd_bill(
    gateway: Gateway, provider: Provider, told: dict[str, object], known: bool
) -> None:
    provider.on("m", reply({**whole("m"), "usage": told}))
    assert (await gateway.client.chat()).status == 200
    record = gateway.record
    assert 0 <= record.cost < 10**9
    assert (record.source is UsageSource.REPORTED) >= known
    if known:
        assert record.output == 12


async def test_a_connection_that_was_closed_while_idle_is_not_noticed(gateway: Gateway, provider: Provider) -> None:
    async def once(exchange: Exchange) -> None:
        await exchange.answer(GOOD)
        exchange.socket.close()

    provider.on("m", once)
    for _ in range(5):
        answer = await gateway.client.chat()
        assert (answer.status, answer.head.get("x-gateway-attempts")) == (200, "1")
        await asyncio.sleep(0.01)
    assert gateway.engine.health.state(gateway.engine.catalog.channel("up")).name == "ok"


@pytest.mark.parametrize("id", ["", "same", "x" * 1_000_000, "\x1b[31m", None, 7])
async def test_the_upstreams_ids_do_not_matter(gateway: Gateway, provider: Provider, id: object) -> None:
    provider.on("m", reply({**whole("m", spent=usage()), "id": id}))
    answers = [await gateway.client.chat() for _ in range(2)]
    assert [completion_faults(answer.json) for answer in answers] == [[], []]
    assert len({record.id for record in gateway.records}) == 2
    assert all(len(record.upstream_id) <= 80 and record.upstream_id.isprintable() for record in gateway.records)


async def test_plain_and_streamed_cost_the_same(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", speak("one", "two", prompt=123, completion=45))
    for wanted in (False, True):
        await gateway.client.chat(stream=wanted)
    plain, streamed = (record.cost for record in gateway.records)
    assert plain == streamed > 0


async def test_an_answer_before_the_request_was_read_is_an_answer(gateway: Gateway, provider: Provider) -> None:
    provider.hasty = reply(dumps({"error": {"message": "too big", "type": "x"}}), status=413)
    answer = await gateway.client.chat(padding="x" * (8 << 20))
    assert answer.status == 413
    assert "too big" in answer.error["message"]
    provider.hasty = None
    provider.on("m", speak())
    assert (await gateway.client.chat()).text == "Hello"


async def test_many_small_pieces_and_one_large_are_the_same(gateway: Gateway, provider: Provider) -> None:
    calls = [{"index": 0, "function": {"arguments": f"{n},"}} for n in range(200)]
    docs = [
        story()[0],
        *(chunk(delta(f"w{n} ")) for n in range(2000)),
        chunk(delta(tool_calls=[tool_call(0, "call_a", "f", "")])),
        *(chunk(delta(tool_calls=[call])) for call in calls),
        chunk(delta(finish="tool_calls")),
        chunk(usage=usage()),
    ]
    body = b"".join(map(event, docs)) + DONE
    wanted = b"".join(map(event, docs[:-1])) + DONE
    for size in (0, 37, 4096):
        provider.on("m", stream_bytes(body, size=size))
        answer = await gateway.client.chat(stream=True)
        assert answer.chunks == [*docs[:-1]]
        assert stream_faults(answer.body, usage="no") == []
        assert len(answer.body) == len(wanted)


async def test_choices_in_a_refused_form_are_a_bad_response(gateway: Gateway, provider: Provider) -> None:
    for odd in ([], [1], {"0": choice()}, None, "x"):
        provider.on("m", reply({**whole("m"), "choices": odd}))
        gateway.engine.health.clear(gateway.engine.catalog.channel("up").id)
        assert (await gateway.client.chat()).error["code"] == "upstream_bad_response"
        provider.on("m", stream({**chunk(), "choices": odd}))
        gateway.engine.health.clear(gateway.engine.catalog.channel("up").id)
        assert (await gateway.client.chat(stream=True)).status == 502
