"""Model names fit patterns as in a shell, with case."""

import pytest
from hypothesis import given, strategies as st

from gateway.domain.patterns import is_embedding_model, is_pattern, matches, near_names


@pytest.mark.parametrize(
    ("name", "patterns", "fits"),
    [
        ("gpt-5", (), True),
        ("gpt-5", ("gpt-5",), True),
        ("gpt-5", ("gpt-*",), True),
        ("gpt-5", ("gpt-?",), True),
        ("gpt-50", ("gpt-?",), False),
        ("GPT-5", ("gpt-*",), False),
        ("gpt-5", ("claude-*", "*5"), True),
        ("gpt-5", ("claude-*",), False),
        ("gpt-5", ("",), False),
        ("a/b:free", ("a/*",), True),
        ("a/b:free", ("*:free",), True),
        ("m[1]", ("m[1]",), True),
        ("m1", ("m[1]",), False),
        ("m[1]", ("m[*]",), True),
        ("[", ("[",), True),
        ("", ("*",), True),
        ("gpt-5", ("gpt-*", "!gpt-*-preview"), True),
        ("gpt-5-preview", ("gpt-*", "!gpt-*-preview"), False),
        ("gpt-5-preview", ("!gpt-*-preview", "gpt-5-preview"), False),
        ("o3", ("!gpt-*",), True),
        ("!", ("!!",), False),
    ],
)
def test_names_and_patterns(name: str, patterns: tuple[str, ...], fits: bool) -> None:
    assert matches(name, patterns) is fits


@pytest.mark.parametrize(
    ("text", "found"), [("a*", True), ("a?", True), ("!a", True), ("a/b:c", False), ("m[1]", False)]
)
def test_patterns_are_recognized(text: str, found: bool) -> None:
    assert is_pattern(text) is found


@given(st.text(max_size=20).filter(lambda name: not name.startswith("!")))
def test_every_name_fits_itself_and_the_star(name: str) -> None:
    assert matches(name, (name,))
    assert matches(name, ("*",))


@pytest.mark.parametrize(
    ("name", "embeds"),
    [
        ("text-embedding-3-small", True),
        ("nomic-embed-text:latest", True),
        ("@cf/baai/bge-m3", True),
        ("voyage-code-3", True),
        ("bge-reranker-base", False),
        ("gpt-5-mini", False),
        ("gemini-3.8-flash", False),
        ("large-2", False),
    ],
)
def test_models_for_embeddings_are_known_by_name(name: str, *, embeds: bool) -> None:
    assert is_embedding_model(name) is embeds


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("gtp-4o", ["gpt-4o"]),
        ("Haiku", ["claude-haiku-4-5"]),
        ("claude", ["claude-haiku-4-5", "claude-sonnet-4-5"]),
        ("nosuch", []),
        ("o", []),
    ],
)
def test_names_that_are_near_to_a_mistyped_one(name: str, meant: list[str]) -> None:
    assert list(near_names(name, ("gpt-4o", "demo-echo", "claude-sonnet-4-5", "claude-haiku-4-5"))) == meant


def test_similar_names_have_the_same_letters() -> None:
    many = [f"vendor-{number}/model" for number in range(3000)]
    assert near_names("gpt-4o-mimi", (*many, "gpt-4o-mini"), 1) == ("gpt-4o-mini",)
    assert near_names("gtp-4o-mini", (*many, "gpt-4o-mini"), 1) == ("gpt-4o-mini",)
    dated = (*many, "claude-sonnet-4-5-20250929", "deepseek/deepseek-chat", "gpt-4o-2024", "qwen3-coder:30b-a3b")
    for typed, meant in (("claude-sonet-4-5", 0), ("deepsek-chat", 1), ("gpt4o", 2), ("Qwen3-coder-30b", 3)):
        assert near_names(typed, dated, 1) == (dated[3000 + meant],)
    assert near_names("claude-haiku", (*many, "anthropic/claude-haiku-4-5"), 1) == ("anthropic/claude-haiku-4-5",)
