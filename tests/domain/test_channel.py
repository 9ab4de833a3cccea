"""A channel and the models it serves."""

import pytest

from gateway.domain.channel import Channel, Dialect, Served
from gateway.domain.units import ChannelId


@pytest.mark.parametrize(("upstream", "asked"), [("", "fast"), ("gpt-4o-mini", "gpt-4o-mini")])
def test_a_model_is_asked_for_by_the_upstreams_name(upstream: str, asked: str) -> None:
    assert Served(name="fast", upstream=upstream).upstream_name == asked


def test_a_new_channel_finishes_what_was_abandoned_and_serves_the_default_group() -> None:
    channel = Channel(id=ChannelId("ch_1"), name="up", dialect=Dialect.OPENAI)
    assert (channel.finish_abandoned, channel.groups, channel.enabled, channel.strict) == (
        True,
        ("default",),
        True,
        False,
    )


def test_two_channels_share_no_dictionary() -> None:
    one, other = (Channel(id=ChannelId(i), name=i, dialect=Dialect.MOCK) for i in "ab")
    assert one.headers is not other.headers
    assert one.options is not other.options
