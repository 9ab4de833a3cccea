"""Regular events of a native response: nearly all of a vendor's events have content and nothing else.

Consecutive regular events are decoded together, and pass unchanged. An event with another field, or of another kind, is
decoded by itself.
"""

from typing import Literal

import msgspec

from gateway.domain.rawjson import NULL
from gateway.domain.sse import SMALL_NUMBER, PieceDecoder

_TEXTS = (
    *("output_text", "refusal", "reasoning_text", "reasoning", "reasoning_summary_text", "function_call_arguments"),
    *("custom_tool_call_input", "code_interpreter_call_code", "mcp_call_arguments"),
)
_PARTS = ("content_part", "reasoning_summary_part")
TEXT_KINDS = frozenset(f"response.{name}.{step}" for name in _TEXTS for step in ("delta", "done"))
"""The types of events with a piece or the whole of a text of the model, in a field of their own."""
PIECE_KINDS = frozenset(kind for kind in TEXT_KINDS if kind.endswith(".delta"))
_PART_KINDS = frozenset(f"response.{name}.{step}" for name in _PARTS for step in ("added", "done"))
"""The types of events with a part of an item."""


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A part with its content, and nothing else."""

    type: Literal["output_text", "refusal", "reasoning_text", "summary_text"]
    text: msgspec.Raw = NULL
    refusal: msgspec.Raw = NULL
    annotations: msgspec.Raw = NULL
    logprobs: msgspec.Raw = NULL


class _Piece(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A regular event, with its content and the fields that the vendor writes beside it."""

    type: str
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


PIECES = PieceDecoder(TEXT_KINDS | _PART_KINDS, _Piece)
