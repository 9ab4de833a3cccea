"""Transcript: repairs the turns that clients send back, so that every upstream accepts them.

Vendors require one result for each call, directly after the calls and in their order, and arguments that are an object.
But clients send results in another order, late, twice, or for calls that are not in the conversation; interruptions
leave calls without a result; and models write arguments that are not JSON. Such turns are not refused, because the
client would send them again with every later turn. No text is lost.
"""

import json
from collections.abc import Iterable
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.conversation import Block, CallPart, ResultPart, TextPart, ThoughtPart, Turn

RESULTS_REPAIRED = "tool_results_repaired"
"""The mark of a request with calls without a result, results without a call, or two results of a call."""
ARGUMENTS_REPAIRED = "tool_arguments_repaired"
"""The mark of a request in which the arguments of a call were not a JSON object."""
INVALID_ARGUMENTS = "invalid_arguments"
"""The field that holds arguments which are not a JSON object."""
NO_OUTPUT = TextPart(raw=msgspec.Raw(b'"[no output]"'))

_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])


class _Call:
    """A call, and its result if there is one."""

    def __init__(self, block: CallPart) -> None:
        self.block = block
        self.result: ResultPart | None = None

    def result_or_empty(self) -> ResultPart:
        return self.result or ResultPart(call_id=self.block.id, name=self.block.name, parts=(NO_OUTPUT,))


class Transcript:
    """Collects turns and repairs them."""

    def __init__(self) -> None:
        self._turns: list[tuple[Turn, list[_Call]]] = []
        """The turns, each with its calls."""
        self._by_id: dict[str, _Call] = {}
        """The last call with each id: some models begin to number their calls in every turn."""
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
        calls = [_Call(block) for block in own_blocks if isinstance(block, CallPart)]
        self._by_id |= {call.block.id: call for call in calls}
        if role == "assistant" and self._turns and self._joins_last_turn(own_blocks):
            last_turn, earlier_calls = self._turns[-1]
            self._turns[-1] = Turn(role=role, blocks=(*last_turn.blocks, *own_blocks)), [*earlier_calls, *calls]
        else:
            self._turns.append((Turn(role=role, blocks=tuple(own_blocks)), calls))

    def arguments(self, text: bytes) -> msgspec.Raw:
        """Returns the arguments of a call as a JSON object, whatever the model wrote.

        Missing arguments become an empty object. Line breaks in strings are escaped, and an object in a string is
        decoded. Anything else becomes the text of one field.
        """
        data = text.strip()
        try:
            _OBJECT.decode(data or b"{}")
        except (msgspec.DecodeError, RecursionError):
            self._marks[ARGUMENTS_REPAIRED] = None
            return rawjson.raw(object_of(data.decode("utf-8", "replace")))
        return msgspec.Raw(data or b"{}")

    @property
    def turns(self) -> tuple[Turn, ...]:
        """Returns the turns. Each one with calls is followed by a turn with their results."""
        turns: list[Turn] = []
        for turn, calls in self._turns:
            turns.append(turn)
            if calls:
                turns.append(Turn(role="tool", blocks=tuple(call.result_or_empty() for call in calls)))
        return tuple(turns)

    @property
    def marks(self) -> tuple[str, ...]:
        """Returns the marks of the repairs."""
        lacks_result = any(call.result is None for _, calls in self._turns for call in calls)
        return tuple(self._marks | dict.fromkeys([RESULTS_REPAIRED] if lacks_result else []))

    def _joins_last_turn(self, blocks: list[Block]) -> bool:
        """Returns whether these blocks belong to the last turn. A signed thought never follows texts or calls."""
        turn, calls = self._turns[-1]
        if turn.role != "assistant" or any(call.result is not None for call in calls):
            return False
        thinks = any(isinstance(block, ThoughtPart) and block.signed for block in blocks)
        return not thinks or all(isinstance(block, ThoughtPart) for block in turn.blocks)

    def _attach_result(self, block: ResultPart) -> list[Block]:
        """Attach a result to its call. If there is no call, return the result as texts of the user."""
        call = self._call_of(block)
        if call is None:
            self._marks[RESULTS_REPAIRED] = None
            label = f"[result of tool call {block.call_id}]" if block.call_id else "[tool result]"
            return [TextPart(raw=rawjson.raw(label)), *block.parts]
        earlier = call.result
        if earlier is not None:
            self._marks[RESULTS_REPAIRED] = None
            parts = earlier.parts if earlier.parts == block.parts else earlier.parts + block.parts
            block = msgspec.structs.replace(block, parts=parts, failed=earlier.failed or block.failed)
        call.result = msgspec.structs.replace(block, call_id=call.block.id, name=call.block.name)
        return []

    def _call_of(self, block: ResultPart) -> _Call | None:
        """Returns the call with the id of a result. If there is none, returns the first call without a result that has
        the same name; if the result has neither id nor name, the first call without a result.
        """
        if (call := self._by_id.get(block.call_id)) is not None:
            return call
        waiting = (call for _, calls in self._turns for call in calls if call.result is None)
        if block.name:
            return next((call for call in waiting if call.block.name == block.name), None)
        return None if block.call_id else next(waiting, None)


def object_of(text: str) -> dict[str, object]:
    """Returns the object that a JSON text has, even within a string; for other texts, an object with the text in it."""
    value: Any = text
    for _ in range(2):  # the second time decodes an object in a string
        try:
            value = json.loads(value, strict=False, parse_constant=lambda _: None) if isinstance(value, str) else value
        except (ValueError, RecursionError):
            break
    if isinstance(value, dict):
        return value
    return {} if value in (None, []) else {INVALID_ARGUMENTS: text}
