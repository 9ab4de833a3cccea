"""Live: its line of sums, columns, filters, sorting, and what a row says of a call.

Long: the page with the most kinds of rows.
"""

import asyncio

import msgspec
import pytest
from textual.pilot import Pilot
from textual.widgets import Input, Static

from gateway.domain.call import REPEATED_MARK, Attempt
from gateway.domain.errors import Unavailable
from gateway.domain.events import AnyEvent, CallLeft, CallProgress, CallSettled, CallStarted, CallWaiting
from gateway.domain.units import Millis, Nanos
from gateway.domain.views import CallPage, CallView, running_view
from tests.tui.owner import Owner, press, screen, settle, shown, until
from tests.tui.stage import NOW, FakeClient, call, calls, console, running, wait_until
from tui.app import Console
from tui.exit_status import ExitStatus
from tui.pages.live import LivePage, columns
from tui.receipt import receipt
from tui.saved_state import PageState
from tui.trends import CallRates
from tui.widgets.header import Header


def listing() -> LivePage:
    session = console().session
    session.board.apply(FakeClient(calls(50)).snapshot())
    return LivePage(session)


def cells(row: CallView) -> dict[str, str]:
    return {column.id: column.text(row) for column in columns(console().session)}


def fitted(row: CallView, width: int) -> str:
    """What is drawn of the call in a column Model of this width."""
    column = next(column for column in columns(console().session) if column.id == "model")
    assert column.fit_text is not None
    return column.fit_text(row, width)


def test_what_a_call_waits_for_makes_no_column_wider() -> None:
    row = running_view(running(1, model="claude-bad", waits_for="its next try at channel 'claude-bad'"), NOW)
    assert (cells(row)["model"], fitted(row, 18)) == ("claude-bad", "claude-bad")
    assert fitted(row, 26).startswith("claude-bad · its next try")


def test_an_exported_running_call_has_the_columns_of_an_ended_one() -> None:
    exported = [listing().export_view(row) for row in (running_view(running(1), NOW), call(2, NOW))]
    assert [type(row) for row in exported] == [CallView, CallView]
    assert [row.state for row in exported] == ["running", "settled"]


def test_figures_above_the_list_say_of_how_many_calls_they_are_unless_that_would_cost_one() -> None:
    wide, narrow = (listing().lead(width).plain for width in (80, 56))
    assert wide.endswith(" (last 50)")
    assert ("first token" in narrow, "last" in narrow) == (True, False)


REFUSED = call(1, model="", request="POST /v1/files", status=404, marks=["repeated=37"], api="messages")
UNREAD = call(1, model="", request="", status=415, code="invalid_content_type", marks=(f"{REPEATED_MARK}3",))
LOST = call(1, status=0, outcome="lost", duration_ms=0, first_byte_ms=None)
NEARLY_SPENT = call(3, status=200, token="ci", marks=["budget=daily budget of token 'ci': 84% spent"])


@pytest.mark.parametrize(
    ("row", "column", "text"),
    [
        (running_view(running(1), NOW), "status", "▸ …"),
        (running_view(running(1, attempt=2), NOW), "status", "try2"),
        (LOST, "status", "lost"),
        (LOST, "duration", "·"),
        (REFUSED, "model", "POST /v1/files \u00d738"),
        (UNREAD, "model", "no model \u00d74"),
        (call(1, model="m", marks=["repeated=x"]), "model", "m"),
        (call(1, model="m", retry=2), "model", "m retry 2"),
        (REFUSED, "api", "messages"),
        (call(1), "api", "chat"),
        (NEARLY_SPENT, "token", "▲ci"),
        (call(3, token="ci"), "token", "ci"),
        (call(3, status=200, cost_nanos=0), "cost", "free"),
        (call(3, status=200, cost_nanos=0, rates=None), "cost", "no price"),
        (call(3, cost_nanos=0, rates=None, usage_source="none"), "cost", "·"),
        (call(3, status=200, cost_nanos=2_000_000, rates=None), "cost", "$0.0020"),
        (call(1, status=429, finish_reason="", code="upstream_rate_limited"), "end", "upstream_rate_limited"),
        (call(3, status=200, finish_reason="stop", marks=["bad_chunks=2"]), "end", "stop -2"),
    ],
)
def test_a_cell_says_in_a_word_what_happened(row: CallView, column: str, text: str) -> None:
    assert cells(row)[column] == text


def fallback_call(number: int) -> CallView:
    attempt = Attempt(channel="openai", status=200, ms=Millis(900), model="gpt-4o")
    return call(number, NOW - number, model="claude-haiku-4-5", attempts=[attempt], status=200)


def test_the_requested_model_and_the_fallback_that_answered_share_a_narrow_column() -> None:
    row = fallback_call(1)
    assert cells(row)["model"] == "claude-haiku-4-5 as gpt-4o"
    assert [fitted(row, width) for width in (26, 18, 12)] == [
        "claude-haiku-4-5 as gpt-4o",
        "clau\u20264-5 as gpt-4o",
        "cl\u20265 as gp\u2026o",
    ]
    again = msgspec.structs.replace(row, retry=1)
    assert cells(again)["model"] == "claude-haiku-4-5 as gpt-4o retry 1"
    assert fitted(again, 22) == "cl\u2026-5 as gp\u20264o retry 1"


async def test_names_of_tokens_keep_their_ends() -> None:
    names = ("claude-proj-a12b97", "claude-proj-76d973")
    records = [call(i, NOW - i, token=name) for i, name in enumerate(names)]
    async with shown("live", size=(80, 20), records=records, now_running=[]) as (app, _, _):
        assert [line.split()[-1][-4:] for line in lines(app)[:2]] == ["2b97", "d973"]


async def test_a_count_stays_where_its_model_is_cut() -> None:
    record = call(1, model="claude-sonnet-4-5", status=401, marks=(f"{REPEATED_MARK}1233",))
    async with shown("live", records=[record], size=(80, 24)) as (app, _, _):
        assert " claude-sonne\u2026 \u00d71,234 " in screen(app).splitlines()[4]


@pytest.mark.parametrize(("width", "shown_as"), [(80, " Sa 14:1"), (140, " 19 Sep 14:1")])
async def test_a_call_of_another_day_has_its_date(width: int, shown_as: str) -> None:
    records = [*calls(3), *calls(20, NOW - 2 * 86_400_000)]
    async with shown("live", records=records, size=(width, 30)) as (app, _, _):
        rows = screen(app).splitlines()[4:24]
        assert [row.startswith(" 14:1") for row in rows[:5]] == [True] * 5
        assert all(row.startswith(shown_as) for row in rows[5:])


EVERY_COLUMN = [column.id for column in columns(console().session) if column.id not in ("id", "group", "tries")]


@pytest.mark.parametrize("view", [PageState(columns=EVERY_COLUMN), PageState(detail=True)])
async def test_a_call_of_this_month_has_its_time_of_day(view: PageState) -> None:
    records = calls(40, NOW - 12 * 86_400_000)
    async with shown("live", records=records, size=(140, 30), view=view) as (app, _, _):
        assert [line[:7] for line in lines(app)[2:5]] == ["9 14:13"] * 3


def test_a_running_call_of_an_unpriced_model_says_so() -> None:
    page, now_running = listing(), running(1, NOW, model="my-finetune-7", cost=Nanos(0))
    row = running_view(now_running, NOW)
    cost = next(column for column in page.all_columns() if column.id == "cost")
    assert cost.tone is not None
    assert (cost.text(row), cost.tone(row)) == ("no price", "warn")
    assert "no price: counted, not charged" in page.detail(row, 100).plain
    priced = running_view(running(2, NOW, cost=Nanos(0)), NOW)
    assert (cost.text(priced), cost.tone(priced)) == ("\N{MIDDLE DOT}", "live")


def test_the_calls_of_a_minute_say_how_many_have_no_row_of_their_own() -> None:
    page = listing()
    page.session.board.calls.load_snapshot(0, [], [])
    page.session.board.call_rates = CallRates()
    page.session.board.apply(CallSettled(call=call(1, NOW, duration_ms=0)))
    assert " 1" in page.lead(120).plain
    assert "repeated" not in page.lead(120).plain
    flood = call(2, NOW, status=429, duration_ms=0, marks=["repeated=8"])
    page.session.board.apply(CallSettled(call=flood))
    assert page.session.board.calls.total == 2
    assert " 10 (8 repeated)" in page.lead(120).plain
    assert page.session.board.call_rates.repeats(Millis(NOW + 61_000)) == 0


def test_foreign_text_is_harmless_in_every_column() -> None:
    evil = "\x1b[2J\u202e[bold]"
    row = call(3, model=evil, channel=evil, token=evil, group=evil, app=evil, finish_reason=evil, id=evil)
    assert not any("\x1b" in text or "\u202e" in text for text in cells(row).values())


def test_the_line_above_fits_narrow_screens() -> None:
    for width in (20, 60, 150):
        assert listing().lead(width).cell_length <= max(width, 62)


def test_the_curl_of_a_call_without_a_model_has_a_place_for_one() -> None:
    assert '"model":"MODEL"' in listing().command(call(3, model="", request=""))


async def tell(app: Console, pilot: Pilot[ExitStatus], *events: AnyEvent) -> None:
    client = app.session.client
    assert isinstance(client, FakeClient)
    client.tell(*events)
    await settle(app, pilot)


def live(app: Console) -> LivePage:
    assert isinstance(app.page, LivePage)
    return app.page


def current(app: Console) -> str:
    """The id of the call under the cursor."""
    row = live(app).table.current
    return "" if row is None else row.id


def lines(app: Console) -> list[str]:
    table = live(app).table
    return [table.render_line(y).text.strip() for y in range(1, table.size.height)]


def lead(app: Console) -> str:
    return str(live(app).query_one(".lead", Static).visual).strip()


async def test_a_call_changes_in_place_until_it_is_settled() -> None:
    async with shown("live") as (app, pilot, _):
        await tell(app, pilot, CallStarted(call=running(9, NOW, ttft=None, output=0)))
        assert "·" in lines(app)[0]
        await tell(app, pilot, CallProgress(call=running(9, NOW, output=4_711)))
        assert "4,711" in lines(app)[0]
        await tell(app, pilot, CallSettled(call=call(9, NOW, status=200, model="m", output_tokens=5_000)))
        assert "✓200" in lines(app)[0]
        assert live(app).calls.key(0) == call(9, NOW).id


async def test_a_filter_that_makes_no_sense_is_complained_of_and_the_one_before_stays() -> None:
    async with shown("live") as (app, pilot, _):
        await press(app, pilot, "slash", *"st:running")
        app.page.query_one(Input).value = "st:running dur:>x"
        await settle(app, pilot)
        assert "is not a span of time" in lead(app)
        assert live(app).calls.count == 2


async def test_what_is_wrong_with_a_filter_is_shown_whole_and_then_the_line_is_one_again() -> None:
    async with shown("live") as (app, pilot, _):
        await press(app, pilot, "slash", *"st:run")
        line = live(app).query_one(".lead")
        assert line.size.height == 1
        await wait_until(pilot, lambda: line.size.height != 1)
        text = " ".join(" ".join(strip.text for strip in line.render_lines(line.size.region)).split())
        assert "client_closed, cancelled, stopped, lost" in text
        assert "…" not in text
        await press(app, pilot, *"ning")
        assert line.size.height == 1


async def test_a_filter_looks_among_older_records_too() -> None:
    async with shown("live", Owner(900, recent=20)) as (app, pilot, client):
        await press(app, pilot, "slash", *"st:429", "enter")
        wanted = [one.id for one in client.records if one.status == 429]
        found = [row.id for i in range(live(app).calls.count) if (row := live(app).calls.row(i))]
        assert found == wanted


async def test_records_below_the_ring_are_loaded_when_they_are_looked_at() -> None:
    async with shown("live", Owner(5_000, recent=20)) as (app, pilot, client):
        assert live(app).calls.count == 5_002
        await press(app, pilot, "G")
        row = live(app).table.current
        assert isinstance(row, CallView)
        assert row.id == client.records[-1].id
        assert sum(line.startswith("numbered_calls") for line in client.asked) == 2


async def test_a_server_that_does_not_answer_is_not_asked_all_the_time() -> None:
    class Deaf(Owner):
        async def numbered_calls(self, at: int, limit: int) -> list[CallView]:
            self.asked.append("calls")
            raise Unavailable("the server is gone")

    async with shown("live", Deaf(500)) as (app, pilot, owner):
        await press(app, pilot, "G")
        assert owner.asked.count("calls") == 1


async def test_details_stay_with_their_call_until_the_list_follows_again() -> None:
    async with shown("live") as (app, pilot, _):
        await press(app, pilot, "enter")
        opened = current(app)
        await tell(app, pilot, CallSettled(call=call(9, NOW + 9)))
        assert current(app) == opened
        assert "not following" in lead(app)
        await press(app, pilot, "g")
        await tell(app, pilot, CallSettled(call=call(10, NOW + 10)))
        assert current(app) == call(10, NOW + 10).id
        assert " following" in lead(app)


async def test_going_up_to_the_newest_call_with_the_details_open_stays_there() -> None:
    async with shown("live", view=PageState(detail=True)) as (app, pilot, _):
        assert live(app).table.following
        await press(app, pilot, "j", "k")
        assert not live(app).table.following


async def test_only_calls_that_came_meanwhile_are_new_after_a_filter_or_a_sort() -> None:
    async with shown("live") as (app, pilot, client):
        await pilot.press("j", "j", "j")
        page = live(app)
        page.query_one(Input).value = "st:ok"
        page.view.filter = "st:ok"
        await settle(app, pilot)
        page.table.go(3)
        assert "new" not in lead(app)
        client.tell(CallSettled(call=call(90, NOW + 1, status=200)))
        await tell(app, pilot, CallSettled(call=call(91, NOW + 2, status=500)))
        assert "1 new" in lead(app)
        await pilot.press("s", "S")
        page.view.filter = ""
        page.sort_by("", reverse=False)
        page.table.go(3)
        await settle(app, pilot)
        assert "2 new" in lead(app)


async def test_a_filter_without_a_match_says_so_and_how_much_was_searched() -> None:
    async with shown("live") as (app, pilot, _):
        await press(app, pilot, "slash", *"zzz", "enter")
        assert "0 calls, searched all 42 calls" in lead(app)
        assert "No call matches zzz." in str(live(app).query_one(".empty", Static).visual)


async def test_column_heads_are_whole_words_where_there_is_room() -> None:
    async with shown("live", size=(180, 30)) as (app, pilot, _):
        head = live(app).table.render_line(0).text
        assert "Duration" in head
        assert "First token" in head
        await pilot.resize_terminal(80, 24)
        await until(app, pilot, "Dur ")


async def test_waiting_calls_are_rows_that_say_for_what() -> None:
    async with shown("live") as (app, pilot, client):
        waits = "channel 'anthropic' (4 calls at once)"
        queued = running(90, NOW + 5, waits_for=waits, channel="", channel_name="", ttft=None, output=0)
        client.tell(CallWaiting(call=queued))
        await tell(app, pilot, CallProgress(call=running(91, NOW + 6, waits_for="its next try at channel 'x'")))
        assert cells(running_view(queued, NOW))["status"] == "wait"
        assert fitted(running_view(queued, NOW), 60) == "claude-sonnet-4-5 · channel 'anthropic'"
        assert "2 running · 2 waiting: 1 for channel 'anthropic'" in str(LivePage(app.session).lead(200))
        assert "2 running · 2 waiting" in lead(app)
        assert "running 2 · 2 waiting" in app.query_one(Header).render().plain
        await tell(app, pilot, CallLeft(call_id=queued.id))
        assert live(app).calls.index(queued.id) is None
        await tell(app, pilot, CallStarted(call=running(91, NOW + 6)))
        assert "waiting" not in lead(app)


async def test_a_console_that_opens_sees_waiting_calls() -> None:
    waiting = [running(90, NOW + 5, waits_for="token 'ci' (1 call at once)")]
    async with shown("live", size=(120, 30), now_waiting=waiting) as (app, _, _):
        assert "2 running · 1 waiting: 1 for token 'ci'" in lead(app)


async def test_a_sort_covers_all_calls_and_a_list_at_its_top_stays_there_while_older_ones_are_found() -> None:
    async with shown("live", Owner(900, recent=20)) as (app, pilot, client):
        live(app).sort_by("cost", reverse=False)
        live(app).renew()
        await until_searched(app, pilot)
        await settle(app, pilot)
        table, page = live(app).table, live(app).calls
        assert (table.cursor, table.scroll_offset.y, page.count) == (0, 0, 902)
        found = [row.cost_nanos for i in range(50) if (row := page.row(i))]
        assert found == sorted((one.cost_nanos for one in client.records), reverse=True)[:50]
        live(app).sort_by("cost", reverse=True)
        live(app).view.filter = "st:ok"
        await until_searched(app, pilot)
        assert live(app).calls.count == sum(one.status == 200 for one in client.records)
        row = live(app).calls.row(0)
        assert row is not None
        assert row.cost_nanos == min(one.cost_nanos for one in client.records if one.status == 200)


async def test_the_first_of_very_many_calls_are_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui.pages.live_source.SORTED_LIMIT", 30)
    async with shown("live", Owner(900, recent=20)) as (app, pilot, client):
        live(app).sort_by("cost", reverse=False)
        await until_searched(app, pilot)
        wanted = sorted((one.cost_nanos for one in client.records), reverse=True)[:30]
        assert [row.cost_nanos for i in range(30) if (row := live(app).calls.row(i))] == wanted
        assert lead(app).startswith("▹ sorted  the first 30 calls of all 902 calls")


async def until_searched(app: Console, pilot: Pilot[ExitStatus]) -> None:
    async with asyncio.timeout(30):
        while not live(app).calls.search.done:
            await pilot.pause(0.02)
            await settle(app, pilot)
    await settle(app, pilot)


def test_a_call_made_when_a_budget_was_nearly_spent_is_marked() -> None:
    text = receipt(NEARLY_SPENT, console().session, 100).plain
    assert "budget      ▲ daily budget of token 'ci': 84% spent" in text
    assert "budget=" not in text


def test_a_filter_has_no_answer_before_the_search_has_ended() -> None:
    made = listing()
    assert made.no_match("st:err").plain.startswith("No call matches st:err.")
    made.searching = True
    assert made.no_match("st:err").plain == "Searching older calls for st:err ..."


async def test_the_page_knows_that_it_still_searches() -> None:
    class Deaf(Owner):
        async def calls(self, **_wanted: object) -> CallPage:
            raise Unavailable("the server is gone")

    async with shown("live", Deaf(), view=PageState(filter="nothing-like-it")) as (app, _, _):
        assert str(live(app).query_one(".empty", Static).visual).startswith("Searching older calls")
