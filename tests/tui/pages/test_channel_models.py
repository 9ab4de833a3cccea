import pytest
from msgspec.structs import replace

from gateway.domain.channel import ServedModel
from gateway.domain.errors import BadRequest
from gateway.domain.price import UpstreamPrices
from gateway.domain.quoting import Offering, read_offering
from gateway.domain.units import Nanos
from tests.tui.owner import listed, listing
from tests.tui.stage import channel
from tui.pages.channel_actions import listing_options, listing_summary, offering_with
from tui.pages.channel_form import models_options, offering_text


def test_a_chosen_model_is_named_and_one_left_out_is_gone() -> None:
    view = channel(
        "x", models=[ServedModel(name="a"), ServedModel(name="own", upstream="b"), ServedModel(name="unlisted")]
    )
    seen = listing(listed("a"), listed("b", public="own"), listed("c", state="new", served=False, context=9))
    found = offering_with(view, seen, {"b", "c"})
    assert offering_text(found) == "own=b, unlisted, c"
    assert found.models[-1].context == 9


def test_where_patterns_choose_one_is_excluded_by_a_pattern_and_included_again_without_it() -> None:
    view = channel(
        "x", models=[ServedModel(name="g1", live=True), ServedModel(name="g2", live=True)], patterns=["g*", "!g3"]
    )
    seen = listing(listed("g1"), listed("g2"), listed("g3", state="kept_out", served=False, public=""))
    assert offering_with(view, seen, {"g1", "g3"}) == Offering([], ["g*", "!g2"])


def test_a_model_that_is_newer_than_the_page_is_excluded_alone() -> None:
    view = channel("x", models=[ServedModel(name="g1", live=True)], patterns=["*"])
    seen = listing(listed("g1"), listed("g2", state="new"), listed("g3", state="new"))
    assert offering_with(view, seen, {"g1", "g2"}).patch() == {"models": [], "patterns": ["*", "!g3"]}


def test_a_named_model_that_a_pattern_would_select_again_is_excluded_but_not_one_that_is_gone() -> None:
    view = channel("x", models=[ServedModel(name="a"), ServedModel(name="old")], patterns=["*"])
    seen = listing(listed("a"), listed("b"), listed("old", state="gone"))
    assert offering_with(view, seen, {"b"}) == Offering([], ["*", "!a"])


def test_a_model_that_its_upstream_delisted_can_stay() -> None:
    view = channel("x", models=[ServedModel(name="a")])
    seen = listing(listed("a", state="gone"))
    assert offering_text(offering_with(view, seen, {"a"})) == "a"
    assert offering_text(offering_with(view, seen, set())) == ""


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
