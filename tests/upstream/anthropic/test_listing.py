"""Models are listed page by page."""

import pytest

from gateway.domain.channel import Served
from gateway.domain.units import Millis
from gateway.upstream.anthropic.dialect import AnthropicListing
from gateway.upstream.model_list import ModelPage
from tests.fakes.replies import dumps
from tests.upstream.makers import channel

LISTING = AnthropicListing()
OPUS = {
    "type": "model",
    "id": "claude-opus-5-5",
    "created_at": "2026-09-22T00:00:00Z",
    "max_input_tokens": 1_000_000,
    "max_tokens": 128_000,
}


def test_what_is_asked() -> None:
    first, second = LISTING.ask(channel("https://h/v1"), ""), LISTING.ask(channel("https://h"), "a/b")
    assert first.url == "https://h/v1/models?limit=1000"
    assert second.url == "https://h/v1/models?limit=1000&after_id=a%2Fb"
    assert first.headers["anthropic-version"] == "2023-06-01"


def test_a_page() -> None:
    body = dumps({"data": [OPUS, {"id": "x", "created_at": "?"}], "has_more": True, "last_id": "x"})
    created = Millis(1_790_035_200_000)
    opus = Served(name="claude-opus-5-5", created=created, context=1_000_000, max_output=128_000)
    assert LISTING.read(body) == ModelPage(models=[opus, Served(name="x")], after="x")


def test_the_last_page_has_nothing_after_it() -> None:
    assert LISTING.read(dumps({"data": [], "has_more": False, "last_id": "x"})) == ModelPage(models=[])


def test_retired_models_and_names_that_cannot_be_shown_are_left_out() -> None:
    entries = [{**OPUS, "lifecycle": "retired"}, {"id": "a\u202eb"}, {"id": 3}, "odd"]
    assert LISTING.read(dumps({"data": entries})) == ModelPage(models=[])


@pytest.mark.parametrize("body", [b"", b"[]", b'{"data":null}', b"<html>"])
def test_what_is_no_list(body: bytes) -> None:
    assert LISTING.read(body) is None
