"""Large requests: others have their turn while they are worked on, and nothing else is different about them."""

import asyncio
import json
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from gateway.domain.call import Outcome
from gateway.domain.channel import Dialect, Overrides
from gateway.domain.errors import BadRequest, NotFound, Unavailable, UpstreamError
from gateway.inbound.api import LARGE, HttpRequest, InboundApi, InboundRequest, is_large, parse_large
from gateway.upstream.http.connection import request_head
from gateway.upstream.http.dial import target_of
from tests.core.ends import FakeReply, error_body, event, says, whole
from tests.core.rig import Rig, until
from tests.fakes.replies import usage

MIB = 1 << 20
SHAPES = {
    "surrogates": b'"' + b"\\ud800" * MIB + b'"',
    "backslashes": b'"' + b"\\\\" * (3 * MIB) + b'"',
    "quotation marks": b'"' + b'\\"' * (3 * MIB) + b'"',
    "Chinese": b'"' + "你".encode() * (5 * MIB) + b'"',
    "an image": b'[{"type":"image_url","image_url":{"url":"data:image/png;base64,' + b"QUJD" * (4 * MIB) + b'"}}]',
}
CHAT = b",".join([b'{"role":"user","content":"' + b"x" * 100 + b'"}'] * 40_000)


def body(content: bytes, more: bytes = b"") -> bytes:
    return b'{"model":"m","messages":[{"role":"user","content":' + content + b"}" + more + b"]}"


BODIES = {**{name: body(content) for name, content in SHAPES.items()}, "a long chat": body(b'"hi"', b"," + CHAT)}


class Turns:
    """Counts the turns of the loop, while it is switched on."""

    def __init__(self) -> None:
        self.count = 0
        self._loop = asyncio.get_running_loop()
        self._on = True
        self._turn()

    def _turn(self) -> None:
        self.count += 1
        if self._on:
            self._loop.call_later(0.001, self._turn)

    def stop(self) -> int:
        self._on = False
        return self.count


@pytest.fixture
def up(rig: Rig) -> Rig:
    rig.grant(10**15)
    rig.channel()
    rig.upstreams.on("up", lambda: FakeReply(whole()))
    return rig


@pytest.mark.sampled(7)  # every shape and every dialect
@pytest.mark.parametrize("dialect", [Dialect.OPENAI, Dialect.ANTHROPIC, Dialect.GEMINI])
@pytest.mark.parametrize("shape", BODIES)
async def test_the_loop_turns_while_it_is_read_and_prepared(up: Rig, shape: str, dialect: Dialect) -> None:
    """Each of these took the loop 20 to 500 ms when it was the loop that did it: it turned but a few times."""
    up.channel(dialect=dialect, overrides=Overrides(system="Be brief."))
    up.upstreams.on("up", lambda: FakeReply(error_body(), status=400))
    turns = Turns()
    with pytest.raises(Exception, match="it broke"):
        await up.run(BODIES[shape])
    assert turns.stop() >= 4


@pytest.mark.parametrize("overrides", [None, Overrides(set={"temperature": 0.5})])
@pytest.mark.parametrize("shape", BODIES)
async def test_a_large_body_is_sent_whole_with_its_length(up: Rig, shape: str, overrides: Overrides | None) -> None:
    up.channel(overrides=overrides)
    await up.run(BODIES[shape])
    prepared = up.upstreams.asked[0][1]
    body = BODIES[shape] if overrides is None else BODIES[shape].replace(b"\\ud800", b"\\ufffd")  # when it is edited
    sent, wanted = json.loads(prepared.body), json.loads(body)
    assert sent == (wanted if overrides is None else {**wanted, "temperature": 0.5})
    head = request_head("POST", target_of(prepared.url), b"", prepared.body)
    assert f"Content-Length: {len(prepared.body)}\r\n".encode() in head
    assert (up.record.status, up.record.input) == (200, 9)


async def test_an_unedited_body_is_not_copied(up: Rig) -> None:
    data = BODIES["an image"]
    await up.run(data)
    assert up.upstreams.asked[0][1].body is data


async def test_errors_are_those_of_a_small_one(up: Rig) -> None:
    for data, error in {
        b"[" + body(SHAPES["an image"]) + b"]": BadRequest,
        body(SHAPES["an image"])[:-1]: BadRequest,
        body(SHAPES["an image"]).replace(b'"m"', b'"other"'): NotFound,
        body(b'"' + b"x" * LARGE + b'\xff"'): BadRequest,
    }.items():
        with pytest.raises(error):
            await up.run(data)
    assert up.upstreams.asked == []


@pytest.mark.parametrize(
    ("text", "times", "large"),
    [
        (b'{"role":"tool"},', 20_000, True),
        (b'"AAAA",', 50_000, True),
        (b"[1], ", 60_000, True),
        (b'{"role":"tool"},', 10_000, False),
        (b"{}, ", 20_001, True),
        (b"464, 1917, 13, ", 20_000, True),  # a text as tokens, as LangChain embeds it
        (b'"50256":-100,', 30_000, True),
        (b"        total += 17.5\\n", 20_000, False),
        (b"{}, ", 20_000, False),
        (b'{"role":"user","content":"%b"},' % (b"x" * 700), 1000, False),
        (b'if a:\\n    return {\\"b\\": [1, 2], \\"c\\": 3}\\n', 10_000, False),
        (b"x", 1 << 20, False),
        (b"x", 1 + (1 << 20), True),
    ],
)
def test_a_body_of_many_short_values_is_read_beside_the_loop_too(text: bytes, times: int, *, large: bool) -> None:
    assert is_large(text * times) is large


class Held:
    """The worker is busy until it is let go on."""

    def __init__(self, rig: Rig) -> None:
        self.go_on = threading.Event()
        self.busy = asyncio.ensure_future(rig.worker.run(lambda: self.go_on.wait(30)))

    async def end(self) -> None:
        self.go_on.set()
        await self.busy


async def test_a_client_that_leaves_while_its_body_is_read_is_not_waited_for(up: Rig) -> None:
    held = Held(up)
    task = asyncio.ensure_future(up.run(BODIES["an image"]))
    await until(lambda: up.client.on_gone)
    up.client.leave()
    with pytest.raises(ConnectionError):
        await task
    await held.end()
    assert (up.record.status, up.record.code, up.record.cost) == (499, "client_closed", 0)
    assert not up.books.running
    assert up.upstreams.asked == []


async def test_a_call_that_is_cancelled_while_the_end_of_its_answer_is_read_pays_for_all_of_it(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest = event(choices=[{"index": 0, "delta": {"content": "x" * 100_000}}], usage=usage(9, 30_000)).rstrip()
    rig.channel(answer=lambda: FakeReply(says("Hello"), rest))
    begun, go_on, run = threading.Event(), threading.Event(), rig.worker.run

    async def run_late(work: Callable[[], Any], *, large: bool) -> Any:
        def wait() -> Any:
            begun.set()
            go_on.wait(30)
            return work()

        return await run(wait, large=large)

    monkeypatch.setattr(rig.worker, "run", run_late)
    task = await rig.start_until(lambda: rig.client.body, stream=True)
    await asyncio.to_thread(begun.wait, 30)
    (call,) = rig.live.calls.values()
    call.end(Outcome.CANCELLED)
    await asyncio.sleep(0)
    go_on.set()
    await asyncio.wait([task])
    assert (rig.record.outcome, rig.record.input, rig.record.output) == (Outcome.CANCELLED, 9, 30_000)


async def test_a_gateway_that_stops_meanwhile_takes_it_no_more(up: Rig) -> None:
    held = Held(up)
    task = asyncio.ensure_future(up.run(BODIES["an image"]))
    await until(lambda: up.client.on_gone)
    up.pipeline.closed = Unavailable("stopping", code="gateway_stopping")
    await held.end()
    with pytest.raises(Unavailable, match="stopping"):
        await task
    assert up.upstreams.asked == []


@pytest.mark.parametrize("size", [LARGE, LARGE + 1])
async def test_an_ordinary_body_is_read_at_once(up: Rig, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def seen(api: InboundApi, request: HttpRequest) -> InboundRequest:
        read.append(len(request.body))
        return parse_large(api, request)

    monkeypatch.setattr("gateway.core.pipeline.parse_large", seen)
    data = body(b'"' + b"x" * (size - len(body(b'""'))) + b'"')
    await up.run(data)
    assert read == ([] if size == LARGE else [size])


async def test_usage_that_is_not_reported_is_estimated_without_reading_it_again(up: Rig) -> None:
    up.channel(answer=lambda: FakeReply(whole(usage=None)))
    await up.run(body(b'"' + b"word " * 100_000 + b'"'))
    assert up.record.source == "estimated"
    assert 90_000 < up.record.input < 110_000


SECRET = "the plan is to meet at noon behind the old mill by the river"


def hiding(size: int) -> bytes:
    """A request with the secret in the middle of a long string."""
    side = b"word " * (size // 10)
    return body(b'"' + side + SECRET.encode() + side + b'"')


@pytest.mark.parametrize("size", [LARGE, 3 * MIB])
async def test_no_quote_of_it_is_kept(up: Rig, size: int) -> None:
    """An upstream may repeat what was taken out of the middle of it, too."""
    up.channel(answer=lambda: FakeReply(error_body(f"bad: {SECRET}"), status=400))
    with pytest.raises(UpstreamError) as refused:
        await up.run(hiding(size))
    assert SECRET in refused.value.message
    assert "mill" not in up.record.error
    assert "mill" not in up.record.attempts[0].reason
    assert up.record.attempts[0].status == 400


@pytest.mark.parametrize("size", [LARGE, 3 * MIB])
async def test_no_identifier_from_it_is_passed_on(up: Rig, size: int) -> None:
    plan = "plan-4711-at-noon-behind-the-mill"
    error = {"message": "it broke", "type": "invalid_request_error", "param": None, "code": plan}
    up.upstreams.on("up", lambda: FakeReply(json.dumps({"error": error}).encode(), status=400))
    with pytest.raises(UpstreamError) as refused:
        await up.run(hiding(size).replace(b"mill", plan.encode()))
    assert refused.value.code == "upstream_rejected"
    with pytest.raises(UpstreamError) as passed:
        await up.run(hiding(size))
    assert passed.value.code == plan


EVENT = b'data: {"choices": [{"index": 0, "delta": {"content": "a piece"}, "finish_reason": null}]}\n\n'
END = (
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":9,"completion_tokens":7}}\n\n'
)


async def test_the_loop_turns_while_a_long_stream_becomes_a_whole_answer(up: Rig) -> None:
    up.channel(answer=lambda: FakeReply(EVENT * 150_000 + END))
    longest, running = 0.0, True

    def turn(before: float) -> None:
        nonlocal longest
        longest = max(longest, time.thread_time() - before)
        if running:
            asyncio.get_running_loop().call_later(0.001, turn, time.thread_time())

    turn(time.thread_time())
    answered = await up.call()
    await asyncio.sleep(0.01)
    running = False
    assert len(json.loads(answered.body)["choices"][0]["message"]["content"]) == 1_050_000
    assert longest < 0.08  # it took 0.2 s


async def test_an_answer_that_came_is_charged_when_its_call_ends_while_it_is_written(up: Rig) -> None:
    reply = FakeReply(EVENT * 1000 + END)
    up.channel(answer=lambda: reply)
    task = up.start()
    await until(lambda: reply.end)
    held = Held(up)  # it waits until the answer is read, and then the answer until it goes on
    (running,) = up.live.calls.values()
    for _ in range(1000):
        if running.result.attempts:
            break
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await held.end()
    assert (up.record.status, up.record.input, up.record.output) == (499, 9, 7)
    assert up.record.cost == 9 * 2_500 + 7 * 10_000


async def test_an_attempt_is_noted_whose_client_leaves_while_its_error_is_read(up: Rig) -> None:
    held: list[Held] = []
    asked = asyncio.Event()
    reply = FakeReply(error_body(), status=400)

    def answer() -> FakeReply:
        held.append(Held(up))
        asked.set()
        return reply

    up.upstreams.on("up", answer)
    task = asyncio.ensure_future(up.run(hiding(LARGE)))
    await asyncio.wait_for(asked.wait(), 10)
    await until(lambda: reply.end)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await held[0].end()
    assert [attempt.reason for attempt in up.record.attempts] == ["abandoned"]
