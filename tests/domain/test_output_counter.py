"""A tally counts what came, in bounded memory."""

import sys

from gateway.domain.estimate import OutputCounter, estimate

STORY = "The keeper opened her oldest book and read it to them, line by line. "


def test_nothing_is_empty() -> None:
    tally = OutputCounter()
    assert (tally.empty, tally.tokens(), tally.rough_tokens) == (True, 0, 0)


def test_pieces_count_as_their_text() -> None:
    tally = OutputCounter()
    for word in STORY.split(" "):
        tally.add(word + " ")
    assert tally.tokens() == estimate(STORY + " ")
    assert (tally.chars, tally.empty) == (len(STORY) + 1, False)


def test_a_tool_call_costs_a_little_more_than_its_text() -> None:
    tally = OutputCounter()
    tally.calls += 1
    tally.add("f")
    assert tally.tokens() == estimate("f") + 4


def test_asking_does_not_change_it() -> None:
    tally = OutputCounter()
    for _ in range(256 + 5):
        tally.add("word ")
    assert tally.tokens() == tally.tokens()


def test_a_long_answer_is_folded_and_still_about_right() -> None:
    tally, whole = OutputCounter(), STORY * (8 * 65_536 // len(STORY))
    for start in range(0, len(whole), 7):
        tally.add(whole[start : start + 7])
    exact = estimate(STORY) * len(whole) / len(STORY)
    assert abs(tally.tokens() / exact - 1) < 0.05
    assert _size(tally) < 4 * 65_536


def _size(tally: OutputCounter) -> int:
    return sum(sys.getsizeof(text) for text in tally._pieces)  # noqa: SLF001 - memory is inside
