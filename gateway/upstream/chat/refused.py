"""Refused: the failure that a request meets which a dialect has no words for. Nothing of it was sent."""

from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel
from gateway.domain.errors import BadRequest, UpstreamError
from gateway.domain.text import plain
from gateway.upstream.adapter import AttemptFailed, Failure


def refused(channel: Channel, fault: BadRequest) -> AttemptFailed:
    """The fault as a failure of the attempt: status 400, the channel named, nothing sent."""
    error = UpstreamError(
        f"channel '{channel.name}' cannot take this request: {plain(fault.message, 500)}",
        code=fault.code,
        param=fault.param,
        status=400,
    )
    return AttemptFailed(Failure(kind=FailureKind.CLIENT, error=error, sent=False))


def unsupported(param: str, why: str) -> BadRequest:
    """A parameter that the upstream has no counterpart of and that may not be left out silently."""
    return BadRequest(f"{param}: {why}", code="unsupported_parameter", param=param)
