"""Contents: a conversation as Gemini wants it: ``user`` and ``model`` in turn, the system's words apart.

Newer models refuse a function call that comes back without the thought signature it was made with. It is looked for
where Google's own compatible surface puts it, then among those kept here; a placeholder is the last resort.
"""

import base64
import re
from typing import Any

import msgspec

from gateway.domain.errors import BadRequest
from gateway.upstream.chat.names import Spelling
from gateway.upstream.chat.signatures import Signatures
from gateway.upstream.chat.turns import Call, Turn
from gateway.upstream.gemini.parts import Part, parts_of, result_parts
from gateway.upstream.gemini.rows import Row

TOOLS = Spelling(
    fit=re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}"), odd=re.compile(r"[^A-Za-z0-9_.:-]"), limit=64, first="_"
)
"""Names of functions."""

PLACEHOLDER = base64.b64encode(b"skip_thought_signature_validator").decode()
"""Google's documented way to replay a call that it did not sign."""

FILLER = "."
"""What the user says in a conversation of system messages alone."""


class Talk(msgspec.Struct, frozen=True, kw_only=True):
    """The conversation."""

    system: list[Part]
    contents: list[dict[str, Any]]


def talk(turns: list[Turn], signatures: Signatures, row: Row) -> Talk:
    """The conversation. Raises BadRequest for parts that the model does not take."""
    system: list[Part] = []
    contents: list[dict[str, Any]] = []
    for turn in turns:
        if turn.role == "system":
            system += parts_of(turn.parts, row)
            continue
        parts = _parts(turn, signatures, row)
        role = "model" if turn.role == "assistant" else "user"
        if parts and contents and contents[-1]["role"] == role:
            contents[-1]["parts"] += parts
        elif parts:
            contents.append({"role": role, "parts": parts})
    return Talk(system=system, contents=contents or [{"role": "user", "parts": [{"text": FILLER}]}])


def _parts(turn: Turn, signatures: Signatures, row: Row) -> list[Part]:
    if turn.role == "tool":
        if not turn.name:
            where = f"a tool message answers the call '{turn.answers}', which is not in the conversation"
            raise BadRequest(where, param="messages")
        return result_parts(turn, TOOLS.sent(turn.name), row)
    return parts_of(turn.parts, row) + _calls(turn.calls, signatures, row)


def _calls(calls: tuple[Call, ...], signatures: Signatures, row: Row) -> list[Part]:
    """Of parallel calls only the first must be signed."""
    parts: list[Part] = []
    for call in calls:
        part: Part = {"functionCall": {"id": call.id, "name": TOOLS.sent(call.name), "args": call.arguments}}
        signature = call.signature or signatures.recall(call.id).decode()
        if not signature and row.signatures and not parts:
            signature = PLACEHOLDER
        if signature:
            part["thoughtSignature"] = signature
        parts.append(part)
    return parts
