"""A known secret is found in any text, whole or in pieces, however it is written, and ordinary words are left alone."""

import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, strategies as st

from gateway.domain.secret_search import PIECE, SHORTEST, blank_spans, needles, views

KEY = "sk-proj-Ab3/dE+fG=hIjKlMnOpQrStUvWxYz0123456789"
PRINTABLE = st.characters(min_codepoint=0x21, max_codepoint=0x7E)
SECRETS = st.text(PRINTABLE, min_size=SHORTEST, max_size=60)
WRITTEN: dict[str, Callable[[str], str]] = {
    "as it is": lambda secret: secret,
    "percent": lambda secret: quote(secret, safe=""),
    "all percent": lambda secret: "".join(f"%{ord(char):02X}" for char in secret),
    "twice percent": lambda secret: quote(quote(secret, safe=""), safe=""),
    "json": lambda secret: json.dumps(secret)[1:-1],
    "json in json": lambda secret: json.dumps(json.dumps(secret)),
    "slashes": lambda secret: json.dumps(secret)[1:-1].replace("/", "\\/"),
    "unicode": lambda secret: "".join(f"\\u{ord(char):04X}" for char in secret),
    "hex escapes": lambda secret: "".join(f"\\x{ord(char):02x}" for char in secret),
    "html": lambda secret: "".join(f"&#{ord(char)};" for char in secret),
    "html hex": lambda secret: "".join(f"&#x{ord(char):x};" for char in secret),
    "upper": str.upper,
    "lower": str.lower,
    "invisible": "\u200b".join,
    "hyphens": "\u00ad".join,
    "controls": "\0".join,
    "invisible in json": lambda secret: json.dumps("\u200b".join(secret))[1:-1],
    "form": quote_plus,
    "hex": lambda secret: secret.encode().hex(),
}


def clear(text: str, *secrets: str) -> str:
    return blank_spans(text, needles(secrets).spans(text))


@pytest.mark.parametrize("name", WRITTEN)
def test_a_secret_is_found_however_it_is_written(name: str) -> None:
    assert clear(f"the key {WRITTEN[name](KEY)} is bad", KEY) in ("the key … is bad", 'the key "\\"…\\"" is bad')


@pytest.mark.parametrize("name", [name for name in WRITTEN if name != "lower"])
@pytest.mark.parametrize(
    "secret", ['Gr8!p&<x>"\\/%+=zQMeS', "pass%41word%2F%25x", "a\\u0041bc\\/d\\\\ef\\x41", "one&amp;two&#65;three"]
)
def test_a_secret_that_looks_escaped_itself_is_found(name: str, secret: str) -> None:
    assert "…" in clear(f"key {WRITTEN[name](secret)}!", secret)
    assert "…" in clear("key " + secret[:9] + "\u200b" + secret[9:], secret)


@pytest.mark.parametrize(
    "written",
    [
        "ysfbq+finyx+cqpag",
        "ysfbq\u00a0finyx\u00a0cqpag",
        "ysfbq\\u00a0finyx\\u00a0cqpag",
        "ysfbq\tfinyx\ncqpag",
        "ysfbq%A0finyx%A0cqpag",
        "ysfbq  finyx \t cqpag",
        "ysfbq\0 \0 \0finyx\0 \0 \0cqpag",
    ],
)
def test_blanks_of_any_kind_are_one(written: str) -> None:
    assert clear(f"key {written}.", "ysfbq finyx cqpag") == "key …."


@pytest.mark.parametrize("before", ["", "u", "us", "user:"])
@pytest.mark.parametrize("after", ["", "@", "@x", "@host"])
@pytest.mark.parametrize("encode", [b64encode, urlsafe_b64encode])
def test_base64_is_found_wherever_the_secret_begins(before: str, after: str, encode: Callable[[bytes], bytes]) -> None:
    found = clear("Basic " + encode(f"{before}{KEY}{after}".encode()).decode(), KEY)
    assert "…" in found
    assert len(found.replace("…", "")) <= len("Basic ") + 4 * (len(before + after) // 3 + 2)


@given(SECRETS, st.sampled_from(sorted(WRITTEN)), st.text(max_size=30), st.text(max_size=30))
def test_no_piece_is_left(secret: str, written: str, before: str, after: str) -> None:
    text = f"{before} {WRITTEN[written](secret)} {after}"
    left = clear(text, secret).lower()
    size = min(PIECE, len(secret))
    pieces = {secret.lower()[start : start + size] for start in range(len(secret) - size + 1)}
    shown = {view.text.lower() for view in views(left)}
    assert [(piece, text) for piece in pieces for text in shown if piece in text] == []


@given(st.text(), st.lists(SECRETS, max_size=3))
def test_what_is_not_a_secret_is_left_as_it_is(text: str, secrets: list[str]) -> None:
    assert clear(text, "sk-aaaaaaaaaaaaaaaaaaaaaaaa") == text
    assert len(clear(text, *secrets)) <= len(text) + 1


@pytest.mark.parametrize("start", range(0, len(KEY) - PIECE, 5))
def test_pieces_of_twelve_characters_are_found(start: int) -> None:
    assert clear(f"key:{KEY[start : start + PIECE]}: no", KEY) == "key:…: no"
    assert clear(f"key:{KEY[start : start + PIECE - 1]}: no", KEY) == f"key:{KEY[start : start + PIECE - 1]}: no"


@pytest.mark.parametrize(
    "quoted", ["sk-proj-...6789", "sk-pro***456789", "sk-proj-Ab3…", "sk-proj-A...", "...23456789", "sk-proj-***789"]
)
def test_masked_quotes_that_show_eight_characters_are_found(quoted: str) -> None:
    assert clear(f"key {quoted}, sorry", KEY) == "key …, sorry"


@pytest.mark.parametrize("quoted", ["sk-...6789", "key=...", "wait ... what", "****", "..."])
def test_masked_quotes_that_show_less_are_left(quoted: str) -> None:
    assert clear(f"bad {quoted}", KEY) == f"bad {quoted}"


@pytest.mark.parametrize("value", ["test", "EMPTY", "ollama", "1234567", ""])
def test_short_values_are_ordinary_words(value: str) -> None:
    text = f"this is a test of EMPTY ollama 1234567 {value}"
    assert clear(text, value) == text


def test_values_of_eight_to_eleven_characters_are_found_whole() -> None:
    assert clear("pass hunter2!x, hunter2!, HUNTER2!X", "hunter2!x") == "pass …, hunter2!, …"
    assert clear(b64encode(b":hunter2!x").decode(), "hunter2!x") == "Om…A=="


def test_neighbours_become_one_blank() -> None:
    assert clear(f"a {KEY}{KEY} b", KEY) == "a … b"
    assert blank_spans("abcdef", [(0, 2), (1, 3), (3, 4)]) == "…ef"
    assert blank_spans("abc", []) == "abc"


def test_several_secrets_at_once() -> None:
    both = needles([KEY, "another-secret-1234"])
    text = f"{KEY} and another-secret-1234"
    assert blank_spans(text, both.spans(text)) == "… and …"


def test_a_whole_value_in_a_name() -> None:
    made = needles([KEY, "claude-3-5-sonnet"])
    assert made.has_value(f"models/{KEY}")
    assert made.has_value(quote(KEY, safe=""))
    assert not made.has_value("claude-3-5-haiku")


def test_long_texts_and_hundreds_of_secrets_end_soon() -> None:
    """Linear time: texts that are made to match again and again cost no more than others."""
    many = needles(f"sk-ant-api03-{number:04}{'abcdefghij' * 8}" for number in range(200))
    repeated = ("sk-ant-api03-", "a*", "%2525", "abcdefghij", "sk-ant...", "&#115;", "\\u0073")
    for text in (word * (300_000 // len(word)) for word in repeated):
        assert len(blank_spans(text, many.spans(text))) <= len(text)
