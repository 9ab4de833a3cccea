"""Token: the key that a client calls with. Only its SHA-256 digest is stored."""

from enum import StrEnum

import msgspec

from gateway.domain.budget import Budget
from gateway.domain.limits import Limits
from gateway.domain.units import Millis, TokenId

PREFIX = "sk-tk-"
"""The start of every key, followed by 43 base62 characters (256 bits)."""


class TokenState(StrEnum):
    """Whether a token may be used now. It is computed and never stored."""

    ACTIVE = "active"
    DISABLED = "disabled"
    EXPIRED = "expired"


class Color(StrEnum):
    """The color of a token's name in the console."""

    NONE = "none"
    RED = "red"
    YELLOW = "yellow"
    GREEN = "green"
    GRAY = "gray"


class TokenFields(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the owner edits. A new field also needs a row in ``TOKEN`` of ``domain.fields``."""

    name: str
    group: str
    enabled: bool = True
    expires: Millis | None = None
    budgets: tuple[Budget, ...] = ()
    limits: Limits = Limits()
    models: tuple[str, ...] = ()
    """Patterns of the models that it may use, such as ``gpt-*``; empty for all models of the group."""
    stop_when_empty: bool = False
    """Whether a running stream ends when the token's budget is used up."""
    hold_output: int = 0
    """How many output tokens a call holds money for if it asks for more or sets no limit; 0 for all that it may use.
    An answer that is longer may cost more than was held."""
    fit_output: bool = False
    """Whether the output limit of a call is lowered to what the money left pays for. Otherwise the call is refused."""
    color: Color = Color.NONE
    note: str = ""


class Token(TokenFields, frozen=True, kw_only=True, omit_defaults=True):
    """One client's access: its group, budgets and limits."""

    id: TokenId
    digest: str
    """The SHA-256 of the whole key, 64 hex digits. The key itself is shown once and never stored."""
    hint: str
    """The part of the key that may be shown: its first ten and last four characters."""
    created: Millis = Millis(0)
    temporary: bool = False
    """Whether ``tollkeeper run`` created it for one program. It expires with the program, and is deleted days later."""

    def program_ended(self, now: Millis) -> bool:
        """Returns whether the program that it was created for has ended."""
        return self.temporary and self.expires is not None and self.expires <= now


def state_of(token: Token, now: Millis) -> TokenState:
    """Returns the token's state. A token that is disabled and expired counts as disabled."""
    if not token.enabled:
        return TokenState.DISABLED
    if token.expires is not None and token.expires <= now:
        return TokenState.EXPIRED
    return TokenState.ACTIVE
