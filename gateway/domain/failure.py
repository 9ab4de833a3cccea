"""Failure: why an attempt at an upstream failed, in texts that may still contain secrets."""

from collections.abc import Callable, Mapping
from enum import StrEnum

import msgspec

from gateway.domain.call import FailureKind


class UpstreamText:
    """A text that an upstream sent. It may contain the channel's key, a header, or the client's prompt.

    It cannot be formatted or printed. Only ``redaction`` turns it into a string, without secrets.
    """

    __slots__ = ("_raw",)

    def __init__(self, raw: str = "") -> None:
        self._raw = raw

    def apply(self, clear: Callable[[str], str]) -> str:
        """Returns the text after ``clear``."""
        return clear(self._raw)

    def __bool__(self) -> bool:
        return bool(self._raw)

    def __repr__(self) -> str:
        return "<text of an upstream>"


NO_TEXT = UpstreamText()


class ResponsesNeed(StrEnum):
    """Which chats an upstream takes only in the Responses API."""

    MODEL = "model"
    """All chats of the model."""
    TOOLS = "tools"
    """The model's chats with tools."""
    CALL = "call"
    """Only the one that was refused, if the refusal names it."""
    NOTHING = "nothing"
    """No chat, because the upstream lacks Responses for the model."""


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why an attempt failed. ``redaction`` turns it into the error that the client gets if no other attempt follows."""

    kind: FailureKind
    code: str
    """Our error code; for ``upstream_rejected`` the upstream's, if it can be passed on."""
    text: UpstreamText
    """What happened, and where."""
    for_owner: UpstreamText | None = None
    """The text with details that the client must not see; None if it has no such details."""
    status: int = 0
    """The upstream's HTTP status; 0 if it did not answer."""
    param: str | None = None
    """The wrong field of the request, if we know it ourselves."""
    origin: Mapping[str, UpstreamText] | None = None
    """The upstream's own ``type``, ``code``, ``param`` and ``request_id``, as untrusted as its messages; empty if it
    sent no error, None if the request was not sent."""
    details: Mapping[str, object] = {}
    """Other facts for the client."""
    retry_after_s: float | None = None
    """The seconds after which the upstream allows another call, from 0 to 600; None if it does not say."""
    sent: bool = True
    """Whether the request may have reached the upstream, which then may have billed it."""
    lasting: bool = False
    """Whether another attempt in a moment would fail in the same way, as with a bad certificate."""
    parameters: tuple[str, ...] = ()
    """Names in the message that may be parameters the upstream does not accept; see ``refused_params``."""
    max_output: int | None = None
    """The model's own output limit, if the upstream names it because the request's is higher."""
    lacks_api: bool = False
    """Whether the upstream lacks the API, so that this call and later ones for a day are translated."""
    may_lack_api: bool = False
    """Whether the upstream probably lacks the API. It is certain if the translated call succeeds."""
    refused_kinds: tuple[str, ...] = ()
    """The kinds of tools and items, or the model, that an upstream with only a part of the API refuses; empty if it may
    lack it all. Only requests with one of them are translated."""
    needs_responses: ResponsesNeed | None = None
    """Which chats the upstream takes only as responses, if the failure says so."""
    verbatim: UpstreamText = NO_TEXT
    """The body as received, for clients that act on the text of their vendor; see ``UpstreamError.verbatim``."""

    @property
    def words(self) -> str:
        """Returns the upstream's code and words, which no client may see as they are."""
        code = self.origin["code"].apply(str) if self.origin else ""
        return f"{code} {self.verbatim.apply(str) or self.text.apply(str)}"


class AttemptFailed(Exception):
    """An attempt failed. It has a Failure but no text; ``redaction`` converts it to an UpstreamError."""

    def __init__(self, failure: Failure, *, is_billed: bool = False) -> None:
        super().__init__(failure.code)
        self.failure = failure
        self.accepted = False
        """Whether the upstream had begun to answer with a status of success."""
        self.is_billed = is_billed
        """Whether the answer reports tokens, although it cannot be used."""
