"""The time that the search for limits takes. What counts as a limit is shown with the requests of each API."""

import time

import msgspec
import pytest

from gateway.domain.errors import BadRequest
from gateway.domain.output_limit import read_limit
from tests.refusals import refusal_of


def test_names_of_many_words_of_limits_take_no_longer_than_others() -> None:
    """Once each ``max`` in a name was followed to its end: 9,000 names took five times as long, 0.2 s."""
    assert any(_seconds("minmax" * 15, start) < 3 * _seconds("min" + "q" * 87, start) for start in range(5))


def _seconds(name: str, start: int) -> float:
    """Of the processor, for 9,000 names that begin like this and that were not read before."""
    fields = {f"{name}{start}{number}": msgspec.Raw(b"1") for number in range(9000)}
    began = time.thread_time()
    read_limit(fields)
    return time.thread_time() - began


def test_an_object_with_a_key_twice_is_refused_whatever_it_is_about() -> None:
    assert refusal_of(read_limit, {"metadata": msgspec.Raw(b'{"a":{"max_tokens":9},"a":1}')}).code == "duplicate_key"
    with pytest.raises(BadRequest):
        read_limit({"metadata": msgspec.Raw(b'{"a":2,"a":1}')})
