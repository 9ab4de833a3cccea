"""Every dialect has an adapter that takes whatever comes, and a way to list models."""

import json
import tracemalloc
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.domain.channel import Dialect, ServedModel
from gateway.domain.failure import AttemptFailed
from gateway.upstream import dialects
from gateway.upstream.dialects import new_adapter, shared_adapters
from gateway.upstream.learned_params import NOTHING
from tests.cases.answers import chunks_in
from tests.cases.anthropic import streams as anthropic
from tests.cases.conversations import TOOLS_AND_IMAGE
from tests.cases.gemini import streams as gemini
from tests.cases.same import PLAIN, STREAMED
from tests.fakes.replies import chunk, delta, event, story
from tests.house import amount
from tests.upstream.makers import as_chat, body_of, channel, order

THOUGHT = {"type": "thinking", "thinking": "a", "signature": "b"}
FULL: dict[str, Any] = {
    **TOOLS_AND_IMAGE,
    "messages": [
        *TOOLS_AND_IMAGE["messages"],
        {
            "role": "assistant",
            "content": "a",
            "thinking_blocks": [{"type": "thinking", "thinking": "a", "signature": "b"}],
        },
    ],
    "thinking": {"type": "enabled", "budget_tokens": 2000},
    "output_config": {"effort": "low"},
    "metadata": {"user_id": "u"},
    "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}},
    "reasoning_effort": "low",
    "parallel_tool_calls": False,
    "service_tier": "auto",
    "stop": ["a"],
    "temperature": 1,
    "logprobs": False,
    "user": "u",
}
DIALECTS = st.sampled_from([Dialect.OPENAI, Dialect.ANTHROPIC, Dialect.GEMINI])
ODD: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, -1, 1.5, "", "x", [], {}, [None], [{}], {"type": "text"}, {"a": {}}]
)
BROKEN: st.SearchStrategy[Any] = st.just("\ud83d")
"""Half a surrogate pair, which upstreams may send; in requests it is replaced."""
MODELS = st.sampled_from(["claude-opus-5-5", "claude-sonnet-4-5", "gemini-3.8-flash", "gemini-2.0-flash", "x"])


@pytest.mark.parametrize("dialect", Dialect)
def test_has_an_adapter(dialect: Dialect) -> None:
    assert callable(new_adapter(dialect).prepare)


def test_the_adapters_of_a_server_stay_the_same() -> None:
    of = shared_adapters()
    assert of(Dialect.GEMINI) is of(Dialect.GEMINI)
    assert of(Dialect.GEMINI) is not shared_adapters()(Dialect.GEMINI)


def _places(doc: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a document."""
    inner = doc.items() if isinstance(doc, dict) else enumerate(doc) if isinstance(doc, list) else ()
    return [place, *(deeper for key, value in inner for deeper in _places(value, (*place, key)))]


def _with(doc: Any, place: tuple[Any, ...], value: Any) -> Any:
    """A copy with something else at a place."""
    copy = json.loads(json.dumps(doc))
    holder = copy
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = value
    return copy


@settings(max_examples=amount(40, 300), deadline=None)
@given(DIALECTS, MODELS, st.sampled_from(_places(FULL)[1:]), ODD)
def test_an_odd_request_is_translated_or_refused(dialect: Dialect, model: str, place: Any, value: Any) -> None:
    asked = order(_with(FULL, place, value))
    served = ServedModel(name="m", upstream=model)
    with suppress(AttemptFailed):
        assert json.loads(new_adapter(dialect).prepare(asked, channel(), served, NOTHING).body).keys()


@settings(max_examples=amount(40, 300), deadline=None)
@given(DIALECTS, st.integers(0, 10_000), st.binary(max_size=3), st.integers(0, 20))
def test_a_damaged_stream_ends_well_or_as_a_failure(dialect: Dialect, at: int, dirt: bytes, gone: int) -> None:
    data = STREAMED[dialect]
    at %= len(data)
    stream = as_chat(new_adapter(dialect)).stream(order(), channel())
    out = stream.feed(data[:at] + dirt + data[at + gone :]) + stream.end()
    assert stream.finished is (stream.failure is None)
    assert all(chunk["object"] == "chat.completion.chunk" for chunk in chunks_in(out))


@settings(max_examples=amount(40, 300), deadline=None)
@given(DIALECTS, st.data(), ODD | BROKEN)
def test_an_odd_answer_is_translated_or_a_failure(dialect: Dialect, data: st.DataObject, value: Any) -> None:
    doc = json.loads(PLAIN[dialect])
    place = data.draw(st.sampled_from(_places(doc)[1:]))
    odd = json.dumps(_with(doc, place, value)).encode()
    with suppress(AttemptFailed):
        assert (
            json.loads(body_of(as_chat(new_adapter(dialect)).whole(odd, order(), channel())))["object"]
            == "chat.completion"
        )


TEXT = "word " * 200_000
LARGE_EVENTS = {
    Dialect.OPENAI: [*map(event, story()[:1]), event(chunk(delta(TEXT)))],
    Dialect.ANTHROPIC: [anthropic.start(), anthropic.text(TEXT)],
    Dialect.GEMINI: [gemini.event(gemini.response(gemini.say(TEXT)))],
}


@pytest.mark.parametrize("dialect", LARGE_EVENTS)
@pytest.mark.parametrize("size", [1 << 30, 60_000])
def test_of_a_large_event_nothing_is_kept_once_it_was_passed_on(dialect: Dialect, size: int) -> None:
    """While a slow client reads it, no second copy waits beside it."""
    stream = as_chat(new_adapter(dialect)).stream(order(), channel(dialect=dialect))
    came = b"".join(LARGE_EVENTS[dialect])
    stream.feed(came[:10])
    tracemalloc.start()
    try:
        given = sum(len(stream.feed(came[start : start + size])) for start in range(10, len(came), size))
        held, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert given > len(TEXT)
    assert held < 100_000
    assert most / len(TEXT) < (8.5 if dialect is Dialect.OPENAI else 11.5)


def test_the_demo_puts_nothing_back_into_requests() -> None:
    assert {dialect for dialect in Dialect if dialects.DIALECTS[dialect].remembers(channel(""))} == {
        Dialect.ANTHROPIC,
        Dialect.GEMINI,
    }


def test_a_dialect_of_one_vendor_knows_its_address() -> None:
    assert {dialect for dialect in Dialect if dialects.DIALECTS[dialect].base_url} == {
        Dialect.ANTHROPIC,
        Dialect.GEMINI,
    }
