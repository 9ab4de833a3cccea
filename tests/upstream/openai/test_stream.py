"""Every recorded stream at every split gives the same answer, whether events are opened or put together."""

import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.usage import Usage, UsageSource
from gateway.upstream.adapter import as_object
from gateway.upstream.openai.completion import read_whole
from gateway.upstream.openai.stream import ChatStream, assemble
from tests.cases.answers import chunks_in, said_in
from tests.cases.streams import DONE_AND_USAGE, GOOD, HI, ROLE, STOP, STREAMS, USAGE, Case
from tests.fakes.replies import DONE, choice, chunk, delta, dumps, event, usage, whole
from tests.upstream.makers import attempt_fails, channel, error_of, order


def _stream(*, include_usage: bool = False, model: str = "m") -> ChatStream:
    return ChatStream(order(model=model, include_usage=include_usage), channel())


def _fed(data: bytes, size: int) -> tuple[ChatStream, bytes]:
    stream = _stream()
    out = [stream.feed(data[start : start + size]) for start in range(0, len(data), size)]
    return stream, b"".join(out) + stream.end()


def _outcome(data: bytes, *sizes: int) -> tuple[bytes, bool, str, Usage | None, tuple[str, ...]]:
    stream, outs = _stream(), []
    for size in sizes:
        outs.append(stream.feed(data[:size]))
        data = data[size:]
    outs += [stream.feed(data), stream.end()]
    return (
        b"".join(outs),
        stream.finished,
        error_of(stream.failure).code if stream.failure else "",
        stream.reported,
        stream.marks,
    )


@pytest.mark.parametrize("case", STREAMS, ids=lambda case: case.name)
def test_means_what_it_says(case: Case) -> None:
    out, finished, error, reported, marks = _outcome(case.came)
    assert said_in(out) == case.said
    assert (finished, error, marks) == (not case.error, case.error, case.marks)
    assert (reported and (reported.input, reported.output)) == case.usage


@pytest.mark.sampled(12)
@pytest.mark.parametrize("case", STREAMS, ids=lambda case: case.name)
def test_split_in_two_anywhere_is_the_same(case: Case) -> None:
    whole = _outcome(case.came)
    assert all(_outcome(case.came, cut) == whole for cut in range(len(case.came)))


@pytest.mark.sampled(99)
@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
@pytest.mark.parametrize("case", STREAMS, ids=lambda case: case.name)
def test_split_into_pieces_is_the_same(case: Case, size: int) -> None:
    stream, out = _fed(case.came, size)
    whole = _outcome(case.came)
    assert (out, stream.finished, stream.marks) == (whole[0], whole[1], whole[4])


@pytest.mark.parametrize("case", STREAMS, ids=lambda case: case.name)
def test_templates_change_nothing(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    with_templates = _outcome(case.came)
    stream, _ = _fed(case.came, len(case.came) or 1)
    monkeypatch.setattr("gateway.upstream.openai.stream.LESSONS", 0)
    assert _outcome(case.came) == with_templates
    plain, _ = _fed(case.came, len(case.came) or 1)
    assert (plain.events, plain.comments) == (stream.events, stream.comments)
    assert plain.tally.tokens() == stream.tally.tokens()


DAMAGE = [
    b'"',
    b"\\",
    b"\n\n",
    b"\n",
    b"\r",
    b"data: ",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b"null",
    b"\xff",
    b"\\ud83d",
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
    whole = _outcome(bytes(data))
    assert _outcome(bytes(data), *sizes) == whole
    chunks_in(whole[0])


def test_nothing_is_held_back() -> None:
    stream = _stream()
    assert [bool(stream.feed(part)) for part in (ROLE, HI, HI, HI, STOP, USAGE)] == [True] * 5 + [False]


def test_the_model_is_the_one_asked_for() -> None:
    stream = _stream(model="mine")
    out = stream.feed(GOOD.replace(DONE, USAGE + DONE))
    assert {c["model"] for c in chunks_in(out + stream.tail(Usage(), estimated=True))} == {"mine"}


def test_the_upstreams_id_and_time_are_kept() -> None:
    stream = _stream()
    first = chunks_in(stream.feed(GOOD))[0]
    assert (first["id"], first["created"], stream.upstream_id) == ("chatcmpl-1", 1_763_500_000, "chatcmpl-1")


def test_a_missing_id_and_time_are_made() -> None:
    stream = _stream()
    first = chunks_in(stream.feed(b'data: {"id":"","choices":[{"index":0,"delta":{"content":"x"}}]}\n\n'))[0]
    assert (first["id"], first["created"]) == ("chatcmpl-ours", 77)


def test_a_monstrous_id_is_replaced() -> None:
    stream = _stream()
    out = stream.feed(HI.replace(b"chatcmpl-1", b"x" * 1_000_000))
    assert chunks_in(out)[0]["id"] == "chatcmpl-ours"
    assert len(stream.upstream_id) == 200


def test_fields_that_are_not_known_pass() -> None:
    doc = chunk({**delta("x", odd=[1, 1.0, 1e-7]), "logprobs": {"content": []}}, service_tier="flex")
    assert chunks_in(_stream().feed(ROLE + event(doc)))[1] == {**doc, "model": "m"}


def test_the_usage_chunk_comes_only_if_asked_for() -> None:
    spent = Usage(input=9, output=2, source=UsageSource.REPORTED)
    assert _stream().tail(spent, estimated=False) == DONE


def test_the_usage_chunk_is_the_upstreams_own() -> None:
    stream = _stream(include_usage=True)
    stream.feed(GOOD.replace(DONE, event(chunk(usage={**_report(9, 2), "cost": 0.5})) + DONE))
    reported = stream.reported
    assert reported is not None
    (last,) = chunks_in(stream.tail(reported, estimated=False))
    assert (last["choices"], last["usage"], last["id"]) == ([], {**_report(9, 2), "cost": 0.5}, "chatcmpl-1")
    assert stream.marks == ("upstream_cost=0.5",)


def test_an_estimate_is_in_the_usage_chunk_with_the_usual_fields_alone() -> None:
    stream = _stream(include_usage=True)
    stream.feed(GOOD)
    (last,) = chunks_in(stream.tail(Usage(input=5, output=3), estimated=True))
    assert last["usage"] == as_object(Usage(input=5, output=3))


def test_a_partial_report_is_completed_by_what_came() -> None:
    stream = _stream()
    stream.feed(ROLE + event(chunk(delta("Hi"), usage={"prompt_tokens": 9, "completion_tokens": None})))
    assert stream.reported == Usage(input=9, output=1, source=UsageSource.PARTIAL)


def test_comments_and_events_are_counted() -> None:
    stream = _stream()
    stream.feed(b": a\n\n" + ROLE + b":\n\n" + HI + HI)
    assert (stream.events, stream.comments) == (3, 2)


def test_an_event_of_three_megabytes_passes() -> None:
    text = "x" * 3_000_000
    stream, out = _fed(ROLE + event(chunk(delta(text))) + STOP + DONE, 65536)
    assert (said_in(out).text[0] == text, stream.finished) == (True, True)


def test_an_event_that_is_too_long_is_an_error() -> None:
    stream, _ = _fed(ROLE + event(chunk(delta("x" * (17 << 20)))), 1 << 20)
    assert (stream.failure and stream.failure.code) == "upstream_bad_response"


def test_thousands_of_tiny_events_in_one_read() -> None:
    stream, out = _fed(ROLE + HI * 5000 + STOP + DONE, 1 << 30)
    assert (said_in(out).text[0], stream.events) == ("Hi" * 5000, 5003)


def test_a_json_answer_becomes_a_stream() -> None:
    message = {"role": "assistant", "content": "Hi", "tool_calls": [_call()]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    body = b'{"id":"c","choices":[%s],"usage":%s}' % (_dumps(choice), _dumps(_report(9, 2)))
    out, finished, _, reported, _ = _outcome(body)
    said = said_in(out)
    assert (said.text, said.calls, said.finish) == ({0: "Hi"}, {0: [("a", "f", "{}")]}, {0: "tool_calls"})
    assert (finished, reported) == (True, Usage(input=9, output=2, source=UsageSource.REPORTED))


def test_a_json_error_fails_the_attempt() -> None:
    stream, out = _fed(b'\n\n{"error":{"message":"late","code":429}}', 5)
    assert (out, stream.started, stream.failure and stream.failure.code) == (b"", False, "upstream_rate_limited")


def test_an_answer_can_be_cut_short() -> None:
    stream = _stream()
    out = stream.feed(ROLE + HI) + stream.cut_short()
    assert (said_in(out).finish, stream.finished, stream.feed(HI)) == ({0: "length"}, True, b"")


def test_nothing_comes_after_an_error() -> None:
    stream = _stream()
    stream.feed(ROLE + b'data: {"error":{"message":"late"}}\n\n')
    assert (stream.feed(HI), stream.end(), stream.finished) == (b"", b"", False)


def _report(prompt: int, completion: int) -> dict[str, int]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def _call() -> dict[str, object]:
    return {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def _dumps(doc: object) -> bytes:
    return event(doc)[6:-2]


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
    assert most < 2.8 * size


def test_pieces_of_a_whole_answer_become_chunks() -> None:
    stream, out = _fed(dumps(whole("m", choice("Hi"))), 10)
    assert (len(chunks_in(out)), stream.finished, stream.marks) == (2, True, ())


def test_a_body_that_is_not_an_answer_fails() -> None:
    stream, out = _fed(b"<html>", 10)
    assert stream.failure is not None
    assert (out, "not valid JSON" in error_of(stream.failure).message) == (b"", True)


@pytest.mark.parametrize("case", [case for case in STREAMS if not case.error], ids=lambda case: case.name)
def test_says_what_the_stream_said(case: Case) -> None:
    whole = assemble(case.came, order(), channel())
    choices = json.loads(whole.body)["choices"]
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
    assert read_whole(whole.body, order(), channel()).body == whole.body


@pytest.mark.parametrize("case", [case for case in STREAMS if case.error], ids=lambda case: case.name)
def test_fails_as_the_stream_failed(case: Case) -> None:
    with attempt_fails() as caught:
        assemble(case.came, order(), channel())
    assert caught.value.code == case.error


def test_the_events_of_a_large_answer_are_not_all_there_at_once() -> None:
    parts = [event(chunk(delta("word " * 20_000))) for _ in range(80)]
    came = b"".join([ROLE, *parts, STOP, DONE])
    tracemalloc.start()
    try:
        answer = assemble(came, order(), channel())
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(answer.body) > 8_000_000
    assert most < 2.7 * len(answer.body)


def test_usage_is_kept() -> None:
    whole = assemble(DONE_AND_USAGE, order(), channel())
    assert whole.reported == Usage(input=9, output=2, source=UsageSource.REPORTED)
    assert json.loads(whole.body)["usage"]["total_tokens"] == 11


def test_logprobs_are_joined() -> None:
    events = GOOD.replace(b'"logprobs":null', b'"logprobs":{"content":[{"token":"x"}]}')
    (choice,) = json.loads(assemble(events, order(), channel()).body)["choices"]
    assert len(choice["logprobs"]["content"]) == 4


def _joined(text: str) -> str:
    """Halves of a character that came apart are one again."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16")
