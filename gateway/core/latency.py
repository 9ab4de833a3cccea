"""How fast channels answered recently, for groups with the policy ``fastest``. In memory only."""

from collections.abc import Callable

from gateway.domain.units import ChannelId

TOKENS = 200
"""The output tokens of a typical answer. Channels are compared by how fast they would send it."""
STALE_S = 600.0
"""Seconds after which a measurement is no longer used: the channel is tried again."""


class LatencyStats:
    """The latency of each model at each channel. Plain answers show only the total time."""

    def __init__(self, mono: Callable[[], float]) -> None:
        self._mono = mono
        self._measured: dict[tuple[ChannelId, str], tuple[float, float]] = {}
        """The seconds that a typical answer takes, on average, and when that was last measured."""

    def note(self, channel: ChannelId, model: str, *, first_s: float | None, whole_s: float, tokens: int) -> None:
        """Add an answer of ``tokens`` tokens that took ``whole_s`` seconds. ``first_s`` is None if it was no stream."""
        if tokens < 8:  # too few to tell the rate
            return
        wait_s, output_s = (0.0, whole_s) if first_s is None else (first_s, max(0.0, whole_s - first_s))
        answer_s = wait_s + TOKENS * output_s / tokens
        average_s = self.expected_s(channel, model)
        if average_s is None and len(self._measured) >= 4096:
            self._measured.clear()
        average_s = answer_s if average_s is None else average_s + 0.3 * (answer_s - average_s)
        self._measured[channel, model] = average_s, self._mono()

    def expected_s(self, channel: ChannelId, model: str) -> float | None:
        """Returns the seconds that a typical answer takes there; None if that was not measured recently."""
        average_s, at = self._measured.get((channel, model), (None, 0.0))
        return average_s if self._mono() - at <= STALE_S else None
