import msgspec

from gateway.domain.diagnosis import LimitView, Obstacle, PartyView, RouteView, Why


def test_every_field_is_told_also_where_there_is_nothing() -> None:
    """Front ends and scripts may count on every key."""
    for kind in (LimitView, PartyView, RouteView, Obstacle, Why):
        assert all(field.required for field in msgspec.structs.fields(kind))
