"""Renderer: writes an answer as an API's clients read it. Each API has one for streams and one for whole answers."""

from typing import Any, Protocol

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import (
    AnswerBegan,
    AnswerEvent,
    AnswerFinished,
    ArgumentsPiece,
    BlockEnded,
    BlockKind,
    Citation,
    Medium,
    ReasoningPiece,
    ReasoningSeal,
    RefusalPiece,
    Seal,
    TextPiece,
    ToolCallBegan,
    join_strings,
)
from gateway.domain.order import Order
from gateway.domain.transcript import object_of
from gateway.domain.usage import Usage


class Renderer(Protocol):
    """Writes one answer. Streams are written piece by piece, whole answers at the end."""

    all_choices: bool = False
    """Whether clients get all choices instead of the first one only."""
    native: bool = False
    """Whether clients know the upstream's words, and keep pieces of different blocks apart."""
    sounds: bool = False
    """Whether clients can get sounds, beside images."""
    held: int = 0
    """How many bytes are kept for the end."""

    @property
    def fault(self) -> str:
        """Returns why the client cannot use a complete answer; empty if it can."""
        return ""

    def shows(self, event: Medium | Citation) -> bool:
        """Returns whether clients can get this medium or citation."""
        if isinstance(event, Citation) or event.is_image:
            return True
        return self.sounds and event.type.startswith("audio") and bool(event.data)

    def take(self, event: AnswerEvent) -> bytes:
        """Returns what the client gets at once for an event; the rest comes with ``tail``."""

    def take_texts(self, pieces: list[bytes]) -> bytes:
        """Returns what the client gets for pieces of text, JSON strings, in the middle of a block."""
        return b"".join([self.take(TextPiece(piece)) for piece in pieces])

    def tail(self, usage: Usage, *, estimated: bool) -> bytes:
        """Returns the end of the answer, with the totals, which is sent once the call is recorded."""


class WholeBlock(msgspec.Struct):
    """A block of a whole answer."""

    choice: int
    kind: BlockKind = BlockKind.TEXT
    pieces: list[bytes] = []
    """The pieces of its text or its arguments, JSON strings."""
    call: ToolCallBegan | None = None
    media: list[Medium] = []
    seal: Seal | None = None
    citations: list[Citation] = []
    logprobs: list[bytes] = []
    """JSON arrays."""

    @property
    def text(self) -> msgspec.Raw:
        """Returns the text or the arguments, a JSON string."""
        return msgspec.Raw(join_strings(self.pieces))

    @property
    def arguments(self) -> Any:
        """Returns the arguments as an object on one line. Anything else becomes a text in an object."""
        text = rawjson.text(self.text)
        value = rawjson.maybe(text.encode("utf-8", "surrogatepass"))
        if not isinstance(value, dict):
            return object_of(text) if text.strip() else {}
        return msgspec.Raw(text.encode()) if text.isascii() and text.isprintable() else value


class WholeRenderer(Renderer):
    """Collects the blocks of a whole answer. A subclass writes them in ``tail``."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self.id = order.answer_id
        self.blocks: list[WholeBlock] = []
        self.finishes: dict[int, AnswerFinished] = {}
        """How the choices ended, by their index."""
        self._open: dict[int, WholeBlock] = {}

    def take(self, event: AnswerEvent) -> bytes:
        if isinstance(event, AnswerBegan):
            self.id = event.id
            return b""
        block = self._open.setdefault(event.choice, WholeBlock(event.choice))
        match event:
            case TextPiece() | RefusalPiece() | ReasoningPiece() | ArgumentsPiece():
                block.pieces.append(event.piece)
                if isinstance(event, TextPiece) and event.logprobs:
                    block.logprobs.append(event.logprobs)
            case ToolCallBegan():
                block.call = event
            case Medium():
                block.media.append(event)
            case ReasoningSeal():
                block.seal = event.seal
            case Citation():
                block.citations.append(event)
            case BlockEnded():
                block.kind = event.kind
                self.blocks.append(self._open.pop(event.choice))
            case AnswerFinished():
                self.finishes[event.choice] = event
        return b""

    def text(self, *kinds: BlockKind, choice: int = 0) -> msgspec.Raw | None:
        """Returns the text of all blocks of these kinds, a JSON string; None if it has no pieces."""
        blocks = [block for block in self.blocks if block.kind in kinds and block.choice == choice]
        pieces = [piece for block in blocks for piece in block.pieces]
        return msgspec.Raw(join_strings(pieces)) if pieces else None
