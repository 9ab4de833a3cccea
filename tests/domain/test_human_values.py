"""Counts, multipliers, spans and moments as people write and read them."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from gateway.domain.errors import BadRequest
from gateway.domain.human_values import (
    brief_count,
    brief_multiplier,
    brief_span,
    count_text,
    ended_date,
    expiry_time,
    first_of,
    local_time,
    parse_count,
    parse_date,
    parse_future,
    parse_multiplier,
    parse_past,
    parse_span,
    parse_tier,
    pause_text,
    tier_text,
    zoned_time,
)
from gateway.domain.price import Tier
from gateway.domain.units import DOLLAR, MAX_NUMBER, Millis, Nanos

NOW = Millis(1_763_500_000_000)


@pytest.mark.parametrize(
    ("text", "number"), [("0", 0), ("1_000", 1000), ("250k", 250_000), ("1.5M", 1_500_000), (".5k", 500)]
)
def test_counts_are_read(text: str, number: int) -> None:
    assert parse_count(text) == number


@pytest.mark.parametrize(("text", "number"), [("1", 1_000_000), ("x0.25", 250_000), ("0.000001", 1), (".5", 500_000)])
def test_multipliers_are_read_as_parts_per_million(text: str, number: int) -> None:
    assert parse_multiplier(text) == number


@pytest.mark.parametrize(
    ("text", "ms"), [("250ms", 250), ("90s", 90_000), (".5s", 500), ("1.5h", 5_400_000), ("2w", 1_209_600_000)]
)
def test_spans_are_read(text: str, ms: int) -> None:
    assert parse_span(text) == ms


@pytest.mark.parametrize("reader", [parse_count, parse_multiplier, parse_span, parse_date])
@pytest.mark.parametrize("text", ["", "x", "-1", "1e3", "nan", "0.0000001", "1.5 ", ".", "٣"])
def test_nonsense_is_refused(reader: Callable[[str], int], text: str) -> None:
    if (reader, text) != (parse_multiplier, "1.5 "):
        with pytest.raises(BadRequest, match=r"is not|is neither"):
            reader(text)


@pytest.mark.parametrize(
    ("reader", "most", "more"),
    [
        (parse_count, str(MAX_NUMBER), f"{MAX_NUMBER + 1}"),
        (parse_count, "1000000000B", "1000000001B"),
        (parse_multiplier, "1000", "1000.1"),
    ],
)
def test_what_is_too_much_is_reported_the_most(reader: Callable[[str], int], most: str, more: str) -> None:
    assert reader(most) > 0
    with pytest.raises(BadRequest, match=r"is more than 10+, the most"):
        reader(more)


def test_a_span_goes_back_for_the_past_and_ahead_for_the_future() -> None:
    assert (parse_past("1h", NOW), parse_future("1h", NOW)) == (NOW - 3_600_000, NOW + 3_600_000)


@pytest.mark.parametrize("text", ["0s", "2020-01-01", "2025-11-18T00:00"])
def test_past_times_are_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="is in the past"):
        parse_future(text, NOW)


LATE = parse_date("2025-11-19T14:30")


@pytest.mark.parametrize(
    ("text", "last", "following"),
    [
        ("14:30", "2025-11-19T14:30", "2025-11-20T14:30"),
        ("9:30", "2025-11-19T09:30", "2025-11-20T09:30"),
        ("00:30:15", "2025-11-19T00:30:15", "2025-11-20T00:30:15"),
        ("14:30:01", "2025-11-18T14:30:01", "2025-11-19T14:30:01"),
        (" 23:59 ", "2025-11-18T23:59", "2025-11-19T23:59"),
        ("wednesday", "2025-11-19", "2025-11-20"),
        ("Tue", "2025-11-18", "2025-11-26"),
        ("Sa 14:03", "2025-11-15T14:03", "2025-11-22T14:03"),
        ("14 09:30", "2025-11-14T09:30", "2025-12-14T09:30"),
        ("25 Nov 20:26", "2024-11-25T20:26", "2025-11-25T20:26"),
        ("Nov 5 9:30:15", "2025-11-05T09:30:15", "2026-11-05T09:30:15"),
        ("05 Nov", "2025-11-05", "2026-11-06"),
    ],
)
def test_a_time_of_day_and_a_day_as_the_screens_show_it_are_the_last_or_the_next(
    text: str, last: str, following: str
) -> None:
    assert (parse_past(text, LATE), parse_future(text, LATE)) == (parse_date(last), parse_date(following))


def test_yesterday_has_times_and_a_week_is_from_monday_to_sunday() -> None:
    assert parse_past("yesterday 14:00", LATE) == parse_date("2025-11-18T14:00")
    for text, first, after in (("week", "2025-11-17", "2025-11-24"), ("last week", "2025-11-10", "2025-11-17")):
        assert (parse_past(text, LATE), parse_past(text, LATE, end=True)) == (parse_date(first), parse_date(after))
    assert parse_date("20251119", end=True) == parse_date("2025-11-20")


@pytest.mark.parametrize("text", ["24:00", "14:60", "14", "14:0", "1:2:3", "14:00:60", "m", "31 feb", "month 9:00"])
def test_an_invalid_time_of_day_is_rejected(text: str) -> None:
    with pytest.raises(BadRequest, match="a time such as 14:00"):
        parse_past(text, LATE)


def test_the_end_of_a_date_is_the_midnight_after_it() -> None:
    assert parse_past("2026-11-30", NOW, end=True) == parse_future("2026-11-30", NOW) == parse_date("2026-12-01")


def test_a_time_may_name_its_offset() -> None:
    assert parse_date("2026-11-30T14:00Z", end=True) == 1_796_047_200_000


@pytest.mark.parametrize("text", ["0001-01-01T00:00+23:59", "9999-12-31"])
def test_the_ends_of_the_calendar_do_not_crash(text: str) -> None:
    with suppress(BadRequest):
        assert parse_date(text, end=True)


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [
        (1, "model", "1 model"),
        (1_000, "model", "1,000 models"),
        (0, "call", "0 calls"),
        (1, "requests a minute", "1 request a minute"),
        (60, "requests a minute", "60 requests a minute"),
        (2, "try", "2 tries"),
        (1, "tries", "1 try"),
        (2, "day", "2 days"),
    ],
)
def test_counts_have_their_noun(number: int, noun: str, text: str) -> None:
    assert count_text(number, noun) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (950, "950"), (12_345, "12.3k"), (100_000, "100k"), (999_999, "1M"), (1_250_000, "1.25M")],
)
def test_brief_counts_have_three_digits(number: int, text: str) -> None:
    assert brief_count(number) == text


@pytest.mark.parametrize(("number", "text"), [(1_000_000, "x1"), (1_500_000, "x1.5"), (10_000_000, "x10")])
def test_a_multiplier_has_no_needless_zeros(number: int, text: str) -> None:
    assert brief_multiplier(number) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "0ms"), (999, "999ms"), (1_250, "1.25s"), (12_500, "12.5s"), (125_000, "2m05s"), (367_200_000, "4d06h")],
)
def test_brief_spans_have_two_units(ms: int, text: str) -> None:
    assert brief_span(ms) == text


def test_local_time_reads_back() -> None:
    assert parse_date(local_time(NOW)) == NOW


def test_the_end_of_a_day_is_named_by_that_day() -> None:
    end = parse_future("2030-12-31", NOW)
    assert expiry_time(end) == "end of 2030-12-31"
    assert parse_future(ended_date(end), NOW) == end
    assert expiry_time(end + 1_000) == "2031-01-01 00:00:01"
    assert ended_date(end + 1_000) == ""


def test_zoned_time_says_where_its_clock_stands() -> None:
    assert parse_date(zoned_time(NOW)) == NOW
    assert zoned_time(NOW).startswith(local_time(NOW))


@pytest.mark.parametrize(
    ("text", "cached", "write"),
    [
        ("200k=6/22.50", None, None),
        ("200k=6/22.50/0.60", 600_000_000, None),
        ("200k=6/22.50/0.60/7.50", 600_000_000, 7_500_000_000),
    ],
)
def test_a_tier_is_read_and_written_the_same(text: str, cached: int | None, write: int | None) -> None:
    tier = parse_tier(text)
    assert (tier.above, tier.input, tier.output) == (200_000, 6 * DOLLAR, 22_500_000_000)
    assert (tier.cached_input, tier.cache_write) == (cached, write)
    assert tier_text(tier) == text


def test_no_digit_of_a_threshold_is_lost() -> None:
    assert tier_text(Tier(above=128_001, input=Nanos(0), output=Nanos(DOLLAR))) == "128001=0/1"


def test_a_cache_write_price_brings_the_cached_one_with_it() -> None:
    tier = Tier(above=1000, input=Nanos(DOLLAR), output=Nanos(0), cache_write=Nanos(2 * DOLLAR))
    assert tier_text(tier) == "1k=1/0/1/2"


@pytest.mark.parametrize("text", ["6/22", "200k=6", "200k=", "x=1/2", "200k=1/2/3/4/5/6"])
def test_wrong_tiers_are_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        parse_tier(text)


def test_days_have_names() -> None:
    noon = parse_date("2026-11-30T12:00")
    assert parse_past("today", noon) == parse_date("2026-11-30")
    assert parse_past("Yesterday", noon) == parse_date("2026-11-29")
    assert parse_past("yesterday", noon, end=True) == parse_date("2026-11-30")
    assert parse_future("today", noon) == parse_date("2026-12-01")
    assert parse_future("tomorrow", noon) == parse_date("2026-12-02")
    with pytest.raises(BadRequest, match="is in the past"):
        parse_future("yesterday", noon)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (29.6, "30 s"), (99, "99 s"), (125, "2m05s"), (3599, "59m59s")]
)
def test_a_time_to_wait_is_not_to_be_divided_by_hand(seconds: float, text: str) -> None:
    assert pause_text(seconds) == text


def test_the_first_of_many_texts_are_named_and_the_others_counted() -> None:
    texts = ["a", "b", "c"]
    assert [first_of(texts, most) for most in (1, 2, 3, 4)] == ["a and 2 more", "a, b and 1 more", "a, b, c", "a, b, c"]
    assert first_of([], 3) == ""


def test_a_month_is_from_its_first_day_to_its_last() -> None:
    assert (parse_past("2026-11", NOW), parse_past("2026-11", NOW, end=True)) == (
        parse_date("2026-11-01"),
        parse_date("2026-12-01"),
    )
    noon = parse_date("2026-12-30T12:00")
    assert (parse_past("month", noon), parse_past("month", noon, end=True)) == (
        parse_date("2026-12-01"),
        parse_date("2027-01-01"),
    )
    january = parse_date("2027-01-31T12:00")
    for words in ("last-month", "Last month"):
        assert (parse_past(words, january), parse_past(words, january, end=True)) == (
            parse_date("2026-12-01"),
            parse_date("2027-01-01"),
        )
    with pytest.raises(BadRequest, match="is not a time"):
        parse_past("2026-13", NOW)
