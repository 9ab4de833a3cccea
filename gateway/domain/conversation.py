"""Conversation: what a client asks of a model, whichever API it speaks: turns of blocks, tools, and a choice of tools.

An API parses its requests into it, a dialect writes it. The parameters of a request are not in it: they stay raw, named
as chat completions name them, in ``Order.fields``.

Texts stay the JSON strings that they came as: nobody but the model reads them, and their escapes survive.
"""

import re
from collections.abc import Iterable, Mapping

import msgspec

from gateway.domain.rawjson import NULL

BLANK_LIMIT = 64 << 10
"""Bytes of a text that is looked through for anything but blanks; a longer one is taken for a text."""
_BLANK = re.compile(rb'"(?:[ ]|\\[nrt])*"')
_GAP = rb"\n\n"


class TextPart(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A text."""

    raw: msgspec.Raw
    """A JSON string."""
    cache: msgspec.Raw = NULL
    """Anthropic's breakpoint of the prompt cache, or null."""
    refusal: bool = False
    """The model refused in these words."""

    @property
    def blank(self) -> bool:
        """Whether it has nothing but blanks, which some vendors refuse."""
        return len(memoryview(self.raw)) <= BLANK_LIMIT and _BLANK.fullmatch(bytes(self.raw)) is not None


class MediaPart(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An image, a sound or a document: base64 text of a type, or the web address where it lies."""

    type: str = ""
    """Media type in lower case; empty with an address."""
    data: str = ""
    url: str = ""
    name: str = ""
    """Of a file."""
    detail: str = ""
    """How closely an image is looked at, in OpenAI's words; empty: not said."""
    cache: msgspec.Raw = NULL
    where: str
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
    """Of the call; empty: the client names none, see ``transcript``."""
    name: str = ""
    """Of the function that was called, where it is known."""
    parts: tuple[TextPart | MediaPart, ...] = ()
    failed: bool = False
    """The client marked the tool as failed."""


class ThoughtPart(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Reasoning that the client sent back."""

    text: msgspec.Raw = NULL
    """A JSON string for models that read it, or null."""
    signed: tuple[msgspec.Raw, ...] = ()
    """Anthropic's thinking blocks, which only that vendor may get."""


Block = TextPart | MediaPart | CallPart | ResultPart | ThoughtPart


class Turn(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one side said. Only ``assistant`` has calls and thoughts."""

    role: str
    """``system``, ``user``, ``assistant``, or ``tool`` for the results of one assistant's turn and nothing else."""
    blocks: tuple[Block, ...] = ()

    @property
    def calls(self) -> list[CallPart]:
        """The tool calls in it."""
        return [block for block in self.blocks if isinstance(block, CallPart)]

    @property
    def thoughts(self) -> list[ThoughtPart]:
        """The reasoning in it."""
        return [block for block in self.blocks if isinstance(block, ThoughtPart)]

    @property
    def parts(self) -> list[TextPart | MediaPart]:
        """What is neither a call nor a thought."""
        return [block for block in self.blocks if isinstance(block, TextPart | MediaPart)]


class ToolOffer(msgspec.Struct, frozen=True, kw_only=True):
    """A function that the model may call."""

    name: str
    description: str = ""
    parameters: msgspec.Raw = NULL
    """JSON Schema of its arguments, or null."""
    strict: bool | None = None
    cache: msgspec.Raw = NULL
    where: str = "tools"
    """Its place in the client's request, for errors."""


class ToolChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Which of the tools the model may or must call."""

    mode: str = ""
    """``auto``, ``none``, ``required`` or ``named``; empty: not said."""
    name: str = ""
    """The function that must be called, if ``named``."""
    allowed: tuple[str, ...] | None = None
    """Only these may be called; None: all."""
    param: str = "tool_choice"
    """Where the client asked for it."""

    @property
    def forced(self) -> bool:
        """Whether the model must call something."""
        return self.mode in {"required", "named"}


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """What the model reads."""

    turns: tuple[Turn, ...]
    """Each turn with calls is followed by one of role ``tool`` with their results, in their order."""
    tools: tuple[ToolOffer, ...] = ()
    choice: ToolChoice = ToolChoice()
    words: Mapping[str, str] = {}
    """The client's names of parameters, by those of chat completions, where they differ."""
    extras: tuple[str, ...] = ()
    """Names of what the client sent and only its own API knows."""
    marks: tuple[str, ...] = ()
    """For the record: what was repaired in the turns."""

    @property
    def allowed_tools(self) -> tuple[ToolOffer, ...]:
        """The tools that may be called."""
        allowed = self.choice.allowed
        return self.tools if allowed is None else tuple(tool for tool in self.tools if tool.name in allowed)

    @property
    def called(self) -> list[str]:
        """Names of the functions that were called in earlier turns, each once."""
        return list(dict.fromkeys(call.name for turn in self.turns for call in turn.calls))

    @property
    def contents(self) -> list[TextPart | MediaPart]:
        """All texts and media, also those of results."""
        blocks = [block for turn in self.turns for block in turn.blocks]
        inner = [part for block in blocks if isinstance(block, ResultPart) for part in block.parts]
        return [block for block in blocks if isinstance(block, TextPart | MediaPart)] + inner

    @property
    def cached(self) -> bool:
        """Whether the client marks where the prompt cache ends."""
        return any(part.cache != NULL for part in (*self.contents, *self.tools))

    @property
    def size(self) -> int:
        """Bytes of texts, arguments and schemas."""
        texts = [part.raw for part in self.contents if isinstance(part, TextPart)]
        texts += [call.arguments for turn in self.turns for call in turn.calls]
        texts += [tool.parameters for tool in self.tools]
        return sum(len(memoryview(text)) for text in texts)


def join_texts(texts: Iterable[msgspec.Raw], gap: bytes = _GAP) -> msgspec.Raw:
    """One JSON string of several without decoding them, empty ones left out; ``gap`` is escaped as in JSON."""
    given = list(texts)
    if len(given) == 1:
        return given[0]
    inner = [bytes(text)[1:-1] for text in given]
    return msgspec.Raw(b'"' + gap.join(filter(None, inner)) + b'"')
