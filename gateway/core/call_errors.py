"""The error that the client of an admitted call gets."""

import asyncio

from gateway.core.answer_headers import answer_headers
from gateway.core.call import Call
from gateway.core.ratelimit import Limiter
from gateway.domain.call import Outcome
from gateway.domain.errors import GatewayError, InternalError, Unavailable, UpstreamTimeout


def error_of_cancellation(call: Call) -> GatewayError:
    """Returns the error of a call whose task was cancelled, for its client.

    Raises CancelledError if the client is gone.
    """
    task, ended_by = asyncio.current_task(), call.result.ended_by
    if ended_by in (None, Outcome.CLIENT_CLOSED) or task is None:
        raise asyncio.CancelledError
    task.uncancel()
    if ended_by is Outcome.TIMEOUT:
        limit_s = (call.delivery.deadline or 0) - call.context.origin.began
        return UpstreamTimeout(f"the call took longer than its total limit of {limit_s:.0f} s")
    if ended_by is Outcome.CANCELLED:
        msg = "the call was cancelled by the gateway's owner"
        return Unavailable(msg, code="call_cancelled")
    msg = "the gateway was stopped before the call could end"
    return Unavailable(msg, code="gateway_stopping", retry_after_s=5)


def take_error(call: Call, limiter: Limiter) -> GatewayError:
    """Returns the error of a call, and removes it from the call. Otherwise each would keep the other, and the answer,
    alive until the garbage collector runs.
    """
    error, call.result.error = call.result.error, None
    return with_facts(call, error or InternalError("the call failed without an error"), limiter)


def with_facts(call: Call, error: GatewayError, limiter: Limiter) -> GatewayError:
    """Returns the error with what the headers of an answer report: limits and route."""
    error.readings = limiter.readings(call.limits.scopes)
    error.facts = answer_headers(call.attempt, call.limits, call.result)
    return error
