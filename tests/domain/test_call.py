"""Records are small on disk, and say what a call used, whether it failed, and which earlier one it repeats."""

import msgspec
import pytest
from msgspec.structs import replace

from gateway.domain.call import Attempt, FailureKind, Outcome, Record
from gateway.domain.price import Rates
from gateway.domain.repeated_calls import earlier_attempts, repeated_calls
from gateway.domain.units import CallId, Millis, Nanos, TokenId
from gateway.domain.usage import Usage, UsageSource
from gateway.domain.views import CallView, call_view

FULL = Record(
    id=CallId("req_1"),
    ts=Millis(5),
    token="tok_1",
    outcome=Outcome.UPSTREAM_CUT,
    status=502,
    input=10,
    cached=4,
    output=7,
    reasoning=2,
    source=UsageSource.PARTIAL,
    cost=Nanos(123),
    rates=Rates(1, 2, 3, 4, 5, 6),
    balance=Nanos(-7),
    attempts=(Attempt(channel="up", status=500, kind=FailureKind.SERVER, billed=True),),
    marks=("no_done",),
    ttft=Millis(0),
)


def test_default_fields_are_not_written() -> None:
    assert msgspec.json.encode(Record(id=CallId("req_1"), ts=Millis(5))) == b'{"id":"req_1","ts":5}'


def test_the_usage_of_a_call_is_one_value() -> None:
    assert call_view(FULL).usage == Usage(input=10, cached=4, output=7, reasoning=2)


@pytest.mark.parametrize(
    ("status", "failed"), [(200, False), (299, False), (0, True), (199, True), (300, True), (499, True)]
)
def test_statuses_of_failed_calls(status: int, failed: bool) -> None:
    assert Record(id=CallId("req_1"), ts=Millis(5), status=status).failed is failed


def call(number: int, *, retry: int = 0, status: int = 503, model: str = "m", second: int | None = None) -> CallView:
    second = number if second is None else second
    return call_view(
        Record(
            id=CallId(f"req_{number:03}"),
            ts=Millis(second * 1_000),
            ms=Millis(500),
            token=TokenId("tok_1"),
            app="OpenAI",
            model=model,
            status=status,
            retry=retry,
        )
    )


FIRST, SECOND, THIRD = call(1), call(2, retry=1), call(5, retry=2, status=200)


def test_a_retry_has_the_call_before_it() -> None:
    assert repeated_calls([THIRD, SECOND, FIRST]) == {"req_002": "req_001", "req_005": "req_002"}
    assert [one.id for one in earlier_attempts(THIRD, [SECOND, FIRST])] == ["req_002", "req_001"]


def test_calls_at_once_have_their_own_retries() -> None:
    calls = [call(1), call(2, second=1), call(3, retry=1), call(4, retry=1, second=3)]
    assert repeated_calls(calls) == {"req_003": "req_002", "req_004": "req_001"}


def test_what_differs_succeeded_is_long_ago_or_not_over_is_not_repeated() -> None:
    for other in (
        call(1, model="n"),
        call(1, status=200),
        replace(FIRST, token_id="tok_2"),
        replace(FIRST, app="curl"),
        replace(FIRST, api="messages"),
        replace(FIRST, duration_ms=60_000),
    ):
        assert repeated_calls([SECOND, other]) == {}
    assert repeated_calls([FIRST, call(900, retry=1)]) == {}
    assert earlier_attempts(THIRD, []) == []
