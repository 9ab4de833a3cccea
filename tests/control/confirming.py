"""A client whose owner confirms everything."""

from copy import copy

from gateway.client.control import ControlClient
from gateway.domain.history import Question


def confirming(client: ControlClient) -> ControlClient:
    """A copy of the client that confirms what the server asks."""

    async def confirm(_: Question) -> bool:
        return True

    other = copy(client)
    other.confirm = confirm
    return other
