"""One call from its first byte to its settlement: whatever happens, it is settled once, and charged what it used.

Long: every way a call may end, in the order in which it passes them.
"""

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from gateway.domain import errors
from gateway.domain.account import Account
from gateway.domain.budget import Budget
from gateway.domain.call import Outcome
from gateway.domain.cost import cost
from gateway.domain.limits import Limits
from gateway.domain.registry import Change
from gateway.domain.settings import Durability, Settings
from gateway.domain.units import DOLLAR, Nanos
from gateway.domain.usage import UsageSource
from gateway.domain.views import call_view
from tests.core import kit
from tests.core.ends import (
    DONE,
    GOOD_STREAM,
    Answered,
    FakeClient,
    FakeReply,
    counts,
    ends,
    error_body,
    says,
    too_slow,
    unreachable,
    whole,
)
from tests.core.rig import Rig

GOOD_COST = Nanos(9 * 2500 + 12 * 10_000)
"""Of 9 input and 12 output tokens."""


def streams(rig: Rig, *pieces: Any) -> Rig:
    rig.upstreams.on("up", lambda: FakeReply(*pieces))
    return rig


async def caught(answer: Awaitable[Answered]) -> errors.GatewayError:
    with pytest.raises(errors.GatewayError) as error:
        await answer
    return error.value


async def test_a_plain_call_is_answered_recorded_and_charged(up: Rig) -> None:
    answer = await up.call()
    record = up.record
    assert b"Hello there." in answer.body
    assert (record.status, record.outcome, record.source) == (200, Outcome.DONE, UsageSource.REPORTED)
    assert (record.input, record.output, record.cost) == (9, 12, GOOD_COST)
    assert record.balance == DOLLAR - GOOD_COST == up.books.balance()


async def test_a_stream_is_answered_recorded_and_charged(up: Rig) -> None:
    streams(up, *GOOD_STREAM)
    assert await up.call(stream=True) == Answered()
    assert up.client.body.endswith(DONE)
    assert (up.record.status, up.record.cost, up.record.finish, up.record.stream) == (200, GOOD_COST, "stop", True)


async def test_a_patient_clients_answer_waits_for_its_record(up: Rig) -> None:
    written: list[int] = []
    up.client.may_wait = True
    up.client.on_answer = lambda: written.append(up.store.calls.count)
    await up.call()
    assert (written, up.store.calls.count, up.spent) == ([], 0, GOOD_COST)
    await asyncio.sleep(0)
    assert (written, up.store.calls.count) == ([1], 1)


async def test_the_hold_is_written_before_an_upstream_gets_the_call(up: Rig) -> None:
    held: list[int] = []

    async def look() -> FakeReply:
        held.append(up.books.held(("account", "")).nanos)
        return FakeReply(whole())

    up.upstreams.on("up", lambda: look)
    await up.call(max_tokens=100)
    assert held == [up.record.held]
    assert up.record.held == 100 * 10_000 + kit.ask().bound.tokens * 2500


async def test_the_hold_is_reported_with_its_channel(up: Rig) -> None:
    """Who looks at running calls sees where they are."""
    gate = asyncio.Event()
    up.upstreams.on("up", lambda: FakeReply(gate, whole()))
    task = await up.start_until(lambda: up.upstreams.asked)
    (running,) = up.books.running.values()
    assert (running.channel, running.channel_name, running.attempt) == ("ch_up", "up", 1)
    assert up.books.held(("channel", "ch_up")).calls == 1
    gate.set()
    await task


async def test_headers_have_channel_cost_and_limits(up: Rig) -> None:
    up.change_token(limits=Limits(rpm=5, tpm=1000))
    headers = (await up.call()).headers
    assert (headers["x-gateway-channel"], headers["x-gateway-model"], headers["x-gateway-attempts"]) == ("up", "m", "1")
    assert (headers["x-gateway-cost"], headers["x-gateway-balance"]) == ("0.0001425", "0.9998575")
    assert headers["x-ratelimit-limit-requests"] == "5"
    assert headers["x-ratelimit-remaining-requests"] == "4"
    assert headers["x-ratelimit-reset-requests"] == "1m0s"


@pytest.mark.parametrize(
    ("change", "fields", "kind"),
    [
        ({}, {"model": "unknown"}, errors.NotFound),
        ({"limits": Limits(rpm=0)}, {}, errors.RateLimited),
        ({"budgets": (Budget(nanos=Nanos(1)),)}, {}, errors.QuotaExceeded),
        ({"budgets": (Budget(tokens=1),)}, {}, errors.QuotaExceeded),
        ({}, {"n": 0}, errors.BadRequest),
    ],
)
async def test_a_refused_call_is_recorded_and_takes_nothing(
    up: Rig, change: dict[str, Any], fields: dict[str, Any], kind: type[errors.GatewayError]
) -> None:
    up.change_token(**change)
    error = await caught(up.call(**fields))
    assert type(error) is kind
    assert (up.record.outcome, up.record.code, up.record.cost) == (Outcome.REFUSED, error.code, 0)
    assert up.upstreams.asked == []


async def test_a_token_edited_while_its_request_came_in_is_taken_as_it_is_now(up: Rig) -> None:
    before = up.token
    up.change_token(limits=Limits(rpm=0))
    up.token = before
    assert type(await caught(up.call())) is errors.RateLimited
    up.put("tokens", before.id, before)
    await up.call()


@pytest.mark.parametrize(("fields", "code"), [(None, "invalid_api_key"), ({"enabled": False}, "token_disabled")])
async def test_a_token_removed_meanwhile_is_refused(up: Rig, fields: dict[str, Any] | None, code: str) -> None:
    before = up.token
    if fields is None:
        up.store.entities.apply([Change("tokens", before.id, None)])
    else:
        up.change_token(**fields)
    up.token = before
    assert (await caught(up.call())).code == code
    assert up.upstreams.asked == []


async def test_a_call_over_its_budget_consumes_no_rate(up: Rig) -> None:
    up.change_token(limits=Limits(rpm=1), budgets=(Budget(nanos=Nanos(1)),))
    await caught(up.call())
    up.change_token(budgets=())
    await up.call()


async def test_a_closed_gateway_takes_no_calls(up: Rig) -> None:
    up.pipeline.closed = errors.Unavailable("closing", code="gateway_stopping")
    assert (await caught(up.call())).code == "gateway_stopping"
    assert up.upstreams.asked == []


async def test_only_one_call_wins_the_last_money(up: Rig) -> None:
    up.grant(-DOLLAR + 1_200_000)
    clients = [FakeClient() for _ in range(200)]
    body = kit.body(max_tokens=100)
    found = await asyncio.gather(*(up.run(body, client) for client in clients), return_exceptions=True)
    assert sum(isinstance(one, Answered) for one in found) == 1
    assert {type(one) for one in found if not isinstance(one, Answered)} == {errors.QuotaExceeded}
    assert up.books.balance() >= 0


async def test_unpriced_models_are_free_or_refused(rig: Rig) -> None:
    rig.channel("up", "odd", answer=lambda: FakeReply(whole()))
    await rig.call("odd")
    assert (rig.record.cost, rig.record.rates, rig.record.input) == (0, None, 9)
    rig.put("settings", "", Settings(refuse_unpriced=True))
    error = await caught(rig.call("odd"))
    assert (error.code, error.param) == ("model_price_missing", "model")


async def test_a_call_keeps_the_price_it_was_admitted_with(up: Rig) -> None:
    up.upstreams.on("up", lambda: FakeReply(lambda: up.price(input=Nanos(0), output=Nanos(0)), whole()))
    await up.call()
    assert up.record.cost == GOOD_COST


async def test_unreported_usage_is_estimated_charged_and_filled_in(up: Rig) -> None:
    up.upstreams.on("up", lambda: FakeReply(whole(usage=None)))
    answer = await up.call()
    record = up.record
    assert record.source is UsageSource.ESTIMATED
    assert record.output > 0
    assert record.rates is not None
    assert record.cost == cost(call_view(record).usage, record.rates) > 0
    assert b"estimated" not in answer.body
    assert answer.headers["x-gateway-usage"] == "estimated"


FAILURES: list[tuple[Any, type[errors.GatewayError], str]] = [
    (lambda: unreachable(kit.channel()), errors.UpstreamError, "upstream_unreachable"),
    (lambda: too_slow(kit.channel()), errors.UpstreamTimeout, "upstream_timeout"),
    (lambda: FakeReply(error_body(), status=500), errors.UpstreamError, "upstream_error"),
    (lambda: FakeReply(error_body(), status=401), errors.UpstreamError, "upstream_auth_failed"),
    (lambda: FakeReply(error_body(code="bad_thing"), status=400), errors.UpstreamError, "bad_thing"),
    (lambda: FakeReply(b"<html>"), errors.UpstreamError, "upstream_bad_response"),
    (lambda: FakeReply(b""), errors.UpstreamError, "upstream_bad_response"),
    (lambda: FakeReply(unreachable(kit.channel(), sent=True)), errors.UpstreamError, "upstream_unreachable"),
]


@pytest.mark.parametrize(("behaviour", "kind", "code"), FAILURES)
async def test_a_call_that_brings_nothing_costs_nothing(
    up: Rig, behaviour: Any, kind: type[errors.GatewayError], code: str, stream: bool
) -> None:
    up.upstreams.on("up", behaviour)
    error = await caught(up.call(stream=stream))
    assert isinstance(error, kind)
    assert (up.record.cost, up.record.source, up.record.error != "") == (0, UsageSource.NONE, True)
    assert not up.client.begun
    if not stream:
        assert error.code == code


async def test_what_may_have_been_billed_unseen_is_kept_as_possible(up: Rig) -> None:
    up.upstreams.on("up", lambda: too_slow(kit.channel()))
    await caught(up.call(max_tokens=100))
    assert (up.record.cost, up.record.possible) == (0, up.record.held)
    assert up.record.outcome is Outcome.TIMEOUT


async def test_an_unusable_answer_that_reports_tokens_may_have_been_billed(up: Rig, *, stream: bool) -> None:
    failed = b'{"error":{"message":"broken"},"usage":{"prompt_tokens":900,"completion_tokens":30,"total_tokens":930}}'
    streams(up, b"data: %b\n\n" % failed if stream else failed)
    await caught(up.call(max_tokens=100, stream=stream))
    assert (up.record.status, up.record.cost, up.record.possible) == (502, 0, 2 * up.record.held)  # it was tried twice


async def test_an_unusable_answer_without_tokens_was_not_billed(up: Rig, *, stream: bool) -> None:
    failed = b'{"error":{"message":"broken"},"usage":null}'
    streams(up, b"data: %b\n\n" % failed if stream else failed)
    await caught(up.call(max_tokens=100, stream=stream))
    assert (up.record.status, up.record.cost, up.record.possible) == (502, 0, 0)


async def test_a_stream_that_breaks_is_charged_for_what_came_and_ends_in_an_error(up: Rig) -> None:
    streams(up, says("Hello"), says(" there."), unreachable(kit.channel(), sent=True))
    assert await up.call(stream=True) == Answered()
    assert up.client.error is not None
    assert DONE not in up.client.body
    record = up.record
    assert (record.outcome, record.status, record.source) == (Outcome.UPSTREAM_CUT, 502, UsageSource.ESTIMATED)
    assert record.cost > 0


async def test_a_truncated_stream_is_not_a_success(up: Rig) -> None:
    streams(up, says("Hello"))
    await up.call(stream=True)
    assert up.client.error is not None
    assert up.client.error.code == "upstream_stream_truncated"
    assert up.record.outcome is Outcome.UPSTREAM_CUT


async def test_a_bug_is_settled_logged_and_told_without_detail(up: Rig, caplog: pytest.LogCaptureFixture) -> None:
    up.upstreams.on("up", lambda: RuntimeError("secret detail"))
    error = await caught(up.call())
    assert type(error) is errors.InternalError
    assert "secret" not in error.message
    assert (up.record.status, up.record.cost) == (500, 0)
    assert "failed unexpectedly" in caplog.text


@pytest.mark.parametrize("refusal", [RuntimeError("can't start new thread"), MemoryError()])
async def test_a_call_that_the_system_has_no_room_for_may_be_sent_again(up: Rig, refusal: Exception) -> None:
    up.upstreams.on("up", lambda: refusal)
    error = await caught(up.call())
    assert (error.http_status, error.code, error.retry_after_s) == (503, "overloaded", 1)
    assert "no more memory or threads" in error.message
    assert (up.record.status, up.record.cost) == (503, 0)


async def test_a_stream_whose_client_leaves_before_anything_came_costs_nothing(up: Rig) -> None:
    gate = asyncio.Event()
    streams(up, gate)
    task = await up.start_until(lambda: up.upstreams.replies, stream=True)
    up.client.leave()
    with pytest.raises(asyncio.CancelledError):
        await task
    record = up.record
    assert (record.status, record.outcome, record.cost) == (499, Outcome.CLIENT_CLOSED, 0)
    assert record.possible == record.held > 0
    assert up.upstreams.replies[0].end == "aborted"


@pytest.mark.parametrize("chunks", [1, 2])
async def test_a_stream_whose_client_leaves_in_the_middle_is_charged_for_what_it_got(up: Rig, chunks: int) -> None:
    gate = asyncio.Event()
    streams(up, *[says("Hello")] * chunks, gate)
    task = await up.start_until(lambda: up.client.body.count(b"Hello") == chunks, stream=True)
    up.client.leave()
    with pytest.raises(asyncio.CancelledError):
        await task
    record = up.record
    assert (record.status, record.outcome, record.source) == (499, Outcome.CLIENT_CLOSED, UsageSource.ESTIMATED)
    assert record.output >= 1
    assert up.upstreams.replies[0].end == "aborted"


async def test_a_client_found_gone_while_writing_is_charged_for_what_it_got(up: Rig) -> None:
    def silently() -> None:
        up.client.gone = True

    streams(up, says("Hello"), silently, says(" there."), ends(), DONE)
    with pytest.raises(ConnectionError):
        await up.call(stream=True)
    assert (up.record.status, up.record.outcome) == (499, Outcome.CLIENT_CLOSED)
    assert up.record.cost > 0


async def test_a_client_gone_at_the_very_end_was_answered(up: Rig) -> None:
    """Everything had been sent but the end."""
    streams(up, says("Hello"), ends(), counts(9, 12), up.client.leave, DONE)
    task = up.start(stream=True)
    with pytest.raises((asyncio.CancelledError, ConnectionError)):
        await task
    assert up.record.outcome is Outcome.CLIENT_CLOSED
    assert (up.record.input, up.record.output) == (9, 12)


async def test_a_plain_call_is_finished_without_its_client(up: Rig) -> None:
    gate = asyncio.Event()
    up.upstreams.on("up", lambda: FakeReply(gate, whole()))
    task = await up.start_until(lambda: up.upstreams.replies)
    up.client.leave()
    gate.set()
    await task
    record = up.record
    assert (record.status, record.outcome, record.cost) == (499, Outcome.CLIENT_CLOSED, GOOD_COST)
    assert record.source is UsageSource.REPORTED


async def test_a_plain_call_may_be_given_up_with_its_client_and_costs_its_prompt(rig: Rig) -> None:
    rig.channel(finish_abandoned=False, answer=lambda: FakeReply(asyncio.Event()))
    task = await rig.start_until(lambda: rig.upstreams.replies)
    rig.client.leave()
    with pytest.raises(asyncio.CancelledError):
        await task
    record = rig.record
    assert (record.status, record.outcome, record.output) == (499, Outcome.CLIENT_CLOSED, 0)
    assert (record.input > 0, record.cost > 0, record.source) == (True, True, UsageSource.ESTIMATED)
    assert rig.upstreams.replies[0].end == "aborted"


@pytest.mark.parametrize(("behaviour", "kind", "code"), FAILURES)
async def test_an_upstreams_failure_costs_nothing_after_the_client_left(
    up: Rig, behaviour: Any, kind: type[errors.GatewayError], code: str
) -> None:
    async def leave() -> FakeReply:
        up.client.leave()
        found = behaviour()
        if isinstance(found, BaseException):
            raise found
        assert isinstance(found, FakeReply)
        return found

    up.upstreams.on("up", lambda: leave)
    await caught(up.call())
    assert (up.record.status, up.record.outcome) == (499, Outcome.CLIENT_CLOSED)
    assert (up.record.cost, up.record.source, up.record.code) == (0, UsageSource.NONE, code)


async def test_the_owner_ends_a_call_before_it_answered(up: Rig, stream: bool) -> None:
    streams(up, asyncio.Event())
    task = await up.start_until(lambda: up.upstreams.replies, stream=stream)
    (running,) = up.live.calls.values()
    running.end(Outcome.CANCELLED)
    assert (await caught(task)).code == "call_cancelled"
    assert (up.record.outcome, up.record.status, up.record.cost) == (Outcome.CANCELLED, 503, 0)
    assert up.record.possible == up.record.held
    assert task.cancelling() == 0


async def test_the_owner_ends_a_stream_in_the_middle(up: Rig) -> None:
    streams(up, says("Hello"), asyncio.Event())
    task = await up.start_until(lambda: b"Hello" in up.client.body, stream=True)
    next(iter(up.live.calls.values())).end(Outcome.CANCELLED)
    assert await task == Answered()
    assert up.client.error is not None
    assert up.client.error.code == "call_cancelled"
    assert up.record.outcome is Outcome.CANCELLED
    assert up.record.cost > 0


async def test_a_stopping_gateway_ends_its_calls(up: Rig) -> None:
    streams(up, asyncio.Event())
    task = await up.start_until(lambda: up.upstreams.replies)
    up.live.cancel_all(Outcome.STOPPED)
    error = await caught(task)
    assert (error.code, error.retry_after_s) == ("gateway_stopping", 5)
    assert up.record.outcome is Outcome.STOPPED


async def test_a_plain_call_has_one_deadline_for_everything(rig: Rig) -> None:
    rig.channel(timeouts=kit.channel().timeouts, answer=lambda: FakeReply(asyncio.Event()))
    task = await rig.start_until(lambda: rig.upstreams.replies)
    await rig.pass_time(599)
    assert not task.done()
    await rig.pass_time(1)
    error = await caught(task)
    assert type(error) is errors.UpstreamTimeout
    assert error.message == (
        "channel 'up': the call took longer than its total limit of 600 s; "
        "'tollkeeper channel edit up --timeout total=SECONDS' waits longer"
    )
    assert (rig.record.outcome, rig.record.status, rig.record.cost) == (Outcome.TIMEOUT, 504, 0)
    assert rig.record.possible == rig.record.held


async def test_money_that_is_gone_ends_a_stream_if_its_owner_wants_so(up: Rig) -> None:
    up.put("account", "", Account(stop_when_empty=True))
    up.grant(-DOLLAR + 200_000)
    streams(up, *[says("word " * 100), lambda: up.watch.advance(1)] * 10, ends(), DONE)
    await up.call(stream=True)
    record = up.record
    assert (record.outcome, record.finish, record.status) == (Outcome.STOPPED, "length", 200)
    assert (record.upstream_id, record.marks[0]) == ("chatcmpl-1", "money_gone")
    assert up.client.body.endswith(DONE)
    assert b'"finish_reason":"length"' in up.client.body
    assert 2 <= up.client.body.count(b"data: ") < 10


async def test_money_that_is_gone_ends_no_stream_by_default(up: Rig) -> None:
    up.grant(-DOLLAR + 200_000)
    streams(up, *[says("word " * 100), lambda: up.watch.advance(1)] * 10, ends(), DONE)
    await up.call(stream=True)
    assert (up.record.outcome, up.record.finish) == (Outcome.DONE, "stop")
    assert up.books.balance() < 0


async def test_money_that_is_gone_with_the_last_word_stops_nothing(up: Rig) -> None:
    """The answer is complete and its usage known: it is charged as reported."""
    up.put("account", "", Account(stop_when_empty=True))
    up.grant(-DOLLAR + 200_000)
    streams(up, says("word " * 1000) + ends() + counts(9, 1000) + DONE)
    await up.call(stream=True)
    assert (up.record.outcome, up.record.source, up.record.output) == (Outcome.DONE, UsageSource.REPORTED, 1000)


async def test_a_disk_that_refuses_the_hold_refuses_the_call(up: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise errors.Unavailable("disk full", code="store_unavailable", retry_after_s=5)

    with monkeypatch.context() as patch:
        patch.setattr(up.books, "open", full)
        assert (await caught(up.call())).code == "store_unavailable"
    assert up.upstreams.asked == []
    await up.call()


async def test_durability_call_waits_for_the_disk(up: Rig, monkeypatch: pytest.MonkeyPatch, stream: bool) -> None:
    up.put("settings", "", Settings(durability=Durability.CALL))
    streams(up, *GOOD_STREAM) if stream else None
    gate = asyncio.Event()

    async def synced() -> None:
        await gate.wait()

    monkeypatch.setattr(up.books, "wait_until_synced", synced)
    task = await up.start_until(lambda: up.records, stream=stream)
    for _ in range(20):
        await asyncio.sleep(0)
    assert not task.done()
    assert DONE not in up.client.body
    gate.set()
    await task
