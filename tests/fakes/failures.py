"""Errors of upstreams as ``redaction`` makes them."""

from gateway.domain.errors import UpstreamError


def failed(
    status: int,
    code: str = "",
    message: str = "x",
    *,
    retry_after_s: float | None = None,
    make: type[UpstreamError] = UpstreamError,
) -> UpstreamError:
    """Returns the error of an upstream that answered with this status."""
    error = make(message, code=code, retry_after_s=retry_after_s)
    error.status = status
    return error
