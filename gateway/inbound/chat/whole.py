"""Whole chat completions: which need no edit, how they become chunks, and how chunks become one."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from gateway.domain import rawjson
from gateway.domain.screen import Screen
from gateway.domain.sse import BLANK
from gateway.upstream.adapter import OutputCounter
from gateway.upstream.finish_words import REASONS
from gateway.upstream.framing import is_long, pieces

_LONG_TEXTS = ("reasoning_content", "reasoning", "content", "refusal")
"""The order of long texts: models think before they answer."""
_GROWING = frozenset({"name", *_LONG_TEXTS, "arguments", "input"})
"""Fields whose pieces form one text."""


class _RegularMessage(msgspec.Struct, gc=False):
    role: str
    content: str | None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | msgspec.UnsetType | None = msgspec.UNSET
    reasoning_details: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    reasoning_text: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    thinking: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    tool_calls: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    function_call: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _RegularChoice(msgspec.Struct, gc=False):
    index: int
    message: _RegularMessage
    finish_reason: str
    logprobs: msgspec.Raw = rawjson.NULL


class _BareRegularChoice(_RegularChoice, gc=False, forbid_unknown_fields=True):
    """A choice with nothing that has to be screened."""


_Found = TypeVar("_Found")

_CHOICES = msgspec.json.Decoder(list[_RegularChoice])
_BARE_CHOICES = msgspec.json.Decoder(list[_BareRegularChoice])


def finish_of_regular(choices: msgspec.Raw, tally: OutputCounter, screen: Screen) -> str:
    """Returns the finish reason of the first choice, and counts the texts in the tally; empty if a choice is not
    regular.
    """
    found: Sequence[_RegularChoice] | None = _decode(_BARE_CHOICES, choices)
    if found is None:
        found = _decode(_CHOICES, choices)
        if found is None or any(map(screen.clean, rawjson.objects(choices))):
            return ""
    for position, choice in enumerate(found):
        if not _is_regular(choice, position):
            return ""
    for choice in found:
        message = choice.message
        for text in (message.content, message.reasoning_content, message.reasoning, message.refusal):
            if text:
                tally.add(text)
    return found[0].finish_reason if found else ""


def _decode(decoder: "msgspec.json.Decoder[_Found]", data: msgspec.Raw) -> _Found | None:
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _is_regular(choice: _RegularChoice, position: int) -> bool:
    message = choice.message
    return (
        choice.index == position
        and message.role == "assistant"
        and choice.finish_reason in REASONS
        and message.tool_calls is msgspec.UNSET
        and message.function_call is message.reasoning_text is message.thinking is msgspec.UNSET
        and (message.reasoning_content is None or message.reasoning is msgspec.UNSET)  # not the same text twice
        and (message.reasoning_details is msgspec.UNSET or bool(message.reasoning))
    )


def chunks_of(answer: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields an edited whole answer as the chunks of a stream: each choice's texts, its tool calls, its end.

    Long texts go out in pieces, one after the other, so that only a piece of an answer is ever copied.
    """
    choices = answer.pop("choices")
    answer.pop("usage", None)
    for choice in choices:
        index, reason = {"index": choice["index"]}, choice.pop("finish_reason")
        for step in _steps(choice):
            yield {**answer, "choices": [{**step, "finish_reason": None}]}
        yield {**answer, "choices": [{**index, "delta": {}, "finish_reason": reason}]}


def _steps(choice: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields what one choice contains, except for its end."""
    delta = choice.pop("message")
    calls = delta.pop("tool_calls", ())
    index = {"index": choice["index"]}
    texts = {}
    if any(is_long(memoryview(delta.get(name) or b"")) for name in _LONG_TEXTS):
        texts = {name: delta.pop(name) for name in _LONG_TEXTS if not rawjson.is_null(delta.get(name))}
    yield {**choice, "delta": delta}
    for name, text in texts.items():
        for piece in pieces(text):
            yield {**index, "delta": {name: msgspec.Raw(piece)}}
    if calls:
        yield {**index, "delta": {"tool_calls": [{"index": i, **call} for i, call in enumerate(calls)]}}


def join_chunks(events: Iterable[bytes]) -> dict[str, Any]:
    """Returns the answer in chunks that were already edited, so that each names its choice and call."""
    answer: dict[str, Any] = {}
    choices: dict[int, dict[str, Any]] = {}
    for some in events:
        for event in filter(None, some.split(BLANK)):
            chunk = rawjson.value(event.removeprefix(b"data: "))
            for choice in chunk.pop("choices"):
                choice["message"] = choice.pop("delta")
                message = {"role": "assistant", "content": None}
                _add(choices.setdefault(choice["index"], {"index": choice["index"], "message": message}), choice)
            answer = answer or chunk
    found = [choices[index] for index in sorted(choices)]
    for choice in found:
        _join(choice)
    return answer | {"object": "chat.completion", "choices": found}


class _TextPieces(list[str]):
    """One text."""


def _add(known: dict[str, Any], more: dict[str, Any]) -> None:
    """Add to what is known. Texts stay lists of pieces until the end, so that none is copied for each piece."""
    for name, value in more.items():
        before = known.get(name)
        if name == "tool_calls":
            calls = known.setdefault(name, {})
            for call in value:
                _add(calls.setdefault(call.pop("index"), {}), call)
        elif name in _GROWING and isinstance(value, str):
            known[name] = before if isinstance(before, _TextPieces) else _TextPieces()
            known[name].append(value)
        elif isinstance(value, dict):
            known[name] = before if isinstance(before, dict) else {}
            _add(known[name], value)
        elif isinstance(value, list) and isinstance(before, list):
            before += value
        elif value is not None:
            known[name] = value


def _join(holder: dict[str, Any]) -> None:
    """Turn pieces into texts, and tool calls into a list."""
    for name, value in holder.items():
        if isinstance(value, _TextPieces):
            holder[name] = "".join(value)
        elif isinstance(value, dict):
            for call in value.values() if name == "tool_calls" else ():
                _join(call)
            if name == "tool_calls":
                holder[name] = [value[index] for index in sorted(value)]
            else:
                _join(value)
