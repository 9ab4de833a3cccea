"""The first choice of a call, told with its reasons; what is drawn, remembered and allowed has tests of its own."""

import pytest

from gateway.domain.call import FailureKind
from gateway.domain.errors import NoChannel
from gateway.domain.units import ChannelId
from tests.core.rig import Rig
from tests.core.test_attempts import good


async def test_without_a_channel_every_reason_is_told(rig: Rig) -> None:
    for name in ("a", "b"):
        rig.channel(name)
    rig.health.failed(ChannelId("ch_a"), FailureKind.AUTH, "refused")
    rig.health.lacks(ChannelId("ch_b"), "m")
    with pytest.raises(NoChannel, match="a: needs attention: refused; b: does not know the model") as caught:
        await rig.call()
    assert (rig.upstreams.order, caught.value.code) == ([], "no_channel_available")


async def test_the_reason_of_the_choice_is_told(rig: Rig) -> None:
    for name in ("a", "b"):
        rig.channel(name, priority=3)
        rig.upstreams.on(name, good)
    assert (await rig.call()).headers["x-gateway-route"] == "priority 3, drawn from 2"
