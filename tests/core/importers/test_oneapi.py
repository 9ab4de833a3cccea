"""The channels of one-api and new-api: every field that is set and not imported is reported."""

import json
from typing import Any

import pytest

from gateway.core.importers.base import ImportedConfig
from gateway.core.importers.oneapi import NEW_API, ONE_API, ChannelKind, convert
from gateway.domain.errors import BadRequest
from gateway.upstream.vendors import PRESETS

COUNTS = "not imported: ids, dates, balances and counters"


def channel(number: int = 1, **fields: Any) -> dict[str, Any]:
    usual = {"id": 3, "name": "main", "key": "sk-1", "status": 1, "models": "m", "group": "default", "used_quota": 5}
    return {"type": number, **usual, **fields}


def of(*channels: dict[str, Any], kinds: Any = NEW_API) -> ImportedConfig:
    return convert(list(channels), kinds)


def only(found: ImportedConfig) -> dict[str, Any]:
    """The one channel, about which there is nothing to tell."""
    assert found.notes == [COUNTS]
    (one,) = found.channels.values()
    return one


def test_a_whole_channel() -> None:
    found = of(
        channel(
            models="gpt-4o,fast,gpt-4o",
            model_mapping='{"fast": "gpt-4o-mini"}',
            group="default, vip",
            priority=5,
            weight=3,
            base_url="https://proxy.example/",
            openai_organization="org",
            header_override='{"X-A": "1"}',
            param_override='{"temperature": 0}',
            setting='{"proxy": "http://u:p@h:1", "system_prompt": "be kind"}',
            tag="a",
            remark="b",
        )
    )
    assert only(found) == {
        "dialect": "openai",
        "preset": "openai",
        "base_url": "https://proxy.example/v1",
        "models": [{"name": "gpt-4o"}, {"name": "fast", "upstream": "gpt-4o-mini"}],
        "groups": ["default", "vip"],
        "key": "sk-1",
        "keys": [],
        "priority": 5,
        "weight": 3,
        "note": "a b",
        "headers": {"X-A": "1", "OpenAI-Organization": "org"},
        "overrides": {"set": {"temperature": 0}, "system": "be kind"},
        "proxy": "http://u:p@h:1",
    }
    assert found.groups == {"default": {}, "vip": {}}


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda one: [one],
        lambda one: one,
        lambda one: {"success": True, "data": [one]},
        lambda one: {"data": {"items": [one], "total": 1}},
        lambda one: {"channels": [one]},
        lambda one: {"data": one},
        lambda one: {"mode": "single", "channel": one},
    ],
)
def test_the_list_is_found_however_it_is_wrapped(wrapped: Any) -> None:
    assert list(convert(wrapped(channel()), ONE_API).channels) == ["main"]


@pytest.mark.parametrize("source", [5, "x", {}, {"data": 5}, [5], [{"name": "x"}], {"data": {"total": 0}}])
def test_a_file_without_channels_is_refused(source: Any) -> None:
    with pytest.raises(BadRequest, match="no list of channels"):
        convert(source, ONE_API)


@pytest.mark.parametrize(
    ("kinds", "number", "preset", "base_url"),
    [
        (ONE_API, 30, "ollama", None),
        (NEW_API, 4, "ollama", None),
        (ONE_API, 28, "mistral", None),
        (NEW_API, 42, "mistral", None),
        (ONE_API, 50, None, "http://h/x"),
        (NEW_API, 3, "azure", "http://h/x/openai/v1"),
        (NEW_API, 14, "anthropic", "http://h/x"),
        (NEW_API, 26, None, "http://h/x/api/paas/v4"),
        (ONE_API, 35, None, "http://h/x/compatibility/v1"),
        (NEW_API, 34, None, "http://h/x/compatibility/v1"),
        (NEW_API, 35, None, "http://h/x/v1"),
    ],
)
def test_numbers_are_those_of_each(kinds: Any, number: int, preset: str | None, base_url: str | None) -> None:
    found = only(of(channel(number, base_url="http://h/x" if base_url else None), kinds=kinds))
    assert (found.get("preset"), found.get("base_url")) == (preset, base_url)


def test_every_kind_leads_to_a_preset_we_have_or_names_its_own_place() -> None:
    for kind in (*ONE_API.values(), *NEW_API.values()):
        assert isinstance(kind, ChannelKind)
        assert kind.preset in ("", *PRESETS)
        assert not kind.root or kind.root.startswith("https://")
        if kind.preset:
            assert PRESETS[kind.preset].dialect.value == kind.dialect


@pytest.mark.parametrize("wrapped", [lambda info: info, json.dumps], ids=["by the API", "by the database"])
def test_several_keys_and_those_that_are_off(wrapped: Any) -> None:
    info = {"is_multi_key": True, "multi_key_status_list": {"1": 2}}
    found = of(channel(key="a\nb\n c \n", channel_info=wrapped(info)))
    one = found.channels["main"]
    assert (one["key"], one["keys"]) == ("a", ["c"])
    assert found.notes[0] == "not imported: disabled keys (channel main)"


def test_what_was_switched_off_stays_off_and_who_did_it_is_reported() -> None:
    found = of(channel(status=2), channel(status=3))
    assert [one["enabled"] for one in found.channels.values()] == [False, False]
    assert [note for note in found.notes if "disabled automatically" in note] != []
    assert list(found.channels) == ["main", "main-2"]


def test_a_status_that_a_database_writes_as_text_is_read() -> None:
    assert "enabled" not in only(of(channel(status="1")))


def test_no_weight_is_one_like_all_others() -> None:
    assert "weight" not in only(of(channel(weight=0)))


def test_an_address_that_names_the_whole_path_is_cut() -> None:
    found = only(of(channel(8, base_url="https://h/v2/chat/completions")))
    assert found["base_url"] == "https://h/v2"


LEFT: list[tuple[dict[str, Any], str]] = [
    (channel(33), "a channel of type 33, which is not supported"),
    (channel(8), "a channel without a base_url"),
    (channel(base_url="ftp://h"), "base URL 'ftp://h/v1' must begin with http"),
    (channel(key=""), "the file has no key"),
    (channel(model_mapping='{"x": "y"}'), "model_mapping of models that are not offered: x"),
    (channel(model_mapping="{"), "model_mapping, which is not valid JSON"),
    (channel(param_override='{"a":' * 100_000), "param_override, which is not valid JSON"),
    (channel(param_override='{"operations": []}'), "param_override with operations"),
    (channel(param_override='{"stream": true, "seed": 1}'), "overrides: 'stream' is set by the gateway itself"),
    (channel(setting='{"proxy": "socks5://h:1"}'), "it must begin with http://"),
    (channel(setting='{"force_format": true, "thinking_to_content": false}'), "setting.force_format"),
    (channel(status_code_mapping='{"400": "500"}'), "status_code_mapping"),
    (channel(auto_ban=0), "auto_ban"),
    (channel(other="2024-02-01"), "other"),
]


def test_what_nobody_touched_is_not_worth_a_word() -> None:
    only(of(channel(auto_ban=1, settings="{}", status_code_mapping="", other=None, config="null", is_x=False)))


@pytest.mark.parametrize(("one", "said"), LEFT)
def test_what_is_not_imported_is_reported_with_its_channel(one: dict[str, Any], said: str) -> None:
    notes = [note for note in of(one).notes if note != COUNTS]
    assert len(notes) == 1
    assert said in notes[0]
    assert notes[0].endswith("(channel main)")


def test_notes_hold_no_secret_and_nothing_that_moves_a_cursor() -> None:
    found = of(channel(name="\x1b[2J", key="sk-canary", setting=json.dumps({"proxy": "socks5://u:canary@h"})))
    assert not any("canary" in note or "\x1b" in note for note in found.notes)
