"""Conversation: what a client sends to a model through any API: turns of blocks, tools, and a tool choice.

An inbound API parses a request into a ``Conversation``, and a dialect writes it for its upstream. The parameters of the
request are not part of it: they stay raw in ``Order.fields``, named as in chat completions.

Texts stay undecoded JSON strings, because only the model reads them, and this preserves their escapes.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import SealKind
from gateway.domain.rawjson import NULL


class TextPart(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A text in a turn or in a tool's result."""

    raw: msgspec.Raw
    """The text as a JSON string."""
    cache: msgspec.Raw = NULL
    """Anthropic's breakpoint of the prompt cache, or null."""
    is_refusal: bool = False

    @property
    def blank(self) -> bool:
        """Returns whether the text has only whitespace, which some vendors reject. Above 8 KiB it is not examined."""
        return len(memoryview(self.raw)) <= 8 << 10 and not rawjson.text(self.raw).strip()


class MediaPart(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An image, a sound or a document, as base64 or as a URL."""

    type: str = ""
    """The media type in lower case; empty if there is only a URL."""
    data: str = ""
    """The content as base64; empty if there is only a URL."""
    url: str = ""
    name: str = ""
    detail: str = ""
    """How closely an image is examined, in OpenAI's words; empty if not set."""
    cache: msgspec.Raw = NULL
    param: str
    """Its place in the client's request, for errors."""


class CallPart(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A tool call that the model made."""

    id: str
    name: str
    arguments: msgspec.Raw
    """A JSON object."""
    signature: str = ""
    """Google's thought signature, as the client sent it back."""


class ResultPart(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a tool returned."""

    call_id: str
    """The id of the call; empty if the client sends none (see ``transcript``)."""
    name: str = ""
    """The name of the called function, if known."""
    parts: tuple[TextPart | MediaPart, ...] = ()
    failed: bool = False
    """Whether the client marked the tool as failed."""


class ThoughtPart(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Reasoning that the client sent back."""

    text: msgspec.Raw = NULL
    """The reasoning as a JSON string, or null if it is not readable."""
    signed: tuple[msgspec.Raw, ...] = ()
    """Anthropic's thinking blocks, which only that vendor may get."""
    maker: SealKind | None = None
    """The vendor that sealed it; None if unknown."""
    name: str
    """Its name in the client's request, for a report that it was left out."""

    @property
    def empty(self) -> bool:
        return bytes(self.text) == b'""' and not self.signed


Block = TextPart | MediaPart | CallPart | ResultPart | ThoughtPart


class Turn(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A turn of one side. Only turns of ``assistant`` have calls and thoughts."""

    role: str
    """``system``, ``user``, ``assistant``, or ``tool`` for a turn with nothing but the results of a turn's calls."""
    blocks: tuple[Block, ...] = ()

    @property
    def calls(self) -> list[CallPart]:
        return [block for block in self.blocks if isinstance(block, CallPart)]

    @property
    def thoughts(self) -> list[ThoughtPart]:
        return [block for block in self.blocks if isinstance(block, ThoughtPart)]

    @property
    def parts(self) -> list[TextPart | MediaPart]:
        """Returns its parts that are neither calls nor thoughts."""
        return [block for block in self.blocks if isinstance(block, TextPart | MediaPart)]


class ToolOffer(msgspec.Struct, frozen=True, kw_only=True):
    """A function that the model may call."""

    name: str
    description: str = ""
    parameters: msgspec.Raw = NULL
    """JSON Schema of its arguments, or null."""
    strict: bool | None = None
    cache: msgspec.Raw = NULL
    param: str = "tools"
    """The client's name of the parameters."""


def object_schema(required: list[str], **properties: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the JSON schema of an object with these properties."""
    return {"type": "object", "properties": properties, "required": required}


class ToolChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The tools that the model may or must call."""

    mode: str = ""
    """``auto``, ``none``, ``required`` or ``named``; empty if not set."""
    name: str = ""
    """The function that must be called, if the mode is ``named``."""
    allowed: tuple[str, ...] | None = None
    """The only tools that may be called; None if all may."""
    param: str = "tool_choice"
    """The name of the client's parameter, for errors."""

    @property
    def forced(self) -> bool:
        return self.mode in {"required", "named"}


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """What the model reads."""

    turns: tuple[Turn, ...]
    """The turns. Each with tool calls is followed by one of role ``tool`` with their results, in order."""
    tools: tuple[ToolOffer, ...] = ()
    choice: ToolChoice = ToolChoice()
    param_names: Mapping[str, str] = {}
    """Maps a chat completion's parameter names to different ones in the client's API; to empty if it lacks one."""
    extras: tuple[str, ...] = ()
    """Names of the client's parameters and items that exist only in its own API."""

    @property
    def allowed_tools(self) -> tuple[ToolOffer, ...]:
        """Returns the tools that may be called, each name once, because some vendors reject duplicates."""
        allowed = None if self.choice.allowed is None else frozenset(self.choice.allowed)
        first_by_name = {tool.name: tool for tool in reversed(self.tools)}
        tools = [tool for tool in self.tools if first_by_name[tool.name] is tool]
        return tuple(tool for tool in tools if allowed is None or tool.name in allowed)

    @property
    def called_functions(self) -> list[str]:
        """Returns the names of functions called in earlier turns, each once."""
        return list(dict.fromkeys(call.name for turn in self.turns for call in turn.calls))

    @property
    def contents(self) -> list[TextPart | MediaPart]:
        """Returns all texts and media, including those in tool results."""
        blocks = [block for turn in self.turns for block in turn.blocks]
        inner = [part for block in blocks if isinstance(block, ResultPart) for part in block.parts]
        return [block for block in blocks if isinstance(block, TextPart | MediaPart)] + inner

    def dropped_reasoning(self, reads: Callable[[ThoughtPart], bool]) -> list[str]:
        """Returns the client's names for the reasoning that an upstream does not accept, each once."""
        thoughts = [thought for turn in self.turns for thought in turn.thoughts]
        return list(dict.fromkeys(thought.name for thought in thoughts if not reads(thought)))

    def without_signatures(self) -> "Conversation":
        """Returns the conversation with thoughts that no vendor has signed."""

        def without_signature(block: Block) -> Block:
            return msgspec.structs.replace(block, signed=()) if isinstance(block, ThoughtPart) else block

        turns = [
            msgspec.structs.replace(turn, blocks=tuple(map(without_signature, turn.blocks))) for turn in self.turns
        ]
        return msgspec.structs.replace(self, turns=tuple(turns))

    @property
    def cached(self) -> bool:
        """Returns whether the client sets cache breakpoints."""
        return any(part.cache != NULL for part in (*self.contents, *self.tools))

    @property
    def size(self) -> int:
        """Returns the size of all texts, arguments and schemas in bytes."""
        texts = [part.raw for part in self.contents if isinstance(part, TextPart)]
        texts += [call.arguments for turn in self.turns for call in turn.calls]
        texts += [tool.parameters for tool in self.tools]
        return sum(len(memoryview(text)) for text in texts)


class KeptResponse(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A response that its client may continue or fetch again, and its request's input."""

    id: str
    previous: str
    """The id of the response that it continues; empty if none."""
    input: bytes
    """The new input of its request, as JSON values with commas between them."""
    elsewhere: bool = False
    """Whether its upstream may have it too, so that ``previous_response_id`` is passed on."""
    body: bytes
    """The response as it was sent."""
    items: Mapping[str, msgspec.Raw]
    """Its output items by id, in order. They are slices of ``body`` and take no memory of their own."""

    @property
    def size(self) -> int:
        """Returns the bytes that it takes in memory, about 1 KiB more than its content."""
        return len(self.input) + len(self.body) + 1024


def join_texts(texts: Iterable[msgspec.Raw], gap: bytes = rb"\n\n") -> msgspec.Raw:
    """Returns one JSON string made of several, without empty ones. ``gap``, escaped, is put between them."""
    parts = list(texts)
    if len(parts) == 1:
        return parts[0]
    contents = [bytes(text)[1:-1] for text in parts]
    return msgspec.Raw(b'"' + gap.join(filter(None, contents)) + b'"')
