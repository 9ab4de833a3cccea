"""Every error has a status and a type that clients of Messages know, and advice about trying again."""

import json

import pytest

from gateway.domain import errors
from gateway.inbound.messages.api import MESSAGES
from tests.fakes.failures import failed

ROWS: list[tuple[errors.GatewayError, int, str]] = [
    (errors.InvalidToken("x"), 401, "authentication_error"),
    (errors.RequestRefused("x"), 403, "permission_error"),
    (errors.NotFound("model 'x' does not exist", param="model"), 404, "not_found_error"),
    (errors.BadRequest("x"), 400, "invalid_request_error"),
    (errors.TooLarge("x"), 413, "request_too_large"),
    (errors.QuotaExceeded("x"), 429, "rate_limit_error"),
    (errors.RateLimited("x", retry_after_s=2), 429, "rate_limit_error"),
    (errors.Unavailable("x"), 503, "api_error"),
    (errors.NoChannel("x"), 503, "api_error"),
    (failed(529, "upstream_overloaded"), 529, "overloaded_error"),
    (failed(500), 502, "api_error"),
    (errors.UpstreamTimeout("x"), 504, "timeout_error"),
    (errors.UpstreamError("x", code="upstream_out_of_credit"), 402, "billing_error"),
    (errors.InternalError("x"), 500, "api_error"),
]


@pytest.mark.parametrize(
    ("error", "status", "kind"), ROWS, ids=lambda value: getattr(value, "code", None) or str(value)
)
def test_every_row_of_the_table(error: errors.GatewayError, status: int, kind: str) -> None:
    assert MESSAGES.status(error) == status
    body = json.loads(MESSAGES.error_body(error, "req_1"))
    assert (body["type"], body["request_id"], body["error"]["type"]) == ("error", "req_1", kind)
    event = MESSAGES.broken_end(error, "req_1")
    assert event.startswith(b"event: error\ndata: {")
    assert json.loads(event.partition(b"data: ")[2])["error"]["type"] == kind


@pytest.mark.parametrize(
    ("message", "verbatim", "told"),
    [
        ("too long for 8 tokens", "", "prompt is too long: too long for 8 tokens"),
        ("too long for 8 tokens", '{"detail":"too long"}', "prompt is too long: too long for 8 tokens"),
        ("prompt is too long: 9 tokens > 8 maximum", "", "prompt is too long: 9 tokens > 8 maximum"),
    ],
)
def test_claude_code_reads_that_it_must_compact(message: str, verbatim: str, told: str) -> None:
    """It searches for these words of Anthropic's, and for no code."""
    error = failed(400, "context_length_exceeded", message)
    error.verbatim = verbatim
    assert json.loads(MESSAGES.error_body(error, "req_1"))["error"]["message"] == told


def test_anthropics_own_words_for_an_input_that_is_too_long_pass_unchanged() -> None:
    own = '{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 > 8"}}'
    words = "channel 'up': prompt is too long: 9 > 8"
    error = failed(400, "context_length_exceeded", words)
    error.verbatim = own
    assert MESSAGES.error_body(error, "req_1") == own.encode()
