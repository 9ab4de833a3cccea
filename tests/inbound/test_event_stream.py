"""A template gives exactly what opening every event would give, and never lets a broken text through."""

import json

import pytest
from hypothesis import given, strategies as st

from gateway.inbound.event_stream import Run, Template, template_of

HEAD, FOOT = b'data: {"model":"a","c":"', b'"}'
TEMPLATE = Template((HEAD, FOOT), (HEAD.replace(b"a", b"mine", 1), FOOT))
SAME = Template((HEAD, FOOT), (HEAD, FOOT))

PIECES = ["x", "\\", '"', ",", "[", "]", '","', '\\"', "\\u0041", "\\ud83d", "é", "}", "\n", "\n\n", '"}']


def _event(middle: str) -> bytes:
    return HEAD + middle.encode() + FOOT + b"\n\n"


def _is_text(middle: str) -> bool:
    try:
        text = json.loads(f'"{middle}"')
    except ValueError:
        return False
    return not any("\ud800" <= char <= "\udfff" for char in text)  # a surrogate that is left alone


@given(st.lists(st.lists(st.sampled_from(PIECES), max_size=4).map("".join), min_size=1, max_size=4))
def test_a_run_is_what_its_events_are_one_by_one(middles: list[str]) -> None:
    events = b"".join(_event(m) for m in middles)
    run = TEMPLATE.run(events, 0)
    if run is None:
        return
    outs, said, start = [], "", 0
    for _ in range(len(run.texts)):
        one = TEMPLATE.run(events[: events.index(b"\n\n", start) + 2], start)
        assert one is not None
        outs.append(one.out)
        said += one.whole_text
        start += one.size
    assert (run.out, run.size, run.whole_text) == (b"".join(outs), start, said)


@given(st.lists(st.sampled_from(PIECES), max_size=5).map("".join))
def test_one_passes_texts_and_nothing_else(middle: str) -> None:
    out = SAME.run(_event(middle), 0)
    if _is_text(middle) and not middle.endswith("\\"):  # an event that ends in an escaped one is read in full
        assert out == Run(_event(middle), len(_event(middle)), [middle.encode()], json.loads(f'"{middle}"'))
    else:
        assert out is None or out.size < len(_event(middle))


@pytest.mark.parametrize("odd", [b": x\n\n", b"data: [DONE]\n\n", HEAD.replace(b"a", b"b") + b'"}\n\n'])
def test_a_run_ends_before_another_event(odd: bytes) -> None:
    for after in (b"", _event("c") + _event("d")):
        run = SAME.run(_event("a") + _event("b") + odd + after, 0)
        assert run == Run(_event("a") + _event("b"), 2 * len(_event("a")), [b"a", b"b"], "ab")


def test_a_broken_text_among_good_ones_is_not_passed() -> None:
    run = SAME.run(_event("a") + _event('x","y') + _event("b"), 0)
    assert run == Run(_event("a"), len(_event("a")), [b"a"], "a")
    assert SAME.run(_event("x\\") + _event(',"y'), 0) is None


@pytest.mark.parametrize("event", [HEAD, FOOT, HEAD[:-1] + FOOT, b"", b"data: x", HEAD + FOOT[1:]])
def test_head_and_foot_must_both_be_there(event: bytes) -> None:
    assert SAME.run(event + b"\n\n", 0) is None


def test_bytes_that_are_not_utf8_do_not_fit() -> None:
    event = HEAD + b"\xff" + FOOT + b"\n\n"
    assert SAME.run(event, 0) is None
    assert SAME.run(event * 2, 0) is None


def test_learns_where_the_text_is() -> None:
    template = template_of(b'data: {"c":"hey"}', b'data: {"m":"x","c":"hey"}', b'"hey"')
    assert template is not None
    run = template.run(b'data: {"c":"you"}\n\n', 0)
    assert run == Run(b'data: {"m":"x","c":"you"}\n\n', 19, [b"you"], "you")


@pytest.mark.parametrize("text", [b'""', b"null", b'"assistant"'])
def test_learns_nothing_where_the_place_is_not_certain(text: bytes) -> None:
    event = b'{"role":"assistant","content":"assistant","x":"","y":null}'
    assert template_of(event, event, text) is None
