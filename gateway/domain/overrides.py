"""Overrides: what a channel's owner changes in every request of it, in any dialect, in the words of OpenAI's."""

from typing import Any

import msgspec

from gateway.domain.errors import BadRequest
from gateway.domain.text import plain

OURS = frozenset({"model", "messages", "stream", "stream_options"})
"""Parameters the gateway itself lives by."""
SYSTEM_LIMIT = 100_000


class Overrides(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """In this order: ``remove``, ``default``, ``set``; then the system prompt."""

    set: dict[str, Any] = {}
    """Parameters with the value they always have. Values are JSON of the owner's: nothing here reads them."""
    default: dict[str, Any] = {}
    """Parameters with the value they have where the client gives none, or null."""
    remove: tuple[str, ...] = ()
    """Parameters that never go out."""
    system: str = ""
    """A system prompt; empty: none."""
    replace_system: bool = False
    """It takes the place of the client's system messages, instead of standing before them."""

    def __bool__(self) -> bool:
        return bool(self.set or self.default or self.remove or self.system)


def check(overrides: Overrides) -> None:
    """Raises BadRequest for names that are none, or that are the gateway's own."""
    for name in (*overrides.set, *overrides.default, *overrides.remove):
        if not name or name != plain(name, 100) or name != name.strip():
            raise BadRequest(f"overrides: '{plain(name, 100)}' is no parameter's name", param="overrides")
        if name in OURS:
            raise BadRequest(f"overrides: '{name}' is set by the gateway itself", param="overrides")
    both = ", ".join(sorted(overrides.set.keys() & {*overrides.default, *overrides.remove}))
    if both:
        raise BadRequest(f"overrides: what is set has no default and is not removed: {both}", param="overrides")
    if len(overrides.system) > SYSTEM_LIMIT:
        raise BadRequest(f"overrides: the system prompt is longer than {SYSTEM_LIMIT} characters", param="overrides")
    if overrides.replace_system and not overrides.system:
        raise BadRequest("overrides: there is no system prompt to replace the client's with", param="overrides")
