"""Holds by everything a call draws on."""

import msgspec

from gateway.domain.budget import Amounts
from gateway.domain.call import ACCOUNT
from gateway.domain.units import CallId, Millis
from gateway.store.books import Holds
from tests.store.samples import running


def test_a_hold_counts_for_all_that_the_call_draws_on() -> None:
    holds = Holds()
    holds.add(running(1))
    holds.add(running(6))
    assert holds.held(ACCOUNT) == Amounts(10_000, 400, 2)  # type: ignore[arg-type]
    assert holds.held(("token", "tok_1")).calls == 2
    assert (holds.held(("channel", "ch_1")).calls, holds.held(("channel", "ch_0")).calls) == (1, 1)
    assert holds.held(("group", "vip")).calls == 1


def test_calls_that_began_before_a_window_hold_nothing_of_it() -> None:
    holds = Holds()
    holds.add(running(1))
    holds.add(running(6))
    for since, calls in ((running(1).ts, 2), (running(1).ts + 1, 1), (running(6).ts + 1, 0)):
        assert holds.held(ACCOUNT, Millis(since)).calls == len(holds.running_in(ACCOUNT, Millis(since))) == calls


def test_a_hold_ends_once() -> None:
    holds = Holds()
    holds.add(running(1))
    assert (holds.remove(running(1).id), holds.remove(running(1).id)) == (True, False)
    assert (holds.held(ACCOUNT), dict(holds.running)) == (Amounts(), {})


def test_a_call_that_changes_its_channel_takes_its_hold_along() -> None:
    holds = Holds()
    holds.add(running(1))
    holds.replace(msgspec.structs.replace(running(1), channel="ch_9", output=5))
    assert (holds.held(("channel", "ch_1")).calls, holds.held(("channel", "ch_9")).calls) == (0, 1)
    assert holds.held(ACCOUNT).calls == 1
    assert holds.running[CallId(running(1).id)].output == 5


def test_news_of_a_call_that_has_ended_are_ignored() -> None:
    holds = Holds()
    holds.replace(running(1))
    assert (holds.held(ACCOUNT).calls, len(holds.running)) == (0, 0)
