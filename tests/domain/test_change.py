"""Changes are values that can be kept and compared."""

from gateway.domain.group import Group
from gateway.domain.registry import Change


def test_a_change_puts_or_deletes() -> None:
    put, delete = Change("groups", "home", Group(name="home")), Change("groups", "home", None)
    assert put != delete
    assert put == Change("groups", "home", Group(name="home"))
