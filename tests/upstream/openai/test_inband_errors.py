"""Errors inside answers of status 200 are found and told apart."""

import pytest

from gateway.domain.call import FailureKind
from gateway.upstream import rawjson
from gateway.upstream.openai.chunks import failure_in, failure_word, is_error
from tests.fakes.replies import dumps
from tests.upstream.makers import channel, error_of

K = FailureKind


@pytest.mark.parametrize(
    "doc",
    [{"error": {"message": "x"}}, {"error": "x"}, {"error": {"message": "x"}, "choices": [{}]}, {"object": "error"},
     {"x_groq": {"error": "x"}}],
)  # fmt: skip
def test_an_error_is_seen(doc: object) -> None:
    assert is_error(rawjson.fields(dumps(doc)))


@pytest.mark.parametrize(
    "doc", [{}, {"error": None}, {"error": {}}, {"error": ""}, {"object": "chat.completion"}, {"x_groq": 1}]
)
def test_an_empty_one_is_none(doc: object) -> None:
    assert not is_error(rawjson.fields(dumps(doc)))


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        ({"message": "m", "code": 429}, K.RATE, "upstream_rate_limited"),
        ({"message": "m", "code": 402}, K.QUOTA, "upstream_out_of_credit"),
        ({"message": "m", "code": "insufficient_quota"}, K.QUOTA, "upstream_out_of_credit"),
        ({"message": "m", "type": "rate_limit_error"}, K.RATE, "upstream_rate_limited"),
        ({"message": "m", "type": "overloaded_error"}, K.SERVER, "upstream_overloaded"),
        ({"message": "m", "type": "authentication_error"}, K.AUTH, "upstream_auth_failed"),
        ({"message": "m", "type": "invalid_request_error"}, K.CLIENT, "upstream_rejected"),
        ({"message": "m"}, K.SERVER, "upstream_error"),
    ],
)
def test_its_kind_is_found(error: object, kind: FailureKind, code: str) -> None:
    failure = failure_in(dumps({"error": error}), channel())
    assert (failure.kind, error_of(failure).code, failure.parameters) == (kind, code, ())


def test_words_are_enough() -> None:
    assert "it broke" in error_of(failure_in(b"it broke", channel())).message
    assert "late" in error_of(failure_in(b'{"x_groq":{"error":"late"}}', channel())).message


def test_a_word_at_the_end_is_enough() -> None:
    assert "network_error" in error_of(failure_word("network_error", channel())).message
