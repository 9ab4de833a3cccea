"""A plain answer of another dialect is read in the form it comes."""

import json

import pytest

from gateway.upstream.adapter import Whole
from gateway.upstream.translate.response import no_answer, read_translated
from tests.conformance.shapes import completion_faults
from tests.upstream.chat.saying import Sayings, said
from tests.upstream.makers import attempt_fails, channel, error_of, order


def _read(body: bytes) -> Whole:
    decoder = Sayings(channel(), late=True)
    return read_translated(body, order(), channel(), decoder, decoder.whole)


@pytest.mark.parametrize("body", [b'["H","i"]', said("H", "i"), said("H", "i").rstrip()])
def test_either_form_is_valid_to_the_letter(body: bytes) -> None:
    whole = _read(body)
    doc = json.loads(whole.body)
    assert (completion_faults(doc), doc["choices"][0]["message"]["content"], whole.finish) == ([], "Hi", "stop")


@pytest.mark.parametrize("body", [b"{}", said("Hi", "!"), said("Hi") + b"data: {\n\ndata: {\n\n"])
def test_failures(body: bytes) -> None:
    with attempt_fails() as caught:
        _read(body)
    assert caught.value.code == "upstream_bad_response"


def test_an_event_may_not_be_endless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.upstream.sse.EVENT_LIMIT", 5)
    with attempt_fails("longer than"):
        _read(said("Hello there"))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"message":"hm"}', "it is no answer: hm"),
        (b"<title>Oops</title>", "it is no JSON: Oops"),
        (b"", "an empty body"),
    ],
)
def test_what_is_no_answer_is_quoted(body: bytes, words: str) -> None:
    assert words in error_of(no_answer(body, channel()).failure).message
