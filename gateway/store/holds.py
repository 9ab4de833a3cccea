"""Holds: what running calls may cost, by everything they draw on; in memory only."""

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Literal

import msgspec

from gateway.domain.call import Record, Running
from gateway.domain.units import CallId, Nanos

Kind = Literal["account", "token", "group", "channel"]
Scope = tuple[Kind, str]
"""What calls draw on: ``("account", "")``, a token or channel by id, a group by name."""

ACCOUNT: Scope = ("account", "")


class Held(msgspec.Struct, frozen=True, gc=False):
    """What running calls may use; ``tokens`` are input and output tokens."""

    nanos: Nanos = Nanos(0)
    tokens: int = 0
    calls: int = 0


KEPT = 1000
"""Sums that are kept up."""


class HeldSums(msgspec.Struct, gc=False):
    """Nano-dollars, tokens and calls while they change."""

    nanos: int = 0
    tokens: int = 0
    calls: int = 0

    def count(self, call: Running, sign: int) -> None:
        """Add what a running call holds, or take it away."""
        self.nanos += sign * call.held
        self.tokens += sign * call.held_tokens
        self.calls += sign


def scopes(call: Record | Running) -> tuple[Scope, ...]:
    """All that a call draws on."""
    return _scopes(call.token, call.group, call.channel)


@lru_cache(maxsize=1024)
def _scopes(token: str, group: str, channel: str) -> tuple[Scope, ...]:
    return (ACCOUNT, ("token", token), ("group", group), ("channel", channel))


class Holds:
    """Each running call holds once, from ``add`` to ``remove``. Sums are kept up for those who were asked for."""

    def __init__(self) -> None:
        self._running: dict[CallId, Running] = {}
        self._held: dict[Scope, HeldSums] = {}
        self.running: Mapping[CallId, Running] = MappingProxyType(self._running)
        self.nanos = 0
        """What all of them hold together."""

    def add(self, call: Running) -> None:
        self._running[call.id] = call
        self._count(call, 1)

    def replace(self, call: Running) -> None:
        """Something new is known of a call; one that runs no more is left alone."""
        before = self._running.get(call.id)
        if before is None:
            return
        self._running[call.id] = call
        if (before.channel, before.held, before.held_tokens) != (call.channel, call.held, call.held_tokens):
            self._count(before, -1)
            self._count(call, 1)

    def remove(self, call_id: CallId) -> bool:
        """End a hold; whether there was one."""
        call = self._running.pop(call_id, None)
        if call is None:
            return False
        self._count(call, -1)
        return True

    def held(self, scope: Scope) -> Held:
        held = self._held.get(scope)
        if held is None:
            if len(self._held) >= KEPT:
                self._held.clear()
            held = self._held[scope] = HeldSums()
            for call in self._running.values():
                if scope in scopes(call):
                    held.count(call, 1)
        return Held(Nanos(held.nanos), held.tokens, held.calls)

    def _count(self, call: Running, sign: int) -> None:
        self.nanos += sign * call.held
        if self._held:
            for scope in scopes(call):
                if (held := self._held.get(scope)) is not None:
                    held.count(call, sign)
