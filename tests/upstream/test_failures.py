"""Every answer of an upstream has a kind, a code for the client, and a message that names the channel."""

import json
from collections.abc import Mapping

import pytest

from gateway.domain.call import FailureKind
from gateway.domain.errors import UpstreamTimeout
from gateway.domain.failure import Failure
from gateway.upstream import failures
from gateway.upstream.error_body import read_error
from gateway.upstream.failures import REJECTED, classify
from tests.upstream.makers import channel, error_of

K = FailureKind
UP = channel(key="sk-secret-of-ours")


def _failure(status: int, error: object = None, headers: Mapping[str, str] | None = None) -> Failure:
    doc = {"error": {"message": "it broke", "code": None} if error is None else error}
    return classify(UP, status, read_error(json.dumps(doc).encode()), headers or {})


CLASSES = [
    (400, {"message": "bad temperature", "code": "invalid_value"}, K.CLIENT, "invalid_value"),
    (400, {"message": "bad temperature"}, K.CLIENT, "upstream_rejected"),
    (400, {"message": "Invalid value: 'unauthorized'.", "code": "invalid_value"}, K.CLIENT, "invalid_value"),
    (400, {"message": "Unknown parameter: 'daily quota'.", "code": "unknown_parameter"}, K.CLIENT, "unknown_parameter"),
    (403, {"message": "You exceeded your weekly quota", "resets_in_seconds": 9}, K.RATE, "upstream_rate_limited"),
    (400, {"message": "chained", "code": "upstream_error"}, K.CLIENT, "upstream_rejected"),
    (400, {"message": "too long", "code": "context_length_exceeded"}, K.CLIENT, "context_length_exceeded"),
    (400, {"message": "blocked", "code": "content_filter"}, K.CLIENT, "content_filter"),
    (400, {"message": "API key not valid. Please pass a valid API key.", "code": 400}, K.AUTH, "upstream_auth_failed"),
    (400, {"message": "You have reached your specified API usage limits"}, K.QUOTA, "upstream_out_of_credit"),
    (400, {"message": "Your credit balance is too low"}, K.QUOTA, "upstream_out_of_credit"),
    (400, {"message": "x/y is not a valid model ID"}, K.MISSING, "model_not_found"),
    (400, {"message": "#/tools/0/name: expected maxLength: 64, actual: 70"}, K.CLIENT, "upstream_rejected"),
    (400, {"message": "The plain HTTP request was sent to HTTPS port"}, K.SERVER, "upstream_error"),
    (400, {"message": "Client sent an HTTP request to an HTTPS server."}, K.SERVER, "upstream_error"),
    (401, None, K.AUTH, "upstream_auth_failed"),
    (401, {"message": "Missing scopes: model.request", "code": "x"}, K.AUTH, "upstream_auth_failed"),
    (401, {"message": "This key has no access to model 'm'."}, K.MISSING, "model_not_found"),
    (403, {"message": "Project `p` does not have access to model `m`"}, K.MISSING, "model_not_found"),
    (403, {"message": "You don't have access to the model with the specified model ID."}, K.MISSING, "model_not_found"),
    (403, {"message": "The model m is not enabled for your account"}, K.MISSING, "model_not_found"),
    (
        403,
        {"message": "You are not allowed to sample from this model", "code": "model_not_found"},
        K.MISSING,
        "model_not_found",
    ),
    (402, None, K.QUOTA, "upstream_out_of_credit"),
    (403, None, K.AUTH, "upstream_auth_failed"),
    (403, {"message": "requires moderation and your input was flagged"}, K.CLIENT, "upstream_rejected"),
    (403, {"message": "no", "code": "insufficient_quota"}, K.QUOTA, "upstream_out_of_credit"),
    (404, {"message": "The model `m` does not exist", "code": "model_not_found"}, K.MISSING, "model_not_found"),
    (404, {"message": 'model "m" not found, try pulling it first'}, K.MISSING, "model_not_found"),
    (404, {"message": "Not Found"}, K.SERVER, "upstream_error"),
    (404, {"message": "Invalid URL (POST /v2/x)", "type": "invalid_request_error"}, K.SERVER, "upstream_error"),
    (404, {"message": "File Not Found", "type": "not_found_error"}, K.SERVER, "upstream_error"),
    (404, {"message": "File not found: file-abc", "type": "invalid_request_error"}, K.CLIENT, REJECTED),
    (404, {"message": "No such File object: file-abc", "type": "invalid_request_error"}, K.CLIENT, REJECTED),
    (403, {"availability": {"code": "region_restricted"}}, K.MISSING, "model_not_found"),  # OpenRouter
    *(
        (404, {"availability": {"code": code}}, K.MISSING, "model_not_found")
        for code in ("no_endpoints", "model_deprecated", "model_unavailable_upstream", "privacy_restricted")
    ),
    (404, {"availability": {"code": "constraint_filtered"}}, K.CLIENT, "constraint_filtered"),
    (408, None, K.SLOW, "upstream_timeout"),
    (413, {"message": "too large", "code": "rate_limit_exceeded"}, K.CLIENT, "rate_limit_exceeded"),
    (415, None, K.CLIENT, "upstream_rejected"),
    (422, None, K.CLIENT, "upstream_rejected"),
    (429, None, K.RATE, "upstream_rate_limited"),
    (429, {"message": "add a payment method in billing to go faster"}, K.RATE, "upstream_rate_limited"),
    (429, {"message": "pay", "code": "insufficient_quota"}, K.QUOTA, "upstream_out_of_credit"),
    (429, {"message": "pay", "code": "credit_balance_exhausted"}, K.QUOTA, "upstream_out_of_credit"),
    (429, {"message": "m", "details": [{"quotaId": "RequestsPerDayPerProject"}]}, K.QUOTA, "upstream_out_of_credit"),
    (498, None, K.SERVER, "upstream_overloaded"),
    (500, None, K.SERVER, "upstream_error"),
    (502, None, K.SERVER, "upstream_error"),
    (503, None, K.SERVER, "upstream_overloaded"),
    (504, None, K.SLOW, "upstream_timeout"),
    (520, None, K.SERVER, "upstream_error"),
    (524, None, K.SLOW, "upstream_timeout"),
    (529, None, K.SERVER, "upstream_overloaded"),
    (302, None, K.SERVER, "upstream_error"),
    (405, None, K.SERVER, "upstream_error"),
    (999, None, K.SERVER, "upstream_error"),
]


@pytest.mark.parametrize(("status", "error", "kind", "code"), CLASSES)
def test_an_errors_status_and_words_decide_its_kind(status: int, error: object, kind: FailureKind, code: str) -> None:
    failure = _failure(status, error)
    assert (failure.kind, error_of(failure).code, error_of(failure).status, failure.sent) == (kind, code, status, True)
    assert "'up'" in error_of(failure).message
    assert isinstance(error_of(failure), UpstreamTimeout) == (kind is K.SLOW)


@pytest.mark.parametrize("status", [401, 402, 403])
def test_words_about_our_account_do_not(status: int) -> None:
    error = error_of(_failure(status))
    assert ("it broke" in error.message, "it broke" in error.record_message) == (False, True)


def test_a_channel_without_a_key_is_distinguished() -> None:
    error = error_of(classify(channel(), 401, read_error(b""), {}))
    assert "requires a key" in error.message


def test_a_redirect_is_refused() -> None:
    assert "redirect refused" in error_of(_failure(307)).message


def test_a_page_shows_as_its_title() -> None:
    error = error_of(classify(UP, 502, read_error(b"<html><title>Bad gateway</title></html>"), {}))
    assert "HTTP 502: Bad gateway" in error.message


def test_the_param_is_the_upstreams_or_the_model() -> None:
    assert error_of(_failure(400, {"message": "m", "param": "top_p"})).param == "top_p"
    assert error_of(_failure(404, {"message": "no such model"})).param == "model"


def test_the_models_own_limit_is_read_from_a_refusal_of_the_request() -> None:
    message = "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]"
    assert _failure(400, {"message": message, "param": "max_tokens"}).max_output == 8192
    assert _failure(500, {"message": message}).max_output is None


def test_only_refusals_of_the_request_name_parameters() -> None:
    assert _failure(500, {"message": "Unsupported parameter: 'seed'"}).parameters == ()
    assert _failure(400, {"message": "temperature must be a number"}).parameters == ()


def test_a_delay_in_the_body_counts_too() -> None:
    failure = _failure(429, {"message": "m", "details": [{"retryDelay": "34s"}]})
    assert (failure.retry_after_s, error_of(failure).retry_after_s) == (34, 34)


@pytest.mark.parametrize("name", ["x-request-id", "request-id", "x-generation-id", "mistral-correlation-id"])
def test_the_upstreams_id_has_many_names(name: str) -> None:
    assert failures.upstream_id({name: "r1"}) == "r1"
    assert failures.upstream_id({}) == ""
