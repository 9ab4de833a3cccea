"""RateScope: the limits of one token, group or channel, prepared when the configuration changes.

A scope has rates, per minute and per day, and gates. A gate lets a limited number of calls through at a time, and lets
others wait for a while.
"""

from collections.abc import Sequence

import msgspec

from gateway.domain.call import Scope
from gateway.domain.channel import Channel
from gateway.domain.group import Group
from gateway.domain.limits import RATES, Limits
from gateway.domain.settings import Settings
from gateway.domain.text import plain
from gateway.domain.token import Token

GateKey = tuple[str, str]
"""What a gate limits: ``("token", id)``, for streams ``("token streams", id)``. It stays when the limit is edited."""


class ConcurrencyGate(msgspec.Struct, frozen=True, kw_only=True):
    """A limit of one scope's calls in flight."""

    key: GateKey
    label: str
    """For the message: ``token 'laptop'``."""
    name: str
    """``calls in flight`` or ``streams``."""
    limit: int
    queue: int
    """How many calls may wait."""
    wait_s: float
    """The maximum time that a call waits, in seconds."""


class RateScope(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one token, group or channel."""

    key: Scope
    label: str
    """For the message: ``token 'laptop'``."""
    limits: Limits
    has_rates: bool
    """Whether it has a limit per minute or per day."""
    gate: ConcurrencyGate | None
    """The gate for every call."""
    stream_gate: ConcurrencyGate | None
    """The additional gate for streams."""


class CallScopes(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that limits the calls of one token before a channel is chosen."""

    rated_scopes: tuple[RateScope, ...]
    gates: tuple[ConcurrencyGate, ...]
    stream_gates: tuple[ConcurrencyGate, ...]


def token_scope(token: Token, settings: Settings) -> RateScope:
    """Returns a token's limits. If it does not limit its streams, the settings do."""
    streams = token.limits.streams or settings.token_streams or None
    limits = msgspec.structs.replace(token.limits, streams=streams)
    return _rate_scope(("token", token.id), f"token '{plain(token.name)}'", limits, settings)


def group_scope(group: Group, settings: Settings) -> RateScope:
    """Returns the limits of a group."""
    return _rate_scope(("group", group.id), f"group '{plain(group.name)}'", group.limits, settings)


def channel_scope(channel: Channel, settings: Settings) -> RateScope:
    """Returns a channel's limits. If it does not limit its calls, the settings do."""
    calls = channel.limits.concurrent or settings.channel_calls or None
    limits = msgspec.structs.replace(channel.limits, concurrent=calls, streams=None)
    return _rate_scope(("channel", channel.id), f"channel '{plain(channel.name)}'", limits, settings)


def combine_scopes(scopes: Sequence[RateScope]) -> CallScopes:
    """Returns the limits of several scopes together."""
    gates = tuple(scope.gate for scope in scopes if scope.gate is not None)
    stream_gates = tuple(scope.stream_gate for scope in scopes if scope.stream_gate is not None)
    rated_scopes = tuple(scope for scope in scopes if scope.has_rates)
    return CallScopes(rated_scopes=rated_scopes, gates=gates, stream_gates=gates + stream_gates)


def _rate_scope(key: Scope, label: str, limits: Limits, settings: Settings) -> RateScope:
    return RateScope(
        key=key,
        label=label,
        limits=limits,
        has_rates=any(getattr(limits, rate) is not None for rate in RATES),
        gate=_gate(key, label, "calls in flight", limits.concurrent, limits, settings),
        stream_gate=_gate((f"{key[0]} streams", key[1]), label, "streams", limits.streams, limits, settings),
    )


def _gate(
    key: tuple[str, str], label: str, name: str, limit: int | None, limits: Limits, settings: Settings
) -> ConcurrencyGate | None:
    if limit is None:
        return None
    queue = settings.queue if limits.queue is None else limits.queue
    wait_s = settings.queue_s if limits.queue_s is None else limits.queue_s
    return ConcurrencyGate(key=key, label=label, name=name, limit=limit, queue=queue, wait_s=wait_s)
