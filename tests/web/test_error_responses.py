"""One table turns errors into HTTP; no error is left without a place in it."""

import ast
import json

import pytest

from gateway.domain import errors as family
from gateway.domain.errors import (
    AnswerMemoryFull,
    BadRequest,
    Conflict,
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
from gateway.web.error_responses import error_answer, retry_headers
from tests.fakes.failures import failed
from tests.house import files_in

NEVER = {"x-should-retry": "false"}
LATER = {"retry-after": "5", "x-should-retry": "true"}
SOON = {"retry-after": "10", "x-should-retry": "true"}

ERRORS: list[tuple[GatewayError, int, str, dict[str, str]]] = [
    (InvalidToken("x", code="missing_api_key"), 401, "invalid_request_error", NEVER),
    (InvalidToken("x"), 401, "invalid_request_error", NEVER),
    (InvalidToken("x", code="token_disabled"), 401, "invalid_request_error", NEVER),
    (InvalidToken("x", code="key_replaced"), 401, "invalid_request_error", NEVER),
    (InvalidToken("x", code="token_expired"), 401, "invalid_request_error", NEVER),
    (QuotaExceeded("x", code="token_quota_exceeded"), 429, "insufficient_quota", NEVER),
    (QuotaExceeded("x", code="group_quota_exceeded"), 429, "insufficient_quota", NEVER),
    (QuotaExceeded("x", code="account_suspended"), 429, "insufficient_quota", NEVER),
    (QuotaExceeded("x"), 429, "insufficient_quota", NEVER),
    (NotFound("x", code="model_not_found", param="model"), 404, "invalid_request_error", {}),
    (NotFound("x", code="unknown_url"), 404, "invalid_request_error", {}),
    (NotFound("x"), 404, "invalid_request_error", {}),
    (NoChannel("x"), 503, "server_error", NEVER),
    (BadRequest("x"), 400, "invalid_request_error", {}),
    *(
        (BadRequest("x", code=code), 400, "invalid_request_error", {})
        for code in (
            *("missing_required_parameter", "invalid_type", "unsupported_parameter", "invalid_json", "too_deep"),
            *("bad_configuration", "duplicate_key", "too_complex", "bad_http", "http_version", "transfer_encoding"),
            *("unexpected_body", "model_price_missing", "previous_response_not_found"),
            "websocket_connection_limit_reached",
        )
    ),
    (BadRequest("x", code="method_not_allowed"), 405, "invalid_request_error", {}),
    (BadRequest("x", code="request_timeout"), 408, "invalid_request_error", {}),
    (BadRequest("x", code="websocket_not_supported"), 426, "invalid_request_error", {}),
    (BadRequest("x", code="expectation_failed"), 417, "invalid_request_error", {}),
    (TooLarge("x"), 413, "invalid_request_error", {}),
    (RequestRefused("x", code="unsupported_media_type"), 415, "invalid_request_error", {}),
    (RequestRefused("x", code="wrong_host"), 421, "invalid_request_error", {}),
    (BadRequest("x", code="wrong_host"), 421, "invalid_request_error", {}),
    (RequestRefused("x", code="origin_not_allowed"), 403, "permission_error", {}),
    (RequestRefused("x"), 403, "permission_error", {}),
    (Conflict("x"), 409, "invalid_request_error", {}),
    (Conflict("x", code="newer_change"), 409, "invalid_request_error", {}),
    (Conflict("x", code="already_undone"), 409, "invalid_request_error", {}),
    (RateLimited("x", retry_after_s=4.2), 429, "rate_limit_error", LATER),
    (RateLimited("x", code="request_too_large_for_limit"), 429, "rate_limit_error", NEVER),
    (Unavailable("x", retry_after_s=5), 503, "server_error", LATER),
    (Unavailable("x", code="gateway_stopping", retry_after_s=5), 503, "server_error", LATER),
    (Unavailable("x", code="store_unavailable", retry_after_s=5), 503, "server_error", LATER),
    (RateLimited("x", code="too_many_streams", retry_after_s=5), 429, "rate_limit_error", LATER),
    (Unavailable("x", code="out_of_memory", retry_after_s=5), 503, "server_error", LATER),
    (Unavailable("x", code="client_closed"), 499, "invalid_request_error", {}),
    (Unavailable("x", code="call_cancelled"), 503, "server_error", NEVER),
    (failed(500), 502, "upstream_error", NEVER),
    (UpstreamError("x", code="upstream_unreachable"), 502, "upstream_error", NEVER),
    (UpstreamError("x", code="upstream_bad_response"), 502, "upstream_error", NEVER),
    (UpstreamError("x", code="upstream_stream_truncated"), 502, "upstream_error", NEVER),
    (UpstreamError("x", code="upstream_cut"), 502, "upstream_error", NEVER),
    (failed(401, "upstream_auth_failed"), 502, "upstream_error", NEVER),
    (failed(403, "upstream_auth_failed"), 502, "upstream_error", NEVER),
    (failed(400, "upstream_auth_failed"), 502, "upstream_error", NEVER),
    (failed(402, "upstream_out_of_credit"), 502, "upstream_error", NEVER),
    (failed(429, "upstream_out_of_credit"), 502, "upstream_error", NEVER),
    (failed(404, "upstream_error"), 502, "upstream_error", NEVER),
    (UpstreamTimeout("x"), 504, "upstream_error", NEVER),
    (failed(504, make=UpstreamTimeout), 504, "upstream_error", NEVER),
    (failed(429, "upstream_rate_limited", retry_after_s=5), 429, "rate_limit_error", LATER),
    (failed(429, "upstream_rate_limited"), 429, "rate_limit_error", SOON),
    (failed(503, "upstream_overloaded"), 503, "upstream_error", SOON),
    (failed(503, "upstream_overloaded", retry_after_s=5), 503, "upstream_error", LATER),
    (failed(400, "upstream_rejected"), 400, "invalid_request_error", {}),
    (failed(400, "context_length_exceeded"), 400, "invalid_request_error", {}),
    (failed(404, "model_not_found"), 404, "invalid_request_error", {}),
    (failed(413, "upstream_rejected"), 413, "invalid_request_error", {}),
    (failed(415, "upstream_rejected"), 415, "invalid_request_error", {}),
    (failed(422, "bad_value"), 422, "invalid_request_error", {}),
    (failed(403, "upstream_rejected"), 403, "permission_error", {}),
    (AnswerMemoryFull("x", retry_after_s=5), 503, "server_error", {**NEVER, "retry-after": "5"}),
    (InternalError("x"), 500, "server_error", NEVER),
    (GatewayError("x"), 500, "server_error", NEVER),
]


@pytest.mark.parametrize(("error", "status", "kind", "headers"), ERRORS, ids=lambda v: getattr(v, "code", None))
def test_status_type_and_advice(error: GatewayError, status: int, kind: str, headers: dict[str, str]) -> None:
    assert (error.http_status, error.http_type) == (status, kind)
    assert retry_headers(error, status) == headers


def test_every_class_of_the_family_has_its_entry() -> None:
    members = [c for c in vars(family).values() if isinstance(c, type) and issubclass(c, GatewayError)]
    assert set(members) - {type(error) for error, *_ in ERRORS} == set()


def test_a_class_without_an_entry_takes_its_ancestors() -> None:
    class Stranger(UpstreamError):
        """Nobody has heard of it."""

    assert failed(500, make=Stranger).http_status == 502


def test_every_code_of_the_public_surface_is_in_this_table() -> None:
    known = {error.code for error, *_ in ERRORS}
    used = {code for package in ("core", "inbound", "web", "v1", "upstream") for code in _codes(f"gateway/{package}")}
    assert used - known == {"port_in_use"}  # an error of the owner who starts a server, not of a client


def _codes(folder: str) -> set[str]:
    """Every literal given as ``code=`` in a folder."""
    calls = (node for source in files_in(folder) for node in ast.walk(source.tree) if isinstance(node, ast.keyword))
    values = (node.value for node in calls if node.arg == "code")
    return {str(value.value) for value in values if isinstance(value, ast.Constant) and value.value}


@pytest.mark.parametrize(
    ("wait", "headers"),
    [
        (0.001, {"retry-after": "1", "x-should-retry": "true"}),
        (1.0, {"retry-after": "1", "x-should-retry": "true"}),
        (1.01, {"retry-after": "2", "x-should-retry": "true"}),
        (60, {"retry-after": "60", "x-should-retry": "true"}),
        (60 + 1, NEVER),
        (float("inf"), NEVER),
        (float("nan"), NEVER),
        (None, NEVER),
    ],
)
def test_a_wait_is_whole_seconds_if_an_sdk_will_wait_it(wait: float | None, headers: dict[str, str]) -> None:
    assert retry_headers(RateLimited("x", retry_after_s=wait), 429) == headers


@pytest.mark.parametrize("error", [error for error, *_ in ERRORS])
def test_a_body_has_its_four_keys(error: GatewayError) -> None:
    inner = json.loads(error_answer(error, "req_1")[2])["error"]
    assert {"message", "type", "param", "code"} <= set(inner)
    assert isinstance(inner["message"], str)
    assert isinstance(inner["type"], str)


def test_401_says_how_to_authenticate() -> None:
    assert error_answer(InvalidToken("x"))[1]["WWW-Authenticate"] == "Bearer"
    assert "WWW-Authenticate" not in error_answer(BadRequest("x"))[1]


def test_a_reached_limit_is_reported_in_place_of_the_tightest_one() -> None:
    error = RateLimited("x", retry_after_s=1.24)
    error.call_headers = {"x-ratelimit-limit-tokens": "9", "x-ratelimit-limit-requests": "7"}
    error.limit_headers = {"x-ratelimit-limit-requests": "5"}
    found = {key: value for key, value in error_answer(error)[1].items() if key.startswith("x-ratelimit-")}
    assert found == {"x-ratelimit-limit-tokens": "9", "x-ratelimit-limit-requests": "5"}
