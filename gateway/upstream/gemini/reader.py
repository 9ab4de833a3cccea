"""ResponseReader: reads Gemini's answers as parts: texts, thoughts, tool calls, media, sources, log probabilities.

An answer is one response, or several, each with what is new. Only the end of the bytes marks the end of the answer, so
finish reasons are held until then.
"""

import re
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import (
    AnswerFinished,
    AnswerId,
    AnswerMark,
    AnswerPart,
    BlockKind,
    Citation,
    Medium,
    Piece,
    ToolCallPart,
    UsageSeen,
)
from gateway.domain.channel import Channel
from gateway.domain.order import Order
from gateway.domain.rawjson import Fields
from gateway.domain.sse import BOM, SSEEvent
from gateway.domain.text import plain
from gateway.upstream.adapter import AnswerReader
from gateway.upstream.answer_errors import failure_in
from gateway.upstream.call_memory import CallMemory
from gateway.upstream.failures import bad_response
from gateway.upstream.finish_words import meaning_of
from gateway.upstream.gemini.partial_call import PartialCall
from gateway.upstream.gemini.request import TOOLS, camel
from gateway.upstream.tool_call_tracker import made_id

REASONS = ("", "STOP", "MAX_TOKENS", "SAFETY", "RECITATION", "OTHER", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII")
"""Finish reasons by their numbers, which some libraries write."""
_BILLED_BY_ANSWER = re.compile(r"gemini-(?:pro|[12])(?:[.-]|$)")
"""Matches models with a price for each grounded answer, and not for each query."""
_PARTS = frozenset({"text", "inlineData", "fileData", "executableCode", "codeExecutionResult", "thoughtSignature"})
"""Fields that are read from parts without calls. Others belong to the vendor's own tools, and are not passed on."""


class _Candidate(msgspec.Struct, eq=False):
    index: int
    reason: str = ""
    """The finish reason. It may come before the last parts, or more than once."""
    message: str = ""
    """What the upstream says about the finish reason."""
    produced: bool = False
    calls: int = 0
    call: PartialCall | None = None
    """The call whose arguments are not complete."""
    cited: set[str] = set()


class ResponseReader(AnswerReader):
    """Reads one answer. Implements ``AnswerReader``."""

    tool_rules = TOOLS

    def __init__(self, order: Order, channel: Channel, memory: CallMemory) -> None:
        self._order = order
        self._channel = channel
        self._memory = memory
        self._candidates: dict[int, _Candidate] = {}
        self._queries: set[str] = set()

    def read(self, event: SSEEvent) -> Iterator[AnswerPart]:
        if event.data.strip() == b"[DONE]":  # some relays send it; the bytes still end
            return
        for response in split(event.data):
            yield from self._response(response)

    def read_whole(self, body: bytes) -> Iterator[AnswerPart]:
        for response in split(body):
            yield from self._response(response)
        if not (self._candidates or self.failure):
            raise ValueError("no candidate")
        self.default_word = "STOP"
        yield from self._finish_words()

    def end(self) -> Iterator[AnswerPart]:
        """See ``AnswerReader``: the finish reasons, now that no others can come."""
        if self._candidates and all(candidate.reason for candidate in self._candidates.values()):
            yield from self._finish_words()
            self.done = self.failure is None

    def _response(self, response: Fields) -> Iterator[AnswerPart]:
        """Yields the parts of a response, until one is an error. Raises ValueError if it is invalid."""
        if not rawjson.is_null(response.get("usageMetadata")):
            yield UsageSeen({"usage": response["usageMetadata"]})
        self.failure = self.failure or failure_in(self._channel, response)
        if self.failure is not None:
            return
        raw = response.get("candidates", rawjson.NULL)
        candidates = [] if rawjson.is_null(raw) else rawjson.objects(raw)
        if not candidates and rawjson.at(response.get("promptFeedback"), "blockReason"):
            self._candidate(0).reason = "PROHIBITED_CONTENT"
        yield AnswerId(rawjson.text_at(response.get("responseId")), began=False)
        for position, fields in enumerate(candidates):
            yield from self._candidate_parts(self._candidate(self._index(fields, position)), fields)
            yield from self._searches(fields, rawjson.text_at(response.get("modelVersion")) or self._order.model)

    def _searches(self, fields: Fields, model: str) -> Iterator[AnswerPart]:
        """Yields the vendor's searches as a report of usage, because Gemini's own reports do not count them.

        Each query is billed once. Before Gemini 3, the whole answer is, however many queries there were. Google Maps is
        billed by the answer.
        """
        if "groundingMetadata" not in fields:
            return
        grounding = rawjson.maybe(fields["groundingMetadata"])
        listed = [*rawjson.list_at(grounding, "webSearchQueries"), *rawjson.list_at(grounding, "imageSearchQueries")]
        queries = set(filter(None, map(rawjson.text_at, listed)))
        used = {}
        if queries - self._queries:
            self._queries |= queries
            used["web_search_requests"] = 1 if _BILLED_BY_ANSWER.search(model) else len(self._queries)
        if any(rawjson.at(chunk, "maps") for chunk in rawjson.list_at(grounding, "groundingChunks")):
            used["maps_requests"] = 1
        if used:
            yield UsageSeen({"usage": rawjson.raw({"server_tool_use": used})})

    def _candidate_parts(self, candidate: _Candidate, fields: Fields) -> Iterator[AnswerPart]:
        reason = rawjson.value(fields.get("finishReason"))
        if type(reason) is int:
            reason = REASONS[reason] if 0 <= reason < len(REASONS) else "OTHER"
        candidate.reason = reason if isinstance(reason, str) and reason else candidate.reason
        candidate.message = rawjson.text_at(fields.get("finishMessage")) or candidate.message
        logprobs = read_logprobs(rawjson.value(fields["logprobsResult"])) if "logprobsResult" in fields else []
        for part in _parts(fields):
            for answer_part in self._read_part(candidate, part):
                is_thought = isinstance(answer_part, Piece) and answer_part.kind is BlockKind.REASONING
                candidate.produced = candidate.produced or not (is_thought or isinstance(answer_part, AnswerMark))
                if logprobs and isinstance(answer_part, Piece) and answer_part.kind is BlockKind.TEXT:
                    yield msgspec.structs.replace(answer_part, logprobs=rawjson.encode(logprobs))
                    logprobs = []
                else:
                    yield answer_part
        yield from _sources(candidate, fields)

    def _read_part(self, candidate: _Candidate, part: dict[str, Any]) -> Iterator[AnswerPart]:
        """Yields the parts of the answer in one of Gemini's parts. Code that the vendor ran becomes text."""
        index = candidate.index
        if piece := part.get("text"):
            kind = BlockKind.REASONING if part.get("thought") else BlockKind.TEXT
            yield Piece(kind, piece, choice=index)
        for name in ("inlineData", "fileData"):
            medium = part.get(name)
            if isinstance(medium, dict):
                mime_type, data, url = (rawjson.text_at(medium, key) for key in ("mimeType", "data", "fileUri"))
                shown = Medium(mime_type or "application/octet-stream", data, url, index)
                yield AnswerMark("medium_dropped") if part.get("thought") else shown
        code, result = part.get("executableCode"), part.get("codeExecutionResult")
        if isinstance(code, dict) and isinstance(code.get("code"), str):
            language = str(code.get("language", "")).lower().replace("language_unspecified", "")
            yield Piece(BlockKind.TEXT, rawjson.encode(f"\n```{language}\n{code['code']}\n```\n"), choice=index)
        if isinstance(result, dict) and isinstance(result.get("output"), str):
            yield Piece(BlockKind.TEXT, rawjson.encode(f"\n```\n{result['output']}\n```\n"), choice=index)
        if isinstance(call := part.get("functionCall"), dict):
            yield from self._read_call(candidate, call, rawjson.text_at(part.get("thoughtSignature")))
        elif part.keys().isdisjoint(_PARTS):
            yield AnswerMark("block_dropped")

    def _read_call(self, candidate: _Candidate, call: dict[str, Any], signature: str) -> Iterator[AnswerPart]:
        """Yields a call when its arguments are complete."""
        if candidate.call is None and not any(call.values()):
            return  # the end of a call that has been sent
        if candidate.call is None or call.get("name"):
            yield from self._finish_call(candidate)
            candidate.call = PartialCall(call, signature)
        candidate.call.add_pieces(call)
        if not call.get("willContinue"):
            yield from self._finish_call(candidate)

    def _finish_call(self, candidate: _Candidate) -> Iterator[AnswerPart]:
        """Yields the open call, and remembers its signature, because most clients drop it."""
        call, candidate.call = candidate.call, None
        if call is None:
            return
        number, candidate.calls = candidate.calls, candidate.calls + 1
        call_id = call.id or made_id(f"{self._order.answer_id}/{candidate.index}", number)
        if call.signature:
            self._memory.remember(self._order.owner, call_id, call.signature.encode())
        text = call.arguments if isinstance(call.arguments, str) else rawjson.encode(call.arguments).decode()
        yield ToolCallPart(
            number, call_id, call.name, rawjson.encode(text), signature=call.signature, choice=candidate.index
        )

    def _finish_words(self) -> Iterator[AnswerPart]:
        """Yields the finish reasons, after open calls. The answer fails if the model failed before all else."""
        for candidate in self._candidates.values():
            yield from self._finish_call(candidate)
        for _, candidate in sorted(self._candidates.items()):
            if meaning_of(candidate.reason) != "broken":
                yield AnswerFinished(candidate.reason, candidate.index)
            elif candidate.produced:
                yield AnswerMark("failed_at_end")
                yield AnswerFinished("STOP", candidate.index)
            else:
                reason = ": ".join(filter(None, (candidate.reason, plain(candidate.message, 300))))
                failure = bad_response(self._channel, f"the model failed with {reason}")
                self.failure = self.failure or failure

    def _index(self, fields: Fields, position: int) -> int:
        """Returns the index of a candidate. If one was requested, it is 0, although relays count from 1."""
        if self._order.wants_one_choice:
            return 0
        index = rawjson.value(fields.get("index"))
        return index if type(index) is int else position

    def _candidate(self, index: int) -> _Candidate:
        return self._candidates.setdefault(index, _Candidate(index))


def split(data: bytes) -> list[Fields]:
    """Returns the responses in a body or an event: one, or an array of them. Raises ValueError for anything else."""
    data = data.strip().removeprefix(BOM)
    if any(name in data for name in _SNAKE_NAMES):
        try:
            data = rawjson.encode(_camel_names(rawjson.value(data)))
        except RecursionError as error:
            raise ValueError("nested too deeply") from error
    responses = rawjson.objects(data) if data[:1] == b"[" else [rawjson.fields(data)]
    return [rawjson.maybe_fields(each.get("response")) or each for each in responses]  # Code Assist wraps each of them


_SNAKE_NAMES = (
    *(b'"finish_reason"', b'"usage_metadata"', b'"function_call"', b'"inline_data"', b'"mime_type"', b'"file_uri"'),
)
"""Names of fields as Google's Python library writes them, and relays that use it."""


def _camel_names(value: Any) -> Any:
    """Returns a JSON value with the API's names of fields. The arguments of calls stay as they are."""
    if isinstance(value, list):
        return [_camel_names(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {camel(name): item if name == "args" else _camel_names(item) for name, item in value.items()}


def _parts(fields: Fields) -> list[dict[str, Any]]:
    """Returns the decoded parts of a candidate; none if it has no content. Raises ValueError for anything else."""
    parts = fields.get("content", rawjson.NULL)
    if bytes(memoryview(parts)[:1]) == b"{":
        parts = rawjson.fields(parts).get("parts", rawjson.NULL)
    decoded: list[dict[str, Any]] = []
    for raw in rawjson.items(parts) if rawjson.is_list(parts) else [parts]:
        if rawjson.is_null(raw):
            continue
        part = rawjson.fields(raw)
        text = part.pop("text", None)
        values = {name: rawjson.value(value) for name, value in part.items()}
        if text is not None:  # it stays a JSON string, because it may be all of a large answer
            values["text"] = bytes(text) if rawjson.is_text(text) and rawjson.text(text) else b""
        decoded.append(values)
    return decoded


_SOURCES = ("groundingMetadata", "citationMetadata", "urlContextMetadata")


def _sources(candidate: _Candidate, fields: Fields) -> Iterator[AnswerPart]:
    if fields.keys().isdisjoint(_SOURCES):
        return
    grounding, cited, retrieved = (rawjson.maybe(fields.get(name)) for name in _SOURCES)
    names = ("web", "retrievedContext", "maps", "image")
    segments = _segments(rawjson.list_at(grounding, "groundingSupports"))
    for number, chunk in enumerate(rawjson.list_at(grounding, "groundingChunks")):
        source = next(filter(None, (rawjson.at(chunk, name) for name in names)), None)
        yield from _citation(candidate, source, segments.get(number))
    for source in rawjson.list_at(cited, "citationSources") or rawjson.list_at(cited, "citations"):
        yield from _citation(candidate, source, source)
    for page in rawjson.list_at(retrieved, "urlMetadata"):
        if not rawjson.text_at(page, "urlRetrievalStatus").endswith(("ERROR", "PAYWALL", "UNSAFE")):
            yield from _citation(candidate, page, None)


def _segments(supports: list[Any]) -> dict[int, dict[str, Any]]:
    """Returns the first segment of text that each source supports, by the number of the source."""
    segments: dict[int, dict[str, Any]] = {}
    for support in supports:
        for number in rawjson.list_at(support, "groundingChunkIndices"):
            if type(number) is int:
                segments.setdefault(number, rawjson.at(support, "segment"))
    return segments


def _citation(candidate: _Candidate, source: Any, segment: Any) -> Iterator[AnswerPart]:
    """Yields the citation of a source, unless it has no address or came before. ``segment``: the text it supports."""
    url = next(filter(None, (rawjson.text_at(source, name) for name in ("uri", "sourceUri", "retrievedUrl"))), "")
    if not url or url in candidate.cited:
        return
    candidate.cited.add(url)
    title, text = rawjson.text_at(source, "title"), rawjson.text_at(segment, "text")
    start, end = (rawjson.at(segment, name) for name in ("startIndex", "endIndex"))
    end = end if type(end) is int else None
    if type(start) is not int:
        start = None if end is None else 0  # which Google leaves out
    yield Citation(url, title, text, start, end, candidate.index)


def read_logprobs(result: Any) -> list[dict[str, Any]]:
    """Returns the log probabilities of the text's tokens, in the form of chat completions."""
    chosen, top_candidates = (rawjson.list_at(result, name) for name in ("chosenCandidates", "topCandidates"))
    alternatives = [rawjson.list_at(candidate, "candidates") for candidate in top_candidates]
    return [
        {**_token(token), "top_logprobs": [_token(other) for other in others or () if isinstance(other, dict)]}
        for token, others in zip_longest(chosen, alternatives)
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
