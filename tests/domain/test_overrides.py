"""What an owner may change in every request."""

import pytest

from gateway.domain.channel import SYSTEM_LIMIT, Overrides, check_overrides
from gateway.domain.errors import BadRequest


@pytest.mark.parametrize(
    "bad",
    [
        Overrides(set={"model": "x"}),
        Overrides(default={"stream": True}),
        Overrides(remove=("messages",)),
        Overrides(set={"": 1}),
        Overrides(set={" a": 1}),
        Overrides(set={"a\x1b": 1}),
        Overrides(set={"seed": 1}, default={"seed": 2}),
        Overrides(set={"seed": 1}, remove=("seed",)),
        Overrides(system="x" * (SYSTEM_LIMIT + 1)),
        Overrides(replace_system=True),
    ],
)
def test_senseless_overrides_are_refused(bad: Overrides) -> None:
    with pytest.raises(BadRequest) as caught:
        check_overrides(bad)
    assert caught.value.param == "overrides"


def test_good_ones_are_not() -> None:
    check_overrides(
        Overrides(set={"a": None}, default={"b": [1]}, remove=("b", "c"), system="Be brief.", replace_system=True)
    )
    assert not Overrides()
    assert Overrides(system="x")
