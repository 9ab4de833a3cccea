"""Seals: reasoning that a vendor signs, in the field in which the client's API sends reasoning back.

A seal of ours is ``tk1.``, a letter for the vendor, and for all but plain reasoning a point and base64, for example
``tk1.g.eyJ…``. The gateway keeps nothing: a client that sends its whole history sends the seals back. A value without
the prefix was made by the vendor of the client's own API, and only means something there. Nothing in a seal is secret
or trusted.
"""

import base64
import binascii

from gateway.domain.answer import Seal, SealKind

PREFIX = "tk1."


PLAIN_SEAL = Seal(SealKind.PLAIN)


def wrap(seal: Seal) -> str:
    """Returns the seal as a client keeps it."""
    if not seal.content:
        return PREFIX + seal.kind
    return f"{PREFIX}{seal.kind}.{base64.b64encode(seal.content).decode()}"


def unwrap(text: str) -> Seal | None:
    """Returns the seal; None if it was not made here, or is damaged."""
    if not text.startswith(PREFIX):
        return None
    kind, _, content = text[len(PREFIX) :].partition(".")
    try:
        return Seal(SealKind(kind), base64.b64decode(content, validate=True))
    except (ValueError, binascii.Error):
        return None
