"""Deadlines of a stream: events are progress, comments are signs of life, fragments are nothing."""

from dataclasses import dataclass

from gateway.domain.channel import Timeouts
from gateway.upstream.http.reply import IdleTimeout, NextDeadline

TIMEOUTS = Timeouts(head=20, idle=30, comments=100)


@dataclass
class Seen:
    events: int = 0
    comments: int = 0


def _watch(seen: Seen) -> IdleTimeout:
    return IdleTimeout(seen, TIMEOUTS, began=1000)


def test_at_first_the_head_deadline_runs_on() -> None:
    assert _watch(Seen()).due() == NextDeadline("first event", 20, 1020)


def test_a_look_without_signs_changes_nothing() -> None:
    watch = _watch(Seen())
    watch.look(1015)
    assert watch.due().at == 1020


def test_an_event_starts_the_idle_deadline() -> None:
    seen = Seen()
    watch = _watch(seen)
    seen.events = 1
    watch.look(1010)
    assert watch.due() == NextDeadline("idle", 30, 1040)


def test_time_that_is_not_the_upstreams_is_not_counted() -> None:
    watch = _watch(Seen())
    watch.skip(100)
    assert watch.due() == NextDeadline("first event", 20, 1120)


def test_a_comment_puts_the_deadline_off() -> None:
    seen = Seen()
    watch = _watch(seen)
    seen.comments = 1
    watch.look(1010)
    assert watch.due() == NextDeadline("first event", 20, 1030)


def test_but_not_for_ever() -> None:
    seen = Seen()
    watch = _watch(seen)
    for moment in range(1000, 1096, 5):
        seen.comments += 1
        watch.look(moment)
    assert watch.due() == NextDeadline("comments only", 100, 1100)


def test_an_event_after_comments_starts_over() -> None:
    seen = Seen()
    watch = _watch(seen)
    seen.comments = 1
    watch.look(1050)
    seen.events = 1
    watch.look(1060)
    assert watch.due() == NextDeadline("idle", 30, 1090)
