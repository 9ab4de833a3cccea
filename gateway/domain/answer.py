"""Events of an answer: what dialects read from their upstreams, and what renderers write for clients.

A dialect's reader turns what its upstream sends into *parts*: pieces of text, of reasoning and of tool calls, media,
citations, reports of usage, and the word it ended with. ``upstream.answer_state`` repairs them, keeps the counts of the
answer, and gives renderers *events* in one order: ``AnswerBegan``; the blocks one after another, each with its pieces
and ``BlockEnded``; ``AnswerFinished`` for each choice. A block is text, a refusal, reasoning, a tool call, or a medium.
A tool call begins with ``ToolCallBegan``; reasoning may end with a ``ReasoningSeal``, or consist of one.

Pieces of text are JSON strings as they came, with their quotes: they are copied into the client's JSON, so no escape
changes, not even lone surrogates. ``join_strings`` makes one JSON string of several.
"""

import base64
import binascii
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from gateway.domain.usage import Usage

Buffer = bytes | memoryview


class BlockKind(StrEnum):
    """What a block is."""

    TEXT = "text"
    REFUSAL = "refusal"
    REASONING = "reasoning"
    TOOL_CALL = "tool_call"
    MEDIUM = "medium"


class SealKind(StrEnum):
    """The vendor whose reasoning it is, which decides what the seal contains."""

    ANTHROPIC = "a"
    """A JSON array of ``thinking`` and ``redacted_thinking`` blocks."""
    GEMINI = "g"
    """A JSON object of thought signatures by the ids of the tool calls that they belong to."""
    OPENAI = "o"
    """A reasoning item of Responses."""
    COMPACTION = "c"
    """A JSON string: the summary that stands for a conversation."""
    PLAIN = "p"
    """Nothing: the text is everything."""


class Seal(msgspec.Struct, frozen=True):
    """What a vendor wants back with its reasoning.

    A client's API has a field for it. A seal of ours is ``tk1.``, a letter for the vendor, and for all but plain
    reasoning a point and base64, for example ``tk1.g.eyJ…``. The gateway keeps nothing: a client that sends its whole
    history sends the seals back. A value without the prefix was made by the vendor of the client's own API, and only
    means something there. Nothing in a seal is secret or trusted.
    """

    kind: SealKind
    content: bytes = b""
    """JSON."""


PLAIN_SEAL = Seal(SealKind.PLAIN)
SEAL_PREFIX = "tk1."


def wrap(seal: Seal) -> str:
    """Returns the seal as a client keeps it."""
    if not seal.content:
        return SEAL_PREFIX + seal.kind
    return f"{SEAL_PREFIX}{seal.kind}.{base64.b64encode(seal.content).decode()}"


def unwrap(text: str) -> Seal | None:
    """Returns the seal; None if it was not made here, or is damaged."""
    if not text.startswith(SEAL_PREFIX):
        return None
    kind, _, content = text[len(SEAL_PREFIX) :].partition(".")
    try:
        return Seal(SealKind(kind), base64.b64decode(content, validate=True))
    except (ValueError, binascii.Error):
        return None


class TextPiece(msgspec.Struct, frozen=True, gc=False):
    """More of the text."""

    piece: bytes
    logprobs: bytes = b""
    """JSON array of the probabilities of its tokens, if they were requested."""
    choice: int = 0
    block: int = 0
    """In a part: the upstream's number of its block."""


class RefusalPiece(msgspec.Struct, frozen=True, gc=False):
    """More of the refusal."""

    piece: bytes
    choice: int = 0


class ReasoningPiece(msgspec.Struct, frozen=True, gc=False):
    """More of the reasoning."""

    piece: bytes
    choice: int = 0
    block: int = 0


class ReasoningSeal(msgspec.Struct, frozen=True, gc=False):
    """What the vendor wants back with this block's reasoning, which ends with it."""

    seal: Seal
    choice: int = 0
    block: int = 0


class Medium(msgspec.Struct, frozen=True, gc=False):
    """A whole image or sound that the model made."""

    type: str
    """Its type, such as ``image/png``; for an address ``image`` or ``audio``."""
    data: str = ""
    """Base64."""
    url: str = ""
    """Its address, if the answer does not contain it."""
    choice: int = 0

    @property
    def is_image(self) -> bool:
        """Returns whether it is an image."""
        return self.type.startswith("image")

    @property
    def link(self) -> str:
        """Returns the address, or a data URL."""
        return self.url or f"data:{self.type};base64,{self.data}"


class Citation(msgspec.Struct, frozen=True, gc=False):
    """A source for the preceding text."""

    url: str
    title: str = ""
    cited: str = ""
    """The quoted words of the source."""
    start: int | None = None
    """Where the supported part of the answer's text begins, in characters."""
    end: int | None = None
    choice: int = 0
    block: int = 0


class ToolCallPart(msgspec.Struct, frozen=True, gc=False):
    """A piece of a tool call, or a whole one, as the upstream sent it. Its call is still to be found."""

    index: int | None = None
    """The upstream's number of the call, which may be wrong."""
    id: str = ""
    name: str = ""
    piece: bytes = b""
    """More of its arguments, which are JSON in a JSON string."""
    custom: bool = False
    """Its input is text, and not the JSON of arguments."""
    signature: str = ""
    """Google's signature of the thoughts before the call."""
    choice: int = 0


class BlockStop(msgspec.Struct, frozen=True, gc=False):
    """The upstream says that a block is complete."""

    kind: BlockKind
    block: int
    choice: int = 0


class UsageSeen(msgspec.Struct, frozen=True, gc=False):
    """A report of usage: fields of an answer or chunk, as ``usage_report`` reads them."""

    fields: dict[str, msgspec.Raw]
    final: bool = True
    """False: the output counts only from the next report on."""


class UpstreamNamed(msgspec.Struct, frozen=True, gc=False):
    """The answer's id at the upstream."""

    id: str
    began: bool = True
    """Whether the answer began with it, even if no content came yet."""
    choice: int = 0
    """The choice that began."""


class StopWord(msgspec.Struct, frozen=True, gc=False):
    """A choice ended with this word of the upstream."""

    word: str
    choice: int = 0
    stop_sequence: str | None = None


class AnswerMark(msgspec.Struct, frozen=True, gc=False):
    """A mark for the record."""

    mark: str


class AnswerBegan(msgspec.Struct, frozen=True, gc=False):
    """The first event."""

    id: str
    """The upstream's id, else the order's."""
    usage: Usage | None = None
    """The usage reported so far; its input counts."""


class ToolCallBegan(msgspec.Struct, frozen=True, gc=False):
    """The first event of a tool call."""

    number: int
    """Its number among the tool calls, from 0."""
    id: str
    name: str
    custom: bool = False
    """Its input is text, and not the JSON of arguments."""
    signature: str = ""
    choice: int = 0


class ArgumentsPiece(msgspec.Struct, frozen=True, gc=False):
    """More of a tool call's arguments, which are JSON in a JSON string."""

    number: int
    piece: bytes
    choice: int = 0


class BlockEnded(msgspec.Struct, frozen=True, gc=False):
    """The open block is complete, or as complete as it will be."""

    kind: BlockKind
    number: int = 0
    """The number of a tool call."""
    choice: int = 0


class AnswerFinished(msgspec.Struct, frozen=True, gc=False):
    """Why a choice ended: a ``finish_reason`` of chat completions."""

    reason: str
    stop_sequence: str | None = None
    """The stop sequence that was hit, if the upstream reports it."""
    choice: int = 0


AnswerPart = (
    UpstreamNamed
    | TextPiece
    | RefusalPiece
    | ReasoningPiece
    | ReasoningSeal
    | ToolCallPart
    | Medium
    | Citation
    | BlockStop
    | UsageSeen
    | StopWord
    | AnswerMark
)
"""What readers return."""

AnswerEvent = (
    AnswerBegan
    | TextPiece
    | RefusalPiece
    | ReasoningPiece
    | ReasoningSeal
    | ToolCallBegan
    | ArgumentsPiece
    | Medium
    | Citation
    | BlockEnded
    | AnswerFinished
)
"""What renderers take."""


def join_strings(pieces: list[bytes]) -> bytes:
    """Returns one JSON string made of several; an empty one without any."""
    if len(pieces) == 1:
        return pieces[0]
    return b'"' + b"".join([piece[1:-1] for piece in pieces]) + b'"'


def url_citation(annotation: Any) -> Citation | None:
    """Returns the citation in a ``url_citation`` annotation of chat completions or Responses; None for
    anything else.
    """
    if not isinstance(annotation, dict):
        return None
    inner = annotation.get("url_citation", annotation)
    if not isinstance(inner, dict) or not isinstance(inner.get("url"), str):
        return None
    places = (inner.get("start_index"), inner.get("end_index"))
    start, end = (place if type(place) is int else None for place in places)
    title, cited = (inner.get(name) for name in ("title", "content"))
    return Citation(
        inner["url"],
        title if isinstance(title, str) else "",
        cited if isinstance(cited, str) else "",
        start,
        end,
    )


class AnswerForm(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a client's answer takes from its request, beside the fields that go to upstreams."""

    compacts: bool = False
    """Whether the answer is a summary that stands for the conversation."""
    repeats: Mapping[str, msgspec.Raw] = {}
    """Fields that the answer repeats. Those in ``Order.fields`` with the same names do not count."""
    image_objects: bool = False
    """Ollama's Python client takes an image of a message as ``{"value": ...}``, others as a text."""


DEFAULT_FORM = AnswerForm()
