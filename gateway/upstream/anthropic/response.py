"""A whole message of Anthropic's as a chat completion, with its tool calls, finish reason and usage.

The tools get the client's names back, and the thinking before each call is kept. In a stream the usage numbers are
running totals that come piece by piece.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from gateway.domain.channel import Channel
from gateway.domain.usage import Usage
from gateway.upstream import rawjson, usage_report
from gateway.upstream.adapter import AttemptFailed, Order
from gateway.upstream.anthropic.errors import failure_inside
from gateway.upstream.anthropic.messages import TOOLS
from gateway.upstream.anthropic.tools import JSON_TOOL, answers_by_tool
from gateway.upstream.translate.response import Completion, Json, completion, message, no_answer, tool_call
from gateway.upstream.translate.tool_names import Signatures, ToolNames
from gateway.upstream.usage_marks import marks_of


class AnswerToolCalls:
    """The calls so far."""

    def __init__(self, order: Order, signatures: Signatures) -> None:
        self._order = order
        self._names = ToolNames(order, TOOLS)
        self._signatures = signatures
        self._thoughts: list[Mapping[str, object]] = []
        self.count = 0
        """Calls of the client's tools."""

    @property
    def seals(self) -> bool:
        """Whether thinking blocks are passed on in streams; see ``Order.seals``."""
        return self._order.seals

    def think(self, block: Mapping[str, object]) -> None:
        """A whole thinking block."""
        self._thoughts.append(block)

    def open(self, call_id: str, name: str) -> str:
        """The client's name of the tool; empty if the call is not one of its own but the answer itself."""
        if name == JSON_TOOL and answers_by_tool(self._order):
            return ""
        if self._thoughts:
            self._signatures.remember(call_id, rawjson.encode(self._thoughts))
            self._thoughts = []
        self.count += 1
        return self._names.back(name)


_REASONS = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "pause_turn": "length",
    "compaction": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}


def finish_of(reason: object, *, tools: bool) -> str:
    """The client's word; ``stop`` for the rest. Without a call of the client's tools ``tool_use`` is the plain end."""
    found = _REASONS.get(reason, "stop") if isinstance(reason, str) else "stop"
    return "stop" if found == "tool_calls" and not tools else found


_SUMMED = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")

_LONG_WRITE = "ephemeral_1h_input_tokens"


class Report:
    """What was reported so far. Later numbers replace earlier ones; they are never added up."""

    def __init__(self) -> None:
        self._told: dict[str, Any] = {}
        self.suspect = False

    def see(self, report: msgspec.Raw | None) -> Usage | None:
        """Takes one more report, and gives the whole; None as long as there is no input count."""
        found = rawjson.maybe(report)
        if isinstance(found, dict):
            self._told |= {name: value for name, value in found.items() if value is not None}
        reading = usage_report.read(_sum_iterations(self._told))
        if reading is None:
            self.suspect = self.suspect or "input_tokens" in self._told
            return None
        self.suspect = self.suspect or reading.suspect
        return reading.usage

    @property
    def marks(self) -> tuple[str, ...]:
        """What is odd about it; see ``usage_marks``."""
        return marks_of(self._told, suspect=self.suspect)


def _sum_iterations(usage: dict[str, Any]) -> dict[str, Any]:
    """With ``iterations`` the sum over these is what was used: the total leaves out that of a compaction."""
    found = usage.get("iterations")
    steps = [step for step in found if isinstance(step, dict)] if isinstance(found, list) else []
    if not steps:
        return usage
    sums: dict[str, Any] = {name: _sum(step.get(name) for step in steps) for name in _SUMMED}
    made = [step["cache_creation"] for step in steps if isinstance(step.get("cache_creation"), dict)]
    if made:
        sums["cache_creation"] = {_LONG_WRITE: _sum(one.get(_LONG_WRITE) for one in made)}
    return usage | {name: total for name, total in sums.items() if total is not None}


def _sum(numbers: Iterable[object]) -> int | None:
    """The sum; None if there are none, -1 if one of them is not a count."""
    found = [number for number in numbers if number is not None]
    counts = [number for number in found if type(number) is int and number >= 0]
    return None if not found else sum(counts) if len(counts) == len(found) else -1


THOUGHTS = frozenset({"thinking", "redacted_thinking"})
"""Types of the blocks that are reasoning."""


def read_answer(body: bytes, channel: Channel, calls: AnswerToolCalls) -> Completion:
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
    return Completion(rawjson.encode(completion(_string(found, "id"), [(said, finish)], usage)), report.marks)


def _message(blocks: list[dict[str, Any]], calls: AnswerToolCalls) -> Json:
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
