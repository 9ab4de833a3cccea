"""What is known of a running call, and how it is reported and ended."""

import asyncio

import pytest
from msgspec.structs import replace

from gateway.core.call import Call
from gateway.core.quota import HoldPlan
from gateway.domain.call import Outcome
from gateway.domain.screen import NO_SCREEN
from gateway.domain.units import Nanos
from tests.core import kit
from tests.core.clocks import NOON
from tests.core.ends import FakeClient


def call(*, stream: bool = False) -> Call:
    return kit.call(kit.ask(stream=stream), origin=kit.origin(app="curl", began=100.0))


@pytest.fixture
def made() -> Call:
    return call()


def client_of(made: Call) -> FakeClient:
    assert isinstance(made.context.client, FakeClient)
    return made.context.client


def test_a_new_call_runs_as_its_visitor_asked() -> None:
    made = call(stream=True)
    made.hold = HoldPlan(Nanos(7), 8)
    made.begin_attempt(kit.route("a"), "priority 1")
    running = made.running
    assert (running.id, running.ts, running.token_name, running.group) == ("req_1", NOON, "laptop", "home")
    assert (running.model, running.app, running.stream, running.attempt) == ("m", "curl", True, 1)
    assert (running.held, running.held_tokens, running.channel_name) == (7, 8, "a")


def test_a_new_route_forgets_the_last_one(made: Call) -> None:
    made.begin_attempt(kit.route("a"), "priority 1")
    made.attempt.reply_headers = {"retry-after": "5"}
    made.begin_attempt(kit.route("b", "m=n"), "priority 0, after 1 failed")
    assert (made.running.channel_name, made.running.upstream_model, made.running.attempt) == ("b", "n", 2)
    assert (made.attempt.reply_headers, made.attempt.stream) == ({}, None)


def test_a_fallback_is_known_while_it_answers(made: Call) -> None:
    made.begin_attempt(kit.route("a", "other=n"), "fallback")
    assert (made.running.fallback, made.running.upstream_model) == ("other", "n")
    made.begin_attempt(kit.route("b", "m=n"), "priority 0")
    assert made.running.fallback == ""


def test_headers_before_any_channel() -> None:
    assert set(call().answer_headers()) == {"x-gateway-attempts", "x-gateway-overhead-ms"}


def test_headers_name_the_channel_and_pass_on_a_few_of_the_upstreams(made: Call) -> None:
    made.begin_attempt(kit.route("up", "m=n"), "priority 0")
    made.result.overhead_us = 1234
    made.attempt.price = kit.PRICE
    made.attempt.dropped = "seed,top_k"
    theirs = {
        "retry-after": "5",
        "x-ratelimit-remaining-tokens": "7",
        "openai-processing-ms": "12",
        "x-request-id": "up-1",
        "set-cookie": "a=b",
        "content-length": "99",
        "x-should-retry": "true",
        "authorization": "secret",
    }
    made.attempt.reply_headers = NO_SCREEN.headers(theirs)
    assert made.answer_headers() == {
        "retry-after": "5",
        "x-ratelimit-remaining-tokens": "7",
        "openai-processing-ms": "12",
        "x-upstream-request-id": "up-1",
        "x-gateway-channel": "up",
        "x-gateway-model": "n",
        "x-gateway-route": "priority 0",
        "x-gateway-attempts": "1",
        "x-gateway-overhead-ms": "1.23",
        "x-gateway-dropped-params": "seed,top_k",
    }


def test_a_call_to_a_model_without_a_price_says_so() -> None:
    made, route = call(), kit.route("up", "m")
    made.begin_attempt(replace(route, served=replace(route.served, price=None)), "priority 0")
    assert made.answer_headers()["x-gateway-price"] == "unpriced"


def test_our_own_limits_win(made: Call) -> None:
    made.attempt.reply_headers = {"x-ratelimit-limit-requests": "1"}
    made.limits.headers = lambda: {"x-ratelimit-limit-requests": "9"}
    assert made.answer_headers()["x-ratelimit-limit-requests"] == "9"


@pytest.mark.parametrize("value", ["käse", "\udcff", "a\r\nset-cookie: x", "\x00", "😀" * 1000])
def test_headers_are_printable_ascii_whatever_a_name_or_an_upstream_says(made: Call, value: str) -> None:
    made.begin_attempt(kit.route(value, f"m={value}"), value)
    made.attempt.reply_headers = {"retry-after": value, "x-ratelimit-x": value, "x-request-id": value}
    assert all(header.isascii() and header.isprintable() for header in made.answer_headers().values())


async def test_sending_puts_the_head_first_and_notes_the_time() -> None:
    made = call(stream=True)
    await made.send(b"one", 105.0)
    await made.send(b"two", 106.0)
    assert (client_of(made).body, len(client_of(made).heads)) == (b"onetwo", 1)
    assert (made.delivery.last_write, made.delivery.writing) == (106.0, False)


async def test_a_send_that_does_not_get_through_stays_noted() -> None:
    made = call(stream=True)
    client_of(made).reading.clear()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(made.send(b"one", 105.0), 0.01)
    assert made.delivery.writing


async def ended(made: Call, *, stream: bool) -> bool:
    """Whether the loss of its client ends a call."""
    made.task = asyncio.get_running_loop().create_task(asyncio.sleep(3600))
    client_of(made).leave()
    await asyncio.sleep(0)
    found = made.task.cancelling() > 0
    made.task.cancel()
    return found


@pytest.mark.parametrize(
    ("stream", "routed", "finish", "ends"),
    [
        (True, False, True, True),
        (True, True, True, True),
        (False, False, True, False),
        (False, True, True, False),
        (False, True, False, True),
    ],
)
async def test_whom_the_loss_of_a_client_ends(stream: bool, routed: bool, finish: bool, ends: bool) -> None:
    made = call(stream=stream)
    if routed:
        made.begin_attempt(kit.route(finish_abandoned=finish), "")
    assert await ended(made, stream=stream) is ends
    assert made.result.ended_by is (Outcome.CLIENT_CLOSED if ends else None)


async def test_the_first_reason_to_end_stays(made: Call) -> None:
    made.task = asyncio.get_running_loop().create_task(asyncio.sleep(3600))
    made.end(Outcome.TIMEOUT)
    made.end(Outcome.CANCELLED)
    assert (made.result.ended_by, made.task.cancelling()) == (Outcome.TIMEOUT, 1)


def test_a_call_without_a_task_cannot_be_ended(made: Call) -> None:
    made.end(Outcome.CANCELLED)
    assert made.result.ended_by is None
