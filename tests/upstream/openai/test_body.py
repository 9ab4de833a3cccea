"""A JSON answer where a stream was asked for is gathered, within bounds, and told as chunks."""

import pytest

from gateway.upstream.openai.stream import WholeBody
from tests.fakes.replies import choice, dumps, whole
from tests.upstream.makers import attempt_fails, channel, order


def test_pieces_become_chunks() -> None:
    body, data = WholeBody(), dumps(whole("m", choice("Hi")))
    for start in range(0, len(data), 10):
        body.add(data[start : start + 10], channel())
    chunks, marks = body.read(order(), channel())
    assert (len(list(chunks)), marks) == (2, ())


def test_what_is_no_answer_fails() -> None:
    body = WholeBody()
    body.add(b"<html>", channel())
    with attempt_fails("no JSON"):
        body.read(order(), channel())


def test_an_endless_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.upstream.openai.stream.BODY_LIMIT", 10)
    body = WholeBody()
    body.add(b"x" * 10, channel())
    with attempt_fails("longer than"):
        body.add(b"x", channel())
