"""Bodies come whole or in pieces, within limits and deadlines, and connections are kept only when they are clean."""

import asyncio
import gzip
import zlib

import pytest

from gateway.domain.call import FailureKind
from gateway.domain.failure import AttemptFailed
from gateway.upstream.http.reply import HttpReply
from tests.fakes.provider import Exchange, Script
from tests.fakes.replies import chunk, cut, delta, endless, event, in_steps, raw, reply, story, stream, stream_bytes
from tests.upstream.http.makers import Asker, drain, pieces_of, until
from tests.upstream.makers import UnlimitedMemory, attempt_fails, native_stream

K = FailureKind
HI = event(chunk(delta("Hi")))


async def _said(answer: HttpReply) -> list[bytes]:
    return [data async for data in pieces_of(answer)]


async def test_a_body_is_read_whole(ask: Asker) -> None:
    assert await (await ask(reply(b"x" * 300_000))).read(300_000, UnlimitedMemory()) == b"x" * 300_000


class Scarce:
    """Memory of which there is none until the test gives it; then there is enough."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.there = asyncio.Event()
        self.size = 0

    def take(self, size: int) -> bool:
        if self.there.is_set():
            self.size += size
        return self.there.is_set()

    async def wait(self, size: int) -> None:
        self.asked.set()
        await self.there.wait()
        self.size += size


async def test_an_upstream_waits_for_memory_and_its_time_is_not_counted(ask: Asker) -> None:
    """Its total deadline passes before its answer is complete."""
    sent = 0

    async def script(exchange: Exchange) -> None:
        nonlocal sent
        await exchange.begin(headers={"content-length": str(32 << 20)})
        for _ in range(512):
            await exchange.write(b"x" * 65_536)
            sent += 65_536

    memory = Scarce()
    answer = await ask(script, total=2.0)
    reading = asyncio.create_task(answer.read(32 << 20, memory))
    await memory.asked.wait()
    await asyncio.sleep(2.5)
    assert sent < 24 << 20
    assert not reading.done()
    memory.there.set()
    assert len(await reading) == memory.size == 32 << 20


async def test_an_answer_that_came_at_once_is_counted_as_well(ask: Asker) -> None:
    memory = Scarce()
    reading = asyncio.create_task((await ask(reply(b"hello"))).read(100, memory))
    await memory.asked.wait()
    memory.there.set()
    assert (await reading, memory.size) == (b"hello", 5)


async def test_a_stream_whose_reader_was_away_is_not_too_slow(ask: Asker) -> None:
    """The reader comes back in the middle of an event, long after the idle deadline."""
    go_on = asyncio.Event()
    script = in_steps(event(story()[0]) + b"data: {", go_on, event(story()[-1])[7:] + b"data: [DONE]\n\n")
    answer, up = await ask(script, idle=0.3), native_stream()
    chunks = answer.chunks(up)
    up.feed(await anext(chunks))
    await asyncio.sleep(0.6)
    asyncio.get_running_loop().call_later(0.1, go_on.set)
    async for data in chunks:
        up.feed(data)
    assert up.finished


async def test_others_have_their_turn_while_a_small_body_becomes_large(ask: Asker) -> None:
    """Sixty kilobytes that become sixty megabytes held up the loop for a fifth of a second."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    answer = await ask(reply(gzip.compress(bytes(32 << 20)), headers={"content-encoding": "gzip"}))
    others = asyncio.create_task(count())
    assert len(await answer.read(32 << 20, UnlimitedMemory())) == 32 << 20
    others.cancel()
    assert turns > 900


async def test_a_body_that_is_too_long_is_refused_and_not_read(ask: Asker) -> None:
    answer = await ask(endless(b"x" * 65_536))
    with attempt_fails("longer than 299999") as caught:
        await answer.read(299_999, UnlimitedMemory())
    assert caught.value.code == "upstream_bad_response"
    await ask.exchange.left()


@pytest.mark.parametrize(
    ("coding", "packed"), [("gzip", gzip.compress(b"hello", mtime=0)), ("deflate", zlib.compress(b"hello"))]
)
async def test_a_compressed_body_is_unpacked(ask: Asker, coding: str, packed: bytes) -> None:
    answer = await ask(reply(packed, headers={"content-encoding": coding}))
    assert await answer.read(100, UnlimitedMemory()) == b"hello"


HELLOS = gzip.compress(b"hello" * 100, mtime=0)


@pytest.mark.parametrize("packed", [HELLOS[:-5] + b"wrong", HELLOS[:-5]], ids=["damaged", "cut off"])
async def test_a_compressed_body_that_cannot_be_unpacked_is_a_bad_answer(ask: Asker, packed: bytes) -> None:
    answer = await ask(reply(packed, headers={"content-encoding": "gzip"}))
    with attempt_fails("was cut off") as caught:
        await answer.read(1000, UnlimitedMemory())
    assert (caught.value.kind, caught.value.code) == (K.SERVER, "upstream_bad_response")


async def test_an_answer_in_a_coding_that_was_not_requested_is_a_bad_one(ask: Asker) -> None:
    with attempt_fails("'br', which was not requested") as caught:
        await ask(reply(b"x" * 50, headers={"content-encoding": "br"}))
    assert caught.value.code == "upstream_bad_response"
    await ask.exchange.left()


async def test_a_bomb_is_cut(ask: Asker) -> None:
    bomb = gzip.compress(b"\0" * 100_000_000)
    answer = await ask(reply(bomb, headers={"content-encoding": "gzip"}))
    with attempt_fails("longer than"):
        await answer.read(1_000_000, UnlimitedMemory())


async def test_a_body_shorter_than_said_is_a_bad_answer(ask: Asker) -> None:
    with attempt_fails("was cut off") as caught:
        await (await ask(raw(b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nshort"))).read(100, UnlimitedMemory())
    assert (caught.value.kind, caught.value.sent) == (K.SERVER, True)


@pytest.mark.parametrize("encoding", ["", "gzip"])
async def test_a_stream_comes_piece_by_piece_as_it_is_sent(ask: Asker, encoding: str) -> None:
    pack = zlib.compressobj(wbits=31)
    packed = [pack.compress(b"one") + pack.flush(zlib.Z_SYNC_FLUSH), pack.compress(b"two") + pack.flush()]
    go = asyncio.Event()

    async def script(exchange: Exchange) -> None:
        await exchange.begin_stream({"content-encoding": encoding} if encoding else None)
        for part in packed if encoding else [b"one", b"two"]:
            await exchange.piece(part)
            await go.wait()
            go.clear()
        await exchange.finish()

    seen = []
    async for data in pieces_of(await ask(script)):
        seen.append(data)
        go.set()
    assert seen == [b"one", b"two"]


async def test_a_clean_stream_leaves_a_connection_for_the_next(ask: Asker) -> None:
    for _ in range(2):
        await _said(await ask(stream(*story("Hi"))))
    assert ask.exchange.reused


async def test_a_released_connection_is_kept_if_the_rest_comes_soon(ask: Asker) -> None:
    go = asyncio.Event()
    answer = await ask(in_steps(b"data: [DONE]\n\n", go))
    async for _ in pieces_of(answer):
        break
    answer.release()
    go.set()
    await ask.idle()
    await (await ask(reply({}))).read(10, UnlimitedMemory())
    assert ask.exchange.reused


@pytest.mark.parametrize(("end", "least", "most"), [("abort", 0.0, 0.5), ("release", 0.45, 2.5)])
async def test_a_connection_is_closed_at_once_or_if_the_rest_does_not_come(
    ask: Asker, end: str, least: float, most: float
) -> None:
    answer = await ask(in_steps(HI, hangs=True))
    async for _ in pieces_of(answer):
        break
    began = asyncio.get_running_loop().time()
    getattr(answer, end)()
    assert least < await ask.exchange.left() - began < most
    answer.abort()


@pytest.mark.parametrize("fault", ["reset", "close", "chunk"])
async def test_a_break_before_the_first_event_is_a_failure(ask: Asker, fault: str) -> None:
    answer = await ask(_broken(fault, b": wait\n\n"))
    up = native_stream()
    with attempt_fails() as caught:
        await drain(answer, up)
    assert caught.value.sent


@pytest.mark.parametrize("fault", ["reset", "close", "chunk"])
async def test_a_break_after_it_ends_the_events(ask: Asker, fault: str) -> None:
    answer = await ask(_broken(fault, HI))
    up = native_stream()
    await drain(answer, up)
    up.end()
    assert (up.failure and up.failure.code) == "upstream_stream_truncated"


async def test_a_body_that_trickles_is_cut_at_the_total_deadline(ask: Asker) -> None:
    answer = await ask(_dribble, total=0.2)
    with attempt_fails(r"total deadline of 0\.2 s") as caught:
        await answer.read(1000, UnlimitedMemory())
    assert (caught.value.kind, caught.value.code) == (K.SLOW, "upstream_timeout")
    assert caught.value.details["timeout"] == "total"
    await ask.exchange.left()


async def _late(ask: Asker, script: Script, setting: str, **deadlines: float) -> str:
    """Returns the message of an answer that misses the deadline of this setting."""
    answer, up = await ask(script, **deadlines), native_stream()
    with attempt_fails() as caught:
        await drain(answer, up)
    assert (caught.value.kind, caught.value.code) == (K.SLOW, "upstream_timeout")
    assert caught.value.details["timeout"] == setting
    await ask.exchange.left()
    return caught.value.message


async def test_a_head_without_events_is_too_slow(ask: Asker) -> None:
    assert "first event deadline of 0.2 s" in await _late(ask, in_steps(hangs=True), "head", head=0.2)


async def test_silence_after_an_event_is_too_slow(ask: Asker) -> None:
    assert "idle deadline of 0.2 s" in await _late(ask, in_steps(HI, hangs=True), "idle", idle=0.2)


async def test_a_trickle_within_an_event_is_silence(ask: Asker) -> None:
    assert "idle deadline of 0.2 s" in await _late(
        ask, endless(b"x", first=HI + b"data: ", pause=0.02), "idle", idle=0.2
    )


async def test_comments_hold_the_idle_deadline_off_but_not_for_ever(ask: Asker) -> None:
    assert "comments only deadline of 0.5 s" in await _late(
        ask, endless(b": still here\n\n", pause=0.02), "comments", idle=0.2, head=0.2, comments=0.5
    )


async def test_events_in_time_are_not_silence(ask: Asker) -> None:
    paced = [step for doc in story(*"abcdefgh") for step in (doc, 0.15)]
    answer, up = await ask(in_steps(*paced, b"data: [DONE]\n\n"), idle=1.0, head=1.0), native_stream()
    await drain(answer, up)
    up.end()
    assert up.finished


async def test_time_the_reader_takes_is_not_the_upstreams(ask: Asker) -> None:
    answer, up = await ask(stream(*story("Hi"), done=True), idle=0.1, head=0.1), native_stream()
    async for data in answer.chunks(up):
        up.feed(data)
        await asyncio.sleep(0.3)
    assert up.finished


async def test_a_stream_has_an_end_even_if_nobody_says_so(ask: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.upstream.http.reply.STREAM_LIMIT", 100_000)
    with attempt_fails("longer than"):
        await _said(await ask(stream_bytes(b": x\n\n" * 100_000)))
    await ask.exchange.left()


async def test_nothing_is_counted_after_the_end(ask: Asker) -> None:
    for script in (reply({}), stream(*story("Hi")), cut(), in_steps(HI, hangs=True)):
        answer = await ask(script)
        try:
            async for _ in pieces_of(answer):
                break
        except AttemptFailed:
            pass
        answer.abort()
        answer.release()
    await until(lambda: not ask.pool.busy)


async def _dribble(exchange: Exchange) -> None:
    await exchange.begin(headers={"content-length": "1000"})
    while not exchange.gone.is_set():
        await exchange.write(b"x")
        await asyncio.sleep(0.02)


def _broken(fault: str, data: bytes) -> Script:
    async def script(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.piece(data)
        await asyncio.sleep(0.05)  # a reset discards what the peer has not read yet
        if fault == "reset":
            exchange.socket.reset()
        elif fault == "close":
            exchange.socket.close()
        else:
            await exchange.write(b"no chunk at all\r\n")

    return script
