"""Events of an answer: what dialects read from their upstreams, and what renderers write for clients.

The reader of a dialect turns what its upstream sends into *parts*: pieces of text, of reasoning and of tool calls,
media, citations, usage reports, and the word that ended the answer. ``upstream.answer_state`` repairs them,
counts, and gives renderers *events* in a fixed order: ``AnswerBegan``; the blocks one after another, each with its
pieces and ``BlockEnded``; ``AnswerFinished`` for each choice. A block is text, a refusal, reasoning, a tool call, or a
medium. A tool call begins with ``ToolCallBegan``; reasoning may end with a ``Seal``, or consist of one.

Pieces of text are JSON strings as they were received, with their quotes. They are copied into the client's JSON, so no
escape changes, not even lone surrogates. ``join_strings`` makes one JSON string of several.
"""

import base64
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.usage import Usage

Buffer = bytes | memoryview


class BlockKind(StrEnum):
    """What a block contains."""

    TEXT = "text"
    REFUSAL = "refusal"
    REASONING = "reasoning"
    TOOL_CALL = "tool_call"
    MEDIUM = "medium"


class SealKind(StrEnum):
    """The vendor that made the reasoning, which decides what the seal contains."""

    ANTHROPIC = "a"
    """A JSON array of ``thinking`` and ``redacted_thinking`` blocks."""
    GEMINI = "g"
    """A JSON object of thought signatures by the ids of the tool calls that they belong to."""
    COMPACTION = "c"
    """A JSON string: the summary that stands for a conversation."""
    PLAIN = "p"
    """Nothing, because the vendor needs only the text of the reasoning."""


class Seal(msgspec.Struct, frozen=True):
    """What a vendor must get back with its reasoning in the next request.

    The client keeps it in a field that its API has for such values, and sends it back with the history; the gateway
    stores nothing. There it has the form ``tk1.g.eyJ…``: a prefix, a letter for the vendor, and, except for plain
    reasoning, a point and base64. A value without the prefix was made by the vendor of the client's own API, and has a
    meaning only there. Nothing in a seal is secret or trusted.
    """

    kind: SealKind
    content: bytes = b""
    """JSON, as described in ``SealKind``."""
    choice: int = 0
    block: int = 0
    """In a part, the upstream's number of the block of reasoning that it ends."""


PLAIN_SEAL = Seal(SealKind.PLAIN)
SEAL_PREFIX = "tk1."


def seal_text(seal: Seal) -> str:
    """Returns the text that a client keeps for a seal."""
    if not seal.content:
        return SEAL_PREFIX + seal.kind
    return f"{SEAL_PREFIX}{seal.kind}.{base64.b64encode(seal.content).decode()}"


def parse_seal(text: str) -> Seal | None:
    """Returns the seal in a text; None if it was not made by this program, or is damaged."""
    if not text.startswith(SEAL_PREFIX):
        return None
    kind, _, content = text[len(SEAL_PREFIX) :].partition(".")
    try:
        return Seal(SealKind(kind), base64.b64decode(content, validate=True))
    except ValueError:
        return None


class Piece(msgspec.Struct, frozen=True, gc=False):
    """More of a text, a refusal, the reasoning, or, in an event, of a tool call's arguments."""

    kind: BlockKind
    piece: bytes
    """A JSON string. Arguments are JSON in it."""
    number: int = 0
    """The number of the tool call; in a part, the upstream's number of the block."""
    choice: int = 0
    logprobs: bytes = b""
    """JSON array of the probabilities of a text's tokens, if they were requested."""


class Medium(msgspec.Struct, frozen=True, gc=False):
    """A whole image or sound that the model made."""

    type: str
    """The media type, such as ``image/png``; ``image`` or ``audio`` if only its URL is known."""
    data: str = ""
    """The content as base64; empty if only its URL is known."""
    url: str = ""
    """The URL of the content, if the answer does not contain it."""
    choice: int = 0

    @property
    def is_image(self) -> bool:
        return self.type.startswith("image")

    @property
    def link(self) -> str:
        """Returns the URL, or a data URL with the content."""
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
    """A piece of a tool call, or a whole one, as the upstream sent it. Pieces are not assigned to calls yet."""

    index: int | None = None
    """The upstream's number of the call, which may be wrong."""
    id: str = ""
    name: str = ""
    piece: bytes = b""
    """More of its arguments, which are JSON in a JSON string."""
    is_whole: bool = False
    """Whether the piece is all of the arguments, although pieces may have come before."""
    custom: bool = False
    """Whether its input is a text instead of JSON arguments."""
    signature: str = ""
    """Google's signature of the thoughts before the call."""
    choice: int = 0


class UsageSeen(msgspec.Struct, frozen=True, gc=False):
    """A usage report: fields of an answer or chunk, as ``usage_report`` reads them."""

    fields: dict[str, msgspec.Raw]
    final: bool = True
    """Whether its output tokens count; False if a later report has the right ones."""


class AnswerId(msgspec.Struct, frozen=True, gc=False):
    """The upstream's id of the answer."""

    id: str
    began: bool = True
    """Whether the answer begins with it, even if no content has arrived yet."""
    choice: int = 0


class AnswerMark(msgspec.Struct, frozen=True, gc=False):
    """A mark for the record of the call."""

    mark: str


class AnswerBegan(msgspec.Struct, frozen=True, gc=False):
    """The first event of an answer."""

    id: str
    """The upstream's id of the answer; if it sent none, the order's."""
    usage: Usage | None = None
    """The usage reported so far, whose input tokens are right."""


class ToolCallBegan(msgspec.Struct, frozen=True, gc=False):
    """The first event of a tool call."""

    number: int
    """Its number among the tool calls, from 0."""
    id: str
    name: str
    custom: bool = False
    """Whether its input is a text instead of JSON arguments."""
    signature: str = ""
    choice: int = 0


class BlockEnded(msgspec.Struct, frozen=True, gc=False):
    """The end of the open block, which is complete unless the answer was cut off; as a part, of any block."""

    kind: BlockKind
    number: int = 0
    """The number of the tool call, if it is one; in a part, the upstream's number of the block."""
    choice: int = 0


class AnswerFinished(msgspec.Struct, frozen=True, gc=False):
    """The end of a choice."""

    reason: str
    """A ``finish_reason`` of chat completions; in a part, the upstream's own word."""
    choice: int = 0
    stop_sequence: str | None = None
    """The stop sequence that was hit, if the upstream reports it."""


AnswerPart = (
    AnswerId | Piece | Seal | ToolCallPart | Medium | Citation | BlockEnded | UsageSeen | AnswerFinished | AnswerMark
)
"""What the readers of dialects return."""

AnswerEvent = AnswerBegan | Piece | Seal | ToolCallBegan | Medium | Citation | BlockEnded | AnswerFinished
"""What the renderers of APIs write."""


def join_strings(pieces: list[bytes]) -> bytes:
    """Returns one JSON string with the content of several; an empty string for no pieces."""
    if len(pieces) == 1:
        return pieces[0]
    return b"".join([b'"', *[memoryview(piece)[1:-1] for piece in pieces], b'"'])


def url_citation(annotation: Any) -> Citation | None:
    """Returns the citation in a ``url_citation`` of chat completions or Responses; None for anything else."""
    if not isinstance(annotation, dict):
        return None
    source = annotation.get("url_citation", annotation)
    if not isinstance(source, dict) or not isinstance(source.get("url"), str):
        return None
    indexes = (source.get("start_index"), source.get("end_index"))
    start, end = (index if type(index) is int else None for index in indexes)
    return Citation(
        source["url"],
        title=rawjson.text_at(source, "title"),
        cited=rawjson.text_at(source, "content"),
        start=start,
        end=end,
    )


class AnswerForm(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a request says about the form of its answer, apart from the fields that go to upstreams."""

    compacts: bool = False
    """Whether the answer is a summary that replaces the conversation."""
    repeats: Mapping[str, msgspec.Raw] = {}
    """Fields of the request that the answer repeats, instead of those with the same names in ``Order.fields``."""
    has_functions: bool = False
    """Whether the client offers ``functions``, not ``tools``, so that a chat completion has a ``function_call``."""
    muted: bool = False
    """Whether a Messages client wants no output. It gets none."""
    has_response: bool = False
    """Whether an Ollama client sent a prompt, so that lines have a ``response`` and not a ``message``."""
    image_objects: bool = False
    """Whether images are written as ``{"value": ...}``, for Ollama's Python client, instead of as strings."""
