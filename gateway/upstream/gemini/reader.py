"""Reads Gemini's answers as parts: texts, thoughts, tool calls, media, sources, probabilities, finish reasons.

An answer is one response, or several of which each brings what is new. Nothing marks its end but the end of the bytes,
so finish reasons wait for that.
"""

import re
from collections.abc import Iterator
from typing import Any

from gateway.domain import rawjson
from gateway.domain.answer import (
    AnswerMark,
    AnswerPart,
    Citation,
    Medium,
    ReasoningPiece,
    StopWord,
    TextPiece,
    ToolCallPart,
    UpstreamNamed,
    UsageSeen,
)
from gateway.domain.channel import Channel
from gateway.domain.failure import AttemptFailed
from gateway.domain.order import Order
from gateway.domain.rawjson import Fields
from gateway.domain.sse import SSEEvent
from gateway.upstream.adapter import AnswerReader, not_an_answer
from gateway.upstream.answer_errors import failure_in
from gateway.upstream.call_memory import CallMemory
from gateway.upstream.failures import bad_response
from gateway.upstream.finish_words import meaning_of
from gateway.upstream.gemini.request import TOOLS, camel
from gateway.upstream.tool_call_tracker import made_id
from gateway.upstream.translation import ToolNames

REASONS = ("", "STOP", "MAX_TOKENS", "SAFETY", "RECITATION", "OTHER", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII")
"""Finish reasons by their numbers."""
_STEP = re.compile(r"""\.([^.\[\]]+)|\[(\d+)\]|\['([^']*)'\]|\["([^"]*)"\]""")
"""One step of a JSON path."""
_BILLS_ANSWERS = re.compile(r"gemini-(?:pro|[12])(?:[.-]|$)")
"""Models with a price for each grounded answer, not for each query."""
_VALUES = ("stringValue", "numberValue", "boolValue", "nullValue")
_PARTS = frozenset({"text", "inlineData", "fileData", "executableCode", "codeExecutionResult", "thoughtSignature"})
"""Fields read from parts without calls. Others belong to the vendor's own tools, and are not passed on."""


class _Candidate:
    """One candidate so far."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.reason = ""
        """The finish reason. It may come before the last parts, or more than once."""
        self.produced = False
        self.calls = 0
        self.open: dict[str, Any] | None = None
        """The call whose arguments come in parts."""
        self.arguments: Any = {}
        """Its arguments so far."""
        self.cited: set[str] = set()


class ResponseReader(AnswerReader):
    """Reads one answer. Implements ``AnswerReader``."""

    def __init__(self, order: Order, channel: Channel, memory: CallMemory) -> None:
        self._order = order
        self._channel = channel
        self._names = ToolNames(order, TOOLS)
        self._memory = memory
        self._candidates: dict[int, _Candidate] = {}
        self._queries: set[str] = set()
        """The queries of the vendor's web searches."""

    def read(self, event: SSEEvent) -> Iterator[AnswerPart]:
        if event.data.strip() == b"[DONE]":  # some relays send it; the bytes still end
            return
        try:
            for response in split(event.data):
                yield from self._response(response)
        except AttemptFailed as exc:
            self.failure = exc.failure

    def read_whole(self, body: bytes) -> Iterator[AnswerPart]:
        try:
            for response in split(body):
                yield from self._response(response)
        except ValueError as error:
            raise not_an_answer(body, self._channel) from error
        if not self._candidates:
            raise not_an_answer(body, self._channel)
        self.default_word = "STOP"
        yield from self._endings()

    def end(self) -> Iterator[AnswerPart]:
        """See ``AnswerReader``: now it is certain that the finish reasons are the last ones."""
        if not (self._candidates and all(candidate.reason for candidate in self._candidates.values())):
            return
        try:
            yield from self._endings()
        except AttemptFailed as exc:
            self.failure = exc.failure
            return
        self.done = True

    def _response(self, response: Fields) -> Iterator[AnswerPart]:
        """Returns the parts of one more response. Raises AttemptFailed if it is an error, ValueError if it is
        invalid.
        """
        if not rawjson.is_null(response.get("usageMetadata")):
            yield UsageSeen({"usage": response["usageMetadata"]})
        if (failure := failure_in(self._channel, response)) is not None:
            raise AttemptFailed(failure)
        raw = response.get("candidates", rawjson.NULL)
        candidates = [] if rawjson.is_null(raw) else rawjson.objects(raw)
        if not (candidates or self._candidates) and rawjson.at(response.get("promptFeedback"), "blockReason"):
            self._candidate(0).reason = "PROHIBITED_CONTENT"
        yield UpstreamNamed(rawjson.text_at(response.get("responseId")), began=False)
        for position, fields in enumerate(candidates):
            index = rawjson.value(fields.get("index"))
            yield from self._news(self._candidate(index if type(index) is int else position), fields)
            yield from self._searches(fields, rawjson.text_at(response.get("modelVersion")) or self._order.model)

    def _searches(self, fields: Fields, model: str) -> Iterator[AnswerPart]:
        """Returns the searches as a usage report would count them: Gemini's own reports do not.

        Each query is billed once; before Gemini 3 the whole answer is, however many there were.
        """
        if "groundingMetadata" not in fields:
            return
        grounding = rawjson.maybe(fields["groundingMetadata"])
        lists = (rawjson.at(grounding, name) for name in ("webSearchQueries", "imageSearchQueries"))
        queries = {
            query for given in lists if isinstance(given, list) for query in map(rawjson.text_at, given) if query
        }
        if queries - self._queries:
            self._queries |= queries
            count = 1 if _BILLS_ANSWERS.search(model) else len(self._queries)
            yield UsageSeen({"usage": rawjson.raw({"server_tool_use": {"web_search_requests": count}})})

    def _news(self, candidate: _Candidate, fields: Fields) -> Iterator[AnswerPart]:
        reason = rawjson.value(fields.get("finishReason"))
        if type(reason) is int:  # of the enumeration, as some libraries write it
            reason = REASONS[reason] if 0 <= reason < len(REASONS) else "OTHER"
        candidate.reason = reason if isinstance(reason, str) and reason else candidate.reason
        logprobs = logprobs_of(rawjson.value(fields["logprobsResult"])) if "logprobsResult" in fields else []
        for part in _parts(fields):
            for news in self._part(candidate, part):
                candidate.produced = True
                if logprobs and isinstance(news, TextPiece):
                    yield TextPiece(news.piece, rawjson.encode(logprobs), news.choice)
                    logprobs = []
                else:
                    yield news
        yield from _sources(candidate, fields)

    def _part(self, candidate: _Candidate, part: dict[str, Any]) -> Iterator[AnswerPart]:
        index = candidate.index
        if piece := part.get("text"):
            yield ReasoningPiece(piece, index) if part.get("thought") else TextPiece(piece, choice=index)
        for name in ("inlineData", "fileData"):
            medium = part.get(name)
            if isinstance(medium, dict):
                yield AnswerMark("medium_dropped") if part.get("thought") else _medium(medium, index)
        code, result = part.get("executableCode"), part.get("codeExecutionResult")
        if isinstance(code, dict) and isinstance(code.get("code"), str):
            language = str(code.get("language", "")).lower().replace("language_unspecified", "")
            yield TextPiece(rawjson.encode(f"\n```{language}\n{code['code']}\n```\n"), choice=index)
        if isinstance(result, dict) and isinstance(result.get("output"), str):
            yield TextPiece(rawjson.encode(f"\n```\n{result['output']}\n```\n"), choice=index)
        if isinstance(part.get("functionCall"), dict):
            yield from self._call(candidate, part, part["functionCall"])
        elif part.keys().isdisjoint(_PARTS):
            yield AnswerMark("block_dropped")

    def _call(self, candidate: _Candidate, part: dict[str, Any], call: dict[str, Any]) -> Iterator[AnswerPart]:
        """Takes a complete call."""
        pieces = call.get("partialArgs")
        if candidate.open is None and not any(call.values()):
            return  # the end of one that has ended
        if candidate.open is None or call.get("name"):
            yield from self._close(candidate)
            candidate.open = {**call, "signature": part.get("thoughtSignature")}
            given = call.get("args")
            candidate.arguments = given if isinstance(given, dict | str) and given else {}
        for piece in pieces if isinstance(pieces, list) else ():
            if isinstance(piece, dict):
                candidate.arguments = _set(candidate.arguments, piece)
        if not call.get("willContinue"):
            yield from self._close(candidate)

    def _close(self, candidate: _Candidate) -> Iterator[AnswerPart]:
        """Returns the call under the client's function name. Its signature is sent along, and kept here too."""
        call, candidate.open = candidate.open, None
        if call is None:
            return
        number, candidate.calls = candidate.calls, candidate.calls + 1
        given, signature = call.get("id"), call.get("signature")
        call_id = (
            given if isinstance(given, str) and given else made_id(f"{self._order.answer_id}/{candidate.index}", number)
        )
        signed = isinstance(signature, str) and bool(signature)
        if signed:
            self._memory.remember(self._order.owner, call_id, str(signature).encode())
        said = candidate.arguments
        arguments = rawjson.encode(said if isinstance(said, str) else rawjson.encode(said).decode())
        name = self._names.client_name(str(call.get("name", "")))
        yield ToolCallPart(
            number, call_id, name, arguments, signature=str(signature) if signed else "", choice=candidate.index
        )

    def _endings(self) -> Iterator[AnswerPart]:
        """Returns the finish reasons. Raises AttemptFailed if the model failed and nothing came."""
        for candidate in self._candidates.values():
            yield from self._close(candidate)
        for _, candidate in sorted(self._candidates.items()):
            if meaning_of(candidate.reason) != "broken":
                yield StopWord(candidate.reason, candidate.index)
            elif candidate.produced:
                yield AnswerMark("failed_at_end")
                yield StopWord("STOP", candidate.index)
            else:
                raise AttemptFailed(bad_response(self._channel, f"the model failed with {candidate.reason}"))

    def _candidate(self, index: int) -> _Candidate:
        if index not in self._candidates:
            self._candidates[index] = _Candidate(index)
        return self._candidates[index]


def split(data: bytes) -> list[Fields]:
    """Returns the responses in a body or an event: one, or an array of them. Raises ValueError if there are none."""
    data = data.strip().removeprefix(b"\xef\xbb\xbf")
    if any(sign in data for sign in _SNAKES):
        data = rawjson.encode(_camel_names(rawjson.value(data)))
    return rawjson.objects(data) if data[:1] == b"[" else [rawjson.fields(data)]


_SNAKES = (b'"finish_reason"', b'"usage_metadata"', b'"function_call"', b'"inline_data"', b'"mime_type"', b'"file_uri"')
"""Names of fields as Google's Python library writes them, and relays that are made with it."""


def _camel_names(value: Any) -> Any:
    """Returns the same with the API's names, but leaves the model's own objects alone."""
    if isinstance(value, list):
        return [_camel_names(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {camel(name): item if name == "args" else _camel_names(item) for name, item in value.items()}


def _parts(fields: Fields) -> list[dict[str, Any]]:
    """Returns the parts; a candidate without content has none. Raises ValueError for anything else."""
    parts = fields.get("content", rawjson.NULL)
    if bytes(memoryview(parts)[:1]) == b"{":
        parts = rawjson.fields(parts).get("parts", rawjson.NULL)
    raw_parts = rawjson.items(parts) if bytes(memoryview(parts)[:1]) == b"[" else [parts]
    return [_values_in(rawjson.fields(part)) for part in raw_parts if not rawjson.is_null(part)]


def _values_in(part: Fields) -> dict[str, Any]:
    """Returns a part's values. Its text stays a JSON string, of which only one copy is made: it may be all of a large
    answer. It is empty if it is something else.
    """
    text = part.pop("text", None)
    values = {name: rawjson.value(value) for name, value in part.items()}
    if text is not None:
        is_text = bytes(memoryview(text)[:1]) == b'"' and rawjson.text(text)
        values["text"] = bytes(text) if is_text else b""
    return values


def _medium(part: dict[str, Any], index: int) -> AnswerPart:
    kind, data, url = (rawjson.text_at(part, name) for name in ("mimeType", "data", "fileUri"))
    return Medium(kind or "application/octet-stream", data, url, index)


def _set(arguments: Any, piece: dict[str, Any]) -> Any:
    """Adds a part of a value to the arguments, at a JSON path; texts grow."""
    path = piece.get("jsonPath")
    name = next((name for name in _VALUES if name in piece), "")
    if not isinstance(path, str) or not name:
        return arguments
    steps: list[str | int] = [
        int(match[2]) if match[2] else next(filter(None, (match[1], match[3], match[4])), "")
        for match in _STEP.finditer(path.removeprefix("$"))
    ]
    value = None if name == "nullValue" else piece[name]
    return _put(arguments, steps, value)


def _put(holder: Any, steps: list[str | int], value: Any) -> Any:
    if not steps:
        return holder + value if isinstance(holder, str) and isinstance(value, str) else value
    step, *rest = steps
    if isinstance(step, int):
        items = holder if isinstance(holder, list) else []
        if step >= 10_000:
            raise ValueError("an array of arguments is too long")
        items += [None] * (step + 1 - len(items))
        items[step] = _put(items[step], rest, value)
        return items
    fields = holder if isinstance(holder, dict) else {}
    fields[step] = _put(fields.get(step), rest, value)
    return fields


_SOURCES = ("groundingMetadata", "citationMetadata", "urlContextMetadata")


def _sources(candidate: _Candidate, fields: Fields) -> Iterator[AnswerPart]:
    """Returns the sources of the answer, each once."""
    if fields.keys().isdisjoint(_SOURCES):
        return
    grounding, cited, read = (rawjson.maybe(fields.get(name)) for name in _SOURCES)
    names = ("web", "retrievedContext", "maps", "image")
    places = _places(rawjson.list_at(grounding, "groundingSupports"))
    for number, chunk in enumerate(rawjson.list_at(grounding, "groundingChunks")):
        web = next(filter(None, (rawjson.at(chunk, name) for name in names)), None)
        yield from _source(candidate, web, places.get(number))
    for source in rawjson.list_at(cited, "citationSources") or rawjson.list_at(cited, "citations"):
        yield from _source(candidate, source, source)
    for page in rawjson.list_at(read, "urlMetadata"):
        if not rawjson.text_at(page, "urlRetrievalStatus").endswith(("ERROR", "PAYWALL", "UNSAFE")):
            yield from _source(candidate, page, None)


def _places(supports: list[Any]) -> dict[int, dict[str, Any]]:
    """Returns where the text is that each source supports first."""
    places: dict[int, dict[str, Any]] = {}
    for support in supports:
        for number in rawjson.list_at(support, "groundingChunkIndices"):
            if type(number) is int:
                places.setdefault(number, rawjson.at(support, "segment"))
    return places


def _source(candidate: _Candidate, source: Any, place: Any) -> Iterator[AnswerPart]:
    """Returns a source, and where in the answer the text is that it supports."""
    url = next(filter(None, (rawjson.text_at(source, name) for name in ("uri", "sourceUri", "retrievedUrl"))), "")
    if not url or url in candidate.cited:
        return
    candidate.cited.add(url)
    start, end = (rawjson.at(place, name) for name in ("startIndex", "endIndex"))
    yield Citation(
        url,
        rawjson.text_at(source, "title"),
        rawjson.text_at(place, "text"),
        start if type(start) is int else 0 if type(end) is int else None,
        end if type(end) is int else None,
        candidate.index,
    )


def logprobs_of(result: Any) -> list[dict[str, Any]]:
    """Returns the probabilities of the text's tokens, in the words of chat completions."""
    chosen, tops = (rawjson.list_at(result, name) for name in ("chosenCandidates", "topCandidates"))
    return [
        {**_token(token), "top_logprobs": [_token(other) for other in _others(tops, i)]}
        for i, token in enumerate(chosen)
        if isinstance(token, dict)
    ]


def _token(token: dict[str, Any]) -> dict[str, Any]:
    text = str(token.get("token", ""))
    number = token.get("logProbability")
    return {
        "token": text,
        "logprob": number if isinstance(number, int | float) else -9999.0,
        "bytes": list(text.encode("utf-8", "replace")),
    }


def _others(tops: list[Any], i: int) -> list[dict[str, Any]]:
    candidates = rawjson.list_at(tops[i], "candidates") if i < len(tops) else []
    return [token for token in candidates if isinstance(token, dict)]
