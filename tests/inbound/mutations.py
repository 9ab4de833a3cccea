"""Mutations of JSON: another value in each place of a document, and the document without each."""

import copy
import os
from collections.abc import Iterator
from typing import Any

Doc = Any
STEP = 1 if os.environ.get("TOLLKEEPER_FULL") else 13
"""Of the mutations so many are one that is tried."""
VALUES: list[Doc] = [
    *(None, True, 5, -1, 1.5, 10**30, "", "x", "\ud800", [], {}, [5], [None], [[]]),
    *({"a": 1}, {"type": "x"}, {"type": 7}, {"type": []}),
]


def mutated(doc: Doc) -> Iterator[Doc]:
    for place in list(_places(doc))[1:]:
        for value in [*VALUES, ...]:
            out = holder = copy.deepcopy(doc)
            for key in place[:-1]:
                holder = holder[key]
            if value is ...:
                del holder[place[-1]]
            else:
                holder[place[-1]] = value
            yield out


def _places(doc: Doc, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value in a document."""
    yield at
    for key in doc if isinstance(doc, dict) else range(len(doc)) if isinstance(doc, list) else ():
        yield from _places(doc[key], (*at, key))
