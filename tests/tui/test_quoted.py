import pytest

from gateway.domain.errors import BadRequest
from tui import quoted

ODD = ["m bad", "a,b", "it's", 'say "hi" now', '"', "'", '""', "x=y", "a\N{NO-BREAK SPACE}b", "'a' \"b\"", "=", "plain"]
"""Names that can be and that hold what separates others, also used by the tests of forms."""


@pytest.mark.parametrize("first", ODD)
def test_what_is_written_reads_back(first: str) -> None:
    for second in ODD:
        names = list(dict.fromkeys([first, second, "last"]))
        assert quoted.listed(quoted.written(names)) == names
        pair = f"{quoted.quoted(first, '=')}={quoted.quoted(second, '=')}"
        before, equals, behind = quoted.sides(pair)
        assert (quoted.bare(before), equals, quoted.bare(behind)) == (first, "=", second)
        assert quoted.spaced(f"{pair} {pair}") == [pair, pair]


def test_only_what_would_be_taken_apart_has_marks() -> None:
    assert quoted.written(["gpt-*", "!x", "org/m:1", "m bad"]) == 'gpt-*, !x, org/m:1, "m bad"'


def test_commas_and_blanks_separate_and_a_mark_within_a_name_is_none() -> None:
    assert quoted.listed(" a, bob's c,,a ") == ["a", "bob's", "c"]
    assert quoted.listed("'m bad',x") == ["m bad", "x"]
    assert quoted.listed("") == []


@pytest.mark.parametrize("text", ['"m bad', 'a, "b"c', "'", '"""'])
def test_a_mark_without_a_second_one_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="has no second one"):
        quoted.listed(text)
