"""How fast channels answered recently, for groups with the policy ``fastest``. In memory only."""

from collections.abc import Callable

import msgspec

from gateway.domain.units import ChannelId

TOKENS = 200
"""The output tokens of a typical answer. Channels are compared by how fast they would send it."""
STALE_S = 600.0
"""Seconds after which a measurement is no longer used: the channel is tried again."""


class _ModelLatency(msgspec.Struct):
    first_s: float
    """Seconds to the first byte; 0 if no stream was measured."""
    token_s: float
    """Seconds for each output token."""
    at: float


class LatencyStats:
    """The latency of each model at each channel. Plain answers show only the total time."""

    def __init__(self, mono: Callable[[], float]) -> None:
        self._mono = mono
        self._measured: dict[tuple[ChannelId, str], _ModelLatency] = {}

    def note(self, channel: ChannelId, model: str, *, first_s: float | None, whole_s: float, tokens: int) -> None:
        """Add an answer of ``tokens`` tokens that took ``whole_s`` seconds. ``first_s`` is None if it was no stream."""
        if tokens < 8:  # too few to tell the rate
            return
        wait_s, output_s = (0.0, whole_s) if first_s is None else (first_s, max(0.0, whole_s - first_s))
        token_s, now, key = output_s / tokens, self._mono(), (channel, model)
        average = self._measured.get(key)
        if average is None or now - average.at > STALE_S:
            if len(self._measured) >= 4096:
                self._measured.clear()
            self._measured[key] = _ModelLatency(wait_s, token_s, now)
            return
        average.first_s += 0.3 * (wait_s - average.first_s)
        average.token_s += 0.3 * (token_s - average.token_s)
        average.at = now

    def expected_s(self, channel: ChannelId, model: str) -> float | None:
        """Returns the seconds that a typical answer takes there; None if that was not measured recently."""
        average = self._measured.get((channel, model))
        if average is None or self._mono() - average.at > STALE_S:
            return None
        return average.first_s + TOKENS * average.token_s
