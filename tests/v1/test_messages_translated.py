"""The Messages API over channels that do not speak it: the client cannot tell, and the ledger says the same."""

from pathlib import Path

import pytest

from gateway.core.live_calls import CallDeadlines
from gateway.domain.channel import Dialect
from gateway.domain.usage import UsageSource
from tests.fakes.gateway import Gateway, running
from tests.fakes.messages import grammar_faults, joined_blocks as blocks, read_events
from tests.fakes.provider import Provider
from tests.fakes.replies import (
    Doc,
    choice,
    chunk,
    cut,
    delta,
    event,
    reply,
    speak,
    speak_after,
    stream,
    stream_bytes,
    tool_call,
    usage,
    whole,
)
from tests.v1.test_messages import HELLO, post

STREAM = {**HELLO, "stream": True}
STOP = chunk(delta(finish="stop"))


async def streamed(gateway: Gateway, body: Doc | None = None) -> list[Doc]:
    """The events, whose order is right."""
    events = read_events((await post(gateway, body or STREAM)).body)
    assert grammar_faults(events) == []
    return events


def last(events: list[Doc]) -> Doc:
    (found,) = [doc for doc in events if doc["type"] == "message_delta"]
    return found


CALLS = (
    chunk(delta(reasoning_content="Hm")),
    chunk(delta("So")),
    chunk(delta(tool_calls=[tool_call(0, "c0", "f", "")])),
    chunk(delta(tool_calls=[{"index": 0, "function": {"arguments": '{"a":'}}])),
    chunk(delta(tool_calls=[tool_call(1, "c:1", "g", "")])),
    chunk(delta(tool_calls=[{"index": 1, "function": {"arguments": '{"b":2}'}}])),
    chunk(delta(tool_calls=[{"index": 0, "function": {"arguments": "1}"}}])),
    chunk(delta(finish="tool_calls")),
)


async def test_googles_signature_comes_back_after_a_restart(gateway: Gateway, provider: Provider, home: Path) -> None:
    """It travels with the conversation: a gateway that never saw the call knows it too."""
    gateway.channel(provider.base_url, dialect=Dialect.GEMINI)
    call = {"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "sig"}
    provider.other = stream_bytes(event({"candidates": [{"content": {"parts": [call]}, "finishReason": "STOP"}]}))
    said = blocks(await streamed(gateway))
    said[-1]["input"] = {}
    result = {"type": "tool_result", "tool_use_id": said[-1]["id"], "content": "ok"}
    turns = [*HELLO["messages"], {"role": "assistant", "content": said}, {"role": "user", "content": [result]}]
    async with running(home / "another") as another:
        another.channel(provider.base_url, dialect=Dialect.GEMINI)
        assert (await post(another, {**HELLO, "messages": turns})).status == 200
    sent = [part for turn in provider.last.json["contents"] for part in turn["parts"] if "functionCall" in part]
    assert sent[0]["thoughtSignature"] == "sig"


async def test_usage_is_complete_if_the_upstream_has_none(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", stream(chunk(delta("Hello there")), STOP))
    events = await streamed(gateway)
    names = {"input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"}
    start, end = events[0]["message"]["usage"], last(events)["usage"]
    assert all(isinstance(report[name], int) for report in (start, end) for name in names)
    (record,) = await gateway.settled()
    assert (end["input_tokens"], end["output_tokens"]) == (record.input, record.output)
    assert record.source is UsageSource.ESTIMATED


@pytest.mark.parametrize("plain", [True, False])
async def test_cached_tokens_are_not_counted_twice(gateway: Gateway, provider: Provider, plain: bool) -> None:
    spent = usage(1000, 5, prompt_tokens_details={"cached_tokens": 800, "cache_write_tokens": 100})
    provider.on("m", reply(whole("m", spent=spent)) if plain else stream(chunk(delta("x")), STOP, chunk(usage=spent)))
    found = (await post(gateway)).json["usage"] if plain else last(await streamed(gateway))["usage"]
    counts = [found[name] for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")]
    assert counts == [100, 800, 100]


async def test_arguments_that_the_limit_cut(gateway: Gateway, provider: Provider) -> None:
    half = chunk(delta(tool_calls=[tool_call(0, "c0", "f", '{"a":"x')]))
    provider.on("m", stream(half, chunk(delta(finish="length"))))
    events = await streamed(gateway)
    assert (blocks(events)[0]["input"], last(events)["delta"]["stop_reason"]) == ('{"a":"x', "max_tokens")


@pytest.mark.parametrize("chunks", [(), (chunk(delta("Hi")),), CALLS[:4], CALLS[:-1]])
async def test_an_upstream_that_dies(gateway: Gateway, provider: Provider, chunks: tuple[Doc, ...]) -> None:
    provider.on("m", cut(*chunks))
    answer = await post(gateway, STREAM)
    if not chunks:
        assert answer.status == 502
        return
    events = read_events(answer.body)
    assert (events[-1]["type"], grammar_faults(events, whole=False)) == ("error", [])
    assert events[-1]["request_id"] == gateway.record.id


async def test_an_empty_answer_has_an_empty_block(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", stream(chunk(delta("", role="assistant")), STOP))
    assert blocks(await streamed(gateway)) == [{"type": "text", "text": ""}]


@pytest.mark.parametrize("name", ["stop_reason", "matched_stop"])  # vLLM's, SGLang's
async def test_a_stop_sequence_that_the_upstream_names(gateway: Gateway, provider: Provider, name: str) -> None:
    provider.on("m", reply(whole("m", {**choice(), name: "END"})))
    found = (await post(gateway)).json
    assert (found["stop_reason"], found["stop_sequence"]) == ("stop_sequence", "END")


async def test_a_refusal_is_reported_as_one(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", reply(whole("m", choice(None, refusal="I will not."))))
    found = (await post(gateway)).json
    assert (found["content"], found["stop_reason"]) == ([{"type": "text", "text": "I will not."}], "refusal")


class TestSilence:
    """An upstream that is slow to begin."""

    @pytest.fixture
    def patience(self) -> CallDeadlines:
        return CallDeadlines(first_event=0.1, keep_alive=0.05, tick=0.02)

    async def test_pings_keep_a_client_waiting(self, gateway: Gateway, provider: Provider) -> None:
        provider.on("m", speak_after(0.4, speak("Hi")))
        events = read_events((await post(gateway, STREAM)).body)
        assert grammar_faults(events) == []
        assert [doc["type"] for doc in events][:2] == ["ping", "ping"]
