"""One level of JSON is opened, the rest stays the bytes it was."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from gateway.domain import rawjson
from gateway.domain.json_text import ObjectEnd

DEEP = b"[" * 1_000_000 + b"]" * 1_000_000

NUMBERS = st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


def test_values_stay_as_they_came() -> None:
    fields = rawjson.fields(b'{ "a" : [1, 1.0, 1E-7] , "b":"\\u00e9" }')
    assert {name: bytes(value) for name, value in fields.items()} == {"a": b"[1, 1.0, 1E-7]", "b": b'"\\u00e9"'}


def test_a_lone_surrogate_does_no_harm() -> None:
    fields = rawjson.fields(b'{"a":{"b":"\\ud83d"},"c":1}')
    assert bytes(fields["a"]) == b'{"b":"\\ud83d"}'
    assert rawjson.text(rawjson.fields(fields["a"])["b"]) == "\ud83d"
    assert rawjson.encode("\ud83d") == b'"\\ud83d"'
    assert rawjson.encode({"x\ud83d": rawjson.raw([1])}) == b'{"x\\ud83d":[1]}'


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4))
def test_opening_and_closing_changes_nothing(doc: dict[str, Any]) -> None:
    data = json.dumps(doc).encode()
    assert json.loads(rawjson.encode(rawjson.fields(data))) == doc


@pytest.mark.parametrize(
    ("reader", "data"),
    [
        *((rawjson.fields, data) for data in (b"", b"[]", b"5", b"null", b'{"a":1}x', b'{"a"', DEEP, b'{"a":\x00}')),
        *((rawjson.items, data) for data in (b"{}", b'"x"', DEEP[:-1], b"[1,]", b"NaN")),
        *((rawjson.objects, data) for data in (b"[1]", b"[{},[]]", b"{}")),
        *((rawjson.text, data) for data in (b"1", b"null", b'"x', b'["x"]')),
    ],
)
def test_what_is_not_an_object_an_array_or_a_text_is_refused(reader: Callable[[bytes], object], data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        reader(data)


def test_items_and_objects() -> None:
    assert [rawjson.maybe_objects(data) for data in (b"[1]", b"[{},[]]", b"{}")] == [None] * 3
    assert rawjson.maybe_objects(b'[{"a":1}]') == [{"a": rawjson.raw(1)}]
    assert [bytes(item) for item in rawjson.items(b'[1, "\\ud83d"]')] == [b"1", b'"\\ud83d"']
    assert rawjson.objects(b'[{"a":1},{"a":"\\ud83d"}]')[1]["a"] == msgspec.Raw(b'"\\ud83d"')


def test_lone_surrogates_are_kept_and_invalid_json_may_be_nothing() -> None:
    assert rawjson.value(None) is None
    assert rawjson.value(b'{"a":["\\ud83d"]}') == {"a": ["\ud83d"]}
    assert (rawjson.maybe(b"nothing"), rawjson.maybe(DEEP)) == (None, None)


@pytest.mark.parametrize(("value", "null"), [(None, True), (b"null", True), (b"0", False), (b'""', False)])
def test_null_is_seen(value: bytes | None, *, null: bool) -> None:
    assert rawjson.is_null(None if value is None else msgspec.Raw(value)) is null


COUNTS = {"prompt_tokens": -1, "promptTokenCount": -1, "cache_n": -1, "n": None}


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b'{"a":NaN,"b":[1,-Infinity,{"c":Infinity}]}', {"a": None, "b": [1, None, {"c": None}]}),
        (b'{"prompt_tokens":NaN,"promptTokenCount":1e999,"cache_n":NaN,"n":NaN}', COUNTS),
        (b'{"usage":{"total_tokens":' + 5000 * b"9" + b"}}", {"usage": {"total_tokens": -1}}),
        (
            b'{"a":1e-7,"b":12345678901234567890123,"c":1.5,"d":NaN}',
            {"a": 1e-7, "b": 12345678901234567890123, "c": 1.5, "d": None},
        ),
    ],
    ids=["nested", "counts", "digits", "others"],
)
def test_a_number_that_is_none_does_not_lose_the_rest(data: bytes, found: dict[str, object]) -> None:
    assert rawjson.value(data) == found
    assert {name: rawjson.value(raw) for name, raw in rawjson.fields(data).items()} == found


def test_such_a_number_alone_is_nothing() -> None:
    assert rawjson.value(b"NaN") is None
    assert rawjson.items(b"[NaN,1]") == [rawjson.NULL, rawjson.raw(1)]


ENDS = [
    ("{}", True),
    (' {"a": [1, {"b": "}"}]} ', True),
    ('{"a": "\\"}"}', True),
    ('{"a": "\\\\"}', True),
    ("", False),
    ("{", False),
    ('{"a": "}', False),
    ('{"a": "\\"}', False),
    ("{}{}", False),
    ("{} x", False),
    ("[{}]", False),
    ("text {with} braces", False),
    ("}{", False),
]


@pytest.mark.parametrize(("text", "whole"), ENDS)
def test_the_end_of_an_object_is_found_at_every_split(text: str, *, whole: bool) -> None:
    for cut in range(len(text) + 1):
        end = ObjectEnd()
        end.add(text[:cut])
        end.add(text[cut:])
        assert end.reached is whole
    end = ObjectEnd()
    for char in text:
        end.add(char)
    assert end.reached is whole


@pytest.mark.parametrize(("size", "whole", "depth"), [(1_048_576, True, 0), (1_048_577, False, -1)])
def test_the_end_of_an_object_longer_than_a_mebibyte_is_not_sought(size: int, *, whole: bool, depth: int) -> None:
    """Of 17 MB of ``[],`` it took five seconds of the event loop."""
    text = '{"a":"%s"}' % ("x" * (size - 8))
    for cut in (0, 1_000_000, len(text) - 1):
        end = ObjectEnd()
        end.add(text[:cut])
        end.add(text[cut:])
        assert (end.reached, end.depth) == (whole, depth)


@pytest.mark.parametrize(
    ("names", "found", "text"),
    [
        (("a", "b"), "x", "x"),
        (("a", "n"), 1, ""),
        (("a", "c"), None, ""),
        (("a", "b", "c"), None, ""),
        (("l", "b"), None, ""),
        (("z",), None, ""),
    ],
)
def test_what_is_inside_of_a_value_is_found_by_its_names(names: tuple[str, ...], found: object, text: str) -> None:
    value = {"a": {"b": "x", "n": 1}, "l": [{"b": "x"}]}
    for either in (value, rawjson.raw(value)):
        assert (rawjson.at(either, *names), rawjson.text_at(either, *names)) == (found, text)


@pytest.mark.parametrize("value", [None, b"", b"[]", b'"x"', b"{"])
def test_fields_of_anything_but_an_object_are_none(value: bytes | None) -> None:
    assert rawjson.maybe_fields(value) == {}
    assert rawjson.maybe_fields(b'{"a": 1.50}') == {"a": msgspec.Raw(b"1.50")}
