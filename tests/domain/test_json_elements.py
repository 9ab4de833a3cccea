"""One walk finds every element at any depth, and ends soon after too many."""

from typing import Any

import pytest

from gateway.domain.json_elements import elements_of

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
