"""Deadlines of a stream: events are progress, comments are signs of life, fragments are nothing."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway.domain.channel import Timeouts
from gateway.upstream.adapter import AnswerStream
from gateway.upstream.http.reply import Incoming
from tests.fakes.replies import Seen

Watch = Callable[[Seen], Incoming]


@pytest.fixture
async def watch() -> Watch:
    timeouts = Timeouts(head=20, idle=30, comments=100)
    answer = SimpleNamespace(arm=lambda *_: None)
    reply: Any = SimpleNamespace(channel=SimpleNamespace(timeouts=timeouts), answer=answer)
    return lambda seen: Incoming(reply, cast("AnswerStream", seen), began=1000)


async def test_at_first_the_head_deadline_runs_on(watch: Watch) -> None:
    assert watch(Seen()).next_deadline() == (1020, 20, "first event")


async def test_a_look_without_signs_changes_nothing(watch: Watch) -> None:
    stream = watch(Seen())
    stream.note_progress(1015)
    assert stream.next_deadline() == (1020, 20, "first event")


@pytest.mark.parametrize(
    ("sign", "due"),
    [
        pytest.param("events", (1040, 30, "idle"), id="an event starts the idle deadline"),
        pytest.param("comments", (1030, 20, "first event"), id="a comment puts the deadline off"),
    ],
)
async def test_a_sign_of_life_moves_the_deadline(watch: Watch, sign: str, due: tuple[float, float, str]) -> None:
    seen = Seen()
    stream = watch(seen)
    setattr(seen, sign, 1)
    stream.note_progress(1010)
    assert stream.next_deadline() == due


async def test_but_not_for_ever(watch: Watch) -> None:
    seen = Seen()
    stream = watch(seen)
    for moment in range(1000, 1096, 5):
        seen.comments += 1
        stream.note_progress(moment)
    assert stream.next_deadline() == (1100, 100, "comments only")


async def test_an_event_after_comments_starts_over(watch: Watch) -> None:
    seen = Seen()
    stream = watch(seen)
    seen.comments = 1
    stream.note_progress(1050)
    seen.events = 1
    stream.note_progress(1060)
    assert stream.next_deadline() == (1090, 30, "idle")
