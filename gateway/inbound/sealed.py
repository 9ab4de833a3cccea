"""Seals: reasoning that a vendor signs, in the field in which the client's API sends reasoning back.

A seal of ours is ``tk1.``, a letter for whose it is, and for all but plain reasoning a point and base64, for example
``tk1.g.eyJ…``. The gateway keeps nothing: a client that sends its history whole brings the seals back. A value without
the prefix was made by the vendor of the client's own API, and means something there alone. Nothing in a seal is secret
or trusted.
"""

import base64
import binascii
from enum import StrEnum

import msgspec

PREFIX = "tk1."


class SealKind(StrEnum):
    """Whose reasoning it is, and what the content of the seal is."""

    ANTHROPIC = "a"
    """A JSON array of ``thinking`` and ``redacted_thinking`` blocks."""
    GEMINI = "g"
    """A JSON object of thought signatures by the ids of the tool calls that they belong to."""
    OPENAI = "o"
    """A reasoning item of Responses."""
    PLAIN = "p"
    """Nothing: the text is all there is."""


class Seal(msgspec.Struct, frozen=True):
    """An unwrapped seal."""

    kind: SealKind
    content: bytes = b""
    """JSON."""


PLAIN_SEAL = Seal(SealKind.PLAIN)


def wrap(seal: Seal) -> str:
    """The seal as a client keeps it."""
    if not seal.content:
        return PREFIX + seal.kind
    return f"{PREFIX}{seal.kind}.{base64.b64encode(seal.content).decode()}"


def unwrap(text: str) -> Seal | None:
    """The seal; None if it was not made here, or was damaged."""
    if not is_ours(text):
        return None
    kind, _, content = text[len(PREFIX) :].partition(".")
    try:
        return Seal(SealKind(kind), base64.b64decode(content, validate=True))
    except (ValueError, binascii.Error):
        return None


def is_ours(text: str) -> bool:
    """Whether the seal was made here, so that no vendor may see it."""
    return text.startswith(PREFIX)
