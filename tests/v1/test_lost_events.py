"""A stream that lacks an event says so or ends with an error, in every API and from every dialect."""

import pytest

from gateway.domain.call import LOST_EVENTS_MARK, mark_total
from gateway.domain.channel import Dialect
from tests.conformance.test_completions import answered, said
from tests.fakes.client import Answer
from tests.fakes.gateway import Gateway
from tests.fakes.messages import message, message_events, text_block
from tests.fakes.provider import Exchange, Provider, Script
from tests.fakes.replies import DONE, event, in_steps, reply, story, stream_bytes
from tests.v1.test_every_api import CASES, STREAMED, call, docs_of

GARBLED = b"data: {oops\n\n"
COMMENT = b"\n\n: x-gateway-lost-events: 1\n"


async def garbled_chats(exchange: Exchange) -> None:
    """An OpenAI upstream that has no Responses, and garbles an event between a word and the end."""
    if exchange.path.endswith("responses"):
        await reply({"detail": "Not Found"}, status=404)(exchange)
        return
    chats = [event(doc) for doc in story("Hel", "lo")]
    texts = [event(answered(said(word, finish=None))) for word in ("Hel", "lo")] + [event(answered(said("")))]
    *begun, last = chats if exchange.path.endswith("chat/completions") else texts
    await stream_bytes(b"".join([*begun, GARBLED, last, DONE]))(exchange)


def part(text: str, **end: str) -> bytes:
    return event({"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "index": 0, **end}]})


*BEGUN, STOP, LAST, END = message_events(message(text_block("Hello")))
BROKEN: dict[Dialect, Script] = {
    Dialect.OPENAI: garbled_chats,
    Dialect.ANTHROPIC: in_steps(*BEGUN, b"event: content_block_delta\n" + GARBLED, STOP, LAST, END),
    Dialect.GEMINI: stream_bytes(part("Hello") + GARBLED + part("", finishReason="STOP")),
}
PASSED_ON = {(Dialect.ANTHROPIC, "messages")}
"""Where events are passed on as they are, what cannot be read always ends the stream with an error."""


async def answer(gateway: Gateway, provider: Provider, dialect: Dialect, name: str) -> Answer:
    gateway.channel(provider.base_url, dialect=dialect)
    provider.other = BROKEN[dialect]
    return await call(gateway.client, name, stream=True)


@STREAMED
@pytest.mark.parametrize("dialect", BROKEN)
async def test_a_missing_event_is_reported(gateway: Gateway, provider: Provider, dialect: Dialect, name: str) -> None:
    got = await answer(gateway, provider, dialect, name)
    if (dialect, name) in PASSED_ON:
        assert (CASES[name].ends in got.body, b"upstream_bad_response" in got.body) == (False, True)
        return
    assert CASES[name].text(docs_of(got)) == "Hello"
    assert CASES[name].ends in got.body
    assert mark_total(gateway.record.marks, LOST_EVENTS_MARK) == 1
    assert COMMENT in got.body or name == "ollama"  # its lines of JSON have no comments


@STREAMED
@pytest.mark.parametrize("dialect", BROKEN)
async def test_strict_streams_fail(gateway: Gateway, provider: Provider, dialect: Dialect, name: str) -> None:
    gateway.settings(strict_streams=True)
    got = await answer(gateway, provider, dialect, name)
    assert (CASES[name].ends in got.body, b"sent a bad answer" in got.body) == (False, True)
