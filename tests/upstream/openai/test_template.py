"""A template gives exactly what opening every event would give, and never lets a broken text through."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.upstream.openai.template import Template, learn
from gateway.upstream.tally import Tally

HEAD, FOOT = b'data: {"model":"a","c":"', b'"}'
TEMPLATE = Template((HEAD, FOOT), (HEAD.replace(b"a", b"mine", 1), FOOT))
SAME = Template((HEAD, FOOT), (HEAD, FOOT))

PIECES = ["x", "\\", '"', ",", "[", "]", '","', '\\"', "\\u0041", "\\ud83d", "é", "}", "\n", "\n\n", '"}']


def _event(middle: str) -> bytes:
    return HEAD + middle.encode() + FOOT


def _is_text(middle: str) -> bool:
    try:
        json.loads(f'"{middle}"')
    except ValueError:
        return False
    return "\\ud83d" not in middle


@given(st.lists(st.lists(st.sampled_from(PIECES), max_size=4).map("".join), min_size=1, max_size=4))
def test_many_are_what_they_are_one_by_one(middles: list[str]) -> None:
    bulk, single = Tally(), Tally()
    events = b"".join(_event(m) + b"\n\n" for m in middles)
    many = TEMPLATE.many(events, bulk)
    assert many is None or all(_is_text(m) for m in "\0".join(middles).split("\0"))
    if many is not None and all(b"\n\n" not in m.encode() for m in middles):
        assert many == (b"".join(TEMPLATE.one(_event(m), single) or b"?" for m in middles), len(middles))
        assert bulk.chars == single.chars


@given(st.lists(st.sampled_from(PIECES), max_size=5).map("".join))
def test_one_passes_texts_and_nothing_else(middle: str) -> None:
    out = SAME.one(_event(middle), Tally())
    assert out == (_event(middle) + b"\n\n" if _is_text(middle) else None)


@pytest.mark.parametrize("event", [HEAD, FOOT, HEAD[:-1] + FOOT, b"", b"data: x"])
def test_head_and_foot_must_both_be_there(event: bytes) -> None:
    assert SAME.one(event, Tally()) is None
    assert SAME.many(event + b"\n\n", Tally()) is None


def test_bytes_that_are_no_utf8_do_not_fit() -> None:
    assert SAME.one(HEAD + b"\xff" + FOOT, Tally()) is None
    assert SAME.many((HEAD + b"\xff" + FOOT + b"\n\n") * 2, Tally()) is None


def test_a_read_that_needs_no_change_is_passed_as_it_is() -> None:
    events = (_event("a") + b"\n\n") * 3
    many = SAME.many(events, Tally())
    assert many is not None
    assert many[0] is events


def test_learns_where_the_text_is() -> None:
    template = learn(b'data: {"c":"hey"}', b'data: {"m":"x","c":"hey"}', b'"hey"')
    assert template is not None
    assert template.one(b'data: {"c":"you"}', Tally()) == b'data: {"m":"x","c":"you"}\n\n'


@pytest.mark.parametrize("text", [b'""', b"null", b'"assistant"'])
def test_learns_nothing_where_the_place_is_not_certain(text: bytes) -> None:
    event = b'{"role":"assistant","content":"assistant","x":"","y":null}'
    assert learn(event, event, text) is None
