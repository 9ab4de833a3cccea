"""Answers have every field that chat completions must have."""

from gateway.domain.usage import Usage, UsageSource
from gateway.upstream.translate.response import arguments_delta, chunk, completion, delta, message, report, tool_call

USAGE = Usage(input=9, cached=4, output=5, source=UsageSource.REPORTED)


def test_a_chunk() -> None:
    choice = {"index": 0, "delta": {"content": "a"}, "logprobs": None, "finish_reason": None}
    assert chunk("x", delta(content="a")) == {"id": "x", "choices": [choice]}
    assert chunk("x", usage=USAGE) == {"id": "x", "choices": [], "usage": report(USAGE)}


def test_a_call_in_a_stream_has_a_number() -> None:
    whole = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    assert (tool_call(None, "c", "f", "{}"), tool_call(1, "c", "f", "{}")) == (whole, {"index": 1, **whole})
    assert arguments_delta(1, "x") == {"index": 1, "function": {"arguments": "x"}}


def test_content_is_null_beside_calls_and_empty_without() -> None:
    call = tool_call(None, "c", "f", "{}")
    assert (message("", calls=[call])["content"], message("")["content"], message("a", calls=[call])["content"]) == (
        None,
        "",
        "a",
    )


def test_a_completion() -> None:
    said = message("a", reasoning="b")
    assert said == {"role": "assistant", "content": "a", "refusal": None, "reasoning_content": "b"}
    choice = {"index": 0, "message": said, "logprobs": None, "finish_reason": "stop"}
    assert completion("x", [(said, "stop")], None) == {"id": "x", "choices": [choice]}
    assert completion("x", [], USAGE)["usage"] == report(USAGE)


def test_an_output_count_that_is_missing_stays_missing() -> None:
    assert report(USAGE)["completion_tokens"] == 5
    partial = report(Usage(input=9, source=UsageSource.PARTIAL))
    assert (partial["prompt_tokens"], "completion_tokens" in partial, "total_tokens" in partial) == (9, False, False)
