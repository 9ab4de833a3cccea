from asyncio import to_thread
from pathlib import Path

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot
from textual.widgets import Input, Static

from gateway.domain.events import CallSettled
from gateway.domain.units import Millis, local_datetime
from tests.tui.owner import Owner, press, screen, see, settle, shown
from tests.tui.pages.test_live import lead, lines, live, tell
from tests.tui.stage import NOW, call, running, wait_until, words
from tui.app import Console
from tui.exit_status import ExitStatus
from tui.pages.live_actions import index_before
from tui.widgets.dialogs import Confirm
from tui.widgets.form import Form


async def test_pausing_holds_the_rows_still_and_counts_what_comes() -> None:
    async with shown("live") as (app, pilot, _):
        await pilot.press("space")
        await tell(app, pilot, CallSettled(call=call(9, NOW)))
        assert lead(app).startswith("❚❚ paused  42 calls · 1 new (space shows them)")
        await press(app, pilot, "space")
        assert lead(app).startswith("▸ following  43 calls")


async def test_a_filter_holds_while_paused() -> None:
    async with shown("live") as (app, pilot, _):
        await press(app, pilot, "space", "slash", *"gpt", "enter")
        assert lead(app).startswith("❚❚ paused")
        assert {line.split()[1].partition("-")[0] for line in lines(app) if line} == {"gpt"}


async def test_while_paused_only_calls_that_are_not_in_the_list_are_new() -> None:
    async with shown("live") as (app, pilot, _):
        await pilot.press("s")
        await tell(app, pilot, CallSettled(call=call(9, NOW)))
        await press(app, pilot, "space")
        assert live(app).calls.count == 43
        assert "new" not in lead(app)
        await tell(app, pilot, CallSettled(call=call(10, NOW)))
        assert "1 new (space shows them)" in lead(app)


async def written(app: Console, pilot: Pilot[ExitStatus], path: Path) -> tuple[str, list[str]]:
    """The title of the dialog of an export, and the lines of the file."""
    await pilot.press("E")
    await wait_until(pilot, lambda: isinstance(app.screen, Form) and app.screen.query(Input))
    title = str(app.screen.query(Static).first().visual)
    app.screen.query_one(Input).value = str(path)
    await pilot.press("enter")
    await wait_until(pilot, lambda: words(app))
    return title, await to_thread(lambda: path.read_text().splitlines())


async def test_the_export_of_a_filter_has_all_that_it_finds(tmp_path: Path) -> None:
    async with shown("live", Owner(3_000, recent=100)) as (app, pilot, client):
        live(app).view.filter = "claude st:ok"
        await settle(app, pilot)
        wanted = [one for one in client.records if one.status == 200 and "claude" in one.model]
        assert live(app).calls.count < len(wanted)
        title, lines = await written(app, pilot, tmp_path / "found.jsonl")
        assert len([line for line in lines if '"state":"settled"' in line]) == len(wanted)
        assert title == f"Export {len(lines):,} rows to a file"


async def test_an_export_of_what_is_loaded_says_so(tmp_path: Path) -> None:
    async with shown("live", Owner(3_000, recent=100)) as (app, pilot, _):
        title, _lines = await written(app, pilot, tmp_path / "loaded.csv")
        assert ", those loaded of 3,002 calls; 'tollkeeper usage export' writes all" in title


async def test_following_comes_back_from_anywhere() -> None:
    async with shown("live") as (app, pilot, _):
        await press(app, pilot, "s", "space", "G", "F")
        assert lead(app).startswith("▸ following")
        assert live(app).view.sort == ""


async def test_errors_only_and_back() -> None:
    async with shown("live") as (app, pilot, _):
        await press(app, pilot, "e")
        assert all(row.status != 200 for i in range(live(app).calls.count) if (row := live(app).calls.row(i)))
        await press(app, pilot, "e")
        assert live(app).calls.count == 42


async def test_a_running_call_is_cancelled_after_a_question_with_its_id_age_and_cost() -> None:
    async with shown("live") as (app, pilot, client):
        await press(app, pilot, "x")
        assert isinstance(app.screen, Confirm)
        assert f"{running(2, NOW - 1_500).id}, 1.50s, $0 so far" in " ".join(screen(app).split())
        await press(app, pilot, "enter")
        assert not any(line.startswith("cancel") for line in client.asked)
        await press(app, pilot, "x", "y")
        assert client.asked[-1] == f"cancel {running(2, NOW - 1_500).id}"


async def test_a_selected_call_that_ends_stays_selected_though_the_filter_is_for_running_ones() -> None:
    async with shown("live") as (app, pilot, client):
        first, second = client.now_running
        await press(app, pilot, "/", *"st:running", "enter")
        await pilot.press("j")
        selected = live(app).table.current
        assert selected is not None
        ended = next(one for one in (first, second) if one.id == selected.id)
        await tell(app, pilot, CallSettled(call=replace(call(7), id=ended.id, time_ms=ended.ts)))
        current = live(app).table.current
        assert current is not None
        assert (current.id, current.state, live(app).calls.count) == (ended.id, "settled", 2)
        await press(app, pilot, "x")
        assert not isinstance(app.screen, Confirm)
        assert words(app)[-1] == "This call has already finished."
        await press(app, pilot, "k")
        assert live(app).calls.count == 1


async def test_a_call_that_ended_cannot_be_cancelled() -> None:
    async with shown("live") as (app, pilot, client):
        await press(app, pilot, "j", "x")
        assert words(app) == ["This call has already finished."]
        await pilot.press("g", "x")
        client.now_running = []
        await press(app, pilot, "y")
        assert words(app)[-1] == "It finished in the meantime."


async def test_marked_calls_that_run_are_ended_and_no_other() -> None:
    async with shown("live") as (app, pilot, client):
        await see(app, pilot, "3 marked: x ends those that run", "m", "m", "m")
        await press(app, pilot, "x")
        ids = {call.id for call in client.now_running}
        assert len(ids) == 2
        assert "End 2 calls?" in screen(app)
        await press(app, pilot, "y")
        assert {line.removeprefix("cancel ") for line in client.asked if line.startswith("cancel")} == ids
        assert words(app)[-1] == "Ended 2 calls."
        assert not live(app).table.marks
        await press(app, pilot, "G", "m", "x")
        assert words(app)[-1] == "They have all finished."


async def test_marked_calls_that_wait_are_ended_first() -> None:
    async with shown("live") as (app, pilot, client):
        calls = app.session.board.calls.running
        first = next(iter(calls))
        others = [one for one in calls if one != first]
        waiting = {one: replace(calls[one], waits_for="a place at anthropic") for one in others}
        calls.update(waiting)
        await press(app, pilot, "m", "m", "m", "x", "y")
        ended = [line.removeprefix("cancel ") for line in client.asked if line.startswith("cancel")]
        assert ended == [*others, first]


async def test_errors_can_be_walked() -> None:
    async with shown("live", Owner(60)) as (app, pilot, _):
        await pilot.press("right_square_bracket")
        first = live(app).table.current
        await pilot.press("right_square_bracket", "left_square_bracket")
        assert live(app).table.current is first
        assert first is not None
        assert first.status >= 400


async def test_jumping_goes_to_the_newest_call_before_a_moment() -> None:
    async with shown("live", Owner(400)) as (app, pilot, client):
        await press(app, pilot, "w", *"10m", "enter")
        row = live(app).table.current
        assert row is not None
        assert row.time_ms == max(one.time_ms for one in client.records if one.time_ms < NOW - 600_000)


async def test_jumping_to_a_time_of_the_list_goes_to_its_call() -> None:
    async with shown("live", Owner(400)) as (app, pilot, client):
        wanted = client.records[100]
        await press(app, pilot, "w", *f"{local_datetime(wanted.time_ms):%H:%M:%S}", "enter")
        assert live(app).table.current == wanted


async def test_jumping_far_back_asks_for_one_record() -> None:
    async with shown("live", Owner(5_000, recent=20)) as (app, _, client):
        client.asked.clear()
        index = await index_before(live(app), Millis(NOW - 4_000 * 3_100))
        number = live(app).calls.count - index
        assert client.records[-number].time_ms == max(
            one.time_ms for one in client.records if one.time_ms < NOW - 4_000 * 3_100
        )
        assert all("'limit': 1," in request for request in client.asked)


async def test_before_everything_is_the_oldest() -> None:
    async with shown("live", Owner(5_000, recent=20)) as (app, _, _client):
        assert await index_before(live(app), Millis(1)) == live(app).calls.count - 1


@pytest.mark.parametrize("shown_as", ["sorted", "marked"])
async def test_jumping_in_a_list_that_is_not_by_time_or_not_whole_stays_in_it(shown_as: str) -> None:
    async with shown("live", Owner(5_000, recent=20)) as (app, pilot, _):
        if shown_as == "sorted":
            live(app).sort_by("model", reverse=False)
        else:
            await pilot.press("m", "m", "m", "M")
        await settle(app, pilot)
        rows = [row for row in map(live(app).calls.row, range(live(app).calls.count)) if row is not None]
        end = Millis(sorted(row.time_ms for row in rows)[2])
        assert rows[await index_before(live(app), end)].time_ms == max(row.time_ms for row in rows if row.time_ms < end)
        assert await index_before(live(app), Millis(1)) == len(rows) - 1
