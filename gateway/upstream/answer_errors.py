"""Errors inside an answer of status 200, for every dialect and API.

An upstream that has sent the head of its answer can report a failure only in the body, as an object or an event. Some
report all failures like this. They are classified by their words, like any other error.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.channel import Channel
from gateway.domain.failure import Failure
from gateway.upstream.error_body import CODE_FIELDS, MESSAGE_FIELDS, ErrorBody, error_part, read_error, read_object
from gateway.upstream.failures import classify

_ANSWERS = (
    *("choices", "output", "content", "candidates", "data", "embeddings", "result", "response", "delta", "message"),
    *("item", "part", "models", "completion", "usageMetadata"),
)
"""Fields of answers. An object with one of them is an error only if it has an error object too."""
_COMMON = frozenset(
    {
        *("candidates", "usageMetadata", "modelVersion", "responseId"),
        *("id", "object", "created", "model", "choices", "usage", "system_fingerprint"),
    }
)
"""Fields of nearly every event. Only ``choices`` and ``object`` can report an error."""
_ERROR_HOLDERS = ("choices", "response")
"""Fields of answers that may contain an error object."""
_SUCCESS_CODES = frozenset({"", "0", "200", "ok", "success", "none", "20000"})
"""In lower case."""

_TYPES = {
    400: (
        "invalid_request_error invalid_request invalid_argument failed_precondition precondition_failed out_of_range"
        " invalid_prompt content_policy_violation refusal context_length_exceeded max_tokens_exceeded string_too_long"
        " token_limit_exceeded invalid_image image_too_large image_too_small unsupported_image_format image_not_found"
        " image_download_failed previous_response_not_found"
    ),
    401: "authentication_error unauthenticated authentication",
    402: "billing_error payment_required",
    403: "permission_error permission_denied",
    404: "not_found_error not_found deploymentnotfound",
    413: "request_too_large payload_too_large",
    422: "unprocessable",
    429: "rate_limit_error resource_exhausted rate_limit_exceeded",
    499: "cancelled",
    500: "api_error internal",
    503: "unavailable provider_unavailable slow_down",
    504: "timeout_error deadline_exceeded timeout",
    529: "overloaded_error provider_overloaded",
}
_STATUSES = {name: status for status, names in _TYPES.items() for name in names.split()}
"""The statuses of error types that come without one: Anthropic's and OpenRouter's, and google.rpc.Code."""


def failure_in(channel: Channel, body: Mapping[str, msgspec.Raw], *, event: bytes = b"") -> Failure | None:
    """Returns the failure in a body, chunk or event; else None. An ``event`` called ``error`` is always a failure."""
    error = _error_in(body, event)
    return None if error is None else _classify(channel, error)


def reports_error(body: Mapping[str, msgspec.Raw]) -> bool:
    """Returns whether ``failure_in`` finds a failure."""
    return _error_in(body, b"") is not None


def reported_failure(channel: Channel, data: bytes) -> Failure:
    """Returns the failure in a body or event that is known to be an error, in any form."""
    return _classify(channel, read_error(data))


def failure_named(channel: Channel, word: str) -> Failure:
    """Returns the failure of an answer that ended with this finish word."""
    return _classify(channel, ErrorBody(message=f"the answer ended with finish_reason '{word}'", type=word))


def _error_in(body: Mapping[str, msgspec.Raw], event: bytes) -> ErrorBody | None:
    if event == b"error":
        return read_object({name: rawjson.maybe(value) for name, value in body.items()})
    is_usual = _COMMON.issuperset(body) and rawjson.text_at(body.get("object")) != "error"
    if is_usual and b'"error"' not in bytes(body.get("choices", rawjson.NULL)):
        return None
    decoded = {name: _decode(name, value) for name, value in body.items()}
    return read_object(decoded) if error_part(decoded) is not None or _is_error(decoded) else None


def _decode(name: str, value: msgspec.Raw) -> Any:
    """Returns the value of a field. A large part of an answer is just True, unless it may contain an error object."""
    if name not in _ANSWERS or name == "message" or len(memoryview(value)) <= 64:
        return rawjson.maybe(value)
    # within a text the quotes would be escaped
    return rawjson.maybe(value) if name in _ERROR_HOLDERS and b'"error"' in bytes(value) else True


def _is_error(body: Mapping[str, Any]) -> bool:
    if body.get("object") == "error" or body.get("type") == "error" or body.get("error") is True:
        return True
    if any(body.get(name) and not (name == "message" and isinstance(body[name], str)) for name in _ANSWERS):
        return False
    if body.get("success") is False or body.get("status") in ("error", "failed", "failure"):
        return True
    has_message = any(isinstance(body.get(name), str | list) and body[name] for name in MESSAGE_FIELDS)
    codes = [body[name] for name in (*CODE_FIELDS, "statusCode") if body.get(name) is not None]
    if codes:
        return has_message and str(codes[0]).lower() not in _SUCCESS_CODES
    return any(body.get(name) for name in ("detail", "error_message", "error_msg", "errmsg", "errorMessage"))


def _classify(channel: Channel, error: ErrorBody) -> Failure:
    """Returns the failure of an error. It asks for no second request: at status 200, work may have been billed."""
    statuses = (error.status, *(_STATUSES.get(name.lower()) for name in (error.type, error.code)))
    failure = classify(channel, next(filter(None, statuses), 500), error, {})
    return msgspec.structs.replace(failure, parameters=(), max_output=None)
