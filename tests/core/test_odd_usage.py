"""Usage that cannot be true costs nobody the answer: it is settled by a rule or estimated, and marked."""

import json
from typing import Any

import pytest

from gateway.domain.channel import Dialect
from gateway.domain.estimate import estimate
from gateway.domain.prompt_size import prompt_tokens
from gateway.domain.usage import UsageSource
from tests.cases.anthropic import streams as claude
from tests.cases.gemini import streams as gemini
from tests.conformance.shapes import completion_faults, stream_faults
from tests.core import kit
from tests.core.ends import DONE, FakeReply, ends, event, says
from tests.core.rig import Rig
from tests.fakes import messages, replies

TEXT = "Hello there."
NUMBERS = ["NaN", "Infinity", "-Infinity", "-1", "1.5", '"many"', "true", "1e999", "9" * 30, "9" * 5000, "[]", "{}"]
SHORT = [number[:12] for number in NUMBERS]
OPENAI = (
    '"prompt_tokens":{0},"completion_tokens":{0},"total_tokens":{0},"prompt_tokens_details":{{"cached_tokens":{0}}}'
)
ANTHROPIC = '"input_tokens":{0},"output_tokens":{0},"cache_read_input_tokens":{0}'
GEMINI = '"promptTokenCount":{0},"candidatesTokenCount":{0},"thoughtsTokenCount":{0},"totalTokenCount":{0}'
FORMS = {Dialect.OPENAI: OPENAI, Dialect.ANTHROPIC: ANTHROPIC, Dialect.GEMINI: GEMINI}


def spelled(data: bytes, dialect: Dialect, number: str) -> bytes:
    """The data, in which ``"USAGE"`` becomes a report of nothing but this number."""
    return data.replace(b'"USAGE"', ("{" + FORMS[dialect].format(number) + "}").encode())


def whole(dialect: Dialect, number: str) -> bytes:
    docs = {
        Dialect.OPENAI: replies.whole("m", replies.choice(TEXT), usage="USAGE"),
        Dialect.ANTHROPIC: {**messages.message(messages.text_block(TEXT)), "usage": "USAGE"},
        Dialect.GEMINI: gemini.response(gemini.say(TEXT), finish="STOP", usageMetadata="USAGE"),
    }
    return spelled(replies.dumps(docs[dialect]), dialect, number)


def streamed(dialect: Dialect, number: str) -> bytes:
    if dialect is Dialect.GEMINI:
        return b"data: " + whole(dialect, number) + b"\n\n"
    if dialect is Dialect.OPENAI:
        return spelled(says(TEXT) + ends() + event(choices=[], usage="USAGE") + DONE, dialect, number)
    begin = messages.event("message_start", message={**messages.message(), "content": [], "usage": "USAGE"})
    end = messages.event("message_delta", delta={"stop_reason": "end_turn"}, usage="USAGE") + claude.STOP
    return spelled(begin + claude.text(TEXT) + end, dialect, number)


def check(rig: Rig) -> None:
    record = rig.record
    assert (record.status, record.source, record.marks) == (200, UsageSource.ESTIMATED, ("suspect_usage",))
    assert (record.input, record.output) == (prompt_tokens(kit.ask().fields), estimate(TEXT))
    assert record.cost > 0


@pytest.mark.parametrize("number", NUMBERS, ids=SHORT)
@pytest.mark.parametrize("dialect", FORMS)
async def test_a_plain_answer_arrives_with_estimated_usage(rig: Rig, dialect: Dialect, number: str) -> None:
    rig.channel(dialect=dialect, answer=lambda: FakeReply(whole(dialect, number)))
    reply = await rig.call()
    answer = json.loads(reply.body)
    assert answer["choices"][0]["message"]["content"] == TEXT
    assert reply.headers["x-gateway-usage"] == "estimated"
    assert completion_faults(answer) == []
    check(rig)


@pytest.mark.parametrize("number", NUMBERS, ids=SHORT)
@pytest.mark.parametrize("dialect", FORMS)
async def test_a_stream_arrives_with_estimated_usage(rig: Rig, dialect: Dialect, number: str) -> None:
    rig.channel(dialect=dialect, answer=lambda: FakeReply(streamed(dialect, number)))
    await rig.call(stream=True, stream_options={"include_usage": True})
    assert TEXT.encode() in rig.client.body
    assert b"\n: x-gateway-usage: estimated\n\n" in rig.client.body
    assert b'"estimated"' not in rig.client.body
    assert stream_faults(rig.client.body, usage="yes") == []
    check(rig)


@pytest.mark.parametrize("dialect", FORMS)
async def test_a_whole_answer_to_a_stream_is_the_same(rig: Rig, dialect: Dialect) -> None:
    rig.channel(dialect=dialect, answer=lambda: FakeReply(whole(dialect, "NaN")))
    await rig.call(stream=True)
    assert TEXT.encode() in rig.client.body
    check(rig)


@pytest.mark.parametrize("dialect", FORMS)
async def test_a_stream_to_a_plain_call_is_the_same(rig: Rig, dialect: Dialect) -> None:
    rig.channel(dialect=dialect, answer=lambda: FakeReply(streamed(dialect, "NaN")))
    assert json.loads((await rig.call()).body)["choices"][0]["message"]["content"] == TEXT
    record = rig.record
    assert (record.source, "suspect_usage" in record.marks) == (UsageSource.ESTIMATED, True)


async def test_an_odd_number_elsewhere_does_no_harm_to_the_usage(rig: Rig) -> None:
    rig.channel()
    logprobs: dict[str, Any] = {"content": [{"token": "H", "logprob": "USAGE", "bytes": None, "top_logprobs": []}]}
    body = replies.dumps(
        {"id": "up", "choices": [{**replies.choice(TEXT), "logprobs": logprobs}], "usage": replies.usage()}
    )
    rig.upstreams.on("up", lambda: FakeReply(body.replace(b'"USAGE"', b"-Infinity")))
    answer = json.loads((await rig.call()).body, parse_constant=pytest.fail)
    assert answer["choices"][0]["logprobs"]["content"][0]["logprob"] is None
    assert (rig.record.input, rig.record.output, rig.record.marks) == (9, 12, ())
