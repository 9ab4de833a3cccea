"""Chat completions as an inbound API: how requests are put to adapters, and what errors and comments look like."""

import json
import re

import pytest

from gateway.domain import errors
from gateway.domain.call import FailureKind
from gateway.domain.channel import Dialect, Overrides
from gateway.inbound.chat.api import CHAT, error_object
from gateway.inbound.chat.native import NativeChat
from gateway.inbound.rendering import RenderingAdapter
from gateway.inbound.responses.api import RESPONSES
from gateway.upstream.gemini.dialect import GeminiDialect
from gateway.upstream.openai.dialect import OpenAIDialect
from tests.fakes.failures import failed
from tests.upstream.makers import channel, order, order_of, request_of


def test_an_order_has_the_request_and_the_names_of_its_answer() -> None:
    body = b'{"model":"m","stream":true,"messages":[{"role":"user"}]}'
    order = order_of(CHAT, body)
    assert (order.body, order.model, order.stream, order.include_usage) == (body, "m", True, False)
    assert (order.answer_id, order.created) == ("chatcmpl-0123456789abcdef01234567", 5)


@pytest.mark.parametrize(
    ("fields", "includes"),
    [
        (b'"stream_options":{"include_usage":true}', True),
        (b'"usage":{"include":true}', True),  # OpenRouter's
        (b'"usage":{"include":false}', False),
        (b'"usage":true', False),
    ],
)
def test_the_usage_of_a_stream_is_requested_in_either_way(fields: bytes, includes: bool) -> None:
    body = b'{"model":"m","stream":true,"messages":[{"role":"user"}],%b}' % fields
    assert request_of(CHAT, body).include_usage is includes


def test_answers_of_a_dialect_that_is_this_api_pass_and_others_are_rendered() -> None:
    openai, request = OpenAIDialect(), order()
    plan = CHAT.plan(request, channel(), openai, lacks_api=False)
    assert (type(plan.adapter), plan.order, plan.native) == (NativeChat, request, True)
    plan = CHAT.plan(request, channel(dialect=Dialect.GEMINI), GeminiDialect(), lacks_api=False)
    assert (type(plan.adapter), plan.native) == (RenderingAdapter, False)
    assert plan.order.conversation is not None


def test_the_owners_overrides_are_in_what_an_adapter_gets() -> None:
    owned = channel(overrides=Overrides(set={"temperature": 1}))
    plan = CHAT.plan(order(), owned, OpenAIDialect(), lacks_api=False)
    assert bytes(plan.order.fields["temperature"]) == b"1"


def test_a_body_has_the_call_and_what_helps() -> None:
    error = errors.RateLimited(
        "slow down", param="model", retry_after_s=5, details={"limit": 3, "upstream": {"name": "up"}}
    )
    assert error_object(error, "req_1") == {
        "error": {
            "message": "slow down [call req_1]",
            "type": "rate_limit_error",
            "param": "model",
            "code": "rate_limit_exceeded",
            "gateway": {"call_id": "req_1", "limit": 3},
            "metadata": {"upstream": {"name": "up"}},
        }
    }


def test_a_body_without_details_is_small() -> None:
    assert set(error_object(errors.BadRequest("x"))["error"]) == {"message", "type", "param", "code"}


def test_an_upstream_that_gave_no_code_leaves_it_null() -> None:
    assert error_object(failed(400, "upstream_rejected"))["error"]["code"] is None


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("prompt is too long: 9 > 8", "input over the maximum context length: prompt is too long: 9 > 8"),
        ("The input token count (9)", "input over the maximum context length: The input token count (9)"),
        ("This model's maximum context length is 8", "This model's maximum context length is 8"),
    ],
)
def test_langchain_reads_that_it_must_shorten_the_conversation(message: str, told: str) -> None:
    """LangChain.js searches for OpenAI's words, and for no code."""
    error = failed(400, "context_length_exceeded", message)
    assert json.loads(CHAT.error_body(error, ""))["error"]["message"] == told
    assert json.loads(RESPONSES.error_body(error, ""))["error"]["message"] == told


@pytest.mark.parametrize(
    ("kind", "retry"),
    [
        (FailureKind.SERVER, True),
        (FailureKind.NETWORK, True),
        (FailureKind.SLOW, True),
        (FailureKind.RATE, True),
        (FailureKind.CUT, True),
        (FailureKind.CLIENT, False),
        (FailureKind.AUTH, False),
        (FailureKind.QUOTA, False),
        (FailureKind.MISSING, False),
    ],
)
def test_a_broken_stream_tells_clients_whether_to_retry(kind: FailureKind, *, retry: bool) -> None:
    """Continue retries if the type is ``server_error``; opencode if the message speaks of a server error."""
    error = errors.UpstreamError("the upstream broke off", code="upstream_error")
    error.kind = kind
    assert _asks_for_retry(error) is retry


@pytest.mark.parametrize(
    ("error", "retry"),
    [
        (errors.Unavailable("stopping", code="gateway_stopping", retry_after_s=5), True),
        (errors.Unavailable("cancelled by the owner", code="call_cancelled"), False),
        (errors.QuotaExceeded("no money", retry_after_s=3600), False),
        (errors.InternalError("a bug"), False),
    ],
)
def test_own_errors_in_a_stream_say_the_same(error: errors.GatewayError, *, retry: bool) -> None:
    assert _asks_for_retry(error) is retry


def _asks_for_retry(error: errors.GatewayError) -> bool:
    found = json.loads(CHAT.broken_end(error, "req_1").removeprefix(b"data: "))["error"]
    assert set(found) >= {"message", "type", "param", "code"}
    assert (found["type"] == "server_error") is (re.search("server error|server_error", found["message"]) is not None)
    return bool(found["type"] == "server_error")


def test_an_event_ends_a_stream_without_done() -> None:
    found = CHAT.broken_end(errors.UpstreamError("cut", code="upstream_cut"), "req_1")
    assert found.startswith(b'data: {"error":{"message":"cut [call req_1] (server error: please retry your request)"')
    assert found.endswith(b"}\n\n")
    assert found.count(b"\n") == 2
    assert b"[DONE]" not in found
