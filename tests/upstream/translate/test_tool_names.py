"""Names that do not fit are changed so that they can be changed back."""

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.upstream.translate.tool_names import Signatures, Spelling, ToolNames
from tests.cases.conversations import call, function
from tests.upstream.makers import order, translated

SPELLING = Spelling(
    fit=re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,31}"), odd=re.compile(r"[^A-Za-z0-9_]"), limit=32, first="_"
)


@pytest.mark.parametrize("name", ["f", "get_weather", "A1"])
def test_what_fits_stays(name: str) -> None:
    assert SPELLING.sent(name) == name


@given(st.text(max_size=80))
def test_what_is_sent_fits(name: str) -> None:
    assert SPELLING.fit.fullmatch(SPELLING.sent(name))


@given(st.lists(st.text(max_size=40), unique=True, max_size=20))
def test_two_names_never_become_one(names: list[str]) -> None:
    assert len({SPELLING.sent(name) for name in names}) == len(names)


def test_names_come_back() -> None:
    past = {"role": "assistant", "tool_calls": [call("1", "old.one", "{}")]}
    asked = translated({"messages": [past], "tools": [function("dot.ted")], "functions": [{"name": "sp ace"}]})
    names = ToolNames(asked, SPELLING)
    assert [names.back(SPELLING.sent(n)) for n in ("dot.ted", "sp ace", "old.one")] == ["dot.ted", "sp ace", "old.one"]


@pytest.mark.parametrize("name", ["f", "made_up", "ends_in_0123abcd"])
def test_what_was_never_sent_stays(name: str) -> None:
    assert ToolNames(order(), SPELLING).back(name) == name


def test_a_request_that_is_not_translated_has_no_names() -> None:
    assert ToolNames(order({"messages": 3}), SPELLING).back("x_0123abcd") == "x_0123abcd"


def test_what_is_kept_is_found() -> None:
    signatures = Signatures()
    signatures.remember("a", b"1")
    signatures.remember("a", b"2")
    assert (signatures.recall("a"), signatures.recall("b")) == (b"2", b"")


def test_nothing_is_not_kept() -> None:
    signatures = Signatures(entries=1)
    signatures.remember("a", b"1")
    signatures.remember("", b"1")
    signatures.remember("b", b"")
    assert signatures.recall("a") == b"1"


def test_the_one_not_used_for_longest_leaves_first() -> None:
    signatures = Signatures(entries=2)
    for id in ("a", "b"):
        signatures.remember(id, b"1")
    signatures.recall("a")
    signatures.remember("c", b"1")
    assert [signatures.recall(id) for id in ("a", "b", "c")] == [b"1", b"", b"1"]


def test_the_bytes_are_bounded() -> None:
    signatures = Signatures(size=10)
    signatures.remember("a", b"x" * 6)
    signatures.remember("b", b"x" * 6)
    signatures.remember("c", b"x" * 11)
    assert [len(signatures.recall(id)) for id in ("a", "b", "c")] == [0, 6, 0]


def test_replacing_frees_the_room() -> None:
    signatures = Signatures(size=10)
    for _ in range(5):
        signatures.remember("a", b"x" * 6)
    signatures.remember("b", b"x" * 4)
    assert (len(signatures.recall("a")), len(signatures.recall("b"))) == (6, 4)


def test_what_belongs_to_the_calls_of_a_request_is_counted() -> None:
    signatures = Signatures()
    calls = [{"id": id, "type": "function"} for id in ("a", 'b"', "c")]
    fields = {"messages": msgspec.Raw(msgspec.json.encode([{"role": "assistant", "tool_calls": calls}]))}
    assert signatures.tokens_for(fields) == 0
    for id in ("a", 'b"', "x"):
        signatures.remember(id, b"123456")
    assert signatures.tokens_for(fields) == 4
    assert signatures.tokens_for({"messages": msgspec.Raw(b'[{"role":"user","id":"a"}]')}) == 0
    assert signatures.tokens_for({}) == 0


def test_a_token_gets_only_what_its_own_calls_have_brought() -> None:
    signatures = Signatures()
    signatures.of("a").remember("c1", b"A")
    signatures.of("b").remember("c1", b"BB")
    assert [signatures.of(owner).recall("c1") for owner in ("a", "b", "c", "")] == [b"A", b"BB", b"", b""]


def test_what_is_forgotten_of_one_token_is_not_held_for_and_not_put_back() -> None:
    signatures = Signatures(entries=2)
    for owner in ("a", "b", "c"):
        signatures.of(owner).remember("c1", b"X" * 300)
    fields = {"messages": msgspec.Raw(b'[{"tool_calls":[{"id":"c1"}]}]')}
    held = signatures.tokens_for(fields)
    assert [len(signatures.of(owner).recall("c1")) // 3 <= held for owner in ("a", "b", "c")] == [True] * 3
