"""A connection serves again only when it is surely clean, and no answer ever reaches the wrong call.

Long: the rules for reusing a connection, each with the answer that breaks it.
"""

import asyncio
import gc
import random
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import cast

import pytest

from gateway.domain.failure import AttemptFailed
from gateway.upstream.http.connection import PIECE_SIZE, READ_SIZE, UpstreamConnection
from gateway.upstream.http.parser import HIGH_WATER, ConnectionBroken, WireAnswer
from gateway.upstream.http.pool import Pool
from tests.fakes.wire import Socket, chunked
from tests.upstream.http.makers import EMPTY, OK, Talk, hang, head_of, listening, pooled, question, saying, until
from tests.upstream.makers import UnlimitedMemory

REQUEST = b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n", b"{}"


class Wired:
    """A wire to a peer, and what it told."""

    def __init__(self) -> None:
        self.idle = self.gone = 0
        self.wire = UpstreamConnection(self._rest, self._lost)

    def _rest(self, wire: UpstreamConnection) -> None:
        self.idle += 1

    def _lost(self, wire: UpstreamConnection) -> None:
        self.gone += 1

    async def ask(self) -> WireAnswer:
        answer = self.wire.send(*REQUEST)
        await head_of(answer)
        return answer


@asynccontextmanager
async def _wired(talk: Talk) -> AsyncIterator[Wired]:
    async with listening(talk) as port:
        wired = Wired()
        await asyncio.get_running_loop().create_connection(lambda: wired.wire, "127.0.0.1", port)
        yield wired
        wired.wire.abort()
        await until(lambda: wired.gone)


async def _whole(answer: WireAnswer) -> bytes:
    out = b""
    while data := await answer.receive():
        out += data
    return out


async def test_requests_that_go_together_go_in_the_next_turn() -> None:
    async with _wired(saying(OK + b"Content-Length: 1\r\n\r\na")) as wired:
        answer = wired.wire.send(*REQUEST, soon=True)
        await head_of(answer)
        assert await _whole(answer) == b"a"
        assert wired.idle == 1


class Written:
    """A transport that keeps what is given to it, call by call."""

    def __init__(self) -> None:
        self.calls: list[bytes] = []

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes) -> None:
        self.calls.append(bytes(data))


async def test_head_and_body_go_out_as_one_buffer_unless_the_body_is_long() -> None:
    wire, transport = UpstreamConnection(lambda _: None, lambda _: None), Written()
    wire.connection_made(cast("asyncio.Transport", transport))
    head, long = REQUEST[0], b"x" * (262_144 + 1)
    wire.send(*REQUEST)
    wire.send(head, long[:262_144])
    wire.send(head, long)
    assert transport.calls == [b"".join(REQUEST), head + long[:262_144], head, long[:262_144]]


async def test_a_request_that_was_to_go_together_is_not_sent_after_all() -> None:
    heard: list[bytes] = []

    async def listen(peer: Socket) -> None:
        await peer.gone.wait()
        heard.append(bytes(peer.buffer))

    async with _wired(listen) as wired:
        answer = wired.wire.send(*REQUEST, soon=True)
        answer.abort()
        await until(lambda: heard)
    assert heard == [b""]


async def test_a_whole_answer_frees_the_connection_for_the_next() -> None:
    async with _wired(saying(OK + b"Content-Length: 1\r\n\r\na", OK + b"Content-Length: 1\r\n\r\nb")) as wired:
        assert [await _whole(await wired.ask()) for _ in range(2)] == [b"a", b"b"]
        assert (wired.idle, wired.wire.may_be_stale, wired.gone) == (2, True, 0)


async def test_a_closed_connection_takes_no_question() -> None:
    async with _wired(saying()) as wired:
        wired.wire.abort()
        with pytest.raises(ConnectionBroken) as caught:
            wired.wire.send(*REQUEST)
        assert not caught.value.sent


UNCLEAN = {
    "bytes behind it": EMPTY + b"x",
    "an answer behind it": EMPTY + EMPTY,
    "asks to close": OK + b"Connection: close\r\nContent-Length: 0\r\n\r\n",
    "a body that should not be": b"HTTP/1.1 204 X\r\nContent-Length: 2\r\n\r\nhi",
    "HTTP/1.0": b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
}


@pytest.mark.parametrize("case", UNCLEAN)
async def test_an_unclean_answer_is_given_but_its_connection_is_not_kept(case: str) -> None:
    async with _wired(saying(UNCLEAN[case])) as wired:
        assert await _whole(await wired.ask()) == b""
        await until(lambda: wired.gone)
        assert wired.idle == 0


async def test_what_waits_for_its_reader_is_bounded_by_a_read() -> None:
    async with _wired(saying(OK + b"Content-Length: 8000000\r\n\r\n" + b"x" * 8_000_000)) as wired:
        answer = await wired.ask()
        size = most = 0
        while not answer.complete or answer.full:
            await asyncio.sleep(0.001)
            data = await answer.receive()
            size, most = size + len(data), max(most, len(data))
        assert (size + len(await _whole(answer)), most <= HIGH_WATER + READ_SIZE) == (8_000_000, True)


async def test_connections_that_share_a_buffer_do_not_mix_their_answers() -> None:
    buffer = memoryview(bytearray(READ_SIZE))

    async def talk(peer: Socket) -> None:
        body = await peer.read_body(await peer.read_head())
        await peer.write_slowly(OK + b"Content-Length: 3000\r\n\r\n" + body * 1500, 700)
        await peer.gone.wait()

    async with listening(talk) as port:
        wires = [UpstreamConnection(lambda _: None, lambda _: None, buffer) for _ in range(20)]
        for made in wires:
            await asyncio.get_running_loop().create_connection(partial(_same, made), "127.0.0.1", port)
        marks = [b"%02d" % number for number in range(20)]
        asks = [(wire.send(REQUEST[0], mark), mark) for wire, mark in zip(wires, marks, strict=True)]
        for answer, _ in asks:
            await head_of(answer)
        assert [await _whole(answer) for answer, _ in asks] == [mark * 1500 for _, mark in asks]
        for wire in wires:
            wire.abort()


def _same(wire: UpstreamConnection) -> UpstreamConnection:
    return wire


async def test_a_lost_connection_leaves_nothing_for_the_garbage_collector() -> None:
    """What is kept alive by a ring is kept until it looks, which may be long after the last call."""
    async with _wired(saying(OK + b"Content-Length: 8000000\r\n\r\n" + b"x" * 100_000)) as wired:
        answer = await wired.ask()
        kept = weakref.ref(wired.wire._parser)  # noqa: SLF001 - nobody else knows it
        gc.collect()
        gc.disable()
        try:
            answer.abort()
            await until(lambda: wired.gone)
            wired.wire = UpstreamConnection(lambda _: None, lambda _: None)
            await asyncio.sleep(0)
            assert kept() is None
        finally:
            gc.enable()


async def test_words_nobody_asked_for_close_the_connection() -> None:
    answered = asyncio.Event()

    async def chatter(peer: Socket) -> None:
        await peer.read_body(await peer.read_head())
        await peer.write(EMPTY)
        await answered.wait()
        await peer.write(EMPTY)
        await peer.gone.wait()

    async with _wired(chatter) as wired:
        await wired.ask()
        assert wired.idle == 1
        answered.set()
        await until(lambda: wired.gone)


async def test_an_answer_before_the_request_was_taken_spoils_the_connection() -> None:
    async def hasty(peer: Socket) -> None:
        await peer.read_head()
        peer.stop_reading()
        await peer.write(OK + b"Content-Length: 2\r\n\r\n{}")
        await peer.gone.wait()

    async with _wired(hasty) as wired:
        answer = wired.wire.send(b"POST / HTTP/1.1\r\nContent-Length: 30000000\r\n\r\n", b"x" * 30_000_000)
        await head_of(answer)
        assert (await _whole(answer), wired.idle, wired.wire.alive) == (b"{}", 0, False)


async def test_an_early_answer_is_heard_although_the_peer_closes_on_our_body() -> None:
    """With unread bytes at the peer its close is a reset."""

    async def rude(peer: Socket) -> None:
        await peer.read_head()
        peer.stop_reading()
        await peer.write(b"HTTP/1.1 413 X\r\nContent-Length: 2\r\n\r\n{}")
        peer.close()

    async with _wired(rude) as wired:
        answer = wired.wire.send(b"POST / HTTP/1.1\r\nContent-Length: 3000000\r\n\r\n", b"x" * 3_000_000)
        await head_of(answer)
        assert (answer.status, await _whole(answer)) == (413, b"{}")


async def test_a_peer_that_says_its_last_word_is_not_waited_for() -> None:
    """It has closed its direction and does not take our body: nothing would ever end this call."""

    async def half(peer: Socket) -> None:
        await peer.read_head()
        peer.stop_reading()
        peer.half_close()
        await asyncio.sleep(60)

    async with _wired(half) as wired:
        answer = wired.wire.send(b"POST / HTTP/1.1\r\nContent-Length: 30000000\r\n\r\n", b"x" * 30_000_000)
        async with asyncio.timeout(30):
            with pytest.raises(ConnectionBroken, match="without an answer"):
                await head_of(answer)


async def test_a_body_of_unknown_length_ends_with_the_connection() -> None:
    async def talk(peer: Socket) -> None:
        await peer.read_body(await peer.read_head())
        await peer.write(OK + b"\r\nall of ")
        await peer.write(b"it")

    async with _wired(talk) as wired:
        answer = await wired.ask()
        while not answer.complete:
            data = await answer.receive()
            if not data:
                break
        assert (wired.idle, answer.complete) == (0, True)


CUT = {
    "length": OK + b"Content-Length: 5\r\n\r\nabc",
    "chunks": OK + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(b"abc"),
}


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize("case", CUT)
async def test_a_cut_body_is_broken(case: str, how: str) -> None:
    async def talk(peer: Socket) -> None:
        await peer.read_body(await peer.read_head())
        await peer.write(CUT[case])
        await asyncio.sleep(0.02)  # a reset discards what has not been read
        peer.reset() if how == "reset" else peer.close()
        await peer.gone.wait()

    async with _wired(talk) as wired:
        answer = await wired.ask()
        with pytest.raises(ConnectionBroken) as caught:
            await _whole(answer)
        assert (caught.value.sent, wired.wire.may_be_stale, wired.idle) == (True, False, 0)


async def test_a_reader_that_does_not_read_makes_the_upstream_wait() -> None:
    size = 50_000_000

    async def flood(peer: Socket) -> None:
        await peer.read_body(await peer.read_head())
        await peer.write(OK + b"Content-Length: %d\r\n\r\n" % size)
        for _ in range(size // 100_000):
            await peer.write(b"x" * 100_000)
        await peer.gone.wait()

    async with _wired(flood) as wired:
        answer = await wired.ask()
        await asyncio.sleep(0.1)
        first = len(await answer.receive())
        assert first < HIGH_WATER + (1 << 20)
        rest = 0
        while data := await answer.receive():
            rest += len(data)
        assert (first + rest, wired.idle) == (size, 1)


async def test_a_paused_connection_that_is_dropped_reads_on() -> None:
    body = b"x" * 3_000_000
    async with _wired(saying(OK + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))) as wired:
        answer = await wired.ask()
        await until(lambda: answer.full)
        answer.discard(10)
        await until(lambda: wired.idle)


async def test_no_answer_reaches_the_wrong_call() -> None:
    """Two thousand numbered calls, answered late, early, in pieces or not at all, cancelled at any moment."""
    assert await crosstalk(2000, random.Random(7)) > 300


async def crosstalk(calls: int, rng: random.Random) -> int:
    """How many of so many calls were answered; every answer must be the call's own."""

    async def echo(peer: Socket) -> None:
        while True:
            nonce = await peer.read_body(await peer.read_head())
            await _echo(peer, nonce, rng)

    good = 0
    async with listening(echo) as port, pooled() as pool, asyncio.TaskGroup() as group:
        room = asyncio.Semaphore(40)

        async def one(number: int) -> None:
            nonlocal good
            async with room:
                try:
                    async with asyncio.timeout(rng.choice((0.001, 0.003, 0.01, 0.05, 5, 5, 5, 5))):
                        nonce = b"nonce-%d." % number * rng.choice((1, 10, 20_000))
                        answered = await _ask(pool, port, nonce, rng)
                        good += answered
                except (TimeoutError, AttemptFailed):
                    pass

        for number in range(calls):
            group.create_task(one(number))
    return good


async def _ask(pool: Pool, port: int, nonce: bytes, rng: random.Random) -> bool:
    reply = await pool.send("POST", question(port, nonce), 5)
    way = rng.random()
    if way < 0.1:
        reply.abort()
        return False
    if way < 0.2:
        reply.release()
        return False
    try:
        assert await reply.read(1 << 20, UnlimitedMemory()) == nonce
    finally:
        reply.abort()
    return True


async def _echo(peer: Socket, nonce: bytes, rng: random.Random) -> None:
    way = rng.random()
    if way < 0.3:
        await peer.write(OK + b"Content-Length: %d\r\n\r\n%b" % (len(nonce), nonce))
    elif way < 0.6:
        await peer.write(OK + b"Transfer-Encoding: chunked\r\n\r\n")
        for start in range(0, len(nonce), 50_000):
            await peer.write(chunked(nonce[start : start + 50_000]))
            await asyncio.sleep(rng.choice((0, 0, 0.002)))
        await peer.write(chunked(b""))
    elif way < 0.8:
        await asyncio.sleep(rng.choice((0.001, 0.004, 0.02)))
        await peer.write(b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"Content-Length: %d\r\n\r\n" % len(nonce))
        await peer.write(nonce)
    elif way < 0.9:
        await peer.write(OK + b"Content-Length: %d\r\n\r\n%b" % (len(nonce), nonce) + EMPTY)
    else:
        peer.reset() if way < 0.95 else peer.close()
        await hang(peer)


class TestLargeRequests:
    """They go piece by piece, as the upstream takes them, and others have their turn in between."""

    BODY = b"x" * (8 << 20)
    HEAD = b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(BODY)

    async def test_they_arrive_whole_and_the_connection_serves_again(self) -> None:
        heard: list[bytes] = []

        async def listen(peer: Socket) -> None:
            for _ in range(2):
                heard.append(await peer.read_body(await peer.read_head()))
                await peer.write(EMPTY)

        async with _wired(listen) as wired:
            for _ in range(2):
                answer = wired.wire.send(self.HEAD, self.BODY)
                await head_of(answer)
                await _whole(answer)
            assert wired.idle == 2
        assert heard == [self.BODY] * 2

    async def test_no_more_waits_than_two_pieces(self) -> None:
        go_on = asyncio.Event()

        async def listen(peer: Socket) -> None:
            peer.stop_reading()
            await go_on.wait()
            peer.go_on_reading()
            await peer.read_body(await peer.read_head())
            await peer.write(EMPTY)

        async with _wired(listen) as wired:
            answer = wired.wire.send(self.HEAD, self.BODY)
            transport = wired.wire._transport  # noqa: SLF001 - what waits in it is what this is about
            assert transport is not None
            most = 0
            for _ in range(100):
                await asyncio.sleep(0.001)
                most = max(most, transport.get_write_buffer_size())
            assert 0 < most <= 2 * PIECE_SIZE
            go_on.set()
            await head_of(answer)
            assert await _whole(answer) == b""

    async def test_one_that_is_abandoned_is_not_sent_on(self) -> None:
        async def ignore(peer: Socket) -> None:
            peer.stop_reading()
            await peer.gone.wait()

        async with _wired(ignore) as wired:
            wired.wire.send(self.HEAD, self.BODY).abort()
            await until(lambda: wired.gone)
