"""Refused: the failure that a request meets which a dialect has no words for. Nothing of it was sent."""

from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel
from gateway.domain.errors import BadRequest
from gateway.domain.text import plain
from gateway.upstream.adapter import AttemptFailed, Failure, UpstreamText


def refused(channel: Channel, fault: BadRequest) -> AttemptFailed:
    """The fault as a failure of the attempt: status 400, the channel named, nothing sent."""
    text = f"channel '{channel.name}' cannot take this request: {plain(fault.message, 500)}"
    return AttemptFailed(
        Failure(
            kind=FailureKind.CLIENT,
            code=fault.code,
            text=UpstreamText(text),
            status=400,
            param=fault.param,
            sent=False,
        )
    )


def unsupported(param: str, why: str) -> BadRequest:
    """A parameter that the upstream has no counterpart of and that may not be left out silently."""
    return BadRequest(f"{param}: {why}", code="unsupported_parameter", param=param)
