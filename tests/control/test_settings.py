import pytest

from gateway.client.control import ControlClient
from gateway.domain.errors import BadRequest
from gateway.domain.settings import Durability, Settings
from tests.fakes.gateway import Gateway


async def test_settings_are_shown_and_changed(owner: ControlClient) -> None:
    assert await owner.settings() == Settings()
    changed = await owner.set_settings({"refuse_unpriced": True, "durability": "call"})
    assert changed == await owner.settings() == Settings(refuse_unpriced=True, durability=Durability.CALL)


async def test_a_setting_holds_at_once(owner: ControlClient, gateway: Gateway) -> None:
    await owner.remove_price("m")
    await owner.set_settings({"refuse_unpriced": True})
    assert (await gateway.client.chat()).status >= 400


@pytest.mark.parametrize(
    ("patch", "param"),
    [
        ({"durability": "always"}, "durability"),
        ({"origins": ["*"]}, "origins"),
        ({"hosts": ["http://x"]}, "hosts"),
        ({"keep_days": 0}, "keep_days"),
        ({"refresh_models_h": -1}, "refresh_models_h"),
        ({"port": 1}, "port"),
    ],
)
async def test_senseless_settings_are_refused(owner: ControlClient, patch: dict[str, object], param: str) -> None:
    with pytest.raises(BadRequest) as caught:
        await owner.set_settings(patch)
    assert caught.value.param == param
    assert await owner.settings() == Settings()
