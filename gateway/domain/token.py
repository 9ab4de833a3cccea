"""Token: the key a client presents. Only its SHA-256 digest is kept."""

from enum import StrEnum

import msgspec

from gateway.domain.limits import Budget, Limits
from gateway.domain.units import Millis, TokenId

PREFIX = "sk-tk-"
"""Every key begins so, followed by 43 base62 characters (256 bits)."""


class TokenState(StrEnum):
    """Whether a token may be used now; computed, never stored."""

    ACTIVE = "active"
    DISABLED = "disabled"
    EXPIRED = "expired"


class Token(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One client's access: its group, budgets and limits."""

    id: TokenId
    name: str
    group: str
    digest: str
    """SHA-256 of the whole key, 64 hex digits. The key itself is shown once and stored nowhere."""
    hint: str
    """What of the key may be shown: its first ten and last four characters."""
    enabled: bool = True
    created: Millis = Millis(0)
    expires: Millis | None = None
    budgets: tuple[Budget, ...] = ()
    limits: Limits = Limits()
    models: tuple[str, ...] = ()
    """Patterns such as ``gpt-*``; empty means all that the group shows."""
    stop_when_empty: bool = False
    """End a running stream when this token's budget is gone."""
    note: str = ""


def state_of(token: Token, now: Millis) -> TokenState:
    """Disabled wins over expired: it is what the owner did."""
    if not token.enabled:
        return TokenState.DISABLED
    if token.expires is not None and token.expires <= now:
        return TokenState.EXPIRED
    return TokenState.ACTIVE
