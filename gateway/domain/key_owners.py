"""Key owners: whose a key is or was. Keys that once worked are remembered by their SHA-256, for searches and warnings.

A handle stands for a key where the key itself must not be: the part that may be shown, and the start of the SHA-256. A
key that is pasted into a search is replaced by its handle at once, and the search finds the owner by it.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from gateway.domain.channel import Channel
from gateway.domain.human_values import ago, local_time
from gateway.domain.registry import Change, Registry, RetiredKey
from gateway.domain.text import REFERENCE, mask, plain
from gateway.domain.token import PREFIX, Token, TokenState, state_of
from gateway.domain.units import ChannelId, Millis, TokenId

_TOKEN_KEY = re.compile(rf"{PREFIX}[0-9A-Za-z]{{43}}(?![0-9A-Za-z])")
_VENDOR_KEY = re.compile(
    rf"(?<![0-9A-Za-z])(?!{PREFIX})(?:(?:sk|pk|rk|key|gsk|xai|hf|nvapi|pplx|csk|fw|tgp|r8|ghp|github_pat)[-_]|AIza)"
    r"[0-9A-Za-z_.-]{16,}"
)
_HANDLE = re.compile(r"([0-9A-Za-z_.-]*…[0-9A-Za-z_.-]*)#[0-9a-f]{8}")


def digest(key: str) -> str:
    """Returns what is stored of a key. A slow hash is not needed for 256 random bits, and would delay every call."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def hint(key: str) -> str:
    """Returns the part of a token's key that may be shown."""
    return f"{key[:10]}…{key[-4:]}"


def handle(shown: str, key_digest: str) -> str:
    """Returns the handle of a key. ``shown`` is the part that may be shown."""
    return f"{shown}#{key_digest[:8]}"


def without_keys(text: str, *, typed: bool = False) -> str:
    """Returns the text with handles for keys. While it is ``typed``, vendors' keys stay: they may be incomplete."""

    def replacement(match: re.Match[str]) -> str:
        key = match[0]
        return handle(hint(key) if key.startswith(PREFIX) else mask(key), digest(key))

    hidden = _TOKEN_KEY.sub(replacement, text) if len(text) > 16 else text
    return hidden if typed else _VENDOR_KEY.sub(replacement, hidden)


def handles_in(text: str) -> list[str]:
    """Returns the handles in a text."""
    return [match[0] for match in _HANDLE.finditer(text)]


def shown_part(text: str) -> str:
    """Returns the part of a handle that shows its key; empty if the text is not a handle."""
    match = _HANDLE.fullmatch(text)
    return match[1] if match else ""


class KeyOwner(msgspec.Struct, frozen=True, kw_only=True):
    """The owner of a key, current or former."""

    noun: Literal["token", "channel"]
    id: str
    name: str
    handle: str
    since: Millis | None = None
    """Since when the key is refused; None if it is in use."""
    removed: bool = False
    """Whether it is refused because its owner was removed; otherwise it was replaced."""

    def has(self, ref: str) -> bool:
        """Returns whether this is the key's handle, or the shown part of a token's key."""
        return ref == self.handle or (self.noun == "token" and ref == shown_part(self.handle))

    def text(self, now: Millis) -> str:
        """Returns ``sk-tk-a…z was the key of token 'ci' until 2026-11-25 20:26:31 (2d ago), when it was replaced``."""
        key, owner = shown_part(self.handle), f"the key of {self.noun} '{plain(self.name)}'"
        if self.since is None:
            return f"{key} is {owner}"
        reason = f"the {self.noun} was removed" if self.removed else "it was replaced"
        return f"{key} was {owner} until {since_text(self.since, now)}, when {reason}"


def since_text(since: Millis, now: Millis) -> str:
    """Returns ``2026-11-25 20:26:31 (2d ago)``."""
    return f"{local_time(since)} ({ago(now - since)})"


def keys_of(token: Token, registry: Registry) -> Iterator[KeyOwner]:
    """Yields the owners of a token's current and former keys, newest first."""
    yield KeyOwner(noun="token", id=token.id, name=token.name, handle=handle(token.hint, token.digest))
    former = [key for key in registry.retired.values() if key.owner == token.id]
    yield from (owner_of_retired(key, registry) for key in sorted(former, key=lambda key: -key.since))


def owners_of(registry: Registry) -> Iterator[KeyOwner]:
    """Yields the owners of all known keys, those in use first."""
    for token in registry.tokens.values():
        yield KeyOwner(noun="token", id=token.id, name=token.name, handle=handle(token.hint, token.digest))
    for channel in registry.channels.values():
        for key in _plain_keys(channel):
            yield KeyOwner(noun="channel", id=channel.id, name=channel.name, handle=handle(mask(key), digest(key)))
    for retired in sorted(registry.retired.values(), key=lambda key: -key.since):
        yield owner_of_retired(retired, registry)


def owner_of_retired(key: RetiredKey, registry: Registry) -> KeyOwner:
    """Returns the owner of a key that no longer works, by its current name."""
    owner = registry.tokens.get(TokenId(key.owner)) or registry.channels.get(ChannelId(key.owner))
    return KeyOwner(
        noun=key.noun,
        id=key.owner,
        name=key.name if owner is None else owner.name,
        handle=handle(key.hint, key.digest),
        since=key.since,
        removed=key.removed,
    )


def find_owner(registry: Registry, ref: str) -> KeyOwner | None:
    """Returns the owner for a handle, or for the shown part of a token's key; None if unknown."""
    if "…" not in ref:
        return None
    return next((owner for owner in owners_of(registry) if owner.has(ref)), None)


def owner_ids(owners: Iterable[KeyOwner]) -> dict[str, str]:
    """Returns the ids of owners by the handles of their keys and by the shown parts of tokens' keys, casefolded."""
    ids: dict[str, str] = {}
    for owner in owners:
        ids.setdefault(owner.handle.casefold(), owner.id)
        if owner.noun == "token":
            ids.setdefault(shown_part(owner.handle).casefold(), owner.id)
    return ids


def retirements(changes: Iterable[Change], before: Registry, after: Registry, now: Millis) -> list[Change]:
    """Returns the changes of remembered keys after changes of tokens and channels.

    Keys that no longer work are added, those that work again are removed, and of the rest the newest 1,000 are kept.
    """
    edited = dict.fromkeys((change.table, change.key) for change in changes if change.table in ("tokens", "channels"))
    old_keys = [key for table, id_ in edited for key in _retired_keys(getattr(before, table).get(id_), now)]
    new_digests = {key.digest for table, id_ in edited for key in _retired_keys(getattr(after, table).get(id_), now)}
    existing = after.tokens.keys() | after.channels.keys()
    lost_keys = (key for key in old_keys if key.digest not in new_digests)
    retired = [msgspec.structs.replace(key, removed=key.owner not in existing) for key in lost_keys]
    revived = [Change("retired", key_digest, None) for key_digest in new_digests if key_digest in before.retired]
    by_age = sorted(before.retired.values(), key=lambda key: key.since)
    surplus = by_age[: max(0, len(by_age) + len(retired) - 1_000)] if retired else []
    dropped = [Change("retired", key.digest, None) for key in surplus if key.digest not in new_digests]
    return [*revived, *dropped, *(Change("retired", key.digest, key) for key in retired)]


def _retired_keys(entity: Token | Channel | None, now: Millis) -> Iterator[RetiredKey]:
    """Yields the keys of a token or channel in the form that is remembered; nothing for a temporary token."""
    if isinstance(entity, Token) and not entity.temporary:
        yield RetiredKey(
            digest=entity.digest, hint=entity.hint, noun="token", owner=entity.id, name=entity.name, since=now
        )
    elif isinstance(entity, Channel):
        for key in _plain_keys(entity):
            yield RetiredKey(
                digest=digest(key), hint=mask(key), noun="channel", owner=entity.id, name=entity.name, since=now
            )


def _plain_keys(channel: Channel) -> list[str]:
    return [key for key in channel.all_keys if not key.startswith(REFERENCE)]


def revivals(changes: Iterable[Change], before: Registry, after: Registry, now: Millis) -> Iterator[str]:
    """Yields a sentence for each key that works again: a replaced one, or a removed, disabled or expired token's."""
    for table, id_ in dict.fromkeys((change.table, change.key) for change in changes):
        if table not in ("tokens", "channels"):
            continue
        old, new = getattr(before, table).get(id_), getattr(after, table).get(id_)
        old_states = {key.digest: _refused_state(old, now) for key in _retired_keys(old, now)}
        for key in _retired_keys(new, now):
            retired = before.retired.get(key.digest)
            if old_states.get(key.digest) == "" or _refused_state(new, now):
                continue
            if retired is not None and retired.owner == id_ and (table == "tokens" or not retired.removed):
                reason = f"the {key.noun} was removed" if retired.removed else "it was replaced"
                yield f"{_key_text(key)} works again; {reason} {since_text(retired.since, now)}."
            elif key.digest in old_states:
                yield f"{_key_text(key)} works again; the token is {old_states[key.digest]} now."


def _key_text(key: RetiredKey) -> str:
    return f"The key {key.hint} of {key.noun} '{plain(key.name)}'"


def _refused_state(entity: Token | Channel | None, now: Millis) -> str:
    """Returns why the keys of a token do not work, ``disabled`` or ``expired``; empty if they do, as a channel's do."""
    state = state_of(entity, now) if isinstance(entity, Token) else TokenState.ACTIVE
    return "" if state is TokenState.ACTIVE else state.value
