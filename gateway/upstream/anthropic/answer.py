"""Answer: a whole message of Anthropic's as a chat completion."""

from typing import Any

from gateway.domain.channel import Channel
from gateway.upstream import rawjson
from gateway.upstream.adapter import AttemptFailed
from gateway.upstream.anthropic.calls import Calls
from gateway.upstream.anthropic.errors import failure_inside
from gateway.upstream.anthropic.finish import finish_of
from gateway.upstream.anthropic.usage import Report
from gateway.upstream.chat.forms import Completion, Json, completion, message, tool_call
from gateway.upstream.chat.whole import no_answer

THOUGHTS = frozenset({"thinking", "redacted_thinking"})
"""Types of the blocks that are reasoning."""


def read_answer(body: bytes, channel: Channel, calls: Calls) -> Completion:
    """The chat completion. Raises AttemptFailed when the body is an error, or no message."""
    found = rawjson.maybe(body.strip().removeprefix(b"\xef\xbb\xbf"))
    if not isinstance(found, dict):
        raise no_answer(body, channel)
    if found.get("type") == "error":
        raise AttemptFailed(failure_inside(channel, body))
    blocks = found.get("content")
    if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
        raise no_answer(body, channel)
    said = _message(blocks, calls)
    report = Report()
    usage = report.see(rawjson.raw(found.get("usage")))
    finish = finish_of(found.get("stop_reason"), tools=bool(calls.count))
    return Completion(rawjson.encode(completion(_string(found, "id"), [(said, finish)], usage)), report.suspect)


def _message(blocks: list[dict[str, Any]], calls: Calls) -> Json:
    texts: list[str] = []
    made: list[Json] = []
    thoughts = [block for block in blocks if _string(block, "type") in THOUGHTS]
    for block in blocks:
        kind = _string(block, "type")
        if kind == "text":
            texts.append(_string(block, "text"))
        elif kind in THOUGHTS:
            calls.think(block)
        elif kind == "tool_use":
            call_id, arguments = _string(block, "id"), rawjson.encode(block.get("input") or {}).decode()
            name = calls.open(call_id, _string(block, "name"))
            if name:
                made.append(tool_call(None, call_id, name, arguments))
            else:
                texts.append(arguments)
    reasoning = "".join(_string(block, "thinking") for block in thoughts)
    more = {"thinking_blocks": thoughts} if thoughts else {}
    return message("".join(texts), reasoning=reasoning, calls=made, **more)


def _string(holder: dict[str, Any], name: str) -> str:
    found = holder.get(name)
    return found if isinstance(found, str) else ""
