"""Every error has a status and a type that clients of Messages know, and advice about trying again."""

import json

import pytest

from gateway.domain.errors import (
    BadRequest,
    GatewayError,
    InternalError,
    InvalidToken,
    NoChannel,
    NotFound,
    QuotaExceeded,
    RateLimited,
    RequestRefused,
    TooLarge,
    Unavailable,
    UpstreamError,
    UpstreamTimeout,
)
from gateway.inbound.messages.api import MESSAGES

ROWS: list[tuple[GatewayError, int, str]] = [
    (InvalidToken("x"), 401, "authentication_error"),
    (RequestRefused("x"), 403, "permission_error"),
    (NotFound("model 'x' does not exist", param="model"), 404, "not_found_error"),
    (BadRequest("x"), 400, "invalid_request_error"),
    (TooLarge("x"), 413, "request_too_large"),
    (QuotaExceeded("x"), 429, "rate_limit_error"),
    (RateLimited("x", retry_after_s=2), 429, "rate_limit_error"),
    (Unavailable("x"), 503, "api_error"),
    (NoChannel("x"), 503, "api_error"),
    (UpstreamError("x", code="upstream_overloaded", status=529), 529, "overloaded_error"),
    (UpstreamError("x", status=500), 502, "api_error"),
    (UpstreamTimeout("x"), 504, "timeout_error"),
    (UpstreamError("x", status=402), 402, "billing_error"),
    (InternalError("x"), 500, "api_error"),
]


@pytest.mark.parametrize(
    ("error", "status", "kind"), ROWS, ids=lambda value: getattr(value, "code", None) or str(value)
)
def test_every_row_of_the_table(error: GatewayError, status: int, kind: str) -> None:
    assert MESSAGES.status(error) == status
    body = json.loads(MESSAGES.error_body(error, "req_1"))
    assert (body["type"], body["request_id"], body["error"]["type"]) == ("error", "req_1", kind)
    event = MESSAGES.broken_end(error, "req_1")
    assert event.startswith(b"event: error\ndata: {")
    assert json.loads(event.partition(b"data: ")[2])["error"]["type"] == kind
