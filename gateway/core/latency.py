"""How fast channels answered lately, model by model, for groups that ask the fastest first.

Of streams the wait for the first byte and the rate after it are kept apart; of plain answers only the whole is seen.
"""

from collections.abc import Callable

from gateway.domain.units import ChannelId

TOKENS = 200
"""Output tokens of the answer by which channels are compared."""
LEAST_TOKENS = 8
"""Shorter answers say nothing of the rate."""
STALE_S = 600.0
"""What was measured longer ago is measured again: the channel is tried."""
NEWEST = 0.3
"""Weight of the newest measurement."""
MOST = 4096


class _ModelLatency:
    """What is known of one model of one channel."""

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
        """An answer came: its first byte after ``first_s`` (None: it was not a stream), all of it after ``whole_s``."""
        if tokens < LEAST_TOKENS:
            return
        first, rest = (0.0, whole_s) if first_s is None else (first_s, max(0.0, whole_s - first_s))
        rate, now, key = rest / tokens, self._mono(), (channel, model)
        known = self._measured.get(key)
        if known is None or now - known.at > STALE_S:
            if len(self._measured) >= MOST:
                self._measured.clear()
            self._measured[key] = _ModelLatency(first, rate, now)
            return
        known.first_s += NEWEST * (first - known.first_s)
        known.token_s += NEWEST * (rate - known.token_s)
        known.at = now

    def expected_s(self, channel: ChannelId, model: str) -> float | None:
        """Seconds that an answer of usual length takes there; None if that was not measured lately."""
        known = self._measured.get((channel, model))
        if known is None or self._mono() - known.at > STALE_S:
            return None
        return known.first_s + TOKENS * known.token_s
