"""Sums by value and over time."""

from msgspec.structs import replace

from gateway.domain.units import Millis
from gateway.domain.views import Point
from gateway.domain.written import local_time
from tests.commands.runner import Control, run
from tests.commands.samples import NOW, SUMMARY, sum_row


def test_sums_have_a_total() -> None:
    ran = run("usage", "summary", "--by", "token", control=Control({"GET /usage": SUMMARY}))
    assert [line.split()[0] for line in ran.out.splitlines()] == ["Token", "cheap", "dear", "total"]
    assert ran.out.splitlines()[-1].split()[-1] == "$0.005"


def test_the_last_thirty_days_are_summed_unless_said() -> None:
    control = Control({"GET /usage": SUMMARY})
    run("usage", "summary", control=control)
    run("usage", "summary", "--since", "2026-11-01T00:00Z", control=control)
    assert "by=model&since=" in control.asked[0][0]
    assert "since=1793491200000" in control.asked[1][0]


def test_days_are_asked_for_as_steps() -> None:
    control = Control({"GET /usage": SUMMARY})
    run("usage", "summary", "--by", "day", control=control)
    assert control.asked[0][0].endswith("&step=day")
    assert "by=" not in control.asked[0][0]


def test_spans_of_time_are_named_by_their_beginning() -> None:
    points = [Point(start_ms=Millis(NOW + n * 3_600_000), key="", row=sum_row("", calls=n)) for n in range(3)]
    control = Control({"GET /usage": replace(SUMMARY, rows=[], series=points)})
    lines = run("usage", "summary", "--by", "hour", control=control).out.splitlines()
    assert [line[:16] for line in lines[1:3]] == [local_time(point.start_ms)[:16] for point in points[1:]]
    assert len(lines) == 4


def test_the_json_is_the_view() -> None:
    ran = run("usage", "summary", "--json", control=Control({"GET /usage": SUMMARY}))
    assert list(ran.json) == list(SUMMARY.__struct_fields__)
