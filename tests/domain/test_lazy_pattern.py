"""Patterns that are compiled at their first use."""

import re

import pytest

from gateway.domain.lazy_pattern import lazy_pattern


def test_has_the_members_of_the_compiled_pattern() -> None:
    pattern = lazy_pattern(r"(\d+) apples", re.IGNORECASE)
    found = pattern.search("there are 12 Apples")
    assert found is not None
    assert found[1] == "12"
    assert pattern.sub("none", "3 APPLES") == "none"
    assert pattern.pattern == r"(\d+) apples"


def test_nothing_is_compiled_before_the_first_use() -> None:
    broken = lazy_pattern("(")
    with pytest.raises(re.error):
        broken.search("")
