"""The dialect reads an answer in the form that it has, not in the form that was requested."""

import json

from gateway.domain.call import FailureKind
from gateway.upstream.learned_params import NOTHING
from gateway.upstream.openai.dialect import OpenAIDialect
from tests.cases.streams import GOOD
from tests.fakes.replies import choice, dumps, whole
from tests.upstream.makers import SERVED, as_chat, body_of, channel, order

DIALECT = OpenAIDialect()


def test_a_request_is_prepared() -> None:
    assert DIALECT.prepare(order(), channel(), SERVED, NOTHING).url == "http://127.0.0.1:9/v1/chat/completions"


def test_a_plain_answer_is_read() -> None:
    assert as_chat(DIALECT).whole(dumps(whole("m", choice("Hi"))), order(), channel()).finish == "stop"


def test_a_stream_is_assembled() -> None:
    body = body_of(as_chat(DIALECT).whole(GOOD, order(), channel()))
    assert json.loads(body)["choices"][0]["message"]["content"] == "Hi there"


def test_a_stream_is_followed() -> None:
    stream = as_chat(DIALECT).stream(order(), channel())
    stream.feed(GOOD)
    assert stream.finished


def test_a_failure_is_reported() -> None:
    failure = DIALECT.failure(channel(), 429, {"retry-after": "2"}, b'{"error":"slow down"}')
    assert (failure.kind, failure.retry_after_s) == (FailureKind.RATE, 2)
