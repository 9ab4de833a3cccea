"""Replay: a whole answer as the chunks of a stream, for an upstream that was asked for a stream and sent none."""

import msgspec

from gateway.upstream import rawjson
from gateway.upstream.rawjson import Fields


def chunks_of(body: bytes) -> list[Fields]:
    """The chunks, still to be normalised: of each choice its texts, its tool calls, its end; usage on the last one.

    The body is a chat completion that was read before.
    """
    answer = rawjson.fields(body)
    choices = rawjson.objects(answer.pop("choices"))
    usage = answer.pop("usage", None)
    steps = [step for choice in choices for step in _steps(choice)]
    chunks: list[Fields] = [{**answer, "choices": rawjson.raw([step])} for step in steps]
    if usage is not None:
        chunks[-1]["usage"] = usage
    return chunks


def _steps(choice: Fields) -> list[Fields]:
    delta = rawjson.fields(choice.pop("message"))
    reason = choice.pop("finish_reason")
    calls = delta.pop("tool_calls", None)
    steps: list[Fields] = [{**choice, "delta": rawjson.raw(delta)}]
    index = {"index": choice["index"]}
    if calls is not None:
        numbered = [{"index": rawjson.raw(i), **call} for i, call in enumerate(rawjson.objects(calls))]
        steps.append({**index, "delta": rawjson.raw({"tool_calls": numbered})})
    return [*steps, {**index, "delta": msgspec.Raw(b"{}"), "finish_reason": reason}]
