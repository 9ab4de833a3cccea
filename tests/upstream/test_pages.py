"""OpenAI's list of models is one page."""

from gateway.domain.channel import Served
from gateway.upstream.model_list import ModelPage, PlainModelListing
from tests.upstream.makers import channel


def test_what_is_asked() -> None:
    assert PlainModelListing().ask(channel("https://h/v1/"), "").url == "https://h/v1/models"


def test_a_page() -> None:
    assert PlainModelListing().read(b'{"data":[{"id":"a"}]}') == ModelPage(models=[Served(name="a")])


def test_what_is_no_list() -> None:
    assert PlainModelListing().read(b"<html>") is None
