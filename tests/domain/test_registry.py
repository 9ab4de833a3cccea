"""The configuration as one value."""

from tests.core.kit import registry


def test_granted_is_the_sum_of_all_grants() -> None:
    one = registry(granted=5)
    assert one.granted == 5
    assert registry(granted=-7).granted == -7
