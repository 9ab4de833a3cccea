"""Responses: the responses of Gemini that make up one answer: a single one, or each bringing what is new.

Nothing marks the end of an answer but the end of the bytes, so finish reasons wait for that.
"""

from gateway.domain.channel import Channel
from gateway.domain.usage import Usage
from gateway.upstream import rawjson, usage
from gateway.upstream.adapter import AttemptFailed, Order
from gateway.upstream.chat.signatures import Signatures
from gateway.upstream.failures import bad_response
from gateway.upstream.gemini.candidate import Candidate, News
from gateway.upstream.gemini.errors import failure_inside
from gateway.upstream.gemini.finish import BROKEN, finish_of
from gateway.upstream.rawjson import Fields

BLOCKED = "PROHIBITED_CONTENT"
"""Finish reason of the one candidate there would be, had the prompt not been blocked."""


class Responses:
    """The answer so far."""

    def __init__(self, order: Order, channel: Channel, signatures: Signatures) -> None:
        self._order = order
        self._channel = channel
        self._signatures = signatures
        self._candidates: dict[int, Candidate] = {}
        self.id = ""
        self.usage: Usage | None = None
        """The last report: they are running totals."""
        self.suspect = False

    @property
    def ended(self) -> bool:
        """Whether every candidate said why it ended."""
        return bool(self._candidates) and all(candidate.reason for candidate in self._candidates.values())

    def add(self, response: Fields) -> list[tuple[int, News]]:
        """One more response; the news by candidate. Raises AttemptFailed if it is an error, ValueError if it is odd."""
        if not rawjson.is_null(response.get("error")):
            raise AttemptFailed(failure_inside(self._channel, rawjson.encode(response)))
        self.id = self.id or _string(response, "responseId")
        self._count(response)
        raw = response.get("candidates", rawjson.NULL)
        found = [] if rawjson.is_null(raw) else rawjson.objects(raw)
        if not found and not self._candidates and _is_blocked(response):
            self._candidate(0).reason = BLOCKED
        return [self._news(candidate, position) for position, candidate in enumerate(found)]

    def endings(self) -> list[tuple[int, str]]:
        """The finish reasons by candidate. Raises AttemptFailed if the model failed and nothing came."""
        for candidate in self._candidates.values():
            if candidate.reason in BROKEN and not candidate.produced:
                why = f"the model failed with {candidate.reason}"
                raise AttemptFailed(bad_response(self._channel, why))
        return [(index, finish_of(candidate.reason)) for index, candidate in sorted(self._candidates.items())]

    def _count(self, response: Fields) -> None:
        report = rawjson.maybe(response.get("usageMetadata"))
        if not isinstance(report, dict):
            self.suspect = self.suspect or report is not None
            return
        if "promptTokenCount" not in report:
            return
        reading = usage.read(report)
        self.suspect = self.suspect or reading is None or reading.suspect
        self.usage = self.usage if reading is None else reading.usage

    def _news(self, fields: Fields, position: int) -> tuple[int, News]:
        index = rawjson.value(fields.get("index"))
        candidate = self._candidate(index if type(index) is int else position)
        return candidate.index, candidate.take(fields)

    def _candidate(self, index: int) -> Candidate:
        if index not in self._candidates:
            self._candidates[index] = Candidate(index, self._order, self._signatures)
        return self._candidates[index]


def _is_blocked(response: Fields) -> bool:
    feedback = rawjson.maybe(response.get("promptFeedback"))
    return isinstance(feedback, dict) and bool(feedback.get("blockReason"))


def _string(fields: Fields, name: str) -> str:
    found = rawjson.value(fields.get(name))
    return found if isinstance(found, str) else ""


def split(data: bytes) -> list[Fields]:
    """The responses in a body or an event: one, or an array of them. Raises ValueError if there are none."""
    data = data.strip().removeprefix(b"\xef\xbb\xbf")
    return rawjson.objects(data) if data[:1] == b"[" else [rawjson.fields(data)]
