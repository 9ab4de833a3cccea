"""Reads chat completions as parts of an answer: chunks of a stream, or a whole one.

Beside OpenAI's own form it knows what others send: reasoning under three names, content and thoughts in parts
(Mistral), images in ``images`` (OpenRouter), sources in ``annotations``, ``citations`` or ``search_results``.
"""

from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import (
    AnswerPart,
    ReasoningPiece,
    ReasoningSeal,
    RefusalPiece,
    Seal,
    SealKind,
    StopWord,
    TextPiece,
    UpstreamNamed,
    UsageSeen,
    url_citation,
)
from gateway.domain.channel import Channel
from gateway.domain.order import Order
from gateway.domain.rawjson import NULL, Fields
from gateway.domain.screen import Screen
from gateway.domain.sse import SSEEvent
from gateway.domain.text import plain
from gateway.upstream.adapter import AnswerReader, not_an_answer
from gateway.upstream.answer_errors import failure_in, failure_named, reported_failure, reports_error
from gateway.upstream.finish_words import finish_reason
from gateway.upstream.openai.contents import media_in, normalize_texts
from gateway.upstream.openai.template import Template, learn
from gateway.upstream.openai.tool_calls import TooManyCalls, call_objects, has_content, tool_call_part
from gateway.upstream.tool_call_tracker import TOO_MANY

ID_LIMIT = 200
"""The most characters of an upstream's id; a longer one is replaced by ours."""

_REPORTS = ("usage", "x_groq", "timings", "service_tier")
_REASONING = ("reasoning_content", "reasoning")
_USUAL = frozenset({"role", "content", "refusal", "tool_calls", "function_call", *_REASONING})
"""Fields of a message that are read one by one."""
_SOURCES = ("search_results", "citations")
_SIGNED = ("type", "thinking", "signature", "data")
"""Fields of a thought that Anthropic takes back."""
_NO_WORDS = frozenset({"", "none", "null"})
"""Finish words of a choice that goes on: SGLang wrote the name of Python's None."""
_BARE = frozenset({"id", "object", "created", "model", "choices", "system_fingerprint", "obfuscation"})
"""Fields of a chunk without content."""
_REGULAR = _BARE | {"usage", "service_tier"}
"""A chunk with only these fields is an error only if it contains the word."""


LESSONS = 12
"""How many templates are learned from an answer; if each event needs another one, no more are."""


class OpenedChoice(msgspec.Struct, gc=False):
    """A choice as it was read; changing it does not change what was read."""

    index: int
    fields: dict[str, Any]
    """Its fields; the values are raw, as those of the message."""
    message: dict[str, Any]
    """Its delta or message, with its texts normalized."""
    calls: list[Fields]
    """Its tool calls, or its old function call: each of them was one part."""
    whole: bool
    """Whether it is complete, and not a delta."""


class ChatReader(AnswerReader):
    """Reads one answer. Implements ``AnswerReader``."""

    def __init__(self, order: Order, channel: Channel) -> None:
        self.opened: dict[str, Any] = {}
        """The last chunk, or the whole answer."""
        self.choices: list[OpenedChoice] = []
        """Its choices."""
        self._parts: list[AnswerPart] = []
        """Of it."""
        self._order = order
        self._channel = channel
        self._last: SSEEvent | None = None
        """The last event, until a template was made of it."""
        self._template: Template | None = None
        self._lessons = LESSONS
        self._name = ""
        """The answer's id at the upstream."""
        self._begun: set[int] = set()
        """Choices."""
        self._first = 0
        """The upstream's number of the first choice: some do not count from 0."""
        self._reported = False
        self._thoughts: dict[int, str] = {}
        """Text of a thought that is not signed yet, by choice."""
        self._reasoned: set[int] = set()
        """Choices whose open thought is passed on as reasoning too."""
        self._sources: msgspec.Raw | None = None
        self._cited = False

    def texts(self, events: bytes, start: int) -> tuple[list[bytes], int]:
        """See ``AnswerReader``: most events have only text, and the same around it."""
        texts: list[bytes] = []
        self._learn()
        while self._template is not None and start < len(events):
            run = self._template.run(events, start) or self._template.run(events, start, several=False)
            if run is None:
                self._template = None
                break
            texts += [b'"%b"' % text for text in run.texts if text]
            start += run.size
        return texts, start

    def _learn(self) -> None:
        """Makes a template of the last event, if it had only text."""
        event, self._last = self._last, None
        if event is None or event.name or not self._lessons or len(self._parts) != 1:
            return
        part = self._parts[0]
        if isinstance(part, TextPiece) and not (part.choice or part.logprobs):
            line = b"data: " + event.data
            self._lessons -= 1
            self._template = learn(line, line, part.piece)

    def read(self, event: SSEEvent) -> list[AnswerPart]:
        self._parts, self.choices, self._last = [], [], event
        if event.data.strip() == b"[DONE]":
            self.done = True
            self.default_word = "stop" if self._reported else ""
            return []
        try:
            self.opened = chunk = _chunk_of(event.data)
        except ValueError:
            if event.name != b"error":
                raise
            self.failure = reported_failure(self._channel, event.data)
            return []
        if b'"usage"' in event.data or not _BARE.issuperset(chunk):
            self._add_reports(chunk)
        if event.name == b"error" or b'"error"' in event.data or not _REGULAR.issuperset(chunk):
            self.failure = failure_in(self._channel, chunk, event=event.name)
        try:
            if self.failure is None:
                self._add_choices(chunk, "delta")
        except TooManyCalls:
            self.failure = failure_named(self._channel, TOO_MANY)
        return self._parts

    def read_whole(self, body: bytes) -> list[AnswerPart]:
        self._parts, self.choices = [], []
        try:
            self.opened = answer = _chunk_of(body.strip().removeprefix(b"\xef\xbb\xbf"))
        except ValueError as error:
            raise not_an_answer(body, self._channel) from error
        self._add_reports(answer)
        if self._add_choices(answer, "message"):
            self.default_word = "stop"
            return self._parts
        self.failure = failure_in(self._channel, answer)
        if self.failure is None:
            raise not_an_answer(body, self._channel)
        return self._parts

    def forget(self) -> None:
        """Forget what was read last."""
        self.opened, self.choices, self._parts, self._last = {}, [], [], None

    def _add_reports(self, chunk: Fields) -> None:
        reports: Fields = {}
        if not chunk.keys() <= _BARE:
            reports = {name: chunk[name] for name in _REPORTS if name in chunk and chunk[name] != NULL}
            self._keep_sources(chunk)
        if "choices" in chunk and b'"usage"' in bytes(chunk["choices"]):
            reports["choices"] = chunk["choices"]  # Moonshot's place
        if reports:
            self._reported = self._reported or "usage" in reports or "x_groq" in reports
            self._parts.append(UsageSeen(reports))

    def _add_choices(self, chunk: Fields, holder: str) -> bool:
        """Returns whether there are any."""
        raw = chunk.get("choices", NULL)
        choices = [] if raw == NULL else rawjson.objects(raw)
        if choices and not self._name:
            self._name = upstream_id(chunk, self._order.screen)
            if holder == "message" or _wants_one(self._order):
                given = [rawjson.value(fields.get("index")) for fields in choices]
                self._first = min((number for number in given if type(number) is int), default=0)
        for position, fields in enumerate(choices):
            choice = _open(fields, position, holder, self._first)
            self.choices.append(choice)
            if choice.index not in self._begun:
                self._begun.add(choice.index)
                self._parts.append(UpstreamNamed(self._name, choice=choice.index))
            self._add_message(choice)
            word = None if fields.get("finish_reason", NULL) == NULL else rawjson.value(fields["finish_reason"])
            if isinstance(word, str) and word.strip().lower() not in _NO_WORDS:
                self._cite(choice.index)
                hit = rawjson.maybe(fields.get("stop_reason"))  # vLLM's
                self._parts.append(StopWord(word, choice.index, hit if isinstance(hit, str) else None))
            elif choice.whole:
                self._cite(choice.index)
                self._parts.append(StopWord("stop", choice.index))
        return bool(choices)

    def _add_message(self, choice: OpenedChoice) -> None:
        message, index, add = choice.message, choice.index, self._parts.append
        for name in () if message.keys().isdisjoint(_REASONING) else _REASONING:
            if name in message and (piece := _text(message[name])):
                add(ReasoningPiece(piece, index))
                self._reasoned.add(index)
                break
        if "thinking_blocks" in message:
            self._seal(rawjson.list_at(message["thinking_blocks"]), index)
        if "content" in message and (piece := _text(message["content"])):
            add(TextPiece(piece, _logprobs(choice.fields.get("logprobs", NULL)), index))
        if "refusal" in message and (piece := _text(message["refusal"])):
            add(RefusalPiece(piece, index))
        if not message.keys() <= _USUAL:
            self._add_extras(message, index)
        numbered = choice.whole or len(choice.calls) > 1
        for place, call in enumerate(choice.calls):
            add(tool_call_part(call, index, place if numbered else None))

    def _seal(self, blocks: list[Any], index: int) -> None:
        """Adds Anthropic's thoughts, which LiteLLM passes on: a delta has a piece of one, the last its signature."""
        for block in blocks:
            if not isinstance(block, dict):
                continue
            before, piece = self._thoughts.pop(index, ""), str(block.get("thinking") or "")
            signed = block.get("signature") or block.get("data")
            text = piece if signed and piece.startswith(before) else before + piece  # the last may be the whole
            if len(text) > len(before) and index not in self._reasoned:
                self._parts.append(ReasoningPiece(rawjson.encode(text[len(before) :]), index))
            if not signed:
                self._thoughts[index] = text
                continue
            self._reasoned.discard(index)
            given = {**block, "thinking": text} if block.get("signature") else block
            whole = {name: given[name] for name in _SIGNED if name in given}
            self._parts.append(ReasoningSeal(Seal(SealKind.ANTHROPIC, rawjson.encode([whole])), index))

    def _add_extras(self, message: Fields, index: int) -> None:
        """Adds what is not in every message."""
        self._parts += media_in(message, index)
        self._keep_sources(message)
        for annotation in rawjson.list_at(message.get("annotations")):
            if (citation := url_citation(annotation)) is not None:
                self._cited = True
                self._parts.append(msgspec.structs.replace(citation, choice=index))

    def _keep_sources(self, holder: Fields) -> None:
        given = (holder[name] for name in _SOURCES if not rawjson.is_null(holder.get(name)))
        self._sources = next((raw.copy() for raw in given), self._sources)

    def _cite(self, index: int) -> None:
        """Adds the sources beside the choices, unless the text named them itself."""
        if self._sources is None or self._cited:
            return
        self._cited = True
        for source in rawjson.list_at(self._sources):
            annotation = {"url": source} if isinstance(source, str) else source
            if (citation := url_citation(annotation)) is not None:
                self._parts.append(msgspec.structs.replace(citation, choice=index))


def _wants_one(order: Order) -> bool:
    """Returns whether one choice was requested. Of several, the chunks may come in any order."""
    return rawjson.maybe(order.fields.get("n")) in (None, 1)


def _chunk_of(data: bytes) -> Fields:
    """Returns the chunk. Raises ValueError for anything else."""
    if data[:1] == b"[":
        objects = rawjson.objects(data)
        errors = [item for item in objects if reports_error(item)]
        if not errors:
            raise ValueError("an array")
        return errors[0]
    chunk = rawjson.fields(data)
    return chunk if "choices" in chunk else _unwrap(chunk)


def _unwrap(fields: Fields) -> Fields:
    """Returns the answer or chunk inside of another object: Cloudflare has it in ``result``, others in ``data``."""
    for name in ("result", "data"):
        inner = rawjson.maybe_fields(fields.get(name))
        if "choices" in inner:
            return inner
    return fields


def _open(fields: Fields, position: int, holder: str, first: int) -> OpenedChoice:
    """Returns the choice; ``first`` is the number of the first one. Raises ValueError for anything else."""
    whole, given = holder == "message", rawjson.value(fields.get("index"))
    raw = fields.get(holder, NULL)
    if raw == NULL and not whole:
        raw = fields.pop("message", NULL)
    message = {} if raw == NULL else rawjson.fields(raw)
    if raw == NULL and "text" in fields:  # as completions have it
        message["content"] = fields.pop("text")
    elif raw == NULL and whole and not _is_withheld(fields):
        raise ValueError("a choice has no message")
    normalize_texts(message)
    calls: list[Fields] = []
    if (raw := message.get("tool_calls", NULL)) != NULL:
        calls = call_objects(raw)
    elif (raw := message.get("function_call", NULL)) != NULL and has_content(raw):
        calls = [{"function": raw}]
    return OpenedChoice(given - first if type(given) is int else position, fields, message, calls, whole)


def _is_withheld(choice: Fields) -> bool:
    """Returns whether a filter removed the message (Azure)."""
    word = rawjson.value(choice.get("finish_reason"))
    return isinstance(word, str) and finish_reason(word, tools=False) == "content_filter"


def upstream_id(answer: Fields, screen: Screen) -> str:
    """Returns the upstream's id, made harmless and cut to ``ID_LIMIT``; empty if there is none, or it shows a
    secret.
    """
    id = rawjson.value(answer.get("id"))
    if not isinstance(id, str) or screen.has_secret(id):
        return ""
    harmless = len(id) <= ID_LIMIT and id.isascii() and id.isprintable()
    return id if harmless else plain(id, ID_LIMIT)


def _text(raw: msgspec.Raw | None) -> bytes:
    """Returns a JSON string that is not empty, else nothing. Raises ValueError for anything else that is not null."""
    if raw is None or rawjson.is_null(raw):
        return b""
    data = bytes(raw)
    if data[:1] != b'"':
        rawjson.text(raw)
    return data if data != b'""' else b""


def _logprobs(raw: msgspec.Raw) -> bytes:
    """Returns the probabilities of the text's tokens, a JSON array that is not empty; else nothing."""
    if rawjson.is_null(raw):
        return b""
    try:
        content = rawjson.fields(raw).get("content", NULL)
        return bytes(content) if rawjson.items(content) else b""
    except ValueError:
        return b""
