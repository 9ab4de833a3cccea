"""Errors as HTTP responses, in one table. Status, type and retry advice of every code, and the body clients see.

Bodies are those of the chat-completion convention (``wire.md`` 1.6): ``{"error": {message, type, param, code}}``, all
four keys always there. What the gateway adds stands in ``error.gateway`` and ``error.metadata``, which the SDKs ignore.
"""

from math import ceil, isfinite

import msgspec

from gateway.core.ratelimit import duration, headers_of
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
    Refused,
    TooLarge,
    Unavailable,
    UpstreamError,
    UpstreamTimeout,
)

BY_CLASS: dict[type[GatewayError], tuple[int, str]] = {
    BadRequest: (400, "invalid_request_error"),
    TooLarge: (413, "invalid_request_error"),
    Refused: (403, "permission_error"),
    InvalidToken: (401, "invalid_request_error"),
    NotFound: (404, "invalid_request_error"),
    Conflict: (409, "invalid_request_error"),
    QuotaExceeded: (429, "insufficient_quota"),
    RateLimited: (429, "rate_limit_error"),
    NoChannel: (503, "server_error"),
    Unavailable: (503, "server_error"),
    AnswerMemoryFull: (503, "server_error"),
    UpstreamError: (502, "upstream_error"),
    UpstreamTimeout: (504, "upstream_error"),
    InternalError: (500, "server_error"),
    GatewayError: (500, "server_error"),
}
"""Status and type; the class's own entry or its nearest ancestor's."""

BY_CODE: dict[str, tuple[int, str]] = {
    "method_not_allowed": (405, "invalid_request_error"),
    "client_closed": (499, "invalid_request_error"),
    "request_timeout": (408, "invalid_request_error"),
    "expectation_failed": (417, "invalid_request_error"),
    "unsupported_media_type": (415, "invalid_request_error"),
    "wrong_host": (421, "invalid_request_error"),
    "upstream_rate_limited": (429, "rate_limit_error"),
    "upstream_overloaded": (503, "upstream_error"),
    "model_not_found": (404, "invalid_request_error"),
}
"""Codes whose status is not their class's."""

PASSED_ON = {
    400: "invalid_request_error",
    403: "permission_error",
    404: "invalid_request_error",
    413: "invalid_request_error",
    415: "invalid_request_error",
    422: "invalid_request_error",
}
"""An upstream's refusals of the client's own mistakes keep their status; 403 is a text it will not answer."""

NEVER_RETRY = frozenset({"answer_memory_full", "call_cancelled", "internal_error", "request_too_large_for_limit"})
"""Among them what has made an upstream work already: clients would pay for it again and again."""

LONGEST_RETRY_S = 60
"""The SDKs ignore a longer Retry-After, or give up on it (``wire.md`` 1.6)."""


def status_of(error: GatewayError) -> int:
    """The HTTP status of an error."""
    return _status_and_type(error)[0]


def _status_and_type(error: GatewayError) -> tuple[int, str]:
    if isinstance(error, UpstreamError) and error.status in PASSED_ON and _clients_fault(error):
        return error.status, PASSED_ON[error.status]
    if (by_code := BY_CODE.get(error.code)) is not None:
        return by_code
    return next(BY_CLASS[cls] for cls in type(error).__mro__ if cls in BY_CLASS)


def _clients_fault(error: UpstreamError) -> bool:
    return not error.code.startswith("upstream_") or error.code == "upstream_rejected"


def retry_headers(error: GatewayError) -> dict[str, str]:
    """``x-should-retry`` and ``retry-after``: what the official SDKs obey.

    After an upstream's failure the gateway has made its own attempts: a client's SDK must not multiply them by three.
    """
    status = status_of(error)
    wait = error.retry_after_s
    soon = wait is not None and isfinite(wait) and wait <= LONGEST_RETRY_S
    out: dict[str, str] = {}
    if wait is not None and soon:
        out["retry-after"] = str(max(1, ceil(wait)))
    spent = isinstance(error, UpstreamError) and status in (502, 504)
    if spent or isinstance(error, QuotaExceeded) or error.code in NEVER_RETRY:
        out["x-should-retry"] = "false"
    elif status in (429, 503):
        out["x-should-retry"] = "true" if soon else "false"
    return out


def body_of(error: GatewayError, call: str = "") -> dict[str, object]:
    """The error object, as JSON values."""
    kind = _status_and_type(error)[1]
    code: str | None = None if error.code == "upstream_rejected" else error.code
    ours = {k: v for k, v in error.details.items() if k not in _METADATA}
    if call:
        ours = {"call_id": call, **ours}
    metadata = {k: v for k, v in error.details.items() if k in _METADATA}
    inner: dict[str, object] = {
        "message": error.message + (f" [call {call}]" if call else ""),
        "type": kind,
        "param": error.param,
        "code": code,
    }
    if ours:
        inner["gateway"] = ours
    if metadata:
        inner["metadata"] = metadata
    return {"error": inner}


_METADATA = frozenset({"upstream", "resets_at"})


def answer(error: GatewayError, call: str = "") -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of the answer to a request that failed before its answer began."""
    headers = {**_facts(error), **headers_of(error.readings), **_limit_headers(error)}
    status = status_of(error)
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if allow := error.details.get("allow"):
        headers["Allow"] = str(allow)
    return status, headers, msgspec.json.encode(body_of(error, call))


def _facts(error: GatewayError) -> dict[str, str]:
    """What is known of the way; when to come back is told as SDKs obey it, in milliseconds only if at all."""
    when = retry_headers(error)
    left_out = {"retry-after"} if "retry-after" in when else {"retry-after", "retry-after-ms"}
    return {**{name: value for name, value in error.facts.items() if name not in left_out}, **when}


def _limit_headers(error: GatewayError) -> dict[str, str]:
    """``x-ratelimit-*`` of the limit that was reached; good answers tell those of the tightest one."""
    limit, used = error.details.get("limit"), error.details.get("used")
    kind = str(error.details.get("limit_name", "")).partition(" ")[0]
    if not isinstance(limit, int) or not isinstance(used, int) or kind not in ("requests", "tokens"):
        return {}
    return {
        f"x-ratelimit-limit-{kind}": str(limit),
        f"x-ratelimit-remaining-{kind}": str(max(0, limit - used)),
        f"x-ratelimit-reset-{kind}": duration(error.retry_after_s or 0.0),
    }


def event(error: GatewayError, call: str = "") -> bytes:
    """The last event of a stream that broke; no ``[DONE]`` follows (``wire.md`` S13)."""
    return b"data: " + msgspec.json.encode(body_of(error, call)) + b"\n\n"
