"""Widening: how much more a call may use than its client asked for, because a channel's owner adds to it. Pure.

Worked out when the configuration changes: what is held covers the channel that adds most.
"""

from collections.abc import Iterable

import msgspec

from gateway.core.quota import Need
from gateway.domain.estimate import BOUND_BYTES_PER_TOKEN
from gateway.domain.overrides import Overrides

_CAPS = ("max_completion_tokens", "max_tokens")
_READ = ("tools", "functions", "response_format")
"""Parameters that the model reads as input."""


class Widening(msgspec.Struct, frozen=True, kw_only=True):
    """What may come on top."""

    input: int = 0
    """Tokens."""
    output_cap: int = 0
    """What the owner has made of the client's cap; 0: nothing."""
    uncapped: bool = False
    """The client's cap may be taken out."""
    choices: int = 0


def widening(overrides: Iterable[Overrides]) -> Widening | None:
    """Of all the channels that may serve a model; None if none of them adds anything."""
    return widest(_of(each) for each in overrides)


def widest(found: Iterable[Widening | None]) -> Widening | None:
    """The most of each; None if there is nothing."""
    all_of_them = [one for one in found if one is not None and one != _NOTHING]
    if not all_of_them:
        return None
    return Widening(
        input=max(one.input for one in all_of_them),
        output_cap=max(one.output_cap for one in all_of_them),
        uncapped=any(one.uncapped for one in all_of_them),
        choices=max(one.choices for one in all_of_them),
    )


def widened(need: Need, more: Widening) -> Need:
    """What a call may use at most there."""
    cap = None if need.output_cap is None or more.uncapped else max(need.output_cap, more.output_cap)
    return msgspec.structs.replace(
        need, input=need.input + more.input, output_cap=cap, choices=max(need.choices, more.choices)
    )


_NOTHING = Widening()


def _of(overrides: Overrides) -> Widening:
    given = {**overrides.default, **overrides.set}
    size = len(overrides.system.encode()) + sum(
        len(msgspec.json.encode(given[name])) for name in _READ if name in given
    )
    caps = [overrides.set[name] for name in _CAPS if name in overrides.set]
    return Widening(
        input=-(-size // BOUND_BYTES_PER_TOKEN),
        output_cap=max((cap for cap in caps if type(cap) is int), default=0),
        uncapped=any(type(cap) is not int for cap in caps) or any(name in _CAPS for name in overrides.remove),
        choices=given["n"] if type(given.get("n")) is int else 0,
    )
