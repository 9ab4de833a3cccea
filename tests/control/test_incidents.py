"""Incidents are split by cause, told to watchers, and kept over restarts; nearly spent budgets are warned of once."""

import asyncio
import logging
from contextlib import aclosing
from pathlib import Path

import pytest

from gateway.client.control import ControlClient
from gateway.domain.budget import Budget, Window
from gateway.domain.call import FailureKind, Record
from gateway.domain.errors import NotFound
from gateway.domain.events import AnyEvent, IncidentChanged
from gateway.domain.incidents import ALL_SPENT
from gateway.domain.price import Rates
from gateway.domain.units import CallId, ChannelId, Millis, Nanos
from tests.control.conftest import opened
from tests.fakes.gateway import GRANTED, Gateway, running
from tests.fakes.provider import Provider
from tests.fakes.replies import fail, speak, speak_after

COST = 16 * 2_500 + 16 * 10_000
"""Nano-dollars of a call of the least size: all that it holds."""
LEAST = speak(prompt=16, completion=16)


async def test_a_store_that_fails_while_nobody_watches_is_an_incident(gateway: Gateway) -> None:
    incidents, errors = gateway.engine.incident_watch.incidents, gateway.engine.store.books.disk_errors
    errors.set(write="the disk is full")
    await gateway.until(incidents.newest)
    errors.set(write="")
    (incident,) = incidents.newest()
    assert incident.reason == "the disk is full"
    await gateway.until(lambda: incident.ended)


async def test_each_cause_is_an_incident_of_its_own(owner: ControlClient, gateway: Gateway, provider: Provider) -> None:
    provider.on("m", fail(500), fail(500), fail(429), speak())
    await gateway.client.chat()
    await owner.clear_channel("up")
    await gateway.call()
    found = await owner.incidents()
    assert {(one.channel, one.status, one.failures) for one in found} == {("up", 500, 2), ("up", 429, 1)}
    assert [one.id for one in await owner.incidents("up")] == [one.id for one in found]
    await owner.add_channel({"name": "well", "dialect": "mock"})
    assert (await owner.incidents("well"), await owner.incidents(("well", "up"))) == ([], found)
    with pytest.raises(NotFound):
        await owner.incidents("nope")


async def test_calls_that_are_refused_as_the_only_key_is_rejected_are_part_of_the_incident(
    owner: ControlClient, gateway: Gateway, provider: Provider
) -> None:
    provider.on("m", fail(401), speak())
    assert [(await gateway.client.chat()).status for _ in range(3)] == [502, 503, 503]
    gateway.engine.pipeline.refusals.close()
    await owner.clear_channel("up")  # before anyone looks
    (one,) = await owner.incidents()
    assert (one.failures, one.unanswered, one.refused) == (1, 1, 2)


@pytest.mark.parametrize("mend", ["same key", "another key", "resume", "removal"])
async def test_the_incident_of_a_rejected_key_ends_with_the_edit_that_helps_not_when_its_list_is_read(
    owner: ControlClient, gateway: Gateway, provider: Provider, mend: str
) -> None:
    provider.on("m", fail(401))
    await gateway.call()
    assert [one.ended for one in await owner.incidents()] == [None]
    if mend == "resume":
        await owner.clear_channel("up")
    elif mend == "removal":
        await owner.remove_channel("up")
    else:
        await owner.edit_channel("up", {"key": "sk-upstream" if mend == "same key" else "sk-other"})
    (one,) = gateway.engine.incident_watch.incidents.newest()
    assert (one.paused, one.ended is not None) == (False, True)


async def test_a_failure_lasts_until_a_call_works(owner: ControlClient, gateway: Gateway, provider: Provider) -> None:
    provider.on("m", fail(500), fail(500), speak(), fail(500))
    assert (await gateway.client.chat()).status == 502
    await gateway.settled()
    (one,) = await owner.incidents()
    assert (one.paused, one.ended, one.lasts(gateway.engine.now())) == (False, None, True)
    assert (await gateway.client.chat()).status == 200
    await gateway.settled(2)
    (one,) = await owner.incidents()
    assert (one.ended is not None, one.lasts(gateway.engine.now())) == (True, False)
    assert (await gateway.client.chat()).status == 502
    await gateway.settled(3)
    (again,) = await owner.incidents()
    assert (again.ended, again.lasts(gateway.engine.now()), again.failures) == (None, True, 4)


async def test_a_renamed_channel_keeps_its_incidents_also_over_a_restart(tmp_path: Path, provider: Provider) -> None:
    provider.on("m", fail(500))
    for first, second in (("up", "spare"), ("spare", "main")):
        async with running(tmp_path) as gateway, opened(gateway.engine) as surface:
            owner = ControlClient(surface.unix)
            if first == "up":
                gateway.channel(provider.base_url)
                await gateway.call()
            (before,) = await owner.incidents()
            assert (before.channel, before.failures, before.reason != "") == (first, 2, True)
            await owner.edit_channel(first, {"name": second})
            (after,) = await owner.incidents(second)
            assert (after.channel, after.id, after.began) == (second, before.id, before.began)
    (tmp_path / "incidents.json").write_bytes(b"{damaged")
    async with running(tmp_path) as gateway:
        assert gateway.engine.incident_watch.refresh().newest() == []


async def test_a_budget_s_warning_follows_the_last_group_of_its_name(owner: ControlClient, gateway: Gateway) -> None:
    await owner.edit_group("default", {"name": "home"})
    await owner.add_group({"name": "default", "budgets": [{"window": "day", "nanos": 1}]})
    await owner.edit_channel("up", {"groups": ["home", "default"]})
    await gateway.token("other", group="default").chat()
    await gateway.settled()
    (before,) = await owner.incidents()
    await owner.edit_group("home", {"name": "house", "budgets": [{"window": "day", "nanos": 10**12}]})
    gateway.engine.incident_watch.refresh = lambda: gateway.engine.incident_watch.incidents  # type: ignore[method-assign]
    await owner.edit_group("default", {"name": "yard"})
    await owner.edit_group("house", {"name": "home2"})
    del gateway.engine.incident_watch.refresh
    (after,) = await owner.incidents()
    assert (after.id, after.ended, after.budget) == (before.id, None, "daily budget of group 'yard'")


async def test_a_watcher_learns_of_an_incident(owner: ControlClient, gateway: Gateway, provider: Provider) -> None:
    provider.on("m", fail(500))
    seen: list[AnyEvent] = []
    async with aclosing(owner.events(1)) as events, asyncio.timeout(20):
        await anext(events)
        call = asyncio.create_task(gateway.client.chat())
        async for event in events:
            seen.append(event)
            if isinstance(event, IncidentChanged):
                break
        await call
    assert [event.incident.channel for event in seen if isinstance(event, IncidentChanged)] == ["up"]


async def test_a_budget_that_is_nearly_spent_is_in_the_answers_header_the_record_and_the_log_once(
    owner: ControlClient, gateway: Gateway, provider: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    provider.on("m", LEAST)
    client = gateway.token("tight", budgets=(Budget(window=Window.DAY, nanos=Nanos(COST * 10)),))
    with caplog.at_level(logging.WARNING, "tollkeeper"):
        headers = []
        for count in range(1, 11):
            answer = await client.chat(max_tokens=1)
            if answer.status != 200:
                break
            headers.append(answer.head.get("x-gateway-budget-warning"))
            await gateway.settled(count)
            await owner.incidents()
    assert headers[:8] == [""] * 8
    assert headers[8:] == ["daily budget of token 'tight': 80% spent", "daily budget of token 'tight': 90% spent"]
    assert gateway.records[8].marks == ("budget=daily budget of token 'tight': 80% spent",)
    (warning,) = [one for one in await owner.incidents() if one.budget]
    assert warning.budget == "daily budget of token 'tight'"
    told = [one.getMessage().partition("token 'tight': ")[2] for one in caplog.records]
    assert [text for text in told if text] == ["80% is spent", warning.reason]
    assert warning.reason == "all is spent, and calls are rejected"


async def test_a_budget_too_small_for_a_call_is_an_incident_for_ten_minutes(tmp_path: Path, provider: Provider) -> None:
    moment = [1_790_000_000_000]
    async with running(tmp_path, wall=lambda: Millis(moment[0])) as gateway:
        gateway.channel(provider.base_url)
        gateway.price()
        client = gateway.token("tight", budgets=(Budget(window=Window.DAY, nanos=Nanos(COST * 10)),))
        assert (await client.chat(max_tokens=1_000)).status == 429
        watch = gateway.engine.incident_watch
        (one,) = watch.refresh().newest()
        told = ("daily budget of token 'tight'", "too little is left for a call; 0% is spent", 1)
        assert (one.budget, one.reason, one.refused) == told
        for later, refuses in ((0, True), (600_000, True), (1, False)):
            moment[0] += later
            (one,) = watch.refresh().newest()
            assert (one.refuses(moment[0]), one.ended is None) == (refuses, refuses)


async def test_a_budget_that_pays_for_a_smaller_call_is_not_refusing(owner: ControlClient, gateway: Gateway) -> None:
    client = gateway.token("tight", budgets=(Budget(window=Window.DAY, nanos=Nanos(COST * 10)),))
    for number, (cap, refuses) in enumerate([(1_000, True), (1, False), (1_000, True)], start=1):
        assert (await client.chat(max_tokens=cap)).status == (429 if refuses else 200)
        await gateway.settled(number)
        for _ in range(2):
            found = [one.refuses(gateway.engine.now()) for one in await owner.incidents() if one.budget]
            assert any(found) == refuses


async def test_refusals_that_are_recorded_late_are_before_the_raise(owner: ControlClient, gateway: Gateway) -> None:
    client = gateway.token("tight", budgets=(Budget(window=Window.DAY, nanos=Nanos(10)),))
    assert [(await client.chat(max_tokens=1)).status for _ in range(3)] == [429] * 3
    await owner.edit_token("tight", {"budgets": [{"window": "day", "nanos": 10**12}]})
    assert [(one.refused, one.ended is None) for one in await owner.incidents() if one.budget] == [(3, False)]


async def test_a_budget_is_not_too_small_while_running_calls_hold_the_rest(
    owner: ControlClient, gateway: Gateway, provider: Provider
) -> None:
    go = asyncio.Event()
    provider.on("m", speak_after(go))
    client = gateway.token("tight", budgets=(Budget(window=Window.DAY, nanos=Nanos(15_000_000)),))
    first = asyncio.create_task(client.chat(max_tokens=1000))
    await provider.asked(1)
    refused = await client.chat(max_tokens=1000)
    assert (refused.status, refused.json["error"]["gateway"]["while_held"]) == (429, True)
    go.set()
    assert (await first).status == 200
    await gateway.settled(2)
    assert [one for one in await owner.incidents() if one.budget] == []


async def test_a_raised_budget_that_is_still_too_small_refuses_again(owner: ControlClient, gateway: Gateway) -> None:
    client = gateway.token("tight", budgets=(Budget(window=Window.DAY, nanos=Nanos(10)),))
    assert (await client.chat(max_tokens=1)).status == 429
    await gateway.settled(1)
    await owner.edit_token("tight", {"budgets": [{"window": "day", "nanos": 20}]})
    assert [one.refuses(gateway.engine.now()) for one in await owner.incidents() if one.budget] == [False]
    assert (await client.chat(max_tokens=1)).status == 429
    await gateway.settled(2)
    again, before = (one for one in await owner.incidents() if one.budget)
    assert [(one.refused, one.refuses(gateway.engine.now())) for one in (again, before)] == [(1, True), (1, False)]


async def test_a_refusal_is_looked_at_though_nothing_runs(gateway: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    gateway.price()
    client = gateway.token("tight", budgets=(Budget(window=Window.DAY, nanos=Nanos(10)),))
    assert (await client.chat(max_tokens=1)).status == 429
    await gateway.until(lambda: "too little is left for a call" in caplog.text)


async def test_a_key_whose_variable_is_not_set_was_not_rejected_and_stays_an_incident_while_another_serves(
    owner: ControlClient, gateway: Gateway, provider: Provider
) -> None:
    provider.on("m", speak(), speak())
    gateway.channel(provider.base_url, key="env:TOLLKEEPER_TEST_UNSET", keys=("sk-good-canary",))
    for count in (1, 2):
        assert (await gateway.client.chat()).status == 200
        await gateway.settled(count)
    first, second = (await owner.channel("up")).keys
    assert (first.state, second.state, (await owner.channel("up")).state) == ("unset", "ok", "ok")
    assert first.reason == "set TOLLKEEPER_TEST_UNSET where the server runs, then restart the server"
    (one,) = await owner.incidents()
    assert (one.kind, one.paused) == (FailureKind.UNSET, True)
    assert one.failures <= 1  # which key is tried first is drawn; once it failed, it is not tried again
    await owner.remove_key("up", 1)
    (one,) = await owner.incidents()
    assert (one.paused, one.ended is not None) == (False, True)


async def test_a_channel_with_no_key_but_one_that_is_not_set_is_one_incident(
    owner: ControlClient, gateway: Gateway, provider: Provider
) -> None:
    gateway.channel(provider.base_url, key="env:TOLLKEEPER_TEST_UNSET")
    assert (await gateway.client.chat()).status == 502
    await gateway.settled()
    view = await owner.channel("up")
    assert (view.state, view.until_ms, view.keys[0].state) == ("attention", None, "unset")
    assert [(one.kind, one.paused, one.unanswered) for one in await owner.incidents()] == [(FailureKind.UNSET, True, 1)]
    gateway.engine.incident_watch.serving = False  # a command does not know the environment of the calls
    assert [one.paused for one in await owner.incidents()] == [True]
    await owner.edit_channel("up", {"enabled": False})
    assert [one.paused for one in await owner.incidents()] == [False]


async def test_a_raised_or_removed_budget_ends_its_warning(
    owner: ControlClient, gateway: Gateway, provider: Provider
) -> None:
    provider.on("m", LEAST)
    for name in ("raised", "gone"):
        client = gateway.token(name, budgets=(Budget(window=Window.DAY, nanos=Nanos(COST)),))
        await client.chat(max_tokens=1)
    await gateway.settled(2)
    assert [one.ended for one in await owner.incidents()] == [None, None]
    await owner.edit_token("raised", {"budgets": [{"window": "day", "nanos": COST * 10}]})
    lasting = [one.budget for one in await owner.incidents() if one.ended is None]
    assert lasting == ["daily budget of token 'gone'"]
    await owner.remove_token("gone")
    assert None not in [one.ended for one in await owner.incidents()]


async def test_calls_that_a_spent_budget_refuses_are_counted_with_it(
    owner: ControlClient, gateway: Gateway, provider: Provider
) -> None:
    provider.on("m", LEAST)
    client = gateway.token("tight", budgets=(Budget(window=Window.DAY, nanos=Nanos(COST)),))
    assert [(await client.chat(max_tokens=1)).status for _ in range(4)] == [200, 429, 429, 429]
    gateway.engine.pipeline.refusals.close()
    (one,) = await owner.incidents()
    assert (one.budget, one.refused) == ("daily budget of token 'tight'", 3)


async def test_a_rejected_key_stays_an_incident_under_another_number(
    owner: ControlClient, gateway: Gateway, provider: Provider
) -> None:
    await owner.add_key("up", "sk-second-canary2")
    await owner.add_key("up", "sk-third-canary3")
    gateway.engine.health.note_failure(ChannelId("ch_up#1"), FailureKind.QUOTA, "402", 60)
    provider.on("m", fail(401), speak())
    assert (await gateway.client.chat()).status == 200
    await gateway.settled()
    (rejected,) = [one for one in await owner.incidents() if one.paused and one.kind is FailureKind.AUTH]
    number, mask = int(rejected.key[0]), rejected.key[2:]
    await owner.remove_key("up", 1)
    (lasting,) = [one for one in await owner.incidents() if one.paused]
    assert (lasting.key, lasting.kind, lasting.status) == (f"{number - 1} {mask}", FailureKind.AUTH, 401)
    assert lasting.id == rejected.id
    await owner.remove_key("up", 4 - number)
    (lasting,) = [one for one in await owner.incidents() if one.paused]
    assert (lasting.key, lasting.kind) == ("", FailureKind.AUTH)


async def test_a_rejected_key_stays_an_incident_when_another_one_is_added(
    owner: ControlClient, gateway: Gateway, provider: Provider
) -> None:
    provider.on("m", fail(401), speak())
    assert (await gateway.client.chat()).status == 502
    await gateway.settled()
    assert [(one.key, one.paused) for one in await owner.incidents()] == [("", True)]
    await owner.add_key("up", "sk-second-canary2")
    assert (await gateway.client.chat()).status == 200
    lasting = [one for one in await owner.incidents() if one.paused]
    assert [(one.key[:2], one.kind) for one in lasting] == [("1 ", FailureKind.AUTH)]
    await owner.remove_key("up", 1)
    assert [(one.failures, one.ended is not None) for one in await owner.incidents()] == [(0, True), (1, True)]


async def test_a_spent_balance_is_an_incident_until_money_is_added(
    owner: ControlClient, gateway: Gateway, provider: Provider
) -> None:
    provider.on("m", LEAST)
    gateway.grant(COST - GRANTED)
    assert [(await gateway.client.chat(max_tokens=1)).status for _ in range(3)] == [200, 429, 429]
    gateway.engine.pipeline.refusals.close()
    (one,) = await owner.incidents()
    assert (one.budget, one.reason, one.refused, one.ended) == ("balance of the account", ALL_SPENT, 2, None)
    gateway.grant(COST)
    (one,) = await owner.incidents()
    assert one.ended is not None


async def test_a_rejected_key_of_several_is_an_incident_and_a_word_in_the_status_until_it_is_removed(
    owner: ControlClient, gateway: Gateway, provider: Provider
) -> None:
    gateway.channel(provider.base_url, key="sk-first-canary-1", keys=("sk-second-canary2",))
    provider.on("m", fail(401), speak())
    assert (await gateway.client.chat()).status == 200
    await gateway.settled()
    (one,) = await owner.incidents()
    assert (one.kind, one.paused, (await owner.channel("up")).state) == (FailureKind.AUTH, True, "ok")
    assert (await owner.status()).keys == {"attention": 1}
    await owner.remove_key("up", int(one.key.partition(" ")[0]))
    assert [incident.paused for incident in await owner.incidents()] == [False]
    assert (await owner.status()).keys == {}


async def test_a_reported_cost_that_differs_is_an_incident_once_a_day(owner: ControlClient, gateway: Gateway) -> None:
    rates, marks = Rates(1, 1, 1, 1, 0, 1_000_000), ("upstream_cost=0.52",)
    for number in range(3):
        known = {"model": "m", "channel": "c", "channel_name": "up", "status": 200, "cost": Nanos(260_000_000)}
        call = Record(id=CallId(f"call{number}"), ts=Millis(0), rates=rates, marks=marks, **known)  # type: ignore[arg-type]
        gateway.engine.bus.publish_record(call)
    (found,) = await owner.incidents()
    assert found.budget == "reported cost of 'm' at channel 'up'"
    assert found.reason == "its price gives $0.26, the upstream reports $0.52"
    assert not found.lasts(gateway.engine.now())
