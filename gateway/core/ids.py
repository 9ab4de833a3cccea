"""Identities: call ids that sort by time, and secrets that nobody can guess."""

import hashlib
import secrets
import string
from random import Random

from gateway.domain.token import PREFIX
from gateway.domain.units import CallId, Millis

_CHANCE = Random(secrets.randbits(128))
"""Seeded by the system's chance: asking the system for every call would cost a system call."""
_BASE62 = string.digits + string.ascii_letters


def new_call_id(now: Millis) -> CallId:
    """``req_``, 12 hex digits of the moment in milliseconds, 14 of chance. It is not secret, only unique."""
    return CallId(f"req_{now & 0xFFFFFFFFFFFF:012x}{_CHANCE.getrandbits(56):014x}")


def new_id(prefix: str) -> str:
    """An id for an entity, for example ``tok_3f9a…``: 64 bits of chance, never used twice."""
    return f"{prefix}_{secrets.token_hex(8)}"


def new_key() -> str:
    """A client's key: ``sk-tk-`` and 43 base62 characters, 256 bits."""
    return PREFIX + "".join(secrets.choice(_BASE62) for _ in range(43))


def digest(key: str) -> str:
    """What is kept of a key. Plain SHA-256 is right for 256 random bits; a slow hash would only cost every call."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def hint(key: str) -> str:
    """What of a key may be shown."""
    return f"{key[:10]}…{key[-4:]}"
