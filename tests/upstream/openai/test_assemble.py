"""A stream where a plain answer was asked for becomes that answer."""

import json

import pytest

from gateway.domain.usage import Usage, UsageSource
from gateway.upstream.openai.completion import read_whole
from gateway.upstream.openai.stream import assemble, is_stream
from tests.cases.streams import DONE_AND_USAGE, GOOD, STREAMS, Case
from tests.upstream.makers import attempt_fails, channel, order


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


def test_usage_is_kept() -> None:
    whole = assemble(DONE_AND_USAGE, order(), channel())
    assert whole.reported == Usage(input=9, output=2, source=UsageSource.REPORTED)
    assert json.loads(whole.body)["usage"]["total_tokens"] == 11


@pytest.mark.parametrize("body", [GOOD, b"\n" + GOOD, b": x\n\n", b"event: x\ndata: {}", b"\xef\xbb\xbfdata: x"])
def test_events_are_recognised(body: bytes) -> None:
    assert is_stream(body)


@pytest.mark.parametrize("body", [b"", b"{}", b"<html>", b"data"])
def test_other_bodies_are_not_events(body: bytes) -> None:
    assert not is_stream(body)


def test_logprobs_are_joined() -> None:
    events = GOOD.replace(b'"logprobs":null', b'"logprobs":{"content":[{"token":"x"}]}')
    (choice,) = json.loads(assemble(events, order(), channel()).body)["choices"]
    assert len(choice["logprobs"]["content"]) == 4


def _joined(text: str) -> str:
    """Halves of a character that came apart are one again."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16")
