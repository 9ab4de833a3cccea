"""The error family. Errors know what went wrong and what to do next; they know no HTTP.

GatewayError
├── BadRequest          the client's request is wrong; asking again the same way is useless
│   ├── TooLarge        … it is too big
│   └── Refused         … it comes from a place or in a form that is not accepted
├── InvalidToken        no token, an unknown one, or one that may not be used now
├── NotFound            what was named does not exist, or is not visible to who asks
├── Conflict            the change does not fit what is there (control surface)
├── QuotaExceeded       the money or the token budget is gone
├── RateLimited         too fast; carries when to come back
├── NoChannel           the model is known, but nothing can serve it now
├── Unavailable         the gateway itself cannot take the call: stopping, overloaded, store failed
├── UpstreamError       a channel failed; carries what the upstream said and how
│   └── UpstreamTimeout … by taking too long
└── InternalError       a bug of ours
"""

from collections.abc import Mapping
from typing import ClassVar

from gateway.domain.call import FailureKind
from gateway.domain.limits import NO_READINGS, Readings


class GatewayError(Exception):
    """Base of all expected failures.

    ``message`` says what failed, names what is involved and says what to do. ``code`` is the stable identifier clients
    see; ``param`` the request field at fault. ``retry_after_s`` is set when waiting helps. ``details`` reach the client
    under ``error.gateway``.
    """

    default_code: ClassVar[str] = "internal_error"

    def __init__(
        self,
        message: str,
        *,
        code: str = "",
        param: str | None = None,
        retry_after_s: float | None = None,
        details: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.param = param
        self.retry_after_s = retry_after_s
        self.details: dict[str, object] = dict(details or {})
        self.readings: Readings = NO_READINGS
        """The limits of who asked, where they are known."""
        self.facts: Mapping[str, str] = {}
        """What an answer's headers would tell of the call's way, if it went one."""

    @property
    def record_message(self) -> str:
        """The message as records, logs and events may keep it."""
        return self.message


class BadRequest(GatewayError):
    """The request is wrong."""

    default_code = "invalid_value"


class TooLarge(BadRequest):
    """The request is bigger than a limit."""

    default_code = "request_too_large"


class Refused(BadRequest):
    """The request is not accepted from this place or in this form: Host, Origin, content type, encoding."""

    default_code = "refused"


class InvalidToken(GatewayError):
    """The client did not present a token that may be used."""

    default_code = "invalid_api_key"


class NotFound(GatewayError):
    """What was named does not exist or is not visible."""

    default_code = "not_found"


class Conflict(GatewayError):
    """A change that does not fit: a name in use, something still referred to."""

    default_code = "conflict"


class QuotaExceeded(GatewayError):
    """No money or no budget left for this call."""

    default_code = "insufficient_quota"


class RateLimited(GatewayError):
    """Too many requests or tokens in a window, or too many calls in flight."""

    default_code = "rate_limit_exceeded"


class NoChannel(GatewayError):
    """The model is visible but no channel can serve it now."""

    default_code = "no_channel_available"


class Unavailable(GatewayError):
    """The gateway cannot take calls at the moment."""

    default_code = "overloaded"


class AnswerMemoryFull(Unavailable):
    """An answer was given up because all answers together would take too much memory. Its upstream was at work."""

    default_code = "answer_memory_full"


class UpstreamError(GatewayError):
    """A channel failed. ``status`` is what the upstream answered (0: nothing).

    The client may read in the message what it sent itself; ``quoteless`` is the same message without quotes of the
    request, for everybody else (None: it has none).
    """

    default_code = "upstream_error"

    def __init__(
        self,
        message: str,
        *,
        code: str = "",
        param: str | None = None,
        retry_after_s: float | None = None,
        details: Mapping[str, object] | None = None,
        status: int = 0,
        quoteless: str | None = None,
    ) -> None:
        super().__init__(message, code=code, param=param, retry_after_s=retry_after_s, details=details)
        self.status = status
        self.quoteless = quoteless
        self.kind = FailureKind.SERVER
        """What the failure means for other attempts."""
        self.sent = True
        """The request may have reached the upstream."""

    @property
    def record_message(self) -> str:
        """See ``GatewayError``."""
        return self.message if self.quoteless is None else self.quoteless

    def add(self, text: str) -> None:
        """Append words of our own to the message."""
        if self.quoteless is not None:
            self.quoteless += text
        self.message += text


class UpstreamTimeout(UpstreamError):
    """A channel took longer than its deadline."""

    default_code = "upstream_timeout"


class InternalError(GatewayError):
    """A bug of ours."""

    default_code = "internal_error"
