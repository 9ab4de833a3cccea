"""The state of one answer: parts as an upstream sent them go in, repaired events come out in one order.

It is the only place with rules. It finds the tool call of a piece (``call_book``), puts blocks one after another
(events of one wait while another is open), translates the finish word (``finish_words``), merges usage reports
(``usage_report``), and counts the output.
"""

from collections import deque

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import (
    AnswerBegan,
    AnswerEvent,
    AnswerFinished,
    AnswerMark,
    AnswerPart,
    ArgumentsPiece,
    BlockEnded,
    BlockKind,
    BlockStop,
    Citation,
    Medium,
    ReasoningPiece,
    ReasoningSeal,
    RefusalPiece,
    Seal,
    SealKind,
    StopWord,
    TextPiece,
    ToolCallBegan,
    ToolCallPart,
    UpstreamNamed,
    UsageSeen,
)
from gateway.domain.order import Order
from gateway.domain.usage import Usage
from gateway.upstream.adapter import OutputCounter
from gateway.upstream.call_book import TOO_MANY, Arguments, BookedCall, CallBook
from gateway.upstream.finish_words import REASONS, finish_reason, meaning_of
from gateway.upstream.usage_report import UsageReports

Place = tuple[BlockKind, int]
_TEXT: Place = (BlockKind.TEXT, 0)
_TEXTS = (BlockKind.TEXT, BlockKind.REASONING)


class BlockSequence:
    """Puts the blocks of a choice one after another: nothing passes a block that is not complete.

    A tool call is complete with its arguments; any block when the upstream says so; texts and others, from an upstream
    that never says so, at any time. Renderable events are added to the state's.
    """

    def __init__(self, choice: int, state: "AnswerState") -> None:
        self._choice = choice
        self._out = state.out
        self._native = state.native
        self._stops = state.stops
        self._open: Place | None = None
        self._arguments: Arguments | None = None
        """The arguments of the open tool call."""
        self._stopped: set[Place] = set()
        self._waiting: deque[tuple[Place, Arguments | None, list[AnswerEvent]]] = deque()
        self._places: dict[Place, list[AnswerEvent]] = {}
        """The waiting events of each block."""

    @property
    def in_text(self) -> bool:
        """Returns whether more text of the first block can follow at once."""
        return self._open == _TEXT and not self._waiting

    def put(self, place: Place, event: AnswerEvent, arguments: Arguments | None = None) -> None:
        """Add an event of a block."""
        if place == self._open or self._native:
            self._open = place
            self._out.append(event)
            if self._waiting:
                self._advance()
        elif place[0] is BlockKind.TOOL_CALL and place in self._stopped:
            return
        elif self._waiting or not self._complete():
            self._wait(place, event, arguments)
        else:
            self._turn(place, arguments)
            self._out.append(event)

    def stop(self, place: Place) -> None:
        """The upstream says that a block is complete."""
        self._stopped.add(place)
        if place == self._open and self._waiting:
            self._advance()

    def flush(self) -> None:
        """End the open block and all waiting ones: nothing more will come."""
        waiting, self._waiting = self._waiting, deque()
        self._places.clear()
        for place, arguments, events in waiting:
            self._turn(place, arguments)
            self._out += events
        self._close()

    def _close(self) -> None:
        if self._open is not None:
            kind, number = self._open
            self._open = self._arguments = None
            self._stopped.add((kind, number))
            self._out.append(BlockEnded(kind, number, self._choice))

    def _turn(self, place: Place, arguments: Arguments | None) -> None:
        """Open a block. Consecutive texts are one block for clients."""
        if self._open is None or place[0] is not BlockKind.TEXT or self._open[0] is not BlockKind.TEXT:
            self._close()
        self._open, self._arguments = place, arguments

    def _complete(self) -> bool:
        """Returns whether the open block may end here."""
        if self._open is None or self._open in self._stopped:
            return True
        if self._arguments is not None:
            return self._arguments.complete
        return not (self._stops and self._open[0] in _TEXTS)

    def _wait(self, place: Place, event: AnswerEvent, arguments: Arguments | None) -> None:
        keyed = self._stops or place[0] is BlockKind.TOOL_CALL
        known = self._places.get(place)
        if known is not None and (keyed or self._waiting[-1][0] == place):
            known.append(event)
            return
        self._places[place] = events = [event]
        self._waiting.append((place, arguments, events))

    def _advance(self) -> None:
        """Render waiting events, up to an incomplete block."""
        while self._waiting and self._complete():
            place, arguments, events = self._waiting.popleft()
            if self._places.get(place) is events:
                del self._places[place]
            self._turn(place, arguments)
            self._out += events


class _Choice:
    """One choice so far."""

    def __init__(self, index: int, state: "AnswerState") -> None:
        self.index = index
        self.shown = state.all_choices or index == 0
        """Whether its events go to the client."""
        self.calls = CallBook(f"{state.order.answer_id}/{index}")
        self.blocks = BlockSequence(index, state)
        self.word = ""
        """The upstream's finish word, once it ended."""
        self.stop_sequence: str | None = None
        self.produced = False
        """Whether it produced something that a client can use."""
        self._native = state.native
        self._tally = state.tally
        self._naming: ToolCallBegan | None = None
        """A call without arguments so far, whose name may come in pieces."""
        self._names_grow = not (state.native or state.stops)
        self._reasoned = 0
        """How many blocks of reasoning ended with a seal: what follows is another block."""

    @property
    def reason(self) -> str:
        """Returns the finish_reason. Native clients get a word of chat completions unchanged."""
        tools = bool(self.calls)
        if self._native and self.word in REASONS and not (tools and self.word == "stop"):
            return self.word
        return finish_reason(self.word, tools=tools)

    def take(self, part: AnswerPart) -> None:
        """Take a part. Raises ValueError if it makes no sense."""
        if isinstance(part, ToolCallPart):
            self._call(part)
        else:
            self.settle_name()
            self._take_other(part)

    def _take_other(self, part: AnswerPart) -> None:
        put = self.blocks.put
        match part:
            case TextPiece():
                put((BlockKind.TEXT, part.block), self._counted(part))
            case ReasoningPiece():
                put((BlockKind.REASONING, part.block or self._reasoned), self._counted(part))
            case RefusalPiece():
                put((BlockKind.REFUSAL, 0), self._counted(part))
            case ReasoningSeal():
                self._seal(part)
            case Medium():
                self.produced = True
                self._tally.tool()
                put((BlockKind.MEDIUM, 0), part)
            case Citation():
                put((BlockKind.TEXT, part.block), part)
            case BlockStop():
                self.blocks.stop((part.kind, self._number(part)))
            case StopWord():
                self.word = self.word or part.word
                self.stop_sequence = self.stop_sequence or part.stop_sequence

    def _counted(self, part: TextPiece | ReasoningPiece | RefusalPiece) -> AnswerEvent:
        self.produced = True
        self._tally.add(rawjson.text(part.piece))
        return part

    def _number(self, part: BlockStop) -> int:
        """Returns the number of a block; for a tool call, its number among the calls."""
        return self.calls.number_at(part.block) if part.kind is BlockKind.TOOL_CALL else part.block

    def _call(self, part: ToolCallPart) -> None:
        placed = self.calls.place(part)
        if placed is None:
            return
        call, number = placed.call, placed.call.number
        if placed.opened:
            self.settle_name()
            self.produced = True
            self._tally.tool()
            self._tally.add(call.name)
            if part.signature:
                seal = Seal(SealKind.GEMINI, rawjson.encode({call.id: part.signature}))
                self._seal(ReasoningSeal(seal, self.index))
            self._naming = ToolCallBegan(number, call.id, call.name, part.custom, part.signature, self.index)
        if self._naming is not None and self._naming.number == number and (placed.piece or not self._names_grow):
            self.settle_name()
        if placed.piece:
            self._tally.add(rawjson.text(placed.piece))
            more = ArgumentsPiece(number, placed.piece, self.index)
            self.blocks.put((BlockKind.TOOL_CALL, number), more, call.arguments)

    def settle_name(self) -> None:
        """Begin the call that waits for more of its name, if there is one."""
        began, self._naming = self._naming, None
        if began is not None:
            call = self.calls.calls[began.number]
            began = msgspec.structs.replace(began, name=call.name)
            self.blocks.put((BlockKind.TOOL_CALL, began.number), began, call.arguments)

    def _seal(self, part: ReasoningSeal) -> None:
        """Take the seal of the preceding reasoning, or of none; the block ends with it."""
        place = (BlockKind.REASONING, part.block or self._reasoned)
        self.blocks.put(place, part)
        self.blocks.stop(place)
        self._reasoned += 1


class AnswerState:
    """One answer. ``take`` returns the events of each part, ``conclude`` those of its end."""

    def __init__(self, order: Order, *, all_choices: bool = False, native: bool = False, stops: bool = False) -> None:
        """``all_choices`` and ``native``: see ``Renderer``. ``stops``: the upstream says when a block is complete."""
        self.order = order
        self.all_choices = all_choices
        self.native = native
        self.stops = stops
        self.out: list[AnswerEvent] = []
        """Events not returned yet. Choices append to this list and keep no reference to the state, because a cycle
        would keep the answer in memory until the garbage collector runs."""
        self._choices: dict[int, _Choice] = {}
        self._marks: dict[str, None] = {}
        self.reports = UsageReports(order.fields)
        self.tally = OutputCounter()
        self.upstream_id = ""
        self.began = False
        """Whether there was something for the client."""
        self.broken = ""
        """The finish word that means a failure, if the answer ended with one."""
        self.garbled = 0
        """How many events could not be read."""

    @property
    def reported(self) -> Usage | None:
        """Usage as the upstream reported it so far."""
        return self.reports.usage(self.tally)

    @property
    def empty(self) -> bool:
        """Returns whether nothing came that a client can use, even if a tool call began."""
        choices = self._choices.values()
        return any(choice.calls.nameless for choice in choices) and not any(choice.produced for choice in choices)

    @property
    def unfinished(self) -> list[int]:
        """Returns the choices that began and did not end."""
        return [index for index, choice in self._choices.items() if not choice.word]

    @property
    def complete(self) -> bool:
        """Returns whether every choice has ended."""
        return bool(self._choices) and not self.unfinished

    @property
    def finish(self) -> str:
        """finish_reason of the first choice, or empty."""
        return next((choice.reason for choice in self._choices.values() if choice.word), "")

    @property
    def marks(self) -> tuple[str, ...]:
        """Peculiarities for the record."""
        bad = (f"bad_chunks={self.garbled}",) if self.garbled else ()
        nameless = ("nameless_call",) if any(choice.calls.nameless for choice in self._choices.values()) else ()
        return tuple(dict.fromkeys((*self._marks, *bad, *nameless, *self.reports.marks)))

    @property
    def in_text(self) -> bool:
        """Returns whether more text of the first choice can be rendered at once."""
        choice = self._choices.get(0)
        return choice is not None and choice.blocks.in_text

    def reason(self, index: int) -> str:
        """Returns the finish_reason of a choice, or empty."""
        choice = self._choices.get(index)
        return "" if choice is None or not choice.word else choice.reason

    def last_call(self, index: int) -> BookedCall | None:
        """Returns the tool call that a choice's last piece belongs to; None if it belongs to none yet."""
        return self._choices[index].calls.last

    def note(self, mark: str) -> None:
        """Add a mark for the record."""
        self._marks[mark] = None

    def take(self, part: AnswerPart) -> list[AnswerEvent]:
        """Returns the events for a part. Raises ValueError if it makes no sense."""
        if isinstance(part, UsageSeen):
            self.reports.see(part.fields, final=part.final)
        elif isinstance(part, UpstreamNamed):
            if not self.upstream_id and not self.order.screen.has_secret(part.id):
                self.upstream_id = part.id
            if part.began:
                self._begun_choice(part.choice)
        elif isinstance(part, AnswerMark):
            self.note(part.mark)
        else:
            choice = self._begun_choice(part.choice)
            meaning = meaning_of(part.word) if isinstance(part, StopWord) else "stop"
            if not meaning:
                self.note("unknown_finish_reason")  # the word is the upstream's: it may contain anything
            if isinstance(part, StopWord) and meaning == "broken":
                self.broken = part.word
            elif isinstance(part, ToolCallPart) and choice.calls.full:
                self.broken = TOO_MANY
            else:
                count = len(self.out)
                choice.take(part)
                if not choice.shown:
                    del self.out[count:]
        return _take_all(self.out)

    def count_texts(self, texts: list[bytes]) -> bool:
        """Count pieces that are rendered unchanged. Returns False if one of them is not a JSON string."""
        try:
            self.tally.add("".join(rawjson.value(b"[%b]" % b",".join(texts))))
        except (ValueError, TypeError):
            return False
        return True

    def conclude(self, default: str = "") -> list[AnswerEvent]:
        """Returns the events of the end. Choices that have not ended do so with the ``default`` word."""
        for choice in self._choices.values():
            choice.word = choice.word or default
            if choice.shown:
                choice.settle_name()
                choice.blocks.flush()
                if choice.word:
                    self.out.append(AnswerFinished(choice.reason, choice.stop_sequence, choice.index))
        return _take_all(self.out)

    def _begun_choice(self, index: int) -> _Choice:
        if not self.began:
            self.began = True
            self.out.append(AnswerBegan(self.upstream_id or self.order.answer_id, self.reported))
        choice = self._choices.get(index)
        if choice is None:
            choice = self._choices[index] = _Choice(index, self)
        return choice


def _take_all(events: list[AnswerEvent]) -> list[AnswerEvent]:
    taken = events.copy()
    events.clear()
    return taken
