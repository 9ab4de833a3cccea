import gc
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from textual.binding import Binding
from textual.command import CommandPalette
from textual.pilot import Pilot

from gateway.client import launch
from gateway.domain.errors import Unavailable
from gateway.domain.events import CallSettled, IncidentChanged, Stopping
from gateway.domain.incidents import Incident
from gateway.domain.settings import Settings
from gateway.domain.units import DAY_MS, Millis
from gateway.runfile import Endpoint
from tests.tui.clock import rest
from tests.tui.owner import Owner, screen, shown
from tests.tui.stage import (
    ADDRESS,
    NOW,
    FakeClient,
    FakeLauncher,
    call,
    calls,
    console,
    status,
    sums,
    wait_until,
    words,
)
from tui.actions import PAGES
from tui.app import Console
from tui.console_app import available_actions
from tui.exit_status import ExitStatus
from tui.pages.base import AnyPage, ConsolePage, page_class
from tui.session import ConsoleSession
from tui.widgets.header import Header
from tui.widgets.table import LiveTable


def made_page(page: str, session: ConsoleSession) -> ConsolePage:
    make: AnyPage = page_class(page)
    made: ConsolePage = make(session)
    return made


def test_every_page_has_a_verb_for_each_of_its_keys() -> None:
    session = console().session
    for page in [made_page(info.id, session) for info in PAGES]:
        bound = {binding.action for binding in type(page).BINDINGS if isinstance(binding, Binding)}
        wanted = {action.removeprefix("act('").removesuffix("')") for action in bound if action.startswith("act(")}
        assert wanted <= set(page.verbs), page.id


async def until(app: Console, pilot: Pilot[ExitStatus], there: Callable[[], object], *keys: str) -> None:
    """Press keys and wait."""
    await pilot.press(*keys)
    await wait_until(pilot, there)
    app.renew()
    await pilot.pause()


def head(app: Console) -> str:
    return app.query_one(Header).render().plain


def farewell(app: Console) -> str:
    """What is said when the console has been left."""
    assert app.return_value is not None
    return app.return_value.sentence


def launcher_of(app: Console) -> FakeLauncher:
    """By which its server can be made to hide or fail."""
    launcher = app.feed._launcher  # noqa: SLF001 - the fake is switched
    assert isinstance(launcher, FakeLauncher)
    return launcher


def warning(**changes: Any) -> IncidentChanged:
    """A budget that is nearly spent."""
    found = Incident(id=8, channel="", budget="daily budget of token 'ci'", reason="80% is spent", began=NOW, last=NOW)
    return IncidentChanged(incident=msgspec.structs.replace(found, **changes))


@pytest.mark.parametrize("size", [(20, 5), (40, 10), (60, 20), (80, 24), (160, 45)])
async def test_every_page_opens_at_every_size_and_lists_show_rows(size: tuple[int, int]) -> None:
    app = console(FakeClient(calls(30)))
    async with app.run_test(size=size) as pilot:
        for number, page in enumerate(PAGES, 1):
            await pilot.press(str(number))
            await pilot.pause()
            assert app.page.id == page.id
            assert all(table.size.height > 1 for table in app.page.query(LiveTable)), page.id  # the titles are a line


async def test_todays_cost_grows_with_calls() -> None:
    async with shown("live") as (app, pilot, client):
        client.tell(CallSettled(call=call(99, NOW)))
        total = sums("", client.records)
        await until(app, pilot, lambda: app.session.board.today_nanos == total.cost_nanos)
        assert app.session.board.today_tokens == total.input_tokens + total.output_tokens


async def test_todays_cost_is_counted_from_the_new_midnight() -> None:
    async with shown("live") as (app, pilot, client):
        await until(app, pilot, lambda: app.session.board.today_nanos)
        tomorrow = Millis(NOW + DAY_MS)
        app.session.now = lambda: tomorrow
        client.records = [call(99, tomorrow, cost_nanos=7)]
        await until(app, pilot, lambda: app.session.board.today_nanos == 7)
        assert client.asked.count("summary  ") == 2


async def test_todays_cost_is_unknown_if_it_cannot_be_fetched_at_midnight_until_it_can_half_a_minute_later() -> None:
    async with shown("live") as (app, pilot, client):
        tomorrow, fetch = Millis(NOW + DAY_MS), client.summary

        async def fail(**_: object) -> None:
            raise Unavailable("the search took too long")

        client.summary = fail  # type: ignore[assignment, method-assign]
        app.session.now = lambda: tomorrow
        await until(app, pilot, lambda: app.session.board.today_nanos is None)
        client.summary = fetch  # type: ignore[method-assign]
        client.records = [call(99, tomorrow, cost_nanos=7)]
        await rest(25)
        assert app.session.board.today_nanos is None
        await rest(10)
        assert app.session.board.today_nanos == 7


async def test_todays_cost_is_that_of_the_last_snapshot() -> None:
    async with shown("live") as (app, pilot, client):
        await until(app, pilot, lambda: app.session.board.today_nanos)
        client.records = [call(99, NOW, cost_nanos=7)]
        client.tell(client.snapshot())
        await until(app, pilot, lambda: app.session.board.today_nanos == 7)


async def test_a_fetch_of_today_that_another_one_replaces_before_it_began_was_never_there() -> None:
    """Otherwise Python warns of a coroutine that nobody awaited."""
    async with shown("live") as (app, pilot, _):
        for _ in range(2):
            app.session.board.today_start = Millis(0)
            app.renew()
        await pilot.pause()
        gc.collect()


async def test_a_server_that_goes_away_is_reported_and_the_rows_stay() -> None:
    async with shown("live", Owner(30)) as (app, pilot, client):
        (launcher := launcher_of(app)).findable = False
        client.end()
        await until(app, pilot, lambda: app.session.link == "gone")
        assert "no server" in head(app)
        assert len(app.session.board.calls.order) == 32
        launcher.there = False
        await until(app, pilot, lambda: words(app) == ["the server ended with status 1 before it answered"], "r")
        launcher.there = True
        await until(app, pilot, lambda: app.session.link == "attached", "r")
        assert "no server" not in head(app)


async def test_without_a_server_it_ends_and_keeps_the_reason() -> None:
    app = console()
    launcher_of(app).there = False
    async with app.run_test() as pilot:
        await wait_until(pilot, lambda: app.failure)
    assert app.failure is not None
    assert app.failure.code == "start_failed"


async def test_leaving_lets_the_server_go_on_and_says_how_to_stop_it() -> None:
    async with shown("live") as (app, pilot, _):
        await pilot.press("q")
        await pilot.pause()
    assert farewell(app).startswith(f"console closed; still serving {ADDRESS}")
    assert "'tollkeeper --home /nowhere stop' stops the server" in farewell(app)
    assert app.return_code == 0


@pytest.mark.parametrize(
    ("key", "is_used", "told"),
    [
        ("Q", True, ["2 running calls may finish first", "2 other consoles will lose the server"]),
        ("Q", False, ["Stop the server?"]),
        ("q", False, ["Stop the server?"]),
    ],
    ids=["used", "unused", "leaving, if the owner wants it so"],
)
async def test_stopping_asks_and_says_what_it_interrupts(key: str, is_used: bool, told: list[str]) -> None:
    client = Owner(settings_now=Settings(stop_on_leave=key == "q"), consoles=3)
    if not is_used:
        client.consoles, client.now_running = 1, []
    async with shown("live", client) as (app, pilot, _):
        await until(app, pilot, lambda: app.screen.is_modal, key)
        text = " ".join(screen(app).replace("│", " ").split())
        assert [words in text for words in told] == [True] * len(told)
        await pilot.press("escape")
        assert app.return_value is None


async def test_stopping_waits_as_long_as_the_server_does(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def stop(_: Endpoint, *, wait_s: float) -> None:
        waits.append(wait_s)

    monkeypatch.setattr(launch, "stop", stop)
    async with shown("live") as (app, pilot, _):
        app.session.board.status = status(0, drain_s=90)
        await pilot.press("Q")
        await until(app, pilot, lambda: app.screen.is_modal)
        await pilot.press("y")
        await until(app, pilot, lambda: waits)
    assert waits == [95]


async def test_after_another_console_stopped_the_server_leaving_says_so() -> None:
    """The board still shows that the server was stopping."""
    async with shown("live") as (app, pilot, client):
        client.tell(Stopping(until_ms=Millis(NOW + 30_000), running=[]))
        await until(app, pilot, lambda: app.session.board.stopping is not None)
        launcher_of(app).findable = False
        client.end()
        await until(app, pilot, lambda: app.session.link == "gone")
        await pilot.press("q")
        await pilot.pause()
    assert farewell(app).startswith("console closed; no server is running")


async def test_ctrl_c_says_how_to_leave() -> None:
    async with shown("live") as (app, pilot, _):
        await until(app, pilot, lambda: words(app), "ctrl+c")
        assert words(app) == ["Press q to quit; the server keeps running. Press Q to stop the server too."]
        assert app.return_value is None
        await until(app, pilot, lambda: app.screen.is_modal, "T")
        await until(app, pilot, lambda: len(words(app)) == 2, "ctrl+c")
        assert words(app)[-1] == "Press esc to close this, then q to quit the console."


async def test_a_budget_is_announced_when_it_is_nearly_spent_and_when_it_refuses() -> None:
    async with shown("live") as (app, pilot, client):
        client.tell(warning())
        await until(app, pilot, lambda: words(app))
        assert words(app) == ["Of the daily budget of token 'ci', 80% is spent."]
        app.clear_notifications()
        client.tell(warning(reason="81% is spent"))
        client.tell(warning(reason="all is spent", refusing=True))
        await until(app, pilot, lambda: words(app))
        assert words(app) == ["Of the daily budget of token 'ci', all is spent."]
        app.clear_notifications()
        client.tell(warning(reason="99% is spent"))
        client.tell(warning(reason="99% is spent", ended=Millis(NOW + 1)))
        client.tell(warning(id=9, reason="85% is spent"))
        await until(app, pilot, lambda: words(app))
        assert words(app) == ["Of the daily budget of token 'ci', 85% is spent."]
        app.clear_notifications()
        client.tell(warning(id=9, reason="86% is spent", refused=1))
        await until(app, pilot, lambda: app.session.board.incidents.newest()[0].refused)
        await pilot.pause()
        assert words(app) == []


async def test_leaving_a_draining_server_says_so() -> None:
    async with shown("live") as (app, pilot, client):
        client.tell(Stopping(until_ms=Millis(NOW + 30_000), running=[]))
        await until(app, pilot, lambda: app.session.board.stopping is not None)
        assert "stopping, 30s at most" in head(app)
        await pilot.press("q")
        await pilot.pause()
    assert "stops when its running calls have finished" in farewell(app)


@pytest.mark.parametrize("in_ascii", [False, True])
async def test_scrollbars_are_seen_without_colour(in_ascii: bool) -> None:
    """The handle is drawn in reverse, the track is not."""
    async with shown("live", Owner(60), theme="", colour=False, in_ascii=in_ascii) as (app, _, _):
        app.page.query_one(LiveTable).scroll_to(y=0, animate=False)
        column = [list(strip)[-1] for strip in app.screen._compositor.render_strips()[3:-1]]  # noqa: SLF001 - the filtered lines
        reverse = [bool(segment.style and segment.style.reverse) for segment in column]
        assert reverse[0]
        assert not reverse[-1]


@pytest.mark.parametrize("key", ["ctrl+p", "colon"])
async def test_two_keys_open_the_palette(key: str) -> None:
    async with shown("live") as (app, pilot, _):
        await until(app, pilot, lambda: isinstance(app.screen, CommandPalette), key)
        await pilot.press("escape")


async def test_every_page_offers_the_actions_it_has_verbs_for() -> None:
    async with shown("live") as (app, _, _):
        ids = [action.id for action in available_actions(app.page, app.session.preferences.keymap)]
        assert ids[0] == "live.pause"
        assert "app.leave" in ids
        assert "entity.new" not in ids


async def test_what_changes_below_a_dialog_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    async with shown("live") as (app, pilot, _):
        drawn: list[int] = []
        monkeypatch.setattr(app.page, "renew", lambda: drawn.append(app.session.board.version))
        await until(app, pilot, lambda: app.screen.is_modal, "question_mark")
        app.session.board.tables_version += 1
        app.renew()
        assert drawn[-1:] == [app.session.board.version]


async def test_nothing_is_drawn_while_the_console_closes() -> None:
    async with shown("live") as (app, _, _):
        await app.query_one(Header).remove()
        app._drawn = (-1, -1)  # noqa: SLF001 - as if something had changed in the last moment
        app.renew()
        assert app._drawn == (-1, -1)  # noqa: SLF001


def test_the_start_loads_no_page_and_no_dialog_of_one() -> None:
    """A page's file is loaded when it is first opened: that is most of the console's own part of the start."""
    program = "import sys, tui.app; print(*sorted(name for name in sys.modules if name.startswith('tui.')))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert not loaded & {f"tui.pages.{page.id}" for page in PAGES}
    assert not loaded & {"tui.wizard", "tui.palette", "tui.widgets.connect", "tui.widgets.why"}
