import msgspec

from gateway.domain.diagnosis import Checkup
from gateway.domain.views import Step


def test_it_comes_through_as_it_was() -> None:
    found = Checkup(step=Step(name="channel up", result="ok", text="it lists 1 model"), ahead_ms=None)
    assert msgspec.json.decode(msgspec.json.encode(found), type=Checkup) == found
