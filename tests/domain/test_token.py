"""Whether a token may be used now."""

import pytest

from gateway.domain.token import Token, TokenState, state_of
from gateway.domain.units import Millis, TokenId


def token(**fields: object) -> Token:
    return Token(id=TokenId("tok_1"), name="laptop", group="home", digest="", hint="", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({}, TokenState.ACTIVE),
        ({"expires": 101}, TokenState.ACTIVE),
        ({"expires": 100}, TokenState.EXPIRED),
        ({"expires": 0}, TokenState.EXPIRED),
        ({"enabled": False}, TokenState.DISABLED),
        ({"enabled": False, "expires": 1}, TokenState.DISABLED),
    ],
)
def test_a_tokens_state(fields: dict[str, object], state: TokenState) -> None:
    assert state_of(token(**fields), Millis(100)) is state
