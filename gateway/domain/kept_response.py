"""KeptResponse: a response that its client may continue or fetch again."""

from collections.abc import Mapping

import msgspec


class KeptResponse(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A response and its request's input."""

    id: str
    previous: str
    """The id of the response that it continues; empty if none."""
    input: bytes
    """The new input of its request, as JSON values with commas between them."""
    elsewhere: bool = False
    """Whether its upstream may have it too, so that ``previous_response_id`` is passed on."""
    body: bytes
    """The response as it was sent."""
    items: Mapping[str, msgspec.Raw]
    """Its output items by id, in order. They are slices of ``body`` and take no memory of their own."""

    @property
    def size(self) -> int:
        """Returns the bytes that it takes in memory, about 1 KiB more than its content."""
        return len(self.input) + len(self.body) + 1024
