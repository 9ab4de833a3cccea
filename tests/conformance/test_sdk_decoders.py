"""The decoders of the official SDKs take every answer of ``tests/cases/vendor_answers`` that is translated.

Each part is of the types that the SDK declares, strictly, and the SDK puts a stream together without an error.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from gateway.inbound.messages.native import MessagesRelay
from gateway.inbound.responses.relay import ResponsesRelay
from gateway.upstream.adapter import AnswerStream
from gateway.upstream.anthropic.dialect import AnthropicDialect
from gateway.upstream.openai.dialect import OpenAIDialect
from tests.cases.vendor_answers import ROWS, Row
from tests.conformance.test_strict_types import APIS, strict
from tests.fakes.replies import Doc, dumps
from tests.fakes.responses import events_of, function_call, message, response
from tests.inbound.test_vendor_answers import SPENT, fed, planned
from tests.upstream.makers import body_of, channel, order

OFFICIAL = ("chat", "messages", "responses")
GOOD = [row for row in ROWS if not row.error]


def put_together_chat(docs: list[Doc]) -> None:
    from openai import ContentFilterFinishReasonError, LengthFinishReasonError
    from openai.lib.streaming.chat import ChatCompletionStreamState
    from openai.types.chat import ChatCompletionChunk

    state = ChatCompletionStreamState()
    try:
        for doc in docs:
            list(state.handle_chunk(ChatCompletionChunk.construct(**doc)))
    except (ContentFilterFinishReasonError, LengthFinishReasonError):
        pass  # the SDK reports these reasons as errors


def put_together_response(docs: list[Doc]) -> None:
    from openai import omit
    from openai._models import construct_type
    from openai.lib.streaming.responses._responses import ResponseStreamState
    from openai.types.responses import ResponseStreamEvent

    state: Any = ResponseStreamState(input_tools=omit, text_format=omit)
    for doc in docs:
        state.handle_event(construct_type(type_=ResponseStreamEvent, value=doc))


def put_together_message(docs: list[Doc]) -> Any:
    from anthropic._models import construct_type
    from anthropic.lib.streaming._beta_messages import accumulate_event
    from anthropic.types.beta import BetaRawMessageStreamEvent

    snapshot, buffers, headers = None, dict[int, Any](), cast("Any", {})
    for doc in docs:
        event: Any = construct_type(type_=BetaRawMessageStreamEvent, value=doc)
        snapshot = accumulate_event(event=event, current_snapshot=snapshot, json_bufs=buffers, request_headers=headers)
    return snapshot


PUT_TOGETHER: dict[str, Callable[[list[Doc]], object]] = {
    "chat": put_together_chat,
    "messages": put_together_message,
    "responses": put_together_response,
}


def is_typed(row: Row, api: str) -> bool:
    """Whether the SDK has types for all of it: Anthropic's has none for an image in an answer, OpenAI's none for the
    vendor's own form of one.
    """
    return not ((api == "messages" and row.image) or (api == "chat" and row.own_form))


def check_stream(row: Row, api: str, stream: AnswerStream, out: bytes) -> None:
    out += stream.tail(stream.state.reported or SPENT)
    docs = list(parts(out))
    assert docs
    for data in docs if is_typed(row, api) else ():
        strict(APIS[api].event, data)
    PUT_TOGETHER[api]([json.loads(data) for data in docs])


def parts(out: bytes) -> Iterator[bytes]:
    """The JSON of every event but a ping."""
    lines = (line.removeprefix(b"data: ") for line in out.splitlines() if line.startswith(b"data: {"))
    return (data for data in lines if json.loads(data).get("type") != "ping")


@pytest.mark.sampled(100)
@pytest.mark.parametrize("api", OFFICIAL)
@pytest.mark.parametrize("row", [row for row in GOOD if row.stream], ids=lambda row: row.name)
def test_a_stream_is_decoded(row: Row, api: str) -> None:
    stream, out, native = fed(row, api)
    if not native:
        check_stream(row, api, stream, out)


@pytest.mark.sampled(80)
@pytest.mark.parametrize("api", OFFICIAL)
@pytest.mark.parametrize("row", [row for row in GOOD if row.plain], ids=lambda row: row.name)
def test_a_plain_answer_is_decoded_also_where_a_stream_was_requested(row: Row, api: str) -> None:
    for streamed in (False, True):
        plan = planned(api, row.dialect, stream=streamed)
        if plan.native and api != "chat":
            continue
        if streamed:
            stream = plan.adapter.stream(plan.order, channel(dialect=row.dialect))
            check_stream(row, api, stream, stream.feed(dumps(row.plain)) + stream.end())
        elif is_typed(row, api):
            answer = plan.adapter.whole(dumps(row.plain), plan.order, channel(dialect=row.dialect))
            strict(APIS[api].plain, body_of(answer))


CITATION = {"type": "page_location", "cited_text": "So.", "document_index": 0, "start_page_number": 1}
RESULT = {"type": "web_search_result", "url": "https://a.example", "title": "A", "encrypted_content": "x"}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "a\n"}}
CONTENT = [
    {"type": "redacted_thinking", "data": "x"},
    {"type": "thinking", "thinking": "Hm.", "signature": "sig"},
    SEARCH,
    {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [RESULT]},
    {"type": "text", "text": "It is so.", "citations": [CITATION]},
    {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}},
    {"type": "text", "text": "x" * 100_000},
]
WHOLE: Doc = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": CONTENT,
    "stop_reason": "pause_turn",
    "stop_sequence": None,
    "stop_details": None,
    "container": {"id": "c"},
    "context_management": {"applied_edits": []},
    "usage": {"input_tokens": 9, "output_tokens": 2},
}


@pytest.mark.parametrize("size", [7, 1 << 20])
def test_a_body_instead_of_a_stream_keeps_every_block(size: int) -> None:
    body, stream = dumps(WHOLE), MessagesRelay(AnthropicDialect()).stream(order(), channel())
    out = b"".join(stream.feed(body[start : start + size]) for start in range(0, len(body), size)) + stream.end()
    assert stream.state.reported is not None
    assert (stream.finished, stream.state.reported.input, stream.state.reported.output) == (True, 9, 2)
    assert json.loads(next(parts(out)))["message"]["usage"]["output_tokens"] == 0  # Cline adds up all reports
    assert put_together_message([*map(json.loads, parts(out + stream.tail(SPENT)))]).to_dict() == WHOLE
    *events, last = parts(out)
    assert max(map(len, events)) < 40_000
    ended = json.loads(last)
    assert (ended["delta"]["container"], ended["context_management"]) == ({"id": "c"}, {"applied_edits": []})


@pytest.mark.parametrize("content", [[], "", [{"type": "text", "text": ""}]])
def test_an_empty_body_instead_of_a_stream_has_a_block(content: object) -> None:
    stream = MessagesRelay(AnthropicDialect()).stream(order(), channel())
    out = stream.feed(dumps({**WHOLE, "content": content})) + stream.end() + stream.tail(SPENT)
    (block,) = put_together_message([*map(json.loads, parts(out))]).content
    assert block.to_dict() == {"type": "text", "text": ""}


def test_a_body_instead_of_a_stream_gets_what_it_lacks() -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "f"}
    stream = MessagesRelay(AnthropicDialect()).stream(order(), channel())
    out = stream.feed(dumps({"content": [call, "Hi"], "model": None})) + stream.end() + stream.tail(SPENT)
    message = put_together_message([*map(json.loads, parts(out))])
    assert (message.id, message.model, message.role) == ("chatcmpl-ours", "m", "assistant")
    assert (message.content[0].input, message.content[1].text) == ({}, "Hi")
    assert message.usage.output_tokens == stream.state.tally.tokens() > 4  # those of a call


def test_the_sdk_reads_a_native_response_that_lacks_pieces_and_parts() -> None:
    created, _, begun, *_, end, last = events_of(response(message("Hello")))
    stream = ResponsesRelay(OpenAIDialect()).stream(order(), channel())
    out = stream.feed(created + begun + end + last) + stream.tail(SPENT)
    assert b'"delta":"Hello"' in out
    put_together_response([*map(json.loads, parts(out))])


def test_the_sdk_reads_a_native_response_without_numbers() -> None:
    """As llama.cpp and Lemonade send it."""
    sent = b"".join(events_of(response(message("Hello"), function_call("f", '{"a":1}'))))
    bare = re.sub(rb'"(?:sequence_number|output_index|content_index)":\d,', b"", sent)
    stream = ResponsesRelay(OpenAIDialect()).stream(order(), channel())
    out = stream.feed(bare) + stream.tail(SPENT)
    docs = [json.loads(data) for data in parts(out)]
    put_together_response(docs)
    assert docs == [json.loads(data) for data in parts(sent)]
