"""Models that can chat are listed page by page."""

import pytest

from gateway.domain.channel import Served
from gateway.upstream.gemini.dialect import GeminiListing
from gateway.upstream.model_list import ModelPage
from tests.fakes.replies import dumps
from tests.upstream.makers import channel

LISTING = GeminiListing()
CHATS = ["generateContent", "countTokens"]


def test_what_is_asked() -> None:
    assert LISTING.ask(channel("https://h"), "").url == "https://h/v1beta/models?pageSize=1000"
    assert LISTING.ask(channel("https://h/v1"), "a=b").url == "https://h/v1/models?pageSize=1000&pageToken=a%3Db"


def test_a_page() -> None:
    flash = {"name": "models/gemini-3.8-flash", "supportedGenerationMethods": CHATS, "inputTokenLimit": 1_048_576}
    flash["outputTokenLimit"] = 65_536
    others = [{"name": "models/embedder", "supportedGenerationMethods": ["embedContent"]}, {"name": "models/x"}]
    found = LISTING.read(dumps({"models": [flash, *others, {"name": 3}, "odd"], "nextPageToken": "t"}))
    assert found == ModelPage(models=[Served(name="gemini-3.8-flash", context=1_048_576, max_output=65_536)], after="t")


def test_the_last_page_has_nothing_after_it() -> None:
    assert LISTING.read(dumps({"models": []})) == ModelPage(models=[])


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"<html>"])
def test_what_is_no_list(body: bytes) -> None:
    assert LISTING.read(body) is None
