"""The Live page as its user sees it, in front of a fake server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from textual.pilot import Pilot
from textual.widgets import Input, Static

from gateway.domain.errors import Unavailable
from gateway.domain.events import CallProgress, CallSettled, CallStarted
from gateway.domain.views import CallView
from tests.tui.stage import NOW, FakeClient, call, calls, console, running
from tui.app import Console
from tui.exit_status import Farewell
from tui.pages.live import Live
from tui.saved_state import Remembered, View
from tui.widgets.text_block import Detail

Shown = tuple[Console, Pilot[Farewell], FakeClient]


@asynccontextmanager
async def shown(count: int = 60, recent: int = 200, remembered: Remembered | None = None) -> AsyncIterator[Shown]:
    client = FakeClient(calls(count), recent=recent)
    app = console(client, remembered=remembered)
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(app, pilot)
        yield app, pilot, client


async def settle(app: Console, pilot: Pilot[Farewell]) -> None:
    """Let everything that happened reach the screen; what is loaded in answer to it, too."""
    for _ in range(4):
        await pilot.pause()
        app.page.renew()
    await pilot.pause()


def live(app: Console) -> Live:
    assert isinstance(app.page, Live)
    return app.page


def lines(app: Console) -> list[str]:
    table = live(app).table
    return [table.render_line(y).text.strip() for y in range(1, table.size.height)]


def lead(app: Console) -> str:
    return str(live(app).query_one(".lead", Static).visual).strip()


async def test_running_calls_are_marked_rows_among_the_others() -> None:
    async with shown() as (app, _, _client):
        assert ["▸ …" in line for line in lines(app)[:4]] == [True, False, True, False]
        assert lead(app).startswith("▸ following  62 calls")


async def test_a_call_changes_in_place_until_it_is_settled() -> None:
    async with shown() as (app, pilot, client):
        client.tell(CallStarted(seq=1, call=running(9, NOW, ttft=None, output=0)))
        await settle(app, pilot)
        assert "·" in lines(app)[0]
        client.tell(CallProgress(seq=2, call=running(9, NOW, output=4_711)))
        await settle(app, pilot)
        assert "4,711" in lines(app)[0]
        client.tell(CallSettled(seq=3, call=call(9, NOW, status=200, model="m", output_tokens=5_000)))
        await settle(app, pilot)
        assert "✓200" in lines(app)[0]
        assert live(app).calls.key(0) == call(9, NOW).id


async def test_the_filter_is_the_query_language() -> None:
    async with shown() as (app, pilot, _):
        await pilot.press("slash", *"st:running", "enter")
        await settle(app, pilot)
        assert live(app).calls.count == 2
        assert live(app).query_one(Input).display


async def test_a_filter_that_makes_no_sense_is_complained_of_and_the_one_before_stays() -> None:
    async with shown() as (app, pilot, _):
        await pilot.press("slash", *"st:running")
        await settle(app, pilot)
        app.page.query_one(Input).value = "st:running dur:>x"
        await settle(app, pilot)
        assert "is not a span of time" in lead(app)
        assert live(app).calls.count == 2


async def test_a_filter_looks_among_older_records_too() -> None:
    async with shown(900, recent=20) as (app, pilot, client):
        await pilot.press("slash", *"st:429", "enter")
        await settle(app, pilot)
        wanted = [one.id for one in client.records if one.status == 429]
        found = [row.id for i in range(live(app).calls.count) if (row := live(app).calls.row(i))]
        assert found == wanted


async def test_records_below_the_ring_are_loaded_when_they_are_looked_at() -> None:
    async with shown(5_000, recent=20) as (app, pilot, client):
        assert live(app).calls.count == 5_002
        await pilot.press("G")
        await settle(app, pilot)
        row = live(app).table.current
        assert isinstance(row, CallView)
        assert row.id == client.records[-1].id
        assert sum(line.startswith("numbered_calls") for line in client.asked) == 2


async def test_a_server_that_does_not_answer_is_not_asked_all_the_time() -> None:
    class Deaf(FakeClient):
        async def numbered_calls(self, at: int, limit: int) -> list[CallView]:
            self.asked.append("calls")
            raise Unavailable("the server is gone")

    app = console(Deaf(calls(500), recent=200))
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(app, pilot)
        await pilot.press("G")
        await settle(app, pilot)
        client = app.session.client
        assert isinstance(client, Deaf)
        assert client.asked.count("calls") == 1


async def test_the_pane_is_the_receipt() -> None:
    async with shown() as (app, pilot, _):
        await pilot.press("j", "enter")
        await settle(app, pilot)
        text = str(live(app).query_one("Detail Static", Static).visual)
        assert "tokens  in" in text
        assert "cost    " in text
        await pilot.press("escape")
        assert not live(app).query_one(Detail).display


async def test_an_empty_page_says_how_to_make_a_call() -> None:
    client = FakeClient([])
    client.now_running = []
    app = console(client)
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(app, pilot)
        assert "No calls yet." in str(live(app).query_one(".empty", Static).visual)


async def test_it_opens_as_it_was_left() -> None:
    view = View(sort="cost", filter="st:ok", detail=True)
    async with shown(remembered=Remembered(page="live", views={"live": view})) as (app, _, _client):
        assert lead(app).startswith("▹ sorted")
        assert live(app).query_one(Detail).display
