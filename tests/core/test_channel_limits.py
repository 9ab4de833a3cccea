"""A channel at its limit is passed over with a reason; only when none is left is the client told."""

import asyncio
from typing import Any

import pytest

from gateway.domain.call import FailureKind
from gateway.domain.errors import GatewayError, RateLimited, Unavailable
from gateway.domain.limits import Limits
from gateway.domain.settings import Settings
from tests.core import kit
from tests.core.ends import GOOD_STREAM, FakeClient, FakeReply, error_body, whole
from tests.core.rig import Rig, until
from tests.core.test_pipeline import caught


def channel(rig: Rig, name: str, **fields: Any) -> None:
    rig.channel(name, **fields, answer=lambda: FakeReply(whole()))


async def asked(rig: Rig, times: int, **fields: Any) -> str:
    """Which channels so many calls went to, in order."""
    for _ in range(times):
        await rig.call(**fields)
    return "".join(rig.upstreams.order)


@pytest.mark.parametrize("limits", [Limits(rpm=2), Limits(rpd=2), Limits(tpm=75, queue_s=0), Limits(tpd=75)])
async def test_a_channel_at_its_rate_is_passed_over(rig: Rig, limits: Limits) -> None:
    channel(rig, "a", priority=1, limits=limits)
    channel(rig, "b")
    assert await asked(rig, 4, max_tokens=20) == "aabb"


async def test_a_minute_later_it_is_tried_again(rig: Rig) -> None:
    channel(rig, "a", priority=1, limits=Limits(rpm=2))
    channel(rig, "b")
    assert await asked(rig, 3) == "aab"
    rig.watch.advance(60)
    assert await asked(rig, 1) == "aaba"


async def test_the_last_channel_at_its_rate_is_reported_with_the_soonest_time(rig: Rig) -> None:
    channel(rig, "a", limits=Limits(rpm=1))
    channel(rig, "b", limits=Limits(rpm=1))
    await rig.call()
    rig.watch.advance(20)
    await rig.call()
    error = await caught(rig.call())
    assert (type(error), error.code, error.retry_after_s) == (RateLimited, "rate_limit_exceeded", 40)
    assert "a: at its limit of 1 request a minute, free in 40 s" in error.message
    assert "b: at its limit of 1 request a minute, free in 60 s" in error.message
    assert rig.records[-1].code == "rate_limit_exceeded"


async def test_a_call_too_large_for_every_channel_is_reported(rig: Rig) -> None:
    channel(rig, "a", limits=Limits(tpm=5))
    error = await caught(rig.call())
    assert (error.code, error.retry_after_s) == ("request_too_large_for_limit", None)
    assert "more" not in error.message
    assert "the call needs about" in error.message


async def test_true_tokens_count_at_the_channel(rig: Rig) -> None:
    channel(rig, "a", limits=Limits(tpm=100))
    await rig.call(max_tokens=80)
    (bound,) = rig.catalog.visible(rig.token)["m"].scopes
    (reading,) = rig.limiter.readings([bound])
    assert reading.left == 100 - 21


async def test_tokens_of_a_failed_attempt_do_not_count(rig: Rig) -> None:
    rig.channel("a", priority=1, limits=Limits(tpm=100), answer=lambda: FakeReply(error_body(), status=500))
    channel(rig, "b")
    await rig.call(max_tokens=80)
    (bound,) = (r.scope for r in rig.catalog.visible(rig.token)["m"].routes if r.channel.name == "a")
    assert bound is not None
    (reading,) = rig.limiter.readings([bound])
    assert reading.left == 100


async def test_a_channels_calls_in_flight_are_limited_without_a_word(rig: Rig) -> None:
    rig.put("settings", "", Settings(channel_calls=2, queue_s=0))
    gate = asyncio.Event()
    rig.channel(answer=lambda: FakeReply(gate, whole()))
    running = [asyncio.ensure_future(rig.run(kit.body(), FakeClient())) for _ in range(2)]
    await until(lambda: len(rig.upstreams.replies) == 2)
    error = await caught(rig.run(kit.body(), FakeClient()))
    assert (type(error), error.code, error.retry_after_s) == (Unavailable, "overloaded", 1.0)
    assert "up: at its limit of 2 calls in flight" in error.message
    gate.set()
    await asyncio.gather(*running)


async def test_a_place_is_free_again_however_the_attempt_ends(rig: Rig) -> None:
    rig.channel("a", limits=Limits(concurrent=1, queue_s=0))
    endings: list[Any] = [
        lambda: FakeReply(error_body(), status=400),
        lambda: RuntimeError("a bug"),
        lambda: FakeReply(error_body(), status=422),
        lambda: FakeReply(whole()),
    ]
    rig.upstreams.on("a", *endings)
    for _ in endings[:-1]:
        await caught(rig.call())
    await rig.call()


async def test_a_paused_channel_at_its_limit_is_not_a_last_resort(rig: Rig) -> None:
    channel(rig, "a", limits=Limits(rpm=1))
    await rig.call()
    rig.health.note_failure(rig.catalog.channel("a").id, FailureKind.RATE, "429", 30)
    assert type(await caught(rig.call())) is RateLimited


async def test_the_only_channels_rates_are_reported_to_the_client(rig: Rig) -> None:
    channel(rig, "a", limits=Limits(rpm=5))
    assert (await rig.call()).headers["x-ratelimit-remaining-requests"] == "4"
    channel(rig, "b")
    assert "x-ratelimit-remaining-requests" not in (await rig.call()).headers


async def test_errors_of_all_kinds_know_the_limits_of_who_asked(rig: Rig) -> None:
    channel(rig, "a")
    rig.change_token(limits=Limits(rpm=5))
    rig.upstreams.on("a", lambda: FakeReply(error_body(), status=400))
    errors: list[GatewayError] = [await caught(rig.call()), await caught(rig.call("unknown"))]
    errors.append(await caught(rig.run(b"{")))
    assert [error.call_headers["x-ratelimit-remaining-requests"] for error in errors] == ["4"] * 3


async def test_streams_hold_their_place_until_their_end(rig: Rig) -> None:
    gate = asyncio.Event()
    rig.channel("a", limits=Limits(concurrent=1, queue_s=0))
    rig.upstreams.on("a", lambda: FakeReply(*GOOD_STREAM[:2], gate, *GOOD_STREAM[2:]))
    task = await rig.start_until(lambda: rig.client.body, stream=True)
    assert (await caught(rig.run(kit.body(), FakeClient()))).code == "overloaded"
    gate.set()
    await task


def test_a_call_that_has_a_slot_needs_no_other(rig: Rig) -> None:
    rig.channel(limits=Limits(concurrent=1))
    (route,) = rig.catalog.visible(rig.token)["m"].routes
    assert route.scope is not None
    assert route.scope.gate is not None
    rig.limiter.concurrency.enter([route.scope.gate.key])
    check = rig.pipeline.attempts.channel_limits.check
    found = check(1, None, route)
    assert found is not None
    assert (found.rule, found.wait_s) == ("full", 1.0)
    assert check(1, route.scope.gate.key, route) is None
    rig.limiter.concurrency.leave([route.scope.gate.key])


async def test_a_plain_answer_reports_what_its_call_used(rig: Rig) -> None:
    channel(rig, "a")
    rig.change_token(limits=Limits(tpm=100_000))
    headers = (await rig.call(max_tokens=5000)).headers
    used = rig.record.input + rig.record.output
    assert headers["x-ratelimit-remaining-tokens"] == str(100_000 - used)
