import pytest

from gateway.domain.channel import Overrides, Served, UpstreamPrices
from gateway.domain.errors import BadRequest
from gateway.domain.units import Nanos
from tests.tui.owner import listed, listing
from tests.tui.pages.test_channel_form import form
from tests.tui.stage import channel
from tests.tui.test_field_values import ODD
from tui.pages.channel_fields import (
    PROMPT_PLACES,
    Offering,
    headers_field,
    listing_options,
    listing_summary,
    mock_command,
    mock_field,
    models_command,
    offering_of,
    offering_text,
    offering_with,
    overrides_command,
    read_headers,
    read_mock_options,
    read_offering,
)
from tui.pages.channel_form import add_command, body, edit_command


def test_names_mappings_and_patterns_are_read_and_written_the_same() -> None:
    found = read_offering("a, fast=b, gpt-*, !*-preview")
    assert found.models == [Served(name="a"), Served(name="fast", upstream="b")]
    assert found.patterns == ["gpt-*", "!*-preview"]
    assert offering_text(found) == "a, fast=b, gpt-*, !*-preview"


def test_what_is_known_of_a_model_that_stays_is_kept() -> None:
    known = [Served(name="a", context=8_000), Served(name="b", upstream="bb")]
    assert read_offering("a, b=bb, c", known).models == [*known, Served(name="c")]


@pytest.mark.parametrize("text", ["=x", "a="])
def test_half_a_mapping_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="is not a model name"):
        read_offering(text)


def test_what_a_pattern_let_in_is_not_named() -> None:
    view = channel("x", models=[Served(name="a"), Served(name="gpt-5", live=True)], patterns=["gpt-*"])
    found = offering_of(view)
    assert (found.models, found.patterns) == ([Served(name="a")], ["gpt-*"])
    assert offering_text(found) == "a, gpt-*"


def test_what_a_pattern_let_in_goes_back_with_it_or_it_would_be_taken_for_unwanted() -> None:
    known = [Served(name="a"), Served(name="gpt-5", live=True)]
    models = read_offering("a, gpt-*", known).patch()["models"]
    assert models == [{"name": "a"}, {"name": "gpt-5", "live": True}]
    assert read_offering("a", known).patch()["models"] == [{"name": "a"}]
    assert read_offering("a, gpt-5, gpt-*", known).patch()["models"] == [{"name": "a"}, {"name": "gpt-5"}]


def test_a_chosen_model_is_named_and_one_left_out_is_gone() -> None:
    view = channel("x", models=[Served(name="a"), Served(name="own", upstream="b"), Served(name="unlisted")])
    seen = listing(
        listed("a"),
        listed("b", public="own"),
        listed("c", state="new", served=False, context=9),
    )
    found = offering_with(view, seen, {"b", "c"})
    assert offering_text(found) == "own=b, unlisted, c"
    assert found.models[-1].context == 9


def test_where_patterns_choose_one_is_kept_out_by_a_pattern_and_let_in_again_without_it() -> None:
    view = channel("x", models=[Served(name="g1", live=True), Served(name="g2", live=True)], patterns=["g*", "!g3"])
    seen = listing(listed("g1"), listed("g2"), listed("g3", state="kept_out", served=False, public=""))
    assert offering_with(view, seen, {"g1", "g3"}) == Offering([], ["g*", "!g2"], [Served(name="g1", live=True)])


def test_what_the_upstream_lists_no_more_can_stay() -> None:
    view = channel("x", models=[Served(name="a")])
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


def test_names_with_blanks_and_marks_stay_what_they_are() -> None:
    models = [Served(name=one) for one in ODD] + [Served(name=f"p{one}", upstream=f"u{one}") for one in ODD]
    there = Offering([*models, Served(name="odd *")], ["m *", "!n,*"])
    text = offering_text(there)
    assert read_offering(text, there.models) == there
    assert offering_text(read_offering(text, there.models)) == text


def test_the_options_say_the_same_or_there_is_no_command() -> None:
    found = read_offering('"a b", "pub lic"="up stream", "m *"')
    assert models_command(found) == ("a b,pub lic,m *", " --map 'pub lic=up stream'")
    assert models_command(read_offering("")) == ("*", "")
    assert models_command(read_offering("a"), [Served(name="a", upstream="b")]) == ("a", " --map a=a")
    for text in ('"a,b"', '"x=y"=z'):
        with pytest.raises(BadRequest):
            models_command(read_offering(text))
    with pytest.raises(BadRequest, match="would read it as a pattern"):
        models_command(read_offering("x*", [Served(name="x*")]))


def test_secret_headers_stay_unless_all_are_typed_again() -> None:
    view = channel("x", headers={"X-Team": "…lue"})
    assert (headers_field(view.headers).value, "X-Team kept" in headers_field(view.headers).hint) == ("", True)
    assert "headers" not in body(form(view)[1], view)
    assert body(form(view, headers="none")[1], view)["headers"] == {}
    typed, values = form(view, headers="X-Team=red X-Title='my app' X-Pass=env:PASS")
    assert body(values, view)["headers"] == {"X-Team": "red", "X-Title": "my app", "X-Pass": "env:PASS"}
    assert edit_command(view, typed) == (
        "channel edit x --header X-Team=VALUE --header X-Title=VALUE --header X-Pass=env:PASS"
    )
    assert edit_command(view, form(view, headers="none")[0]) == "channel edit x --no-headers"


def test_references_are_shown_and_taken_away_by_emptying_the_field() -> None:
    view = channel("x", headers={"X-A": "env:A", "X-B": "env:B"})
    texts, values = form(view)
    assert (texts["headers"], edit_command(view, texts)) == ("X-A=env:A X-B=env:B", "channel edit x")
    assert body(values, view)["headers"] == view.headers
    assert body(form(view, headers="")[1], view)["headers"] == {}
    assert edit_command(view, form(view, headers="")[0]) == "channel edit x --no-headers"


def test_a_copy_has_no_secret_headers() -> None:
    view = channel("x", headers={"X-Team": "…lue"}, key="")
    assert "not copied" in headers_field(view.headers, copy=True).hint
    assert body(form(view, copy=True)[1])["headers"] == {}
    texts, _ = form(channel("x", headers={"X-A": "env:A"}, key=""), copy=True)
    assert add_command(texts).endswith("--header X-A=env:A")


def test_a_name_with_a_quotation_mark_reads_back() -> None:
    view = channel("x", headers={"X'A": "env:A"})
    texts, values = form(view)
    assert body(values, view)["headers"] == view.headers
    assert edit_command(view, texts) == "channel edit x"


@pytest.mark.parametrize("text", ["x", "=x", "x=", "a=b c", "a='b", 'a="', "X-A=1 X-A=2", "X-A=1 x-a=2"])
def test_what_is_no_header_is_refused_and_has_no_command(text: str) -> None:
    with pytest.raises(BadRequest):
        read_headers(text)
    view = channel("x")
    typed = form(view)[0] | {"headers": text}
    assert edit_command(view, typed) == "channel edit x"


KNOBS = {"latency": 200, "bad_json": True, "retry_after": "Wed, 21 Oct 2026"}


@pytest.mark.parametrize("wait", ["Wed, 21 Oct 2026", "5", 'a "while"', "x=y", "soon", "true"])
def test_what_is_written_reads_back_and_has_no_command(wait: str) -> None:
    knobs = KNOBS | {"retry_after": wait}
    assert read_mock_options(mock_field(knobs).value) == knobs
    assert mock_command(mock_field(knobs).value, mock_field(knobs).value) == ""


def test_what_changed_is_in_the_command() -> None:
    assert mock_field(KNOBS).value == 'latency=200 bad_json=true retry_after="Wed, 21 Oct 2026"'
    assert mock_command("latency=300 retry_after='in a while'", mock_field(KNOBS).value) == (
        " --option latency=300 --option 'retry_after=in a while' --option bad_json=none"
    )


@pytest.mark.parametrize("text", ["latency", "=2", "latency=", 'latency="2'])
def test_half_a_knob_is_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        read_mock_options(text)


def test_overrides_are_kept_changed_and_taken_away() -> None:
    there = Overrides(set={"temperature": 0.2}, system="Be brief.\nBe kind.")
    view = channel("x", overrides=there)
    texts, values = form(view)
    assert edit_command(view, texts) == "channel edit x"
    assert body(values, view)["overrides"] == {"set": {"temperature": 0.2}, "system": "Be brief.\nBe kind."}
    assert body(form(view, parameters="", system="")[1], view)["overrides"] is None
    assert edit_command(view, form(view, parameters="", system="")[0]) == "channel edit x --no-overrides"
    assert "overrides" not in body(form(channel("y"))[1], channel("y"))
    typed = form(channel("y"), parameters="-seed", system="Hi", replace_system=PROMPT_PLACES[1])[1]
    assert body(typed, channel("y"))["overrides"] == {"remove": ("seed",), "system": "Hi", "replace_system": True}


def test_while_something_makes_no_sense_there_is_no_command() -> None:
    typed = {"parameters": "temperature", "system": "", "replace_system": PROMPT_PLACES[0]}
    assert overrides_command(typed, None) == ""
