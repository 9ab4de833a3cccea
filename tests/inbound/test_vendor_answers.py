"""Every answer of the field means the same in every API, plain and streamed, at every split."""

import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from gateway.domain.call import FailureKind
from gateway.domain.channel import Dialect
from gateway.domain.failure import AttemptFailed
from gateway.domain.usage import Usage
from gateway.inbound.api import AttemptPlan, InboundApi
from gateway.inbound.chat.api import CHAT
from gateway.inbound.messages.api import MESSAGES
from gateway.inbound.ollama.api import OLLAMA_CHAT
from gateway.inbound.responses.api import RESPONSES
from gateway.upstream.adapter import AnswerStream, WholeAnswer
from gateway.upstream.dialects import new_adapter
from tests.cases.answers import chunks_in
from tests.cases.same import PLAIN, STREAMED
from tests.cases.vendor_answers import ROWS, SPOKEN, Doc, Row, called, completion, said
from tests.fakes.replies import dumps
from tests.fakes.responses import parsed
from tests.upstream.makers import body_of, channel, error_of, order_of

APIS: dict[str, InboundApi] = {"chat": CHAT, "messages": MESSAGES, "responses": RESPONSES, "ollama": OLLAMA_CHAT}
TURNS: Doc = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
ASKED: dict[str, Doc] = {
    "chat": TURNS,
    "messages": {**TURNS, "max_tokens": 100},
    "responses": {"model": "m", "input": "Hi"},
    "ollama": TURNS,
}
SPENT = Usage(input=9, output=2)
FINISH = {
    "chat": {},
    "messages": {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"},
    "responses": {
        "stop": "completed",
        "tool_calls": "completed",
        "length": "incomplete",
        "content_filter": "incomplete",
    },
    "ollama": {"stop": "stop", "tool_calls": "stop", "content_filter": "stop"},
}


UNTOLD = ("no_done", "assembled", "block_dropped", "medium_dropped", "citation_dropped")
"""Marks that rows do not name, because they depend on the API."""


@dataclass
class Said:
    """What a client reads."""

    text: str = ""
    reasoning: str = ""
    calls: list[list[str]] = field(default_factory=list)
    finish: str = ""
    image: str = ""
    source: str = ""

    def add_message(self, message: Doc) -> None:
        """Of chat completions, or a delta of one. Images and citations are in the vendor's own form."""
        self.text += message.get("content") or ""
        self.reasoning += message.get("reasoning_content") or message.get("reasoning") or ""
        for call in message.get("tool_calls") or ():
            function = call["function"]
            if "id" in call:
                assert isinstance(call["id"], str)
                self.calls.append([function["name"], function["arguments"]])
            else:
                self.calls[call["index"]][0] += function.get("name", "")
                self.calls[call["index"]][1] += function["arguments"]
        for image in message.get("images") or ():
            match image:
                case {"image_url": {"url": url}} | {"url": url} | {"b64_json": url} | str(url):
                    self.image = url.rpartition(",")[2]
        for annotation in message.get("annotations") or ():
            self.source = annotation["url_citation"]["url"]
        self.source = [self.source, *message.get("citations", ())][-1]

    def add_block(self, block: Doc) -> None:
        """Of a message."""
        match block["type"]:
            case "text":
                self.text += block["text"]
                for citation in block.get("citations") or ():
                    self.source = citation.get("url") or citation["source"]
            case "thinking":
                self.reasoning += block["thinking"]
            case "tool_use":
                self.calls.append([block["name"], compact(block["input"])])
            case "image":
                self.image = block["source"]["data"]

    def add_item(self, item: Doc) -> None:
        """Of a response."""
        match item["type"]:
            case "message":
                for part in item["content"]:
                    self.text += part["text"]
                    self.source = [self.source, *(found["url"] for found in part["annotations"])][-1]
            case "reasoning":
                self.reasoning += "".join(part["text"] for part in item.get("content") or item["summary"])
            case "function_call":
                self.calls.append([item["name"], item["arguments"]])
            case "image_generation_call":
                self.image = item["result"]

    def add_line(self, line: Doc) -> None:
        """Of Ollama's."""
        message = line["message"]
        self.text += message["content"]
        self.reasoning += message.get("thinking", "")
        self.calls += [
            [c["function"]["name"], compact(c["function"]["arguments"])] for c in message.get("tool_calls", ())
        ]
        self.image = [self.image, *message.get("images", ())][-1]


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def read_chat(data: bytes, *, streamed: bool) -> Said:
    said = Said()
    for doc in chunks_in(data) if streamed else [json.loads(data)]:
        for choice in doc["choices"]:
            assert not (streamed and said.finish)
            said.add_message(choice["delta" if streamed else "message"])
            said.finish = choice["finish_reason"] or said.finish
    return said


def read_messages(data: bytes, *, streamed: bool) -> Said:
    said, blocks = Said(), {}
    if not streamed:
        message = json.loads(data)
        blocks, said.finish = dict(enumerate(message["content"])), message["stop_reason"]
    for part in data.split(b"\n\n") if streamed else ():
        found = json.loads(part.partition(b"data: ")[2] or b"{}")
        match found.get("type"):
            case "content_block_start":
                blocks[found["index"]] = {**found["content_block"], "json": ""}
            case "content_block_delta":
                add_delta(blocks[found["index"]], found["delta"])
            case "content_block_stop":
                block = blocks[found["index"]]
                if block["json"]:
                    block["input"] = json.loads(block["json"])
            case "message_delta":
                said.finish = found["delta"]["stop_reason"]
    for block in blocks.values():
        said.add_block(block)
    return said


def add_delta(block: Doc, piece: Doc) -> None:
    match piece["type"]:
        case "text_delta":
            block["text"] += piece["text"]
        case "thinking_delta":
            block["thinking"] += piece["thinking"]
        case "input_json_delta":
            block["json"] += piece["partial_json"]
        case "citations_delta":
            block.setdefault("citations", []).append(piece["citation"])


def read_responses(data: bytes, *, streamed: bool) -> Said:
    found = parsed(data)[-1]["response"] if streamed else json.loads(data)
    said = Said(finish=found["status"])
    for item in found["output"]:
        said.add_item(item)
    return said


def read_ollama(data: bytes, *, streamed: bool) -> Said:
    said = Said()
    for line in data.splitlines():
        found = json.loads(line)
        said.add_line(found)
        said.finish = found.get("done_reason", said.finish)
    return said


READERS = {"chat": read_chat, "messages": read_messages, "responses": read_responses, "ollama": read_ollama}


def planned(api: str, dialect: Dialect, *, stream: bool, lacks_api: bool = True) -> AttemptPlan:
    """How a channel of a dialect is called."""
    spoken, made = APIS[api], channel(dialect=dialect)
    order = order_of(spoken, {**ASKED[api], "stream": stream})
    return spoken.plan(order, made, new_adapter(dialect), lacks_api=lacks_api)


def check(row: Row, api: str, data: bytes, *, streamed: bool) -> None:
    """What the client reads is what the row means."""
    found = READERS[api](data, streamed=streamed)
    source = row.source if api != "ollama" else ""
    expected = Said(
        row.text,
        row.reasoning,
        [list(call) for call in row.calls],
        FINISH[api].get(row.finish, row.finish),
        row.image,
        source,
    )
    if row.own_form and api == "chat":
        expected.source, expected.image = found.source, found.image
    assert found == expected


def check_facts(row: Row, answer: AnswerStream | WholeAnswer) -> None:
    """The record has what the row says."""
    reported = answer.state.reported
    if row.used is not None:
        assert (reported and (reported.input, reported.output)) == row.used
    assert tuple(mark for mark in answer.state.marks if mark not in UNTOLD) == row.marks


def fed(row: Row, api: str, *sizes: int) -> tuple[AnswerStream, bytes, bool]:
    """A stream in pieces of these sizes; whether it passed as it came."""
    plan = planned(api, row.dialect, stream=True)
    stream, out, data = plan.adapter.stream(plan.order, channel(dialect=row.dialect)), b"", row.stream
    for size in sizes:
        out, data = out + stream.feed(data[:size]), data[size:]
    out += stream.feed(data) + stream.end()
    return stream, out, plan.native and api != "chat"


APIS_OF = pytest.mark.parametrize("api", APIS)


@APIS_OF
@pytest.mark.parametrize("row", [row for row in ROWS if row.stream], ids=lambda row: row.name)
def test_a_stream_means_what_it_says(row: Row, api: str) -> None:
    stream, out, native = fed(row, api)
    if row.error:
        assert stream.failure is not None
        assert error_of(stream.failure).code == row.error
        assert row.used in (None, stream.state.reported and (stream.state.reported.input, stream.state.reported.output))
        return
    assert (stream.finished, stream.failure) == (True, None)
    check_facts(row, stream)
    if not native:
        tail = stream.tail(stream.state.reported or SPENT)
        check(row, api, out + tail, streamed=True)


@APIS_OF
@pytest.mark.sampled(4)
@pytest.mark.parametrize("row", [row for row in ROWS if row.stream], ids=lambda row: row.name)
def test_a_stream_split_anywhere_means_the_same(row: Row, api: str) -> None:
    uncut, whole, _ = fed(row, api)
    for cut in range(len(row.stream)):
        stream, out, native = fed(row, api, cut)
        assert bool(stream.failure) == bool(row.error)
        assert stream.state.reported == uncut.state.reported
        if not native and not row.error and api != "ollama":
            assert READERS[api](out + stream.tail(SPENT), streamed=True) == READERS[api](
                whole + stream.tail(SPENT), streamed=True
            )


@APIS_OF
@pytest.mark.parametrize(
    ("row", "body"),
    [
        pytest.param(row, body, id=f"{row.name}, {form}")
        for row in ROWS
        for form, body in (("plain", row.plain and dumps(row.plain)), ("a stream where none was requested", row.stream))
        if body
    ],
)
def test_a_whole_answer_means_what_it_says(row: Row, body: bytes, api: str) -> None:
    plan = planned(api, row.dialect, stream=False)
    if row.error:
        with pytest.raises(AttemptFailed):
            plan.adapter.whole(body, plan.order, channel(dialect=row.dialect))
        return
    answer = plan.adapter.whole(body, plan.order, channel(dialect=row.dialect))
    check_facts(row, answer)
    check(row, api, body_of(answer), streamed=False)


@APIS_OF
@pytest.mark.parametrize("pretty", [False, True])
@pytest.mark.parametrize("row", [row for row in ROWS if row.plain and not row.error], ids=lambda row: row.name)
def test_a_plain_answer_where_a_stream_was_requested_means_the_same(row: Row, api: str, *, pretty: bool) -> None:
    plan = planned(api, row.dialect, stream=True)
    stream = plan.adapter.stream(plan.order, channel(dialect=row.dialect))
    body = json.dumps(row.plain, indent=2).encode() if pretty else dumps(row.plain)
    out = stream.feed(body) + stream.end()
    assert stream.finished
    check(row, api, out + stream.tail(stream.state.reported or SPENT), streamed=True)


@APIS_OF
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("dialect", PLAIN)
def test_a_text_that_is_not_utf8_is_not_lost(dialect: Dialect, api: str, *, streamed: bool) -> None:
    came = (STREAMED if streamed else PLAIN)[dialect].replace(b"look.", b"l\xf0\x9f.")
    plan = planned(api, dialect, stream=streamed)
    if streamed:
        stream = plan.adapter.stream(plan.order, channel(dialect=dialect))
        sent = stream.feed(came) + stream.end() + stream.tail(SPENT)
    else:
        sent = body_of(plan.adapter.whole(came, plan.order, channel(dialect=dialect)))
    assert READERS[api](sent, streamed=streamed).text == "I l\N{REPLACEMENT CHARACTER}."


@APIS_OF
@pytest.mark.parametrize("kept", ["data: \n\n", 'data: ""\n\n', "data: []\n\n", "event: ping\ndata: 12:00\n\n"])
@pytest.mark.parametrize("dialect", STREAMED)
def test_events_that_keep_a_connection_open_change_nothing(dialect: Dialect, api: str, kept: str) -> None:
    came = STREAMED[dialect].replace(b"\n\n", b"\n\n" + kept.encode())
    found = {}
    for data in (STREAMED[dialect], came):
        stream, out, _ = fed(Row("", dialect, data), api)
        assert (stream.finished, stream.failure) == (True, None)
        found[data] = READERS[api](out + stream.tail(SPENT), streamed=True)
    assert found[came] == found[STREAMED[dialect]]


@APIS_OF
@pytest.mark.parametrize(
    ("dialect", "sent"),
    [
        (Dialect.OPENAI, completion(said("deep"))),
        (Dialect.GEMINI, {"candidates": [{"finish_reason": "STOP", "content": "deep"}]}),
    ],
)
def test_deeply_nested_parts_do_not_crash(dialect: Dialect, sent: Doc, api: str) -> None:
    plan = planned(api, dialect, stream=False)
    for depth in (300, 600, 900):
        deep = dumps(sent).replace(b'"deep"', b'{"parts":[' * depth + b'"Hi"' + b"]}" * depth)
        with suppress(AttemptFailed):
            plan.adapter.whole(deep, plan.order, channel(dialect=dialect))


@pytest.mark.parametrize(
    ("mark", "sent"),
    [
        ("medium_dropped", completion({**said("Hi"), "audio": SPOKEN})),
        ("medium_dropped", completion(said("Hi"), images=[{"image_url": "https://a.example/1.png"}])),
        ("citation_dropped", completion({**said("Hi"), "citations": [{"sources": [{"type": "document", "id": "d"}]}]})),
        (
            "citation_dropped",
            completion({**said("Hi"), "provider_specific_fields": {"citations": [[{"cited_text": "H"}]]}}),
        ),
        ("citation_dropped", completion({**said("Hi"), "annotations": [{"type": "file", "file": {"hash": "x"}}]})),
    ],
)
def test_what_a_translation_leaves_out_is_marked(mark: str, sent: Doc) -> None:
    for api, marks in (("messages", (mark,)), ("chat", ())):  # native chats get it
        plan = planned(api, Dialect.OPENAI, stream=False)
        assert plan.adapter.whole(dumps(sent), plan.order, channel(dialect=Dialect.OPENAI)).state.marks == marks


def test_a_source_is_marked_as_left_out_where_an_api_has_no_place_for_it(*, stream: bool) -> None:
    row = next(row for row in ROWS if row.name == "an annotation")
    if stream:
        marks = fed(row, "ollama")[0].state.marks
    else:
        plan = planned("ollama", row.dialect, stream=False)
        marks = plan.adapter.whole(dumps(row.plain), plan.order, channel(dialect=row.dialect)).state.marks
    assert marks == ("citation_dropped",)


@pytest.mark.parametrize("row_name", ["two sources and two images", "two annotations and two images"])
def test_lists_of_a_chat_stream_are_numbered(row_name: str) -> None:
    """OpenAI's SDK puts lists together by index, and fails at the second item that has none."""
    row = next(row for row in ROWS if row.name == row_name)
    deltas = [doc["choices"][0]["delta"] for doc in chunks_in(fed(row, "chat")[1])]
    for name in ("annotations", "images"):
        assert [item["index"] for delta in deltas for item in delta.get(name, ())] == [0, 1]


@pytest.mark.parametrize(("api", "place"), [("messages", "content"), ("ollama", "message")])
def test_arguments_that_were_cut_off_stay_readable_where_they_are_an_object(api: str, place: str) -> None:
    plan = planned(api, Dialect.OPENAI, stream=False)
    cut = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":'}}
    body = dumps(completion(called(cut), "length"))
    answer = plan.adapter.whole(body, plan.order, channel(dialect=Dialect.OPENAI))
    assert (
        json.loads(body_of(answer))[place]
        == {
            "content": [{"type": "tool_use", "id": "c1", "name": "f", "input": {"invalid_arguments": '{"a":'}}],
            "message": {
                "role": "assistant",
                "content": "",
                "tool_calls": [
                    {"id": "c1", "function": {"index": 0, "name": "f", "arguments": {"invalid_arguments": '{"a":'}}}
                ],
            },
        }[place]
    )


@pytest.mark.parametrize("api", ["messages", "ollama"])
def test_numbers_in_arguments_that_are_not_json_are_null_where_they_are_an_object(api: str) -> None:
    plan = planned(api, Dialect.OPENAI, stream=False)
    odd = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":NaN,"b":[-Infinity,1]}'}}
    answer = plan.adapter.whole(dumps(completion(called(odd))), plan.order, channel(dialect=Dialect.OPENAI))
    assert b'{"a":null,"b":[null,1]}' in body_of(answer)


@pytest.mark.parametrize(("api", "dialect"), [("messages", Dialect.ANTHROPIC), ("responses", Dialect.OPENAI)])
def test_a_chat_in_place_of_the_native_answer_reaches_no_client(api: str, dialect: Dialect) -> None:
    """Another channel can still answer."""
    plan = planned(api, dialect, stream=True, lacks_api=False)
    stream = plan.adapter.stream(plan.order, channel(dialect=dialect))
    assert stream.feed(STREAMED[Dialect.OPENAI]) + stream.end() == b""
    assert (stream.state.began, stream.failure is not None) == (False, True)


@pytest.mark.parametrize(("api", "dialect"), [("messages", Dialect.ANTHROPIC), ("responses", Dialect.OPENAI)])
def test_an_error_without_a_type_in_place_of_the_native_answer_says_what_failed(api: str, dialect: Dialect) -> None:
    plan = planned(api, dialect, stream=True, lacks_api=False)
    stream = plan.adapter.stream(plan.order, channel(dialect=dialect))
    assert stream.feed(b'data: {"error":{"message":"insufficient_quota","code":429}}\n\n') + stream.end() == b""
    assert stream.failure is not None
    assert stream.failure.kind is FailureKind.QUOTA
