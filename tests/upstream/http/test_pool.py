"""What can go wrong before an answer's head, told apart; and which connections serve again."""

import asyncio
import errno
import os
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import trustme
import uvloop

from gateway.domain.call import FailureKind
from gateway.domain.channel import Timeouts
from gateway.domain.errors import Unavailable, UpstreamError
from gateway.domain.failure import AttemptFailed
from gateway.domain.order import PreparedRequest
from gateway.upstream.http.connection import UpstreamConnection
from gateway.upstream.http.dial import Dialer, Target
from gateway.upstream.http.pool import OpenConnections, Pool
from gateway.upstream.http.reply import HttpReply
from tests.fakes.clock import skip
from tests.fakes.provider import Exchange, Provider, Script
from tests.fakes.replies import raw, reply, silence, slam, speak
from tests.fakes.wire import Socket
from tests.upstream.http.makers import EMPTY, OK, Asker, Talk, hang, listening, pooled, question, saying, until
from tests.upstream.makers import UnlimitedMemory, attempt_fails, channel

K = FailureKind


async def _failure(base_url: str, **deadlines: float) -> UpstreamError:
    pool = Pool(channel(base_url, timeouts=deadlines), {})
    try:
        with attempt_fails() as caught:
            await pool.send("POST", PreparedRequest(url=base_url, headers={}, body=b"{}"), deadlines.get("head", 5))
    finally:
        await pool.close()
    assert pool.busy == 0
    return caught.value


async def _failed(ask: Asker, script: Script, **deadlines: float) -> UpstreamError:
    with attempt_fails() as caught:
        await ask(script, **deadlines)
    await until(lambda: not ask.pool.busy)
    return caught.value


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://127.0.0.1:1/v1", f"{os.strerror(errno.ECONNREFUSED)} (127.0.0.1:1)"),
        ("http://no-such-host.invalid/v1", ""),
    ],
)
async def test_what_cannot_be_connected_to_was_not_sent_and_says_why(url: str, told: str) -> None:
    failed = await _failure(url)
    assert (failed.kind, failed.sent, failed.code) == (K.NETWORK, False, "upstream_unreachable")
    assert failed.message.endswith(told)


async def test_the_systems_own_timeout_is_an_error_like_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async def dial(*_: object) -> None:
        raise TimeoutError(errno.ETIMEDOUT, "x")

    monkeypatch.setattr(Dialer, "dial", dial)
    failed = await _failure("http://127.0.0.1:1/v1")
    assert (failed.kind, failed.sent, failed.code) == (K.NETWORK, False, "upstream_unreachable")


async def test_a_connection_that_is_lost_before_the_request_was_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    async def dial(_: Dialer, __: Target, make: Callable[[], UpstreamConnection]) -> tuple[None, UpstreamConnection]:
        return None, make()  # it never had a transport

    monkeypatch.setattr(Dialer, "dial", dial)
    failed = await _failure("http://127.0.0.1:1/v1")
    assert (failed.kind, failed.sent, failed.code) == (K.NETWORK, False, "upstream_unreachable")


async def test_a_connection_that_does_not_come_about_is_a_timeout() -> None:
    async with listening(hang) as port:
        failed = await _failure(f"https://127.0.0.1:{port}/v1", connect=0.2)
    assert (failed.kind, failed.sent, failed.code) == (K.NETWORK, False, "upstream_timeout")
    assert failed.details["timeout"] == "connect"
    assert failed.message.endswith(f"connect deadline of 0.2 s passed (127.0.0.1:{port})")


async def test_a_reset_before_any_byte_was_sent(ask: Asker) -> None:
    failed = await _failed(ask, slam)
    assert (failed.kind, failed.sent, failed.code) == (K.NETWORK, True, "upstream_unreachable")


async def test_a_head_that_does_not_come_is_a_timeout(ask: Asker) -> None:
    failed = await _failed(ask, silence, head=0.2)
    assert (failed.kind, failed.sent, failed.code) == (K.SLOW, True, "upstream_timeout")
    assert (failed.details["timeout"], "response head deadline of 0.2 s" in failed.message) == ("head", True)
    await ask.exchange.left()


async def test_bytes_other_than_http_are_a_bad_answer(ask: Asker) -> None:
    failed = await _failed(ask, raw(b"SSH-2.0-OpenSSH_9.0\r\n"))
    assert (failed.kind, failed.sent, failed.code) == (K.SERVER, True, "upstream_bad_response")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_are_answers_and_not_followed(ask: Asker, provider: Provider, status: int) -> None:
    answer = await ask(reply(b"", status=status, headers={"location": provider.base_url + "/elsewhere"}))
    await answer.read(10, UnlimitedMemory())
    assert (answer.status, len(provider.exchanges)) == (status, 1)


async def test_cookies_are_not_kept(ask: Asker) -> None:
    for _ in range(2):
        await (await ask(reply(b"{}", headers={"set-cookie": "a=b"}))).read(10, UnlimitedMemory())
    assert ask.exchange.head.get("cookie") == ""


async def test_a_connection_closed_while_idle_is_replaced_unseen(ask: Asker, provider: Provider) -> None:
    await (await ask(speak())).read(10_000, UnlimitedMemory())
    provider.last.socket.close()
    await provider.last.left()
    await (await ask(speak())).read(10_000, UnlimitedMemory())
    assert len(provider.exchanges) == 2


def in_turn(*scripts: Script) -> Script:
    turns = iter(scripts)

    async def script(exchange: Exchange) -> None:
        await next(turns)(exchange)

    return script


async def test_a_connection_that_breaks_as_it_is_used_is_replaced_once(ask: Asker, provider: Provider) -> None:
    await (await ask(speak())).read(10_000, UnlimitedMemory())
    assert b"Hello" in await (await ask(in_turn(slam, speak()))).read(10_000, UnlimitedMemory())
    assert [exchange.reused for exchange in provider.exchanges] == [False, True, False]


async def test_a_request_whose_answer_had_begun_is_not_sent_again(ask: Asker, provider: Provider) -> None:
    await (await ask(speak())).read(10_000, UnlimitedMemory())
    with attempt_fails("closed the connection|connection was lost"):
        await ask(in_turn(raw(b"HTTP/1.1 20"), speak()))
    assert [exchange.reused for exchange in provider.exchanges] == [False, True]


async def test_a_connection_with_unexpected_bytes_does_not_serve_again_before_its_loss_is_known(ask: Asker) -> None:
    assert await (await ask(speak("One"))).read(1 << 20, UnlimitedMemory())
    await ask.idle()
    (idle,) = ask.pool._idle  # noqa: SLF001 - the very turn in which its bytes arrive
    idle.buffer_updated(1)  # such as of a 408, which HAProxy sends before it closes
    assert (await ask(speak("Two"))).status == 200
    assert not ask.exchange.reused


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_a_loop_that_is_late_itself_does_not_make_a_break_late(new_loop: Callable[[], Any]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, asyncio.Runner(loop_factory=new_loop) as runner:
        server.setblocking(False)
        runner.run(_break_while_the_loop_is_busy(server))


async def _break_while_the_loop_is_busy(server: socket.socket) -> None:
    loop = asyncio.get_running_loop()

    def break_in_a_busy_loop() -> None:
        loop.remove_reader(peer)
        peer.close()
        time.sleep(0.3)

    asked = question(server.getsockname()[1])
    async with pooled() as pool:
        first = asyncio.create_task(pool.send("POST", asked, 5))
        peer, _ = await loop.sock_accept(server)
        await loop.sock_recv(peer, 10_000)
        await loop.sock_sendall(peer, EMPTY)
        await (await first).read(10, UnlimitedMemory())
        loop.add_reader(peer, break_in_a_busy_loop)
        second = asyncio.create_task(pool.send("POST", asked, 5))
        another, _ = await asyncio.wait_for(loop.sock_accept(server), 5)
        await loop.sock_sendall(another, EMPTY)
        assert await (await second).read(10, UnlimitedMemory()) == b""
        another.close()


async def break_late(exchange: Exchange) -> None:
    await skip(0.5)
    await slam(exchange)


@pytest.mark.hasty(1)
async def test_a_call_that_breaks_after_a_round_trip_is_not_tried_again(ask: Asker, provider: Provider) -> None:
    await (await ask(speak())).read(10_000, UnlimitedMemory())
    failed = await _failed(ask, break_late)
    assert (failed.sent, [exchange.reused for exchange in provider.exchanges]) == (True, [False, True])


@pytest.mark.hasty(1)
async def test_a_far_upstream_may_take_as_long_as_it_took_to_connect(
    ask: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    near = Dialer.dial

    async def far(*arguments: Any) -> Any:
        await skip(0.8)
        return await near(*arguments)

    monkeypatch.setattr(Dialer, "dial", far)
    await (await ask(speak())).read(10_000, UnlimitedMemory())
    assert b"Hello" in await (await ask(in_turn(break_late, speak()))).read(10_000, UnlimitedMemory())


async def test_a_fresh_connection_that_breaks_is_not_tried_again(ask: Asker, provider: Provider) -> None:
    await _failed(ask, slam)
    assert len(provider.exchanges) == 1


async def _asked(pool: Pool, port: int) -> None:
    await (await pool.send("POST", question(port), 5)).read(10, UnlimitedMemory())


async def _together(pool: Pool, port: int, count: int) -> None:
    async with asyncio.TaskGroup() as group:
        for _ in range(count):
            group.create_task(_asked(pool, port))


def _noting(opened: list[Socket]) -> Talk:
    """A peer that answers on every connection, each of which is noted."""

    async def talk(peer: Socket) -> None:
        opened.append(peer)
        await saying(*[EMPTY] * 50)(peer)

    return talk


async def test_each_call_has_a_connection_and_later_ones_use_them_again() -> None:
    opened: list[Socket] = []
    async with listening(_noting(opened)) as port, pooled() as pool:
        await _together(pool, port, 20)
        assert len(opened) == 20
        for _ in range(20):
            await _asked(pool, port)
    assert len(opened) == 20


async def test_a_connection_that_serves_again_before_its_answer_is_read_has_the_later_deadline() -> None:
    async with listening(saying(EMPTY)) as port, pooled() as pool:
        first = asyncio.create_task(pool.send("POST", question(port), 5))
        while not pool._idle:  # noqa: ASYNC110, SLF001 - the very turn in which the connection becomes idle
            await asyncio.sleep(0)
        assert not first.done()
        with attempt_fails() as caught:
            async with asyncio.timeout(2):
                await pool.send("POST", question(port), 0.3)
        await (await first).read(10, UnlimitedMemory())
    assert caught.value.code == "upstream_timeout"


async def test_a_connection_of_a_retired_pool_is_closed_when_its_call_has_ended() -> None:
    retired, closed = asyncio.Event(), asyncio.Event()

    async def talk(peer: Socket) -> None:
        await peer.read_body(await peer.read_head())
        await peer.write(OK + b"Content-Length: 1\r\n\r\n")
        await retired.wait()
        await peer.write(b"a")
        await peer.gone.wait()
        closed.set()

    async with listening(talk) as port, pooled() as pool:
        answer = await pool.send("POST", question(port), 5)
        pool.retire()
        retired.set()
        assert await answer.read(10, UnlimitedMemory()) == b"a"
        await asyncio.wait_for(closed.wait(), 5)


async def test_the_deadline_of_a_head_does_not_end_a_slow_body() -> None:
    async def talk(peer: Socket) -> None:
        await peer.read_body(await peer.read_head())
        await peer.write(OK + b"Content-Length: 1\r\n\r\n")
        await asyncio.sleep(0.3)
        await peer.write(b"a")

    async with listening(talk) as port, pooled() as pool:
        assert await (await pool.send("POST", question(port), 0.2)).read(10, UnlimitedMemory()) == b"a"


async def test_the_connection_that_became_idle_last_is_used_first() -> None:
    opened: list[Socket] = []

    async def talk(peer: Socket) -> None:
        opened.append(peer)
        number = len(opened)
        while True:
            await peer.read_body(await peer.read_head())
            await peer.write(OK + b"Content-Length: 1\r\n\r\n%d" % number)

    async with listening(talk) as port, pooled() as pool:
        first = await pool.send("POST", question(port), 5)
        second = await pool.send("POST", question(port), 5)
        said = [await reply.read(10, UnlimitedMemory()) for reply in (second, first)]
        again = await (await pool.send("POST", question(port), 5)).read(10, UnlimitedMemory())
    assert again == said[-1]


@pytest.mark.parametrize("wait", [0.0, 0.1], ids=["not swept yet", "swept"])
async def test_what_is_idle_too_long_is_closed_and_not_used(wait: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.upstream.http.pool.KEEP_ALIVE_S", 0.02)
    opened: list[Socket] = []
    async with listening(_noting(opened)) as port, pooled() as pool:
        await _asked(pool, port)
        time.sleep(0.03)  # noqa: ASYNC251 - without a turn of the loop
        await asyncio.sleep(wait)
        await _asked(pool, port)
        await until(opened[0].gone.is_set)
    assert len(opened) == 2


class TestTogether:
    """Pools that may have two connections together."""

    @pytest.fixture
    async def pools(self) -> AsyncIterator[tuple[Pool, Pool]]:
        total = OpenConnections(lambda: 2)
        made = Pool(channel(), {}, total=total), Pool(channel(), {}, total=total)
        yield made
        for pool in made:
            await pool.close()
        assert total.count == 0

    async def test_what_is_idle_elsewhere_is_closed_for_one_that_needs_a_place(self, pools: tuple[Pool, Pool]) -> None:
        opened: list[Socket] = []
        async with listening(_noting(opened)) as port:
            await _together(pools[0], port, 2)
            await _asked(pools[1], port)
            await until(lambda: sum(peer.gone.is_set() for peer in opened) == 1)
            await _asked(pools[0], port)
            assert len(opened) == 3

    async def test_no_place_is_nobodys_fault(self, pools: tuple[Pool, Pool], caplog: pytest.LogCaptureFixture) -> None:
        first, second = pools
        async with listening(saying(OK + b"Content-Length: 1\r\n\r\n")) as port:
            replies = [await pool.send("POST", question(port), 5) for pool in pools]
            for _ in range(3):
                with pytest.raises(Unavailable, match="all 2 upstream connections"):
                    await second.send("POST", question(port), 5)
            assert len(caplog.records) == 1
            replies[0].abort()
            await asyncio.sleep(0.01)
            replies.append(await second.send("POST", question(port), 5))
            for reply in replies:
                reply.abort()
            await until(lambda: not (first.busy or second.busy))

    async def test_a_caller_that_leaves_while_a_connection_closes_takes_no_slot(self, pools: tuple[Pool, Pool]) -> None:
        first, second = pools
        async with listening(saying(EMPTY, EMPTY)) as port:
            await _together(first, port, 2)
            leaving = asyncio.get_running_loop().create_task(_asked(second, port))
            await asyncio.sleep(0)
            leaving.cancel()
            await asyncio.wait([leaving])
            await _asked(second, port)
            await _asked(first, port)


def _hang_once(connected: asyncio.Event) -> Talk:
    """A peer that says nothing, and that somebody has connected."""

    async def talk(peer: Socket) -> None:
        connected.set()
        await hang(peer)

    return talk


@pytest.mark.parametrize("when", [0.0, 0.01], ids=["at once", "in the handshake"])
async def test_calls_cancelled_while_dialing_keep_no_places(when: float) -> None:
    total = OpenConnections(lambda: 1)
    async with listening(hang) as silent, listening(saying(EMPTY)) as port:
        pool = Pool(channel(), {}, total=total)
        for _ in range(5):
            task = asyncio.get_running_loop().create_task(pool.send("POST", question(silent, scheme="https"), 5))
            await asyncio.sleep(when)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await asyncio.sleep(0.01)
        assert (await (await pool.send("POST", question(port), 5)).read(10, UnlimitedMemory())) == b""
        await pool.close()
    assert (total.count, pool.busy) == (0, 0)


async def test_closing_breaks_what_is_under_way() -> None:
    silence = _hang_once(connected := asyncio.Event())
    async with listening(saying(OK + b"Content-Length: 9\r\n\r\nhalf")) as port, listening(silence) as silent:
        pool = Pool(channel(), {})
        begun = await pool.send("POST", question(port), 5)
        waiting = asyncio.get_running_loop().create_task(pool.send("POST", question(silent), 5))
        await connected.wait()
        await pool.close()
        assert isinstance(await _raised(waiting), AttemptFailed)
        with attempt_fails("was cut off"):
            await begun.read(10, UnlimitedMemory())
        with attempt_fails("closed"):
            await pool.send("POST", question(port), 5)
    assert pool.busy == 0


async def _raised(task: "asyncio.Task[HttpReply]") -> BaseException | None:
    await asyncio.wait([task], timeout=30)
    return task.exception()


async def test_a_certificate_nobody_vouches_for_is_reported() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    async with listening(hang, context) as port:
        failed = await _failure(f"https://127.0.0.1:{port}/v1")
    assert (failed.sent, failed.lasting, failed.code) == (False, True, "upstream_unreachable")
    assert "its certificate is not accepted" in failed.message


async def test_deadlines_are_those_of_the_channel() -> None:
    assert Pool(channel(), {}).can_serve(channel())
    assert not Pool(channel(), {}).can_serve(channel(timeouts=Timeouts(idle=1)))
    assert not Pool(channel(), {}).can_serve(channel(key="other"))
