import gc
import re
from datetime import datetime

import msgspec
import pytest
from textual.content import Content
from textual.widgets import Input

from gateway.domain.budget import days
from gateway.domain.errors import Unavailable
from gateway.domain.query import parse
from gateway.domain.units import DAY_MS, HOUR_MS, Millis
from gateway.domain.views import Summary
from tests.tui.owner import Owner, press, screen, see, settle, shown, until
from tests.tui.pages.test_usage_chart import over, plan, row, some
from tests.tui.pages.test_usage_table import TOTAL
from tests.tui.pictures import month
from tests.tui.stage import NOW, budget, call, wait_until, words
from tui.app import Console
from tui.pages.live import LivePage
from tui.pages.usage import UsagePage
from tui.pages.usage_bars import ALL, OTHERS, bars_of
from tui.pages.usage_table import TextLayout, filter_words, series_rows
from tui.saved_state import PageState


def busy() -> Owner:
    """A month of calls."""
    owner = Owner(40)
    owner.records += month()[::8]
    return owner


def usage(app: Console) -> UsagePage:
    assert isinstance(app.page, UsagePage)
    return app.page


async def test_keys_turn_period_value_and_dimension_and_they_are_remembered() -> None:
    async with shown("usage") as (app, pilot, owner):
        await see(app, pilot, "p period 24 hours   v value calls   b by token", "p", "v", "b")
        assert "calls per hour" in screen(app)
        assert "summary token hour" in owner.asked
        assert app.session.state.view("usage").choices == {"period": "24 hours", "value": "calls", "by": "token"}
        await see(app, pilot, "p period 30 days", "P")


@pytest.mark.parametrize("size", [(80, 24), (100, 30)])
async def test_a_year_of_durations_fits(size: tuple[int, int]) -> None:
    async with shown("usage", size=size) as (app, pilot, _):
        await see(app, pilot, f"duration per {6 if size[0] == 80 else 5} days", *"ppppvvvv")


@pytest.mark.parametrize("size", [(60, 15), (80, 24), (100, 30), (140, 40), (200, 50)])
async def test_no_line_wraps(size: tuple[int, int]) -> None:
    """What was measured for the mouse is where it is drawn."""
    async with shown("usage", busy(), size=size) as (app, pilot, _):
        for _ in range(6):
            page = usage(app)
            width = page.query_one("UsageBlock").scrollable_content_region.width
            assert max(len(line) for line in page.draw(width).plain.split("\n")) <= width
            await press(app, pilot, "v")


async def test_a_filter_sums_up_the_calls_that_fit() -> None:
    async with shown("usage", busy(), size=(140, 40)) as (app, pilot, owner):
        starts = days(30, Millis(NOW))
        wanted = [call for call in owner.records if call.token == "ci" and call.time_ms >= starts[0]]
        assert wanted
        await see(app, pilot, f" {len(wanted):,} calls", "slash", "=tok:ci", "enter")
        assert "summary model day tok:ci" in owner.asked
        await press(app, pilot, "enter")
        assert isinstance(app.page, LivePage)
        assert app.page.query_one(Input).value.endswith(" tok:ci")


async def test_a_filter_is_cleared_and_hidden() -> None:
    async with shown("usage", busy()) as (app, pilot, _):
        field = usage(app).query_one(Input)
        await see(app, pilot, "No calls that fit the filter in this period.", "slash", "=model:nosuch")
        await see(app, pilot, "cost per day", "escape")
        assert (field.display, field.value, usage(app).view.filter) == (False, "", "")


async def test_a_wrong_filter_says_what_is_wrong_and_changes_nothing() -> None:
    async with shown("usage", busy()) as (app, pilot, owner):
        asked = len(owner.asked)
        await see(app, pilot, "unknown filter 'foo:'", "slash", "=foo:bar")
        await settle(app, pilot)
        assert not [one for one in owner.asked[asked:] if one.startswith("summary")]
        assert "cost per day" in screen(app)
        await press(app, pilot, "escape")
        assert "unknown filter" not in screen(app)


async def test_enter_on_a_bar_opens_its_calls() -> None:
    async with shown("usage", busy(), size=(140, 40)) as (app, pilot, owner):
        await press(app, pilot, "left", "down", "enter")
        assert isinstance(app.page, LivePage)
        day = datetime.fromtimestamp((NOW - DAY_MS) / 1000).astimezone().date()
        words = app.page.query_one(Input).value
        assert words.startswith(f"since:{day} until:{day} model:")
        model = words.rpartition(":")[2]
        query = parse(words, NOW)
        await press(app, pilot)
        wanted = [call.id for call in owner.records if query.matches(call)]
        assert wanted
        assert {call.model for call in owner.records if call.id in wanted} == {model}
        assert app.page.calls.count == len(wanted)


async def test_enter_on_a_bar_opens_the_calls_of_one_token_of_two_that_had_the_name() -> None:
    owner, key = Owner(0), "tok_0123456789abcdef"
    owner.records = [call(number, token="ci", token_id=key) for number in (1, 2)]
    other = call(8, token="0123456789abcdef", token_id="tok_2123456789abcdef")  # as the sums of the fake name the first
    owner.records += [other, call(9, token="ci-test", token_id="tok_9")]
    async with shown("usage", owner, size=(140, 40)) as (app, pilot, _):
        app.session.state.view("usage").choices["by"] = "token"
        app.session.state.view("usage").filter = "!tok:ci-test"
        app.page.renew()
        await until(app, pilot, "by token")
        await settle(app, pilot)
        usage(app).series = key
        await press(app, pilot, "enter")
        await settle(app, pilot)
        assert isinstance(app.page, LivePage)
        assert app.page.view.filter.endswith(f"tok:{key} !tok:ci-test")
        assert app.page.calls.count == 2
        assert "Another token also had the name" in " ".join(words(app))


async def test_a_wrong_filter_of_an_earlier_session_is_never_sent() -> None:
    async with shown("usage", busy(), view=PageState(filter="st:foo")) as (app, pilot, owner):
        for _ in range(3):
            usage(app).renew()
            await pilot.pause(0.02)
        assert "st:foo is not a status" in screen(app)
        assert [line for line in owner.asked if "st:foo" in line] == []


async def test_what_failed_is_fetched_again_after_a_pause_and_said() -> None:
    async with shown("usage", owner := busy()) as (app, pilot, _):
        asked: list[object] = []

        async def fail(**fields: object) -> Summary:
            asked.append(fields)
            raise Unavailable("the search took too long", code="timeout")

        owner.summary = fail  # type: ignore[method-assign]
        await press(app, pilot, "slash", "=tok:ci", "enter")
        for _ in range(5):
            usage(app).renew()
            await pilot.pause(0.02)
        assert len(asked) == 1
        assert "the search took too long" in screen(app)
        usage(app).fetched_ms = Millis(0)  # the pause is over
        usage(app).renew()
        await wait_until(pilot, lambda: len(asked) >= 2)


async def test_a_fetch_that_another_one_replaces_before_it_began_was_never_there() -> None:
    """Otherwise Python warns of a coroutine that nobody awaited."""
    async with shown("usage") as (app, pilot, _):
        for _ in range(2):
            usage(app).refetch()
        await pilot.pause()
        gc.collect()


async def test_a_filter_is_searched_for_once_it_is_typed() -> None:
    async with shown("usage", owner := busy()) as (app, pilot, _):
        await pilot.press("slash")
        for letter in "laptop":
            await pilot.press(letter)
            usage(app).renew()
        await wait_until(pilot, lambda: any(line.endswith(" laptop") for line in owner.asked))
        found = {line.partition(" day")[2].strip() for line in owner.asked if line.startswith("summary model day")}
        assert found - {""} == {"laptop"}


async def test_enter_replaces_the_filter_of_a_page_that_was_open() -> None:
    async with shown("live", busy()) as (app, pilot, _):
        await press(app, pilot, "e", "s", "7", "p", "right", "enter")
        assert isinstance(app.page, LivePage)
        value = app.page.query_one(Input).value
        assert value == app.page.view.filter
        assert value.startswith("since:2026-")
        assert "st:err" not in value
        assert app.page.view.sort == ""


async def test_the_measure_that_is_drawn_comes_first_in_the_sums_of_a_bar() -> None:
    async with shown("usage", busy(), size=(80, 24)) as (app, pilot, _):
        await press(app, pilot, "v", "v", "v")
        assert app.session.state.view("usage").choices["value"] == "errors"
        (line,) = [line for line in screen(app).splitlines() if "opens the calls" in line]
        assert re.search(r"  all  \d+ errors? ", line)


async def test_the_selected_bar_and_series_are_described() -> None:
    async with shown("usage", busy(), size=(140, 40)) as (app, pilot, _):
        await press(app, pilot, "left", "left", "down")
        day = datetime.fromtimestamp((NOW - 2 * DAY_MS) / 1000).astimezone()
        name = usage(app).series
        assert f"▸ {day:%a} {day.day} {day:%b}  {name}  $" in screen(app)
        await press(app, pilot, "up", "right")
        assert (usage(app).series, usage(app).bars_back) == (ALL, 1)


async def test_a_click_selects_a_bar_and_another_opens_its_calls() -> None:
    async with shown("usage", busy(), size=(140, 40)) as (app, pilot, _):
        places = usage(app).text_layout
        assert places is not None
        span = places.bars.spans[10]
        at = (10 + span.start, 3 + places.chart.stop - 1)
        await pilot.click(offset=at)
        await settle(app, pilot)
        assert len(places.bars.spans) - 1 - usage(app).bars_back == 10
        await pilot.click(offset=at)
        await settle(app, pilot)
        assert isinstance(app.page, LivePage)


async def test_a_click_selects_a_series_and_one_on_a_title_its_measure() -> None:
    async with shown("usage", busy(), size=(140, 40)) as (app, pilot, _):
        places = usage(app).text_layout
        assert places is not None
        await pilot.click(offset=(8, 3 + places.table + 3))
        assert usage(app).series == places.rows[2].key
        head = screen(app).splitlines()[3 + places.table]
        await pilot.click(offset=(head.index("errors") + 2, 3 + places.table))
        await settle(app, pilot)
        assert app.session.state.view("usage").choices["value"] == "errors"
        assert "errors▾" in screen(app)


async def test_the_next_budget_is_shown() -> None:
    async with shown("usage", busy(), size=(140, 40)) as (app, pilot, _):
        assert "token ci, this month" in screen(app)
        await press(app, pilot, "B")
        assert "token ci, this month" not in screen(app)


async def test_the_chart_of_a_budget_follows_at_once() -> None:
    """As the line of the same budget below it does, without another fetch."""
    async with shown("usage", busy(), size=(140, 40)) as (app, pilot, owner):
        asked = len(owner.asked)
        ci = msgspec.structs.replace(owner.tokens_now[0], budgets=(budget(6, 5),))
        owner.tokens_now = [ci, *owner.tokens_now[1:]]
        owner.changed()
        await settle(app, pilot)
        assert "token ci, this month: $6.00/5" in screen(app)
        assert len(owner.asked) == asked


async def test_it_is_drawn_again_only_when_something_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with shown("usage", busy()) as (app, pilot, owner):
        page, drawn = usage(app), 0
        draw = page.draw

        def counted(width: int) -> Content:
            nonlocal drawn
            drawn += 1
            return draw(width)

        monkeypatch.setattr(page, "draw", counted)
        for _ in range(3):
            page.renew()
        assert drawn == 0
        await press(app, pilot, "left", "v")
        assert drawn == 2
        owner.changed()
        await press(app, pilot)
        assert drawn == 3


async def test_percentiles_are_fetched_with_the_sums() -> None:
    async with shown("usage", busy(), size=(140, 40)) as (app, pilot, _):
        await press(app, pilot, *"vvvv")
        text = screen(app)
        for told in ("p95", "avg", "p50"):
            assert any(line.rstrip("▁▂▃▄▅▆▇█ ").endswith(told) for line in text.splitlines()[4:25])


@pytest.mark.parametrize("size", [(80, 24), (140, 40)])
async def test_in_ascii_everything_is_ascii(size: tuple[int, int]) -> None:
    async with shown("usage", busy(), size=size, in_ascii=True) as (app, pilot, _):
        for _ in range(6):
            assert "".join(line for line in screen(app).splitlines() if not line.isascii()) == ""
            await press(app, pilot, "v")


def places(hourly: bool = False) -> TextLayout:
    drawing = plan(some(8))
    if hourly:
        starts = tuple(Millis(10 * DAY_MS + hour * HOUR_MS) for hour in range(24))
        drawing = plan(over((0, row("my model", 1)), (1, row('q"x', 2)), (2, row("a,b", 3)), starts=starts))
    return TextLayout(bars_of(drawing, 99), range(1, 9), 12, series_rows(drawing, TOTAL), ())


def test_the_filter_of_a_bar_has_its_time_and_its_series() -> None:
    assert filter_words(places(), 1, ALL, "model") == "since:1970-01-06 until:1970-01-06"
    same = parse("tok:key8 dur:>1s", Millis(0))
    assert filter_words(places(), 1, "key8", "token", query=same).endswith(" tok:key8 dur:>1s")
    assert filter_words(places(), 1, "key8", "token", query=same).count("tok:") == 1
    assert filter_words(places(), 1, "key8", "token", "st:err") == "since:1970-01-06 until:1970-01-06 tok:key8 st:err"
    hour = "since:1970-01-11T03:00 until:1970-01-11T04:00"
    assert filter_words(places(hourly=True), 3, "my model", "app") == f'{hour} app:"my model"'
    assert filter_words(places(hourly=True), 3, 'q"x', "channel") == f"{hour} ch:q?x"
    assert filter_words(places(hourly=True), 3, "a,b", "model") == f'{hour} model:"a,b"'


def test_a_span_of_the_page_s_filter_narrows_that_of_the_bar() -> None:
    start = places().bars.starts[1]
    early, late = Millis(start - 1), Millis(start + HOUR_MS)
    wider = msgspec.structs.replace(parse("tok:ci", NOW), since=early)
    found = parse(filter_words(places(), 1, ALL, "model", "", wider), NOW)
    assert (found.since, found.words) == (start, ("tok:ci",))
    narrower = msgspec.structs.replace(parse("tok:ci", NOW), since=late, until=Millis(late + HOUR_MS))
    found = parse(filter_words(places(), 1, ALL, "model", "", narrower), NOW)
    assert (found.since, found.until, found.words) == (late, late + HOUR_MS, ("tok:ci",))


def test_the_filter_of_all_others_excludes_the_rest() -> None:
    words = filter_words(places(), 0, OTHERS, "group")
    assert words.split()[2:] == [f"!grp:key{number}" for number in range(8, 2, -1)]


def test_a_day_ends_with_the_filter() -> None:
    query = parse(filter_words(places(), 1, ALL, "model"), NOW)
    bars = places().bars
    assert (query.since, query.until) == (bars.starts[1], bars.ends[1])


async def test_the_span_of_a_bar_does_not_outlive_the_console_and_is_not_followed() -> None:
    async with shown("usage", busy(), size=(140, 40)) as (app, pilot, _):
        await press(app, pilot, "left", "left", "enter")
        assert isinstance(app.page, LivePage)
        assert "past calls" in screen(app)
        assert "following" not in screen(app)
        view = app.session.state.view("live")
        assert (view.filter[:6], app.session.lasting_state.view("live").filter) == ("since:", "")
        await press(app, pilot, "escape", "e")
        assert app.session.lasting_state.view("live").filter == "st:err"
