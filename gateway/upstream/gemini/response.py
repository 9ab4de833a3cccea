"""Gemini's answers as chat completions: texts, thoughts, tool calls, probabilities, finish reasons.

An answer is one response, or several of which each brings what is new. Nothing marks its end but the end of the bytes,
so finish reasons wait for that.
"""

from typing import Any

import msgspec

from gateway.domain.channel import Channel
from gateway.domain.usage import Usage
from gateway.upstream import rawjson, usage_report
from gateway.upstream.adapter import AttemptFailed, Order
from gateway.upstream.failures import bad_response
from gateway.upstream.gemini.errors import failure_inside
from gateway.upstream.gemini.request import TOOLS
from gateway.upstream.openai.tool_calls import made_id
from gateway.upstream.rawjson import Fields
from gateway.upstream.translate.response import Completion, Json, completion, message, no_answer, tool_call
from gateway.upstream.translate.tool_names import Signatures, ToolNames
from gateway.upstream.usage_marks import marks_of

BROKEN = frozenset(
    {
        "MALFORMED_FUNCTION_CALL",
        "UNEXPECTED_TOOL_CALL",
        "TOO_MANY_TOOL_CALLS",
        "MISSING_THOUGHT_SIGNATURE",
        "MALFORMED_RESPONSE",
    }
)
"""The model failed; if nothing came before, there is no answer."""

_LENGTH = frozenset({"MAX_TOKENS", "CONTINUATION"})
_FILTERED = frozenset(
    {
        "SAFETY",
        "RECITATION",
        "LANGUAGE",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "OTHER",
        "NO_IMAGE",
        "ESCALATION",
        "MODEL_ARMOR",
        "PUP_LIMITED_DISABLED",
    }
)


def finish_of(reason: str) -> str:
    """The client's word; ``stop`` for the rest. That tool calls end an answer is found out later."""
    if reason in _LENGTH:
        return "length"
    return "content_filter" if reason in _FILTERED or reason.startswith("IMAGE_") else "stop"


def logprobs_of(result: Any) -> Json | None:
    """The ``logprobs`` of a choice; None if there are none."""
    chosen = result.get("chosenCandidates") if isinstance(result, dict) else None
    if not isinstance(chosen, list):
        return None
    tops = result.get("topCandidates") or []
    content = [
        {**_token(token), "top_logprobs": [_token(other) for other in _others(tops, i)]}
        for i, token in enumerate(chosen)
        if isinstance(token, dict)
    ]
    return {"content": content, "refusal": None}


def _token(token: dict[str, Any]) -> Json:
    text = str(token.get("token", ""))
    number = token.get("logProbability")
    return {
        "token": text,
        "logprob": number if isinstance(number, int | float) else -9999.0,
        "bytes": list(text.encode("utf-8", "replace")),
    }


def _others(tops: Any, i: int) -> list[dict[str, Any]]:
    found = tops[i].get("candidates") if isinstance(tops, list) and i < len(tops) and isinstance(tops[i], dict) else ()
    return [token for token in found or () if isinstance(token, dict)]


class CandidateNews(msgspec.Struct, frozen=True, kw_only=True):
    """What one response adds to a candidate."""

    texts: list[str]
    thoughts: list[str]
    calls: list[Json]
    """Whole ones: they do not come in pieces."""
    logprobs: Json | None = None

    @property
    def empty(self) -> bool:
        """Whether there is nothing for the client."""
        return not (self.texts or self.thoughts or self.calls)


class Candidate:
    """One candidate so far."""

    def __init__(self, index: int, order: Order, signatures: Signatures) -> None:
        self.index = index
        self.reason = ""
        """The finish reason. It may come before the last parts do, or more than once."""
        self.produced = False
        self._calls = 0
        self._seed = f"{order.answer_id}/{index}"
        self._names = ToolNames(order, TOOLS)
        self._signatures = signatures

    def take(self, fields: Fields) -> CandidateNews:
        """The news. Raises ValueError if the candidate is odd."""
        reason = rawjson.value(fields.get("finishReason"))
        self.reason = reason if isinstance(reason, str) and reason else self.reason
        parts = _parts(fields)
        texts = [part for part in parts if isinstance(part.get("text"), str) and part["text"]]
        news = CandidateNews(
            texts=[part["text"] for part in texts if not part.get("thought")],
            thoughts=[part["text"] for part in texts if part.get("thought")],
            calls=[self._call(part) for part in parts if isinstance(part.get("functionCall"), dict)],
            logprobs=logprobs_of(rawjson.value(fields.get("logprobsResult"))),
        )
        self.produced = self.produced or not news.empty
        return news

    def _call(self, part: dict[str, Any]) -> Json:
        """A call under the client's name of the function; its signature goes along, and is kept here, too."""
        call, signature = part["functionCall"], part.get("thoughtSignature")
        number, self._calls = self._calls, self._calls + 1
        given = call.get("id")
        call_id = given if isinstance(given, str) and given else made_id(self._seed, number)
        more: Json = {}
        if isinstance(signature, str) and signature:
            self._signatures.remember(call_id, signature.encode())
            more = {"extra_content": {"google": {"thought_signature": signature}}}
        arguments = rawjson.encode(call.get("args") or {}).decode()
        return tool_call(number, call_id, self._names.back(str(call.get("name", ""))), arguments, **more)


def _parts(fields: Fields) -> list[dict[str, Any]]:
    """The parts; a candidate without content has none. Raises ValueError if they are none."""
    content = rawjson.value(fields.get("content"))
    parts = content.get("parts") if isinstance(content, dict) else None
    if parts is None:
        return []
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        raise ValueError("parts are objects")
    return parts


BLOCKED = "PROHIBITED_CONTENT"
"""Finish reason of the one candidate there would be, had the prompt not been blocked."""


class GeminiResponses:
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
        """Whether every candidate has a finish reason."""
        return bool(self._candidates) and all(candidate.reason for candidate in self._candidates.values())

    def add(self, response: Fields) -> list[tuple[int, CandidateNews]]:
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
        reading = usage_report.read(report)
        self.suspect = self.suspect or reading is None or reading.suspect
        self.usage = self.usage if reading is None else reading.usage

    def _news(self, fields: Fields, position: int) -> tuple[int, CandidateNews]:
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


def read_answer(body: bytes, order: Order, channel: Channel, signatures: Signatures) -> Completion:
    """The chat completion. Raises AttemptFailed when the body is an error, or no answer."""
    responses = GeminiResponses(order, channel, signatures)
    news: dict[int, list[CandidateNews]] = {}
    try:
        for response in split(body):
            for index, more in responses.add(response):
                news.setdefault(index, []).append(more)
    except ValueError as error:
        raise no_answer(body, channel) from error
    endings = responses.endings()
    if not endings:
        raise no_answer(body, channel)
    choices = [(_message(news.get(index, [])), finish) for index, finish in endings]
    answer = completion(responses.id, choices, responses.usage)
    for choice, (index, _) in zip(answer["choices"], endings, strict=True):
        probable = [more.logprobs for more in news.get(index, []) if more.logprobs is not None]
        choice["logprobs"] = probable[-1] if probable else None
    return Completion(rawjson.encode(answer), marks_of({}, suspect=responses.suspect))


def _message(news: list[CandidateNews]) -> Json:
    texts = "".join(text for more in news for text in more.texts)
    thoughts = "".join(thought for more in news for thought in more.thoughts)
    calls = [{name: value for name, value in call.items() if name != "index"} for more in news for call in more.calls]
    return message(texts, reasoning=thoughts, calls=calls)
