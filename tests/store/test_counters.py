"""Counters say at any time what adding up all records would."""

import tempfile
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from gateway.domain.budget import Amounts
from gateway.domain.call import ACCOUNT, Outcome, Record, Scope
from gateway.domain.units import HOUR_MS, Millis, Nanos
from gateway.store import sums
from gateway.store.books import SPANS, Counters, scopes
from gateway.store.calls import CallLog
from gateway.store.rollup import Counts, Dimension
from gateway.store.segment import Segment
from gateway.store.sums import Span, by_value
from tests.store.samples import T0, busy, log_of, record, seal, token

SCOPES: list[Scope] = [ACCOUNT, ("token", "tok_1"), ("group", "vip"), ("channel", "ch_0"), ("token", "none")]


def counters_of(calls: CallLog, *waiting: Record) -> Counters:
    return Counters(calls, lambda: list(waiting), nullcontext())


def added(calls: CallLog, scope: Scope, since: int) -> Amounts:
    mine = [call for call in calls.find(limit=10_000) if call.ts >= since and scope in scopes(call)]
    return Amounts(Nanos(sum(c.cost for c in mine)), sum(c.input + c.output for c in mine), len(mine))


def test_the_first_answer_comes_from_the_log(tmp_path: Path) -> None:
    calls = log_of(tmp_path, 30)
    counters = counters_of(calls)
    for scope in SCOPES:
        for since in (0, T0 + 7, T0 + 29, T0 + 30):
            assert counters.spent(scope, Millis(since)) == added(calls, scope, since)


def test_later_answers_are_kept_up_by_the_start_of_the_call(tmp_path: Path) -> None:
    calls = log_of(tmp_path, 10)
    counters = counters_of(calls)
    moments = [Millis(since) for since in (0, T0 + 5, T0 + HOUR_MS)]
    before = {(scope, since): counters.spent(scope, since) for scope in SCOPES for since in moments}
    for call in (record(10), record(11, ts=T0 + 2 * HOUR_MS), record(12, ts=T0 - HOUR_MS)):
        calls.log.append([call])
        counters.add(call)
    for scope in SCOPES:
        assert [counters.spent(scope, since) for since in moments] == [added(calls, scope, since) for since in moments]
    assert before[ACCOUNT, Millis(0)].calls == 10


def test_a_window_has_an_end(tmp_path: Path) -> None:
    calls = log_of(tmp_path, 10)
    counters = counters_of(calls)
    assert counters.spent(ACCOUNT, Millis(T0 + 4), Millis(T0 + 8)).calls == 4
    counters.add(record(10, ts=T0 + 7))
    counters.add(record(11, ts=T0 + 8))
    assert counters.spent(ACCOUNT, Millis(T0 + 4), Millis(T0 + 8)).calls == 5
    waiting = counters_of(calls, record(10, ts=T0 + 7), record(11, ts=T0 + 8))
    assert waiting.spent(ACCOUNT, Millis(T0 + 4), Millis(T0 + 8)).calls == 5


def test_records_that_wait_for_the_disk_count(tmp_path: Path) -> None:
    counters = counters_of(log_of(tmp_path, 10), record(11), record(12))
    assert counters.spent(ACCOUNT, Millis(0)).calls == 12
    assert counters.spent(("token", "tok_2"), Millis(0)).calls == 3
    assert counters.last_used(token(2)) == T0 + 12


def test_old_moments_are_forgotten_and_found_again(tmp_path: Path) -> None:
    counters = counters_of(log_of(tmp_path, 20))
    for since in range(T0, T0 + 15):
        counters.spent(ACCOUNT, Millis(since))
    assert len(counters.cached_totals()) == SPANS + 1  # and what was ever spent
    assert counters.spent(ACCOUNT, Millis(T0)).calls == 20


def test_many_scopes_read_the_log_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two thousand tokens with budgets must not make a start and each console wait for two thousand sums."""
    reads: list[Span] = []

    def counted(segments: Iterable[Segment], by: Dimension, span: Span) -> dict[str, Counts]:
        reads.append(span)
        return by_value(segments, by, span)

    monkeypatch.setattr(sums, "by_value", counted)
    calls = log_of(tmp_path, 10)
    counters = counters_of(calls, record(11))
    for i in range(50):
        counters.spent(("token", token(i)), Millis(T0))
    assert len(reads) == 1
    calls.log.append([record(12)])
    counters.add(record(12))
    assert [counters.spent(("token", f"new_{i}"), Millis(T0)).calls for i in range(5)] == [0] * 5
    assert len(reads) == 2


def test_the_last_use_of_a_token(tmp_path: Path) -> None:
    counters = counters_of(log_of(tmp_path, 7), record(9), record(4))
    assert [counters.last_used(token(i)) for i in (1, 4, 9)] == [T0 + 6, T0 + 9, None]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.lists(st.tuples(st.sampled_from(SCOPES), st.integers(-5, 90)), max_size=12))
def test_any_order_of_questions_and_calls_is_right(seed: int, questions: list[tuple[Scope, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        calls = log_of(Path(folder), limit=4000)
        counters = counters_of(calls)
        for i, call in enumerate(busy(seed, 40, days=3)):
            if i < len(questions):
                counters.spent(questions[i][0], Millis(T0 + questions[i][1] * HOUR_MS))
            calls.log.append([call])
            counters.add(call)
            if i % 13 == 0:
                seal(calls)
        for scope, hours in questions:
            since = T0 + hours * HOUR_MS
            assert counters.spent(scope, Millis(since)) == added(calls, scope, since)
        calls.log.close()


def test_a_refused_call_is_not_a_call_of_a_daily_limit(tmp_path: Path) -> None:
    calls = log_of(tmp_path, 0)
    counters = counters_of(calls)
    refused, asked = record(1, outcome=Outcome.REFUSED, cost=0), record(2)
    assert counters.spent(ACCOUNT, Millis(0)).calls == 0
    for call in (refused, asked):
        calls.log.append([call])
        counters.add(call)
    assert [known.spent(ACCOUNT, Millis(0)).calls for known in (counters, counters_of(calls))] == [1, 1]
