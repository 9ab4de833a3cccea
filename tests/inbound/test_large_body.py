"""A large body is read exactly as a small one is, and in slices; what is made of it fits when it is put together."""

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.domain.errors import BadRequest
from gateway.domain.long_strings import HEAD, TAIL
from gateway.inbound.api import LARGE
from gateway.inbound.json_body import fields_of, unmask
from gateway.inbound.large_body import LONG, LargeBody, read_large, slices
from tests.house import amount
from tests.inbound.test_json_body import SURROGATES, TEXT, VALUES

PIECES = st.sampled_from(
    ["\\", '"', "\n", "\t", "é", "你", "😀", "\x7f", "\ue000", "a", "word ", "{[,:]}", "\ud800", "\udc00", "/", "\x00"]
)
TALL = st.tuples(PIECES, PIECES, st.integers(0, 2000)).map(lambda t: t[0] * t[2] + t[1] + t[0] * 40)
"""Long texts that are hard to cut."""
DOCS = st.dictionaries(TEXT, st.one_of(VALUES, TALL, st.lists(TALL, max_size=3), st.just(None)), max_size=5)


def spell(doc: object, *, escaped: bool) -> bytes:
    return json.dumps(doc, ensure_ascii=escaped).encode("utf-8", "surrogatepass")


def whole(read: LargeBody) -> dict[str, bytes]:
    """The fields with everything put back, as they came."""
    return {name: unmasked(b"".join(read.long.filled(bytes(raw))), read.mask) for name, raw in read.fields.items()}


def unmasked(raw: bytes, mask: bytes) -> bytes:
    return unmask(raw, mask) if mask else raw


def outcome(body: bytes, **sizes: Any) -> object:
    """The fields, or the error."""
    try:
        if sizes:
            read = read_large(body, **sizes)
            return {unmasked(name.encode(), b""): raw for name, raw in whole(read).items()}
        fields, mask = fields_of(body)
    except BadRequest as error:  # what is wrong in two ways may be refused for either
        return error.code.replace("invalid_type", "invalid_json")
    return {name.encode(): unmasked(bytes(raw), mask) for name, raw in fields.items()}


@settings(max_examples=amount(40, 400), deadline=None)
@given(DOCS, st.booleans(), st.sampled_from([32, 33, 100, 1000]), st.sampled_from([LONG, HEAD + TAIL, 700]))
@example({"a": "\ud83d\ude00" * 400}, True, 33, 700)
def test_it_is_read_as_a_small_one_is(doc: dict[str, Any], escaped: bool, step: int, long: int) -> None:
    body = spell(doc, escaped=escaped)
    assert outcome(body, long=long, step=step) == outcome(body)


@settings(max_examples=amount(40, 400), deadline=None)
@given(DOCS, st.booleans(), st.data())
def test_a_damaged_one_is_refused_as_a_small_one_is(doc: dict[str, Any], escaped: bool, data: st.DataObject) -> None:
    body = bytearray(spell(doc, escaped=escaped))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(body) - 1))
        body[place : place + 1] = data.draw(st.sampled_from([b"", b"\\", b'"', b"\xff", b"\n", b"u", b"\xe4", b"{"]))
        body = body or bytearray(b"{}")
    assert outcome(bytes(body), long=HEAD + TAIL, step=40) == outcome(bytes(body))


@pytest.mark.parametrize(
    "damage", [b"\\x", b"\n", b"\xff", b'"x', b"\\ud8zz", b'","a":1,"b":x', b'"}{'], ids=lambda d: repr(d)[2:-1]
)
@pytest.mark.parametrize("where", [0, 5_000, 99_999])
def test_the_position_of_an_error_is_reported(damage: bytes, where: int) -> None:
    text = b"x" * where + damage + b"y" * (100_000 - where)
    body = b'{"first":"' + b"z" * 50_000 + b'","second":"' + text + b'","third":"' + b"z" * 9_000 + b'"}'
    with pytest.raises(BadRequest) as small:
        fields_of(body)
    with pytest.raises(BadRequest) as large:
        read_large(body, step=1000)
    assert large.value.message == small.value.message


def test_what_is_left_is_brief() -> None:
    body = b'{"a":"' + b"\\ud800" * 500_000 + b'","b":["' + "é".encode() * 500_000 + b'",1]}'
    read = read_large(body)
    assert len(read.brief) < 4 * (HEAD + TAIL)
    assert json.loads(unmask(b"".join(read.long.filled(read.brief)), read.mask)) == json.loads(body)


def test_short_strings_and_names_stay() -> None:
    body = b'{"a":"' + b"x" * (LONG - 1) + b'","' + b"n" * LONG + b'" : 1}'
    read = read_large(body)
    assert (read.brief, list(read.fields)) == (body, ["a", "n" * LONG])


def test_names_that_differ_in_the_middle_are_two_and_the_same_name_is_one() -> None:
    name = b"n" * 5000
    read_large(b'{"%b1%b":1,"%b2%b":2}' % (name, name, name, name))
    with pytest.raises(BadRequest, match="twice"):
        read_large(b'{"%b":1,"%b":2}' % (name, name))


@pytest.mark.parametrize("char", ["\x7f", "\\u007f", "\\u007F", "\x7f\ue000", "\x7f\\uE000"])
def test_a_mark_is_never_in_the_text(char: str) -> None:
    body = ('{"a":"' + "x" * 5000 + char + '0:1\x7f0:4424\x7f"}').encode()
    read = read_large(body)
    assert b"".join(read.long.filled(read.brief)) == body
    assert read.long.mark not in json.loads(body)["a"]


def test_a_text_with_all_the_marks_is_not_shortened() -> None:
    chars = "\x7f" + "".join(map(chr, range(0xE000, 0xE010)))
    body = ('{"a":"' + "x" * 5000 + chars + '"}').encode()
    assert read_large(body).brief == body


def test_nothing_is_repeated_again_and_again() -> None:
    """A brief text in which a mark stands more often than in the request is not worth gigabytes."""
    read = read_large(b'{"a":"' + b"x" * LARGE + b'"}')
    with pytest.raises(ValueError, match="again and again"):
        read.long.filled(read.brief * 3)


def test_the_missing_bytes_are_counted() -> None:
    body = b'{"a":["' + b"x" * 9_000 + b'"],"b":["' + b"y" * 5_000 + b'"]}'
    read = read_large(body)
    assert len(read.brief) + read.long.hidden(read.brief) - 2 * len("\x7f0:8424\x7f") == len(body)
    assert read.long.hidden(read.fields["a"]) == 9_000 - HEAD - TAIL
    assert read.long.hidden(json.loads(read.brief)["b"][0]) == 5_000 - HEAD - TAIL


@given(SURROGATES, st.sampled_from([32, 40]))
def test_slices_cut_through_nothing(text: str, step: int) -> None:
    inner = json.dumps(text)[1:-1].encode()
    parts = list(slices(inner, step))
    assert b"".join(parts) == inner
    assert all(len(part) <= step for part in parts)
    assert "".join(json.loads(b'"' + part + b'"') for part in parts) == json.loads(json.dumps(text))


def test_a_string_at_the_top_stays_whole_unless_it_is_huge() -> None:
    read = read_large(b'{"user":"' + b"x" * 9_000 + b'","other":"' + b"y" * 90_000 + b'"}')
    assert bytes(read.fields["user"]) == b'"' + b"x" * 9_000 + b'"'
    assert len(bytes(read.fields["other"])) < 1000
