"""Text from outside is harmless where it is shown, and secrets are shown in part."""

import shlex
import unicodedata

import pytest
from hypothesis import given, strategies as st

from gateway.domain.text import REPLACEMENT, mask, plain, word

ANY = st.text(st.characters(codec=None), max_size=300)


@given(ANY, st.integers(0, 250))
def test_nothing_moves_a_cursor_or_turns_a_line(text: str, limit: int) -> None:
    found = plain(text, limit)
    assert {unicodedata.category(char) for char in found}.isdisjoint({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
    assert len(found) <= max(limit, 1)
    found.encode()


@given(ANY)
def test_plain_text_stays(text: str) -> None:
    assert plain(plain(text)) == plain(text)


@pytest.mark.parametrize(
    "text", ["", "plain", "with space", "naïve café", "日本語", "😀", "[/] [red]", "a\N{COMBINING ACUTE ACCENT}"]
)
def test_harmless_text_is_untouched(text: str) -> None:
    assert plain(text) == text


@pytest.mark.parametrize(
    "char",
    ["\x1b", "\x00", "\n", "\r", "\t", "\x7f", "\x9b", "\u202e", "\u200b", "\u2028", "\ud800", "\ue000", "\ufeff"],
)
def test_each_harmful_character_is_replaced(char: str) -> None:
    assert plain(f"a{char}b") == f"a{REPLACEMENT}b"


def test_marks_cannot_climb() -> None:
    found = plain("z" + "\N{COMBINING ACUTE ACCENT}" * 50)
    assert found == "z" + "\N{COMBINING ACUTE ACCENT}" * 4


@pytest.mark.parametrize(
    ("text", "limit", "found"),
    [
        ("abc", 3, "abc"),
        ("abcd", 3, "ab…"),
        ("äbcd", 3, "äb…"),
        ("abc", 1, "…"),
        ("abc", 0, "…"),
        ("\n\n\n\n", 3, "��…"),
    ],
)
def test_long_text_is_cut_with_an_ellipsis(text: str, limit: int, found: str) -> None:
    assert plain(text, limit) == found


class Huge(str):
    """A text that takes too long to look at whole."""

    __slots__ = ()

    def isprintable(self) -> bool:
        raise AssertionError


def test_a_huge_text_is_cut_before_it_is_looked_at() -> None:
    assert plain("\x1b" * 10_000_000, 5) == REPLACEMENT * 4 + "…"
    assert plain(Huge("x" * 10_000_000), 5) == "xxxx…"


@pytest.mark.parametrize(
    ("secret", "shown"),
    [
        ("", ""),
        ("env:OPENAI_API_KEY", "env:OPENAI_API_KEY"),
        ("short", "…"),
        ("fifteen letters", "…"),
        ("sixteen letters!", "…ers!"),
        ("sk-proj-abcdefghijklmnop", "…mnop"),
    ],
)
def test_a_secret_is_shown_in_part(secret: str, shown: str) -> None:
    assert mask(secret) == shown


def test_the_shown_part_of_a_secret_is_harmless() -> None:
    assert mask("x" * 20 + "\x1b[2J").isprintable()


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("gpt-4o", "gpt-4o"),
        ("openai/gpt:free", "openai/gpt:free"),
        ("büro", "'büro'"),
        ("my laptop", "'my laptop'"),
        ("we/ird ?#", "'we/ird ?#'"),
        ("it's", """'it'"'"'s'"""),
        ("$(id)", "'$(id)'"),
        ("a\x1b[2J", f"'a{REPLACEMENT}[2J'"),
        ("", "''"),
    ],
)
def test_a_name_in_a_command_is_one_word_for_a_shell(name: str, shown: str) -> None:
    assert word(name) == shown


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Mn", "Me"])))
def test_a_shell_reads_the_name_back(name: str) -> None:
    assert shlex.split(word(name)) == [name]
