"""A list of an upstream's models as it is kept."""

import msgspec

from gateway.domain.channel import Served, UpstreamModels
from gateway.domain.units import ChannelId, Millis


def test_a_list_that_is_fresh_says_nothing_of_failures() -> None:
    listed = UpstreamModels(channel=ChannelId("ch_1"), time=Millis(5), models=(Served(name="m"),))
    data = msgspec.json.encode(listed)
    assert data == b'{"channel":"ch_1","time":5,"models":[{"name":"m"}]}'
    assert msgspec.json.decode(data, type=UpstreamModels) == listed
