"""Assemble: an event stream as one whole answer, for an upstream that was asked for no stream and sent one."""

from typing import Any

from gateway.domain.channel import Channel
from gateway.upstream import rawjson
from gateway.upstream.adapter import AttemptFailed, Order, Whole, as_object
from gateway.upstream.openai.content import TEXTS
from gateway.upstream.openai.stream import ChatStream
from gateway.upstream.sse import BLANK

_BEGINNINGS = (b"data:", b"event:", b"id:", b"retry:", b":")


def is_stream(body: bytes) -> bool:
    """Whether the bytes are events; their content type is not asked: it may be wrong."""
    return body[:64].removeprefix(b"\xef\xbb\xbf").lstrip().startswith(_BEGINNINGS)


def assemble(body: bytes, order: Order, channel: Channel) -> Whole:
    """The answer that the events bring. Raises AttemptFailed if they bring none, or an unfinished one."""
    stream = ChatStream(order, channel)
    events = stream.feed(body) + stream.end()
    if stream.failure:
        raise AttemptFailed(stream.failure)
    chunks = [rawjson.value(event.removeprefix(b"data: ")) for event in events.split(BLANK) if event]
    answer = {key: value for key, value in chunks[0].items() if key != "choices"}
    answer |= {"object": "chat.completion", "choices": _choices(chunks)}
    if stream.reported is not None:
        answer["usage"] = as_object(stream.reported)
    return Whole(
        body=rawjson.encode(answer),
        reported=stream.reported,
        finish=stream.finish,
        upstream_id=stream.upstream_id,
        tally=stream.tally,
        marks=(*stream.marks, "assembled"),
    )


def _choices(chunks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The choices, in order of their index. The chunks are normalised, so there is no doubt what belongs where."""
    choices: dict[int, dict[str, Any]] = {}
    for piece in (piece for chunk in chunks for piece in chunk["choices"]):
        index = piece["index"]
        choice = choices.setdefault(index, {"index": index, "message": {"role": "assistant", "content": None}})
        _add_delta(choice["message"], piece["delta"])
        if piece.get("finish_reason"):
            choice["finish_reason"] = piece["finish_reason"]
        if piece.get("logprobs"):
            _add_logprobs(choice, piece["logprobs"])
    return [choices[index] for index in sorted(choices)]


def _add_delta(message: dict[str, Any], delta: dict[str, Any]) -> None:
    for name, value in delta.items():
        if value is None or name == "role":
            continue
        if name == "tool_calls":
            _add_calls(message.setdefault("tool_calls", []), value)
        elif name in TEXTS:
            message[name] = (message.get(name) or "") + value
        else:
            message[name] = value


def _add_calls(calls: list[dict[str, Any]], deltas: list[dict[str, Any]]) -> None:
    for delta in deltas:
        index = delta.pop("index")
        if index == len(calls):
            calls.append(delta)
            continue
        kind, key = ("custom", "input") if "custom" in delta else ("function", "arguments")
        calls[index][kind][key] += delta.get(kind, {}).get(key, "")


def _add_logprobs(choice: dict[str, Any], logprobs: dict[str, Any]) -> None:
    known = choice.setdefault("logprobs", {})
    for name, value in logprobs.items():
        known[name] = (known.get(name) or []) + value if isinstance(value, list) else value
