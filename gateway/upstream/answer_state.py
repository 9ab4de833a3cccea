"""AnswerState: turns the parts of one answer, as the upstream sent them, into repaired events in one order.

All rules about answers are here. It finds the tool call of each piece (``tool_call_tracker``), puts blocks one after
another (the events of a block are held while another is open), translates the finish word (``finish_words``), merges
usage reports (``usage_report``), and counts the output.
"""

from collections import deque
from collections.abc import Callable

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import (
    AnswerBegan,
    AnswerEvent,
    AnswerFinished,
    AnswerId,
    AnswerMark,
    AnswerPart,
    BlockEnded,
    BlockKind,
    Citation,
    Medium,
    Piece,
    Seal,
    SealKind,
    ToolCallBegan,
    ToolCallPart,
    UsageSeen,
)
from gateway.domain.call import LOST_EVENTS_MARK
from gateway.domain.estimate import OutputCounter
from gateway.domain.order import Order
from gateway.domain.screen import Screen
from gateway.domain.text import plain
from gateway.domain.usage import Usage
from gateway.upstream.finish_words import REASONS, finish_reason, meaning_of
from gateway.upstream.tool_call_tracker import TOO_MANY, Arguments, ToolCallTracker
from gateway.upstream.usage_report import UsageReports

BlockKey = tuple[BlockKind, int]
_FIRST_TEXT: BlockKey = (BlockKind.TEXT, 0)

ID_LIMIT = 200
"""The maximum length of an upstream's id."""


class _HeldBlock(msgspec.Struct):
    """Events of a block that is held while another one is open."""

    key: BlockKey
    arguments: Arguments | None
    events: list[AnswerEvent]


class BlockSequence:
    """Orders the blocks of a choice one after another: the next one opens only when the open one is complete.

    A tool call is complete when its arguments are, any block when the upstream ends it. Texts and other blocks of an
    upstream that never ends blocks are complete at any time. The events are appended to the state's.
    """

    def __init__(self, choice: int, state: "AnswerState") -> None:
        self._choice = choice
        self._events = state.events
        self._native = state.native
        self._ends_blocks = state.ends_blocks
        self._open: BlockKey | None = None
        self._arguments: Arguments | None = None
        self._ended: set[BlockKey] = set()
        self._held: deque[_HeldBlock] = deque()
        self._held_by_key: dict[BlockKey, _HeldBlock] = {}
        """The last held block with each key."""

    @property
    def is_in_text(self) -> bool:
        """Returns whether more text of the first block can follow at once."""
        return self._open == _FIRST_TEXT and not self._held

    def add(self, key: BlockKey, event: AnswerEvent, arguments: Arguments | None = None) -> None:
        """Add an event of a block; ``arguments``: a tool call's so far."""
        if key == self._open or self._native:
            self._open = key
            self._events.append(event)
            if self._held:
                self._release()
        elif key[0] is BlockKind.TOOL_CALL and key in self._ended:
            return
        elif self._held or not self._may_end():
            self._hold(key, event, arguments)
        else:
            self._open_block(key, arguments)
            self._events.append(event)

    def end(self, key: BlockKey) -> None:
        """Mark a block as complete, because the upstream ended it."""
        self._ended.add(key)
        if key == self._open and self._held:
            self._release()

    def flush(self) -> None:
        """End the open block and all held ones: nothing more will come."""
        self._release(is_over=True)
        self._close_block()

    def _close_block(self) -> None:
        if self._open is not None:
            kind, number = self._open
            if self._arguments is not None and self._arguments.empty_object:
                self._events.append(Piece(kind, b'"{}"', number, self._choice))
            self._open = self._arguments = None
            self._ended.add((kind, number))
            self._events.append(BlockEnded(kind, number, self._choice))

    def _open_block(self, key: BlockKey, arguments: Arguments | None) -> None:
        """Open a block. Consecutive texts are one block for clients."""
        if self._open is None or key[0] is not BlockKind.TEXT or self._open[0] is not BlockKind.TEXT:
            self._close_block()
        self._open, self._arguments = key, arguments

    def _may_end(self) -> bool:
        if self._open is None or self._open in self._ended:
            return True
        if self._arguments is not None:
            return self._arguments.complete
        return not (self._ends_blocks and self._open[0] in (BlockKind.TEXT, BlockKind.REASONING))

    def _hold(self, key: BlockKey, event: AnswerEvent, arguments: Arguments | None) -> None:
        """Hold an event. Without block ends, texts with another block between them are different blocks."""
        numbered = self._ends_blocks or key[0] is BlockKind.TOOL_CALL
        block = self._held_by_key.get(key)
        if block is None or not (numbered or self._held[-1].key == key):
            block = self._held_by_key[key] = _HeldBlock(key, arguments, [])
            self._held.append(block)
        block.events.append(event)

    def _release(self, *, is_over: bool = False) -> None:
        """Pass held events on, up to an incomplete block; if the answer ``is_over``, all of them."""
        while self._held and (is_over or self._may_end()):
            block = self._held.popleft()
            if self._held_by_key.get(block.key) is block:
                del self._held_by_key[block.key]
            self._open_block(block.key, block.arguments)
            self._events += block.events


class _Choice:
    def __init__(self, index: int, state: "AnswerState") -> None:
        self.index = index
        self.shown = state.all_choices or index == 0
        """Whether its events go to the client."""
        self.tracker = ToolCallTracker(f"{state.order.answer_id}/{index}", native=state.native, whole=state.whole)
        self.blocks = BlockSequence(index, state)
        self.word = ""
        """The upstream's finish word; empty until the choice has ended."""
        self.stop_sequence: str | None = None
        self.produced = False
        """Whether it produced something that a client can use."""
        self._native = state.native
        self._tally = state.tally
        self._client_name = state.client_name
        self._unannounced: ToolCallBegan | None = None
        """The beginning of a call without arguments so far. It is held because its name may come in pieces."""
        self._names_grow = not (state.native or state.ends_blocks)
        self._sealed = 0
        """The number of reasoning blocks that ended with a seal: later reasoning is another block."""

    @property
    def reason(self) -> str:
        """Returns the finish_reason. Native clients get a word of chat completions unchanged."""
        has_calls = bool(self.tracker.calls)
        if self._native and self.word in REASONS and not (has_calls and self.word == "stop"):
            return self.word
        return finish_reason(self.word, has_calls=has_calls)

    def add(self, part: AnswerPart) -> None:
        """Add a part. Raises ValueError if it is invalid."""
        if isinstance(part, ToolCallPart):
            self._add_call(part)
        else:
            self.announce_call()
            self._add_other(part)

    def _add_other(self, part: AnswerPart) -> None:
        add = self.blocks.add
        match part:
            case Piece():
                self.produced = True
                self._tally.add(rawjson.text(part.piece))
                number = part.number or (self._sealed if part.kind is BlockKind.REASONING else 0)
                add((part.kind, number), part)
            case Seal():
                self._add_seal(part)
            case Medium():
                self.produced = True
                self._tally.calls += 1
                add((BlockKind.MEDIUM, 0), part)
            case Citation():
                add((BlockKind.TEXT, part.block), part)
            case BlockEnded():
                is_call = part.kind is BlockKind.TOOL_CALL
                self.blocks.end((part.kind, self.tracker.number_at(part.number) if is_call else part.number))
            case AnswerFinished():
                if not self.word or meaning_of(self.word) == "stop":  # which some write into each chunk
                    self.word = part.reason
                self.stop_sequence = self.stop_sequence or part.stop_sequence

    def _add_call(self, part: ToolCallPart) -> None:
        call = self.tracker.add(part)
        if call is None:
            return
        number, piece = call.number, call.added_arguments
        if call.is_new:
            self.announce_call()
            self.produced = True
            self._tally.calls += 1
            self._tally.add(call.name)
            if part.signature:
                self._add_seal(Seal(SealKind.GEMINI, rawjson.encode({call.id: part.signature}), self.index))
            self._unannounced = ToolCallBegan(number, call.id, call.name, part.custom, part.signature, self.index)
        began = self._unannounced
        if began is not None and began.number == number and (piece or call.arguments.complete or not self._names_grow):
            self.announce_call()
        if piece:
            self._tally.add(rawjson.text(piece))
            arguments = Piece(BlockKind.TOOL_CALL, piece, number, self.index)
            self.blocks.add((BlockKind.TOOL_CALL, number), arguments, call.arguments)

    def announce_call(self) -> None:
        """Pass on the beginning of any call that was held for more of its name."""
        began, self._unannounced = self._unannounced, None
        if began is not None:
            call = self.tracker.calls[began.number]
            began = msgspec.structs.replace(began, name=self._client_name(call.name))
            self.blocks.add((BlockKind.TOOL_CALL, began.number), began, call.arguments)

    def _add_seal(self, part: Seal) -> None:
        """Add the seal of any preceding reasoning. It ends the block."""
        key = (BlockKind.REASONING, part.block or self._sealed)
        self.blocks.add(key, part)
        self.blocks.end(key)
        self._sealed += 1


class AnswerState:
    """The state of one answer. ``add`` returns the events for each part, ``conclude`` those at its end."""

    def __init__(
        self,
        order: Order,
        *,
        client_name: Callable[[str], str] = str,
        ends_blocks: bool = False,
        all_choices: bool = False,
        native: bool = False,
    ) -> None:
        """See ``NameRules`` for ``client_name``, ``AnswerReader`` for ``ends_blocks``, ``Renderer`` for the others."""
        self.order = order
        self.client_name = client_name
        self.all_choices = all_choices
        self.native = native
        self.whole = False
        """Whether the answer came as a whole, so that nothing in it is continued."""
        self.ends_blocks = ends_blocks
        self.events: list[AnswerEvent] = []
        """Events not returned yet. Choices keep this list, not the state, because a cycle would outlive the answer."""
        self._choices: dict[int, _Choice] = {}
        self._marks: dict[str, None] = {}
        self.reports = UsageReports(order.fields)
        self.tally = OutputCounter()
        self.upstream_id = ""
        self.began = False
        """Whether there was something for the client."""
        self.resumed = False
        """Whether content came after a finish word. Then a word does not mean that a choice has ended."""
        self.broken = ""
        """The finish word, if it means a failure."""
        self.invalid_events = 0
        """The number of events that could not be read."""

    @property
    def reported(self) -> Usage | None:
        """Returns the usage as the upstream reported it so far."""
        return self.reports.usage(self.tally)

    @property
    def fault(self) -> str:
        """Returns why a client cannot use anything of what came; empty if it can, or if the answer is empty."""
        choices = self._choices.values()
        if any(choice.produced for choice in choices):
            return ""
        if any(choice.tracker.nameless or meaning_of(choice.word) == "tool_calls" for choice in choices):
            return "a tool call has no name, or did not come"  # as at vLLM and Copilot
        return "an event of the stream is not valid, and nothing else came" if self.invalid_events else ""

    @property
    def complete(self) -> bool:
        """Returns whether every choice has ended."""
        return bool(self._choices) and all(choice.word for choice in self._choices.values())

    @property
    def finish(self) -> str:
        """Returns the finish_reason of the first choice, or an empty string."""
        return next((choice.reason for choice in self._choices.values() if choice.word), "")

    @property
    def marks(self) -> tuple[str, ...]:
        invalid = (f"{LOST_EVENTS_MARK}{self.invalid_events}",) if self.invalid_events else ()
        nameless = ("nameless_call",) if any(choice.tracker.nameless for choice in self._choices.values()) else ()
        return tuple(dict.fromkeys((*self._marks, *invalid, *nameless, *self.reports.marks)))

    @property
    def is_in_text(self) -> bool:
        """Returns whether more text of the first choice can be rendered at once."""
        choice = self._choices.get(0)
        return choice is not None and choice.blocks.is_in_text

    def reason(self, index: int) -> str:
        """Returns the finish_reason of a choice, or an empty string."""
        choice = self._choices.get(index)
        return "" if choice is None or not choice.word else choice.reason

    def tracker(self, index: int) -> ToolCallTracker:
        """Returns the tool calls of a choice that has begun."""
        return self._choices[index].tracker

    def add_mark(self, mark: str) -> None:
        self._marks[mark] = None

    def add(self, part: AnswerPart) -> list[AnswerEvent]:
        """Returns the events for a part. Raises ValueError if it is invalid."""
        if isinstance(part, UsageSeen):
            self.reports.add(part.fields, final=part.final)
        elif isinstance(part, AnswerId):
            self.upstream_id = self.upstream_id or harmless_id(part.id, self.order.screen)
            if part.began:
                self._choice(part.choice)
        elif isinstance(part, AnswerMark):
            self._marks.update({} if self.native else {part.mark: None})  # native clients get what is left out here
        else:
            choice = self._choice(part.choice)
            if isinstance(part, AnswerFinished) and not meaning_of(part.reason):
                self.add_mark("unknown_finish_reason")  # without the word, which is the upstream's and may be anything
            if isinstance(part, AnswerFinished) and meaning_of(part.reason) == "broken":
                self.broken = part.reason
            elif isinstance(part, ToolCallPart) and choice.tracker.full:
                self.broken = TOO_MANY
            else:
                count = len(self.events)
                self.resumed = self.resumed or (bool(choice.word) and isinstance(part, Piece | ToolCallPart))
                choice.add(part)
                if not choice.shown:
                    del self.events[count:]
        events = self.events.copy()
        self.events.clear()
        return events

    def conclude(self, default: str = "") -> list[AnswerEvent]:
        """Returns the last events. Choices that have not ended get the ``default`` finish word."""
        for choice in self._choices.values():
            if default and not choice.word:
                choice.word = "length" if any(call.arguments.is_cut for call in choice.tracker.calls) else default
            if choice.shown:
                choice.announce_call()
                choice.blocks.flush()
                if choice.word:
                    self.events.append(AnswerFinished(choice.reason, choice.index, choice.stop_sequence))
        events = self.events.copy()
        self.events.clear()
        return events

    def _choice(self, index: int) -> _Choice:
        """Returns a choice, which begins if it is new, as the answer does with its first one."""
        if not self.began:
            self.began = True
            self.events.append(AnswerBegan(self.upstream_id or self.order.answer_id, self.reported))
        if index not in self._choices:
            self._choices[index] = _Choice(index, self)
        return self._choices[index]


def harmless_id(id: str, screen: Screen) -> str:
    """Returns an upstream's id as harmless text, cut to ``ID_LIMIT``; empty if it has a secret."""
    if screen.has_secret(id):
        return ""
    is_harmless = len(id) <= ID_LIMIT and id.isascii() and id.isprintable()
    return id if is_harmless else plain(id, ID_LIMIT)
