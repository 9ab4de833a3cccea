"""A brief has the form of its body, exactly: whatever is refused in one is refused in the other."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.core import body as module
from gateway.core.asked import Asked, asked
from gateway.core.body import fields_of, read
from gateway.core.brief import LONG, LONG_TEXT, MOST, brief_of
from gateway.domain.errors import BadRequest
from tests.core.test_body import TEXT, VALUES

WORDS = 'line of "code"\n\tx = [{1}, 2]\n\\ für 😀 '
TEXTS = st.one_of(TEXT, st.integers(LONG_TEXT - 2, LONG_TEXT + 2).map("y".__mul__), st.just(WORDS * 20))
PARTS = st.lists(
    st.dictionaries(st.sampled_from(["type", "text", "image_url"]), TEXTS | VALUES, max_size=3), max_size=3
)
MESSAGES = st.lists(
    st.dictionaries(st.sampled_from(["role", "content", "name", "x"]), TEXTS | PARTS | VALUES, max_size=4), max_size=4
)
REQUESTS = st.fixed_dictionaries(
    {"messages": MESSAGES | VALUES}, optional={"model": TEXTS, "stream": VALUES, "tools": VALUES, "a": TEXTS | VALUES}
)


@pytest.fixture
def every_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short bodies are read as long ones are."""
    monkeypatch.setattr(module, "LONG", 0)


def outcome(of: Any, body: bytes) -> Any:
    try:
        return of(body)
    except BadRequest as error:
        return error.code, error.param, error.message


def said(body: bytes) -> Any:
    """All that is made of a request, but for the texts that an estimate looks at."""
    found = outcome(asked, body)
    return msgspec.structs.replace(found, input_bound=0) if isinstance(found, Asked) else found


def request(*messages: Any, **fields: Any) -> bytes:
    return json.dumps({"model": "m", "messages": messages, **fields}).encode()


def short_of(body: bytes) -> bytes | None:
    brief = brief_of(body, fields_of(body)[0])
    return None if brief is None else brief.body


@pytest.mark.usefixtures("every_length")
@given(REQUESTS, st.booleans(), st.sampled_from([None, 1, "\t"]), st.integers(0, 400), st.binary(max_size=2))
@example({"messages": [{"role": "user", "content": WORDS * 99}]}, True, None, 400, b"")
@example({"messages": [{"content": WORDS * 99}, {"content": [{"text": WORDS * 99}]}]}, False, 1, 400, b'"')
def test_a_body_is_read_alike_with_and_without_a_brief(
    doc: dict[str, Any], escaped: bool, indent: Any, at: int, junk: bytes
) -> None:
    good = json.dumps(doc, ensure_ascii=escaped, indent=indent).encode()
    for body in (good, good[:at] + junk + good[at:]):
        short = outcome(read, body)
        assert (short if isinstance(short, tuple) else (short.fields, short.digit)) == outcome(fields_of, body)


@given(REQUESTS, st.booleans())
@example({"messages": [{"role": "r" * 999, "content": "x"}], "model": "m" * 300}, True)
def test_a_request_is_understood_alike(doc: dict[str, Any], escaped: bool) -> None:
    body = json.dumps(doc, ensure_ascii=escaped).encode()
    whole = said(body)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LONG", 0)
        assert said(body) == whole


def test_long_texts_are_left_out_and_nothing_else() -> None:
    parts: list[dict[str, Any]] = [
        {"type": "text", "text": WORDS * 999},
        {"type": "image_url", "image_url": {"url": "data:" + "x" * 999}},
    ]
    body = request({"role": "system", "content": WORDS * 999, "name": "n"}, {"role": "user", "content": parts}, n=2)
    parts[0]["text"] = ""
    expected = request({"role": "system", "content": "", "name": "n"}, {"role": "user", "content": parts}, n=2)
    short = short_of(body)
    assert short is not None
    assert json.loads(short) == json.loads(expected)


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"m","messages":[{"role":"user","content":"%s"}],"model":"m"}',
        b'{"messages":[],"model":"m","messages":[{"role":"user","content":"%s"}]}',
        b'{"messages":[{"role":"user","content":"%s"}],"mess\\u0061ges":[]}',
        b'{"model":"m","messages":[{"role":"user","content":"%s"}],"":1,"":1}',
    ],
)
def test_a_key_that_stands_twice_is_found(body: bytes) -> None:
    body %= b"x" * LONG
    assert short_of_unchecked(body) is None
    assert outcome(read, body)[0] == "duplicate_key"


def short_of_unchecked(body: bytes) -> Any:
    return brief_of(body, msgspec.json.decode(body, type=dict[str, msgspec.Raw]))


@pytest.mark.parametrize("many", [b'"a":1,' * 2000, b'"b":[1,1,1],' * 1000])
def test_what_may_be_hidden_behind_a_key_that_stands_twice_is_little(many: bytes) -> None:
    body = b'{"model":"m","messages":[{%b"role":"user","content":"%b"}]}' % (many, b"x" * LONG)
    assert short_of(body) is None


@pytest.mark.parametrize("deep", [b"[" * 9000 + b"]" * 9000, b'{"a":' * 9000 + b"1" + b"}" * 9000, b"[" * 20_000])
@pytest.mark.parametrize("where", [b'"messages":[{"role":"user","content":%b}]', b'"messages":[],"x":%b'])
def test_absurd_depth_is_refused_like_any_other(where: bytes, deep: bytes) -> None:
    assert outcome(read, b"{" + where % deep + b"}")[0] == "too_deep"


def test_the_form_of_what_stays_is_checked() -> None:
    deep = "[" * 70 + "]" * 70
    body = b'{"model":"m","messages":[{"role":"user","content":"%b","x":%b}]}' % (b"x" * LONG, deep.encode())
    assert outcome(read, body)[0] == "too_deep"
    body = b'{"model":"m","messages":[{"role":"user","content":"%b","x":%b}]}' % (b"x" * LONG, b"9" * 30)
    assert outcome(read, body)[0] == "invalid_value"


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "user", "content": "x" * 100}] * 1000,
        [{"role": "user", "content": "x" * LONG}, *[{"role": "user", "content": "x"}] * MOST],
        [{"role": "user", "content": [{"type": "text", "text": "x" * 300}] * (MOST // 3)}] * 2,
        [{"role": "user", "content": "x" * LONG}, "no message"],
    ],
    ids=["short ones", "many behind a long one", "many parts", "no message"],
)
def test_what_takes_longer_or_is_of_another_make_has_no_brief(messages: list[Any]) -> None:
    body = request(*messages)
    assert short_of(body) is None
    assert read(body).fields == fields_of(body)[0]
