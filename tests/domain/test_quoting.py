"""Lists of names and pairs on one line: what is written is read again."""

import pytest

from gateway.domain import quoting
from gateway.domain.channel import ChannelFields, ServedModel
from gateway.domain.errors import BadRequest
from tests.domain.field_samples import ODD
from tests.refusals import refusal_of


@pytest.mark.parametrize("first", ODD)
def test_quoted_names_read_back(first: str) -> None:
    for second in ODD:
        names = list(dict.fromkeys([first, second, "last"]))
        assert quoting.parse_names(quoting.names_text(names)) == names
        pair = f"{quoting.quote_name(first, '=')}={quoting.quote_name(second, '=')}"
        assert quoting.model_pair(pair) == (first, second)


def test_only_what_would_be_taken_apart_has_marks() -> None:
    assert quoting.names_text(["gpt-*", "!x", "org/m:1", "m bad"]) == 'gpt-*, !x, org/m:1, "m bad"'


def test_commas_and_blanks_separate_and_a_mark_within_a_name_is_none() -> None:
    assert quoting.parse_names(" a, bob's c,,a ") == ["a", "bob's", "c"]
    assert quoting.parse_names("'m bad',x") == ["m bad", "x"]
    assert quoting.parse_names("") == []


@pytest.mark.parametrize("text", ['"m bad', 'a, "b"c', "'", '"""'])
def test_a_mark_without_a_second_one_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="quotation mark is missing"):
        quoting.parse_names(text)


def test_an_option_cannot_hold_every_name() -> None:
    assert quoting.option_text(["a b", "c"]) == "a b,c"
    with pytest.raises(BadRequest, match="contains a comma"):
        quoting.option_text(["a,b"])


@pytest.mark.parametrize("text", ["x", "=x", ""])
def test_half_a_pair_is_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        quoting.option_pair(text)


@pytest.mark.parametrize(
    ("text", "shown"), [("Authorization: Bearer sk-1", "'Authorization…'"), ("sk-secret", "'sk-s…'"), ("X", "'X'")]
)
def test_possible_secrets_are_not_repeated(text: str, shown: str) -> None:
    assert refusal_of(quoting.option_pair, text).message == f"{shown} is not of the form NAME=VALUE"


def test_names_of_an_option_are_separated_by_commas_or_given_again() -> None:
    assert quoting.option_names(("a, b", "c", "a", ",")) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("text", "found"),
    [("a", ("a", "")), ("a=b", ("a", "b")), ("a = b", ("a", "b")), ('"a=b"', ("a=b", "")), ('a="b c"', ("a", "b c"))],
)
def test_a_model_may_have_another_name_at_the_upstream(text: str, found: tuple[str, str]) -> None:
    assert quoting.model_pair(text) == found


@pytest.mark.parametrize("text", ["a=", "=b", "="])
def test_half_a_mapping_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="name=upstream-name"):
        quoting.model_pair(text)


A, B = ServedModel(name="a"), ServedModel(name="own", upstream="b")
G1, G2 = (ServedModel(name=name, live=True) for name in ("g1", "g2"))


@pytest.mark.parametrize(
    ("models", "patterns", "add", "remove", "words"),
    [
        ((A, B), (), "c", "a", "own=b c"),
        ((A, B), (), "b c", "", "a own=b c"),  # one that is offered already keeps its name
        ((G1, G2), ("g*", "!g3"), "g3", "g2", "g* !g2"),
        ((G1,), ("g*", "!x"), "x", "", "x g*"),  # no pattern selects it
        ((A, G1), ("*",), "", "a", "* !a"),
        ((B, G1, G2), ("g*",), "", "own", "g*"),
        ((ServedModel(name="fast", upstream="g1"), G1), ("g*",), "", "fast", "g*"),  # still offered as g1
        ((A, B), (), "", "a own", ""),
        ((G1,), ("!x",), "x", "", "*"),
    ],
)
def test_a_changed_offering_names_only_what_patterns_do_not_select(
    models: tuple[ServedModel, ...], patterns: tuple[str, ...], add: str, remove: str, words: str
) -> None:
    channel = ChannelFields(name="x", models=models, patterns=patterns)
    changed = quoting.change_offering(channel, add=add.split(), remove=set(remove.split()))
    assert " ".join(quoting.offering_words(changed)) == words
