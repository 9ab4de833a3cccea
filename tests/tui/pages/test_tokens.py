import csv
from asyncio import timeout, to_thread
from functools import partial
from pathlib import Path

import msgspec
import pytest

from gateway.domain.budget import Window, window_end
from gateway.domain.errors import BadRequest
from gateway.domain.group import Fallback
from gateway.domain.human_values import parse_future
from gateway.domain.token import Color
from gateway.domain.units import Millis, Nanos
from gateway.domain.views import TokenView
from tests.tui.owner import KEY, Owner, listing_of, press, screen, see, shown, typed_form
from tests.tui.stage import NOW, budget, sums, token, words
from tui.pages.tokens import TokenForm, TokensPage
from tui.session import ConsoleSession
from tui.trends import Trends
from tui.widgets.connect import Connect


def listing(*tokens: TokenView) -> TokensPage:
    return listing_of(TokensPage, tokens=tokens)


def test_a_row_tells_state_budget_and_age() -> None:
    made = listing(token("ci", expires=Millis(NOW + 3_600_000)))
    (row,) = made.rows()
    found = {column.id: column.text(row) for column in made.all_columns()}
    assert (found["state"], found["expires"], found["seen"], found["window"]) == ("●", "in 1h", "14s", "month")


def test_a_token_that_sees_nothing_says_why_and_is_found_by_name_group_and_state() -> None:
    made = listing(token("my box", sees=[], budgets=[], note="for builds", state="expired", group="batch"))
    (row,) = made.rows()
    text = " ".join(made.detail(row, 80).plain.split())
    for told in ("sees none: no enabled channel of its group", "none of its own", "for builds"):
        assert told in text
    assert made.words(row).startswith("my box batch expired")
    assert made.command(row) == "tollkeeper token show 'my box'"
    assert "n creates one" in made.empty().plain


async def test_tokens_of_ended_runs_are_counted_and_shown_on_request() -> None:
    owner = Owner()
    runs = [token(f"run-{n}", id=f"tok_r{n}", temporary=True, state="expired") for n in range(3)]
    owner.tokens_now += [*runs, token("run-9", id="tok_r9", temporary=True)]
    async with shown("tokens", owner, size=(120, 30)) as (app, pilot, _):
        assert "6 tokens · 4 on · ended runs: 3 hidden (a shows them)" in screen(app)
        assert "run-9" in screen(app)
        assert "run-2" not in screen(app)
        await see(app, pilot, "9 tokens · 4 on · ended runs: 3 shown (a hides them)", "a")
        assert "run-2" in screen(app)


async def test_a_new_token_is_made_and_its_key_shown_once() -> None:
    async with shown("tokens") as (app, pilot, owner):
        await press(app, pilot, "n", "=pad", "enter")
        ((verb, body),) = owner.did
        assert (verb, body) == ("add_token", {"name": "pad", "group": "default"})
        assert isinstance(app.screen, Connect)
        assert KEY in screen(app)
        await press(app, pilot, "escape")
        assert KEY not in screen(app)
        assert app.page.query_one("LiveTable").current.name == "pad"


@pytest.mark.parametrize("page", ["tokens", "groups", "channels", "models", "account"])
async def test_a_form_without_changes_leaves_nothing_to_undo(page: str) -> None:
    async with shown(page) as (app, pilot, owner):
        await press(app, pilot, "e", "enter")
        assert (owner.did, words(app)) == ([], ["Nothing was changed."])


def test_the_pane_has_the_budget_in_dollars_and_that_in_tokens() -> None:
    both = msgspec.structs.replace(budget(1, 20), tokens=1_000_000, spent_tokens=900_000)
    made = listing(token("both", budgets=(both,)))
    (row,) = made.rows()
    text = made.detail(row, 100).plain
    assert ("$1.00/20" in text, "900k/1M tok" in text) == (True, True)


async def test_today_comes_from_the_sums() -> None:
    async with shown("tokens") as (app, _, owner):
        assert "summary token day" in owner.asked
        today = next(line for line in screen(app).splitlines() if "editor" in line)
        assert "$0." in today


async def test_todays_sums_begin_again_with_the_day_and_not_ten_seconds_later() -> None:
    async with shown("tokens") as (app, pilot, owner):
        midnight = window_end(Window.DAY, NOW)
        assert midnight is not None
        for moment in (midnight - 2_000, midnight - 900, midnight + 1_500):
            app.session.now = partial(Millis, moment)
            app.page.renew()
            await pilot.pause()
        assert owner.asked.count("summary token day") == 3  # when it opened, two seconds before midnight, and after it


def test_a_name_has_its_color_in_the_table_and_in_the_pane() -> None:
    made = listing(token("red", color=Color.RED), token("plain"))
    column = next(column for column in made.all_columns() if column.id == "name")
    rows = {row.name: row for row in made.rows()}
    assert column.tone is not None
    assert {name: column.tone(row) for name, row in rows.items()} == {"red": "bad", "plain": ""}
    assert "color: red" in made.detail(rows["red"], 200).plain


@pytest.mark.parametrize(
    ("month", "told"),
    [
        ({"calls": 170}, " 170 calls"),
        (
            {"calls": 5, "errors": 2, "refused": 2, "cost_nanos": 1_966_350},
            "$0.001966, 3 calls and 2 refused, errors 0%",
        ),
        ({"calls": 6, "errors": 3, "refused": 2}, "4 calls and 2 refused, errors 25%"),
        ({"calls": 7, "errors": 7, "refused": 7}, "$0.00, 0 calls and 7 refused; "),
    ],
)
def test_calls_of_a_month_and_of_all_time_leave_out_refused_ones(month: dict[str, int], told: str) -> None:
    """The total does not count these, so neither does the month."""
    made = listing(token("ci", calls=190, spent_nanos=Nanos(2_507_220_823)))
    made.trends = Trends(totals={"tok_ci": msgspec.structs.replace(sums(), key="tok_ci", **month)})
    rows = {line.split()[0]: line for line in made.detail(made.rows()[0], 120).plain.splitlines() if line.strip()}
    assert told in rows["30"]
    assert rows["total"].split(maxsplit=1)[1] == "190 calls, $2.507220823"


async def test_an_export_has_what_the_server_says_of_each_token(tmp_path: Path) -> None:
    file = tmp_path / "found.csv"
    async with shown("tokens") as (app, pilot, _):
        await press(app, pilot, "E", f"={file}", "enter")
        async with timeout(20):
            while not words(app):
                await pilot.pause(0.02)
        assert words(app) == [f"5 rows written to {file}"]
    rows = list(csv.DictReader((await to_thread(file.read_text)).splitlines()))
    assert [(row["name"], row["group"], row["state"]) for row in rows[:2]] == [
        ("ci", "batch", "active"),
        ("editor", "default", "active"),
    ]
    assert "expires_ms" in rows[0]


def session() -> ConsoleSession:
    return listing_of(lambda session: session)


form = partial(typed_form, TokenForm)


def test_the_command_names_what_is_set() -> None:
    typed = {"name": "pad", "budgets": "day=5", "limits": "rpm=3", "expires": "2031-01-31 10:00"}
    body, command = form(**typed, stop_when_empty="stop running streams")
    assert command == (
        "token add pad --group default --budget day=5 --rpm 3 --expires '2031-01-31 10:00' --stop-when-empty"
    )
    assert body.keys() == {"name", "group", "budgets", "limits", "expires", "stop_when_empty"}


def test_the_end_of_a_day_reads_as_it_was_written() -> None:
    made = listing(laptop := token("laptop", expires=parse_future("2031-12-31", NOW)))
    (row,) = made.rows()
    assert [column.text(row) for column in made.all_columns() if column.id == "expires"] == ["31 Dec"]
    assert "expires: end of 2031-12-31" in made.detail(row, 200).plain
    assert {one.id: one.value for one in TokenForm(session(), laptop).fields()}["expires"] == "2031-12-31"
    assert form(laptop) == ({}, "token edit laptop")


def test_a_new_token_needs_a_name() -> None:
    with pytest.raises(BadRequest, match="required"):
        form()


def test_a_copy_has_all_but_the_name() -> None:
    laptop = token("laptop", expires=Millis(NOW + 86_400_001), budgets=())
    body, command = form(laptop, copy=True)
    assert (body["name"], body["expires"]) == ("laptop-2", NOW + 86_400_001)
    assert command.startswith("token add laptop-2 --group default --rpm 60")


@pytest.mark.parametrize(
    ("rule", "group", "models", "told"),
    [
        ("claude-*", "default", "claude-*", "; its patterns leave out the fallback gpt-5-mini"),
        ("claude-*", "default", "claude-* gpt-5-mini", ": claude-sonnet-4-5, gpt-5-mini, claude-haiku-4-5"),
        (
            "fast",
            "default",
            "deepseek-chat fast",
            " 1 model: deepseek-chat; its patterns leave out the fallback gpt-5-mini",
        ),
        ("fast", "default", "gpt-5-mini fast", "sees 2 models: gpt-5-mini, fast"),
        ("fast", "nowhere", "", "its group has no enabled channel with models"),
    ],
)
def test_the_form_says_what_the_token_will_see(rule: str, group: str, models: str, told: str) -> None:
    at = session()
    rules = (Fallback(model=rule, to=("gpt-5-mini", "claude-haiku-4-5") if rule == "claude-*" else ("gpt-5-mini",)),)
    at.board.groups = [
        msgspec.structs.replace(one, fallbacks=rules, sees=[*one.sees, "fast"])
        for one in at.board.groups
        if one.name == "default"
    ]
    assert TokenForm(at).preview({"group": group, "models": models.split()}).endswith(told)
