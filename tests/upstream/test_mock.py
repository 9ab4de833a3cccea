"""The mock answers like a good upstream, and misbehaves exactly as it is asked to."""

import json
from typing import Any

import pytest

from gateway.domain import rawjson
from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel, ServedModel
from gateway.domain.estimate import estimate
from gateway.domain.order import PreparedRequest
from gateway.domain.prompt_size import prompt_tokens
from gateway.inbound.chat.native import NativeChatStream
from gateway.upstream.adapter import Reply
from gateway.upstream.learned_params import NOTHING
from gateway.upstream.mock import HELP, NO_TOOLS, STORY, Mock
from gateway.upstream.openai.dialect import OpenAIDialect
from tests.cases.answers import Answer, said_in
from tests.upstream.makers import UnlimitedMemory, attempt_fails, channel, error_of, native_stream, native_whole, order

Doc = dict[str, Any]
DIALECT = OpenAIDialect()


class Sleeper:
    """Passes time without waiting."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.slept.append(seconds)


@pytest.fixture
def sleep() -> Sleeper:
    return Sleeper()


def _demo(**options: Any) -> Channel:
    return channel("", dialect="mock", options=options)


async def _reply(sleep: Sleeper, text: object, *, up: Channel | None = None, **more: Any) -> Reply:
    doc = {"model": "demo-echo", "messages": [{"role": "user", "content": text}], **more}
    served = ServedModel(name=str(doc["model"]))
    demo = up or _demo()
    return await Mock(sleep).answer(demo, DIALECT.prepare(order(doc), demo, served, NOTHING))


async def _whole(sleep: Sleeper, text: object, **more: Any) -> Doc:
    doc = json.loads(await (await _reply(sleep, text, **more)).read(100_000, UnlimitedMemory()))
    assert isinstance(doc, dict)
    return doc


async def _stream(sleep: Sleeper, text: str, **more: Any) -> tuple[NativeChatStream, Answer]:
    reply = await _reply(sleep, text, stream=True, **more)
    stream = native_stream()
    out = [stream.feed(data) async for data in reply.chunks(stream)]
    return stream, said_in(b"".join(out) + stream.end())


PARTS = [{"type": "text", "text": "Hello"}, {"type": "image_url", "image_url": {"url": "data:,"}}]


@pytest.mark.parametrize(
    ("heard", "model", "said"),
    [
        ("Hello there", "demo-echo", "Hello there"),
        (PARTS, "demo-echo", "Hello\n"),
        ("Wow!great !important !1234", "demo-echo", "Wow!great !important !1234"),
        ("!tool find", "demo-echo", NO_TOOLS),
        ("Hi", "demo-flaky", HELP),
    ],
)
async def test_echo_says_what_it_hears_and_what_it_needs(sleep: Sleeper, heard: object, model: str, said: str) -> None:
    doc = await _whole(sleep, heard, model=model)
    assert (doc["model"], doc["choices"][0]["message"]["content"], sleep.slept) == (model, said, [])


async def test_it_reports_an_honest_usage(sleep: Sleeper) -> None:
    usage = (await _whole(sleep, "Hello there"))["usage"]
    messages = rawjson.raw([{"role": "user", "content": "Hello there"}])
    prompt, output = prompt_tokens({"messages": messages}), estimate("Hello there")
    assert usage == {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output}


async def test_a_stream_says_the_same_and_reports_the_same(sleep: Sleeper) -> None:
    stream, said = await _stream(sleep, "Hello there")
    assert (said, stream.finished) == (Answer(text={0: "Hello there"}, finish={0: "stop"}), True)
    assert (stream.state.reported and stream.state.reported.output) == estimate("Hello there")


async def test_a_story_is_streamed_at_reading_speed(sleep: Sleeper) -> None:
    _, said = await _stream(sleep, "tell me", model="demo-story")
    assert said.text[0] == STORY
    assert set(sleep.slept) == {1 / 25}


async def test_limits_and_several_choices_are_kept(sleep: Sleeper) -> None:
    doc = await _whole(sleep, "one two three", max_tokens=2, n=2)
    assert [(c["message"]["content"], c["finish_reason"]) for c in doc["choices"]] == [("one two ", "length")] * 2
    _, said = await _stream(sleep, "one two", n=2)
    assert said.text == {0: "one two", 1: "one two"}


async def test_no_answer_counts_more_tokens_than_its_limit(sleep: Sleeper) -> None:
    doc = await _whole(sleep, "f(x)[y]={z:1};g(h)", max_tokens=1)
    assert (doc["usage"]["completion_tokens"], doc["choices"][0]["finish_reason"]) == (1, "stop")


@pytest.mark.parametrize("status", [400, 401, 402, 404, 429, 500, 503])
async def test_a_status_in_the_prompt_is_the_mocks_error(sleep: Sleeper, status: int, *, stream: bool) -> None:
    reply = await _reply(sleep, f"please !{status} now", stream=stream)
    failure = DIALECT.failure(channel(), reply.status, reply.headers, await reply.read(10_000, UnlimitedMemory()))
    assert (reply.status, error_of(failure).status) == (status, status)


async def test_it_says_when_to_come_back(sleep: Sleeper) -> None:
    reply = await _reply(sleep, "!429 retry-after=2")
    failure = DIALECT.failure(channel(), reply.status, reply.headers, await reply.read(10_000, UnlimitedMemory()))
    assert (failure.kind, failure.retry_after_s) == (FailureKind.RATE, 2)


async def test_it_refuses_the_key_for_the_model(sleep: Sleeper) -> None:
    reply = await _reply(sleep, "!auth")
    failure = DIALECT.failure(channel(), reply.status, reply.headers, await reply.read(10_000, UnlimitedMemory()))
    assert (reply.status, failure.kind) == (401, FailureKind.MISSING)


async def test_the_mock_cuts_its_stream_after_so_many_words(sleep: Sleeper) -> None:
    stream, said = await _stream(sleep, "!cut=3 one two three")
    assert (stream.failure and stream.failure.code) == "upstream_stream_truncated"
    assert said.text[0] == "!cut=3 one "


@pytest.mark.parametrize("text", ["!cut", "!cut=3", "!cut=99 one"])
async def test_a_cut_answer_fails(sleep: Sleeper, text: str) -> None:
    stream, _ = await _stream(sleep, text)
    assert (stream.failure and stream.failure.code) == "upstream_stream_truncated"
    with attempt_fails("was cut off"):
        await (await _reply(sleep, text)).read(100, UnlimitedMemory())


@pytest.mark.parametrize(("text", "deadline"), [("!silence", "first event"), ("!silence=2 x y", "idle")])
async def test_it_falls_silent_until_the_deadline(sleep: Sleeper, text: str, deadline: str) -> None:
    with attempt_fails(deadline) as caught:
        await _stream(sleep, text)
    assert (caught.value.kind, sleep.slept) == (FailureKind.SLOW, [120 if deadline == "first event" else 300])


async def test_a_plain_call_falls_silent_too(sleep: Sleeper) -> None:
    with attempt_fails("total"):
        await (await _reply(sleep, "!silence")).read(100, UnlimitedMemory())


async def test_half_an_emoji_is_not_said_again(sleep: Sleeper) -> None:
    body = b'{"model":"demo-echo","messages":[{"role":"user","content":"so \\ud83d"}]}'
    reply = await Mock(sleep).answer(_demo(), PreparedRequest(url="", headers={}, body=body))
    assert json.loads(await reply.read(1000, UnlimitedMemory()))["choices"][0]["message"]["content"] == "so ?"


async def test_the_mock_leaves_its_usage_out(sleep: Sleeper) -> None:
    assert "usage" not in await _whole(sleep, "!no-usage")
    stream, _ = await _stream(sleep, "!no-usage")
    assert (stream.finished, stream.state.reported) == (True, None)


async def test_the_mock_answers_in_invalid_json(sleep: Sleeper) -> None:
    reply = await _reply(sleep, "!bad-json")
    with attempt_fails("not valid JSON"):
        native_whole(await reply.read(10_000, UnlimitedMemory()))
    stream, _ = await _stream(sleep, "!bad-json")
    assert (stream.failure and stream.failure.code) == "upstream_bad_response"


async def test_the_mock_answers_with_a_web_page(sleep: Sleeper) -> None:
    assert (await _reply(sleep, "!html")).headers["content-type"] == "text/html"
    stream, _ = await _stream(sleep, "!html")
    assert (stream.failure and stream.failure.code) == "upstream_bad_response"


async def test_the_mock_waits_before_and_between_words(sleep: Sleeper) -> None:
    await _stream(sleep, "!latency=200 !speed=50 x")
    assert sleep.slept[:2] == [0.2, 0.02]


TOOLS = [{"type": "function", "function": {"name": "find"}}]


async def test_the_mock_calls_the_named_tool(sleep: Sleeper) -> None:
    doc = await _whole(sleep, '!tool find {"x": 1}', tools=TOOLS)
    (call,) = doc["choices"][0]["message"]["tool_calls"]
    assert (call["function"], doc["choices"][0]["finish_reason"]) == (
        {"name": "find", "arguments": '{"x": 1}'},
        "tool_calls",
    )
    _, said = await _stream(sleep, "!tool find", tools=TOOLS)
    assert (said.calls, said.finish) == ({0: [("call_demo1", "find", "{}")]}, {0: "tool_calls"})


async def test_the_mock_calls_a_function_in_the_old_form(sleep: Sleeper) -> None:
    doc = await _whole(sleep, '!tool find {"x": 1}', functions=[{"name": "find"}])
    (choice,) = doc["choices"]
    assert choice["message"]["function_call"] == {"name": "find", "arguments": '{"x": 1}'}
    assert (choice["finish_reason"], "tool_calls" in choice["message"]) == ("function_call", False)
    reply = await _reply(sleep, "!tool find", functions=[{"name": "find"}], stream=True)
    body = b"".join([data async for data in reply.chunks(native_stream())])
    assert b'"delta":{"function_call":{"name":"find","arguments":"{}"}}' in body


async def test_options_of_the_channel_do_the_same(sleep: Sleeper) -> None:
    reply = await _reply(sleep, "Hi", up=_demo(status=429, retry_after=3, latency=100))
    assert (reply.status, reply.headers["retry-after"], sleep.slept) == (429, "3", [0.1])
    assert "usage" not in await _whole(sleep, "Hi", up=_demo(no_usage=True))
    assert "usage" in await _whole(sleep, "Hi", up=_demo(no_usage=False))
    assert (await _reply(sleep, "Hi", up=_demo(auth=False))).status == 200


async def test_an_odd_request_is_refused(sleep: Sleeper) -> None:
    assert (await _reply(sleep, "Hi", tools={"x": 1})).status == 400


def test_the_mock_lists_three_models() -> None:
    assert [model.name for model in Mock().models()] == ["demo-echo", "demo-story", "demo-flaky"]
