"""Transcript: repairs the turns that clients send back, so that every upstream accepts them.

Vendors require one result for each call, directly after the calls and in their order, arguments that are an object, and
ids that no other call has. But clients send results in another order, late, twice, or for calls that are not in the
conversation; interruptions leave calls without a result; models write arguments that are not JSON; and some upstreams
number the calls of every answer alike, or not at all. Such turns are not refused, because the client would send them
again with every later turn. No text is lost.
"""

import json
from collections import deque
from collections.abc import Iterable
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.conversation import Block, CallPart, MediaPart, ResultPart, TextPart, ThoughtPart, Turn
from gateway.domain.json_text import SMALL, replace_lone_surrogates

RESULTS_REPAIRED = "tool_results_repaired"
"""The mark of a request with calls without a result, results without a call, or two results of a call."""
INVALID_ARGUMENTS = "invalid_arguments"
"""The field that holds arguments which are not a JSON object."""
NO_OUTPUT = TextPart(raw=msgspec.Raw(b'"[no output]"'))

_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])


class _Call(msgspec.Struct):
    """A call, and what its results contain."""

    block: CallPart
    turn: int
    """The number of its turn. The turn refers to its calls, so this is not the turn itself."""
    parts: list[TextPart | MediaPart] | None = None
    """The parts of all its results; None if it has no results."""
    failed: bool = False

    @property
    def result(self) -> ResultPart:
        parts = (NO_OUTPUT,) if self.parts is None else tuple(self.parts)
        return ResultPart(call_id=self.block.id, name=self.block.name, parts=parts, failed=self.failed)


class _Turn(msgspec.Struct):
    """A turn that is being collected."""

    role: str
    blocks: list[Block] = []
    calls: list[_Call] = []
    answered: bool = False
    """Whether one of its calls has a result."""
    thinks_only: bool = True
    """Whether it has no blocks other than thoughts."""


class _OpenCalls(msgspec.Struct):
    """Calls, some still without a result."""

    turns: list[deque[_Call]] = []
    last: _Call | None = None
    renamed: int = 0
    """The last number that was tried at the end of an id."""

    def add(self, call: _Call) -> None:
        """Add a call of the last turn."""
        if not self.turns or self.turns[-1][0].turn != call.turn:
            self.turns.append(deque())
        self.turns[-1].append(call)
        self.last = call

    def first(self) -> _Call | None:
        """Returns the first call without a result in the last turn that has one; None if all have results."""
        while self.turns:
            calls = self.turns[-1]
            while calls and calls[0].parts is not None:
                calls.popleft()
            if calls:
                return calls[0]
            self.turns.pop()
        return None


class Transcript:
    """Collects turns and repairs them. It takes linear time, however many calls and results there are."""

    def __init__(self) -> None:
        self._turns: list[_Turn] = []
        self._by_id: dict[str, _OpenCalls] = {}
        """The calls by the ids that the client knows."""
        self._by_name: dict[str, _OpenCalls] = {}
        """The calls by name, and all under the empty name."""
        self._ids: set[str] = set()
        self._marks: dict[str, None] = {}
        """The marks, in order and without duplicates. ``marks`` adds the one for calls without a result."""

    def add(self, role: str, blocks: Iterable[Block]) -> None:
        """Add a turn. Results among its blocks are moved to their calls."""
        all_blocks, own_blocks = tuple(blocks), list[Block]()
        for block in all_blocks:
            own_blocks += self._attach_result(block) if isinstance(block, ResultPart) else [block]
        if all_blocks and not own_blocks:
            return
        role = "user" if role == "tool" else role
        if role != "assistant" or not self._turns or not self._joins_last_turn(own_blocks):
            self._turns.append(_Turn(role))
        turn = self._turns[-1]
        for block in own_blocks:
            turn.blocks.append(self._add_call(block, turn) if isinstance(block, CallPart) else block)
            turn.thinks_only = turn.thinks_only and isinstance(block, ThoughtPart)

    def arguments(self, text: bytes) -> msgspec.Raw:
        """Returns the arguments of a call as a JSON object, whatever the model wrote.

        Missing arguments become an empty object. Line breaks in strings are escaped, lone surrogates replaced, and an
        object in a string is decoded. Anything else becomes the text of one field.
        """
        data = text.strip()
        try:
            _OBJECT.decode(data or b"{}")
        except (msgspec.DecodeError, RecursionError):
            self._marks["tool_arguments_repaired"] = None
            repaired = rawjson.encode(object_of(data.decode("utf-8", "replace")))
            return msgspec.Raw(replace_lone_surrogates(repaired) if b"\\ud" in repaired else repaired)
        return msgspec.Raw(data or b"{}")

    @property
    def turns(self) -> tuple[Turn, ...]:
        """Returns the turns. Each one with calls is followed by a turn with their results."""
        turns: list[Turn] = []
        for turn in self._turns:
            turns.append(Turn(role=turn.role, blocks=tuple(turn.blocks)))
            if turn.calls:
                turns.append(Turn(role="tool", blocks=tuple(call.result for call in turn.calls)))
        return tuple(turns)

    @property
    def marks(self) -> tuple[str, ...]:
        lacks_result = any(call.parts is None for turn in self._turns for call in turn.calls)
        return tuple(self._marks | dict.fromkeys([RESULTS_REPAIRED] if lacks_result else []))

    def _joins_last_turn(self, blocks: list[Block]) -> bool:
        """Returns whether these blocks belong to the last turn. A signed thought never follows texts or calls."""
        turn = self._turns[-1]
        if turn.role != "assistant" or turn.answered:
            return False
        has_thoughts = any(isinstance(block, ThoughtPart) and block.signed for block in blocks)
        return not has_thoughts or turn.thinks_only

    def _add_call(self, block: CallPart, turn: _Turn) -> CallPart:
        """Add a call to a turn. Returns it with another id if it has none, or an earlier call's."""
        call_id, same_id = block.id, self._by_id.setdefault(block.id, _OpenCalls())
        while not call_id or call_id in self._ids:
            same_id.renamed += 1
            call_id = f"{block.id or 'unnamed_call'}_{same_id.renamed}"
        self._ids.add(call_id)
        call = _Call(msgspec.structs.replace(block, id=call_id), len(self._turns) - 1)
        turn.calls.append(call)
        same_id.add(call)
        for name in {"", block.name}:
            self._by_name.setdefault(name, _OpenCalls()).add(call)
        return call.block

    def _attach_result(self, block: ResultPart) -> list[Block]:
        """Attach a result to its call. Without such a call, return the result as texts of the user."""
        call = self._call_of(block)
        if call is None:
            self._marks[RESULTS_REPAIRED] = None
            label = f"[result of tool call {block.call_id}]" if block.call_id else "[tool result]"
            return [TextPart(raw=rawjson.raw(label)), *block.parts]
        if call.parts is None:
            call.parts = []
        else:
            self._marks[RESULTS_REPAIRED] = None
        if call.parts != list(block.parts):
            call.parts += block.parts
        call.failed = call.failed or block.failed
        self._turns[call.turn].answered = True
        return []

    def _call_of(self, block: ResultPart) -> _Call | None:
        """Returns the call that a result belongs to; None if none is left.

        It is the call with the result's id; for an unknown id, a call of the same name that has no result; for a result
        with neither, any call without one. Among several, it is the first in the last turn.
        """
        if block.call_id in self._by_id and block.call_id:
            calls = self._by_id[block.call_id]
            return calls.first() or calls.last
        if block.call_id and not block.name:
            return None
        return self._by_name[block.name].first() if block.name in self._by_name else None


def object_of(text: str) -> dict[str, object]:
    """Returns the object in a JSON text, even if that is a string with JSON; else an object that holds the text.

    A large text is not decoded: it may have millions of elements.
    """
    if len(text) > SMALL:
        return {INVALID_ARGUMENTS: text}
    value: Any = text
    for _ in range(2):  # the second time decodes an object in a string
        try:
            value = json.loads(value, strict=False, parse_constant=lambda _: None) if isinstance(value, str) else value
        except (ValueError, RecursionError):
            break
    if isinstance(value, dict):
        return value
    return {} if value in (None, []) else {INVALID_ARGUMENTS: text}
