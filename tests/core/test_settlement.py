"""What a call used: reported, partly reported, estimated or nothing, and never made better than it was."""

from typing import Any

import msgspec
import pytest

from gateway.core.call import Call, CallContext
from gateway.core.channel_effects import effects_of
from gateway.core.quota import CallNeed, HoldPlan
from gateway.core.settlement import Meter, may_be_billed, outcome_of, record_of, recorded_id
from gateway.domain.call import Attempt, FailureKind, Outcome
from gateway.domain.channel import Channel
from gateway.domain.errors import GatewayError, InternalError, UpstreamError, UpstreamTimeout
from gateway.domain.estimate import OutputCounter, estimate
from gateway.domain.order import Order
from gateway.domain.output_limit import OutputLimit
from gateway.domain.price import Price, Rates
from gateway.domain.prompt_size import prompt_tokens
from gateway.domain.units import MILLION, Nanos
from gateway.domain.usage import NOTHING, Usage, UsageSource
from gateway.domain.views import call_view
from gateway.upstream.adapter import AnswerStream, WholeFacts
from gateway.upstream.dialects import new_adapter
from tests.core import kit
from tests.core.clocks import NOON
from tests.core.ends import FakeClient, counts, says
from tests.upstream.makers import as_chat

UP = kit.channel()
SAID = estimate("Hello there.")
REPORTED = Usage(input=9, output=12, source=UsageSource.REPORTED)


def call(prompt: str = "Say hello.", channel: Channel = UP, **fields: Any) -> Call:
    asked = kit.ask(messages=[{"role": "user", "content": prompt}], **fields)
    made = kit.call(asked)
    made.begin_attempt(kit.route(channel.name), "")
    made.need = kit.need(asked, effects_of([(channel, channel.models[0])]), [kit.PRICE])
    return made


def answer(text: str, reported: Usage | None) -> WholeFacts:
    tally = OutputCounter()
    if text:
        tally.add(text)
    return WholeFacts(reported=reported, finish="stop", upstream_id="up", tally=tally)


def stream(*events: bytes) -> AnswerStream:
    order = Order(fields=kit.ask(stream=True).fields, model="m", stream=True)
    made = as_chat(new_adapter(UP.dialect)).stream(order, UP)
    for event in events:
        made.feed(event)
    return made


def test_reported_usage_counts() -> None:
    assert Meter().usage(call(), answer("Hello there.", REPORTED)) == REPORTED


def test_reported_zeros_are_true_if_nothing_came() -> None:
    zeros = Usage(source=UsageSource.REPORTED)
    assert Meter().usage(call(), answer("", zeros)) == zeros


@pytest.mark.parametrize("reported", [None, Usage(source=UsageSource.REPORTED)])
def test_unreported_usage_is_estimated(reported: Usage | None) -> None:
    found = Meter().usage(call(), answer("Hello there.", reported))
    assert found.source is UsageSource.ESTIMATED
    assert (found.input, found.output) == (prompt_tokens(call().context.request.fields), SAID)


def test_a_stream_is_the_same() -> None:
    made = call()
    assert Meter().usage(made, stream(says("Hello"), counts(9, 12)).state).output == 12
    assert Meter().usage(made, stream(says("Hello there.")).state).source is UsageSource.ESTIMATED


def test_a_broken_call_of_which_nothing_came_used_nothing() -> None:
    made = call()
    assert Meter().partial_usage(made) == NOTHING
    made.attempt.stream = stream(says("Hello"))
    assert Meter().partial_usage(made) == NOTHING


def partial_usage(*events: bytes) -> Usage:
    made = call()
    made.attempt.stream, made.delivery.content_sent = stream(*events), True
    return Meter().partial_usage(made)


def test_a_broken_stream_is_charged_for_prompt_and_received_output() -> None:
    found = partial_usage(says("Hello there."))
    assert found == Usage(input=prompt_tokens(call().context.request.fields), output=SAID, source=UsageSource.ESTIMATED)


@pytest.mark.parametrize(("reported", "output"), [(1, SAID), (700, 700)])
def test_a_broken_stream_is_charged_at_least_what_was_reported(reported: int, output: int) -> None:
    found = partial_usage(says("Hello there."), counts(1000, reported))
    assert (found.input, found.output, found.source) == (1000, output, UsageSource.PARTIAL)


def test_a_call_given_up_at_work_is_charged_its_prompt() -> None:
    found = Meter().estimated_usage(call())
    assert (found.input, found.output, found.source) == (
        prompt_tokens(call().context.request.fields),
        0,
        UsageSource.ESTIMATED,
    )


def test_estimates_are_corrected_by_what_that_channel_reports() -> None:
    meter, prompt = Meter(), ("word" + 20 * " ") * 100
    plain = meter.prompt_tokens(call(prompt))
    for _ in range(8):
        meter.usage(call(prompt), answer("x", msgspec.structs.replace(REPORTED, input=2 * plain)))
    assert 1.4 * plain < meter.prompt_tokens(call(prompt)) < 2 * plain
    assert meter.prompt_tokens(call(prompt, kit.channel("other"))) == plain


def test_after_the_first_calls_few_are_learned_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """Estimating a large prompt costs more than all the rest of its call."""
    meter = Meter()
    learned: list[str] = []
    monkeypatch.setattr(meter.calibration, "learn", lambda channel, model, **_: learned.append(model))
    for _ in range(200):
        meter.usage(call(), answer("x", REPORTED))
    assert 8 <= len(learned) <= 8 + 200 // 16


def test_an_input_that_was_not_reported_is_estimated_beside_the_output_that_was() -> None:
    found = Meter().usage(call(), answer("x", Usage(input=0, output=90, reasoning=67, source=UsageSource.PARTIAL)))
    prompt = prompt_tokens(call().context.request.fields)
    assert found == Usage(input=prompt, output=90, reasoning=67, source=UsageSource.PARTIAL)


LONG = "Hello there, all of you. " * 20


@pytest.mark.parametrize("reported", [None, Usage(input=9, output=400, source=UsageSource.PARTIAL)])
def test_no_estimate_is_above_the_cap_that_the_upstream_was_given(reported: Usage | None) -> None:
    assert estimate(LONG) > 50
    assert Meter().usage(call(max_tokens=50), answer(LONG, reported)).output == 50
    assert Meter().usage(call(max_tokens=50, n=2), answer(LONG, reported)).output == 100
    assert Meter().usage(call(), answer(LONG, reported)).output == estimate(LONG)


def test_a_broken_stream_is_not_estimated_above_its_cap() -> None:
    made = call(max_tokens=50)
    made.attempt.stream, made.delivery.content_sent = stream(says(LONG)), True
    assert Meter().partial_usage(made).output == 50


def test_no_estimate_of_a_prompt_is_above_what_was_held_for_it() -> None:
    meter, prompt = Meter(), "a b c d e f g h " * 40
    for _ in range(8):
        meter.usage(call(prompt), answer("x", msgspec.structs.replace(REPORTED, input=5_000)))
    assert meter.prompt_tokens(call(prompt)) == call(prompt).need.input


def settled_call(**fields: Any) -> Call:
    """A call that began at second 100. The fields are those of its parts."""
    origin = kit.origin(key="secret", app="curl", retry=1, began=100.0)
    made = kit.call(origin=origin, **{n: v for n, v in fields.items() if n in CallContext.__struct_fields__})
    made.attempt.price = kit.PRICE
    for part in (made.attempt, made.delivery, made.result):
        for name in fields.keys() & set(part.__struct_fields__):
            setattr(part, name, fields[name])
    made.context.client.on_gone = None  # a parameter of a test would keep the call
    return made


USAGE = Usage(input=1000, cached=600, output=200, reasoning=50, source=UsageSource.REPORTED)


def test_a_record_keeps_what_is_known() -> None:
    found = settled_call(
        usage=USAGE, finish="stop", upstream_id="up-1", marks=("no_done",), first_byte=100.25, overhead_us=321
    )
    found.begin_attempt(kit.route("up", "m=m-2026"), "priority 0")
    record = record_of(found, 200, mono=101.5)
    assert (record.id, record.ts, record.ms, record.ttft, record.overhead) == ("req_1", NOON, 1500, 250, 321)
    assert (record.token, record.token_name, record.group, record.app) == ("tok_laptop", "laptop", "home", "curl")
    assert (record.model, record.upstream_model, record.channel, record.channel_name) == ("m", "m-2026", "ch_up", "up")
    assert (record.finish, record.upstream_id, record.source) == ("stop", "up-1", UsageSource.REPORTED)
    assert call_view(record).usage == msgspec.structs.replace(USAGE, source=UsageSource.NONE)
    assert (record.retry, record.stream, record.marks) == (1, True, ("no_done",))


def test_the_cost_is_that_of_the_usage_at_the_price_of_the_call() -> None:
    price = Price(model="m", input=Nanos(3_000_000_000), cached_input=Nanos(300_000_000), output=Nanos(15_000_000_000))
    record = record_of(settled_call(usage=USAGE, price=price), 200, mono=101.0)
    assert record.cost == 4_380_000
    assert record.rates == Rates(3_000_000_000, 300_000_000, 3_000_000_000, 15_000_000_000, 0, MILLION)


def test_an_unpriced_call_has_no_rates() -> None:
    record = record_of(settled_call(usage=USAGE, price=None), 200, mono=101.0)
    assert (record.cost, record.rates, record.input) == (0, None, 1000)


def test_a_call_that_used_nothing_costs_nothing_even_at_a_price_per_call() -> None:
    price = Price(model="m", input=Nanos(1), output=Nanos(1), per_call=Nanos(10**9))
    record = record_of(settled_call(price=price), 502, mono=101.0)
    assert (record.cost, record.rates) == (0, None)


@pytest.mark.parametrize(
    ("billed", "charged", "possible"), [(True, False, 777), (False, False, 0), (True, True, 0), (False, True, 0)]
)
def test_possible_cost_is_what_was_held_for_what_was_not_charged(billed: bool, charged: bool, possible: int) -> None:
    found = settled_call(attempts=[Attempt(channel="up", billed=billed)])
    found.result.billed = [(found.running.channel, found.attempt.price)] * billed  # type: ignore[list-item]
    found.hold = HoldPlan(Nanos(777))
    found.need = CallNeed(
        input=10_000, output=OutputLimit(capped=30, minimum=30, expected=30), nanos=Nanos(777), min_nanos=Nanos(777)
    )
    if charged:
        found.result.usage = USAGE
    assert record_of(found, 502, mono=101.0).possible == possible


@pytest.mark.parametrize(
    ("tries", "charged", "possible", "elsewhere"),
    [
        (["ch_up"], False, 70, {}),
        (["ch_other", "ch_up"], False, 70, {"ch_other": 70}),
        (["ch_other", "ch_other"], False, 0, {"ch_other": 140}),
        (["ch_other", "answered"], True, 0, {"ch_other": 70}),
        (["ch_up", "answered"], True, 70, {}),
        (["ch_other", "ch_up"], True, 0, {"ch_other": 70}),
        (["unpriced", "ch_up"], False, 70, {"unpriced": 777}),
    ],
)
def test_a_possible_cost_is_that_of_each_channel_at_the_price_of_the_model_that_was_tried(
    tries: list[str], charged: bool, possible: int, elsewhere: dict[str, int]
) -> None:
    """What is held is for the most expensive of the models that might have answered."""
    price = Price(model="m", input=Nanos(1_000_000), output=Nanos(2_000_000))
    found = settled_call(price=price, attempts=[Attempt(channel=name, billed=name != "answered") for name in tries])
    found.begin_attempt(kit.route("up", "m"), "priority 0")
    billed = [(name, None if name == "unpriced" else price) for name in tries if name != "answered"]
    found.result.billed = billed  # type: ignore[assignment]
    found.hold = HoldPlan(Nanos(777))
    found.need = CallNeed(
        input=10, output=OutputLimit(capped=30, minimum=30, expected=30), nanos=Nanos(777), min_nanos=Nanos(777)
    )
    if charged:
        found.result.usage = USAGE
    record = record_of(found, 503, mono=101.0)
    assert (record.possible, record.possible_elsewhere) == (possible, elsewhere)


def test_foreign_texts_are_made_harmless_and_short() -> None:
    error = UpstreamError("\x1b[31m" + "x" * 1000, code="upstream_error")
    record = record_of(settled_call(error=error, finish="\n" * 99, upstream_id="\u202e" * 999), 502, mono=101.0)
    assert all(text.isprintable() for text in (record.error, record.finish, record.upstream_id))
    assert (len(record.error), len(record.finish), len(record.upstream_id)) == (300, 32, 0)


def test_no_key_and_no_text_of_the_call_is_kept() -> None:
    record = record_of(settled_call(usage=USAGE), 200, mono=101.0)
    assert "secret" not in repr(record)
    assert "Say hello" not in repr(record)


def test_a_clock_that_steps_back_gives_no_negative_times() -> None:
    record = record_of(settled_call(first_byte=99.0), 200, mono=98.0)
    assert (record.ms, record.ttft) == (0, 0)


def test_left_out_parameters_are_marked() -> None:
    assert record_of(settled_call(dropped="seed,top_k"), 200, mono=101.0).marks == ("dropped=seed,top_k",)


def gone() -> FakeClient:
    client = FakeClient()
    client.gone = True
    return client


@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        ({"ended_by": Outcome.CANCELLED, "client": gone()}, Outcome.CANCELLED),
        ({"ended_by": Outcome.TIMEOUT}, Outcome.TIMEOUT),
        ({"client": gone(), "error": UpstreamError("x")}, Outcome.CLIENT_CLOSED),
        ({"error": None}, Outcome.STOPPED),
        ({"error": UpstreamTimeout("x")}, Outcome.TIMEOUT),
        ({"error": UpstreamTimeout("x"), "content_sent": True}, Outcome.TIMEOUT),
        ({"error": UpstreamError("x")}, Outcome.ERROR),
        ({"error": UpstreamError("x"), "content_sent": True}, Outcome.UPSTREAM_CUT),
        ({"error": InternalError("x"), "content_sent": True}, Outcome.ERROR),
        ({"error": GatewayError("x")}, Outcome.ERROR),
    ],
)
def test_how_a_call_ended(fields: dict[str, object], outcome: Outcome) -> None:
    assert outcome_of(settled_call(**fields)) is outcome


@pytest.mark.parametrize("kind", list(FailureKind))
def test_what_was_sent_and_fell_silent_may_have_been_billed(kind: FailureKind) -> None:
    silent = kind in (FailureKind.NETWORK, FailureKind.SLOW, FailureKind.CUT)
    assert (may_be_billed(kind, sent=True), may_be_billed(kind, sent=False)) == (silent, False)


@pytest.mark.parametrize(
    ("id", "kept"),
    [
        ("chatcmpl-BqR7x8yZabcDefGhIjKlMnOpQrStU", True),
        ("msg_01XFDUDYJgAACzvnptvVoYEL", True),
        ("", False),
        ("two words", False),
        ("x" * 81, False),
        ("chatcmpl-the-plan-is-to-meet-at-noon-42", False),
        ("the-plan-is-to-meet-at-noon-42-and-then-we-go", False),
        ("meet-at-noon-42-x", True),
        ("the-plan-is-to-meet", False),
    ],
)
def test_ids_that_are_kept(id: str, *, kept: bool) -> None:
    request = kit.ask(messages=[{"role": "user", "content": "the-plan-is-to-meet-at-noon-42-and-then-we-go"}])
    assert bool(recorded_id(id, request)) == kept
