"""Streams of chat completions, damaged, with templates and without; see ``test_dialects`` too."""

import json
import tracemalloc
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from gateway.domain.sse import is_stream
from gateway.domain.usage import NOTHING, Usage, UsageSource, as_object
from gateway.inbound.chat.native import NativeChatStream
from tests.cases.answers import Answer, Doc, chunks_in, said_in
from tests.cases.streams import GOOD, HI, ROLE, STOP, STREAMS, USAGE, Case
from tests.fakes.replies import DONE, choice, chunk, delta, dumps, event, tool_call, usage, whole
from tests.upstream.makers import TWO_CHOICES, attempt_fails, body_of, native_stream, native_whole, order, outcome


def _stream(*, include_usage: bool = False, model: str = "m") -> NativeChatStream:
    return native_stream(order(TWO_CHOICES, model=model, include_usage=include_usage))


def _fed(data: bytes, size: int) -> tuple[NativeChatStream, bytes]:
    stream = _stream()
    out = [stream.feed(data[start : start + size]) for start in range(0, len(data), size)]
    return stream, b"".join(out) + stream.end()


@pytest.mark.parametrize("case", STREAMS, ids=lambda case: case.name)
def test_templates_change_nothing(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    with_templates = outcome(_stream(), case.came)
    stream, _ = _fed(case.came, len(case.came) or 1)
    monkeypatch.setattr("gateway.inbound.event_stream.MAX_TEMPLATES", 0)
    assert outcome(_stream(), case.came) == with_templates
    plain, _ = _fed(case.came, len(case.came) or 1)
    assert (plain.events, plain.comments) == (stream.events, stream.comments)
    assert plain.state.tally.tokens() == stream.state.tally.tokens()


DAMAGE = [
    *(b'"', b"\\", b"\n\n", b"\n", b"\r", b"data: ", b"{", b"}", b"[", b"]", b",", b"null", b"\xff", b"\\ud83d"),
    b'"usage":{},',
]


@given(
    st.sampled_from(STREAMS),
    st.lists(st.tuples(st.floats(0, 1), st.sampled_from(DAMAGE), st.integers(0, 40)), min_size=1, max_size=4),
    st.lists(st.integers(1, 60), max_size=30),
)
def test_damage_never_raises_and_splits_still_change_nothing(
    case: Case, damage: list[tuple[float, bytes, int]], sizes: list[int]
) -> None:
    data = bytearray(case.came)
    for place, piece, cut in damage:
        at = round(place * len(data))
        data[at : at + cut] = piece
    whole = outcome(_stream(), bytes(data))
    assert outcome(_stream(), bytes(data), *sizes) == whole
    chunks_in(whole[0])


def test_usage_after_a_failure_is_ignored_whether_or_not_it_comes_in_the_same_read() -> None:
    case = next(case for case in STREAMS if case.name == "usage: asked for")
    middle = len(case.came) // 8
    damaged = case.came[:middle] + b'"' + case.came[middle:]
    whole = outcome(_stream(), damaged)
    assert whole[2] == "upstream_bad_response"
    assert whole[3] is None
    assert outcome(_stream(), damaged, 400) == whole


@pytest.fixture
def stream() -> NativeChatStream:
    return _stream()


def test_nothing_is_held_back_or_changed(stream: NativeChatStream) -> None:
    assert [stream.feed(part) for part in (ROLE, HI, HI, STOP, USAGE)] == [ROLE, HI, HI, STOP, b""]


def test_a_monstrous_id_is_replaced(stream: NativeChatStream) -> None:
    out = stream.feed(HI.replace(b"chatcmpl-1", b"x" * 1_000_000))
    assert chunks_in(out)[0]["id"] == "chatcmpl-ours"
    assert len(stream.state.upstream_id) == 200


def test_fields_that_are_not_known_pass() -> None:
    doc = chunk({**delta("x", odd=[1, 1.0, 1e-7]), "logprobs": {"content": []}}, service_tier="flex")
    assert chunks_in(_stream().feed(ROLE + event(doc)))[1] == {**doc, "model": "m"}


def test_the_usage_chunk_comes_only_if_asked_for() -> None:
    assert _stream().tail(Usage(input=9, output=2, source=UsageSource.REPORTED)) == DONE


def test_the_usage_chunk_is_the_upstreams_own() -> None:
    stream = _stream(include_usage=True)
    stream.feed(GOOD.replace(DONE, event(chunk(usage={**_report(9, 2), "cost": 0.5})) + DONE))
    reported = stream.state.reported
    assert reported is not None
    (last,) = chunks_in(stream.tail(reported))
    assert (last["choices"], last["usage"], last["id"]) == ([], {**_report(9, 2), "cost": 0.5}, "chatcmpl-1")
    assert stream.state.marks == ("upstream_cost=0.5",)


def test_an_estimate_is_in_the_usage_chunk_with_the_usual_fields_alone() -> None:
    stream = _stream(include_usage=True)
    stream.feed(GOOD)
    (last,) = chunks_in(stream.tail(Usage(input=5, output=3)))
    assert last["usage"] == as_object(Usage(input=5, output=3))


def test_a_partial_report_is_completed_by_what_came(stream: NativeChatStream) -> None:
    stream.feed(ROLE + event(chunk(delta("Hi"), usage={"prompt_tokens": 9, "completion_tokens": None})))
    assert stream.state.reported == Usage(input=9, output=1, source=UsageSource.PARTIAL)


def test_comments_and_events_are_counted(stream: NativeChatStream) -> None:
    stream.feed(b": a\n\n" + ROLE + b":\n\n" + HI + HI)
    assert (stream.events, stream.comments) == (3, 2)


def test_an_event_of_three_megabytes_passes() -> None:
    text = "x" * 3_000_000
    stream, out = _fed(ROLE + event(chunk(delta(text))) + STOP + DONE, 65536)
    assert (said_in(out).text[0] == text, stream.finished) == (True, True)


def test_thousands_of_tiny_events_in_one_read() -> None:
    stream, out = _fed(ROLE + HI * 5000 + STOP + DONE, 1 << 30)
    assert (said_in(out).text[0], stream.events) == ("Hi" * 5000, 5003)


def _report(prompt: int, completion: int) -> dict[str, int]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def test_a_whole_answer_is_not_kept_once_it_was_sent() -> None:
    """Only the events that were made of it: while a slow client reads those, the answer takes no second place."""
    stream, body = _stream(), dumps(whole("other", choice("a" * 5_000_000), spent=usage()))
    tracemalloc.start()
    try:
        stream.feed(body[:100])
        stream.feed(body[100:])
        out = stream.end()
        held, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (stream.finished, stream.held) == (True, 0)
    size = len(out)
    assert held < 1.2 * size
    assert most < 3.2 * size


@pytest.mark.parametrize("case", [case for case in STREAMS if not case.error], ids=lambda case: case.name)
def test_says_what_the_stream_said(case: Case) -> None:
    body = body_of(native_whole(case.came))
    choices = json.loads(body)["choices"]
    assert {c["index"]: c["message"]["content"] or "" for c in choices} == {
        i: _joined(t) for i, t in case.said.text.items()
    }
    assert {c["index"]: c["finish_reason"] for c in choices} == case.said.finish
    calls = [
        (call["id"], call["function"]["name"], call["function"]["arguments"])
        for c in choices
        for call in c["message"].get("tool_calls", [])
    ]
    assert calls == case.said.calls.get(0, [])
    assert native_whole(body).body == body


@pytest.mark.parametrize(
    "case", [case for case in STREAMS if case.error and is_stream(case.came)], ids=lambda case: case.name
)
def test_fails_as_the_stream_failed(case: Case) -> None:
    with attempt_fails() as caught:
        native_whole(case.came)
    assert caught.value.code == case.error


def test_the_events_of_a_large_answer_are_not_all_there_at_once() -> None:
    parts = [event(chunk(delta("word " * 20_000))) for _ in range(80)]
    came = b"".join([ROLE, *parts, STOP, DONE])
    tracemalloc.start()
    try:
        body = body_of(native_whole(came))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(body) > 8_000_000
    assert most < 3.8 * len(body)


def test_logprobs_are_joined() -> None:
    events = GOOD.replace(b'"logprobs":null', b'"logprobs":{"content":[{"token":"x"}]}')
    (choice,) = json.loads(body_of(native_whole(events)))["choices"]
    assert len(choice["logprobs"]["content"]) == 2


def _joined(text: str) -> str:
    """Halves of a character that came apart are one again."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16")


MESSAGE_CALL = {name: value for name, value in tool_call(0, "a", "f", '{"x":1}').items() if name != "index"}


def test_a_whole_answer_with_several_choices_becomes_a_stream() -> None:
    answer = whole("m", choice("a"), choice("b", index=1, finish="length"), spent=usage(9, 2))
    stream, out = _fed(dumps(answer), 1 << 20)
    said = said_in(out)
    assert (said.text, said.finish) == ({0: "a", 1: "b"}, {0: "stop", 1: "length"})
    assert (stream.state.reported and stream.state.reported.total) == 11


def test_a_whole_answer_that_becomes_a_stream_keeps_what_only_its_vendor_knows() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}, "extra_content": {"b": 2}}
    signed, spent = [{"type": "reasoning.encrypted", "data": "x"}], {**usage(9, 2), "cost_details": {"c": 3}}
    message: Doc = {"reasoning": "Hm" * 40_000, "reasoning_details": signed, "tool_calls": [call]}
    said = {**choice("Hi", finish="tool_calls", **message), "logprobs": {"content": []}}
    answer = whole("m", said, spent=spent, provider="p")
    stream = native_stream(msgspec.structs.replace(order(), include_usage=True))
    out = stream.feed(dumps(answer)) + stream.end() + stream.tail(stream.state.reported or NOTHING)
    *chunks, last = chunks_in(out)
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert max(map(len, out.split(b"\n\n"))) < 40_000
    assert "".join(delta.get("reasoning", "") for delta in deltas) == message["reasoning"]
    assert [delta["tool_calls"] for delta in deltas if "tool_calls" in delta] == [[{"index": 0, **call}]]
    assert deltas[-2] == {"reasoning_details": [{"index": 0, **signed[0]}]}
    assert chunks[-1]["choices"] == [
        {"index": 0, "delta": {}, "finish_reason": "tool_calls", "logprobs": {"content": []}}
    ]
    assert (chunks[0]["provider"], last["usage"]) == ("p", spent)


@pytest.mark.parametrize(
    ("message", "thoughts"),
    [
        (
            {"reasoning": "Hm", "content": None, "tool_calls": [MESSAGE_CALL]},
            {"reasoning": "Hm", "reasoning_details": [{"index": 0, "type": "x"}]},
        ),
        ({"content": "Hi"}, {"reasoning_details": [{"index": 0, "type": "x"}]}),
    ],
)
def test_a_whole_thought_and_its_details_are_in_one_chunk(message: Doc, thoughts: Doc) -> None:
    """OpenRouter's provider for the AI SDK shows the text of every chunk without details, and the text of details."""
    stream = native_stream()
    said = {"index": 0, "message": {"role": "assistant", "reasoning_details": [{"type": "x"}], **message}}
    out = stream.feed(dumps(whole("m", said))) + stream.end()
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks_in(out)]
    assert [delta for delta in deltas if delta.keys() & {"reasoning", "reasoning_details"}] == [thoughts]
    assert deltas[:2] == [{"role": "assistant", "content": ""}, thoughts]


def test_a_whole_answer_with_one_choice_in_parts_becomes_a_stream_with_one_choice() -> None:
    calls = [tool_call(0, id, id, "{}") for id in "ab"]
    answer = whole("m", choice("Hi"), *(choice(None, role="model", tool_calls=[call]) for call in calls))
    stream = native_stream(order())
    said = said_in(stream.feed(dumps(answer)) + stream.end())
    assert (said.text, said.calls) == ({0: "Hi"}, {0: [("a", "a", "{}"), ("b", "b", "{}")]})


def test_a_reasoning_of_another_name_is_sent_under_both_names_at_once() -> None:
    stream = native_stream()
    out = stream.feed(dumps(whole("m", choice("Hi", thinking="Hm")))) + stream.end()
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks_in(out)]
    assert [delta for delta in deltas if "thinking" in delta] == [{"reasoning_content": "Hm", "thinking": "Hm"}]


def test_a_long_answer_is_sent_in_pieces_and_its_thoughts_first() -> None:
    thought, spoken = "t" * (2 * 32768 + 5), "s" * (3 * 32768)
    answer = whole("m", choice(spoken, reasoning_content=thought, tool_calls=[MESSAGE_CALL], finish="tool_calls"))
    stream, out = _fed(dumps(answer), 1 << 20)
    expected = Answer({0: spoken}, {0: thought}, {0: [("a", "f", '{"x":1}')]}, {0: "tool_calls"})
    assert (said_in(out), stream.finished) == (expected, True)
    assert max(map(len, out.split(b"\n\n"))) < 33_200
    assert out.index(b'"content":"s') > out.rindex(b'"reasoning_content":"t')


def test_a_chunk_without_choices_is_nothing_for_the_client(stream: NativeChatStream) -> None:
    for doc in (chunk(), {"choices": None}, {}, chunk(usage=usage(9, 2))):
        assert stream.feed(event(doc)) == b""
    assert stream.state.began is False


@pytest.mark.parametrize("choices", [[], [delta("")], [delta("", finish="stop")]])  # as OpenRouter sends it
def test_what_comes_next_to_the_usage_comes_with_it(choices: list[Doc]) -> None:
    stream = _stream(include_usage=True)
    last: Doc = {"timings": {"cache_n": 4}, "cost": {"usd": 0.5}, "id": "b", "provider": "p"}
    stream.feed(HI + event(chunk(prompt_filter_results=[], usage=None)) + STOP)
    stream.feed(event(chunk(*choices, usage=usage(9, 2), **last)))
    (doc,) = chunks_in(stream.tail(Usage(input=9, output=2, source=UsageSource.REPORTED)))
    assert {**last, "id": "chatcmpl-1"}.items() <= doc.items()
    assert (doc["choices"], doc["usage"], "prompt_filter_results" in doc) == ([], usage(9, 2), False)


def test_what_came_with_content_does_not_come_again_with_the_usage() -> None:
    stream = _stream(include_usage=True)
    stream.feed(HI + event(chunk(delta("a"), usage=usage(9, 1), seen=1)) + STOP)
    (doc,) = chunks_in(stream.tail(Usage(input=9, output=1, source=UsageSource.REPORTED)))
    assert "seen" not in doc


def test_the_head_is_fixed_by_the_first_chunk() -> None:
    stream = _stream(model="mine")
    (doc,) = chunks_in(stream.feed(ROLE) and stream.feed(event(chunk(delta("x"), id="b", model="b", created=5))))
    assert (doc["id"], doc["model"], doc["created"]) == ("chatcmpl-1", "mine", 1_763_500_000)


@pytest.mark.parametrize("more", [{"timings": {}}, {"x_groq": {}}, {"usage": usage(9, 2)}])
def test_figures_are_seen_in_each_of_many_chunks(stream: NativeChatStream, more: Doc) -> None:
    out = stream.feed(ROLE + event(chunk(delta("x"), **more)) * 3)
    assert (b'"usage"' in out, said_in(out).text) == (False, {0: "xxx"})


def test_a_stream_that_is_cut_short_ends_what_is_open(stream: NativeChatStream) -> None:
    stream.feed(ROLE + event(chunk(delta("", index=1))) + event(chunk(delta(index=1, finish="stop"))))
    (last,) = chunks_in(stream.cut_short())
    assert (last["id"], last["choices"][0]["index"], last["choices"][0]["finish_reason"]) == ("chatcmpl-1", 0, "length")


def test_after_an_early_finish_reason_another_one_comes_at_the_end(stream: NativeChatStream) -> None:
    """Open WebUI sends one after each chunk. OpenAI's SDK keeps the last one."""
    first, second = (event(chunk(delta(tool_calls=[tool_call(n, id, "f", "{}")]))) for n, id in enumerate("ab"))
    out = stream.feed(HI + STOP + HI + STOP + STOP + first + STOP + second + STOP + DONE)
    said = said_in(out)
    calls = [("a", "f", "{}"), ("b", "f", "{}")]
    assert (said.text, said.calls, said.finish) == ({0: "HiHi"}, {0: calls}, {0: "tool_calls"})
    reasons = [doc["choices"][0]["finish_reason"] for doc in chunks_in(out)]
    assert reasons == [None, "stop", None, None, None, "tool_calls"]


@pytest.mark.parametrize(
    ("early", "arguments", "last"),
    [
        ("stop", '{"a":1}', {}),
        ("tool_calls", "{}", {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}),
    ],
)
def test_the_last_reason_comes_again_for_a_call_or_for_its_arguments(
    stream: NativeChatStream, early: str, arguments: str, last: Doc
) -> None:
    called = event(chunk(delta(tool_calls=[tool_call(0, "a", "f", arguments)])))
    (end,) = chunks_in(stream.feed(HI + event(chunk(delta(finish=early))) + called + DONE))[-1]["choices"]
    assert (end["delta"], end["finish_reason"]) == (last, "tool_calls")


def test_an_early_finish_reason_of_a_text_is_the_only_one(stream: NativeChatStream) -> None:
    assert said_in(stream.feed(HI + STOP + HI + STOP + DONE)).text == {0: "HiHi"}
    assert stream.tail(Usage()) == DONE


def test_a_usage_chunk_can_come_alone() -> None:
    (doc,) = chunks_in(_stream(include_usage=True).tail(Usage(input=1, output=2)))
    assert (doc["id"], doc["created"], doc["choices"], doc["usage"]["total_tokens"]) == ("chatcmpl-ours", 77, [], 3)


@pytest.mark.parametrize(
    "doc",
    [
        {"choices": 5},
        {"choices": [1]},
        {"choices": [{"delta": 1}]},
        chunk(delta(tool_calls={})),
        chunk(delta(refusal=["x"])),
    ],
)
def test_what_is_not_a_chunk_is_left_out_once(stream: NativeChatStream, doc: object) -> None:
    out = stream.feed(ROLE + HI + event(doc) + HI)
    assert (said_in(out).text, stream.state.marks) == ({0: "HiHi"}, ("bad_chunks=1",))


@pytest.mark.parametrize(
    ("word", "calls", "reason"),
    [
        ("stop", False, "stop"),
        ("stop", True, "tool_calls"),
        ("eos", True, "tool_calls"),
        ("end_turn", False, "stop"),
        ("max_tokens", False, "length"),
        ("model_length", True, "length"),
        ("content_filter", True, "content_filter"),
        ("function_call", False, "function_call"),
        ("tool_calls", False, "tool_calls"),
    ],
)
def test_the_clients_words_stay_and_others_become_theirs(word: str, reason: str, *, calls: bool) -> None:
    call = event(chunk(delta(tool_calls=[tool_call(0, "a", "f", "{}")]))) if calls else b""
    assert said_in(_stream().feed(ROLE + call + event(chunk(delta(finish=word))))).finish == {0: reason}


@pytest.mark.parametrize(
    ("given", "even"),
    [
        ({"content": []}, {"content": ""}),
        ({"content": ["Hi", 5, None, {"type": "image"}]}, {"content": "Hi5"}),
        ({"content": 5, "reasoning": True}, {"content": "5", "reasoning": "true"}),
        ({"content": [{"type": "thinking", "thinking": "hm"}]}, {"content": None, "reasoning_content": "hm"}),
        ({"reasoning": "a", "reasoning_content": "a"}, {"reasoning_content": "a"}),
        ({"reasoning": "a", "reasoning_content": None}, {"reasoning": "a", "reasoning_content": None}),
    ],
)
def test_content_is_text_and_reasoning_has_one_name(stream: NativeChatStream, given: Doc, even: Doc) -> None:
    (doc,) = chunks_in(stream.feed(ROLE) and stream.feed(event(chunk({"index": 0, "delta": given}))))
    assert doc["choices"][0]["delta"] == even


@pytest.mark.parametrize("id", [None, "", 5, "x" * 200, []])
def test_an_id_that_is_none_is_made(id: Any) -> None:
    assert chunks_in(_stream().feed(event(chunk(delta("x"), id=id))))[0]["id"] == "chatcmpl-ours"


@pytest.mark.parametrize("created", [None, 0, -1, True, "5", 1.5])
def test_a_time_that_is_none_is_made(created: object) -> None:
    assert chunks_in(_stream().feed(event(chunk(delta("x"), created=created))))[0]["created"] == 77


def test_the_upstreams_id_is_harmless(stream: NativeChatStream) -> None:
    stream.feed(event(chunk(delta("x"), id="a\x1b[31m")))
    assert "\x1b" not in stream.state.upstream_id
