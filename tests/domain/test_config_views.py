import msgspec

from gateway.domain.config_views import Difference, ExportView, FieldDifference, ImportView


def test_every_key_is_always_there() -> None:
    for kind in (ExportView, ImportView, Difference, FieldDifference):
        assert all(field.required for field in msgspec.structs.fields(kind))
