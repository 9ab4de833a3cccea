"""Sums by value and over time, of all calls and of those that words and options pick."""

import csv
import io
import time
from datetime import datetime, timedelta
from urllib.parse import parse_qs

import pytest
from msgspec.structs import replace

from gateway.commands.exit_codes import Exit
from gateway.domain.budget import Window, window_start
from gateway.domain.human_values import local_time
from gateway.domain.units import Millis, Nanos
from gateway.domain.views import Point
from tests.commands.runner import Control, run
from tests.commands.samples import MODEL, NOW, SUMMARY, sum_row, timed_row


def test_sums_have_a_total() -> None:
    ran = run("usage", "summary", "--by", "token", answers={"GET /usage": SUMMARY})
    assert [line.split()[0] for line in ran.out.splitlines()] == ["Token", "cheap", "dear", "total"]
    assert ran.out.splitlines()[-1].split()[-1] == "$0.005"


def test_percentiles_are_shown_beside_averages() -> None:
    control = Control({"GET /usage": replace(SUMMARY, rows=[timed_row("m")])})
    heads, row, *_ = run("usage", "summary", control=control).out.splitlines()
    assert "percentiles=true" in control.asked[0][0]
    assert heads.split()[-7:] == ["Duration", "p50", "p95", "First", "p50", "p95", "Cost"]
    assert row.split()[-7:-1] == ["1.25s", "900ms", "3.10s", "300ms", "250ms", "700ms"]


def test_refused_calls_are_in_no_average() -> None:
    rows = [replace(sum_row("m", calls=4), refused=1), replace(sum_row("none", calls=2), refused=2, first_byte_ms=0)]
    lines = run("usage", "summary", answers={"GET /usage": replace(SUMMARY, rows=rows)}).out.splitlines()
    assert [line.split()[6] for line in lines[1:3]] == ["1.25s", "-"]


def test_the_last_thirty_days_are_summed_unless_said() -> None:
    control = Control({"GET /usage": SUMMARY})
    run("usage", "summary", control=control)
    run("usage", "summary", "--since", "2026-11-01T00:00Z", control=control)
    assert "by=model&since=" in control.asked[0][0]
    assert "since=1793491200000" in control.asked[1][0]


def test_the_api_has_the_same_head_as_in_the_list() -> None:
    assert run("usage", "summary", "--by", "api", answers={"GET /usage": SUMMARY}).out.startswith("API ")


PAIRS = replace(
    SUMMARY,
    rows=[
        replace(sum_row("a|x", calls=2), key="tok_1|gpt-4o", name="=laptop|gpt-4o"),
        replace(sum_row("b|x", calls=1), key="tok_2|a|b", name="ci|a|b", cost_nanos=Nanos(1_234_567_891)),
    ],
)


@pytest.mark.parametrize("by", [("--by", "token,model"), ("--by", "model", "--by", "token")])
def test_tokens_and_models_go_together(by: tuple[str, ...]) -> None:
    control = Control({"GET /usage": PAIRS})
    heads, *lines = run("usage", "summary", *by, control=control).out.splitlines()
    assert "by=token%7Cmodel&" in control.asked[0][0]
    assert heads.split()[:3] == ["Token", "Model", "Calls"]
    assert [line.split()[:2] for line in lines[:2]] == [["=laptop", "gpt-4o"], ["ci", "a|b"]]
    assert lines[2].startswith("total")
    found = run("usage", "summary", *by, "--json", control=control).json
    assert (found["by"], [row["name"] for row in found["rows"]]) == ("token,model", ["=laptop|gpt-4o", "ci|a|b"])


def test_csv_is_exact_and_harmless_and_without_a_total() -> None:
    ran = run("usage", "summary", "--by", "token,model", "--csv", answers={"GET /usage": PAIRS})
    rows = list(csv.DictReader(io.StringIO(ran.out)))
    assert [(row["token"], row["model"], row["calls"]) for row in rows] == [
        ("'=laptop", "gpt-4o", "2"),
        ("ci", "a|b", "1"),
    ]
    assert rows[1]["cost_dollars"] == "1.234567891"
    both = run("usage", "summary", "--csv", "--json", answers={})
    assert (both.code, "cannot be combined" in both.err) == (Exit.USAGE, True)


def test_days_go_with_another_dimension() -> None:
    day = window_start(Window.DAY, NOW)
    points = [
        Point(start_ms=day, key=name, row=replace(sum_row(name, calls=1), key=name, cost_nanos=Nanos(cost)))
        for name, cost in (("cheap", 1), ("dear", 9))
    ]
    control = Control({"GET /usage": replace(SUMMARY, rows=[], series=points)})
    lines = run("usage", "summary", "--by", "model", "--by", "day", control=control).out.splitlines()
    assert "by=model&" in control.asked[0][0]
    assert "&step=day&" in control.asked[0][0]
    assert lines[0].split()[:2] == ["Day", "Model"]
    assert [line.split()[:2] for line in lines[1:3]] == [[local_time(day)[:10], name] for name in ("dear", "cheap")]


@pytest.mark.parametrize("by", ["token,group", "day,hour", "token,model,day", "vendor", ""])
def test_dimensions_that_do_not_go_together_are_refused(by: str) -> None:
    ran = run("usage", "summary", "--by", by, answers={})
    assert (ran.code, ran.asked, ran.err.count("\n")) == (Exit.USAGE, [], 1)


def test_spans_of_time_are_named_by_their_beginning() -> None:
    points = [Point(start_ms=Millis(NOW + n * 3_600_000), key="", row=sum_row("", calls=n)) for n in range(3)]
    control = Control({"GET /usage": replace(SUMMARY, rows=[], series=points)})
    lines = run("usage", "summary", "--by", "hour", control=control).out.splitlines()
    assert [line[:16] for line in lines[1:3]] == [local_time(point.start_ms)[:16] for point in points[1:]]
    assert len(lines) == 4


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo"])
def test_a_day_of_the_server_has_its_name_in_any_zone(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    midnight = Millis(1_763_510_400_000)  # 2025-11-19 00:00 UTC
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        points = [Point(start_ms=midnight, key="", row=sum_row("", calls=2))]
        control = Control({"GET /usage": replace(SUMMARY, series=points)})
        assert "2025-11-19" in run("usage", "summary", "--by", "day", control=control).out
    finally:
        monkeypatch.undo()
        time.tzset()


def test_refusals_without_a_record_are_explained() -> None:
    total = replace(SUMMARY.total, repeats=2)
    ran = run("usage", "summary", answers={"GET /usage": replace(SUMMARY, total=total)})
    assert "2 refused calls came right after an identical one" in ran.err


def test_the_json_is_the_view() -> None:
    ran = run("usage", "summary", "--json", answers={"GET /usage": SUMMARY})
    assert list(ran.json) == list(SUMMARY.__struct_fields__)


def test_months_are_those_of_the_last_year_and_named_by_their_number() -> None:
    point = Point(start_ms=window_start(Window.MONTH, NOW), key="", row=sum_row("", calls=2))
    ran = run("usage", "summary", "--by", "month", answers={"GET /usage": replace(SUMMARY, series=[point])})
    assert ran.out.splitlines()[1].split()[:2] == [local_time(NOW)[:7], "2"]
    asked = parse_qs(ran.asked[0][0].partition("?")[2])
    since = datetime.fromtimestamp(int(asked["since"][0]) / 1000).astimezone()
    assert (asked["step"], "by" in asked, since.day, since.hour) == (["month"], False, 1, 0)
    assert timedelta(days=364) < datetime.now().astimezone() - since < timedelta(days=398)


@pytest.mark.parametrize(
    ("by", "step"), [("month", "01 00:00:00"), ("day", "00:00:00"), ("hour", "00:00"), ("token", "")]
)
def test_the_first_row_of_sums_over_time_is_of_a_whole_day_or_hour(by: str, step: str) -> None:
    ran = run("usage", "summary", "--by", by, "--since", "2026-11-16 06:28:30", answers={"GET /usage": SUMMARY})
    ((asked, _),) = ran.asked
    since = int(parse_qs(asked.partition("?")[2])["since"][0])
    assert local_time(since) == "2026-11-16 06:28:30"[: len("2026-11-16 06:28:30") - len(step)] + step


def test_sums_over_time_have_rows_as_all_others() -> None:
    points = [Point(start_ms=Millis(NOW - hours * 3_600_000), key="", row=SUMMARY.total) for hours in (1, 0)]
    answer = replace(SUMMARY, by="", rows=[], series=points)
    found = run("usage", "summary", "--by", "hour", "--json", answers={"GET /usage": answer}).json
    assert (found["by"], [row["key"] for row in found["rows"]]) == ("hour", [str(point.start_ms) for point in points])
    assert [len(row["name"]) for row in found["rows"]] == [len("2026-11-20 22:00")] * 2
    assert len(found["series"]) == 2


def test_words_and_options_pick_calls() -> None:
    control = Control({"GET /usage": SUMMARY})
    given = ("--token", "laptop", "--errors", "--since", "2026-11-01T00:00Z", "model:gpt-*", "until:2026-11-02T00:00Z")
    assert run("usage", "summary", *given, control=control).code == 0
    asked = parse_qs(control.asked[0][0].partition("?")[2])
    assert asked == {
        "by": ["model"],
        "since": ["1793491200000"],
        "until": ["1793577600000"],
        "percentiles": ["true"],
        "token": ["laptop"],
        "failed": ["true"],
        "words": ["model:gpt-*"],
    }


def test_sums_without_the_deleted_records_say_so() -> None:
    told = "older calls are not counted: their records were deleted"
    assert told in run("usage", "summary", "tok:laptop", answers={"GET /usage": replace(SUMMARY, incomplete=True)}).err
    assert told not in run("usage", "summary", "tok:laptop", answers={"GET /usage": SUMMARY}).err


def test_a_model_that_nobody_offers_is_named_with_those_there_are() -> None:
    none = replace(SUMMARY, rows=[], total=sum_row("", calls=0))
    control = Control({"GET /usage": none, "GET /models": [MODEL]})
    ran = run("usage", "summary", "--model", "gtp", control=control)
    assert (
        f"no matching calls; no channel offers model 'gtp' now; the offered models are: {MODEL.name}\nfrom " in ran.err
    )
    assert "no matching" not in run("usage", "summary", control=control).err
