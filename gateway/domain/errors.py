"""The error family: what went wrong, what to do next, and the HTTP status and error type that stand for it.

Each class has a status and a type; ``CODE_STATUS`` has those of codes that differ. The upstream statuses in
``PASSED_STATUS`` are passed on. ``error_class`` returns the class of an error that was received over HTTP.
"""

from collections.abc import Mapping
from typing import ClassVar, Final

from gateway.domain.call import FailureKind

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

PASSED_STATUS: Final = frozenset({400, 403, 404, 413, 415, 422})
"""The upstream statuses that are passed on: those for the client's mistakes. 403: the prompt is refused."""

_TRANSIENT = frozenset({FailureKind.RATE, FailureKind.SERVER, FailureKind.NETWORK, FailureKind.SLOW, FailureKind.CUT})
"""Failures of an upstream that do not depend on the request, so that a retry may succeed."""


class GatewayError(Exception):
    """The base of all expected failures.

    ``message`` says what failed, names what is involved and says what to do. ``code`` is the stable identifier for
    clients, ``param`` the wrong field of the request. ``retry_after_s`` is set if waiting helps. Clients get
    ``details`` as ``error.gateway``.
    """

    default_code: ClassVar[str] = "internal_error"
    other_codes: ClassVar[tuple[str, ...]] = ()
    """Other codes that identify the class."""
    default_status: ClassVar[int] = 500
    other_statuses: ClassVar[tuple[int, ...]] = ()
    """Other statuses that identify the class if the code does not."""
    default_type: ClassVar[str] = "server_error"

    owner_message: str = ""
    """The message for the owner, if it differs: it quotes no request, and may say whose key it was."""

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
        self.marks: list[str] = []
        """Marks for the record of the call, if it is refused."""
        self.call_headers: Mapping[str, str] = {}
        """The headers that report the limits of the caller, and the route of the call."""
        self.program_status = 0
        """The status that makes the calling program stop; 0 for the code's own status. See ``set_program_status``."""
        self.recorded = False
        """Whether the owner can see it already, in the record of a call or of a refusal."""

    @property
    def http_status(self) -> int:
        return self.program_status or self._status_and_type()[0]

    @property
    def needs_long_wait(self) -> bool:
        """Returns whether the client must wait for more than a minute, which is the longest that official SDKs wait."""
        return self.retry_after_s is not None and not self.retry_after_s <= 60

    @property
    def http_type(self) -> str:
        """Returns the ``error.type`` that the client gets."""
        return self._status_and_type()[1]

    @property
    def record_message(self) -> str:
        """Returns the message as records, logs and events may keep it."""
        return self.owner_message or self.message

    @property
    def transient(self) -> bool:
        """Returns whether the same request may succeed if it is sent again."""
        return self.retry_after_s is not None

    def _status_and_type(self) -> tuple[int, str]:
        return CODE_STATUS.get(self.code, (self.default_status, self.default_type))


class BadRequest(GatewayError):
    """The request is wrong. Sending it again does not help."""

    default_code = "invalid_value"
    default_status = 400
    other_statuses: ClassVar[tuple[int, ...]] = (405, 408, 417, 422)
    default_type = "invalid_request_error"


class TooLarge(BadRequest):
    """The request is bigger than a limit."""

    default_code = "request_too_large"
    default_status = 413


class RequestRefused(BadRequest):
    """The request has a Host, Origin, content type or encoding that is not accepted."""

    default_code = "refused"
    default_status = 403
    other_statuses = (415, 421)
    default_type = "permission_error"


class InvalidToken(GatewayError):
    """The client sent no valid token."""

    default_code = "invalid_api_key"
    default_status = 401
    default_type = "invalid_request_error"


class NotFound(GatewayError):
    """Something that was named does not exist or is not visible."""

    default_code = "not_found"
    default_status = 404
    default_type = "invalid_request_error"


class Conflict(GatewayError):
    """The change does not fit the current configuration: a name is in use, or something is still referred to."""

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
    """The first sentence of the message: how much is left and how much is needed."""
    affordable_output: int = 0
    """The output tokens of all choices together that the money left pays for."""

    @property
    def transient(self) -> bool:
        """Returns False, because it takes hours or days until a budget is renewed."""
        return False


class RateLimited(GatewayError):
    """Too many requests or tokens in a window, or too many calls in flight."""

    default_code = "rate_limit_exceeded"
    default_status = 429
    default_type = "rate_limit_error"
    limit_headers: Mapping[str, str] = {}
    """The ``x-ratelimit-*`` headers of the limit that was reached; successful answers have the tightest limit's."""


class NoChannel(GatewayError):
    """The model is visible but no channel can serve it now."""

    default_code = "no_channel_available"
    default_status = 503


class Unavailable(GatewayError):
    """The gateway cannot accept calls at the moment: it stops, has too many, or its store has failed."""

    default_code = "overloaded"
    default_status = 503


class AnswerMemoryFull(Unavailable):
    """An answer was abandoned because all answers together would take too much memory. The upstream did not fail."""

    default_code = "answer_memory_full"


class UpstreamError(GatewayError):
    """A channel failed. ``status`` is the upstream's HTTP status; 0 if it did not answer."""

    default_code = "upstream_error"
    default_status = 502
    other_statuses = (402,)
    default_type = "upstream_error"

    status: int = 0
    kind: FailureKind = FailureKind.SERVER
    """The kind of failure, which decides whether to try again."""
    sent: bool = True
    """Whether the request may have reached the upstream."""
    lasting: bool = False
    """Whether another attempt in a moment would fail in the same way."""
    may_be_response: bool = False
    """Whether the upstream refused a chat that it may take as a response."""
    verbatim: str = ""
    """The upstream's body without secrets, if the client speaks the upstream's own API."""

    @property
    def transient(self) -> bool:
        return self.kind in _TRANSIENT

    def _status_and_type(self) -> tuple[int, str]:
        if self.kind is FailureKind.MISSING:
            return CODE_STATUS["model_not_found"]
        is_clients_mistake = not self.code.startswith("upstream_") or self.code == "upstream_rejected"
        if self.code == "context_length_exceeded":  # 403 at Together, 413 and 422 at TGI
            return 400, BadRequest.default_type
        if is_clients_mistake and self.status in PASSED_STATUS:
            return self.status, RequestRefused.default_type if self.status == 403 else BadRequest.default_type
        if self.kind is FailureKind.CLIENT and self.status:  # the client's mistake, reported as another failure
            return 400, BadRequest.default_type
        return super()._status_and_type()

    def add(self, text: str) -> None:
        """Append a text of ours to the message."""
        if self.owner_message:
            self.owner_message += text
        self.message += text


class UpstreamTimeout(UpstreamError):
    """A channel took longer than its deadline."""

    default_code = "upstream_timeout"
    default_status = 504


class InternalError(GatewayError):
    """A bug of ours."""

    default_code = "internal_error"
    default_status = 500


def unexpected_error(exc: Exception, call: str) -> GatewayError:
    """Returns the error of the call with this id, which failed by an exception that is not of the family."""
    if isinstance(exc, MemoryError) or "can't start new thread" in str(exc):
        msg = "the system gives the server no more memory or threads; try again when other calls have ended"
        return Unavailable(msg, retry_after_s=1)
    return InternalError(f"the gateway failed because of a bug; the call is {call}")


def _family(root: type[GatewayError]) -> list[type[GatewayError]]:
    return [root, *(member for child in root.__subclasses__() for member in _family(child))]


_CLASSES: Final = _family(GatewayError)
_BY_CODE: Final = {code: kind for kind in _CLASSES for code in (kind.default_code, *kind.other_codes)}
_BY_STATUS: Final = {
    status: kind
    for kind in _CLASSES
    if "default_status" in vars(kind)  # one that inherits it is identified by its code alone
    for status in (kind.default_status, *vars(kind).get("other_statuses", ()))
}


def error_class(status: int, code: str) -> type[GatewayError]:
    """Returns the class of a received error: the one with its code, else the last one with its status."""
    return _BY_CODE.get(code) or _BY_STATUS.get(status, GatewayError)


def unsupported_param(param: str, reason: str) -> BadRequest:
    """Returns the error for a parameter that the upstream lacks and that must not be dropped silently."""
    return BadRequest(f"{param}: {reason}", code="unsupported_parameter", param=param)
