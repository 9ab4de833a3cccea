"""OpenAI's list of models is one page."""

from gateway.domain.channel import Served
from gateway.upstream.pages import Page, PlainListing
from tests.upstream.makers import channel


def test_what_is_asked() -> None:
    assert PlainListing().ask(channel("https://h/v1/"), "").url == "https://h/v1/models"


def test_a_page() -> None:
    assert PlainListing().read(b'{"data":[{"id":"a"}]}') == Page(models=[Served(name="a")])


def test_what_is_no_list() -> None:
    assert PlainListing().read(b"<html>") is None
