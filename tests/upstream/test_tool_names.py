"""Names that do not fit are changed so that they can be changed back."""

import re

import pytest
from hypothesis import given, strategies as st

from gateway.upstream.translation import NameRules
from tests.cases.conversations import call, function
from tests.upstream.makers import order, translated

SPELLING = NameRules(invalid_character=re.compile(r"\A(?![A-Za-z_])|[^A-Za-z0-9_]"), max_length=32)


@pytest.mark.parametrize("name", ["f", "get_weather", "A1"])
def test_valid_names_stay(name: str) -> None:
    assert SPELLING.valid_name(name) == name


@given(st.text(max_size=80))
def test_sent_names_are_valid(name: str) -> None:
    assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,31}", SPELLING.valid_name(name))


@given(st.lists(st.text(max_size=40), unique=True, max_size=20))
def test_two_names_never_become_one(names: list[str]) -> None:
    assert len({SPELLING.valid_name(name) for name in names}) == len(names)


def test_names_come_back() -> None:
    past = {"role": "assistant", "tool_calls": [call("1", "old.one", "{}")]}
    asked = translated({"messages": [past], "tools": [function("dot.ted")], "functions": [{"name": "sp ace"}]})
    originals = ["dot.ted", "sp ace", "old.one"]
    assert [SPELLING.client_name(asked, {}, SPELLING.valid_name(name)) for name in originals] == originals


@pytest.mark.parametrize("name", ["f", "made_up", "ends_in_0123abcd"])
def test_unknown_names_stay(name: str) -> None:
    assert SPELLING.client_name(order(), {}, name) == name


def test_a_request_that_is_not_translated_has_no_names() -> None:
    assert SPELLING.client_name(order({"messages": 3}), {}, "x_0123abcd") == "x_0123abcd"
