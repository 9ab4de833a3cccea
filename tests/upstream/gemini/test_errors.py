"""Errors become kinds that decide what happens next, and messages without the channel's secrets."""

from typing import Any

import pytest

from gateway.domain.call import FailureKind
from gateway.upstream.answer_errors import reported_failure
from gateway.upstream.gemini.dialect import GeminiDialect
from tests.fakes.replies import dumps
from tests.upstream.makers import channel, error_of

WITH_KEY = channel(key="AIzaSecretSecret")
INVALID_KEY = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
DAILY = {"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}
DELAY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s"}


def _body(code: int, status: str, message: str = "It broke.", *details: Any) -> bytes:
    return dumps({"error": {"code": code, "message": message, "status": status, "details": details}})


@pytest.mark.parametrize(
    ("code", "status", "message", "details", "expected", "told"),
    [
        (400, "INVALID_ARGUMENT", "Bad.", (), FailureKind.CLIENT, "upstream_rejected"),
        (400, "FAILED_PRECONDITION", "Not here.", (), FailureKind.CLIENT, "upstream_rejected"),
        (400, "INVALID_ARGUMENT", "No.", (INVALID_KEY,), FailureKind.AUTH, "upstream_auth_failed"),
        (403, "PERMISSION_DENIED", "Leaked.", (), FailureKind.AUTH, "upstream_auth_failed"),
        (
            403,
            "PERMISSION_DENIED",
            "CachedContent not found (or permission denied)",
            (),
            FailureKind.CLIENT,
            "upstream_rejected",
        ),
        (
            403,
            "PERMISSION_DENIED",
            "You do not have permission to access the File abc123 or it may not exist.",
            (),
            FailureKind.CLIENT,
            "upstream_rejected",
        ),
        (404, "NOT_FOUND", "models/x is not found for API version v1beta", (), FailureKind.MISSING, "model_not_found"),
        (429, "RESOURCE_EXHAUSTED", "Slow down.", (DELAY,), FailureKind.RATE, "upstream_rate_limited"),
        (429, "RESOURCE_EXHAUSTED", "Enough.", (DAILY, DELAY), FailureKind.QUOTA, "upstream_out_of_credit"),
        (500, "INTERNAL", "Oops.", (), FailureKind.SERVER, "upstream_error"),
        (503, "UNAVAILABLE", "Overloaded.", (), FailureKind.SERVER, "upstream_overloaded"),
        (504, "DEADLINE_EXCEEDED", "Too slow.", (), FailureKind.SLOW, "upstream_timeout"),
    ],
)
def test_status_and_details_decide_the_kind(
    code: int, status: str, message: str, details: Any, expected: FailureKind, told: str
) -> None:
    body = _body(code, status, message, *details)
    found = GeminiDialect().failure(WITH_KEY, code, {}, body)
    assert (found.kind, error_of(found).code) == (expected, told)
    inside = reported_failure(WITH_KEY, b"[" + body + b"]")
    assert (inside.kind, error_of(inside).code, inside.parameters) == (expected, told, ())


def test_an_error_in_an_array_keeps_its_words() -> None:
    found = GeminiDialect().failure(WITH_KEY, 400, {}, b"[" + _body(400, "INVALID_ARGUMENT", "Bad field.") + b"]")
    assert "Bad field." in error_of(found).message


def test_what_concerns_the_account_is_for_the_owner_without_the_key() -> None:
    body = _body(400, "INVALID_ARGUMENT", "API key not valid: AIzaSecretSecret", INVALID_KEY)
    told = error_of(GeminiDialect().failure(WITH_KEY, 400, {}, body)).message
    assert ("not valid:" in told, "Secret" in told) == (False, False)
    kept = error_of(GeminiDialect().failure(WITH_KEY, 400, {}, body)).record_message
    assert ("API key not valid:" in kept, "Secret" in kept) == (True, False)


@pytest.mark.parametrize(
    ("message", "parameters"),
    [
        ("Unknown name \"seed\" at 'generation_config': Cannot find field.", ("seed",)),
        ('Unknown name "thinking_config": Cannot find field.', ("reasoning_effort",)),
    ],
)
def test_refused_parameters_have_the_clients_names(message: str, parameters: tuple[str, ...]) -> None:
    assert GeminiDialect().failure(WITH_KEY, 400, {}, _body(400, "INVALID_ARGUMENT", message)).parameters == parameters


def test_a_status_without_a_number_is_understood() -> None:
    body = dumps({"error": {"status": "RESOURCE_EXHAUSTED", "message": "x"}})
    assert reported_failure(WITH_KEY, body).kind is FailureKind.RATE
    assert reported_failure(WITH_KEY, dumps({"error": {"message": "x"}})).kind is FailureKind.SERVER
