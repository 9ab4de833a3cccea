"""Checkup: what the doctor's look at one channel found. See ``domain.views``."""

import msgspec

from gateway.domain.units import Millis
from gateway.domain.views import Step


class Checkup(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the doctor, and the time there."""

    step: Step
    ahead_ms: Millis | None
    """How much later it is by this machine's clock than by the upstream's, to a second; None: it did not tell."""
