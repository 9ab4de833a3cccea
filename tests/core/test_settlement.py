"""From a call as it ended to its record, which is also its charge."""

import pytest

from gateway.core.call import Call, Visit
from gateway.core.settlement import billed_unseen, outcome_of, record_of
from gateway.domain.call import Attempt, FailureKind, Outcome
from gateway.domain.errors import GatewayError, InternalError, UpstreamError, UpstreamTimeout
from gateway.domain.group import Group
from gateway.domain.price import Price, Rates, Tier
from gateway.domain.units import MILLION, CallId, Nanos
from gateway.domain.usage import Usage, UsageSource
from tests.core import kit
from tests.core.clocks import NOON
from tests.core.ends import FakeClient


def call(**fields: object) -> Call:
    """A call that began at second 100."""
    visit = Visit(id=CallId("req_1"), key="secret", app="curl", retry=1, ts=NOON, began=100.0)
    made = Call(visit, kit.ask(stream=True), FakeClient(), kit.catalog(), kit.token(), Group(name="home"))
    made.price = kit.PRICE
    for name, value in fields.items():
        setattr(made, name, value)
    return made


USAGE = Usage(input=1000, cached=600, output=200, reasoning=50, source=UsageSource.REPORTED)


def test_a_record_keeps_what_is_known() -> None:
    found = call(usage=USAGE, finish="stop", upstream_id="up-1", marks=("no_done",), first_byte=100.25, overhead_us=321)
    found.take_route(kit.route("up", "m=m-2026"), "priority 0", 1)
    record = record_of(found, 200, mono=101.5)
    assert (record.id, record.ts, record.ms, record.ttft, record.overhead) == ("req_1", NOON, 1500, 250, 321)
    assert (record.token, record.token_name, record.group, record.app) == ("tok_laptop", "laptop", "home", "curl")
    assert (record.model, record.upstream_model, record.channel, record.channel_name) == ("m", "m-2026", "ch_up", "up")
    assert (record.usage, record.finish, record.upstream_id) == (USAGE, "stop", "up-1")
    assert (record.retry, record.stream, record.marks) == (1, True, ("no_done",))


def test_the_cost_is_that_of_the_usage_at_the_price_of_the_call() -> None:
    price = Price(model="m", input=Nanos(3_000_000_000), cached_input=Nanos(300_000_000), output=Nanos(15_000_000_000))
    record = record_of(call(usage=USAGE, price=price), 200, mono=101.0)
    assert record.cost == 4_380_000
    assert record.rates == Rates(3_000_000_000, 300_000_000, 3_000_000_000, 15_000_000_000, 0, MILLION)


def test_the_groups_multiplier_and_the_tier_are_kept_in_the_record() -> None:
    price = Price(
        model="m",
        input=Nanos(MILLION),
        output=Nanos(0),
        tiers=(Tier(above=500, input=Nanos(2 * MILLION), output=Nanos(0)),),
    )
    record = record_of(call(usage=USAGE, price=price, group=Group(name="g", multiplier=1_500_000)), 200, mono=101.0)
    assert (record.cost, record.rates) == (3000, Rates(2 * MILLION, 2 * MILLION, 2 * MILLION, 0, 0, 1_500_000))


def test_an_unpriced_call_has_no_rates() -> None:
    record = record_of(call(usage=USAGE, price=None), 200, mono=101.0)
    assert (record.cost, record.rates, record.input) == (0, None, 1000)


def test_a_call_that_used_nothing_costs_nothing_even_at_a_price_per_call() -> None:
    price = Price(model="m", input=Nanos(1), output=Nanos(1), per_call=Nanos(10**9))
    record = record_of(call(price=price), 502, mono=101.0)
    assert (record.cost, record.rates) == (0, None)


@pytest.mark.parametrize(
    ("billed", "charged", "possible"), [(True, False, 777), (False, False, 0), (True, True, 0), (False, True, 0)]
)
def test_possible_cost_is_what_was_held_for_what_was_not_charged(billed: bool, charged: bool, possible: int) -> None:
    found = call(attempts=[Attempt(channel="up", billed=billed)])
    found.held = Nanos(777)
    if charged:
        found.usage = USAGE
    assert record_of(found, 502, mono=101.0).possible == possible


def test_foreign_texts_are_made_harmless_and_short() -> None:
    error = UpstreamError("\x1b[31m" + "x" * 1000, code="upstream_error")
    record = record_of(call(error=error, finish="\n" * 99, upstream_id="\u202e" * 999), 502, mono=101.0)
    assert all(text.isprintable() for text in (record.error, record.finish, record.upstream_id))
    assert (len(record.error), len(record.finish), len(record.upstream_id)) == (300, 32, 0)


def test_no_key_and_no_text_of_the_call_is_kept() -> None:
    record = record_of(call(usage=USAGE), 200, mono=101.0)
    assert "secret" not in repr(record)
    assert "Say hello" not in repr(record)


def test_a_clock_that_steps_back_gives_no_negative_times() -> None:
    record = record_of(call(first_byte=99.0), 200, mono=98.0)
    assert (record.ms, record.ttft) == (0, 0)


def test_left_out_parameters_are_marked() -> None:
    assert record_of(call(dropped=("seed", "top_k")), 200, mono=101.0).marks == ("dropped=seed,top_k",)


def gone() -> FakeClient:
    client = FakeClient()
    client.gone = True
    return client


@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        ({"why": Outcome.CANCELLED, "client": gone()}, Outcome.CANCELLED),
        ({"why": Outcome.TIMEOUT}, Outcome.TIMEOUT),
        ({"client": gone(), "error": UpstreamError("x")}, Outcome.CLIENT_CLOSED),
        ({"error": None}, Outcome.STOPPED),
        ({"error": UpstreamTimeout("x")}, Outcome.TIMEOUT),
        ({"error": UpstreamTimeout("x"), "content_sent": True}, Outcome.TIMEOUT),
        ({"error": UpstreamError("x")}, Outcome.ERROR),
        ({"error": UpstreamError("x"), "content_sent": True}, Outcome.UPSTREAM_CUT),
        ({"error": InternalError("x"), "content_sent": True}, Outcome.ERROR),
        ({"error": GatewayError("x")}, Outcome.ERROR),
    ],
)
def test_how_a_call_ended(fields: dict[str, object], outcome: Outcome) -> None:
    assert outcome_of(call(**fields)) is outcome


@pytest.mark.parametrize("kind", list(FailureKind))
def test_what_was_sent_and_fell_silent_may_have_been_billed(kind: FailureKind) -> None:
    silent = kind in (FailureKind.NETWORK, FailureKind.SLOW, FailureKind.CUT)
    assert (billed_unseen(kind, sent=True), billed_unseen(kind, sent=False)) == (silent, False)
