"""How calls are picked, by the server and by words."""

import shlex
from urllib.parse import parse_qs, unquote_plus

import pytest
from msgspec.structs import replace

from gateway.commands.exit_codes import Exit
from gateway.domain.units import Millis
from gateway.domain.views import CallPage
from tests.commands.runner import Control, run
from tests.commands.samples import CALL, NOW, SUMMARY


@pytest.mark.parametrize(
    ("line", "query"),
    [
        ("--token laptop --model m --errors --limit 70", "limit=70&token=laptop&model=m&failed=true"),
        ("--since 2026-11-01T00:00Z --until 2026-11-30T00:00Z", "limit=50&since=1793491200000&until=1795996800000"),
        ("since:2026-11-02T00:00Z --since 2026-11-01T00:00Z", "limit=50&since=1793577600000"),
        ("--status 4xx", "limit=50&words=st:4xx !st:running"),
        ("--status '>=400'", "limit=50&words=st:>=400 !st:running"),
        ("--status err", "limit=50&words=st:err !st:running"),
        ("--status 429 --status 5xx", "limit=50&words=st:429,5xx !st:running"),
        ("--model claude*", "limit=50&words=model:claude*"),
        ("--token !ci-?", "limit=50&words=!tok:ci-?"),
        ("--model !demo-echo", "limit=50&words=!model:demo-echo"),
        ("--channel 'my *'", 'limit=50&words=ch:"my *"'),
        ("--app *node*", "limit=50&words=app:*node*"),
        ("--as gpt-5", "limit=50&words=as:gpt-5"),
        ("--as !gpt-*", "limit=50&words=!as:gpt-*"),
        ("--as 'my model'", 'limit=50&words=as:"my model"'),
        # Several patterns are one word.
        ("--model gpt-* --model o3", "limit=50&words=model:gpt-*,o3"),
        ("--model !gpt-* --model !o3", "limit=50&words=!model:gpt-* !model:o3"),
        ("--model gpt-* --model !gpt-4*", "limit=50&words=model:gpt-* !model:gpt-4*"),
        ("--token 'my *' --token a,b", 'limit=50&words=tok:"my *","a,b"'),
        ("--as gpt-5 --as o3", "limit=50&words=as:gpt-5,o3"),
        # A name with spaces that the shell quoted is one word.
        ("'tok:my laptop'", 'limit=50&words=tok:"my laptop"'),
        ("tok:lap* !st:err since:2026-11-02T00:00Z", "limit=50&since=1793577600000&words=tok:lap* !st:err"),
        ("""'"two words"'""", 'limit=50&words="two words"'),
    ],
)
def test_options_and_words_become_parameters(line: str, query: str) -> None:
    control = Control({"GET /calls": CallPage(calls=[CALL])})
    assert run("usage", "list", *shlex.split(line), control=control).code == 0
    assert [unquote_plus(asked) for asked, _ in control.asked] == [f"GET /calls?{query}"]


@pytest.mark.parametrize("command", ["list", "summary", "export"])
def test_a_repeated_option_means_any_of_its_values(command: str) -> None:
    control = Control({"GET /calls": CallPage(calls=[]), "GET /usage": SUMMARY})
    run("usage", command, *("--token", "a", "--model", "m", "--token", "b", "--model", "n"), control=control)
    asked = parse_qs(control.asked[0][0].partition("?")[2])
    assert (asked["token"], asked["model"]) == (["a", "b"], ["m", "n"])


def test_a_call_that_ends_between_two_pages_is_listed_once() -> None:
    ran_then_ended = [replace(CALL, state="running"), CALL]
    pages = [CallPage(calls=[one], cursor="2") for one in ran_then_ended] + [CallPage(calls=[])]
    ran = run("usage", "list", "-n", "1", "--json", answers={"GET /calls": iter(pages)})
    assert [(call["id"], call["state"]) for call in ran.json] == [(CALL.id, "settled")]


def test_the_largest_calls_of_all_pages() -> None:
    dear = [replace(CALL, id=f"req_{cost}", cost_nanos=cost) for cost in (5, 90, 70, 3)]
    pages = [CallPage(calls=dear[:2], cursor="2"), CallPage(calls=dear[2:])]
    ran = run("usage", "list", "--sort", "cost", "-n", "2", "tok:ci", "--json", answers={"GET /calls": iter(pages)})
    assert [call["cost_nanos"] for call in ran.json] == [90, 70]
    asked = "GET /calls?limit=2&sort=cost&words=tok%3Aci"
    assert [line for line, _ in ran.asked] == [asked, asked.replace("limit=2", "before=2&limit=2")]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("summary --since 2026-11-30 --until 2026-11-01", "is not after --since"),
        ("summary --since tomorrow", "is in the future"),
        ("list --status failed", "write st:err, st:ok, st:4xx"),
        ("list st:>=x", "st:>=x"),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(line: str, told: str) -> None:
    ran = run("usage", *line.split(), answers={})
    assert (ran.code, told in ran.err, ran.err.count("\n")) == (Exit.USAGE, True, 1), ran.err


def test_pages_are_fetched_until_no_older_call_can_have_begun_later() -> None:
    long = replace(CALL, id="req_long", time_ms=Millis(NOW - 90_000))
    pages = [
        CallPage(calls=[long], cursor="9"),
        CallPage(calls=[], cursor="5"),
        CallPage(calls=[CALL], cursor="3"),
        CallPage(calls=[replace(CALL, id="req_later", time_ms=Millis(NOW - 9_000))], cursor="2"),
        CallPage(calls=[]),
    ]
    ran = run("usage", "list", "--limit", "2", "tok:ci", "--json", answers={"GET /calls": iter(pages)})
    assert [call["id"] for call in ran.json] == [CALL.id, "req_later"]
    assert [line for line, _ in ran.asked] == [
        "GET /calls?limit=2&words=tok%3Aci",
        "GET /calls?before=9&limit=1&words=tok%3Aci",
        "GET /calls?before=5&limit=1&words=tok%3Aci",
        f"GET /calls?before=3&limit=500&words=tok%3Aci&since={NOW - 90_000 + 1}",
        f"GET /calls?before=2&limit=500&words=tok%3Aci&since={NOW - 9_000 + 1}",
    ]


def test_the_page_without_a_cursor_is_the_last() -> None:
    control = Control({"GET /calls": iter([CallPage(calls=[], cursor="9"), CallPage(calls=[CALL])])})
    assert len(run("usage", "list", "--json", control=control).json) == 1
    assert len(control.asked) == 2


@pytest.mark.parametrize("arguments", [(), ("--json",)])
def test_a_pipe_gets_no_line_about_the_progress(monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]) -> None:
    monkeypatch.setattr("gateway.commands.output.PROGRESS_AFTER_S", 0.0)
    pages = iter([CallPage(calls=[], cursor="9", left=8), CallPage(calls=[CALL])])
    assert run("usage", "list", *arguments, answers={"GET /calls": pages}).err == ""


@pytest.mark.parametrize(("arguments", "shown"), [((), True), (("--json",), False)])
def test_a_terminal_shows_how_far_a_long_search_got(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], shown: bool
) -> None:
    monkeypatch.setattr("gateway.commands.output.PROGRESS_AFTER_S", 0.0)
    monkeypatch.setattr("gateway.commands.output.is_terminal", lambda: True)
    monkeypatch.setattr("gateway.commands.output.is_stderr_terminal", lambda: True)
    pages = iter([CallPage(calls=[], cursor="9", left=800_000, back_to_ms=NOW), CallPage(calls=[CALL])])
    ran = run("usage", "list", *arguments, answers={"GET /calls": pages})
    assert ("searched back to 20" in ran.err) == ("800,000 calls to go" in ran.err) == shown
    assert (" \r" in ran.err) == shown  # the line is gone when the calls are shown
