"""Failure: why an attempt at an upstream failed, in words that nobody has cleared of secrets yet."""

from collections.abc import Callable, Mapping

import msgspec

from gateway.domain.call import FailureKind


class UpstreamText:
    """Text that an upstream sent, or that may repeat some of it: the channel's key, a header, the client's prompt.

    It cannot be read, formatted or printed; only ``redaction`` turns it into a string, cleared of what must not show.
    """

    __slots__ = ("_raw",)

    def __init__(self, raw: str = "") -> None:
        self._raw = raw

    def cleared(self, clear: Callable[[str], str]) -> str:
        """The text as ``clear`` leaves it."""
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
    """Why an attempt failed. ``redaction`` makes of it the error that the client gets if no other attempt follows."""

    kind: FailureKind
    code: str
    """Ours. ``upstream_rejected``: the upstream's own, if it has one that can be passed on."""
    text: UpstreamText
    """What happened, and at which channel."""
    for_owner: UpstreamText | None = None
    """The same with words that are none of the client's business; None: there are none."""
    status: int = 0
    """What the upstream answered; 0: nothing."""
    param: str | None = None
    """The request field at fault, where we know it ourselves."""
    origin: OrderOrigin | None = None
    """None: the request never came near the upstream."""
    details: Mapping[str, object] = {}
    """Facts of our own for the client."""
    retry_after_s: float | None = None
    """When the upstream says it may be asked again; 0 to 600."""
    sent: bool = True
    """The request may have reached the upstream, so that it may have billed it."""
    parameters: tuple[str, ...] = ()
    """Names in the message that may be parameters the upstream does not take; see ``learned_params``."""
    max_output: int | None = None
    """The model's own output limit, if the upstream names it because that of the request is higher."""
    lacks_api: bool = False
    """The upstream does not have the API at all: the call is translated there, and later ones for a day."""
    may_lack_api: bool = False
    """The same is likely, but not certain by its words: it is so if the translated call succeeds."""
    verbatim: UpstreamText = NO_TEXT
    """The body as it came, for a client that acts on its vendor's own words; see ``UpstreamError.verbatim``."""


class AttemptFailed(Exception):
    """An attempt failed; carries the Failure. It shows no text: ``redaction`` makes an UpstreamError of it."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.code)
        self.failure = failure
        self.accepted = False
        """The upstream had begun to answer with a status of success."""

    @property
    def kind(self) -> FailureKind:
        """The failure's kind."""
        return self.failure.kind
