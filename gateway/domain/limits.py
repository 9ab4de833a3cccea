"""Limits: the rates and the numbers of simultaneous calls that the owner allows. Spending is limited in ``budget``."""

from collections.abc import Mapping
from typing import Final

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The limits of a token, group or channel. Minutes slide, days begin at local midnight."""

    rpm: int | None = None
    """Requests a minute; None for no limit, also below."""
    tpm: int | None = None
    """Input and output tokens a minute."""
    rpd: int | None = None
    """Requests a day."""
    tpd: int | None = None
    """Input and output tokens a day."""
    concurrent: int | None = None
    """Calls at once. For a channel, None means the number in the settings."""
    streams: int | None = None
    """Streams at once, for a token or group. For a token, None means the number in the settings."""
    queue: int | None = None
    """Calls that may wait for a free slot; None for the number in the settings."""
    queue_s: int | None = None
    """Seconds that a call may wait for a free slot; 0 if it must not wait; None for the number in the settings."""


RATES: Final[Mapping[str, str]] = {
    "rpm": "requests a minute",
    "tpm": "tokens a minute",
    "rpd": "requests a day",
    "tpd": "tokens a day",
}
"""The names of the rate limits in errors and texts. ``core.ratelimit`` applies them."""

DEFAULT_OUTPUT = 4096
"""The output tokens that are held for a request without a limit of its own."""
