"""How calls are picked, by the server and by words."""

import re
from urllib.parse import parse_qs

import pytest
from msgspec.structs import replace

from gateway.commands.exit_codes import Exit
from gateway.domain.units import Millis
from gateway.domain.views import CallPage
from tests.commands.runner import Control, run
from tests.commands.samples import CALL, NOW, SUMMARY


def test_options_are_passed_on() -> None:
    control = Control({"GET /calls": CallPage(calls=[])})
    run(
        *("usage", "list", "--token", "laptop", "--model", "m", "--status", "429", "--errors", "--limit", "70"),
        *("--since", "2026-11-01", "--until", "2026-11-30"),
        control=control,
    )
    asked = control.asked[0][0]
    assert re.search(
        r"limit=70&token=laptop&model=m&failed=true&since=\d{13}&until=\d{13}&words=st%3A429\+%21st%3Arunning$", asked
    )


@pytest.mark.parametrize("status", ["4xx", ">=400", "err"])
def test_a_status_is_given_as_in_words(status: str) -> None:
    control = Control({"GET /calls": CallPage(calls=[CALL])})
    assert run("usage", "list", "--status", status, control=control).code == 0
    assert parse_qs(control.asked[0][0].partition("?")[2])["words"] == [f"st:{status} !st:running"]
    assert "write st:err, st:ok, st:4xx" in run("usage", "list", "--status", "failed").err


@pytest.mark.parametrize(
    ("option", "value", "word"),
    [
        ("--model", "claude*", "model:claude*"),
        ("--token", "!ci-?", "!tok:ci-?"),
        ("--model", "!demo-echo", "!model:demo-echo"),
        ("--channel", "my *", 'ch:"my *"'),
        ("--app", "*node*", "app:*node*"),
        ("--as", "gpt-5", "as:gpt-5"),
        ("--as", "!gpt-*", "!as:gpt-*"),
        ("--as", "my model", 'as:"my model"'),
    ],
)
def test_an_option_takes_a_pattern(option: str, value: str, word: str) -> None:
    control = Control({"GET /calls": CallPage(calls=[CALL])})
    assert run("usage", "list", option, value, control=control).code == 0
    assert parse_qs(control.asked[0][0].partition("?")[2]) == {"limit": ["50"], "words": [word]}


@pytest.mark.parametrize("command", ["list", "summary", "export"])
def test_a_repeated_option_means_any_of_its_values(command: str) -> None:
    control = Control({"GET /calls": CallPage(calls=[]), "GET /usage": SUMMARY})
    run("usage", command, *("--token", "a", "--model", "m", "--token", "b", "--model", "n"), control=control)
    asked = parse_qs(control.asked[0][0].partition("?")[2])
    assert (asked["token"], asked["model"]) == (["a", "b"], ["m", "n"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--model", "gpt-*", "--model", "o3"), "model:gpt-*,o3"),
        (("--model", "!gpt-*", "--model", "!o3"), "!model:gpt-* !model:o3"),
        (("--model", "gpt-*", "--model", "!gpt-4*"), "model:gpt-* !model:gpt-4*"),
        (("--token", "my *", "--token", "a,b"), 'tok:"my *","a,b"'),
        (("--as", "gpt-5", "--as", "o3"), "as:gpt-5,o3"),
        (("--status", "429", "--status", "5xx"), "st:429,5xx !st:running"),
    ],
)
def test_repeated_patterns_become_one_word(options: tuple[str, ...], words: str) -> None:
    control = Control({"GET /calls": CallPage(calls=[CALL])})
    assert run("usage", "list", *options, control=control).code == 0
    assert parse_qs(control.asked[0][0].partition("?")[2])["words"] == [words]


def test_a_call_that_ends_between_two_pages_is_listed_once() -> None:
    ran_then_ended = [replace(CALL, state="running"), CALL]
    pages = [CallPage(calls=[one], cursor="2") for one in ran_then_ended] + [CallPage(calls=[])]
    ran = run("usage", "list", "-n", "1", "--json", control=Control({"GET /calls": iter(pages)}))
    assert [(call["id"], call["state"]) for call in ran.json] == [(CALL.id, "settled")]


def test_the_largest_calls_of_all_pages() -> None:
    dear = [replace(CALL, id=f"req_{cost}", cost_nanos=cost) for cost in (5, 90, 70, 3)]
    pages = [CallPage(calls=dear[:2], cursor="2"), CallPage(calls=dear[2:])]
    control = Control({"GET /calls": iter(pages)})
    ran = run("usage", "list", "--sort", "cost", "-n", "2", "tok:ci", "--json", control=control)
    assert [call["cost_nanos"] for call in ran.json] == [90, 70]
    asked = "GET /calls?limit=2&sort=cost&words=tok%3Aci"
    assert [line for line, _ in control.asked] == [asked, asked.replace("limit=2", "before=2&limit=2")]


def test_a_span_that_ends_before_it_begins_is_an_error() -> None:
    ran = run("usage", "summary", "--since", "2026-11-30", "--until", "2026-11-01", control=Control({}))
    assert (ran.code, "is not after --since" in ran.err) == (Exit.USAGE, True)


def test_a_span_that_begins_in_the_future_is_an_error() -> None:
    ran = run("usage", "summary", "--since", "tomorrow", control=Control({}))
    assert (ran.code, "is in the future" in ran.err) == (Exit.USAGE, True)


def test_the_narrower_of_two_bounds_counts() -> None:
    control = Control({"GET /calls": CallPage(calls=[])})
    run("usage", "list", "since:2026-11-02T00:00Z", "--since", "2026-11-01T00:00Z", control=control)
    assert "since=1793577600000" in control.asked[0][0]


def test_words_are_passed_on() -> None:
    control = Control({"GET /calls": CallPage(calls=[CALL])})
    run(
        "usage",
        "list",
        "tok:lap*",
        "!st:err",
        "since:2026-11-02T00:00Z",
        '"two words"',
        "--limit",
        "70",
        control=control,
    )
    query = "limit=70&since=1793577600000&words=tok%3Alap%2A+%21st%3Aerr+%22two+words%22"
    assert control.asked == [(f"GET /calls?{query}", None)]


def test_a_name_with_spaces_that_the_shell_quoted_is_one_word() -> None:
    control = Control({"GET /calls": CallPage(calls=[CALL])})
    run("usage", "list", "tok:my laptop", "--limit", "70", control=control)
    assert control.asked == [("GET /calls?limit=70&words=tok%3A%22my+laptop%22", None)]


def test_pages_are_fetched_until_no_older_call_can_have_begun_later() -> None:
    long = replace(CALL, id="req_long", time_ms=Millis(NOW - 90_000))
    pages = [
        CallPage(calls=[long], cursor="9"),
        CallPage(calls=[], cursor="5"),
        CallPage(calls=[CALL], cursor="3"),
        CallPage(calls=[replace(CALL, id="req_later", time_ms=Millis(NOW - 9_000))], cursor="2"),
        CallPage(calls=[]),
    ]
    control = Control({"GET /calls": iter(pages)})
    ran = run("usage", "list", "--limit", "2", "tok:ci", "--json", control=control)
    assert [call["id"] for call in ran.json] == [CALL.id, "req_later"]
    assert [line for line, _ in control.asked] == [
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
    assert run("usage", "list", *arguments, control=Control({"GET /calls": pages})).err == ""


@pytest.mark.parametrize(("arguments", "shown"), [((), True), (("--json",), False)])
def test_a_terminal_shows_how_far_a_long_search_got(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], shown: bool
) -> None:
    monkeypatch.setattr("gateway.commands.output.PROGRESS_AFTER_S", 0.0)
    monkeypatch.setattr("gateway.commands.output.on_terminal", lambda: True)
    monkeypatch.setattr("gateway.commands.output.errors_on_terminal", lambda: True)
    pages = iter([CallPage(calls=[], cursor="9", left=800_000, back_to_ms=NOW), CallPage(calls=[CALL])])
    ran = run("usage", "list", *arguments, control=Control({"GET /calls": pages}))
    assert ("searched back to 20" in ran.err) == ("800,000 calls to go" in ran.err) == shown
    assert (" \r" in ran.err) == shown  # the line is gone when the calls are shown


def test_a_word_that_makes_no_sense_is_a_usage_error() -> None:
    ran = run("usage", "list", "st:>=x", control=Control({}))
    assert (ran.code, ran.err.count("\n")) == (Exit.USAGE, 1)
