"""Keys and ids: how they are made, and which token a client's key belongs to."""

import secrets
import string
from functools import lru_cache
from random import Random

from gateway.core.catalog import Catalog
from gateway.core.recent_items import RecentItems
from gateway.domain.errors import InvalidToken
from gateway.domain.human_values import zoned_time
from gateway.domain.key_owners import digest, owner_of_retired
from gateway.domain.text import plain, word
from gateway.domain.token import PREFIX, Token
from gateway.domain.units import CallId, Millis, TokenId

_RANDOM = Random(secrets.randbits(128))
"""Random numbers, seeded by the system once: asking it for each call would cost a system call."""
_BASE62 = string.digits + string.ascii_letters
KEY_LENGTH = len(PREFIX) + 43
"""The prefix, and 43 base62 characters for 256 bits."""


def new_call_id(now: Millis) -> CallId:
    """Returns ``req_``, the time in milliseconds as 12 hex digits, and 14 random ones. It is unique, but not secret."""
    return CallId(f"req_{(now & 0xFFFFFFFFFFFF) << 56 | _RANDOM.getrandbits(56):026x}")


def new_id(prefix: str) -> str:
    """Returns an id for an entity, for example ``tok_3f9a…``: 64 random bits, never used twice."""
    return f"{prefix}_{secrets.token_hex(8)}"


def new_key() -> str:
    """Returns a client's key: ``sk-tk-`` and 43 base62 characters, 256 bits."""
    return PREFIX + "".join(secrets.choice(_BASE62) for _ in range(KEY_LENGTH - len(PREFIX)))


_cached_digest = lru_cache(maxsize=256)(digest)
"""Returns the digest of a key of our form. Recent ones are cached: nearly every call uses one of a few keys."""


def identify(key: str, catalog: Catalog, passes: RecentItems[TokenId], now: Millis) -> Token:
    """Returns the token of a key. Raises InvalidToken, with a code for each reason."""
    if not key:
        msg = (
            "no API key: send 'Authorization: Bearer <token>' with a token of this gateway "
            "(create one with 'tollkeeper token add NAME')"
        )
        raise InvalidToken(msg, code="missing_api_key")
    token = token_of(key, catalog, passes)
    if token is None:
        raise _unknown_key(key, catalog, now)
    return token if token.enabled and token.expires is None else require_usable(token, now)


def token_of(key: str, catalog: Catalog, passes: RecentItems[TokenId]) -> Token | None:
    """Returns the token of a key or pass in any state, or None. Digests are compared, so timing reveals nothing."""
    has_our_form = len(key) == KEY_LENGTH and key.startswith(PREFIX)
    key_digest = _cached_digest(key) if has_our_form else digest(key)  # a vendor's key, sent by mistake, is not kept
    token = catalog.token_by_digest(key_digest)
    if token is None and (holder := passes.find(key_digest.encode())) is not None:
        token = catalog.registry.tokens.get(holder)
    return token


def current_token(token: Token, catalog: Catalog, now: Millis) -> Token:
    """Returns a token's current state, as edited while its request arrived. Raises InvalidToken if it is not usable."""
    current = catalog.registry.tokens.get(token.id)
    if current is token:
        return token
    if current is None:
        raise _unknown_key("", catalog, now)
    return require_usable(current, now)


def _unknown_key(key: str, catalog: Catalog, now: Millis) -> InvalidToken:
    """Returns the error for a key that belongs to no token. It says so if the key belonged to one before."""
    retired = catalog.registry.retired.get(digest(key)) if key else None
    if retired is None:
        return InvalidToken("this API key is not a token of this gateway; 'tollkeeper token list' lists the tokens")
    error = InvalidToken(
        "this API key no longer works: it was replaced, or its token was removed; use the token's current key",
        code="key_replaced",
    )
    error.owner_message = f"{error.message}: {owner_of_retired(retired, catalog.registry).text(now)}"
    return error


def keyless_token(name: str, catalog: Catalog, now: Millis) -> Token:
    """Returns the token for programs that send no key, whose name is in the settings. Raises InvalidToken."""
    token = token_named(name, catalog)
    if token is None:
        msg = (
            f"requests without a key use token '{plain(name)}', which does not exist; "
            "choose another with 'tollkeeper settings set --ollama-token NAME'"
        )
        raise InvalidToken(msg, code="missing_api_key")
    return require_usable(token, now)


def token_named(name: str, catalog: Catalog) -> Token | None:
    """Returns the token with that name; None if it is unknown."""
    return next((token for token in catalog.registry.tokens.values() if token.name == name), None)


def require_usable(token: Token, now: Millis) -> Token:
    """Returns the token if it is neither disabled nor expired. Raises InvalidToken."""
    if not token.enabled:
        msg = f"token '{plain(token.name)}' is disabled; 'tollkeeper token enable {word(token.name)}' turns it on"
        raise InvalidToken(msg, code="token_disabled")
    if token.expires is not None and token.expires <= now:
        expiry = zoned_time(token.expires)
        edit = f"'tollkeeper token edit {word(token.name)} --expires 30d'"
        msg = f"token '{plain(token.name)}' expired at {expiry}; {edit} renews it"
        raise InvalidToken(msg, code="token_expired")
    return token
