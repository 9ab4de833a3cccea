"""How fast channels answered recently, model by model, for groups with policy ``fastest``.

For streams the wait for the first byte and the rate after it are kept apart; plain answers show only the total.
"""

from collections.abc import Callable

from gateway.domain.units import ChannelId

TOKENS = 200
"""How many output tokens the answer has by which channels are compared."""
STALE_S = 600.0
"""Seconds after which a measurement is stale: the channel is tried again."""


class _ModelLatency:
    """The measurements of one model at one channel."""

    __slots__ = ("at", "first_s", "token_s")

    def __init__(self, first_s: float, token_s: float, at: float) -> None:
        self.first_s = first_s
        self.token_s = token_s
        self.at = at


class LatencyStats:
    """The measurements of all channels, in memory."""

    def __init__(self, mono: Callable[[], float]) -> None:
        self._mono = mono
        self._measured: dict[tuple[ChannelId, str], _ModelLatency] = {}

    def note(self, channel: ChannelId, model: str, *, first_s: float | None, whole_s: float, tokens: int) -> None:
        """Add an answer: its first byte came after ``first_s`` (None: not a stream), all of it after ``whole_s``."""
        if tokens < 8:  # so few say nothing about the rate
            return
        first, rest = (0.0, whole_s) if first_s is None else (first_s, max(0.0, whole_s - first_s))
        rate, now, key = rest / tokens, self._mono(), (channel, model)
        known = self._measured.get(key)
        if known is None or now - known.at > STALE_S:
            if len(self._measured) >= 4096:
                self._measured.clear()
            self._measured[key] = _ModelLatency(first, rate, now)
            return
        known.first_s += 0.3 * (first - known.first_s)
        known.token_s += 0.3 * (rate - known.token_s)
        known.at = now

    def expected_s(self, channel: ChannelId, model: str) -> float | None:
        """Returns the seconds that a typical answer takes there; None if that was not measured recently."""
        known = self._measured.get((channel, model))
        if known is None or self._mono() - known.at > STALE_S:
            return None
        return known.first_s + TOKENS * known.token_s
