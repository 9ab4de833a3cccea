"""Errors as HTTP responses: retry advice, headers, and the body clients see. Status and type are the error's own.

Bodies are those of the chat-completion convention (``wire.md`` 1.6): ``{"error": {message, type, param, code}}``, all
four keys always there. What the gateway adds stands in ``error.gateway`` and ``error.metadata``, which the SDKs ignore.
"""

from math import ceil, isfinite

import msgspec

from gateway.core.ratelimit import duration, headers_of
from gateway.domain.errors import GatewayError, QuotaExceeded, UpstreamError

NEVER_RETRY = frozenset({"answer_memory_full", "call_cancelled", "internal_error", "request_too_large_for_limit"})
"""Among them what has made an upstream work already: clients would pay for it again and again."""

LONGEST_RETRY_S = 60
"""The SDKs ignore a longer Retry-After, or give up on it (``wire.md`` 1.6)."""


def retry_headers(error: GatewayError) -> dict[str, str]:
    """``x-should-retry`` and ``retry-after``: what the official SDKs obey.

    After an upstream's failure the gateway has made its own attempts: a client's SDK must not multiply them by three.
    """
    status = error.http_status
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
    code: str | None = None if error.code == "upstream_rejected" else error.code
    ours = {k: v for k, v in error.details.items() if k not in _METADATA}
    if call:
        ours = {"call_id": call, **ours}
    metadata = {k: v for k, v in error.details.items() if k in _METADATA}
    inner: dict[str, object] = {
        "message": error.message + (f" [call {call}]" if call else ""),
        "type": error.http_type,
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
    status = error.http_status
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
