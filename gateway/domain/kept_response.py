"""KeptResponse: a response that its client may go on from, or fetch again."""

from collections.abc import Mapping

import msgspec

OVERHEAD = 1024
"""Bytes that each takes beside its content."""


class KeptResponse(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A response, and what it answered."""

    id: str
    previous: str
    """The response that it went on from, or empty."""
    input: bytes
    """What was new in its request: JSON values with commas between them."""
    elsewhere: bool = False
    """Its upstream may keep it: ``previous_response_id`` is left to it."""
    body: bytes
    """The response as it was sent."""
    items: Mapping[str, msgspec.Raw]
    """Its output, in its order, by the ids of the items: parts of ``body``, which take no memory of their own."""

    @property
    def size(self) -> int:
        """Bytes that it takes."""
        return len(self.input) + len(self.body) + OVERHEAD
