from typing import Any

import pytest

from gateway.client.receipt import cost_formula
from gateway.domain.call import STAYED_MARK, Attempt, FailureKind
from gateway.domain.price import Rates
from gateway.domain.units import Millis
from gateway.domain.views import running_view
from tests.tui.stage import DOLLAR, NOW, call, console, running
from tui import glyphs
from tui.receipt import mark_of, receipt, tone_of


def text(width: int = 100, **changes: Any) -> str:
    return receipt(call(3, **({"status": 200} | changes)), console().session, width).plain


def test_the_cost_is_reported_as_arithmetic() -> None:
    rates = Rates(3 * DOLLAR, 300_000_000, 3 * DOLLAR, 15 * DOLLAR, 0, 1_000_000)
    one = call(3, input_tokens=1_393, cached_tokens=864, output_tokens=89, cost_nanos=3_181_200)
    told = "529 * $3/M + 864 cached * $0.30/M + 89 * $15/M = $0.0031812".replace("*", glyphs.TIMES)
    assert cost_formula(one, rates) == told


def test_a_multiplier_and_a_price_a_call_are_reported() -> None:
    rates = Rates(0, 0, 0, 0, 5_000_000, 500_000)
    one = call(3, input_tokens=0, cached_tokens=0, output_tokens=0, cost_nanos=2_500_000)
    assert cost_formula(one, rates) == "$0.005 a call, group x0.5 = $0.0025"


def test_parts_have_the_same_words_in_the_tokens_and_in_the_arithmetic() -> None:
    parts = {"input_audio": 40, "searches": 1, "file_searches": 2, "images": 3}
    extras = {"input_audio": 10 * DOLLAR, "searches": DOLLAR // 100, "images": DOLLAR // 1000}
    rates = Rates(DOLLAR, DOLLAR, DOLLAR, DOLLAR, 0, 1_000_000, extras=extras)
    one = call(3, input_tokens=100, cached_tokens=0, output_tokens=0, parts=parts)
    assert cost_formula(one, rates).split(" = ")[0].replace(glyphs.TIMES, "*") == (
        "60 * $1/M + 40 audio input * $10/M + 1 web search * $0.01 + 2 file searches * $0 + 3 pictures * $0.001"
    )
    shown = text(200, input_tokens=100, cached_tokens=0, output_tokens=0, parts=parts)
    assert "40 audio input, 1 web search, 2 file searches, 3 pictures" in shown


def test_the_numbers_of_the_arithmetic_add_up() -> None:
    one = call(3, status=200)
    assert f"= ${one.cost_nanos / DOLLAR:.9f}".rstrip("0") in text().replace(",", "")


LIMITED = Attempt(channel="a", status=429, ms=Millis(210), kind=FailureKind.RATE, reason="slow down")
BUSY = Attempt(channel="a", status=429, kind=FailureKind.RATE, ms=Millis(2_080), reason="busy")
DONE = Attempt(channel="b", status=200, ms=Millis(500))
CUT = Attempt(channel="a", kind=FailureKind.CUT, ms=Millis(2_000), reason="it was cut off")
LEFT = Attempt(channel="a", ms=Millis(35_800), reason="abandoned", billed=True)
BACKUP = Attempt(channel="backup", status=200, ms=Millis(200))
FAILED = Attempt(channel="backup", status=500, ms=Millis(20), kind=FailureKind.SERVER, reason="oops")
HAIKU = Attempt(channel="claude", status=200, ms=Millis(200), model="claude-haiku-4-5")
LOST: dict[str, Any] = {"status": 0, "outcome": "lost", "duration_ms": 0, "first_byte_ms": None, "rates": None}
LOST |= {"usage_source": "none", "cost_nanos": 0}
WAITED = {"overhead_us": 17_829_000, "marks": ["waited=17828:channel 'lan' (1 call at once)"]}
TRIED = {"duration_ms": 4_940, "first_byte_ms": None, "overhead_us": 1_000}
ENDED = {"attempts": [LEFT], "first_byte_ms": 590, "status": 499}


@pytest.mark.parametrize(
    ("changes", "told", "untold"),
    [
        ({}, "upstream id chatcmpl-000003", "of the same call"),
        ({}, "✓ 200 · finished (stop)", "lost"),
        ({"cost_nanos": DOLLAR // 10, "balance_nanos": 7 * DOLLAR}, "balance $7.10 before, $7.00 after", "marks"),
        ({"rates": None, "cost_nanos": 0}, "no price: counted, not charged", "nothing was used"),
        ({"rates": None, "usage_source": "none", "cost_nanos": 0}, "$0: nothing was used", "no price"),
        ({"rates": None, "cost_nanos": 3_000_000}, "$0.003: its rates were not recorded", "no price"),
        ({"possible_nanos": 10_000_000}, "may have billed $0.01", "marks"),
        (WAITED, "waited 17.83s of it for channel 'lan' (1 call at once)", "marks"),
        (WAITED, "1.0ms in the gateway before", "17829"),
        ({"attempts": [LIMITED, DONE]}, "✗ 1 a 429 0.21s rate: slow down", "cut off"),
        ({"attempts": [LIMITED, DONE]}, "✓ 2 b 200 0.50s", "cut off"),
        ({"attempts": [BUSY, DONE], **TRIED}, "waited 2.36s of it after 1 try that failed", "no_done"),
        ({"attempts": [BUSY, BUSY], **TRIED}, "waited 0.78s of it after 1 try that failed", "no_done"),
        ({"attempts": [BUSY], **TRIED}, "waited 2.86s of it after 1 try that failed", "no_done"),
        ({"attempts": [BUSY, DONE], "duration_ms": 2_520}, "✗ 1 a 429 2.08s", "waited"),
        ({"attempts": [DONE], "duration_ms": 4_940}, "✓ 1 b 200 0.50s", "waited"),
        ({"upstream_id": "x"}, "upstream id x", "chat"),
        ({"api": "messages", "native": True}, "messages native", "translated"),
        ({"api": "responses"}, "responses translated", "native"),
        ({"marks": ["no_done", "bad_chunks=1"]}, "1 event lost", "events lost"),
        ({"first_byte_ms": None, "duration_ms": 1_000}, "no answer, duration 1.00s", "first token"),
        ({"first_byte_ms": 200, "duration_ms": 1_000}, "first token after 0.20s, duration 1.00s", "no answer"),
        ({"retry": 2}, "2 of the same call, as its SDK counts", "not listed"),
        ({"marks": ["repeated=1"]}, "1 more like this was not listed", "repeated="),
        ({"marks": ["repeated=59", "no_done"]}, "59 more like this were not listed", "repeated="),
        (LOST, "timing not known", "no answer"),
        (LOST, "tokens not known", "no answer"),
        (LOST, "what it used is not known, and nothing was charged", "no answer"),
        ({"attempts": [CUT], "first_byte_ms": 590}, "1 a cut off 2.00s cut", "no answer"),
        ({"attempts": [CUT], "first_byte_ms": None}, "1 a no answer 2.00s cut", "a cut off"),
        ({**ENDED, "outcome": "cancelled"}, "1 a ended by you", "cut off"),
        ({**ENDED, "outcome": "client_closed"}, "1 a left by the client", "cut off"),
        ({**ENDED, "outcome": "stopped"}, "1 a stopped", "cut off"),
        (
            {"attempts": [BACKUP], "marks": (STAYED_MARK,)},
            "stayed at backup, which answered this conversation before, although others come first",
            STAYED_MARK,
        ),
        ({"attempts": [FAILED, DONE], "marks": (STAYED_MARK,)}, "although others come first; it failed", STAYED_MARK),
        (
            {"attempts": [HAIKU], "marks": ("passed=openai: paused for 12 s: HTTP 503",)},
            "passed over openai: paused for 12 s: HTTP 503 tries ✓ 1 claude as claude-haiku-4-5",
            "passed=",
        ),
    ],
)
def test_the_fields_of_a_call(changes: dict[str, Any], told: str, untold: str) -> None:
    words = " ".join(text(**changes).split())
    assert told in words
    assert untold not in words


def test_the_upstreams_own_words_come_first() -> None:
    rows = text(status=500, code="upstream_error", error="boom").splitlines()
    assert rows[2].strip() == "error       upstream_error: boom"


def test_a_running_call_costs_so_far() -> None:
    told = receipt(running_view(running(1, attempt=2), NOW), console().session, 100).plain
    assert "running, streaming" in told
    assert "at most $0.016 so far, estimated" in told
    assert "2, now on anthropic" in told


def test_no_line_is_wider_than_the_pane() -> None:
    for width in (40, 78, 120):
        one = call(3, status=200, error="x" * 300, app="日本語" * 20)
        assert max(row.cell_length for row in receipt(one, console().session, width).split()) <= width


@pytest.mark.parametrize(
    ("status", "outcome", "mark", "tone"),
    [
        (200, "done", "✓", "ok"),
        (429, "error", "✗", "warn"),
        (500, "error", "✗", "bad"),
        (499, "client_closed", "■", "warn"),
        (200, "cancelled", "✓", "ok"),
    ],
)
def test_marks_say_how_it_ended(status: int, outcome: str, mark: str, tone: str) -> None:
    one = call(3, status=status, outcome=outcome)
    assert (mark_of(one), tone_of(one)) == (mark, tone)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"status": 0, "outcome": "lost", "finish_reason": ""}, "✗ lost (gateway stopped)"),
        ({"status": 200, "outcome": "done", "finish_reason": "stop"}, "✓ 200 · finished (stop)"),
        ({"status": 502, "outcome": "upstream_cut", "finish_reason": ""}, "✗ 502 · upstream cut"),
    ],
)
def test_the_first_line_says_how_it_ended(changes: dict[str, Any], words: str) -> None:
    assert text(**changes).splitlines()[0].endswith(f"   {words}")


def test_a_refusal_ends_with_its_whole_advice_and_tells_what_the_call_asked_for() -> None:
    advice = "or hold less for each call"
    told = text(error=f"{'the budget is used up ' * 40}; {advice}", code="c", marks=["request=1200/60000"], status=429)
    words = " ".join(told.split())
    assert f"; {advice}" in words
    assert "asked for 1,200 input tokens, at most 60,000 output tokens" in words
    assert "request=" not in words
