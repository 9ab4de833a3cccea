"""The configuration as one value."""

from gateway.domain.group import Group
from gateway.domain.registry import Change
from tests.core.kit import registry


def test_granted_is_the_sum_of_all_grants() -> None:
    one = registry(granted=5)
    assert one.granted == 5
    assert registry(granted=-7).granted == -7


def test_a_change_puts_or_deletes() -> None:
    put, delete = Change("groups", "home", Group(name="home")), Change("groups", "home", None)
    assert put != delete
    assert put == Change("groups", "home", Group(name="home"))
