"""Upstreams are known by preset or place; the table makes sense."""

from urllib.parse import urlsplit

import pytest

from gateway.domain.channel import TokenLimitField
from gateway.upstream.vendors import PLAIN, PRESETS, Vendor, find_vendor


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_found_by_name(name: str) -> None:
    assert find_vendor(name, "https://elsewhere.test/v1") is PRESETS[name]


@pytest.mark.parametrize(
    "traits", [row for row in PRESETS.values() if row.hosts and row.base_url], ids=lambda row: row.name
)
def test_and_by_its_own_place(traits: Vendor) -> None:
    assert find_vendor("", traits.base_url) is traits


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://me.openai.azure.com/openai/v1", "azure"),
        ("http://localhost:11434/v1", "ollama"),
        ("http://192.168.1.5:1234/v1", "lmstudio"),
        ("https://api.openai.com.evil.test/v1", ""),
        ("http://localhost:9999/v1", ""),
        ("", ""),
        ("http://[::1", ""),
    ],
)
def test_a_vendor_is_known_by_its_host_or_port(url: str, name: str) -> None:
    assert find_vendor("", url).name == name


def test_an_unknown_preset_changes_nothing() -> None:
    assert find_vendor("new-vendor", "https://api.openai.com/v1") is PLAIN


@pytest.mark.parametrize("traits", PRESETS.values(), ids=lambda row: row.name)
def test_rows_do_not_contradict_themselves(traits: Vendor) -> None:
    assert not traits.allow.intersection(traits.rules)
    assert not traits.allow or {"model", "messages", "stream"} <= traits.allow
    assert not traits.allow or {there for _, there in traits.rename} <= traits.allow
    assert urlsplit(traits.base_url).scheme in {"", "http", "https"}


@pytest.mark.parametrize(
    ("preset", "model", "field"),
    [
        ("openai", "gpt-4o-mini", TokenLimitField.KEEP),
        ("openai", "o4-mini", TokenLimitField.MAX_COMPLETION_TOKENS),
        ("openai", "gpt-5-nano", TokenLimitField.MAX_COMPLETION_TOKENS),
        ("ollama", "llama3", TokenLimitField.MAX_TOKENS),
        ("mistral", "mistral-large", TokenLimitField.MAX_TOKENS),
        ("", "anything", TokenLimitField.KEEP),
    ],
)
def test_the_limits_name_depends_on_the_model(preset: str, model: str, field: TokenLimitField) -> None:
    assert find_vendor(preset, "").limit_field(model) is field
