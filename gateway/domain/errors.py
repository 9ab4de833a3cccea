"""The error family: what went wrong, what to do next, and the HTTP status and error type that stand for it.

GatewayError
├── BadRequest          the client's request is wrong; asking again the same way is useless
│   ├── TooLarge        … it is too big
│   └── Refused         … it comes from a place or in a form that is not accepted
├── InvalidToken        no token, an unknown one, or one that may not be used now
├── NotFound            something that was named does not exist, or is not visible to the caller
├── Conflict            the change does not fit what is there (control surface)
├── QuotaExceeded       the money or the token budget is gone
├── RateLimited         too fast; carries when to come back
├── NoChannel           the model is known, but nothing can serve it now
├── Unavailable         the gateway itself cannot take the call: stopping, overloaded, store failed
├── UpstreamError       a channel failed; carries the upstream's message
│   └── UpstreamTimeout … by taking too long
└── InternalError       a bug of ours

A class gives its status and type; ``CODE_STATUS`` lists the codes that have their own, ``PASSED_STATUS`` which
statuses of an upstream are passed on. ``error_class`` finds the class of an error that arrived over HTTP.
"""

from collections.abc import Mapping
from typing import ClassVar, Final

from gateway.domain.call import FailureKind, RequestSize
from gateway.domain.limits import NO_READINGS, Readings

CODE_STATUS: Final[Mapping[str, tuple[int, str]]] = {
    "method_not_allowed": (405, "invalid_request_error"),
    "client_closed": (499, "invalid_request_error"),
    "request_timeout": (408, "invalid_request_error"),
    "expectation_failed": (417, "invalid_request_error"),
    "unsupported_media_type": (415, "invalid_request_error"),
    "websocket_not_supported": (426, "invalid_request_error"),
    "wrong_host": (421, "invalid_request_error"),
    "upstream_rate_limited": (429, "rate_limit_error"),
    "upstream_overloaded": (503, "upstream_error"),
    "model_not_found": (404, "invalid_request_error"),
}
"""Status and type of the codes that differ from their class."""

PASSED_STATUS: Final[Mapping[int, str]] = {
    400: "invalid_request_error",
    403: "permission_error",
    404: "invalid_request_error",
    413: "invalid_request_error",
    415: "invalid_request_error",
    422: "invalid_request_error",
}
"""Statuses by which an upstream refuses a client's mistake: they are passed on with this type. 403 is a text that it
will not answer."""


_TRANSIENT = frozenset({FailureKind.RATE, FailureKind.SERVER, FailureKind.NETWORK, FailureKind.SLOW, FailureKind.CUT})
"""Failures of an upstream that do not depend on the request and may not repeat."""


class GatewayError(Exception):
    """Base of all expected failures.

    ``message`` says what failed, names what is involved and says what to do. ``code`` is the stable identifier clients
    see; ``param`` the request field at fault. ``retry_after_s`` is set when waiting helps. ``details`` reach the client
    under ``error.gateway``.
    """

    default_code: ClassVar[str] = "internal_error"
    other_codes: ClassVar[tuple[str, ...]] = ()
    """Further codes that identify the class."""
    default_status: ClassVar[int] = 500
    other_statuses: ClassVar[tuple[int, ...]] = ()
    """Further statuses that identify the class if the code does not."""
    default_type: ClassVar[str] = "server_error"

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
        """The limits of the caller, if known."""
        self.request_size: RequestSize | None = None
        """The size of the request, if the call was refused for it."""
        self.facts: Mapping[str, str] = {}
        """What an answer's headers would report about the call's route."""
        self.recorded = False
        """Whether a refusal or a call was recorded with it, so that the owner sees it."""

    @property
    def http_status(self) -> int:
        """Returns the HTTP status that the client gets."""
        return self._http()[0]

    @property
    def http_type(self) -> str:
        """Returns the ``error.type`` that the client gets."""
        return self._http()[1]

    @property
    def record_message(self) -> str:
        """Returns the message as records, logs and events may keep it."""
        return self.message

    @property
    def transient(self) -> bool:
        """Returns whether the same request may succeed if it is sent again."""
        return self.retry_after_s is not None

    def _http(self) -> tuple[int, str]:
        return CODE_STATUS.get(self.code) or (self.default_status, self.default_type)


class BadRequest(GatewayError):
    """The request is wrong."""

    default_code = "invalid_value"
    default_status = 400
    other_statuses: ClassVar[tuple[int, ...]] = (405, 408, 417, 422)
    default_type = "invalid_request_error"


class TooLarge(BadRequest):
    """The request is bigger than a limit."""

    default_code = "request_too_large"
    default_status = 413


class RequestRefused(BadRequest):
    """The request is not accepted from this place or in this form: Host, Origin, content type, encoding."""

    default_code = "refused"
    default_status = 403
    other_statuses = (415, 421)
    default_type = "permission_error"


class InvalidToken(GatewayError):
    """The client sent no valid token."""

    note: str = ""
    """What only the owner may read: whose key it was."""

    default_code = "invalid_api_key"
    default_status = 401
    default_type = "invalid_request_error"

    @property
    def record_message(self) -> str:
        return f"{self.message}: {self.note}" if self.note else self.message


class NotFound(GatewayError):
    """What was named does not exist or is not visible."""

    default_code = "not_found"
    default_status = 404
    default_type = "invalid_request_error"


class Conflict(GatewayError):
    """A change that does not fit: a name in use, something still referred to."""

    default_code = "conflict"
    default_status = 409
    default_type = "invalid_request_error"


class QuotaExceeded(GatewayError):
    """Too little money or budget is left for this call."""

    default_code = "insufficient_quota"
    other_codes = ("account_suspended", "group_quota_exceeded", "token_quota_exceeded")
    default_status = 429
    default_type = "insufficient_quota"
    state: str = ""
    """How much is left and how much is needed: the message's first sentence."""
    left_nanos: int | None = None
    """Nano-dollars left by the balance and all dollar budgets."""
    left_tokens: int | None = None
    """Tokens left by all token budgets; None without any."""
    status: int = 429
    """The status that stops the calling program; see ``set_quota_status``."""
    affordable_output: int = 0
    """The output tokens of all choices together that the rest pays for."""

    def _http(self) -> tuple[int, str]:
        return self.status, self.default_type

    @property
    def transient(self) -> bool:
        """See ``GatewayError``: a budget comes back in hours or days."""
        return False


class RateLimited(GatewayError):
    """Too many requests or tokens in a window, or too many calls in flight."""

    default_code = "rate_limit_exceeded"
    default_status = 429
    default_type = "rate_limit_error"


class NoChannel(GatewayError):
    """The model is visible but no channel can serve it now."""

    default_code = "no_channel_available"
    default_status = 503
    skipped: tuple[str, ...] = ()
    """Names of the channels that are paused or need attention."""


class Unavailable(GatewayError):
    """The gateway cannot accept calls at the moment."""

    default_code = "overloaded"
    default_status = 503


class AnswerMemoryFull(Unavailable):
    """An answer was abandoned because all answers together would take too much memory. Its upstream was working."""

    default_code = "answer_memory_full"


class UpstreamError(GatewayError):
    """A channel failed. ``status`` is the upstream's (0: no answer).

    The message may quote the client's own request to it; ``quoteless`` is the message without such quotes, for everyone
    else (None: it has none).
    """

    default_code = "upstream_error"
    default_status = 502
    other_statuses = (402,)
    default_type = "upstream_error"

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
        """Whether the request may have reached the upstream."""
        self.verbatim = ""
        """The upstream's body without secrets, if the client speaks the upstream's own API."""

    @property
    def record_message(self) -> str:
        """See ``GatewayError``."""
        return self.message if self.quoteless is None else self.quoteless

    @property
    def transient(self) -> bool:
        """See ``GatewayError``."""
        return self.kind in _TRANSIENT

    def _http(self) -> tuple[int, str]:
        if self.kind is FailureKind.MISSING:
            return CODE_STATUS["model_not_found"]
        clients_mistake = not self.code.startswith("upstream_") or self.code == "upstream_rejected"
        if clients_mistake and (passed := PASSED_STATUS.get(self.status)) is not None:
            return self.status, passed
        if self.kind is FailureKind.CLIENT and self.status:  # told under the status of a failure of its own
            return 400, PASSED_STATUS[400]
        return super()._http()

    def add(self, text: str) -> None:
        """Append our own words to the message."""
        if self.quoteless is not None:
            self.quoteless += text
        self.message += text


class UpstreamTimeout(UpstreamError):
    """A channel took longer than its deadline."""

    default_code = "upstream_timeout"
    default_status = 504


class InternalError(GatewayError):
    """A bug of ours."""

    default_code = "internal_error"
    default_status = 500


def _family(root: type[GatewayError]) -> list[type[GatewayError]]:
    return [root, *(member for child in root.__subclasses__() for member in _family(child))]


_CLASSES: Final = _family(GatewayError)
_BY_CODE: Final = {code: kind for kind in _CLASSES for code in (kind.default_code, *kind.other_codes)}
_BY_STATUS: Final = {
    status: kind
    for kind in _CLASSES
    if "default_status" in vars(kind)  # one that has its parent's is found by its code alone
    for status in (kind.default_status, *vars(kind).get("other_statuses", ()))
}


def error_class(status: int, code: str) -> type[GatewayError]:
    """Returns the class of an error that arrived with this status and code. The code decides; else the status, and of
    several classes with that status the last one declared.
    """
    return _BY_CODE.get(code) or _BY_STATUS.get(status, GatewayError)


def unsupported_param(param: str, why: str) -> BadRequest:
    """Returns the error of a parameter that the upstream lacks and that must not be dropped silently."""
    return BadRequest(f"{param}: {why}", code="unsupported_parameter", param=param)
