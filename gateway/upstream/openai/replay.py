"""Replay: a whole answer as the chunks of a stream, for an upstream that sent none when a stream was requested.

Long texts go out in pieces, one after the other, so that of an answer of any size only a piece is ever copied.
"""

from collections.abc import Iterator

import msgspec

from gateway.domain import rawjson
from gateway.domain.rawjson import Fields
from gateway.upstream.openai.chunks import TEXTS
from gateway.upstream.text_pieces import PIECE, pieces

_ORDER = ("reasoning_content", "reasoning", "content", "refusal")
"""The order of long texts: models think before they answer."""


def chunks_of(body: bytes) -> Iterator[Fields]:
    """The chunks, still to be normalised: of each choice its texts, its tool calls, its end; usage on the last one.

    The body is a chat completion that was read before.
    """
    answer = rawjson.fields(body)
    choices = rawjson.objects(answer.pop("choices"))
    usage = answer.pop("usage", None)
    for number, choice in enumerate(choices, 1):
        index, reason = {"index": choice["index"]}, choice.pop("finish_reason")
        for step in _steps(choice):
            yield {**answer, "choices": rawjson.raw([step])}
        end: Fields = {**index, "delta": msgspec.Raw(b"{}"), "finish_reason": reason}
        last = {"usage": usage} if usage is not None and number == len(choices) else {}
        yield {**answer, "choices": rawjson.raw([end]), **last}


def _steps(choice: Fields) -> Iterator[Fields]:
    """What one choice contains, except for its end."""
    delta = rawjson.fields(choice.pop("message"))
    calls = delta.pop("tool_calls", None)
    index = {"index": choice["index"]}
    texts: Fields = {}
    if any(_is_long(delta.get(name)) for name in TEXTS):
        texts = {name: delta.pop(name) for name in _ORDER if name in delta}
    yield {**choice, "delta": rawjson.raw(delta)}
    for name, text in texts.items():
        for piece in map(msgspec.Raw, pieces(text)) if _is_long(text) else (text,):
            yield {**index, "delta": rawjson.raw({name: piece})}
    if calls is not None:
        numbered = [{"index": rawjson.raw(i), **call} for i, call in enumerate(rawjson.objects(calls))]
        yield {**index, "delta": rawjson.raw({"tool_calls": numbered})}


def _is_long(value: msgspec.Raw | None) -> bool:
    """Whether it is a text of more than a piece."""
    view = memoryview(b"" if value is None else value)
    return len(view) > PIECE + 2 and view[0] == ord('"')
