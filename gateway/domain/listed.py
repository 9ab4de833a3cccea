"""Listed: the models an upstream had when it was asked last, kept for the time when it cannot be asked."""

import msgspec

from gateway.domain.channel import Served
from gateway.domain.units import ChannelId, Millis


class Listed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The last good list of one channel's upstream."""

    channel: ChannelId
    time: Millis
    """When the list came; 0: none ever came, and ``error`` says why."""
    models: tuple[Served, ...] = ()
    new: tuple[str, ...] = ()
    """Upstream names that were not in the list before."""
    gone: tuple[str, ...] = ()
    """Upstream names that were in the list before."""
    tried: Millis = Millis(0)
    """When the upstream was asked in vain since; 0: it was not."""
    error: str = ""
    """Why that was in vain."""
