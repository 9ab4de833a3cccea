"""KeptResponse: a response that its client may continue or fetch again."""

from collections.abc import Mapping

import msgspec


class KeptResponse(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A response and its request's input."""

    id: str
    previous: str
    """The response that it continued, or empty."""
    input: bytes
    """The new input of its request: JSON values with commas between them."""
    elsewhere: bool = False
    """Whether its upstream may keep it, so that ``previous_response_id`` is left to the upstream."""
    body: bytes
    """The response as it was sent."""
    items: Mapping[str, msgspec.Raw]
    """Its output in order, by item ids: parts of ``body``, which take no memory of their own."""

    @property
    def size(self) -> int:
        """Returns the bytes that it takes."""
        # what each takes beside its content
        return len(self.input) + len(self.body) + 1024
