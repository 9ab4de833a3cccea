import time

import pytest

from gateway.core.importers.base import ImportedConfig, model_name, whole, with_version


def test_places_of_the_same_note_are_reported_together() -> None:
    out = ImportedConfig()
    for number in range(6):
        out.note("not imported: tags", f"model_list[{number}]")
    out.note("not imported: tags", "model_list[0]")
    out.note("set the clock")
    places = "model_list[0], model_list[1], model_list[2], model_list[3] and 2 more"
    assert out.notes == [f"not imported: tags ({places})", "set the clock"]


def test_names_of_channels_are_allowed_and_their_own() -> None:
    out = ImportedConfig()
    for wanted, name in (("a", "a"), ("a", "a-2"), ("  ", "channel"), ("..", "channel-2"), ("x" * 99, "x" * 59 + "…")):
        found = out.channel_name(wanted)
        out.channels[found] = {}
        assert found == name
    assert "\x1b" not in out.channel_name("\x1b[2J")


def test_thousands_of_channels_with_one_name_take_linear_time() -> None:
    out, began = ImportedConfig(), time.process_time()
    for number in range(20_000):
        out.channels[out.channel_name("a")] = {}
        out.note("not imported: tags", f"model_list[{number}]")
    assert len(out.channels) == 20_000
    assert time.process_time() - began < 3


def test_what_a_token_costs_becomes_dollars_a_million_exactly() -> None:
    out = ImportedConfig()
    out.add_price("m", {"input": 1e-7, "output": "0.0000025", "cached_input": None, "cache_write": 1.25e-06}, "here")
    assert out.prices == {"m": {"input": "0.1", "output": "2.5", "cache_write": "1.25"}}
    out.add_price("m", {"input": 5e-7}, "there")
    assert out.notes == ["not imported: another price of 'm' (there)"]
    out.add_price("half", {"output": 1e-6}, "")
    assert out.prices["half"] == {"input": "0", "output": "1"}
    for wrong in ("x", True, -1, 1e9, None, [1]):
        out.add_price("wrong", {"input": wrong}, "")
    assert "wrong" not in out.prices


@pytest.mark.parametrize(
    ("value", "least", "found"),
    [(5, 0, 5), ("5", 0, 5), (5.0, 0, 5), (0, 1, None), (-3, -9, -3), ("x", 0, None), (True, 0, None), (1e99, 0, None)],
)
def test_a_whole_number_may_be_text_but_not_too_small_or_large(value: object, least: int, found: int | None) -> None:
    assert whole(value, least) == found


def test_versions_are_added_once() -> None:
    urls = ["http://h", "http://h/", "http://h/v1", "http://h/v1/", ""]
    assert [with_version(url, "/v1") for url in urls] == ["http://h/v1"] * 4 + [""]


def test_names_of_models_that_cannot_be_shown_are_none() -> None:
    assert [model_name(name) for name in (" m ", "a/b:c", "", None, 5, "\x1b[2J", "x" * 201)] == ["m", "a/b:c"] + [
        ""
    ] * 5
