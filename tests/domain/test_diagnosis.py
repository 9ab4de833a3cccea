import msgspec

from gateway.domain.diagnosis import Checkup, LimitView, Obstacle, PartyView, RouteView, Why
from gateway.domain.views import Step


def test_every_field_is_reported_also_where_there_is_nothing() -> None:
    """Front ends and scripts may count on every key."""
    for kind in (LimitView, PartyView, RouteView, Obstacle, Why):
        assert all(field.required for field in msgspec.structs.fields(kind))


def test_it_comes_through_as_it_was() -> None:
    found = Checkup(step=Step(name="channel up", result="ok", text="it lists 1 model"), ahead_ms=None)
    assert msgspec.json.decode(msgspec.json.encode(found), type=Checkup) == found
