"""Hostile answers: whatever JSON is anywhere in an upstream's answer, it is an answer or a failure, by every API."""

import json
from collections.abc import Callable, Iterator

import msgspec
import pytest

from gateway.domain.channel import Channel, Dialect
from gateway.domain.failure import AttemptFailed
from gateway.domain.units import ChannelId
from gateway.domain.usage import Usage
from gateway.inbound.api import AttemptPlan, InboundApi
from gateway.inbound.chat.api import CHAT
from gateway.inbound.messages.api import MESSAGES
from gateway.inbound.responses.api import RESPONSES
from gateway.upstream.dialects import new_adapter
from tests.cases.gemini import streams as gemini
from tests.fakes.messages import message, message_events, text_block
from tests.fakes.replies import choice, chunk, delta, dumps, tool_call, usage, whole
from tests.inbound.mutations import STEP, VALUES, Doc, mutated
from tests.upstream.makers import order_of

USED = Usage(input=1, output=1)

PARTS: list[Doc] = [
    {"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]},
    {"type": "text", "text": "Hi"},
    {"type": "tool_use", "id": "t", "name": "f", "input": {"x": 1}},
    {"type": "function", "id": "u", "function": {"name": "g", "arguments": "{}"}},
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
]
NOTES = [{"type": "url_citation", "url_citation": {"url": "https://a.example", "title": "A", "start_index": 0}}]
RICH: Doc = {"content": PARTS, "annotations": NOTES, "images": PARTS[-1:], "reasoning_details": [{"text": "Hm"}]}
CAMELS = {"promptTokens": 9, "completionTokens": 2, "totalTokens": 11, "promptTokensDetails": {"cachedTokens": 4}}
CHUNKS: list[Doc] = [
    chunk(delta("", role="assistant")),
    chunk(delta(reasoning_content="Hm")),
    chunk(delta("Hi")),
    {**chunk(delta(**RICH)), "citations": ["https://b.example"], "search_results": [{"url": "https://c.example"}]},
    chunk(delta(tool_calls=[tool_call(0, "c1", "f", '{"x"')])),
    chunk(delta(tool_calls=[{"index": 0, "function": {"arguments": ":1}"}}])),
    chunk(delta(finish="tool_calls")),
    chunk(usage=usage()),
]
CALLS = [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
COMPLETION = whole("m", choice("Hi", reasoning_content="Hm", tool_calls=CALLS, finish="tool_calls"), spent=usage())
MIXED = whole("m", choice(**RICH), spent=CAMELS)
THOUGHT = {"type": "thinking", "thinking": "Hm", "signature": "S"}
SEARCHED: list[Doc] = [
    {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}},
    {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"url": "https://a.example", "title": "A"}]},
    {"type": "text", "text": "Yes", "citations": [{"url": "https://a.example", "title": "A", "cited_text": "x"}]},
]
CITED = message(*SEARCHED)
MESSAGE = message(THOUGHT, text_block("Hello"), {"type": "tool_use", "id": "t1", "name": "f", "input": {"x": 1}})
EVENTS: list[Doc] = [json.loads(each.partition(b"data: ")[2]) for each in message_events(MESSAGE)]
PIECES: list[Doc] = [
    gemini.response(gemini.think("Hm"), **gemini.spent(9)),
    gemini.response(gemini.say("Hi"), **gemini.spent(9, 3)),
    gemini.response(gemini.use("f", {"x": 1}, "fc", "U0lH"), **gemini.spent(9, 5)),
    gemini.response(finish="STOP", **gemini.spent(9, 7)),
]
GENERATED = gemini.response(
    gemini.think("Hm"), gemini.use("f", {"x": 1}, "fc", "S"), finish="STOP", **gemini.spent(9, 7)
)
SOURCES: Doc = {
    "groundingMetadata": {
        "groundingChunks": [{"web": {"uri": "https://a.example", "title": "A"}}],
        "groundingSupports": [{"segment": {"endIndex": 2, "text": "Hi"}, "groundingChunkIndices": [0]}],
    },
    "citationMetadata": {"citationSources": [{"uri": "https://b.example", "endIndex": 2}]},
    "urlContextMetadata": {"urlMetadata": [{"retrievedUrl": "https://c.example", "urlRetrievalStatus": "SUCCESS"}]},
    "logprobsResult": {"chosenCandidates": [{"token": "Hi"}], "topCandidates": [{"candidates": [{"token": "Hi"}]}]},
}
GROUNDED = gemini.response(gemini.say("Hi"), finish="STOP", **gemini.spent(9, 7))
GROUNDED["candidates"][0] |= SOURCES
OUTPUT: list[Doc] = [
    {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "Hm"}]},
    {"type": "message", "id": "msg", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]},
    {"type": "function_call", "id": "fc", "call_id": "c1", "name": "f", "arguments": "{}", "status": "completed"},
]
DETAILS = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 1}}
RESPONSE: Doc = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "status": "completed",
    "model": "m",
    "output": OUTPUT,
    "usage": {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7, **DETAILS},
}
PLACE = {"item_id": "msg", "output_index": 0, "content_index": 0}
STEPS: list[Doc] = [
    {"type": "response.created", "response": {**RESPONSE, "output": [], "status": "in_progress", "usage": None}},
    {"type": "response.output_item.added", "output_index": 0, "item": OUTPUT[1]},
    {"type": "response.output_text.delta", **PLACE, "delta": "Hi"},
    {"type": "response.output_item.done", "output_index": 0, "item": OUTPUT[1]},
    {"type": "response.completed", "response": RESPONSE},
]


class Upstream(msgspec.Struct):
    """One that answers in its dialect."""

    url: str
    dialect: Dialect
    events: list[Doc]
    whole: Doc
    names: bool = False
    """Its events have names."""
    lacks: bool = True
    """It does not speak Responses."""

    def sent(self, events: list[Doc]) -> bytes:
        """The events in their order."""
        lines = [(self._named(each) if self.names else b"") + b"data: " + dumps(each) + b"\n\n" for each in events]
        return b"".join(lines) + (b"" if self.names else b"data: [DONE]\n\n")

    def _named(self, event: Doc) -> bytes:
        kind = event.get("type") if isinstance(event, dict) else None
        return b"event: " + (kind if isinstance(kind, str) else "x").encode("utf-8", "replace") + b"\n"


UPSTREAMS = {
    "openai": Upstream("https://h/v1", Dialect.OPENAI, CHUNKS, COMPLETION),
    "openai, mixed": Upstream("https://h/v1", Dialect.OPENAI, [], MIXED),
    "deepseek": Upstream("https://api.deepseek.com", Dialect.OPENAI, CHUNKS, COMPLETION),
    "anthropic": Upstream("https://api.anthropic.com", Dialect.ANTHROPIC, EVENTS, MESSAGE, names=True),
    "anthropic, cited": Upstream("https://api.anthropic.com", Dialect.ANTHROPIC, [], CITED, names=True),
    "gemini, grounded": Upstream("https://h", Dialect.GEMINI, [GROUNDED], GROUNDED),
    "gemini": Upstream("https://h", Dialect.GEMINI, PIECES, GENERATED),
    "responses": Upstream("https://api.openai.com/v1", Dialect.OPENAI, STEPS, RESPONSE, names=True, lacks=False),
}
ASKED: dict[str, tuple[InboundApi, Doc]] = {
    "chat": (CHAT, {"model": "m", "messages": [{"role": "user", "content": "a"}]}),
    "messages": (MESSAGES, {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "a"}]}),
    "responses": (RESPONSES, {"model": "m", "input": "a", "tools": [{"type": "custom", "name": "g"}]}),
}
PAIRS = [(api, name) for api in ASKED for name in UPSTREAMS if name != "responses" or api == "responses"]


def _bodies(upstream: Upstream) -> Iterator[bytes]:
    for number, event in enumerate(upstream.events):
        for other in (*VALUES, *mutated(event)):
            yield upstream.sent([*upstream.events[:number], other, *upstream.events[number + 1 :]])
    for other in (*VALUES, *mutated(upstream.whole)):
        yield dumps(other)


def _stream(plan: AttemptPlan, channel: Channel, data: bytes) -> None:
    stream = plan.adapter.stream(plan.order, channel)
    for start in range(0, len(data), 300):
        stream.feed(data[start : start + 300])
    stream.end()
    assert stream.finished or stream.failure is not None
    assert all(isinstance(text, str) for text in (stream.state.finish, stream.state.upstream_id, *stream.state.marks))
    if stream.finished:
        stream.tail(stream.state.reported or USED)
    cut = plan.adapter.stream(plan.order, channel)
    cut.feed(data[: len(data) // 2])
    if cut.state.began and not (cut.failure or cut.finished):
        cut.cut_short()
        cut.tail(USED)


def _plain(plan: AttemptPlan, channel: Channel, data: bytes) -> None:
    try:
        found = plan.adapter.whole(data, plan.order, channel)
    except AttemptFailed:
        return
    b"".join(found.parts(found.state.reported or USED))


@pytest.mark.sampled(8)
@pytest.mark.parametrize("try_it", [_stream, _plain], ids=["stream", "plain"])
@pytest.mark.parametrize(("api", "name"), PAIRS)
def test_it_is_an_answer_or_a_failure(
    api: str, name: str, try_it: Callable[[AttemptPlan, Channel, bytes], None]
) -> None:
    """No other exception comes out, neither of events nor of a whole answer, whichever was requested."""
    upstream, (speaks, body) = UPSTREAMS[name], ASKED[api]
    channel = Channel(id=ChannelId("c"), name="u", dialect=upstream.dialect, base_url=upstream.url, key="sk-k")
    order = order_of(speaks, {**body, "stream": try_it is _stream})
    for number, data in enumerate(_bodies(upstream)):
        if number % STEP == 0:
            plan = speaks.plan(order, channel, new_adapter(upstream.dialect), lacks_api=upstream.lacks)
            try:
                try_it(plan, channel, data)
            except Exception as fault:
                raise AssertionError(data.decode("utf-8", "replace")) from fault
