"""Records are small on disk, and say what a call used and whether it failed."""

import msgspec
import pytest

from gateway.domain.call import Attempt, FailureKind, Outcome, Record
from gateway.domain.price import Rates
from gateway.domain.units import CallId, Millis, Nanos
from gateway.domain.usage import Usage, UsageSource
from gateway.domain.views import call_view

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


def test_what_has_its_default_takes_no_room() -> None:
    assert msgspec.json.encode(Record(id=CallId("req_1"), ts=Millis(5))) == b'{"id":"req_1","ts":5}'


def test_the_usage_of_a_call_is_one_value() -> None:
    assert call_view(FULL).usage == Usage(input=10, cached=4, output=7, reasoning=2)


@pytest.mark.parametrize(
    ("status", "failed"), [(200, False), (299, False), (0, True), (199, True), (300, True), (499, True)]
)
def test_what_counts_as_an_error(status: int, failed: bool) -> None:
    assert Record(id=CallId("req_1"), ts=Millis(5), status=status).failed is failed
