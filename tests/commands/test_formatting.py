"""How single values are written."""

from msgspec.structs import replace

from gateway.commands import formatting
from gateway.commands.options import now
from gateway.domain.units import Millis, Nanos
from tests.commands.samples import CALL, CHANNEL, PRICE


def test_a_price_is_input_and_output_free_or_unpriced() -> None:
    assert formatting.price(PRICE) == "$2.50 / $10.00"
    assert formatting.price(replace(PRICE, free=True)) == "free"
    assert formatting.price(None) == "unpriced"
    assert formatting.price(replace(PRICE, per_call=Nanos(1))).endswith("+ $0.000000001 a call")


def test_the_state_of_a_channel_is_plain_english() -> None:
    states = {
        state: formatting.channel_state(replace(CHANNEL, state=state)) for state in ("ok", "attention", "half_open")
    }
    assert states == {"ok": "ok", "attention": "needs attention", "half_open": "retrying"}
    assert formatting.channel_state(CHANNEL).startswith("paused until 2025-11-18 ")
    soon = replace(CHANNEL, until_ms=Millis(now() + 1_000))
    assert len(formatting.channel_state(soon)) in (
        len("paused until 12:30:00"),
        len("paused until 2026-01-01 00:00:00"),
    )


def test_the_status_says_more_where_it_must() -> None:
    assert formatting.status(CALL) == "200"
    assert formatting.status(replace(CALL, status=499, outcome="client_closed")) == "499 client_closed"
    assert formatting.status(replace(CALL, status=0, state="running")) == "running"


def test_long_lists_are_cut() -> None:
    assert formatting.brief_names(["a", "b"]) == "a, b"
    assert formatting.brief_names(["a", "b", "c", "d", "e"]) == "a, b, c +2"


def test_what_was_used_without_a_price_is_marked() -> None:
    assert formatting.cost(CALL) == "$0.00438"
    assert formatting.cost(replace(CALL, rates=None, cost_nanos=Nanos(0))) == "unpriced"
    assert formatting.cost(replace(CALL, rates=None, usage_source="none", cost_nanos=Nanos(0))) == "$0.00"
    assert formatting.cost(replace(CALL, rates=None, state="running")) == "≤$0.00438"
