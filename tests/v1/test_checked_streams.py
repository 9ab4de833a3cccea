"""A server that checks its streams names the calls whose events are out of order, and no others."""

import asyncio
import logging

import msgspec
import pytest

from gateway.domain.answer import AnswerEvent
from gateway.domain.channel import Dialect
from gateway.inbound.messages.render import MessagesRenderer
from tests.fakes.gateway import Gateway
from tests.fakes.messages import message, message_events, say_events, text_block
from tests.fakes.provider import Exchange, Provider
from tests.fakes.replies import chunk, cut, delta, speak
from tests.v1.test_every_api import STREAMED, call, upstream


@pytest.fixture
def checked(gateway: Gateway) -> Gateway:
    """A gateway that was started with TOLLKEEPER_CHECK_STREAMS=1."""
    gateway.engine.config = msgspec.structs.replace(gateway.engine.config, check_streams=True)
    return gateway


def faults(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "out of order" in record.getMessage()]


@STREAMED
async def test_good_streams_are_not_named(
    checked: Gateway, provider: Provider, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    provider.on("m", upstream("Hel", "lo"))
    assert (await call(checked.client, name, stream=True)).status == 200
    provider.on("m", cut(chunk(delta("Hel"))))
    await call(checked.client, name, stream=True)
    assert faults(caplog) == []


@pytest.mark.parametrize("on", [True, False])
async def test_a_fault_of_a_renderer_is_logged_with_the_call(
    gateway: Gateway,
    provider: Provider,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    *,
    on: bool,
) -> None:
    gateway.engine.config = msgspec.structs.replace(gateway.engine.config, check_streams=on)
    take = MessagesRenderer.take

    def twice(self: MessagesRenderer, event: AnswerEvent) -> bytes:
        return take(self, event) * 2

    monkeypatch.setattr(MessagesRenderer, "take", twice)
    provider.on("m", speak("Hel", "lo"))
    with caplog.at_level(logging.WARNING):
        await call(gateway.client, "messages", stream=True)
    id = gateway.record.id
    expected = f"call {id}: the stream of messages is out of order: a second message_start"
    assert (expected in faults(caplog)) is on
    assert bool(faults(caplog)) is on


async def test_a_native_stream_is_checked_too(
    checked: Gateway, provider: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    checked.channel(provider.base_url, dialect=Dialect.ANTHROPIC)
    events = message_events(message(text_block("Hello")))
    provider.on("m", say_events(*(event for event in events if b"content_block_stop" not in event)))
    await call(checked.client, "messages", stream=True)
    assert faults(caplog) == [
        f"call {checked.record.id}: the stream of messages is out of order: message_stop comes while block 0 is open"
    ]


async def test_a_client_that_leaves_is_not_a_fault(
    checked: Gateway, provider: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    begun = asyncio.Event()

    async def script(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.piece(b"".join(message_events(message(text_block("Hello")))[:3]))
        begun.set()
        await exchange.left()

    checked.channel(provider.base_url, dialect=Dialect.ANTHROPIC)
    provider.other = script
    calling = asyncio.ensure_future(call(checked.client, "messages", stream=True))
    await begun.wait()
    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)
    await checked.settled()
    assert faults(caplog) == []
