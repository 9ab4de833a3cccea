"""Failure: why an attempt at an upstream failed, in words not yet cleared of secrets."""

from collections.abc import Callable, Mapping

import msgspec

from gateway.domain.call import FailureKind


class UpstreamText:
    """Text that an upstream sent, or that may quote it: the channel's key, a header, the client's prompt.

    It cannot be read, formatted or printed. Only ``redaction`` turns it into a string, cleared of secrets.
    """

    __slots__ = ("_raw",)

    def __init__(self, raw: str = "") -> None:
        self._raw = raw

    def cleared(self, clear: Callable[[str], str]) -> str:
        """Returns the text after ``clear``."""
        return clear(self._raw)

    def __bool__(self) -> bool:
        return bool(self._raw)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UpstreamText) and other._raw == self._raw

    def __hash__(self) -> int:
        return hash(self._raw)

    def __repr__(self) -> str:
        return "<text of an upstream>"


NO_TEXT = UpstreamText()


class OrderOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """Where a failure came from, in the upstream's own identifiers, which are as untrusted as its messages."""

    status: int | None = None
    type: UpstreamText = NO_TEXT
    code: UpstreamText = NO_TEXT
    param: UpstreamText = NO_TEXT
    request_id: UpstreamText = NO_TEXT


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why an attempt failed. ``redaction`` turns it into the error that the client gets if no other attempt follows."""

    kind: FailureKind
    code: str
    """Our code; for ``upstream_rejected`` the upstream's own, if it can be passed on."""
    text: UpstreamText
    """What happened, and at which channel."""
    for_owner: UpstreamText | None = None
    """The same with words that the client must not see; None: it has none."""
    status: int = 0
    """The upstream's status; 0 without an answer."""
    param: str | None = None
    """The request field at fault, if we know it ourselves."""
    origin: OrderOrigin | None = None
    """None: the request never got near the upstream."""
    details: Mapping[str, object] = {}
    """Our own facts for the client."""
    retry_after_s: float | None = None
    """Seconds after which the upstream may be called again, as it says; 0 to 600."""
    sent: bool = True
    """Whether the request may have reached the upstream, which then may have billed it."""
    parameters: tuple[str, ...] = ()
    """Names in the message that may be parameters the upstream does not accept; see ``refused_params``."""
    max_output: int | None = None
    """The model's own output limit, if the upstream names it because the request's is higher."""
    lacks_api: bool = False
    """Whether the upstream lacks the API: this call is translated, and so are later ones for a day."""
    may_lack_api: bool = False
    """Whether it probably lacks the API: certain if the translated call succeeds."""
    verbatim: UpstreamText = NO_TEXT
    """The body as it came, for a client that acts on its vendor's own words; see ``UpstreamError.verbatim``."""


class AttemptFailed(Exception):
    """An attempt failed; carries the Failure. It shows no text: ``redaction`` makes an UpstreamError of it."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.code)
        self.failure = failure
        self.accepted = False
        """Whether the upstream had begun to answer with a status of success."""

    @property
    def kind(self) -> FailureKind:
        """Returns the failure's kind."""
        return self.failure.kind
