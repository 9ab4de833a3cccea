from collections.abc import Callable

import pytest

from gateway.domain.channel import Overrides
from gateway.domain.errors import BadRequest
from gateway.domain.human_values import count_of
from gateway.domain.limits import Limits, Window
from tests.tui.stage import DOLLAR, NOW, budget
from tui import field_values
from tui.field_values import (
    WITH_QUEUE,
    limits_reader,
    limits_text,
    limits_words,
    parameters_command,
    parameters_text,
    prompt_text,
    read_parameters,
    read_prompt,
)


def test_patterns_stand_between_commas_or_spaces() -> None:
    assert field_values.patterns(" a, b* c,,a ") == ["a", "b*", "c"]
    assert field_values.patterns('"m *", b') == ["m *", "b"]
    assert field_values.patterns("*") == []
    assert field_values.patterns("") == []


def test_budgets_are_written_with_their_windows() -> None:
    assert field_values.budgets("day=5 month=50.5 10") == {
        Window.DAY: 5 * DOLLAR,
        Window.MONTH: 50_500_000_000,
        Window.EVER: 10 * DOLLAR,
    }
    assert field_values.budgets("day=none") == {}
    assert field_values.token_budgets("week=1M") == {Window.WEEK: 1_000_000}


def test_what_is_written_of_budgets_reads_back() -> None:
    views = [budget(1, 20), budget(1, 1_200.25, Window.EVER)]
    assert field_values.budgets_text(views) == "month=20 ever=1200.25"
    assert field_values.budgets(field_values.budgets_text(views)) == {
        Window.MONTH: 20 * DOLLAR,
        Window.EVER: 1_200_250_000_000,
    }


def test_budgets_of_both_kinds_become_one_list() -> None:
    bodies = field_values.budget_bodies({Window.DAY: 5}, {Window.DAY: 7, Window.EVER: 9})
    assert bodies == [
        {"window": "day", "nanos": 5, "tokens": 7},
        {"window": "ever", "nanos": None, "tokens": 9},
    ]


@pytest.mark.parametrize("number", [0, 950, 60_000, 1_250_000, 1_234_567])
def test_counts_read_back(number: int) -> None:
    assert count_of(field_values.exact_count(number)) == number
    assert field_values.exact_count(None) == ""


def test_nothing_and_never_are_no_value() -> None:
    for text in ("", " none ", "NEVER"):
        assert field_values.optional(count_of)(text) is None
    assert field_values.optional(count_of)("5") == 5


def test_an_expiry_is_a_span_or_a_date() -> None:
    read = field_values.expiry(lambda: NOW)
    assert read("1h") == NOW + 3_600_000
    assert read("never") is None


def test_whole_numbers_may_be_negative() -> None:
    assert (field_values.integer("-100"), field_values.integer("2k")) == (-100, 2_000)


@pytest.mark.parametrize(
    ("read", "text", "why"),
    [
        (field_values.required, "  ", "required"),
        (field_values.budgets, "year=5", "unknown budget window"),
        (field_values.budgets, "day=x", "not an amount"),
        (field_values.integer, "-x", "not a whole number"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_reason(read: Callable[[str], object], text: str, why: str) -> None:
    with pytest.raises(BadRequest, match=why):
        read(text)


def test_a_line_that_is_left_as_it_is_keeps_the_blanks_at_its_ends() -> None:
    read = field_values.text_line_or_same(" a ")
    assert (read(" a "), read(" b ")) == (" a ", "b")


ODD = ["m bad", "a,b", "it's", 'say "hi" now', '"', "'", '""', "x=y", "a\N{NO-BREAK SPACE}b", "'a' \"b\"", "=", "plain"]
"""Names that can be and that hold what separates others, also used by the tests of forms."""


@pytest.mark.parametrize("first", ODD)
def test_what_is_written_reads_back(first: str) -> None:
    for second in ODD:
        names = list(dict.fromkeys([first, second, "last"]))
        assert field_values.names_of(field_values.names_text(names)) == names
        pair = f"{field_values.quote_name(first, '=')}={field_values.quote_name(second, '=')}"
        before, equals, behind = field_values.split_pair(pair)
        assert (field_values.unquote(before), equals, field_values.unquote(behind)) == (first, "=", second)
        assert field_values.split_words(f"{pair} {pair}") == [pair, pair]


def test_only_what_would_be_taken_apart_has_marks() -> None:
    assert field_values.names_text(["gpt-*", "!x", "org/m:1", "m bad"]) == 'gpt-*, !x, org/m:1, "m bad"'


def test_commas_and_blanks_separate_and_a_mark_within_a_name_is_none() -> None:
    assert field_values.names_of(" a, bob's c,,a ") == ["a", "bob's", "c"]
    assert field_values.names_of("'m bad',x") == ["m bad", "x"]
    assert field_values.names_of("") == []


@pytest.mark.parametrize("text", ['"m bad', 'a, "b"c', "'", '"""'])
def test_a_mark_without_a_second_one_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="quotation mark is missing"):
        field_values.names_of(text)


SOME = Limits(rpm=60, tpm=200_000, concurrent=8)


def test_what_is_not_named_has_no_limit() -> None:
    read = limits_reader()
    assert read("rpm=60, tpm=200k tpd=none") == {
        "rpm": 60,
        "tpm": 200_000,
        "rpd": None,
        "tpd": None,
        "concurrent": None,
        "queue": None,
        "queue_s": None,
        "streams": None,
    }


def test_what_is_written_is_read_again() -> None:
    assert limits_text(SOME) == "rpm=60 tpm=200k concurrent=8"
    assert {name: n for name, n in limits_reader()(limits_text(SOME)).items() if n} == {
        "rpm": 60,
        "tpm": 200_000,
        "concurrent": 8,
    }
    assert limits_reader()("queue=0 queue_s=0")["queue_s"] == 0


@pytest.mark.parametrize("text", ["rps=3", "60", "rpm", "rpm=0", "rpm=many", "streams=3"])
def test_what_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        limits_reader(WITH_QUEUE)(text)


def test_limits_are_said() -> None:
    assert limits_words(SOME) == "60 calls/min, 200k tok/min, 8 concurrent"
    assert limits_words(Limits()) == ""


FOUND = Overrides(
    set={"temperature": 0.2, "user": "a b", "flag": True, "text": "3"},
    default={"max_tokens": 4096, "stop": ["x y"]},
    remove=("logprobs",),
)


def test_parameters_are_read_and_written_the_same() -> None:
    text = parameters_text(FOUND)
    assert text == ("temperature=0.2 'user=a b' flag=true 'text=\"3\"' ?max_tokens=4096 ?'stop=[\"x y\"]' -logprobs")
    assert read_parameters(text) == FOUND
    assert read_parameters(parameters_text(Overrides(remove=("a b",)))) == Overrides(remove=("a b",))


def test_none_are_none() -> None:
    assert read_parameters("  ") == Overrides()
    assert parameters_text(None) == ""


@pytest.mark.parametrize("text", ["temperature", "=1", "?x", "'a=1"])
def test_overrides_that_make_no_sense_are_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        read_parameters(text)


def test_a_prompt_of_several_lines_stands_on_one() -> None:
    assert prompt_text(Overrides(system="one\ntwo")) == "one\\ntwo"
    assert read_prompt(" one\\ntwo ") == "one\ntwo"


def test_the_options_say_all_of_it_anew() -> None:
    new = Overrides(set={"temperature": 1}, remove=("seed",), system="Be brief.", replace_system=True)
    told = " --set-param temperature=1 --remove-param seed --system 'Be brief.' --replace-system"
    assert parameters_command(new, None) == told
    assert parameters_command(new, FOUND) == f" --no-overrides{told}"
    assert parameters_command(Overrides(), FOUND) == " --no-overrides"
    assert parameters_command(FOUND, FOUND) == parameters_command(Overrides(), None) == ""
