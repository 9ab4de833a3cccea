import asyncio
import threading
from typing import Any

import pytest

from gateway.client.control import ControlClient
from gateway.control import usage
from gateway.control.usage import _row as row_of, _series as series_of
from gateway.domain.errors import NotFound
from gateway.store.calls import filtered_sums_of
from gateway.store.rollup import Counts
from gateway.store.sums import Sums
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider
from tests.fakes.replies import fail, speak


@pytest.fixture
async def past(owner: ControlClient, gateway: Gateway, provider: Provider) -> int:
    """Two good calls of ``laptop`` and a failed one of ``phone``; what they cost."""
    provider.on("m", speak(), speak(), fail(400))
    phone = gateway.token("phone")
    for client in (gateway.client, gateway.client, phone):
        await client.chat()
    return sum(record.cost for record in await gateway.settled(3))


async def test_the_total_is_what_was_charged(owner: ControlClient, past: int) -> None:
    summary = await owner.summary()
    assert (summary.total.calls, summary.total.errors, summary.total.cost_nanos) == (3, 1, past)
    assert (summary.total.input_tokens, summary.total.output_tokens) == (18, 24)
    assert (summary.rows, summary.series) == ([], [])


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("token", ["laptop", "phone"]),
        ("channel", ["up"]),
        ("model", ["m"]),
        ("group", ["default"]),
        ("app", [""]),
        ("api", ["chat"]),
    ],
)
async def test_rows_add_up_to_the_total(owner: ControlClient, past: int, by: str, names: list[str]) -> None:
    summary = await owner.summary(by=by)
    assert [row.name for row in summary.rows] == names  # the most expensive first
    assert sum(row.cost_nanos for row in summary.rows) == summary.total.cost_nanos == past


@pytest.mark.parametrize("step", ["hour", "day"])
@pytest.mark.parametrize("by", ["", "token"])
async def test_series_add_up_to_the_total(owner: ControlClient, past: int, by: str, step: str) -> None:
    summary = await owner.summary(by=by, step=step)
    assert sum(point.row.cost_nanos for point in summary.series) == past
    assert [point.start_ms for point in summary.series] == sorted(point.start_ms for point in summary.series)
    assert {point.key for point in summary.series} == ({"tok_laptop", "tok_phone"} if by else {""})


def test_a_series_is_in_the_order_of_time() -> None:
    table = {"m2": {7_200_000: Counts(calls=1), 3_600_000: Counts(calls=2)}, "m1": {3_600_000: Counts(calls=4)}}
    sums = Sums(Counts(), {}, table, None)
    of_models = [(point.start_ms, point.key, point.row.calls) for point in series_of(sums, {}, {}, "model")]
    assert of_models == [(3_600_000, "m1", 4), (3_600_000, "m2", 2), (7_200_000, "m2", 1)]
    of_all = [(point.start_ms, point.key, point.row.calls) for point in series_of(sums, {}, {}, "")]
    assert of_all == [(3_600_000, "", 6), (7_200_000, "", 1)]


@pytest.mark.parametrize("words", ["", "model:m"])
async def test_a_renamed_group_is_one_row(owner: ControlClient, past: int, gateway: Gateway, words: str) -> None:
    await owner.edit_group("default", {"name": "home"})
    await gateway.call()
    summary = await owner.summary(by="group", step="hour", percentiles=True, words=words)
    assert [(row.key, row.name, row.calls) for row in summary.rows] == [("default", "home", 4)]
    assert summary.rows[0].duration_p50_ms == summary.total.duration_p50_ms is not None
    assert {point.key for point in summary.series} == {"default"}
    assert sum(point.row.calls for point in summary.series) == 4


@pytest.mark.parametrize("words", ["", "model:m"])
async def test_calls_under_a_name_that_another_group_got_stay_with_the_one_that_made_them(
    owner: ControlClient, past: int, gateway: Gateway, words: str
) -> None:
    await owner.edit_group("default", {"name": "home"})
    await owner.add_group({"name": "default"})
    await owner.edit_channel("up", {"groups": ["home", "default"]})
    await owner.edit_token("laptop", {"group": "default"})
    await gateway.call()
    summary = await owner.summary(by="group", step="hour", words=words)
    assert {row.name: row.calls for row in summary.rows} == {"home": 3, "default": 1}
    assert sum(point.row.calls for point in summary.series if point.row.name == "home") == 3
    assert {group.name: group.calls for group in await owner.groups()} == {"home": 3, "default": 1}


async def test_removed_tokens_keep_their_name(owner: ControlClient, past: int) -> None:
    await owner.remove_token("laptop")
    await owner.remove_channel("up")
    assert [row.name for row in (await owner.summary(by="token")).rows] == ["laptop", "phone"]
    assert [row.name for row in (await owner.summary(by="channel")).rows] == ["up"]


async def test_a_span_without_calls_is_empty(owner: ControlClient, past: int) -> None:
    summary = await owner.summary(by="model", since=0, until=1000, step="hour")
    assert (summary.total.calls, summary.rows, summary.series, summary.until_ms) == (0, [], [], 1000)


async def test_percentiles_come_on_request(owner: ControlClient, past: int) -> None:
    plain = await owner.summary(by="token", step="hour")
    assert {row.duration_p50_ms for row in plain.rows} == {None}
    found = await owner.summary(by="token", step="hour", percentiles=True)
    laptop = found.rows[0]
    for row in (found.total, laptop, found.series[0].row):
        assert row.duration_p50_ms is not None
        assert row.duration_p95_ms is not None
        assert row.duration_p50_ms <= row.duration_p95_ms
    assert laptop.first_byte_p95_ms is not None
    assert (laptop.first_bytes, laptop.refused) == (2, 0)
    assert laptop.mean_duration_ms == laptop.duration_ms / 2
    whole = await owner.summary(step="hour", percentiles=True)
    assert whole.series[0].row.duration_p95_ms == found.total.duration_p95_ms


def test_what_refused_calls_waited_is_in_no_average() -> None:
    """One call took 8 seconds; three waited for 3 seconds and were refused."""
    row = row_of("", "", Counts(calls=4, errors=3, ms=17_000, refused=3, refused_ms=9_000), [])
    assert (row.duration_ms, row.mean_duration_ms) == (17_000, 8_000)


async def test_the_earliest_call_is_known(owner: ControlClient, past: int) -> None:
    first = (await owner.calls(limit=10)).calls[-1].time_ms
    assert (await owner.summary(since=first + 10**9)).first_ms == first


async def test_a_long_filtered_sum_leaves_searches_alone(
    owner: ControlClient, past: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, ended, sums = threading.Event(), threading.Event(), filtered_sums_of

    def slow(*args: Any) -> Any:
        begun.set()
        assert ended.wait(20)
        return sums(*args)

    monkeypatch.setattr(usage, "filtered_sums_of", slow)
    summing = asyncio.create_task(owner.summary(words="st:ok"))
    assert await asyncio.to_thread(begun.wait, 20)
    async with asyncio.timeout(20):
        assert len((await owner.calls(words="st:ok")).calls) == 2
    ended.set()
    assert (await summing).total.cost_nanos == past


async def test_tokens_and_models_are_summed_up_together(owner: ControlClient, past: int) -> None:
    for words in ("", "model:m"):
        found = await owner.summary(by="token|model", percentiles=True, words=words)
        assert [(row.name, row.calls, row.cost_nanos) for row in found.rows] == [
            ("laptop|m", 2, past),
            ("phone|m", 1, 0),
        ]
        assert all(row.duration_p50_ms is not None for row in (*found.rows, found.total))
        assert (found.total.calls, found.total.cost_nanos) == (3, past)
    (phone,) = [token for token in await owner.tokens() if token.name == "phone"]
    await owner.remove_token("phone")
    rows = (await owner.summary(by="token|model")).rows
    assert [(row.key, row.name) for row in rows][1] == (f"{phone.id}|m", "phone|m")


async def test_picked_calls_are_summed_up_alone(owner: ControlClient, past: int) -> None:
    one = await owner.summary(by="model", token="phone", percentiles=True)
    assert [(row.name, row.calls, row.errors) for row in one.rows] == [("m", 1, 1)]
    assert (one.total.cost_nanos, one.incomplete) == (0, False)
    assert (await owner.summary(by="token", words="st:ok")).total.cost_nanos == past
    assert (await owner.summary(by="token", step="hour", words="tok:laptop")).series[0].row.calls == 2
    with pytest.raises(NotFound, match="no token 'tablet'"):
        await owner.summary(token="tablet")


async def test_every_refusal_is_counted_however_many_share_a_record(owner: ControlClient, gateway: Gateway) -> None:
    for _ in range(8):
        assert (await gateway.client.chat("unknown")).status == 404
    gateway.engine.pipeline.refusals.close()
    assert len(gateway.records) < 8
    summary = await owner.summary(by="model")
    (row,) = summary.rows
    assert [(one.calls, one.errors, one.refused) for one in (row, summary.total)] == [(8, 8, 8)] * 2
