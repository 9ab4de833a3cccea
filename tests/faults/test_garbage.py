"""What a call held is free when the call has ended, whatever its end: nothing is left for the garbage collector.

The collector comes by after thousands of new objects, whatever their size: ten failed answers of 60 MB that wait for
it are more than the gateway may use, and it would refuse calls for lack of memory that nothing needs.
"""

import asyncio
import gc
from collections import Counter
from collections.abc import Iterator

import pytest

from gateway.core.call import Call
from gateway.domain.channel import Dialect, Timeouts
from gateway.domain.errors import UpstreamError
from gateway.domain.limits import Limits
from gateway.inbound.chat.native import NativeChatStream
from gateway.inbound.rendering import RenderedStream
from gateway.upstream.http.parser import WireAnswer
from gateway.upstream.http.reply import HttpReply
from tests.fakes.gateway import Gateway
from tests.fakes.provider import EVENTS, Provider, Script
from tests.fakes.replies import (
    chunk,
    cut,
    delta,
    endless,
    event,
    fail,
    in_steps,
    raw,
    reply,
    silence,
    slam,
    stream,
    usage,
    whole,
)
from tests.fakes.websocket import frame, shaken

HELD = (Call, NativeChatStream, RenderedStream, HttpReply, WireAnswer, UpstreamError)
"""What leads to the bytes of an answer, or keeps what does."""

CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{"}}
TOOLS_USED = [
    {"role": "user", "content": "Look."},
    {"role": "assistant", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "seen"},
]


@pytest.fixture
def uncollected() -> Iterator[None]:
    """The garbage collector does not come, and what other tests have left is out of its sight."""
    gc.collect()
    gc.freeze()
    gc.disable()
    yield
    gc.enable()


ENDS: dict[str, Script] = {
    "good": reply(whole("m", spent=usage())),
    "refused": fail(400, "no"),
    "failed": fail(500),
    "limited": fail(429),
    "not valid JSON": reply(b"{no"),
    "a page": reply(b"<html>", kind="text/html"),
    "no events": reply(b"{no", kind=EVENTS),
    "an error within": stream(chunk(delta("Hel")), {"error": {"message": "it broke"}}),
    "no end": stream(chunk(delta("Hel"))),
    "a torn stream": cut(chunk(delta("Hel"))),
    "half a body": raw(b'HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{"id":'),
    "no HTTP": slam,
    "damaged": reply(b"no gzip", headers={"content-encoding": "gzip"}),
    "packed unasked": reply(b"", headers={"content-encoding": "br"}),
    "silence": silence,
    "a stuck stream": in_steps(chunk(delta("Hel")), hangs=True),
}


@pytest.mark.sampled(24)
@pytest.mark.parametrize("dialect", [Dialect.OPENAI, Dialect.ANTHROPIC])
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.usefixtures("uncollected")
async def test_a_call_that_has_ended_leaves_no_garbage(
    gateway: Gateway, provider: Provider, end: str, dialect: Dialect, *, streamed: bool
) -> None:
    soon = Timeouts(head=0.3, idle=0.3, total=0.5)
    gateway.channel(provider.base_url, dialect=dialect, timeouts=soon)
    provider.other = ENDS[end]
    provider.on("m", ENDS[end])
    await gateway.call(stream=streamed, max_tokens=10, messages=TOOLS_USED)
    for _ in range(50):
        if not remains():
            break
        await asyncio.sleep(0.02)
    assert remains() == {}
    assert garbage() == {}


async def until_a_write_waits(gateway: Gateway) -> None:
    """Return when the only call has waited for its client for a tenth of a second. Fails after twenty."""
    (call,) = gateway.engine.live.calls.values()
    before = None
    for _ in range(200):
        await asyncio.sleep(0.1)
        if call.delivery.writing and call.delivery.last_write == before:
            return
        before = call.delivery.last_write
    pytest.fail("the call never waits for its client")


@pytest.mark.parametrize("size", [60_000, 300_000])
@pytest.mark.usefixtures("uncollected")
async def test_a_reset_while_a_stream_waits_leaves_no_garbage(gateway: Gateway, provider: Provider, size: int) -> None:
    """``size``: bytes of an event. A large one is sent in slices."""
    provider.on("m", endless(event(chunk(delta("x" * size)))))
    peer = await gateway.client.send(gateway.client.chat_bytes(stream=True, max_tokens=10), window=4096)
    await peer.read_head()
    peer.stop_reading()
    await until_a_write_waits(gateway)
    peer.reset()
    await gateway.settled()
    await asyncio.sleep(0.1)
    assert remains() == {}
    assert garbage() == {}


@pytest.mark.parametrize("spaces", [0, 3_000_000], ids=["small", "large"])
@pytest.mark.parametrize("body", [b'{"model":"unknown","messages":[]}', b"{no", b'{"model":"m"}'])
@pytest.mark.usefixtures("uncollected")
async def test_a_call_that_is_refused_leaves_no_garbage(gateway: Gateway, body: bytes, spaces: int) -> None:
    """A large body is read in the worker thread."""
    assert (await gateway.client.post(body + b" " * spaces)).status in {400, 404}
    await asyncio.sleep(0.05)  # the handler of the request may still be returning
    assert garbage() == {}


@pytest.mark.usefixtures("uncollected")
async def test_a_call_that_got_no_slot_leaves_no_garbage(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url)
    provider.on("m", silence)
    client = gateway.token("queue", limits=Limits(concurrent=1, queue=1, queue_s=1))
    peer = await client.send(client.chat_bytes(stream=True, max_tokens=10))
    await gateway.until(lambda: len(gateway.engine.live.calls) == 1)
    gc.collect()  # of connections
    assert (await client.chat(max_tokens=10)).status == 429
    await asyncio.sleep(0.05)
    found = garbage()
    peer.reset()
    assert found == {}


@pytest.mark.usefixtures("uncollected")
async def test_a_repeated_failure_leaves_no_garbage(gateway: Gateway, provider: Provider) -> None:
    """The second request of an API whose clients repeat blindly gets the failure of the first."""
    gateway.channel(provider.base_url)
    provider.on("m", fail(500))
    body = b'{"model":"m","input":"x"}'
    answers = [await gateway.client.ask("POST", "/v1/responses", body) for _ in range(2)]
    assert b"was not sent again" in answers[1].body
    await asyncio.sleep(0.05)
    assert garbage() == {}


@pytest.mark.usefixtures("uncollected")
async def test_a_websocket_that_is_cut_in_the_middle_of_a_call_leaves_no_garbage(
    gateway: Gateway, provider: Provider
) -> None:
    """All that is left is a ring of aiohttp's, without the frames and the responses of the connection."""
    gateway.channel(provider.base_url)
    provider.on("m", silence)
    _, peer = await shaken(gateway.client)
    await peer.write(frame(b'{"type":"response.create","model":"m","input":"x"}'))
    await gateway.until(lambda: len(gateway.engine.live.calls) == 1)
    peer.reset()
    await gateway.settled(1)
    await asyncio.sleep(0.05)
    assert set(garbage()) <= {"Connection", "InPlaceLoop", "GatewayRequest"}


def remains() -> Counter[str]:
    """What there still is of calls, by class."""
    return Counter(type(found).__name__ for found in gc.get_objects() if type(found) in HELD)


def garbage() -> Counter[str]:
    """Objects of the gateway that only the garbage collector can free, by class."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    gc.set_debug(0)
    found = Counter(type(left).__name__ for left in gc.garbage if type(left).__module__.startswith("gateway."))
    gc.garbage.clear()
    return found
