import pytest
from msgspec.structs import replace

from gateway.domain.channel import ServedModel
from gateway.domain.errors import BadRequest
from gateway.domain.price import UpstreamPrices
from gateway.domain.quoting import read_offering
from gateway.domain.units import Nanos
from tests.tui.owner import listed, listing
from tui.pages.channel_actions import listing_options, listing_summary
from tui.pages.channel_form import models_options


def test_what_is_new_and_gone_comes_first_with_what_is_known_of_it() -> None:
    published = UpstreamPrices(input=Nanos(250_000_000), output=Nanos(2_000_000_000))
    seen = listing(
        listed("z"),
        listed("k", state="kept_out", served=False, public=""),
        listed("n", state="new", served=False, public="", context=128_000, published=published),
        listed("g", state="gone", public="mine"),
    )
    assert [text for _, text in listing_options(seen)] == [
        "new           n           128k tokens   0.25 / 2 $/M list price",
        "gone          g as mine",
        "not offered   k",
        "offered       z",
    ]
    assert listing_summary(seen) == "1 new, 1 gone, 1 not offered, 1 offered"
    assert listing_summary(replace(seen, unnamed=3)).endswith(", 1 offered, 3 left out (names not usable)")


def test_the_options_say_the_same_or_there_is_no_command() -> None:
    found = read_offering('"a b", "pub lic"="up stream", fast=gpt-4o-mini, "m *", "a,b"')
    assert models_options(found) == ["--models", '"a b","pub lic"="up stream",fast=gpt-4o-mini,"a,b","m *"']
    assert models_options(read_offering("")) == ["--models", "*"]
    with pytest.raises(BadRequest, match="would read it as a pattern"):
        models_options(read_offering("x*", [ServedModel(name="x*")]))
