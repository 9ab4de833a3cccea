"""The elements of decoded JSON: found in one walk over a request, and used wherever it is measured."""

import sys
from typing import Any

import msgspec


class Elements(msgspec.Struct, gc=False):
    """What a decoded value has, itself included."""

    value: Any
    objects: list[dict[str, Any]]
    texts: list[str]
    numbers: list[int | float]
    size: int
    """How many objects, arrays and commas it has, and one more."""
    depth: int
    """How deeply it is nested: 1 if it is neither an object nor an array."""


def elements_of(value: Any, limit: int = sys.maxsize) -> Elements:
    """Returns the elements of a value. If its size exceeds ``limit``, not all of them."""
    objects: list[dict[str, Any]] = []
    texts: list[str] = []
    numbers: list[int | float] = []
    size = depth = 0
    level: list[Any] = [[value]]
    while level and size <= limit:
        depth += 1
        inner: list[Any] = []
        for container in level:
            size += len(container) or 1
            for item in container.values() if type(container) is dict else container:
                kind = type(item)
                if kind is str:
                    texts.append(item)
                elif kind is dict:
                    objects.append(item)
                    inner.append(item)
                elif kind is list:
                    inner.append(item)
                elif kind is int or kind is float:
                    numbers.append(item)
        level = inner
    return Elements(value, objects, texts, numbers, size, depth)
