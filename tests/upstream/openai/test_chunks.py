"""Chunks of one answer: one head for all, usage taken out, patterns only where nothing else happened."""

import json
from typing import Any

import pytest

from gateway.domain.usage import Usage, UsageSource
from gateway.upstream import rawjson
from gateway.upstream.openai.chunks import Chunks, ChunkStep
from tests.fakes.replies import chunk, delta, dumps, usage
from tests.upstream.makers import order

ROLE = chunk(delta("", role="assistant"))


def _take(chunks: Chunks, doc: object) -> ChunkStep:
    return chunks.take(rawjson.fields(dumps(doc)))


def _begun() -> Chunks:
    chunks = Chunks(order(model="mine"))
    _take(chunks, ROLE)
    return chunks


def test_a_chunk_without_choices_is_nothing_for_the_client() -> None:
    chunks = Chunks(order())
    for doc in (chunk(), {"choices": None}, {}, chunk(usage=usage(9, 2))):
        assert _take(chunks, doc) == ChunkStep(b"", b"", turned=False, broken="")
    assert (chunks.begun, chunks.upstream_id) == (False, "chatcmpl-1")


def test_the_head_is_fixed_by_the_first_chunk() -> None:
    chunks = _begun()
    doc = json.loads(_take(chunks, chunk(delta("x"), id="other", model="other", created=5)).out)
    assert (doc["id"], doc["model"], doc["created"]) == ("chatcmpl-1", "mine", 1_763_500_000)


@pytest.mark.parametrize("more", [{"timings": {}}, {"x_groq": {}}, {"usage": usage(9, 2)}])
def test_a_chunk_with_figures_is_no_pattern(more: dict[str, Any]) -> None:
    step = _take(_begun(), chunk(delta("x"), **more))
    assert (bool(step.out), step.pattern) == (True, b"")
    assert b'"usage"' not in step.out


def test_a_chunk_of_one_text_is_one() -> None:
    assert _take(_begun(), chunk(delta("x"), usage=None)).pattern == b'"x"'


def test_a_chunk_of_two_choices_is_not() -> None:
    chunks = _begun()
    _take(chunks, chunk(delta("", index=1, role="assistant")))
    assert _take(chunks, chunk(delta("x"), delta("y", index=1))).pattern == b""


def test_complete_when_every_choice_has_ended() -> None:
    chunks = _begun()
    _take(chunks, chunk(delta("", index=1)))
    _take(chunks, chunk(delta(finish="length")))
    assert (chunks.complete, chunks.finish) == (False, "length")
    _take(chunks, chunk(delta(index=1, finish="stop")))
    assert chunks.complete


def test_a_failing_end_is_told() -> None:
    assert _take(_begun(), chunk(delta(finish="error"))).broken == "error"


def test_cutting_short_ends_what_is_open() -> None:
    chunks = _begun()
    _take(chunks, chunk(delta("", index=1, finish="stop")))
    (last,) = (json.loads(out) for out in chunks.cut_short())
    assert (last["id"], last["choices"][0]["index"], last["choices"][0]["finish_reason"]) == ("chatcmpl-1", 0, "length")
    assert chunks.complete


def test_the_usage_chunk_has_the_same_head_and_the_upstreams_figures() -> None:
    chunks = _begun()
    _take(chunks, chunk(usage={**usage(9, 2), "odd": 1}))
    doc = json.loads(chunks.usage_chunk(Usage(source=UsageSource.REPORTED), estimated=False))
    assert (doc["id"], doc["choices"], doc["usage"]) == ("chatcmpl-1", [], {**usage(9, 2), "odd": 1})


def test_a_usage_chunk_can_come_alone() -> None:
    doc = json.loads(Chunks(order()).usage_chunk(Usage(input=1, output=2), estimated=True))
    assert (doc["id"], doc["created"], doc["usage"]["total_tokens"]) == ("chatcmpl-ours", 77, 3)


@pytest.mark.parametrize("doc", [{"choices": 5}, {"choices": [1]}, {"choices": [{"delta": 1}]}])
def test_what_is_no_chunk_is_refused(doc: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        _take(_begun(), doc)
