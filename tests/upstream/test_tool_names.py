"""Names that do not fit are changed so that they can be changed back."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.upstream.translation import Spelling, ToolNames
from tests.cases.conversations import call, function
from tests.upstream.makers import order, translated

SPELLING = Spelling(
    fit=re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,31}"), odd=re.compile(r"[^A-Za-z0-9_]"), limit=32, first="_"
)


@pytest.mark.parametrize("name", ["f", "get_weather", "A1"])
def test_what_fits_stays(name: str) -> None:
    assert SPELLING.sent(name) == name


@given(st.text(max_size=80))
def test_what_is_sent_fits(name: str) -> None:
    assert SPELLING.fit.fullmatch(SPELLING.sent(name))


@given(st.lists(st.text(max_size=40), unique=True, max_size=20))
def test_two_names_never_become_one(names: list[str]) -> None:
    assert len({SPELLING.sent(name) for name in names}) == len(names)


def test_names_come_back() -> None:
    past = {"role": "assistant", "tool_calls": [call("1", "old.one", "{}")]}
    asked = translated({"messages": [past], "tools": [function("dot.ted")], "functions": [{"name": "sp ace"}]})
    names = ToolNames(asked, SPELLING)
    assert [names.back(SPELLING.sent(n)) for n in ("dot.ted", "sp ace", "old.one")] == ["dot.ted", "sp ace", "old.one"]


@pytest.mark.parametrize("name", ["f", "made_up", "ends_in_0123abcd"])
def test_what_was_never_sent_stays(name: str) -> None:
    assert ToolNames(order(), SPELLING).back(name) == name


def test_a_request_that_is_not_translated_has_no_names() -> None:
    assert ToolNames(order({"messages": 3}), SPELLING).back("x_0123abcd") == "x_0123abcd"
