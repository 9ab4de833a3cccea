from typing import Any

import pytest

from gateway.domain.call import STAYED_MARK, Attempt, FailureKind
from gateway.domain.price import Rates
from gateway.domain.units import Millis
from gateway.domain.views import running_view
from tests.tui.stage import DOLLAR, NOW, call, console, running
from tui import glyphs
from tui.pages.live import end_text
from tui.receipt import cost_formula, mark_of, receipt, tone_of


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


def test_the_numbers_of_the_arithmetic_add_up() -> None:
    one = call(3, status=200)
    assert f"= ${one.cost_nanos / DOLLAR:.9f}".rstrip("0") in text().replace(",", "")


def test_the_balance_before_and_after_is_reported() -> None:
    assert "balance $7.10 before, $7.00 after" in text(cost_nanos=DOLLAR // 10, balance_nanos=7 * DOLLAR)


def test_an_unpriced_call_says_so_and_what_to_do() -> None:
    assert "no price: counted, not charged" in text(rates=None, cost_nanos=0)


def test_a_refused_call_used_nothing() -> None:
    assert "$0: nothing was used" in text(rates=None, usage_source="none", cost_nanos=0)


def test_money_that_may_be_lost_at_the_upstream_is_reported() -> None:
    assert "may have billed $0.01" in text(possible_nanos=10_000_000)


def test_the_time_in_the_gateway_leaves_out_what_a_call_waited() -> None:
    told = text(overhead_us=17_829_000, marks=["waited=17828:channel 'lan' (1 call at once)"])
    assert "waited 17.83s of it for channel 'lan' (1 call at once)" in told
    assert "1.0ms in the gateway before" in told
    assert "marks" not in told


def test_every_attempt_has_its_reason() -> None:
    tries = [
        Attempt(channel="a", status=429, ms=Millis(210), kind=FailureKind.RATE, reason="slow down"),
        Attempt(channel="b", status=200, ms=Millis(500)),
    ]
    told = text(attempts=tries)
    assert "✗ 1 a 429 0.21s   rate: slow down" in told
    assert "✓ 2 b 200 0.50s" in told


def test_the_upstreams_own_words_come_first() -> None:
    rows = text(status=500, code="upstream_error", error="boom").splitlines()
    assert rows[2].strip() == "error       upstream_error: boom"


def test_the_api_is_reported_unless_it_is_the_usual_one() -> None:
    assert "chat" not in text().replace("chatcmpl", "")
    assert "messages native" in text(api="messages", native=True)
    assert "responses translated" in text(api="responses")


def test_a_running_call_costs_so_far() -> None:
    told = receipt(running_view(running(1, attempt=2), NOW), console().session, 100).plain
    assert "running, streaming" in told
    assert "at most $0.0160 so far, estimated" in told
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


def test_events_that_were_lost_are_counted() -> None:
    lost = text(marks=["no_done", "bad_chunks=1"])
    assert ("1 event lost" in lost, "lost" in text()) == (True, False)
    assert [end_text(call(3, finish_reason="stop", marks=marks)) for marks in ([], ["bad_chunks=1"])] == [
        "stop",
        "stop -1",
    ]


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


def test_a_call_without_an_answer_says_so() -> None:
    assert "no answer, duration 1.00s" in text(first_byte_ms=None, duration_ms=1_000)
    assert "first token after 0.20s, duration 1.00s" in text(first_byte_ms=200, duration_ms=1_000)


def test_refusals_that_were_not_listed_are_counted_in_words() -> None:
    assert "2 of the same call, as its SDK counts" in text(retry=2)
    assert "of the same call" not in text(retry=0)
    assert "1 more like this was not listed" in text(marks=["repeated=1"])
    assert "59 more like this were not listed" in text(marks=["repeated=59", "no_done"])
    assert "repeated=" not in text(marks=["repeated=59"])


def test_the_upstreams_id_has_its_whole_name() -> None:
    assert "upstream id chatcmpl-000003" in text()


def test_how_long_a_lost_call_took_and_what_it_used_is_unknown() -> None:
    lost: dict[str, Any] = {"status": 0, "outcome": "lost", "duration_ms": 0, "first_byte_ms": None, "rates": None}
    told = text(**lost, usage_source="none", cost_nanos=0)
    assert "timing not known" in " ".join(told.split())
    assert "tokens not known" in " ".join(told.split())
    assert "no answer" not in told
    assert "what it used is not known, and nothing was charged" in told


def test_a_wait_between_two_tries_is_named() -> None:
    busy = Attempt(channel="a", status=429, kind=FailureKind.RATE, ms=Millis(2_080), reason="busy")
    done = Attempt(channel="a", status=200, ms=Millis(430))
    told = text(attempts=[busy, done], duration_ms=4_940, first_byte_ms=4_940, overhead_us=1_000)
    assert "waited 2.43s of it after 1 try that failed" in told
    told = text(attempts=[busy, busy], duration_ms=4_940, first_byte_ms=None, overhead_us=1_000)
    assert "waited 0.78s of it after 1 try that failed" in told
    told = text(attempts=[busy], duration_ms=4_940, first_byte_ms=None, overhead_us=1_000)
    assert "waited 2.86s of it after 1 try that failed" in told
    assert "waited" not in text(attempts=[busy, done], duration_ms=2_520)
    assert "waited" not in text(attempts=[done], duration_ms=4_940)


def test_a_call_that_was_charged_has_a_price_also_where_its_rates_are_not_recorded() -> None:
    told = text(rates=None, cost_nanos=3_000_000)
    assert "no price" not in told
    assert "$0.003: its rates were not recorded" in told


def test_an_answer_that_was_cut_off_is_not_called_no_answer() -> None:
    attempt = Attempt(channel="a", kind=FailureKind.CUT, ms=Millis(2_000), reason="it was cut off")
    told = [
        " ".join(receipt(call(1, attempts=[attempt], first_byte_ms=first), console().session, 120).plain.split())
        for first in (590, None)
    ]
    assert ["1 a cut off 2.00s cut" in told[0], "1 a no answer 2.00s cut" in told[1]] == [True, True]


@pytest.mark.parametrize(
    ("outcome", "shown"),
    [("cancelled", "ended by you"), ("client_closed", "left by the client"), ("stopped", "stopped")],
)
def test_an_answer_that_somebody_ended_is_not_called_cut_off(outcome: str, shown: str) -> None:
    attempt = Attempt(channel="a", ms=Millis(35_800), reason="abandoned", billed=True)
    told = text(attempts=[attempt], first_byte_ms=590, outcome=outcome, status=499)
    assert f"1 a {shown}" in told
    assert "cut off" not in told


def test_a_call_that_stayed_with_its_conversation_says_so() -> None:
    told = text(attempts=[Attempt(channel="backup", status=200, ms=Millis(200))], marks=(STAYED_MARK,))
    assert "stayed      at backup, which answered this conversation before, although others come first" in told
    assert STAYED_MARK not in told
    failed = Attempt(channel="backup", status=500, ms=Millis(20), kind=FailureKind.SERVER, reason="oops")
    told = text(attempts=[failed, Attempt(channel="main", status=200, ms=Millis(200))], marks=(STAYED_MARK,))
    assert "although others come first; it failed" in " ".join(told.split())


def test_a_channel_that_was_passed_over_is_named_before_the_tries() -> None:
    answered = Attempt(channel="claude", status=200, ms=Millis(200), model="claude-haiku-4-5")
    told = text(attempts=[answered], marks=("passed=openai: paused for 12 s: HTTP 503",))
    assert told.index("passed over openai: paused for 12 s: HTTP 503") < told.index("1 claude as claude-haiku-4-5")
    assert "passed=" not in told


def test_a_refusal_ends_with_its_whole_advice_and_tells_what_the_call_asked_for() -> None:
    advice = "or hold less for each call"
    told = text(error=f"{'the budget is used up ' * 40}; {advice}", code="c", marks=["request=1200/60000"], status=429)
    words = " ".join(told.split())
    assert f"; {advice}" in words
    assert "asked for 1,200 input tokens, at most 60,000 output tokens" in words
    assert "request=" not in words
