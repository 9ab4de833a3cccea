import pytest

from tests.tui.stage import DOLLAR, NOW
from tui import format as fmt


@pytest.mark.parametrize(
    ("nanos", "text"),
    [
        (0, "$0"),
        (1, "<$0.00001"),
        (500, "$0.000001"),
        (57_400, "$0.000057"),
        (999_999, "$0.001000"),
        (1_000_000, "$0.0010"),
        (16_049_999, "$0.0160"),
        (16_050_000, "$0.0161"),
        (12 * DOLLAR, "$12.0000"),
        (123 * DOLLAR + 5_000_000, "$123.01"),
        (-2 * DOLLAR, "-$2.0000"),
    ],
)
def test_costs_fit_a_column(nanos: int, text: str) -> None:
    assert fmt.cost(nanos) == text


def test_a_balance_is_shown_in_cents() -> None:
    assert fmt.dollar_amount(12 * DOLLAR + 4_400_000) == "$12.00"
    assert fmt.dollar_amount(12 * DOLLAR + 5_000_000) == "$12.01"
    assert fmt.dollar_amount(-DOLLAR) == "-$1.00"
    assert fmt.dollar_amount(752_000) == "$0.000752"


def test_durations_have_six_cells_at_most() -> None:
    assert [fmt.duration(ms) for ms in (None, 4, 610, 19_350, 125_000)] == ["·", "4ms", "0.61s", "19.35s", "2m05s"]


def test_counts_show_all_digits_up_to_a_million() -> None:
    assert [fmt.count(n) for n in (0, 3_455, 999_999, 1_250_000)] == ["0", "3,455", "999,999", "1.25M"]
    assert fmt.brief_count(12_300) == "12.3k"


def test_shares_are_per_cent() -> None:
    parts = (0, 0.021, 0.0994, 0.0997, 0.97, 0.998, 1)
    assert [fmt.percent(part) for part in parts] == ["0%", "2.1%", "9.9%", "10%", "97%", "99%", "100%"]


def test_ages_have_one_unit() -> None:
    ages = [fmt.age(ms) for ms in (0, 14_000, 120_000, 3 * 3_600_000, 9 * 86_400_000)]
    assert ages == ["now", "14s", "2m", "3h", "9d"]


def test_a_countdown_never_goes_below_nothing() -> None:
    assert [fmt.countdown(NOW, NOW + ms) for ms in (-5, 1, 13_001, 125_000)] == ["0s", "1s", "14s", "2m05s"]


def test_moments_are_local() -> None:
    assert fmt.moment(NOW, NOW) == "14:13:20"
    assert fmt.moment(NOW - 86_400_000, NOW) == "20 Sep 14:13"
    assert fmt.moment(NOW - 400 * 86_400_000, NOW) == "17 Aug 2025"
    day = 86_400_000
    brief = [fmt.brief_moment(NOW - days * day, NOW) for days in (0, 2, 6, 7, 19, 28, 400)]
    assert brief == ["14:13:20", "Sa 14:13", "Tu 14:13", "14 14:13", " 2 14:13", "24 Aug", "Aug 2025"]
    assert fmt.day(NOW) == "21 Sep"


def test_prices_have_no_needless_zeros() -> None:
    prices = [fmt.price(n) for n in (None, 0, 3 * DOLLAR, DOLLAR // 4, 28_000_000)]
    assert prices == ["·", "0", "3", "0.25", "0.028"]


def test_nouns_agree_with_their_number() -> None:
    assert [fmt.count_text(number, "call") for number in (0, 1, 3_455)] == ["0 calls", "1 call", "3,455 calls"]


def test_a_channels_state_is_one_family_of_words() -> None:
    states = [("ok", None), ("off", None), ("half_open", None), ("attention", None), ("cooling", None)]
    assert [fmt.channel_state(*state) for state in states] == ["ok", "off", "retrying", "needs attention", "paused"]
    assert fmt.channel_state("cooling", NOW + 14_000, NOW) == "paused 14s"
    assert fmt.channel_state("cooling", NOW, NOW) == "retrying"
    assert fmt.channel_state("cooling", NOW + 720_000, NOW).startswith("paused until ")


def test_the_words_of_a_command_are_quoted_for_a_shell() -> None:
    command = fmt.cli_command("token", "add", "my box", models="gpt-*", note=None)
    assert command == "token add 'my box' --models 'gpt-*'"
