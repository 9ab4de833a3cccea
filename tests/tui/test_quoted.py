import pytest

from gateway.domain.errors import BadRequest
from tui import field_values

ODD = ["m bad", "a,b", "it's", 'say "hi" now', '"', "'", '""', "x=y", "a\N{NO-BREAK SPACE}b", "'a' \"b\"", "=", "plain"]
"""Names that can be and that hold what separates others, also used by the tests of forms."""


@pytest.mark.parametrize("first", ODD)
def test_what_is_written_reads_back(first: str) -> None:
    for second in ODD:
        names = list(dict.fromkeys([first, second, "last"]))
        assert field_values.names_of(field_values.names_text(names)) == names
        pair = f"{field_values.quote_name(first, '=')}={field_values.quote_name(second, '=')}"
        before, equals, behind = field_values.sides(pair)
        assert (field_values.bare(before), equals, field_values.bare(behind)) == (first, "=", second)
        assert field_values.spaced(f"{pair} {pair}") == [pair, pair]


def test_only_what_would_be_taken_apart_has_marks() -> None:
    assert field_values.names_text(["gpt-*", "!x", "org/m:1", "m bad"]) == 'gpt-*, !x, org/m:1, "m bad"'


def test_commas_and_blanks_separate_and_a_mark_within_a_name_is_none() -> None:
    assert field_values.names_of(" a, bob's c,,a ") == ["a", "bob's", "c"]
    assert field_values.names_of("'m bad',x") == ["m bad", "x"]
    assert field_values.names_of("") == []


@pytest.mark.parametrize("text", ['"m bad', 'a, "b"c', "'", '"""'])
def test_a_mark_without_a_second_one_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="has no second one"):
        field_values.names_of(text)
