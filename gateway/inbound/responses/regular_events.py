"""Regular events of a native response: nearly all of a vendor's events have content and nothing else.

Consecutive regular events are decoded together, and pass unchanged. An event with another field, or of another kind, is
decoded by itself.
"""

from typing import Literal, get_args

import msgspec

from gateway.domain.rawjson import NULL
from gateway.domain.sse import SMALL_NUMBER, PieceDecoder

_EventKind = Literal[
    "response.output_text.delta",
    "response.output_text.done",
    "response.refusal.delta",
    "response.refusal.done",
    "response.reasoning_text.delta",
    "response.reasoning_text.done",
    "response.reasoning.delta",
    "response.reasoning.done",
    "response.reasoning_summary_text.delta",
    "response.reasoning_summary_text.done",
    "response.function_call_arguments.delta",
    "response.function_call_arguments.done",
    "response.custom_tool_call_input.delta",
    "response.custom_tool_call_input.done",
    "response.code_interpreter_call_code.delta",
    "response.code_interpreter_call_code.done",
    "response.mcp_call_arguments.delta",
    "response.mcp_call_arguments.done",
    "response.content_part.added",
    "response.content_part.done",
    "response.reasoning_summary_part.added",
    "response.reasoning_summary_part.done",
]
"""The types of events with a piece or the whole of a text of the model, or with a part of an item."""
_KINDS = frozenset[str](get_args(_EventKind))
TEXT_KINDS = frozenset(kind for kind in _KINDS if "_part." not in kind)
"""The types of events with their content in a field of their own, and not in a part."""
PIECE_KINDS = frozenset(kind for kind in TEXT_KINDS if kind.endswith(".delta"))


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A part with its content, and nothing else."""

    type: Literal["output_text", "refusal", "reasoning_text", "summary_text"]
    text: msgspec.Raw = NULL
    refusal: msgspec.Raw = NULL
    annotations: msgspec.Raw = NULL
    logprobs: msgspec.Raw = NULL


class _Piece(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A regular event, with its content and the fields that the vendor writes beside it."""

    type: _EventKind
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


PIECES = PieceDecoder(_KINDS, _Piece)
