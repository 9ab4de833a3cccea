"""JSON text is searched and counted the same, wherever it is cut into steps; one walk finds every element."""

import time
import tracemalloc
from typing import Any

import pytest

from gateway.domain.json_elements import elements_of
from gateway.domain.json_text import as_utf8, count_braces, plain_escapes, replace_lone_surrogates


def test_escapes_of_quotes_stay_as_they_are() -> None:
    assert plain_escapes(rb'"\u0022\u005c\u0041\u000a\u00e4"') == rb'"\u0022\u005cA\u000a\u00e4"'


@pytest.mark.parametrize("escape", [b"\\u0001", b"\\u0041", b"\\u0022"])
def test_a_text_of_nothing_but_escapes_costs_little_memory(escape: bytes) -> None:
    text = escape * (1 << 17)
    tracemalloc.start()
    try:
        assert plain_escapes(text) == (b"A" * (1 << 17) if escape == b"\\u0041" else text)
        assert tracemalloc.get_traced_memory()[1] < 2 * len(text)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("size", [1 << 10, 32 << 20])
def test_braces_are_counted_at_once_however_many_there_are(size: int) -> None:
    """No other thread runs meanwhile. 32 MiB of them took a quarter of a second, and should take 10 ms."""
    began = time.thread_time()
    assert count_braces(b"{" * size + b"}") == size
    assert time.thread_time() - began < 0.12


@pytest.mark.parametrize("shift", range(4))
def test_a_character_of_a_large_text_may_be_anywhere(shift: int) -> None:
    text = ("x" * ((64 << 10) - shift) + "\N{GRINNING FACE}").encode()
    assert as_utf8(text) is text
    assert as_utf8(text[:-1]).decode().endswith("x\N{REPLACEMENT CHARACTER}")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32"])
def test_json_in_other_encodings_is_read(encoding: str) -> None:
    assert as_utf8('{"a":"\N{GRINNING FACE}"}'.encode(encoding)).decode() == '{"a":"\N{GRINNING FACE}"}'


def test_a_character_cut_in_two_in_a_large_text_costs_little_memory() -> None:
    text = b"x" * (8 << 20) + b"\xe2"
    tracemalloc.start()
    try:
        assert as_utf8(text).endswith("x\N{REPLACEMENT CHARACTER}".encode())
        assert tracemalloc.get_traced_memory()[1] < 2.5 * len(text)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("shift", range(14))
def test_surrogates_of_a_large_text_may_be_anywhere(shift: int) -> None:
    before = b"x" * ((64 << 10) - shift)
    text = before + rb"\ud83d\ude00\\ud83d\ud83d\n\ude00" + before
    assert replace_lone_surrogates(text) == before + rb"\ud83d\ude00\\ud83d\ufffd\n\ufffd" + before


INNER: dict[str, Any] = {"b": "x", "c": [1, 2.5, True, None, {}]}
VALUE: list[Any] = ["text", INNER]


def test_all_elements_are_found() -> None:
    found = elements_of(VALUE)
    assert (found.value, found.objects, found.texts, found.numbers) == (VALUE, [INNER, {}], ["text", "x"], [1, 2.5])


@pytest.mark.parametrize(
    ("value", "size", "depth"), [("x", 1, 1), ([], 2, 2), ([[], []], 5, 3), ({"a": 1, "b": 2}, 3, 2), (VALUE, 11, 5)]
)
def test_size_and_depth(value: object, size: int, depth: int) -> None:
    found = elements_of(value)
    assert (found.size, found.depth) == (size, depth)


def test_the_walk_ends_after_too_many() -> None:
    assert elements_of([[[]], [[]]], limit=2).depth == 2
