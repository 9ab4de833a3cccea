"""Fallback: other models that may answer when no channel can serve the asked one. Pure.

Which ones is worked out when the configuration changes. What is held covers the dearest of them; what is charged is
the price of the one that answered.
"""

import re
from collections.abc import Sequence
from typing import Protocol

from gateway.domain.call import FailureKind
from gateway.domain.errors import UpstreamError
from gateway.domain.group import Fallback
from gateway.domain.patterns import matches

_TOO_LONG = re.compile(
    r"context[_ ](?:length|window|size)|maximum context|prompt is too long|too many tokens", re.IGNORECASE
)


class Entry(Protocol):
    """A model, as far as it is looked at here."""

    @property
    def name(self) -> str: ...

    @property
    def context(self) -> int | None: ...


def models_after(model: str, fallbacks: Sequence[Fallback]) -> tuple[str, ...]:
    """The models that may answer for this one, in order: those of the first rule that fits."""
    for fallback in fallbacks:
        if matches(model, (fallback.model,)):
            return tuple(name for name in fallback.to if name != model)
    return ()


def helps(failure: UpstreamError, asked: Entry, other: Entry) -> bool:
    """Whether another model may answer after such a failure: not if the request is at fault, unless it is too long."""
    if failure.kind is not FailureKind.CLIENT or not failure.sent:
        return True
    longer = other.context is not None and (asked.context is None or other.context > asked.context)
    return longer and bool(_TOO_LONG.search(f"{failure.code} {failure.message}"))
