"""What limits a call is made of the configuration, defaults filled in."""

import pytest

from gateway.core.rate_scopes import ConcurrencyGate, channel_scope, combine_scopes, group_scope, token_scope
from gateway.domain.group import Group
from gateway.domain.limits import Limits
from gateway.domain.settings import Settings
from tests.core import kit

USUAL = Settings()


def test_a_token_has_no_limits_but_that_of_its_streams() -> None:
    bound = token_scope(kit.token(), USUAL)
    assert (bound.key, bound.label, bound.has_rates, bound.gate) == (
        ("token", "tok_laptop"),
        "token 'laptop'",
        False,
        None,
    )
    assert bound.stream_gate == ConcurrencyGate(
        key=("token streams", "tok_laptop"), label=bound.label, name="streams", limit=32, queue=64, wait_s=10
    )


def test_a_group_has_no_limits() -> None:
    bound = group_scope(Group(name="home"), USUAL)
    assert (bound.key, bound.has_rates, bound.gate, bound.stream_gate) == (("group", "home"), False, None, None)


def test_a_channel_has_a_limit_of_calls_in_flight() -> None:
    gate = channel_scope(kit.channel(), USUAL).gate
    assert gate == ConcurrencyGate(
        key=("channel", "ch_up"), label="channel 'up'", name="calls in flight", limit=64, queue=64, wait_s=10
    )


def test_the_settings_have_the_defaults() -> None:
    settings = Settings(token_streams=3, channel_calls=5, queue=7, queue_s=9)
    streams, calls = token_scope(kit.token(), settings).stream_gate, channel_scope(kit.channel(), settings).gate
    assert streams is not None
    assert calls is not None
    assert (streams.limit, calls.limit, calls.queue, calls.wait_s) == (3, 5, 7, 9)


def test_nothing_is_limited_by_a_setting_of_0() -> None:
    settings = Settings(token_streams=0, channel_calls=0)
    assert token_scope(kit.token(), settings).stream_gate is None
    assert channel_scope(kit.channel(), settings).gate is None


def test_what_a_party_says_itself_comes_first() -> None:
    limits = Limits(concurrent=2, streams=1, queue=0, queue_s=0)
    bound = token_scope(kit.token(limits=limits), USUAL)
    assert bound.gate is not None
    assert bound.stream_gate is not None
    assert (bound.gate.limit, bound.gate.queue, bound.gate.wait_s, bound.stream_gate.limit) == (2, 0, 0, 1)


@pytest.mark.parametrize("limit", ["rpm", "tpm", "rpd", "tpd"])
def test_rates_are_noticed(limit: str) -> None:
    assert token_scope(kit.token(limits=Limits(**{limit: 1})), USUAL).has_rates


def test_the_terms_of_a_call_are_those_of_token_and_group() -> None:
    limits = Limits(rpm=1, concurrent=2, streams=3)
    token = token_scope(kit.token(limits=limits), USUAL)
    group = group_scope(Group(name="home", limits=Limits(concurrent=4)), USUAL)
    terms = combine_scopes([token, group])
    assert terms.rated_scopes == (token,)
    assert terms.gates == (token.gate, group.gate)
    assert terms.stream_gates == (token.gate, group.gate, token.stream_gate)
