import pytest
from msgspec.structs import replace

from gateway.domain.channel import ServedModel, UpstreamPrices
from gateway.domain.errors import BadRequest
from gateway.domain.units import Nanos
from tests.domain.field_samples import ODD
from tests.tui.owner import listed, listing
from tests.tui.stage import channel
from tui.pages.channel_fields import (
    Offering,
    listing_options,
    listing_summary,
    models_options,
    offering_of,
    offering_text,
    offering_with,
    read_offering,
)


def test_names_mappings_and_patterns_are_read_and_written_the_same() -> None:
    found = read_offering("a, fast=b, gpt-*, !*-preview")
    assert found.models == [ServedModel(name="a"), ServedModel(name="fast", upstream="b")]
    assert found.patterns == ["gpt-*", "!*-preview"]
    assert offering_text(found) == "a, fast=b, gpt-*, !*-preview"


def test_what_is_known_of_a_model_that_stays_is_kept() -> None:
    known = [ServedModel(name="a", context=8_000), ServedModel(name="b", upstream="bb")]
    assert read_offering("a, b=bb, c", known).models == [*known, ServedModel(name="c")]


@pytest.mark.parametrize("text", ["=x", "a="])
def test_half_a_mapping_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="is not a model name"):
        read_offering(text)


@pytest.mark.parametrize("text", ["https://host/v1", "a=https://host/v1", "a, http://host:8000/v1/", "!https://h*"])
def test_a_url_is_refused_as_a_model(text: str) -> None:
    with pytest.raises(BadRequest, match="is a URL, not the name of a model"):
        read_offering(text)


def test_what_a_pattern_let_in_is_not_named() -> None:
    view = channel("x", models=[ServedModel(name="a"), ServedModel(name="gpt-5", live=True)], patterns=["gpt-*"])
    found = offering_of(view)
    assert (found.models, found.patterns) == ([ServedModel(name="a")], ["gpt-*"])
    assert offering_text(found) == "a, gpt-*"


def test_which_models_a_pattern_selects_is_left_to_the_server() -> None:
    known = [ServedModel(name="a"), ServedModel(name="gpt-5", live=True)]
    assert read_offering("a, gpt-*", known).patch() == {"models": [{"name": "a"}], "patterns": ["gpt-*"]}
    assert read_offering("a", known).patch()["models"] == [{"name": "a"}]
    assert read_offering("a, gpt-5, gpt-*", known).patch()["models"] == [{"name": "a"}, {"name": "gpt-5"}]


def test_a_chosen_model_is_named_and_one_left_out_is_gone() -> None:
    view = channel(
        "x", models=[ServedModel(name="a"), ServedModel(name="own", upstream="b"), ServedModel(name="unlisted")]
    )
    seen = listing(
        listed("a"),
        listed("b", public="own"),
        listed("c", state="new", served=False, context=9),
    )
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


def test_what_the_upstream_lists_no_more_can_stay() -> None:
    view = channel("x", models=[ServedModel(name="a")])
    seen = listing(listed("a", state="gone"))
    assert offering_text(offering_with(view, seen, {"a"})) == "a"
    assert offering_text(offering_with(view, seen, set())) == ""


def test_what_is_new_and_gone_comes_first_with_what_is_known_of_it() -> None:
    told = UpstreamPrices(input=Nanos(250_000_000), output=Nanos(2_000_000_000))
    seen = listing(
        listed("z"),
        listed("k", state="kept_out", served=False, public=""),
        listed("n", state="new", served=False, public="", context=128_000, told=told),
        listed("g", state="gone", public="mine"),
    )
    assert [text for _, text in listing_options(seen)] == [
        "new         n   128k tokens   0.25 / 2 $/M list price",
        "gone        g as mine",
        "not offered k",
        "offered     z",
    ]
    assert listing_summary(seen) == "1 new, 1 gone, 1 not offered, 1 offered"
    assert listing_summary(replace(seen, unnamed=3)).endswith(", 1 offered, 3 left out (names not usable)")


def test_names_with_blanks_and_marks_stay_what_they_are() -> None:
    models = [ServedModel(name=one) for one in ODD] + [ServedModel(name=f"p{one}", upstream=f"u{one}") for one in ODD]
    there = Offering([*models, ServedModel(name="odd *")], ["m *", "!n,*"])
    text = offering_text(there)
    assert read_offering(text, there.models) == there
    assert offering_text(read_offering(text, there.models)) == text


def test_the_options_say_the_same_or_there_is_no_command() -> None:
    found = read_offering('"a b", "pub lic"="up stream", "m *"')
    assert models_options(found) == ["--models", "a b,pub lic=up stream,m *"]
    assert models_options(read_offering("")) == ["--models", "*"]
    assert models_options(read_offering("a"), [ServedModel(name="a", upstream="b")]) == ["--models", "a=a"]
    assert models_options(read_offering('"x=y"=z, "x=z"')) == ["--models", '"x=y"=z,"x=z"']
    with pytest.raises(BadRequest):
        models_options(read_offering('"a,b"'))
    with pytest.raises(BadRequest, match="would read it as a pattern"):
        models_options(read_offering("x*", [ServedModel(name="x*")]))
