"""Views of channels and upstream models."""

import msgspec

from gateway.domain.upstream_views import ListedModel, ListingView, PresetView


def test_every_field_of_a_view_is_in_its_json() -> None:
    listing = ListingView(channel="up", patterns=[], time_ms=None, stale=False, error="", models=[])
    for view in (listing, PresetView(name="x", dialect="openai", base_url="", key_variable="", local=True)):
        assert set(msgspec.json.decode(msgspec.json.encode(view))) == set(view.__struct_fields__)
    fields = {"name", "state", "served", "public", "context", "told", "max_output", "known_context", "context_source"}
    assert set(ListedModel.__struct_fields__) == fields
