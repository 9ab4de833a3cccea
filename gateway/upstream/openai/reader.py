"""ChatReader: reads chat completions, the chunks of a stream or a whole one, as parts of an answer.

It reads OpenAI's own form, and what others send: reasoning under several names, content and thoughts in parts
(Mistral), images in ``images`` (OpenRouter), sources in ``annotations``, ``citations`` or ``search_results``.
"""

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
    Piece,
    Seal,
    SealKind,
    UsageSeen,
    url_citation,
)
from gateway.domain.channel import Channel
from gateway.domain.order import Order
from gateway.domain.rawjson import NULL, Fields
from gateway.domain.sse import SSEEvent
from gateway.upstream.adapter import AnswerReader
from gateway.upstream.answer_errors import failure_in, failure_named, reported_failure, reports_error
from gateway.upstream.finish_words import finish_reason, meaning_of
from gateway.upstream.openai.contents import media_in, normalize_texts, source_fields, sources_in, split_thought
from gateway.upstream.openai.request import OPENAI_TOOLS
from gateway.upstream.openai.tool_calls import (
    TooManyCalls,
    arguments_text,
    call_objects,
    has_content,
    text_piece,
    tool_call_part,
)
from gateway.upstream.tool_call_tracker import TOO_MANY

_REPORTS = ("usage", "x_groq", "timings", "service_tier", "cost")
_REASONING = ("reasoning_content", "reasoning")
_COMMON_FIELDS = frozenset({"role", "content", "refusal", "tool_calls", "function_call", *_REASONING})
"""Fields of a message that are read one by one."""
_PLACES = ("result", "data", "provider")
"""Fields with a whole answer in them: Cloudflare's, others', and OpenRouter's, which also has the provider's name."""
_HEAD_FIELDS = frozenset({"id", "object", "created", "model", "choices", "system_fingerprint", "obfuscation"})
_REGULAR_FIELDS = _HEAD_FIELDS | {"usage", "service_tier"}
"""A chunk with only these fields is not an error, unless it contains the word."""


class ParsedChoice(msgspec.Struct, gc=False):
    """A choice of a chunk or an answer. Its dicts may be changed."""

    index: int
    fields: dict[str, Any]
    """The fields of the choice, with raw values."""
    message: dict[str, Any]
    """The fields of its delta or message, with raw values and normalized texts."""
    calls: list[Fields]
    """Its tool calls, or its old function call. Each of them is one part."""
    whole: bool
    """Whether it has a message, and not a delta."""
    repeats: bool
    """Whether it is a message in a chunk, which may have again what came in deltas."""


class ChatReader(AnswerReader):
    """Reads one answer. Implements ``AnswerReader``."""

    reads_alike = True
    tool_rules = OPENAI_TOOLS

    def __init__(self, order: Order, channel: Channel) -> None:
        self.chunk: dict[str, Any] = {}
        """The last chunk, or the whole answer."""
        self.choices: list[ParsedChoice] = []
        self._parts: list[AnswerPart] = []
        self._order = order
        self._channel = channel
        self._begun: set[int] = set()
        self._is_single = order.wants_one_choice
        self._has_usage = False
        self._unsigned: dict[int, str] = {}
        """The text of a thought whose signature has not come yet, by choice."""
        self._has_text: set[int] = set()
        """Choices with text that came in deltas."""
        self._has_reasoning: set[int] = set()
        """Choices with reasoning that came in deltas."""
        self._shown_as_reasoning: set[int] = set()
        """Choices whose open thought came as reasoning too."""
        self._thinking: set[int] = set()
        """Choices whose content was a thought so far, as Gemini's compatible API writes it."""
        self._sources: list[Fields] = []
        """Fields with sources that came next to the text, each once."""
        self._cited = False

    def read(self, event: SSEEvent) -> list[AnswerPart]:
        self._parts, self.choices = [], []
        if event.data.strip() == b"[DONE]":
            self.done = True
            self.default_word = "stop" if self._has_usage else ""
            return self.end()
        try:
            self.chunk = chunk = _parse_chunk(event.data)
        except ValueError:
            if event.name != b"error":
                raise
            self.failure = reported_failure(self._channel, event.data)
            return []
        if b'"usage"' in event.data or not _HEAD_FIELDS.issuperset(chunk):
            self._add_reports(chunk)
        if event.name == b"error" or may_report_error(chunk, event.data):
            self.failure = failure_in(self._channel, chunk, event=event.name)
        try:
            if self.failure is None:
                self._add_choices(chunk, "delta")
        except TooManyCalls:
            self.failure = failure_named(self._channel, TOO_MANY)
        return self._parts

    def read_whole(self, body: bytes) -> list[AnswerPart]:
        self._parts, self.choices = [], []
        self.chunk = answer = _parse_chunk(body)
        self._add_reports(answer)
        if may_report_error(answer, body):
            self.failure = failure_in(self._channel, answer)
        if self.failure is None and not self._add_choices(answer, "message"):
            raise ValueError("no choice")
        self.default_word = "stop"
        return [*self._parts, *self.end()]

    def end(self) -> list[AnswerPart]:
        """See ``AnswerReader``: the sources that came next to the text, each once, unless it had citations of its own.

        They belong to the first choice. Some come after its finish reason.
        """
        if not self._sources or self._cited:
            return []
        holders, self._sources = self._sources, []
        sources = [source for fields in holders for source in sources_in(fields)]
        by_url: dict[str, Citation] = {}
        for source in filter(None, sources):
            by_url.setdefault(source.url, source)
        if sources and not by_url:
            return [AnswerMark("citation_dropped")]
        choice = min(self._begun, default=0)
        return [msgspec.structs.replace(citation, choice=choice) for citation in by_url.values()]

    def forget(self) -> None:
        """Forget the last chunk, which may be large."""
        self.chunk, self.choices, self._parts = {}, [], []

    def _add_reports(self, chunk: Fields) -> None:
        reports: Fields = {}
        if not chunk.keys() <= _HEAD_FIELDS:
            reports = {name: chunk[name] for name in _REPORTS if name in chunk and chunk[name] != NULL}
        if not chunk.keys() <= _REGULAR_FIELDS:
            self._keep_sources(chunk)
            if not rawjson.is_nothing(chunk.get("images", NULL)):  # of Perplexity's sources
                self._parts.append(AnswerMark("medium_dropped"))
        if "choices" in chunk and b'"usage"' in bytes(chunk["choices"]):
            reports["choices"] = chunk["choices"]  # Moonshot's place
        if reports:
            self._has_usage = self._has_usage or "usage" in reports or "x_groq" in reports
            self._parts.append(UsageSeen(reports))

    def _add_choices(self, chunk: Fields, holder: str) -> bool:
        """Add the choices of a chunk, whose content is in ``holder``. Returns whether there are any."""
        raw = chunk.get("choices", NULL)
        choices = [] if raw == NULL else rawjson.objects(raw)
        for position, fields in enumerate(choices):
            choice = _parse_choice(fields, holder, self._index(fields, position, holder))
            self.choices.append(choice)
            if "extra_content" in choice.message or choice.index in self._thinking:
                is_open = split_thought(choice.message, is_open=choice.index in self._thinking)
                (self._thinking.add if is_open else self._thinking.discard)(choice.index)
            if choice.index not in self._begun:
                self._begun.add(choice.index)
                self._parts.append(AnswerId(rawjson.text_at(chunk.get("id")), choice=choice.index))
            if choice.repeats:
                self._remove_repeated(choice)
            self._add_message(choice)
            self._add_finish(choice)
        return bool(choices)

    def _index(self, fields: Fields, position: int, holder: str) -> int:
        """Returns the index of a choice. Copilot sends the text and the calls of one choice as two."""
        if self._is_single:
            return 0
        index = rawjson.value(fields.get("index"))
        return index if holder == "delta" and type(index) is int else position

    def _add_finish(self, choice: ParsedChoice) -> None:
        raw = choice.fields.get("finish_reason", NULL)
        word = None if raw == NULL else rawjson.value(raw)
        if isinstance(word, str) and word.strip().lower() not in ("", "none", "null"):  # SGLang wrote Python's None
            native = rawjson.maybe(choice.fields.get("native_finish_reason"))  # OpenRouter's, if the word is of no help
            word = native if isinstance(native, str) and meaning_of(native) == "broken" else word
            stop_sequences = map(choice.fields.get, ("stop_reason", "matched_stop"))  # vLLM's, SGLang's
            stop_sequence = next((text for raw in stop_sequences if isinstance(text := rawjson.maybe(raw), str)), None)
            self._parts.append(AnswerFinished(word, choice.index, stop_sequence))
        elif choice.whole:
            self._parts.append(AnswerFinished("stop", choice.index))

    def _add_message(self, choice: ParsedChoice) -> None:
        message, index, add = choice.message, choice.index, self._parts.append
        for name in () if message.keys().isdisjoint(_REASONING) else _REASONING:
            if name in message and (piece := text_piece(message[name])):
                add(Piece(BlockKind.REASONING, piece, choice=index))
                self._shown_as_reasoning.add(index)
                if not choice.repeats:
                    self._has_reasoning.add(index)
                break
        if "thinking_blocks" in message:
            self._add_thoughts(rawjson.list_at(message["thinking_blocks"]), index)
        if "content" in message and (piece := text_piece(message["content"])):
            add(Piece(BlockKind.TEXT, piece, 0, index, _logprobs(choice.fields.get("logprobs", NULL))))
            if not choice.repeats:
                self._has_text.add(index)
        if "refusal" in message and (piece := text_piece(message["refusal"])):
            add(Piece(BlockKind.REFUSAL, piece, choice=index))
        if not message.keys() <= _COMMON_FIELDS:
            self._add_extras(message, index)
        numbered = choice.whole or len(choice.calls) > 1
        for place, call in enumerate(choice.calls):
            add(tool_call_part(call, index, place if numbered else None))

    def _remove_repeated(self, choice: ParsedChoice) -> None:
        """Remove texts that came in deltas before: MiniMax's streams end with the whole message."""
        if choice.index in self._has_text:
            choice.message.pop("content", None)
        for name in _REASONING if choice.index in self._has_reasoning else ():
            choice.message.pop(name, None)

    def _add_thoughts(self, blocks: list[Any], index: int) -> None:
        """Add Anthropic's thoughts, which LiteLLM passes on. A delta has a piece of one, the last its signature too."""
        for block in blocks:
            if not isinstance(block, dict):
                continue
            before, piece = self._unsigned.pop(index, ""), str(block.get("thinking") or "")
            signed = block.get("signature") or block.get("data")
            text = piece if signed and piece.startswith(before) else before + piece  # the last may be the whole thought
            if len(text) > len(before) and index not in self._shown_as_reasoning:
                self._parts.append(Piece(BlockKind.REASONING, rawjson.encode(text[len(before) :]), choice=index))
            if not signed:
                self._unsigned[index] = text
                continue
            self._shown_as_reasoning.discard(index)
            thought = {**block, "thinking": text} if block.get("signature") else block
            sealed = {name: thought[name] for name in ("type", "thinking", "signature", "data") if name in thought}
            self._parts.append(Seal(SealKind.ANTHROPIC, rawjson.encode([sealed]), index))

    def _add_extras(self, message: Fields, index: int) -> None:
        self._parts += media_in(message, index)
        self._keep_sources(message)
        for annotation in rawjson.list_at(message.get("annotations")):
            citation = url_citation(annotation)
            if citation is None:  # such as a file that OpenRouter read
                self._parts.append(AnswerMark("citation_dropped"))
            else:
                self._cited = True
                self._parts.append(msgspec.structs.replace(citation, choice=index))

    def _keep_sources(self, holder: Fields) -> None:
        sources = source_fields(holder)
        if sources and sources not in self._sources[-1:]:  # Perplexity repeats them in every chunk
            self._sources.append({name: raw.copy() for name, raw in sources.items()})


def _parse_chunk(data: bytes) -> Fields:
    """Returns the fields of a chunk or an answer, or of a list's first error. Raises ValueError."""
    if data[:1] == b"[":
        errors = [item for item in rawjson.objects(data) if reports_error(item)]
        if not errors:
            raise ValueError("an array")
        return errors[0]
    chunk = rawjson.fields(data)
    if not rawjson.is_null(chunk.get("choices")):
        return chunk
    if not rawjson.is_null(chunk.get("stop_reason")):  # Copilot sends Claude's message
        message = {name: chunk[name] for name in ("role", "content") if name in chunk}
        return {**chunk, "choices": rawjson.raw([{"message": message, "finish_reason": chunk["stop_reason"]}])}
    inner = (rawjson.maybe_fields(chunk.get(name)) for name in _PLACES)
    return next((fields for fields in inner if "choices" in fields), chunk)


def may_report_error(fields: Fields, data: bytes) -> bool:
    """Returns whether a chunk or an answer, whose bytes are ``data``, has unusual fields, or an error in usual ones."""
    return not _REGULAR_FIELDS.issuperset(fields) or b'"error"' in data


def _parse_choice(fields: Fields, holder: str, index: int) -> ParsedChoice:
    """Returns a choice, whose content is in ``holder``. Raises ValueError."""
    is_whole = holder == "message"
    raw, other = fields.get(holder, NULL), "delta" if is_whole else "message"
    is_other = raw == NULL and other in fields
    if is_other:
        raw = fields.pop(other)
    message = {} if raw == NULL else rawjson.fields(raw)
    if raw == NULL and "text" in fields:  # as completions have it
        message["content"] = fields.pop("text")
    elif raw == NULL and is_whole:
        word = rawjson.value(fields.get("finish_reason"))
        if not (isinstance(word, str) and finish_reason(word, has_calls=False) == "content_filter"):  # Azure removes it
            raise ValueError("a choice has no message")
    normalize_texts(message)
    if (raw := message.get("function_call", NULL)) != NULL and not has_content(raw):
        del message["function_call"]  # without a name, OpenAI's Node SDK fails
    calls: list[Fields] = []
    if (raw := message.get("tool_calls", NULL)) != NULL:
        calls = call_objects(raw)
    elif (raw := message.get("function_call", NULL)) != NULL:
        function = rawjson.maybe_fields(raw)
        if bytes(function.get("arguments", NULL))[:1] == b"{":  # as GigaChat writes them
            raw = rawjson.raw({**function, "arguments": msgspec.Raw(arguments_text(function["arguments"]))})
            message["function_call"] = raw
        calls = [{"function": raw}]
    return ParsedChoice(index, fields, message, calls, is_whole, repeats=is_other and not is_whole)


def _logprobs(raw: msgspec.Raw) -> bytes:
    """Returns the log probabilities of the text's tokens as a JSON array; nothing without any."""
    if rawjson.is_null(raw):
        return b""
    content = rawjson.maybe_fields(raw).get("content", NULL)
    return bytes(content) if rawjson.maybe_items(content) else b""
