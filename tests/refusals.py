"""Refusals: the error with which a bad request ends, as a value."""

from collections.abc import Callable

import pytest

from gateway.domain.errors import BadRequest


def refusal_of(read: Callable[..., object], *args: object, **fields: object) -> BadRequest:
    """What this call raises."""
    with pytest.raises(BadRequest) as caught:
        read(*args, **fields)
    return caught.value
