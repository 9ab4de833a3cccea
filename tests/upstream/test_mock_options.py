"""The options of a mock channel are known, and so is what their values mean."""

import pytest

from gateway.domain.errors import BadRequest
from gateway.upstream.mock import MEANINGS, MockPlan, MockRequest, Option, check_options, plan_of, with_stored_names

GOOD: dict[str, Option] = {
    "latency": 200.5,
    "speed": 50,
    "status": 503,
    "auth": True,
    "retry-after": "2",
    "cut": 3,
    "silence": 0,
    "no-usage": True,
    "bad_json": True,
    "html": True,
}


def test_each_option_does_something() -> None:
    assert {name.replace("-", "_") for name in GOOD} == set(MEANINGS)
    check_options(GOOD)
    for name, value in GOOD.items():
        assert plan_of({name: value}, MockRequest()) != MockPlan(), name


@pytest.mark.parametrize("name", ["nope", "", "500", "latency\x1b"])
def test_an_unknown_option_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(BadRequest, match="latency, speed, status") as caught:
        check_options({name: 1})
    assert caught.value.message.isprintable()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("latency", value) for value in (-5, "abc", "nan", True, 10**18, float("nan"))),
        *(("status", value) for value in (201, 600, "500", 503.5)),
        *(("cut", value) for value in (1.5, -1, True)),
        *(("auth", 1), ("html", "yes"), ("retry_after", ""), ("retry_after", -1)),
    ],
)
def test_a_value_without_a_meaning_is_refused_with_the_meaning(name: str, value: Option) -> None:
    with pytest.raises(BadRequest, match=f"{name} is ") as caught:
        check_options({name: value})
    assert caught.value.param == "options"


def test_options_are_stored_under_one_spelling() -> None:
    assert with_stored_names({"no-usage": True, "cut": 3, "no_usage": False}) == {"no_usage": False, "cut": 3}
