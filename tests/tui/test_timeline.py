from collections import Counter
from typing import Any

from gateway.domain.call import FailureKind
from gateway.domain.units import Millis
from tests.tui.stage import NOW
from tui.glyphs import UNICODE
from tui.incidents import Incident, brief, timeline


def incident(**changes: Any) -> Incident:
    fields: dict[str, Any] = {
        "channel": "a",
        "kind": FailureKind.RATE,
        "reason": "channel 'a': 429, retry after 30 s",
        "began": Millis(NOW - 60_000),
        "last": Millis(NOW - 60_000),
        "failures": 1,
    }
    return Incident(**(fields | changes))


def test_a_rest_that_is_over_is_told_with_its_length_and_where_the_calls_went() -> None:
    one = incident(ended=Millis(NOW - 30_000), moved=Counter({"b": 12, "c": 3}))
    assert brief(one, NOW, UNICODE) == "14:12:20 rate-limited 30s → 12 calls moved to b, 3 to c"


def test_a_rest_that_lasts_counts_down() -> None:
    one = incident(resting=True, until=Millis(NOW + 14_000), failures=4, last=Millis(NOW - 1_000), lost=1)
    assert brief(one, NOW, UNICODE) == (
        "14:12:20 rate-limited, 4 times until 14:13:19; asked again in 14s → 1 was not answered"
    )


def test_what_nobody_ends_says_so() -> None:
    assert brief(incident(kind=None, resting=True), NOW, UNICODE) == "14:12:20 out; out until it is cleared"


def test_the_reason_stands_below_without_the_channels_name_and_harmless() -> None:
    one = incident(reason="channel 'a': \x1b[2J[b]429[/]")
    assert "[b]429[/]" in timeline([one], NOW, UNICODE, 80).plain
    assert "\x1b" not in timeline([one], NOW, UNICODE, 80).plain
    assert "channel 'a'" not in timeline([one], NOW, UNICODE, 80).plain


def test_a_store_that_fails_has_its_own_words() -> None:
    one = incident(channel="", kind=None, reason="the disk is full", failures=0, resting=True)
    assert timeline([one], NOW, UNICODE, 80).plain.split() == (
        f"14:12:20 {UNICODE.warning} the store failed: no calls are taken the disk is full".split()
    )
    over = incident(channel="", kind=None, failures=0, ended=Millis(NOW - 48_000))
    assert "the store failed for 12s" in timeline([over], NOW, UNICODE, 80).plain
