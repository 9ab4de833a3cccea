"""Errors as HTTP responses: status, headers and retry advice. The API that the client uses writes the body."""

from math import ceil

from gateway.core.channel_health import STEPS_S
from gateway.core.quota_refusals import OWNERS_FAULTS
from gateway.domain.errors import GatewayError, InvalidToken, QuotaExceeded, RateLimited, UpstreamError
from gateway.inbound.api import InboundApi
from gateway.inbound.chat.api import CHAT

NEVER_RETRY = OWNERS_FAULTS | {
    *("answer_memory_full", "call_cancelled", "internal_error", "request_too_large_for_limit")
}
"""Codes that SDKs must not retry. For some of them an upstream has worked, and each retry would be paid for again."""


def retry_headers(error: GatewayError, status: int) -> dict[str, str]:
    """Returns ``x-should-retry`` and ``retry-after``, which the official SDKs obey.

    After an upstream's failure the gateway made its own attempts, which a client's SDK must not multiply. An upstream
    that is only busy gets as much time as the gateway's own first pause gives it, if it names none.
    """
    wait_s = None if error.needs_long_wait else error.retry_after_s
    if error.retry_after_s is None and status in (429, 503) and isinstance(error, UpstreamError):
        wait_s = STEPS_S[0]
    headers = {} if wait_s is None else {"retry-after": str(max(1, ceil(wait_s)))}
    failed_upstream = isinstance(error, UpstreamError) and status in (502, 504)
    if (
        failed_upstream
        or error.needs_long_wait
        or isinstance(error, (InvalidToken, QuotaExceeded))
        or error.code in NEVER_RETRY
    ):
        headers["x-should-retry"] = "false"
    elif status in (429, 503):
        headers["x-should-retry"] = "false" if wait_s is None else "true"
    return headers


def error_answer(error: GatewayError, call: str = "", api: InboundApi = CHAT) -> tuple[int, dict[str, str], bytes]:
    """Returns the answer to a request that failed before one began, with ``retry-after-ms`` only if SDKs obey it."""
    status = api.status(error)
    retry = retry_headers(error, status)
    omitted = {"retry-after"} if "retry-after" in retry else {"retry-after", "retry-after-ms"}
    headers = {name: value for name, value in error.call_headers.items() if name not in omitted} | retry
    if isinstance(error, RateLimited):
        headers |= error.limit_headers
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if allow := error.details.get("allow"):
        headers["Allow"] = str(allow)
    return status, headers, api.error_body(error, call)
