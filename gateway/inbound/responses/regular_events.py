"""Regular events of a native response: nearly all of a vendor's events have content and nothing else.

Consecutive regular events are decoded together, and pass unchanged. An event with another field, or of another kind, is
decoded by itself.
"""

from enum import StrEnum

import msgspec

from gateway.domain.rawjson import NULL
from gateway.domain.sse import SMALL_NUMBER, PieceDecoder


class EventKind(StrEnum):
    """The types of events with a piece or the whole of a text of the model, or with a part of an item."""

    TEXT = "response.output_text.delta"
    TEXT_DONE = "response.output_text.done"
    REFUSAL = "response.refusal.delta"
    REFUSAL_DONE = "response.refusal.done"
    REASONING = "response.reasoning_text.delta"
    REASONING_DONE = "response.reasoning_text.done"
    STANDARD_REASONING = "response.reasoning.delta"
    STANDARD_REASONING_DONE = "response.reasoning.done"
    SUMMARY = "response.reasoning_summary_text.delta"
    SUMMARY_DONE = "response.reasoning_summary_text.done"
    ARGUMENTS = "response.function_call_arguments.delta"
    ARGUMENTS_DONE = "response.function_call_arguments.done"
    TOOL_INPUT = "response.custom_tool_call_input.delta"
    TOOL_INPUT_DONE = "response.custom_tool_call_input.done"
    CODE = "response.code_interpreter_call_code.delta"
    CODE_DONE = "response.code_interpreter_call_code.done"
    MCP_ARGUMENTS = "response.mcp_call_arguments.delta"
    MCP_ARGUMENTS_DONE = "response.mcp_call_arguments.done"
    PART = "response.content_part.added"
    PART_DONE = "response.content_part.done"
    SUMMARY_PART = "response.reasoning_summary_part.added"
    SUMMARY_PART_DONE = "response.reasoning_summary_part.done"


class PartKind(StrEnum):
    """The types of an item's parts."""

    TEXT = "output_text"
    REFUSAL = "refusal"
    REASONING = "reasoning_text"
    SUMMARY = "summary_text"


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A part with its content, and nothing else."""

    type: PartKind
    text: msgspec.Raw = NULL
    refusal: msgspec.Raw = NULL
    annotations: msgspec.Raw = NULL
    logprobs: msgspec.Raw = NULL


class _Piece(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A regular event, with its content and the fields that the vendor writes beside it."""

    type: EventKind
    delta: str = ""
    sequence_number: SMALL_NUMBER | None = None
    item_id: str = ""
    output_index: SMALL_NUMBER = 0
    content_index: SMALL_NUMBER = 0
    summary_index: SMALL_NUMBER = 0
    logprobs: msgspec.Raw = NULL
    obfuscation: str = ""
    text: msgspec.Raw = NULL
    refusal: msgspec.Raw = NULL
    name: msgspec.Raw = NULL
    arguments: msgspec.Raw = NULL
    input: msgspec.Raw = NULL
    code: msgspec.Raw = NULL
    part: _Part | None = None


PIECES = PieceDecoder(EventKind, _Piece)
PIECE_KINDS = frozenset(kind for kind in EventKind if kind.endswith(".delta"))
TEXT_KINDS = frozenset(kind for kind in EventKind if "_part." not in kind)
"""The types of events with their content in a field of their own, and not in a part."""
