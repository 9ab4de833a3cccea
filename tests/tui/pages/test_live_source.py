from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest

from gateway.domain.events import CallSettled, CallStarted
from gateway.domain.query import parse
from gateway.domain.views import CallPage, CallView
from tests.tui import owner as pages
from tests.tui.owner import Owner, press, shown
from tests.tui.stage import NOW, FakeClient, call, calls, console, running
from tui.pages.live import LivePage, columns
from tui.pages.live_source import CallHistory, LiveSource, count_unseen, load_found, note_seen, progress_text
from tui.session import ConsoleSession


def made(count: int = 10, recent: int = 10) -> tuple[ConsoleSession, LiveSource]:
    session = console().session
    session.board.apply(FakeClient(calls(count), recent=recent).snapshot())
    source = LiveSource(session)
    source.renew()
    return session, source


def ids(source: LiveSource) -> list[str]:
    return [row.id if (row := source.row(i)) else "" for i in range(source.count)]


def settle(session: ConsoleSession, *settled: CallView) -> None:
    for one in settled:
        session.board.apply(CallSettled(call=one))


def test_the_newest_comes_first_and_below_the_ring_records_are_known_by_number_only() -> None:
    _, source = made(1_000, 10)
    assert ids(source)[:12] == sorted(ids(source)[:12], reverse=True)
    assert source.count == 1_002
    assert source.row(12) is None
    assert source.history.waiting
    assert source.key(12) == 990
    assert source.index(990) == 12


def test_rows_stand_still_between_renewals_and_a_key_finds_its_row_wherever_it_went() -> None:
    session, source = made(1_000, 10)
    before, key, number = ids(source), source.key(4), source.key(500)
    settle(session, call(99, NOW + 5))
    assert ids(source) == before
    source.renew()
    assert ids(source) == [call(99, NOW + 5).id, *before]
    assert (source.index(key), source.index(number), source.index("req_unknown")) == (5, 501, None)


def test_a_filter_shows_what_fits_and_follows_changes() -> None:
    session, source = made()
    source.narrow(parse("st:running", NOW))
    source.renew()
    assert ids(source) == [running(2, NOW - 1_500).id, running(1).id]
    settle(session, call(1, NOW - 4_000))
    source.renew()
    assert ids(source) == [running(2, NOW - 1_500).id]
    source.narrow(None)
    source.renew()
    assert source.count == 12


def test_the_number_of_a_record_has_no_row_in_a_filtered_list() -> None:
    _, source = made(1_000, 10)
    number = source.key(500)
    source.narrow(parse("st:running", NOW))
    source.renew()
    assert source.index(number) is None


def test_new_calls_pass_the_filter_one_by_one() -> None:
    session, source = made()
    source.narrow(parse("st:429", NOW))
    source.renew()
    before = source.count
    settle(session, call(50, NOW + 1, status=429), call(51, NOW + 2, status=200))
    source.renew()
    assert source.count == before + 1


def test_older_records_are_found_page_by_page() -> None:
    _, source = made(100, 10)
    source.narrow(parse("st:ok", NOW))
    source.renew()
    before = source.count
    fitting = [one for one in calls(100)[10:60] if one.status == 200]
    source.extend(CallPage(calls=fitting, cursor="40"))
    source.renew()
    assert source.count == before + len(fitting)
    assert not source.search.done
    assert source.index(fitting[-1].id) == source.count - 1
    source.extend(CallPage(calls=[]))
    assert source.search.done


def test_rows_can_be_sorted_by_any_column() -> None:
    _, source = made()
    source.order(next(column for column in columns(console().session) if column.id == "cost"), descending=True)
    source.renew()
    costs = [row.cost_nanos for i in range(source.count) if (row := source.row(i))]
    assert costs == sorted(costs, reverse=True)
    assert source.index(source.key(3)) == 3


def test_only_marked_rows_can_be_kept() -> None:
    _, source = made()
    key = source.key(5)
    source.restrict({key})
    source.renew()
    assert ids(source) == [key]


def test_while_paused_a_filter_and_a_sort_change_the_rows_but_nothing_new_comes() -> None:
    session, source = made()
    cost = next(column for column in columns(session) if column.id == "cost")
    source.pause(on=True)
    before = ids(source)
    settle(session, call(99, NOW + 5, model="gpt-5", cost_nanos=10**12))
    source.narrow(parse("gpt", NOW))
    source.renew()
    found = [row.id for row in map(source.row, range(source.count)) if row is not None and "gpt" in row.model]
    assert 0 < len(found) == source.count < len(before)
    assert set(found) < set(before)
    source.narrow(None)
    source.order(cost, descending=True)
    source.renew()
    costs = [row.cost_nanos for row in map(source.row, range(source.count)) if row is not None]
    assert (costs, set(ids(source))) == (sorted(costs, reverse=True), set(before))
    source.order(None, descending=False)
    source.pause(on=False)
    source.renew()
    assert ids(source) == [call(99, NOW + 5).id, *before]


def test_paused_rows_stay_and_what_comes_is_counted() -> None:
    session, source = made()
    note_seen(source)
    before = ids(source)
    source.pause(on=True)
    settle(session, call(98, NOW + 4), call(99, NOW + 5))
    source.renew()
    assert ids(source) == before
    assert count_unseen(source) == 2
    source.pause(on=False)
    source.renew()
    assert source.count == 14


def test_the_search_says_how_far_back_it_is_and_whether_it_goes_on() -> None:
    _, source = made(1_000, 100)
    source.narrow(parse("claude", NOW))
    assert progress_text(source, NOW, is_searching=True) == "back to 14:08:10; searching older calls"
    assert progress_text(source, NOW, is_searching=False) == "back to 14:08:10; G for older ones"


@pytest.mark.parametrize("count", [3, 2_000])
def test_another_server_has_other_records(count: int) -> None:
    session, source = made(1_000, 10)
    source.row(500)
    client = FakeClient(calls(count))
    client.endpoint = type(client.endpoint)(instance="two", secret="s")
    session.board.apply(client.snapshot())
    source.renew()
    assert source.count == count + 2
    assert not source.history.waiting


class Records:
    """A server's records of one page. It notes what is requested."""

    def __init__(self, count: int = 10, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.rows, self.meanwhile = calls(count), meanwhile
        self.requested: list[tuple[int, int]] = []

    async def fetch(self, at: int, limit: int) -> list[CallView]:
        self.requested.append((at, limit))
        self.meanwhile()
        return self.rows


@pytest.mark.parametrize(
    ("viewed", "total", "request_"),
    [([25], 1_000, (30, 10)), ([25, 905], 1_000, (910, 10)), ([23], 24, (24, 4))],
    ids=["missing", "only what was viewed last", "the newest page may be short"],
)
async def test_what_is_missing_is_fetched_a_page_at_a_time(
    viewed: list[int], total: int, request_: tuple[int, int]
) -> None:
    history, records = CallHistory(page_size=10), Records()
    assert [history.row(number) for number in viewed] == [None] * len(viewed)
    assert history.waiting
    await history.load(records.fetch, total)
    await history.load(records.fetch, total)
    assert (records.requested, history.waiting) == ([request_], False)


async def fetched(history: CallHistory, *numbers: int) -> list[CallView]:
    """The ten calls of each page that was looked at, also while it was fetched."""
    rows: list[CallView] = []
    for number in numbers:
        history.row(number)
        records = Records(meanwhile=partial(history.row, number))
        await history.load(records.fetch, 1_000)
        rows = records.rows
        assert not history.waiting
    return rows


async def test_another_page_that_is_viewed_meanwhile_is_fetched_next() -> None:
    history = CallHistory(page_size=10)
    history.row(25)
    records = Records(meanwhile=lambda: history.row(905))
    await history.load(records.fetch, 1_000)
    await history.load(records.fetch, 1_000)
    assert records.requested == [(30, 10), (910, 10)]


async def test_rows_are_found_by_their_numbers() -> None:
    history = CallHistory(page_size=10)
    rows = await fetched(history, 25)
    assert (history.row(30), history.row(21)) == (rows[0], rows[-1])


async def test_the_newest_page_grows() -> None:
    history = CallHistory(page_size=10)
    history.row(24)
    await history.load(Records(4).fetch, 24)
    assert history.row(24) is not None
    assert history.row(25) is None
    assert history.waiting
    await history.load(Records(5).fetch, 25)
    assert history.row(25) is not None


async def test_records_are_fetched_by_their_new_numbers_after_old_ones_were_deleted() -> None:
    session, source = made(1_000, 10)
    client = FakeClient(calls(1_000), recent=10)
    assert source.row(15) is None
    await source.history.load(client.numbered_calls, source.records)
    before = ids(source)[:100]
    client.records = client.records[:900]  # newest first
    session.board.apply(client.snapshot())
    source.renew()
    assert (source.count, source.row(15)) == (902, None)
    await source.history.load(client.numbered_calls, source.records)
    assert ids(source)[:100] == before


async def test_pages_looked_at_long_ago_are_forgotten() -> None:
    history = CallHistory(page_size=10, max_pages=2)
    await fetched(history, 5, 15, 25)
    assert history.row(5) is None
    assert history.row(25) is not None


async def test_a_name_finds_the_calls_of_what_has_it_since_it_got_it() -> None:
    owner = Owner()
    renamed = [msgspec.structs.replace(one, name="jupyter") if one.name == "ci" else one for one in owner.tokens_now]
    wanted = [one.id for one in owner.records if one.token == "ci"]
    assert wanted
    async with shown("live", owner) as (app, pilot, _):
        assert isinstance(app.page, LivePage)
        await press(app, pilot, "slash", "=tok:jupyter", "enter")
        assert app.page.calls.count == 0
        owner.tokens_now = renamed
        owner.changed()
        await pages.settle(app, pilot)
        assert ids(app.page.calls) == wanted
        owner.tell(CallStarted(call=running(99, NOW, token="tok_ci", token_name="jupyter")))
        await pages.settle(app, pilot)
        assert app.page.calls.count == len(wanted) + 1


def test_a_name_that_fits_now_starts_the_search_again() -> None:
    session, source = made(40, 10)
    snapshot = FakeClient(calls(40), recent=10).snapshot()
    source.narrow(parse("tok:c*", NOW))
    for old, new, searches_again in (("phone", "tablet", False), ("editor", "clerk", True)):
        source.extend(CallPage(calls=[call(1), call(2)]))
        tokens = [msgspec.structs.replace(one, name=new) if one.name == old else one for one in snapshot.tokens]
        session.board.apply(msgspec.structs.replace(snapshot, tokens=tokens))
        source.renew()
        assert source.search.done != searches_again
        assert bool(source.search_results) != searches_again


async def test_the_last_name_of_a_removed_token_finds_its_calls() -> None:
    session, source = made(40, 40)
    snapshot = FakeClient(calls(40), recent=40).snapshot()
    there = [token for token in snapshot.tokens if token.name != "ci"]
    session.board.apply(msgspec.structs.replace(snapshot, tokens=there, removed_names={"tok_ci": "gone"}))
    source.narrow(parse("tok:gone", NOW))
    source.renew()
    wanted = [one.id for one in snapshot.recent if one.token == "ci"]
    assert ids(source) == wanted != []


async def test_a_groups_calls_are_found_by_its_present_name() -> None:
    owner = Owner()
    owner.groups_now = [msgspec.structs.replace(owner.groups_now[0], name="home", id="default")]
    owner.records[:11] = [msgspec.structs.replace(one, group="other", group_id="grp_1") for one in owner.records[:11]]
    async with shown("live", owner) as (app, pilot, _):
        assert isinstance(app.page, LivePage)
        await press(app, pilot, "slash", "=grp:home", "enter")
        assert ids(app.page.calls)[2:] == [one.id for one in owner.records[11:]]  # two more are running


async def test_what_is_found_for_an_earlier_search_is_dropped() -> None:
    async with shown("live", Owner(600, recent=10)) as (app, _, _):
        client, source = app.session.client, LiveSource(app.session)
        source.narrow(parse("st:429", NOW))
        source.renew()
        real = client.calls

        async def late(**filters: Any) -> CallPage:
            page = await real(**filters)
            source.narrow(source.query)
            return page

        client.calls = late  # type: ignore[method-assign]
        await load_found(source)
        assert (source.search_results, source.search.cursor) == ([], "")
        client.calls = real  # type: ignore[method-assign]
        await load_found(source)
        assert source.search_results
