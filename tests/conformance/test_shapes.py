"""The checks of shapes: what they pass and what they catch, or no conformance test could be trusted."""

from tests.conformance.shapes import completion_faults, error_faults, models_faults, stream_faults
from tests.fakes.replies import DONE, Doc, chunk, delta, event, story, tool_call, usage, whole


def test_a_good_stream_has_no_faults() -> None:
    tail = chunk(usage=usage())
    assert stream_faults(_body(*story("a"), tail), usage="yes") == []
    assert stream_faults(_body(*story("a")), usage="no") == []


def test_usage_where_it_does_not_belong_is_caught() -> None:
    assert stream_faults(_body(*story("a"), chunk(usage=usage())), usage="no") != []
    assert stream_faults(_body(*story("a")), usage="yes") != []
    assert stream_faults(_body(*story("a")[:2], chunk(delta(finish="stop"), usage=usage())), usage="any") != []


def test_a_second_role_or_finish_is_caught() -> None:
    assert stream_faults(_body(story("a")[0], *story("a"))) != []
    assert stream_faults(_body(*story("a"), chunk(delta(finish="stop")))) != []


def test_a_missing_end_is_caught() -> None:
    assert stream_faults(b"".join(map(event, story("a")))) != []
    assert stream_faults(_body(*story("a")[:-1])) != []


def test_an_error_ends_a_stream_without_done() -> None:
    failure = {"error": {"message": "m", "type": "t", "param": None, "code": None}}
    assert stream_faults(b"".join(map(event, [*story("a")[:2], failure])), error=True) == []
    assert stream_faults(_body(*story("a")[:2], failure), error=True) != []


def test_tool_calls_that_break_clients_are_caught() -> None:
    first = chunk(delta("", role="assistant"))
    last = chunk(delta(finish="tool_calls"))
    good = tool_call(0, "call_a", "f", "{}")
    more = {"index": 0, "function": {"arguments": "1"}}
    assert stream_faults(_calls(first, good, more, last)) == []
    for bad in ({**good, "index": 1}, {**good, "id": ""}, {"function": {"arguments": ""}}):
        assert stream_faults(_calls(first, bad, last)) != [], bad
    assert stream_faults(_calls(first, good, {**more, "id": "call_a"}, last)) != []


def test_framing_other_than_ours_is_caught() -> None:
    body = _body(*story("a"))
    assert stream_faults(body.replace(b"data: ", b"data:")) != []
    assert stream_faults(b"event: x\n" + body) != []
    assert stream_faults(body.replace(b"\n", b"\r\n")) != []


def test_a_completion_is_checked_to_its_leaves() -> None:
    assert completion_faults(whole("m", spent=usage())) == []
    bare = whole("m")
    del bare["choices"][0]["logprobs"], bare["choices"][0]["message"]["refusal"]
    assert completion_faults(bare) != []
    assert completion_faults(bare, lax=True) == []
    assert completion_faults(whole("m", spent={**usage(), "prompt_tokens": 1.5})) != []


def test_errors_and_models_are_checked() -> None:
    error: Doc = {"message": "m", "type": "t", "param": None, "code": None}
    assert error_faults({"error": error}) == []
    assert error_faults({"error": {**error, "code": 500}}) != []
    assert error_faults({"error": {"message": "m", "type": "t", "code": None}}) != []
    entry = {"id": "a/b", "object": "model", "created": 1, "owned_by": "x"}
    assert models_faults({"object": "list", "data": [entry]}) == []
    assert models_faults({"object": "list", "data": [entry, entry]}) != []
    assert models_faults({"object": "list", "data": [{**entry, "created": 1.5}]}) != []


def _body(*docs: Doc) -> bytes:
    return b"".join(map(event, docs)) + DONE


def _calls(first: Doc, *calls: Doc) -> bytes:
    *middle, last = calls
    return _body(first, *(chunk(delta(tool_calls=[call])) for call in middle), last)
