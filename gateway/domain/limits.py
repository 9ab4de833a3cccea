"""Limits: how fast and how much at once, as the owner sets it. Spending is limited in ``budget``."""

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Rates of a token, group or channel; None means no limit. Minutes slide, days begin at local midnight."""

    rpm: int | None = None
    """Requests a minute."""
    tpm: int | None = None
    """Input and output tokens a minute."""
    rpd: int | None = None
    tpd: int | None = None
    concurrent: int | None = None
    """Calls in flight. None on a channel: the number in the settings."""
    streams: int | None = None
    """Streams in flight of a token or group. None on a token: the number in the settings."""
    queue: int | None = None
    """Calls that may wait for a place; None: the number in the settings."""
    queue_s: int | None = None
    """Seconds a call may wait for a place; 0: it is refused at once. None: the number in the settings."""


DEFAULT_OUTPUT = 4096
"""Output tokens to hold for if a request has no cap."""


class LimitReading(msgspec.Struct, frozen=True, gc=False):
    """A limit, what is left of it, and seconds until it is whole again."""

    limit: int
    left: int
    reset_s: float


Readings = tuple[LimitReading | None, LimitReading | None]
"""The tightest limits of requests and of tokens among all that bind a call."""

NO_READINGS: Readings = (None, None)
