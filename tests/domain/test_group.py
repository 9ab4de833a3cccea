"""A group's defaults change nothing."""

from gateway.domain.group import Group
from gateway.domain.limits import Limits
from gateway.domain.units import MILLION


def test_a_new_group_shows_all_at_times_one_without_limits() -> None:
    group = Group(name="home")
    assert (group.models, group.multiplier, group.limits, group.budgets) == ((), MILLION, Limits(), ())
