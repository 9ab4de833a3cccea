"""Errors become kinds that decide what happens next, and messages without the channel's secrets."""

from typing import Any

import pytest

from gateway.domain.call import FailureKind
from gateway.domain.failure import Failure
from gateway.upstream.answer_errors import reported_failure
from gateway.upstream.anthropic.dialect import AnthropicDialect
from tests.fakes.replies import dumps
from tests.upstream.makers import channel, error_of

WITH_KEY = channel(key="sk-ant-api03-secret")


def _body(kind: str, message: str = "It broke.", **more: Any) -> bytes:
    return dumps({"type": "error", "error": {"type": kind, "message": message, **more}, "request_id": "req_1"})


def _failure(status: int, kind: str, message: str = "It broke.", **more: Any) -> Failure:
    return AnthropicDialect().failure(WITH_KEY, status, {}, _body(kind, message, **more))


@pytest.mark.parametrize(
    ("status", "kind", "message", "expected", "code"),
    [
        (400, "invalid_request_error", "max_tokens: too large", FailureKind.CLIENT, "upstream_rejected"),
        (400, "invalid_request_error", "Your credit balance is too low", FailureKind.QUOTA, "upstream_out_of_credit"),
        (401, "authentication_error", "invalid x-api-key", FailureKind.AUTH, "upstream_auth_failed"),
        (402, "billing_error", "Pay.", FailureKind.QUOTA, "upstream_out_of_credit"),
        (403, "permission_error", "Not yours.", FailureKind.AUTH, "upstream_auth_failed"),
        (404, "not_found_error", "model: claude-none", FailureKind.MISSING, "model_not_found"),
        (404, "not_found_error", "Not Found", FailureKind.SERVER, "upstream_error"),
        (413, "request_too_large", "Too big.", FailureKind.CLIENT, "upstream_rejected"),
        (429, "rate_limit_error", "Slow down.", FailureKind.RATE, "upstream_rate_limited"),
        (500, "api_error", "Oops.", FailureKind.SERVER, "upstream_error"),
        (504, "timeout_error", "Too slow.", FailureKind.SLOW, "upstream_timeout"),
        (529, "overloaded_error", "Overloaded", FailureKind.SERVER, "upstream_overloaded"),
    ],
)
def test_type_and_words_decide_the_kind(status: int, kind: str, message: str, expected: FailureKind, code: str) -> None:
    found = _failure(status, kind, message)
    assert (found.kind, error_of(found).code, error_of(found).status) == (expected, code, status)
    inside = reported_failure(WITH_KEY, _body(kind, message))
    assert (inside.kind, error_of(inside).code, inside.parameters) == (expected, code, ())


def test_a_spend_limit_is_a_matter_of_money() -> None:
    found = _failure(429, "rate_limit_error", details={"error_code": "enforced_spend_limit_reached"})
    assert (found.kind, error_of(found).code) == (FailureKind.QUOTA, "upstream_out_of_credit")


def test_what_concerns_the_account_is_for_the_owner_without_the_key() -> None:
    told = error_of(_failure(401, "authentication_error", "invalid x-api-key sk-ant-api03-secret")).message
    assert ("invalid x-api-key" in told, "secret" in told) == (False, False)
    kept = error_of(_failure(401, "authentication_error", "invalid x-api-key sk-ant-api03-secret")).record_message
    assert ("invalid x-api-key" in kept, "secret" in kept) == (True, False)


def test_retry_after_is_kept() -> None:
    found = AnthropicDialect().failure(WITH_KEY, 429, {"retry-after": "7"}, _body("rate_limit_error"))
    assert (found.retry_after_s, error_of(found).retry_after_s) == (7, 7)


@pytest.mark.parametrize(
    ("message", "parameters"),
    [
        ("top_k: Extra inputs are not permitted", ("top_k",)),
        ("thinking: Extra inputs are not permitted", ("reasoning_effort",)),
        ('"thinking.type.enabled" is not supported for this model.', ("reasoning_effort", "thinking=adaptive")),
        ("stop_sequences: Extra inputs are not permitted", ("stop",)),
    ],
)
def test_refused_parameters_have_the_clients_names(message: str, parameters: tuple[str, ...]) -> None:
    assert _failure(400, "invalid_request_error", message).parameters == parameters


def test_an_unknown_error_inside_is_the_upstreams_own() -> None:
    assert reported_failure(WITH_KEY, _body("new_error")).kind is FailureKind.SERVER


@pytest.mark.parametrize(
    ("status", "message", "expected"),
    [
        (400, "messages.0.content.0.text.cache_control: Extra inputs are not permitted", True),
        (400, "tools.0.custom.cache_control: Extra inputs are not permitted", True),
        (400, 'json: unknown field "cache_control"', True),
        (422, "Unexpected keyword argument 'cache_control'", True),
        (400, "Malformed input request: extraneous key [cache_control] is not permitted, please reformat", True),
        (400, "cache_control is not supported for this model", True),
        (400, "This model does not support prompt caching", True),
        (400, "Your request did not allow prompt caching", True),
        (400, "prompt caching is not enabled for this account", True),
        (400, "A maximum of 4 blocks with cache_control may be provided. Found 5.", False),
        (400, "messages.0.content.0.text: cache_control cannot be set for empty text blocks", False),
        (400, "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block", False),
        (500, "cache_control is not supported", False),
    ],
)
def test_a_refusal_of_cache_marks_is_known_from_a_wrong_mark(status: int, message: str, *, expected: bool) -> None:
    assert ("cache_control" in _failure(status, "invalid_request_error", message).parameters) is expected
