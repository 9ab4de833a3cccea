"""What a call used: reported, partly reported, estimated or nothing, and never made better than it was."""

from typing import Any

import msgspec
import pytest

from gateway.core.allowance import effects_of, need_of
from gateway.core.call import Call, Visit
from gateway.core.settlement import LEARN_FIRST, Meter
from gateway.domain.channel import Channel
from gateway.domain.estimate import estimate, prompt_tokens
from gateway.domain.group import Group
from gateway.domain.units import MILLION, CallId
from gateway.domain.usage import NOTHING, Usage, UsageSource
from gateway.upstream.adapter import AnswerStream, Order, Whole
from gateway.upstream.dialects import adapter
from gateway.upstream.output_counter import OutputCounter
from tests.core import kit
from tests.core.clocks import NOON
from tests.core.ends import FakeClient, counts, says

UP = kit.channel()
SAID = estimate("Hello there.")
REPORTED = Usage(input=9, output=12, source=UsageSource.REPORTED)


def call(prompt: str = "Say hello.", channel: Channel = UP, **fields: Any) -> Call:
    visit = Visit(id=CallId("req_1"), key="", app="", retry=0, ts=NOON, began=0.0)
    asked = kit.ask(messages=[{"role": "user", "content": prompt}], **fields)
    made = Call(visit, asked, FakeClient(), kit.catalog(), kit.token(), Group(name="home"))
    made.take_route(kit.route(channel.name), "", 1)
    made.need = need_of(asked, effects_of([(channel, channel.models[0])]), kit.PRICE, MILLION)
    return made


def answer(text: str, reported: Usage | None) -> Whole:
    tally = OutputCounter()
    if text:
        tally.add(text)
    return Whole(body=b"{}", reported=reported, finish="stop", upstream_id="up", tally=tally)


def stream(*events: bytes) -> AnswerStream:
    order = Order(fields=kit.ask(stream=True).fields, model="m", stream=True)
    made = adapter(UP.dialect).stream(order, UP)
    for event in events:
        made.feed(event)
    return made


def test_what_was_reported_counts() -> None:
    assert Meter().whole(call(), answer("Hello there.", REPORTED)) == REPORTED


def test_reported_zeros_are_true_if_nothing_came() -> None:
    zeros = Usage(source=UsageSource.REPORTED)
    assert Meter().whole(call(), answer("", zeros)) == zeros


@pytest.mark.parametrize("reported", [None, Usage(source=UsageSource.REPORTED)])
def test_what_was_not_reported_is_estimated(reported: Usage | None) -> None:
    found = Meter().whole(call(), answer("Hello there.", reported))
    assert found.source is UsageSource.ESTIMATED
    assert (found.input, found.output) == (prompt_tokens(call().asked.fields), SAID)


def test_a_stream_is_the_same() -> None:
    made = call()
    assert Meter().stream(made, stream(says("Hello"), counts(9, 12))).output == 12
    assert Meter().stream(made, stream(says("Hello there."))).source is UsageSource.ESTIMATED


def test_a_broken_call_of_which_nothing_came_used_nothing() -> None:
    made = call()
    assert Meter().broken(made) == NOTHING
    made.answer = stream(says("Hello"))
    assert Meter().broken(made) == NOTHING


def broken(*events: bytes) -> Usage:
    made = call()
    made.answer, made.content_sent = stream(*events), True
    return Meter().broken(made)


def test_a_broken_stream_is_charged_for_prompt_and_received_output() -> None:
    found = broken(says("Hello there."))
    assert found == Usage(input=prompt_tokens(call().asked.fields), output=SAID, source=UsageSource.ESTIMATED)


@pytest.mark.parametrize(("reported", "output"), [(1, SAID), (700, 700)])
def test_a_broken_stream_is_charged_at_least_what_was_reported(reported: int, output: int) -> None:
    found = broken(says("Hello there."), counts(1000, reported))
    assert (found.input, found.output, found.source) == (1000, output, UsageSource.PARTIAL)


def test_a_call_given_up_at_work_is_charged_its_prompt() -> None:
    found = Meter().unanswered(call())
    assert (found.input, found.output, found.source) == (prompt_tokens(call().asked.fields), 0, UsageSource.ESTIMATED)


def test_estimates_are_corrected_by_what_that_channel_reports() -> None:
    meter, prompt = Meter(), ("word" + 20 * " ") * 100
    plain = meter.prompt(call(prompt))
    for _ in range(LEARN_FIRST):
        meter.whole(call(prompt), answer("x", msgspec.structs.replace(REPORTED, input=2 * plain)))
    assert 1.4 * plain < meter.prompt(call(prompt)) < 2 * plain
    assert meter.prompt(call(prompt, kit.channel("other"))) == plain


def test_after_the_first_calls_few_are_learned_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """Estimating a large prompt costs more than all the rest of its call."""
    meter = Meter()
    learned: list[str] = []
    monkeypatch.setattr(meter.calibration, "learn", lambda channel, model, **_: learned.append(model))
    for _ in range(200):
        meter.whole(call(), answer("x", REPORTED))
    assert LEARN_FIRST <= len(learned) <= LEARN_FIRST + 200 // 16


LONG = "Hello there, all of you. " * 20


@pytest.mark.parametrize("reported", [None, Usage(input=9, output=400, source=UsageSource.PARTIAL)])
def test_no_estimate_is_above_the_cap_that_the_upstream_was_given(reported: Usage | None) -> None:
    assert estimate(LONG) > 50
    assert Meter().whole(call(max_tokens=50), answer(LONG, reported)).output == 50
    assert Meter().whole(call(max_tokens=50, n=2), answer(LONG, reported)).output == 100
    assert Meter().whole(call(), answer(LONG, reported)).output == estimate(LONG)


def test_a_broken_stream_is_not_estimated_above_its_cap() -> None:
    made = call(max_tokens=50)
    made.answer, made.content_sent = stream(says(LONG)), True
    assert Meter().broken(made).output == 50


def test_no_estimate_of_a_prompt_is_above_what_was_held_for_it() -> None:
    meter, prompt = Meter(), "a b c d e f g h " * 40
    for _ in range(LEARN_FIRST):
        meter.whole(call(prompt), answer("x", msgspec.structs.replace(REPORTED, input=5_000)))
    assert meter.prompt(call(prompt)) == call(prompt).need.input
