"""Reads chat completions as parts of an answer: chunks of a stream, or a whole one.

Beside OpenAI's own form it knows what others send: reasoning under three names, content and thoughts in parts
(Mistral), images in ``images`` (OpenRouter), sources in ``annotations``, ``citations`` or ``search_results``.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import (
    AnswerPart,
    Medium,
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
from gateway.domain.rawjson import NULL, Fields
from gateway.domain.sse import BLANK, SSEEvent
from gateway.upstream.adapter import AttemptFailed, Order
from gateway.upstream.answer_errors import failure_in, reports_error
from gateway.upstream.answer_reader import AnswerReader, no_answer
from gateway.upstream.call_book import deltas_of, part_of
from gateway.upstream.openai.chunks import normalize_texts, upstream_id
from gateway.upstream.openai.template import Template, learn

_REPORTS = ("usage", "x_groq", "timings", "service_tier")
_SOURCES = ("citations", "search_results")


class _Delta(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    content: msgspec.Raw = NULL
    role: str | None = None
    refusal: None = None
    reasoning: None = None
    reasoning_content: None = None
    tool_calls: None = None
    function_call: None = None


class _Choice(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    delta: _Delta
    index: int = 0
    finish_reason: None = None
    native_finish_reason: None = None
    stop_reason: None = None
    token_ids: None = None
    logprobs: None = None


class _TextChunk(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A chunk that brings a piece of text and nothing else."""

    choices: list[_Choice]
    id: str = ""
    object: str = ""
    created: int = 0
    model: str = ""
    provider: str | None = None
    system_fingerprint: str | None = None
    service_tier: str | None = None
    obfuscation: str = ""
    usage: None = None


_TEXT_CHUNK = msgspec.json.Decoder(_TextChunk)


LESSONS = 12
"""Templates that are learned of an answer; where each event needs another one, no more are."""


class _NoSink:
    """Takes texts that are counted elsewhere."""

    def add(self, text: str) -> None:
        """Of any number of events."""


_NO_SINK = _NoSink()


class ChatReader(AnswerReader):
    """Reads one answer. Implements ``AnswerReader``."""

    def __init__(self, order: Order, channel: Channel) -> None:
        self._order = order
        self._channel = channel
        self._template: Template | None = None
        self._lessons = LESSONS
        self._reported = False
        self._sources: msgspec.Raw | None = None
        self._cited = False

    def texts(self, events: bytes, start: int) -> tuple[list[bytes], int]:
        """See ``AnswerReader``: most events are nothing but text, and the same around it."""
        texts: list[bytes] = []
        while events.startswith(b"data: {", start):
            run = self._template.run(events, start, _NO_SINK) if self._template is not None else None
            if run is not None:
                texts += [b'"%b"' % text for text in run.texts if text]
                start += run.size
                continue
            end = events.find(BLANK, start)
            event = events[start:] if end < 0 else events[start:end]
            if (text := _text_in(event)) is None:
                break
            texts.append(text)
            self._lessons -= 1
            self._template = learn(event, event, text) if self._lessons > 0 else None
            start += len(event) + len(BLANK)
        return texts, start

    def read(self, event: SSEEvent) -> Iterator[AnswerPart]:
        """See ``AnswerReader``."""
        if event.data.strip() == b"[DONE]":
            self.done = True
            self.default_word = "stop" if self._reported else ""
            return
        chunk = _chunk_of(event.data)
        yield from self._reports(chunk)
        self.failure = failure_in(self._channel, chunk, event=event.name)
        if self.failure is not None:
            return
        yield from self._choices(chunk, "delta")

    def read_whole(self, body: bytes) -> Iterator[AnswerPart]:
        """See ``AnswerReader``."""
        try:
            answer = rawjson.fields(body.strip().removeprefix(b"\xef\xbb\xbf"))
        except ValueError as error:
            raise no_answer(body, self._channel) from error
        yield from self._reports(answer)
        choices = answer.get("choices", NULL)
        if rawjson.is_null(choices) or not rawjson.items(choices):
            failure = failure_in(self._channel, answer)
            raise no_answer(body, self._channel) if failure is None else AttemptFailed(failure)
        self.default_word = "stop"
        yield from self._choices(answer, "message")

    def _reports(self, chunk: Fields) -> Iterator[AnswerPart]:
        found = {name: chunk[name] for name in _REPORTS if name in chunk and not rawjson.is_null(chunk[name])}
        if not rawjson.is_null(chunk.get("choices")) and b'"usage"' in bytes(chunk["choices"]):
            found["choices"] = chunk["choices"]  # Moonshot's place
        if found:
            self._reported = self._reported or "usage" in found or "x_groq" in found
            yield UsageSeen(found)
        for name in _SOURCES:
            if not rawjson.is_null(chunk.get(name)):
                self._sources = chunk[name].copy()

    def _choices(self, chunk: Fields, holder: str) -> Iterator[AnswerPart]:
        raw = chunk.get("choices", NULL)
        choices = [] if rawjson.is_null(raw) else rawjson.objects(raw)
        if choices:
            yield UpstreamNamed(upstream_id(chunk, self._order.screen))
        for position, choice in enumerate(choices):
            given = rawjson.value(choice.get("index"))
            index = given if type(given) is int else position
            message = choice.get(holder, NULL)
            if rawjson.is_null(message):
                message = choice.get("message", NULL)
            if not rawjson.is_null(message):
                yield from self._message(rawjson.fields(message), choice, index, holder)
            word = rawjson.value(choice.get("finish_reason"))
            if isinstance(word, str) and word:
                yield from self._cite(index)
                hit = rawjson.maybe(choice.get("stop_reason"))  # vLLM's
                yield StopWord(word, index, hit if isinstance(hit, str) else None)
            elif holder == "message":
                yield from self._cite(index)
                yield StopWord("stop", index)

    def _message(self, message: Fields, choice: Fields, index: int, holder: str) -> Iterator[AnswerPart]:
        normalize_texts(message)
        for name in ("reasoning_content", "reasoning"):
            if piece := _text(message.get(name)):
                yield ReasoningPiece(piece, index)
                break
        for block in _list(message.get("thinking_blocks")):
            yield ReasoningSeal(Seal(SealKind.ANTHROPIC, rawjson.encode([block])), index)
        if piece := _text(message.get("content")):
            yield TextPiece(piece, _logprobs(choice.get("logprobs", NULL)), index)
        if piece := _text(message.get("refusal")):
            yield RefusalPiece(piece, index)
        for image in _list(message.get("images")):
            if (medium := _image(image, index)) is not None:
                yield medium
        yield from _audio(message.get("audio"), index)
        for annotation in _list(message.get("annotations")):
            if (citation := url_citation(annotation)) is not None:
                self._cited = True
                yield msgspec.structs.replace(citation, choice=index)
        yield from _calls(message, index, whole=holder == "message")

    def _cite(self, index: int) -> Iterator[AnswerPart]:
        """The sources that came beside the choices, unless the text named them itself."""
        if self._sources is None or self._cited:
            return
        self._cited = True
        for source in _list(self._sources):
            found = {"url": source} if isinstance(source, str) else source
            if (citation := url_citation(found)) is not None:
                yield msgspec.structs.replace(citation, choice=index)


def _text_in(event: bytes) -> bytes | None:
    """The text of the first choice that an event brings, a JSON string, if it brings nothing else."""
    try:
        chunk = _TEXT_CHUNK.decode(event[6:])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if len(chunk.choices) != 1 or chunk.object == "error":
        return None
    choice = chunk.choices[0]
    content = bytes(choice.delta.content)
    return None if choice.index or content[:1] != b'"' or content == b'""' else content


def _chunk_of(data: bytes) -> Fields:
    """The chunk. Raises ValueError for what is none."""
    if data[:1] == b"[":
        found = rawjson.objects(data)
        errors = [item for item in found if reports_error(item)]
        if not errors:
            raise ValueError("an array")
        return errors[0]
    return rawjson.fields(data)


def _calls(message: Fields, index: int, *, whole: bool) -> Iterator[AnswerPart]:
    raw = message.get("tool_calls")
    calls = [] if rawjson.is_null(raw) or raw is None else deltas_of(raw)
    for position, (call, place) in enumerate(calls):
        yield part_of(call, index, position if whole else place)
    legacy = message.get("function_call")
    if not calls and legacy is not None and not rawjson.is_null(legacy):
        yield part_of({"function": legacy}, index, 0)


def _text(raw: msgspec.Raw | None) -> bytes:
    """A JSON string that is not empty, else nothing. Raises ValueError for anything else that is not null."""
    if raw is None or rawjson.is_null(raw):
        return b""
    data = bytes(raw)
    if data[:1] != b'"':
        rawjson.text(raw)
    return data if data != b'""' else b""


def _list(raw: msgspec.Raw | None) -> list[Any]:
    found = rawjson.maybe(raw)
    return found if isinstance(found, list) else []


def _logprobs(raw: msgspec.Raw) -> bytes:
    """The probabilities of the text's tokens, a JSON array that is not empty; else nothing."""
    if rawjson.is_null(raw):
        return b""
    try:
        content = rawjson.fields(raw).get("content", NULL)
        return bytes(content) if rawjson.items(content) else b""
    except ValueError:
        return b""


def _image(found: Any, index: int) -> Medium | None:
    """OpenRouter's: ``{"type": "image_url", "image_url": {"url": ...}}``."""
    holder = found.get("image_url") if isinstance(found, dict) else None
    url = holder.get("url") if isinstance(holder, dict) else holder
    return medium_of(url, index) if isinstance(url, str) and url else None


def medium_of(url: str, choice: int = 0) -> Medium:
    """The image behind an address, or in a data URL."""
    head, comma, data = url.partition(",")
    if comma and head.startswith("data:") and head.endswith(";base64"):
        return Medium(head.removeprefix("data:").removesuffix(";base64"), data, choice=choice)
    return Medium("image", url=url, choice=choice)


def _audio(raw: msgspec.Raw | None, index: int) -> Iterable[AnswerPart]:
    """OpenAI's speech: clients of other APIs get its transcript."""
    found = rawjson.maybe(raw)
    transcript = found.get("transcript") if isinstance(found, dict) else None
    return [TextPiece(rawjson.encode(transcript), b"", index)] if isinstance(transcript, str) and transcript else []
