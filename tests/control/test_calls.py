"""Pages of the log, filters by names and words, and the hand that ends a running call."""

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from gateway.client.control import ControlClient
from gateway.domain.call import Outcome, Record
from gateway.domain.errors import BadRequest, NotFound
from gateway.domain.events import Snapshot
from gateway.domain.query import CallOrder
from gateway.domain.text import plain
from gateway.domain.units import Millis
from gateway.domain.views import CallView, call_view
from gateway.store.calls import CallLog, SearchExtent
from gateway.store.search import SearchDeadline
from tests.control.confirming import confirming
from tests.fakes.disk import refuse
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider
from tests.fakes.replies import fail, silence, speak
from tests.store.samples import call_id, record


@pytest.fixture
async def past(owner: ControlClient, gateway: Gateway, provider: Provider) -> list[str]:
    """Four calls, oldest first: two good ones and a failed one of ``laptop``, a good one of ``phone`` in ``work``."""
    provider.on("m", speak(), speak(), fail(400), speak())
    gateway.group("work")
    await owner.edit_channel("up", {"groups": ["default", "work"]})
    phone = gateway.token("phone", group="work")
    for count, client in enumerate([gateway.client] * 3 + [phone], 1):
        await client.chat()
        await gateway.settled(count)
    return [record.id for record in gateway.records]


async def test_a_call_is_shown_whole(owner: ControlClient, gateway: Gateway, past: list[str]) -> None:
    view = await owner.call(past[0])
    assert view == call_view(gateway.records[0])
    assert (view.state, view.token, view.group, view.model, view.channel) == ("settled", "laptop", "default", "m", "up")
    assert (view.outcome, view.status, view.cost_nanos) == (Outcome.DONE, 200, 9 * 2_500 + 12 * 10_000)


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({"token": "phone"}, [3]),
        ({"token": "tok_phone"}, [3]),
        ({"group": "default"}, [2, 1, 0]),
        ({"model": "m"}, [3, 2, 1, 0]),
        ({"token": ("phone", "laptop")}, [3, 2, 1, 0]),
        ({"token": ("phone", "tok_laptop"), "failed": True}, [2]),
        ({"group": ("default", "work")}, [3, 2, 1, 0]),
        ({"model": ("m", "other"), "token": ("phone",)}, [3]),
        ({"api": ("chat", "messages"), "group": ("work",)}, [3]),
        ({"model": "other"}, []),
        ({"channel": "up"}, [3, 2, 1, 0]),
        ({"failed": True}, [2]),
        ({"failed": False}, [3, 1, 0]),
        ({"words": "st:400"}, [2]),
        ({"since": 10**15}, []),
        ({"until": 0}, []),
        ({"token": "tok_removed", "failed": True}, []),
        ({"limit": 2}, [3, 2]),
        ({"limit": 2, "token": "laptop"}, [2, 1]),
    ],
)
async def test_filters_select_calls(
    owner: ControlClient, past: list[str], filters: dict[str, Any], found: list[int]
) -> None:
    assert [past.index(call.id) for call in (await owner.calls(**filters)).calls] == found


async def test_pages_neither_overlap_nor_leave_anything_out(owner: ControlClient, past: list[str]) -> None:
    seen: list[str] = []
    while page := (await owner.calls(limit=1, before=seen[-1] if seen else None)).calls:
        seen += [call.id for call in page]
    assert seen == past[::-1]


async def test_a_cursor_goes_on_where_the_page_ended(owner: ControlClient, past: list[str]) -> None:
    first = await owner.calls(limit=3)
    assert (first.left, first.back_to_ms) == (1, first.calls[-1].time_ms)
    second = await owner.calls(limit=3, before=first.cursor)
    assert [call.id for call in [*first.calls, *second.calls]] == past[::-1]
    assert second.cursor is None


@pytest.fixture
async def renamed(owner: ControlClient, past: list[str], gateway: Gateway) -> list[str]:
    """The same, of which the first three and the last two are by what is ``jupyter``, ``main`` and ``home`` now."""
    await owner.edit_token("laptop", {"name": "jupyter"})
    await owner.edit_channel("up", {"name": "main"})
    await owner.edit_group("default", {"name": "home"})
    await gateway.client.chat()
    return [record.id for record in await gateway.settled(len(past) + 1)]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("tok:jupyter", [4, 2, 1, 0]),
        ("tok:laptop", [2, 1, 0]),
        ("!tok:jupyter", [3]),
        ("ch:main", [4, 3, 2, 1, 0]),
        ("grp:home", [4, 2, 1, 0]),
        ("tok:jupyter st:err", [2]),
    ],
)
async def test_a_name_also_finds_the_calls_under_earlier_ones(
    owner: ControlClient, renamed: list[str], words: str, found: list[int]
) -> None:
    assert [renamed.index(call.id) for call in (await owner.calls(words=words)).calls] == found
    assert (await owner.summary(words=words)).total.calls == len(found)


async def test_what_was_removed_is_found_by_its_last_name(owner: ControlClient, renamed: list[str]) -> None:
    await owner.remove_token("jupyter")
    await owner.remove_channel("main")
    for words in ("tok:jupyter", "tok:jupyter ch:main st:ok", "!tok:jupyter"):
        found = [renamed.index(call.id) for call in (await owner.calls(words=words)).calls]
        assert found == {"tok:jupyter": [4, 2, 1, 0], "!tok:jupyter": [3]}.get(words, [4, 1, 0])
    assert len((await owner.calls(token="jupyter", channel="main")).calls) == 4
    await confirming(owner).undo()
    await confirming(owner).undo()
    await owner.edit_token("jupyter", {"name": "ipython"})
    assert [renamed.index(call.id) for call in (await owner.calls(words="tok:jupyter")).calls] == [4]


async def test_a_name_of_two_removed_tokens_finds_neither(owner: ControlClient, gateway: Gateway) -> None:
    for number in (1, 2):
        gateway.token(f"ci{number}")
        await owner.edit_token(f"ci{number}", {"name": "ci"})
        await owner.remove_token("ci")
    with pytest.raises(NotFound, match=r"to find calls under a former name, use the filter word tok:"):
        await owner.calls(token="ci")
    assert (await owner.calls(words="tok:ci")).calls == []


async def test_names_need_no_history(owner: ControlClient, past: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.store.history.History.entries", property(refuse))
    assert [past.index(call.id) for call in (await owner.calls(words="tok:phone")).calls] == [3]


async def test_a_name_that_another_group_got_finds_each_ones_calls(owner: ControlClient, renamed: list[str]) -> None:
    await owner.add_group({"name": "default"})
    assert (await owner.calls(group="default")).calls == []
    assert [renamed.index(call.id) for call in (await owner.calls(group="home")).calls] == [4, 2, 1, 0]
    assert (await owner.summary(group="home")).total.calls == 4
    assert len((await owner.calls(words="grp:default")).calls) == 3


async def test_a_running_call_is_found_by_the_name_that_its_group_has_now(
    owner: ControlClient, gateway: Gateway, provider: Provider
) -> None:
    provider.on("m", silence)
    calling = asyncio.create_task(gateway.client.chat())
    await provider.asked()
    await owner.edit_group("default", {"name": "home"})
    (running,) = (await owner.calls(words="grp:home")).calls
    assert (running.state, running.group) == ("running", "default")
    assert [call.id for call in (await owner.calls(group="home")).calls] == [running.id]
    await owner.cancel(running.id)
    await calling


async def test_words_are_as_long_as_somebody_writes_them(owner: ControlClient, past: list[str]) -> None:
    page = await owner.calls(words=" ".join(f"!id:req_{i:026x}" for i in range(1_000)))
    assert [call.id for call in page.calls] == past[::-1]


async def test_a_search_that_takes_long_is_given_page_by_page(
    owner: ControlClient, past: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each page is searched for a moment only; it may be empty, and tells how far the search came."""
    monkeypatch.setattr("gateway.control.calls.SEARCH_S", 0.0)
    monkeypatch.setattr("gateway.store.segment.BLOCK", 300)
    page = await owner.calls(words="nothing")
    lefts = [page.left]
    while page.cursor is not None:
        assert page.calls == []
        page = await owner.calls(words="nothing", before=page.cursor)
        lefts.append(page.left)
    assert lefts == [3, 2, 1, 0, 0]


async def test_a_cursor_of_too_many_digits_finds_nothing(owner: ControlClient) -> None:
    assert (await owner.calls(limit=1, before="9" * 5000)).calls == []


async def test_a_search_holds_nothing_up_and_ends_when_its_client_leaves(
    owner: ControlClient, past: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ended, begun = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def endless(*_: object, deadline: SearchDeadline, **__: object) -> tuple[list[Record], SearchExtent]:
        loop.call_soon_threadsafe(begun.set)
        while not deadline.is_over():
            deadline.pause()
        loop.call_soon_threadsafe(ended.set)
        return [], SearchExtent()

    monkeypatch.setattr("gateway.control.calls.SEARCH_S", 30.0)
    monkeypatch.setattr(CallLog, "search", endless)
    asking = asyncio.create_task(owner.calls(words="nothing"))
    async with asyncio.timeout(10):
        await begun.wait()
        assert (await owner.status()).records == len(past)
        asking.cancel()
        await ended.wait()


@pytest.mark.parametrize("call_id", ["req_" + "0" * 26, "nonsense", "../x", "\x1b"])
async def test_an_unknown_call_is_reported_harmlessly(owner: ControlClient, call_id: str) -> None:
    with pytest.raises(NotFound) as caught:
        await owner.call(call_id)
    assert plain(caught.value.message) == caught.value.message


async def test_a_repeated_refusal_is_found_by_the_id_of_each(owner: ControlClient, gateway: Gateway) -> None:
    """Only the first of those that share a record has its id in the log."""
    gateway.engine.store.calls.log.append([row := record(1, cost=0, marks=("repeated=2",))])
    gateway.engine.store.books.counters.add(row)
    with pytest.raises(NotFound, match=f"it is counted with {row.id}$"):
        await owner.call(call_id(2, row.ts + 700))
    with pytest.raises(NotFound, match="are counted with the first of them"):
        await owner.call(call_id(3, row.ts + 60_000))


async def test_a_running_call_is_first_and_is_shown(
    owner: ControlClient, gateway: Gateway, provider: Provider, past: list[str]
) -> None:
    provider.on("m", silence)
    calling = asyncio.create_task(gateway.client.chat())
    await provider.asked(5)
    running, *settled = (await owner.calls(token="laptop", limit=3)).calls
    assert (running.state, running.token, running.channel, running.status) == ("running", "laptop", "up", 0)
    assert running.held_nanos > 0
    assert [call.id for call in settled] == [past[2], past[1]]
    assert (await owner.call(running.id)).state == "running"
    assert (await owner.calls(token="phone", limit=1, before=running.id)).calls != []
    assert [call.id for call in (await owner.calls(words="st:running")).calls] == [running.id]
    assert running.id not in [call.id for call in (await owner.calls(words="!st:running")).calls]
    await owner.cancel(running.id)
    await calling


async def test_what_does_not_run_cannot_be_cancelled(owner: ControlClient, past: list[str]) -> None:
    with pytest.raises(NotFound) as caught:
        await owner.cancel(past[0])
    assert (caught.value.code, caught.value.message) == ("not_running", f"no running call '{past[0]}'")


async def test_ended_calls_are_reached_by_their_number(owner: ControlClient, past: list[str]) -> None:
    assert [view.id for view in await owner.numbered_calls(at=2, limit=5)] == past[1::-1]
    assert await owner.numbered_calls(at=0, limit=5) == []
    with pytest.raises(BadRequest, match="limit"):
        await owner.numbered_calls(at=2, limit=0)


async def test_a_search_tells_the_number_of_the_call_that_it_ends_with(owner: ControlClient, past: list[str]) -> None:
    """The console goes to a time by it."""
    for number, id_ in enumerate(past, start=1):
        until = (await owner.call(id_)).time_ms + 1
        found = await owner.calls(until=until, limit=1)
        (numbered,) = await owner.numbered_calls(at=found.left + 1, limit=1)
        assert numbered == found.calls[0]
        assert found.left + 1 >= number
    assert (await owner.calls(until=1, limit=1)).left == 0


@pytest.mark.parametrize("noun", ["token", "channel"])
async def test_a_name_that_nothing_has_is_reported_with_those_there_are(owner: ControlClient, noun: str) -> None:
    with pytest.raises(NotFound, match=f"no {noun} 'nope'; .*former name"):
        await owner.calls(**{noun: "nope"})


async def test_a_wrong_group_or_api_names_the_right_ones(owner: ControlClient, past: list[str]) -> None:
    with pytest.raises(NotFound, match=r"no group 'nope'; there .*default, work; .* grp:nope instead"):
        await owner.calls(group="nope")
    with pytest.raises(BadRequest, match="unknown API 'nope'; use one of chat, "):
        await owner.calls(api="nope")
    assert len((await owner.calls(group="work", api="chat")).calls) == 1


async def test_a_waiting_call_is_seen_and_cancelled(owner: ControlClient, gateway: Gateway, provider: Provider) -> None:
    provider.on("m", silence)
    await owner.edit_token("laptop", {"limits": {"concurrent": 1}})
    first = asyncio.create_task(gateway.client.chat())
    await provider.asked()
    second = asyncio.create_task(gateway.client.chat())
    found: list[CallView] = []
    for _ in range(1000):
        if found := (await owner.calls(words="st:waiting")).calls:
            break
        await asyncio.sleep(0.01)
    (waiting,) = found
    assert (waiting.state, waiting.waits_for) == ("running", "token 'laptop' (1 call at once)")
    assert (await owner.call(waiting.id)).waits_for == waiting.waits_for
    status = await owner.status()
    assert (status.in_flight, status.queued, status.waits) == (1, 1, {waiting.waits_for: 1})
    async with aclosing(owner.events(1)) as events:
        snapshot = await anext(events)
        assert isinstance(snapshot, Snapshot)
        assert [call.id for call in snapshot.waiting] == [waiting.id]
    await owner.cancel(waiting.id)
    assert (await second).status == 503
    assert (await owner.status()).waits == {}
    for call in (await owner.calls(words="st:running")).calls:
        await owner.cancel(call.id)
    await first


async def test_the_first_in_an_order_are_those_of_all_calls(owner: ControlClient, past: list[str]) -> None:
    every = (await owner.calls()).calls
    longest = await owner.calls(sort="duration", limit=2)
    assert [call.id for call in longest.calls] == [c.id for c in CallOrder("duration").best(every, 2)]
    first = await owner.calls(sort="time", ascending=True, limit=1, words="st:ok")
    assert [call.id for call in first.calls] == [past[0]]
    with pytest.raises(BadRequest, match="sort: must be one of time, "):
        await owner.calls(sort="beauty")


@pytest.mark.parametrize(
    ("fields", "code"), [({"enabled": False}, "token_disabled"), ({"expires": Millis(1)}, "token_expired")]
)
async def test_calls_of_a_token_that_may_not_be_used_are_its_own(
    owner: ControlClient, gateway: Gateway, fields: dict[str, Any], code: str
) -> None:
    assert (await gateway.token("ci", **fields).chat()).status == 401
    await gateway.token("other").ask("POST", "/v1/chat/completions", headers={"authorization": "Bearer sk-tk-nobody"})
    await gateway.settled(2)
    (found,) = (await owner.calls(token="ci")).calls
    assert (found.token, found.group, found.code) == ("ci", "default", code)
    assert [call.token for call in (await owner.calls(words="st:401 tok:ci")).calls] == ["ci"]
    assert [call.code for call in (await owner.calls(words='tok:""')).calls] == ["invalid_api_key"]
