"""Answers of tiny elements are refused before a decode unfolds them; long texts and log probabilities pass."""

import json
import tracemalloc
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from gateway.domain import json_text
from gateway.domain.channel import Dialect
from gateway.domain.failure import AttemptFailed
from gateway.domain.json_text import TooManyElements, count_elements, pieces, refuse_many_elements
from gateway.upstream.dialects import new_adapter
from tests.cases.anthropic import streams as anthropic
from tests.cases.gemini import streams as gemini
from tests.fakes.replies import choice, chunk, delta, dumps, event, story, usage, whole
from tests.upstream.makers import as_chat, channel, error_of, order

MOST = 100_000
MANY = MOST + 2
FIELDS = b"{" + b",".join(b'"%d":1' % n for n in range(MANY)) + b"}"
ITEMS = b"[" + b",".join([b"{}"] * MANY) + b"]"
CALLS = b"[" + b",".join([b'{"id":"a","type":"function","function":{"name":"f","arguments":""}}'] * 30_000) + b"]"
OPENAI = dumps(whole("m", choice("Hi"), spent=usage()))
MIB = 1 << 20


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of the limits, so that answers beyond them are small as well."""
    monkeypatch.setattr(json_text, "MAX_ELEMENTS", MOST)
    monkeypatch.setattr(json_text, "MAX_LOGPROBS", 4 * MOST)
    monkeypatch.setattr(json_text, "SMALL", MIB // 10)


def _most_of(dialect: Dialect, body: bytes, *, stream: bool) -> tuple[str, int]:
    """What happened to an answer, and the memory that it took on top of its own size."""
    tracemalloc.start()
    try:
        if stream:
            answer = as_chat(new_adapter(dialect)).stream(order(), channel(dialect=dialect))
            out = answer.feed(body) + answer.end()
            found = error_of(answer.failure).message if answer.failure else str(len(out))
        else:
            found = str(len(as_chat(new_adapter(dialect)).whole(body, order(), channel(dialect=dialect)).body))
    except AttemptFailed as failed:
        found = error_of(failed.failure).message
    finally:
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return found, most


BOMBS: list[tuple[Dialect, bytes]] = [
    (Dialect.OPENAI, FIELDS),
    (Dialect.OPENAI, OPENAI[:-1] + b',"x":' + ITEMS + b"}"),
    (Dialect.OPENAI, OPENAI[:-1] + b"," + FIELDS[1:]),
    (Dialect.OPENAI, b'{"choices":' + ITEMS + b"}"),
    (Dialect.OPENAI, OPENAI.replace(b'"content"', b'"tool_calls":' + CALLS + b',"content"')),
    (Dialect.ANTHROPIC, b'{"type":"message","content":' + ITEMS + b"}"),
    (Dialect.GEMINI, b'{"candidates":' + ITEMS + b"}"),
    (Dialect.GEMINI, ITEMS),
]


@pytest.mark.parametrize(("dialect", "body"), BOMBS, ids=range(len(BOMBS)))
def test_an_answer_of_too_many_elements_is_a_bad_one(dialect: Dialect, body: bytes, *, stream: bool) -> None:
    found, most = _most_of(dialect, body, stream=stream)
    assert "more than 100,000 elements" in found
    size = len(body)
    assert most < 3 * size + 2 * MIB


@pytest.mark.parametrize(
    ("dialect", "event"),
    [
        (Dialect.OPENAI, b'{"choices":' + ITEMS + b"}"),
        (Dialect.ANTHROPIC, b'{"type":"content_block_delta","delta":' + ITEMS + b"}"),
        (Dialect.GEMINI, b'{"candidates":' + ITEMS + b"}"),
    ],
)
def test_so_is_an_event(dialect: Dialect, event: bytes) -> None:
    found, most = _most_of(dialect, b"data: " + event + b"\n\n", stream=True)
    assert "is not a chunk" in found or "is not valid" in found
    size = len(event)
    assert most < 5 * size + 2 * MIB


COMMAS = 'a, \\" ' * (2 * MOST)
GOOD: list[tuple[Dialect, bytes, bool]] = [
    (Dialect.OPENAI, dumps(whole("m", choice(COMMAS), spent=usage())), False),
    (Dialect.OPENAI, dumps(whole("other", choice(COMMAS), spent=usage())), False),
    (Dialect.OPENAI, event(story()[0]) + event(chunk(delta(COMMAS))) + event(story()[-1]), True),
    (Dialect.ANTHROPIC, anthropic.start() + anthropic.text(COMMAS) + anthropic.end(), True),
    (Dialect.GEMINI, gemini.event(gemini.response(gemini.say(COMMAS), finish="STOP")), True),
]


@pytest.mark.parametrize(("dialect", "body", "stream"), GOOD, ids=range(len(GOOD)))
def test_a_long_text_full_of_commas_is_passed_on(dialect: Dialect, body: bytes, *, stream: bool) -> None:
    found, _ = _most_of(dialect, body, stream=stream)
    size = len(COMMAS)
    assert int(found) > size


@pytest.mark.parametrize("model", ["m", "other"])
def test_log_probabilities_of_a_long_answer_are_passed_on(model: str, *, stream: bool) -> None:
    one = {"token": "a", "logprob": -1.5, "bytes": [97, 98, 99, 100]}
    logprobs = {"content": [{**one, "top_logprobs": [one] * 20}] * 900, "refusal": None}
    answer: dict[str, Any] = chunk(delta("Hi")) if stream else whole(model, choice("Hi"), spent=usage())
    answer["choices"][0]["logprobs"] = logprobs
    body = event(answer) + event(story()[-1]) if stream else dumps(answer)
    found, _ = _most_of(Dialect.OPENAI, body, stream=stream)
    assert int(found) > MIB // 2


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('a,\\"[{é\n', max_size=9),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(',"\\a', max_size=3), inner, max_size=5),
)


def _elements(value: Any) -> int:
    """Commas between elements."""
    if not isinstance(value, dict | list) or not value:
        return 0
    return len(value) - 1 + sum(map(_elements, value.values() if isinstance(value, dict) else value))


@given(value=JSON, escaped=st.booleans())
def test_only_what_stands_outside_strings_is_counted(value: Any, *, escaped: bool) -> None:
    text = json.dumps(value, ensure_ascii=escaped, separators=(",", ":")).encode()
    assert count_elements(text, 10**9) == _elements(value)


def test_a_text_that_ends_a_step_within_an_escape_or_a_string() -> None:
    for size in range((64 << 10) - 5, (64 << 10) + 5):
        text = json.dumps(["x" * size, '\\",' * 9, 1, 2]).encode()
        assert count_elements(text, 10**9) == 3
        refuse_many_elements(text)


def test_counting_ends_when_there_are_too_many() -> None:
    with pytest.raises(TooManyElements):
        refuse_many_elements(ITEMS)
    assert MOST < count_elements(ITEMS * 30, MOST) < 15 * MANY


@pytest.mark.parametrize("slashes", [*range(6), 63, 64, 65, 127, 128])
@pytest.mark.parametrize("text", ["", "x", '", ' * 3000])
def test_backslashes_in_front_of_a_quote_hide_no_elements(slashes: int, text: str) -> None:
    first = json.dumps("\\" * (slashes // 2) + '"' * (slashes % 2) + text).encode()
    with pytest.raises(TooManyElements):
        refuse_many_elements(b"[" + first + b"," + ITEMS + b"," + first + b"]")


@pytest.mark.parametrize("text", ["x" * 3 * MIB, ", " * 2 * MIB, '", ' * 2 * MIB, "\\" * 2 * MIB])
def test_texts_of_any_kind_pass(text: str) -> None:
    refuse_many_elements(dumps(["a", text, "b", {"c": text}]))


PIECE = 32 * 1024


@pytest.mark.parametrize("escaped", [False, True])
@pytest.mark.parametrize("sign", ["\\", '"', "\n", "é", "語", "😀"])
@pytest.mark.parametrize("before", range(PIECE - 13, PIECE + 1))
def test_a_long_text_in_pieces_is_the_same_text(before: int, sign: str, *, escaped: bool) -> None:
    text = "x" * before + 3 * sign + "y" * PIECE
    parts = [bytes(part) for part in pieces(msgspec.Raw(json.dumps(text, ensure_ascii=escaped).encode()))]
    assert "".join(msgspec.json.decode(part, type=str) for part in parts) == text
    assert len(parts) > 1
    assert all(len(part) > PIECE - 12 for part in parts[:-1])


@pytest.mark.parametrize("sign", ["é", "😀", "\\", "\ud83d"])
def test_a_text_of_escapes_only_is_split_between_them(sign: str) -> None:
    raw = json.dumps(sign * PIECE).encode()
    parts = list(pieces(msgspec.Raw(raw)))
    assert b"".join(part[1:-1] for part in parts) == raw[1:-1]
    assert max(map(len, parts)) <= PIECE + 2
    assert all(len(part[1:-1]) % (len(raw[1:-1]) // PIECE) == 0 for part in parts)
