"""Native streams: pieces that are read together count, and pass, as those that are opened one by one."""

import json
import random
import re
import time
from functools import partial
from itertools import count, pairwise
from typing import Any

import msgspec
import pytest

from gateway.domain.failure import AttemptFailed
from gateway.domain.screen import Screen
from gateway.domain.secret_search import needles
from gateway.domain.usage import NOTHING, Usage, UsageSource
from gateway.inbound.relay import NativeStream
from gateway.inbound.responses.native_events import PIECE_KINDS
from gateway.inbound.responses.reader import ResponsesReader
from gateway.inbound.responses.relay import ResponsesRelay
from gateway.upstream.openai.dialect import OpenAIDialect
from tests.fakes.responses import event, events_of, function_call, message, parsed, response
from tests.inbound.responses.rendering import order_of
from tests.upstream.makers import body_of, channel, error_of

KEY = "sk-upstream-canary-0123456789"
TEXT = "response.output_text.delta"
DELTAS = sorted(PIECE_KINDS)
PLACE = {"item_id": "msg_1", "output_index": 0, "content_index": 0, "summary_index": 0}


def stream() -> NativeStream:
    order = msgspec.structs.replace(order_of(), screen=Screen(needles([KEY])))
    return NativeStream(channel(), ResponsesReader(order, channel()))


@pytest.fixture
def made() -> NativeStream:
    return stream()


def delta(number: int, text: str = "a", kind: str = TEXT, **more: Any) -> bytes:
    return event(kind, number, **{**PLACE, "delta": text, "logprobs": [], "obfuscation": "aB3dE6gH", **more})


def fed(data: bytes, cuts: list[int]) -> tuple[bytes, tuple[object, ...]]:
    made = stream()
    edges = [0, *sorted(cuts), len(data)]
    out = b"".join(made.feed(data[a:b]) for a, b in pairwise(edges)) + made.end()
    facts = (made.events, made.started, made.finished, made.failure, made.state.tally.chars, made.state.tally.tokens())
    return out + made.tail(NOTHING), facts


def opened(data: bytes) -> bytes:
    """The same events, so written that each is opened by itself."""
    return data.replace(b'"delta":', b'"delta" :').replace(b"event: ", b"event:")


@pytest.mark.parametrize("seed", range(40))
def test_random_streams_pass_the_same_however_they_are_read(seed: int) -> None:
    chance = random.Random(seed)
    texts = ["a", " word", "ü😀", '\\ "\n', "😀"[0], "{", "\ud83d"]
    pieces = [
        delta(number, chance.choice(texts), chance.choice([TEXT] * 4 + DELTAS))
        for number in range(chance.randrange(80))
    ]
    events = events_of(response(message("Hello"), function_call("f", "{}")))
    for piece in pieces:
        events.insert(chance.randrange(4, len(events)), piece)  # the text has begun
    data = b"".join(events)
    cuts = [chance.randrange(len(data)) for _ in range(chance.choice([0, 0, 1, 5, 50]))]
    out, facts = fed(data, cuts)
    plain, same = fed(opened(data), [])
    assert (out, facts) == (data, same)
    assert plain == opened(data)


def test_fields_with_nothing_in_them_pass() -> None:
    events = b"".join(events_of(response(message("Hello"), function_call("f", "{}"))))
    nothing = b'data: {"response":null,"item":null,"part":null,'
    data = b"".join(
        each if b'"response":{' in each else each.replace(b"data: {", nothing) for each in events.splitlines(True)
    )
    assert fed(data, [])[0] == data


@pytest.mark.parametrize(("error", "is_within"), [({"message": "x"}, False), ({}, True), (None, True)])
def test_a_response_that_has_not_failed_passes_with_what_is_next_to_it(error: Any, *, is_within: bool) -> None:
    whole = response(message("Hello"), **({"error": error} if is_within else {}))
    last = event("response.completed", 9, response=whole, **({} if is_within else {"error": error}))
    data = b"".join([*events_of(whole)[:-1], last])
    assert fed(data, [])[0] == data


def test_signs_of_life_before_the_first_piece_do_not_pass(made: NativeStream) -> None:
    assert made.feed(b": hello\n\n") == b""
    assert made.feed(delta(0) + delta(1)) == delta(0) + delta(1)
    assert (made.started, made.events, made.comments) == (True, 2, 1)


@pytest.mark.parametrize("at", [0, 70, 149])
@pytest.mark.parametrize("where", ["item_id", "obfuscation", "unknown"])
def test_a_secret_beside_one_piece_among_many_does_not_pass(at: int, where: str) -> None:
    for secret in (KEY, KEY[6:20]):
        data = b"".join(delta(number, **({where: secret} if number == at else {})) for number in range(150))
        out = stream().feed(data)
        assert secret.encode() not in out
        found = [json.loads(part.partition(b"data: ")[2]) for part in out.split(b"\n\n") if part]
        assert [(doc["sequence_number"], doc["delta"]) for doc in found] == [(number, "a") for number in range(150)]


@pytest.mark.parametrize("where", ["unknown", "item_id", "type", "id", "status", "role", KEY])
@pytest.mark.parametrize("holder", ["", "part", "item"])
def test_a_secret_beside_the_frame_of_a_text_does_not_pass(holder: str, where: str) -> None:
    events = events_of(response(message("Hello")))
    frames = [json.loads(event.partition(b"data: ")[2]) for event in events[2:-1]]
    for secret in (KEY, KEY[6:20]):
        for doc in frames:
            target = doc.get(holder, {}) if holder else doc
            data = json.dumps({**doc, holder: {**target, where: secret}} if holder else {**doc, where: secret})
            out = stream().feed(f"event: {doc['type']}\ndata: {data}\n\n".encode())
            assert secret.encode() not in out


@pytest.mark.parametrize("number", [0, 1, -1])
@pytest.mark.parametrize("where", ["metadata", "instructions", "user", KEY])
def test_a_secret_that_one_of_the_three_responses_of_a_stream_has_does_not_pass(
    made: NativeStream, where: str, number: int
) -> None:
    docs = [json.loads(event.partition(b"data: ")[2]) for event in events_of(response(message("Hello")))]
    docs[number]["response"][where] = {"note": KEY}
    out = b"".join(made.feed(f"event: {doc['type']}\ndata: {json.dumps(doc)}\n\n".encode()) for doc in docs)
    out += made.tail(NOTHING)
    assert KEY.encode() not in out
    assert out.count(b'"response":') == 3


@pytest.mark.parametrize("bare", [False, True])
def test_events_with_their_type_only_as_their_name_get_it(*, bare: bool) -> None:
    """Clients read the type. Some relays write a bare response, too."""
    sent = [json.loads(event.partition(b"data: ")[2]) for event in events_of(response(message("Hello")))]
    made, data = stream(), b""
    for doc in sent:
        fields = {name: value for name, value in doc.items() if name not in ("type", "sequence_number")}
        fields = fields.get("response", fields) if bare else fields
        data += f"event: {doc['type']}\ndata: {json.dumps(fields)}\n\n".encode()
    out = made.feed(data) + made.end() + made.tail(NOTHING)
    assert (made.failure, made.state.reported) == (None, Usage(input=9, output=12, source=UsageSource.REPORTED))
    assert [json.loads(part.partition(b"data: ")[2]) for part in out.split(b"\n\n") if part] == sent


@pytest.mark.parametrize(
    ("holder", "sent", "added"),
    [
        ("item", {"type": "message", "role": "assistant"}, {"content": []}),
        ("item", {"type": "reasoning", "summary": None}, {"summary": []}),
        (
            "item",
            {"type": "message", "content": [{"type": "output_text"}]},
            {"content": [{"type": "output_text", "text": ""}]},
        ),
        ("item", {"type": "message", "content": [{"type": "output_text"}, 1]}, {}),
        ("item", {"type": "unknown", "summary": "x"}, {}),
        ("part", {"type": "output_text"}, {"text": ""}),
        ("part", {"type": "refusal", "text": "x"}, {"refusal": ""}),
    ],
)
def test_items_and_parts_get_the_lists_and_texts_that_they_lack(holder: str, sent: Any, added: dict[str, Any]) -> None:
    """Volcengine Ark and some relays leave out what is empty: Codex ignores such an item, and all of its pieces."""
    kinds = {"item": "response.output_item.added", "part": "response.content_part.added"}
    out = stream().feed(b"".join(event(kinds[holder], number, **{holder: sent}) for number in range(2)))
    assert [doc[holder] for doc in parsed(out)] == [{**sent, **added}] * 2


def test_events_without_numbers_get_these() -> None:
    """llama.cpp leaves them out, and ends no item before the last one's pieces. SDKs fail, or ignore such events."""
    sent = events_of(response(message("Hello"), function_call("f", "{}")))
    ends = [each for each in sent if b"output_item.done" in each]
    docs = parsed(b"".join([*(each for each in sent if each not in (*ends, sent[-1])), *ends, sent[-1]]))
    for number, doc in enumerate(docs):
        doc["sequence_number"] = number
    bare = [{name: value for name, value in doc.items() if "_index" not in name and name[0] != "s"} for doc in docs]
    data = b"".join(f"event: {doc['type']}\ndata: {json.dumps(doc)}\n\n".encode() for doc in bare)
    for cuts in ([], [*range(0, len(data), 7)]):
        assert parsed(fed(data, cuts)[0]) == docs


@pytest.mark.parametrize("left_out", [(b"content_part.added",), (b"output_item.added", b"content_part.added")])
def test_a_text_whose_item_or_part_did_not_begin_gets_their_beginning(left_out: tuple[bytes, ...]) -> None:
    """LiteLLM and sub2api leave them out after reasoning: OpenAI's SDK fails, opencode finds no text to add to."""
    item = {"type": "reasoning", "id": "rs_1", "summary": []}
    events = events_of(response(item, message("Hello")))
    whole = b"".join(events)
    data = b"".join(each for each in events if not any(name in each for name in left_out) or b"rs_1" in each)
    for size in (1, 9, 200, len(data)):
        assert parsed(fed(data, [*range(size, len(data), size)])[0]) == parsed(whole)


def test_items_with_one_place_get_their_own() -> None:
    sent = b"".join(events_of(response(message("Hello"), function_call("f", "{}"))))
    assert parsed(fed(sent.replace(b'"output_index":1', b'"output_index":0'), [])[0]) == parsed(sent)
    later_first = sent.replace(b'"output_index":0', b'"output_index":2')
    assert fed(later_first, [])[0] == later_first


def test_parts_that_are_counted_over_all_items_get_the_places_in_their_own() -> None:
    """vLLM begins with 1 after a reasoning, on which OpenAI's SDK fails."""
    item = {"type": "reasoning", "id": "rs_1", "summary": []}
    events = events_of(response(item, message("Hello")))
    events.insert(3, delta(3, "Hm", "response.reasoning_text.delta", item_id="rs_1"))
    data = b"".join(events)
    for part in (1, 7):
        head, mark, tail = data.partition(b"event: response.content_part.added")
        sent = head + mark + tail.replace(b'"content_index":0', b'"content_index":%d' % part)
        for size in (1, 9, 200, len(sent)):
            assert fed(sent, [*range(size, len(sent), size)])[0] == data


def test_a_second_part_after_the_beginning_of_a_call_keeps_its_place() -> None:
    events = events_of(response(message("Hello"), function_call("f", "{}")))
    said, part, called = (each for each in events if b"item.added" in each or b"part.added" in each)
    sent = events[0] + said + part + delta(3) + called + delta(4, content_index=1)
    assert stream().feed(sent) == sent


def test_ids_that_change_with_each_event_are_the_first() -> None:
    """Copilot's do (BerriAI/litellm #30071), and those of mistral.rs (EricLBuehler/mistral.rs #1944): SDKs fail."""
    numbers = count()
    data = b"".join(events_of({**response(message("Hello"), function_call("f", "{}")), "id": "resp_1"}))
    sent = re.sub(rb'"((?:resp|msg|fc)_1)"', lambda found: b'"%b_%d"' % (found[1], next(numbers)), data)
    first = {each[1]: each[0] for each in reversed(re.findall(rb'"((\w+_1)_\d+)"', sent))}
    same = re.sub(rb'"((?:resp|msg|fc)_1)"', lambda found: b'"%b"' % first[found[1]], data)
    for size in (1, 9, len(sent)):
        assert parsed(fed(sent, [*range(size, len(sent), size)])[0]) == parsed(same)
    unplaced = re.sub(rb'"output_index":\d,', b"", sent)
    assert parsed(fed(unplaced, [])[0]) == parsed(same)


def test_pieces_without_the_id_of_their_item_pass() -> None:
    data = b"".join(events_of(response(message("Hello"), function_call("f", "{}"))))
    sent = re.sub(rb'"item_id":"\w+",', b"", data)
    assert fed(sent, [])[0] == sent != data


def test_items_with_one_id_keep_their_places() -> None:
    sent = b"".join(events_of(response(message("Hello"), message("World"))))
    assert fed(sent, [])[0] == sent


@pytest.mark.parametrize("index", ["output_index", "content_index"])
def test_one_of_the_numbers_may_be_there(index: str) -> None:
    sent = parsed(delta(0) + delta(1, "b"))
    bare = [{name: value for name, value in doc.items() if name != index} for doc in sent]
    assert parsed(stream().feed(b"".join(f"data: {json.dumps(doc)}\n\n".encode() for doc in bare))) == sent


def test_a_call_without_an_id_has_that_of_its_result() -> None:
    """Vercel's AI SDK ignores a call without an id, as llama.cpp sends it."""
    call = function_call("f", "{}")
    bare = {name: value for name, value in call.items() if name != "id"}
    began = {"id": "resp_1", "object": "response", "status": "in_progress"}
    events = event("response.created", 0, response=began)
    events += event("response.output_item.added", 1, output_index=0, item=bare)
    events += event("response.function_call_arguments.delta", 2, output_index=0, item_id="call_1", delta="{}")
    events += event("response.output_item.done", 3, output_index=0, item=bare)
    docs = parsed(fed(events + event("response.completed", 4, response=response(bare)), [])[0])
    assert docs[0]["response"] == {**began, "created_at": 1, "model": "m", "output": []}
    whole = {**bare, "id": "call_1"}
    assert [doc["item"] for doc in docs if "item" in doc] == [whole, whole]
    assert docs[-1]["response"]["output"] == [whole]
    plain = ResponsesReader(order_of(), channel()).read_whole(json.dumps(response(bare)).encode())
    assert json.loads(plain) == response(whole)


def test_events_of_the_vendors_own_before_the_response_do_not_pass(made: NativeStream) -> None:
    """Relays of ChatGPT's plans send their limits first, on which OpenAI's SDK fails."""
    own = b'event: codex.rate_limits\ndata: {"type":"codex.rate_limits","rate_limits":{"allowed":true}}\n\n'
    sent = b"".join(events_of(response(message("Hello"))))
    assert fed(own + sent, [])[0] == sent
    assert made.feed(own + event("error", 0, error={"message": "The usage limit has been reached"})) == b""
    assert made.failure is not None
    begun, late = sent.split(b"\n\n", 1)
    assert fed(begun + b"\n\n" + own + late, [])[0] == begun + b"\n\n" + own + late


def test_reasoning_by_other_names_is_not_a_text_of_the_answer() -> None:
    """Open Responses names its pieces otherwise. LocalAI gives its parts the type of an answer's."""
    part = {"type": "reasoning_text", "text": "Hm"}
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "content": [part]}
    events = events_of(response(item, message("Hello")))
    events.insert(3, delta(3, "Hm", "response.reasoning_text.delta", item_id="rs_1"))
    data = b"".join(events)
    renamed = data.replace(b"response.reasoning_text.", b"response.reasoning.")
    for sent in (renamed, renamed.replace(b'"reasoning_text"', b'"output_text"', 2)):
        for size in (9, len(sent)):
            assert parsed(fed(sent, [*range(size, len(sent), size)])[0])[:-1] == parsed(data)[:-1]
    alone = b"".join(each for each in events if b"reasoning_text.delta" not in each)
    out = fed(alone.replace(b'"reasoning_text"', b'"output_text"', 2), [])[0]
    assert [doc["delta"] for doc in parsed(out) if doc["type"] == TEXT] == ["He", "llo"]
    assert [doc["delta"] for doc in parsed(out) if doc["type"] == "response.reasoning_text.delta"] == ["Hm"]


def test_pieces_without_a_text_do_not_pass() -> None:
    """sub2api sends such ones while the model reasons, on which OpenAI's SDK fails."""
    sent = events_of(response(message("Hello")))
    empty = [event(TEXT, 3, item_id="msg_1", output_index=0, content_index=0, **more) for more in ({}, {"delta": None})]
    assert fed(b"".join([*sent[:4], *empty, *sent[4:]]), [])[0] == b"".join(sent)


def test_the_number_after_the_last_piece_is_known(made: NativeStream) -> None:
    made.feed(delta(3) + delta(4) + delta(5))
    assert b'"sequence_number":6' in made.tail(NOTHING)


def test_items_that_only_the_last_event_has_are_counted(made: NativeStream) -> None:
    answer = {**response(message("Hello"), function_call("f", "{}")), "usage": None}
    made.feed(event("response.completed", 0, response=answer))
    assert (made.state.finish, made.state.reported, made.state.tally.calls, made.state.tally.chars) == (
        "tool_calls",
        None,
        1,
        8,
    )


@pytest.mark.parametrize(
    ("dropped", "blanked", "ends"),
    [
        (rb"output_item\.done", b"", ["msg_1", "{}", '{"x":1}']),
        (rb"output_item\.done.*call_2", b"", ["msg_1", "{}", '{"x":1}']),  # opencode tells of these
        (rb"arguments\.delta", rb'(?<="arguments":")(?:[^"\\]|\\.)+', ["msg_1", "{}", '{"x":1}']),
        (rb"output_item\.done.*call_2", b"(?<=msg_)1(?=.*content_index)", ["msg_1", "{}", '{"x":1}']),
    ],
    ids=["no ends", "no end of a call", "no arguments, as from OpenRouter", "other ids"],
)
def test_items_whose_ends_or_arguments_did_not_come_end_as_in_the_last_event(
    dropped: bytes, blanked: bytes, ends: list[str]
) -> None:
    calls = function_call("f", "{}"), function_call("g", '{"x":1}', "call_2", "fc_2")
    *begun, last = events_of(response(message("Hello"), *calls))
    begun = [each.replace(b'"output_index":', b'"output_index":1') for each in begun]  # from 10 on
    came = [re.sub(blanked, b"", each) for each in begun if not re.search(dropped, each.replace(b"\n", b" "))]
    out, _ = fed(b"".join([*came, last]), [])
    items = [each["item"] for each in parsed(out) if each["type"] == "response.output_item.done"]
    assert [item.get("arguments", item["id"]) for item in items] == ends
    kinds = ("response.output_item.added", "response.output_item.done")
    assert [[each["output_index"] for each in parsed(out) if each["type"] == kind] for kind in kinds] == [
        [10, 11, 12]
    ] * 2


def test_calls_that_have_other_ids_in_the_last_event_end_once() -> None:
    calls = function_call("f", "{}"), function_call("g", '{"x":1}', "call_2", "fc_2")
    *begun, last = events_of(response(message("Hello"), *calls))
    data = b"".join([*begun, re.sub(rb'"(fc|call)_(\d)"', rb'"\1_other\2"', last)])  # vLLM's pull request 47916
    assert fed(data, [])[0] == data


@pytest.mark.parametrize(
    ("kind", "ids", "end"),
    [
        ("custom_tool_call", {"id": "ctc_1", "call_id": "call_1"}, "x y"),
        ("mcp_call", {"id": "mcp_1"}, ""),  # the upstream makes it itself, and clients only show it
    ],
)
def test_the_input_of_any_call_of_a_client_is_taken_from_the_last_event(
    kind: str, ids: dict[str, str], end: str
) -> None:
    field = "input" if kind == "custom_tool_call" else "arguments"
    call = {"type": kind, **ids, "name": "f", field: "x y", "status": "completed"}
    *begun, last = events_of(response(message("Hello"), call))
    came = [each.replace(b'"x y"', b'""') for each in begun if kind.encode() not in each.split(b"\n")[0]]
    out, _ = fed(b"".join([*came, last]), [])
    items = [each["item"] for each in parsed(out) if each["type"] == "response.output_item.done"]
    assert [item.get(field, item["id"]) for item in items] == ["msg_1", end]


SEARCHED: list[dict[str, Any]] = [
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "a"}},
    {"type": "web_search_call", "id": "ws_2", "status": "completed", "action": {"type": "open_page", "url": "b"}},
    {"type": "web_search_call", "id": "ws_3", "status": "completed"},
    {"type": "file_search_call", "id": "fs_1", "status": "completed", "queries": ["c"]},
]
"""Two searches of the web, a page that was opened, which is free, and a search of files."""


@pytest.mark.parametrize("streamed", [False, True])
def test_searches_are_counted_by_their_items_where_the_vendor_has_no_counts(*, streamed: bool) -> None:
    answer = response(*SEARCHED, message("Hello"))
    reader = ResponsesReader(order_of(), channel())
    if streamed:
        made = NativeStream(channel(), reader)
        made.feed(event("response.created", 0, response={**answer, "status": "in_progress", "output": []}))
        made.feed(event("response.completed", 1, response=answer))
    else:
        reader.read_whole(json.dumps(answer).encode())
    assert reader.reported is not None
    assert dict(reader.reported.parts) == {"searches": 2, "file_searches": 1}


def test_the_vendors_own_counts_of_searches_come_first() -> None:
    reader = ResponsesReader(order_of(), channel())
    answer = response(*SEARCHED, message("Hello"))
    counts = {"service_tier": "flex", "tool_usage": {"web_search": {"num_requests": 7}}}
    reader.read_whole(json.dumps({**answer, **counts}).encode())
    assert reader.reported is not None
    assert dict(reader.reported.parts) == {"searches": 7}
    assert reader.marks == ("upstream_extra=web_search:7,service_tier:flex",)


@pytest.mark.parametrize(("status", "finish"), [("completed", "stop"), ("incomplete", "length")])
def test_a_response_that_is_done_has_the_name_of_its_end(made: NativeStream, status: str, finish: str) -> None:
    events = events_of(response(message("Hello"), status=status))
    made.feed(b"".join(events[:-1]) + events[-1].replace(f"response.{status}".encode(), b"response.done"))
    assert (made.finished, made.state.finish) == (True, finish)
    assert made.tail(NOTHING) == events[-1]


@pytest.mark.parametrize("kind", ["response.cancelled", "response.done"])
def test_a_response_that_the_upstream_cancelled_has_failed(made: NativeStream, kind: str) -> None:
    cancelled = {**response(message("Hel")), "status": "cancelled"}
    made.feed(event("response.created", 0, response=response()) + event(kind, 1, response=cancelled))
    assert made.failure is not None
    assert '"type":"response.failed"' in made.failure.verbatim.apply(str)
    with pytest.raises(AttemptFailed):
        ResponsesReader(order_of(), channel()).read_whole(json.dumps(cancelled).encode())


def test_a_stream_that_is_cut_short_ends_as_incomplete_with_what_was_used(made: NativeStream) -> None:
    begun = {**response(message("Hello")), "status": "in_progress", "output": [], "usage": None}
    made.feed(event("response.created", 0, response=begun) + delta(1))
    last = json.loads((made.cut_short() + made.tail(Usage(input=3, output=2))).partition(b"data: ")[2])
    ended = last["response"]
    assert (last["type"], last["sequence_number"], made.state.finish) == ("response.incomplete", 2, "length")
    assert (ended["status"], ended["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert (ended["usage"]["input_tokens"], ended["usage"]["output_tokens"]) == (3, 2)


def test_more_texts_without_items_than_real_answers_have_are_refused_before_all_are_compared(
    made: NativeStream,
) -> None:
    """30,000 texts took a second of the event loop at the end of the stream."""
    text = partial(event, "response.output_text.done", content_index=0, text="x")
    begun = event("response.created", 0, response=response(status="in_progress"))
    made.feed(begun + b"".join(text(i + 2, output_index=i, item_id=f"i{i}") for i in range(30_000)))
    end, busy = event("response.completed", 30_002, response=response()), time.thread_time()
    assert made.feed(end) == b""
    assert made.failure is not None
    assert time.thread_time() - busy < 0.4


@pytest.mark.parametrize("size", [7, 100_000])
def test_events_without_blank_lines_between_them_get_these(size: int) -> None:
    data = b"".join(events_of(response(message("Hello"))))
    came = data.replace(b"\n\n", b"\n")
    out, facts = fed(came, [*range(size, len(came), size)])
    assert (out, facts) == (data, fed(data, [])[1])


@pytest.mark.parametrize("whole", [False, True])
def test_words_that_keep_the_connection_open_and_half_characters_lose_nothing(*, whole: bool) -> None:
    data = b"".join(events_of(response(message("HellX")))).replace(b"X", b"\xf0\x9f")
    kept = b'data: ping\n\ndata:\n\ndata: ""\n\ndata: []\n\nevent: ping\ndata: 12:00\n\n'
    came = data.replace(b"event: response.output_text.delta", kept + b"event: response.output_text.delta")
    body = body_of(ResponsesRelay(OpenAIDialect()).whole(came, order_of(), channel())) if whole else fed(came, [])[0]
    assert "Hell\N{REPLACEMENT CHARACTER}" in body.decode()
    assert b"ping" not in body


BEGUN = event("response.created", 0, response={**response(), "status": "in_progress", "output": []}) + delta(1)
LATE = {"code": "rate_limit_exceeded", "message": "Slow down."}


@pytest.mark.parametrize(
    "failure",
    [
        event("response.error", 2, error=LATE),
        event("error", 2, **LATE),
        json.dumps({"error": LATE}).encode(),
        event("response.completed", 2, response={**response(), "status": "failed", "error": LATE}),
        event("response.completed", 2, response={**response(), "error": LATE}),
    ],
)
def test_a_failure_in_the_middle_keeps_its_words(made: NativeStream, failure: bytes) -> None:
    made.feed(BEGUN + failure)
    made.end()
    assert made.failure is not None
    assert error_of(made.failure).code == "upstream_rate_limited"


@pytest.mark.parametrize("error", [{}, "", False])
def test_an_empty_error_is_not_a_failure(made: NativeStream, error: object) -> None:
    last = {**response(message("Hello")), "error": error}
    made.feed(BEGUN + event("response.completed", 2, response=last))
    assert (made.failure, made.finished) == (None, True)
    answer = ResponsesRelay(OpenAIDialect()).whole(json.dumps(last).encode(), order_of(), channel())
    assert "Hello" in body_of(answer).decode()


@pytest.mark.parametrize("output", [[], None])
def test_an_error_beside_an_empty_output_is_a_failure(output: object) -> None:
    reader = ResponsesReader(order_of(), channel())
    with pytest.raises(AttemptFailed) as raised:
        reader.read_whole(json.dumps({**response(), "error": LATE, "output": output}).encode())
    assert error_of(raised.value.failure).code == "upstream_rate_limited"


@pytest.mark.parametrize("kind", ["response.completed", "response.incomplete", "response.done"])
@pytest.mark.parametrize("left_out", [{"output": []}, {"output": None}, {}], ids=["empty", "null", "missing"])
@pytest.mark.parametrize("places", [(1, 0), (0, 0), (None, None)])
def test_items_that_the_last_event_leaves_out_are_those_of_the_stream(
    made: NativeStream, kind: str, left_out: dict[str, Any], places: tuple[int | None, ...]
) -> None:
    items = [SEARCHED[0], message("Hello")] if places != (1, 0) else [message("Hello"), SEARCHED[0]]
    ends = [
        event("response.output_item.done", 2, item=item, output_index=place)
        for item, place in zip(items, places, strict=True)
    ]
    bare = {name: value for name, value in response().items() if name != "output"}
    sent = made.feed(BEGUN + b"".join(ends) + event(kind, 4, response={**bare, **left_out}))
    done = [doc for doc in parsed(sent) if doc["type"] == "response.output_item.done"]
    assert [doc["item"]["id"] for doc in done] == [item["id"] for item in items]
    assert [doc["output_index"] for doc in done] == ([1, 0] if places == (1, 0) else [0, 1])
    last = json.loads(made.tail(NOTHING).partition(b"data: ")[2])
    assert [item["type"] for item in last["response"]["output"]] == ["web_search_call", "message"]
    assert made.reader.reported is not None
    assert dict(made.reader.reported.parts) == {"searches": 1}


def test_a_last_event_with_items_passes_unchanged() -> None:
    data = BEGUN + event("response.output_item.added", 2, item=function_call("f", ""), output_index=1)
    data += event("response.function_call_arguments.delta", 3, delta="{}", output_index=1)
    data += event("response.output_item.done", 4, item=function_call("f", "{}"), output_index=1)
    data += event("response.completed", 5, response=response(message("Hello")))
    assert fed(data, [])[0] == data


CREATED, _, ADDED, PART, _, _, WHOLE_TEXT, PART_END, END, _ = events_of(response(message("Hello")))
UNTYPED_TEXT = WHOLE_TEXT.replace(b'"type":"response.output_text.done",', b"")
TEXT_AND_KEY = WHOLE_TEXT.replace(b'"item_id":', b'"x":"%b","item_id":' % KEY.encode())


@pytest.mark.parametrize(
    "came",
    [
        pytest.param([WHOLE_TEXT], id="a whole text"),
        pytest.param([UNTYPED_TEXT, END], id="a whole text with its type only as its name"),
        pytest.param([TEXT_AND_KEY, END], id="a whole text next to a secret"),
        pytest.param([END], id="the end of an item"),
        pytest.param([ADDED, PART, WHOLE_TEXT, PART_END, END], id="all but pieces"),
        pytest.param([ADDED, END], id="an item without its parts"),
        pytest.param([ADDED, PART, PART_END, END], id="a part without its text"),
        pytest.param([each.replace(b'"output_index":0', b'"x":0') for each in (ADDED, WHOLE_TEXT, END)], id="no index"),
        pytest.param([], id="only the last event"),
    ],
)
@pytest.mark.parametrize("lists_items", [False, True])
def test_a_text_without_pieces_is_sent_as_one_piece(came: list[bytes], *, lists_items: bool) -> None:
    listed = [message("Hello")] if lists_items or not came else []
    last = event("response.completed", 9, response=response(*listed))
    sent, _ = fed(b"".join([CREATED, *came, last]), [])
    events = [json.loads(part.partition(b"data: ")[2]) for part in sent.split(b"\n\n")[:-1]]
    assert [each["delta"] for each in events if each["type"] == TEXT] == ["Hello"]
    kinds = [each["type"] for each in events]
    assert kinds.count("response.output_item.added") == kinds.count("response.output_item.done") == 1
    assert kinds.count("response.content_part.added") <= 1
    assert kinds.count("response.output_text.done") == 1
    assert kinds.index("response.output_item.added") < kinds.index(TEXT) < kinds.index("response.output_item.done")
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == "Hello"


def test_a_call_that_begins_with_its_arguments_needs_no_pieces() -> None:
    call = function_call("f", '{"x":1}')
    data = BEGUN + event("response.output_item.added", 2, item=call, output_index=0)
    data += event("response.function_call_arguments.done", 3, arguments='{"x":1}', output_index=0)
    data += event("response.output_item.done", 4, item=call, output_index=0)
    data += event("response.completed", 5, response=response(call))
    assert fed(data, [])[0] == data


def test_the_calls_of_a_stream_whose_items_are_only_in_its_last_event_are_its_finish(made: NativeStream) -> None:
    called = event("response.function_call_arguments.delta", 2, delta="{}", output_index=1)
    made.feed(
        BEGUN + called + event("response.completed", 3, response=response(message("a"), function_call("f", "{}")))
    )
    assert (made.state.finish, made.state.tally.calls, made.state.tally.chars) == ("tool_calls", 1, 4)


@pytest.mark.parametrize("kind", ["response.output_item.added", TEXT, "response.completed"])
def test_events_without_their_fields_do_not_crash(made: NativeStream, kind: str) -> None:
    made.feed(BEGUN + event(kind, 2))
    made.end()
    assert made.failure is not None
    assert error_of(made.failure).code == "upstream_stream_truncated"


def test_an_error_under_the_name_of_a_piece_is_an_error(made: NativeStream) -> None:
    made.feed(BEGUN + b'event: response.output_text.delta\ndata: {"type":"error","delta":"Slow down."}\n\n')
    assert made.reader.reported_error is not None
