"""Auth: from the key a client presents to the token it stands for."""

from gateway.core.catalog import Catalog
from gateway.core.ids import digest, new_key
from gateway.domain.errors import InvalidToken
from gateway.domain.human_values import zoned_time
from gateway.domain.text import plain, word
from gateway.domain.token import Token, TokenState, state_of
from gateway.domain.units import Millis, TokenId

PASS_MS = 60_000
"""How long a pass is good for."""


class Passes:
    """Short-lived keys in memory that stand for a token: for the owner's own test calls without the token's key."""

    def __init__(self) -> None:
        self._issued: dict[str, tuple[TokenId, Millis]] = {}

    def issue(self, token: TokenId, now: Millis) -> str:
        """A key that /v1 accepts as this token's for a minute."""
        self._issued = {d: entry for d, entry in self._issued.items() if entry[1] > now}
        key = new_key()
        self._issued[digest(key)] = (token, Millis(now + PASS_MS))
        return key

    def holder(self, key_digest: str, now: Millis) -> TokenId | None:
        """Whose pass this is, while it is good."""
        entry = self._issued.get(key_digest)
        return entry[0] if entry is not None and entry[1] > now else None


def identify(key: str, catalog: Catalog, passes: Passes, now: Millis) -> Token:
    """The token of a key. Raises InvalidToken with a code of its own for each way to fail."""
    if not key:
        msg = (
            "no API key: send 'Authorization: Bearer <token>' with a token of this gateway "
            "(make one with 'tollkeeper token add NAME')"
        )
        raise InvalidToken(msg, code="missing_api_key")
    token = token_of(key, catalog, passes, now)
    if token is None:
        raise _unknown()
    return usable(token, now)


def token_of(key: str, catalog: Catalog, passes: Passes, now: Millis) -> Token | None:
    """The token of a key or of a pass, whatever state it is in; None if there is none.

    The lookup is by SHA-256 digest: what is compared is not the secret, so its timing tells nothing of it.
    """
    fingerprint = digest(key)
    token = catalog.token_by_digest(fingerprint)
    if token is None and (holder := passes.holder(fingerprint, now)) is not None:
        token = catalog.registry.tokens.get(holder)
    return token


def still(token: Token, catalog: Catalog, now: Millis) -> Token:
    """The token as it is now: its owner may have edited or removed it while its request came in.

    Raises InvalidToken.
    """
    current = catalog.registry.tokens.get(token.id)
    if current is token:
        return token
    if current is None:
        raise _unknown()
    return usable(current, now)


def _unknown() -> InvalidToken:
    return InvalidToken(
        "this API key is not a token of this gateway; 'tollkeeper token list' shows the tokens there are"
    )


def usable(token: Token, now: Millis) -> Token:
    """The token, if it is neither disabled nor expired. Raises InvalidToken."""
    state = state_of(token, now)
    if state is TokenState.DISABLED:
        msg = f"token '{plain(token.name)}' is disabled; 'tollkeeper token enable {word(token.name)}' turns it on"
        raise InvalidToken(msg, code="token_disabled")
    if state is TokenState.EXPIRED:
        when = zoned_time(token.expires or now)
        edit = f"'tollkeeper token edit {word(token.name)} --expires 30d'"
        msg = f"token '{plain(token.name)}' expired at {when}; {edit} lets it live on"
        raise InvalidToken(msg, code="token_expired")
    return token
