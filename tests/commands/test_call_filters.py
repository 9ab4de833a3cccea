"""How calls are picked, by the server and by words."""

import re

from msgspec.structs import replace

from gateway.commands.call_filters import PAGE, Wanted
from gateway.commands.exits import Exit
from gateway.domain.query import parse
from tests.commands.runner import Control, run
from tests.commands.samples import CALL, NOW


def test_options_are_passed_on() -> None:
    control = Control({"GET /calls": []})
    run(
        *("usage", "list", "--token", "laptop", "--model", "m", "--status", "429", "--errors", "--limit", "7"),
        *("--since", "2026-11-01", "--until", "2026-11-30"),
        control=control,
    )
    (asked,) = [line for line, _ in control.asked]
    assert re.search(r"limit=7&token=laptop&model=m&status=429&failed=true&since=\d{13}&until=\d{13}", asked)


def test_the_narrower_of_two_bounds_counts() -> None:
    control = Control({"GET /calls": []})
    run("usage", "list", "since:2026-11-02T00:00Z", "--since", "2026-11-01T00:00Z", control=control)
    assert "since=1793577600000" in control.asked[0][0]


def test_words_are_tested_here() -> None:
    other = replace(CALL, id="req_2", token="phone")
    ran = run("usage", "list", "tok:lap*", "!st:err", control=Control({"GET /calls": [CALL, other]}))
    assert len(ran.out.splitlines()) == 2


def test_with_words_whole_pages_are_asked_for() -> None:
    control = Control({"GET /calls": [CALL]})
    run("usage", "list", "laptop", "--limit", "1", control=control)
    assert control.asked == [(f"GET /calls?limit={PAGE}", None)]


def test_a_full_page_is_followed_by_the_next() -> None:
    control = Control({"GET /calls": [CALL, CALL]})
    ran = run("usage", "list", "--limit", "2", "--json", control=control)
    assert (len(ran.json), len(control.asked)) == (2, 1)


def test_a_word_that_makes_no_sense_is_a_usage_error() -> None:
    ran = run("usage", "list", "st:>=x", control=Control({}))
    assert (ran.code, ran.err.count("\n")) == (Exit.USAGE, 1)


def test_the_same_pick_can_be_made_without_the_server() -> None:
    assert Wanted(token="tok_1", group="default", failed=None, query=parse("st:ok", NOW)).fits(CALL)
    assert not Wanted(token="phone").fits(CALL)
    assert not Wanted(failed=True).fits(CALL)
    assert not Wanted(status=500).fits(CALL)
