"""Defects that gateways of this kind really had, each with a test, unless another file here has it."""

import asyncio

import pytest

from gateway.domain.call import FailureKind
from gateway.domain.channel import Timeouts
from gateway.domain.limits import Limits
from gateway.domain.usage import UsageSource
from tests.conformance.shapes import error_faults, stream_faults
from tests.fakes.client import Answer
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider, Script
from tests.fakes.replies import (
    chunk,
    cut,
    delta,
    fail,
    reply,
    silence,
    slam,
    speak,
    story,
    stream,
    tool_call,
    usage,
    whole,
)


def two_channels(gateway: Gateway, provider: Provider, bad: Script, **fields: object) -> None:
    """Two channels of one priority; whichever is tried first, ``bad`` answers, and then only the other does."""
    gateway.channel(provider.base_url, "m=one", name="up", **fields)
    gateway.channel(provider.base_url, "m=two", name="two", **fields)
    for upstream in ("one", "two"):
        provider.on(upstream, bad)


async def test_r1_the_channel_that_failed_is_not_drawn_again(gateway: Gateway, provider: Provider) -> None:
    for _ in range(8):
        two_channels(gateway, provider, fail(500))
        for name in ("up", "two"):
            gateway.engine.health.clear(gateway.engine.catalog.channel(name).id)
        before = len(provider.exchanges)
        await gateway.client.chat()
        asked = [exchange.json["model"] for exchange in provider.exchanges[before:]]
        assert sorted(asked) == ["one", "two"]


async def test_r3_the_top_tier_is_used_up_before_the_next(gateway: Gateway, provider: Provider) -> None:
    two_channels(gateway, provider, fail(500))
    gateway.channel(provider.base_url, "m=low", name="low", priority=-1)
    provider.on("low", speak())
    assert (await gateway.client.chat()).text == "Hello"
    asked = [exchange.json["model"] for exchange in provider.exchanges]
    assert sorted(asked[:2]) == ["one", "two"]
    assert asked[2:] == ["low"]


@pytest.mark.parametrize("bad", [slam, fail(500), fail(401), fail(429), cut(*story("a")[:1])])
@pytest.mark.parametrize("streamed", [False, True])
async def test_r4_one_hold_a_call_and_it_ends(
    gateway: Gateway, provider: Provider, bad: Script, streamed: bool
) -> None:
    holds: list[int] = []
    gateway.channel(provider.base_url, "m=one", name="up", priority=1)
    gateway.channel(provider.base_url, "m=two", name="two")

    async def watching(exchange: object) -> None:
        holds.append(gateway.engine.store.books.held(("account", "")).nanos)
        await speak()(exchange)  # type: ignore[arg-type]

    provider.on("one", bad)
    provider.on("two", watching)
    answer = await gateway.client.chat(stream=streamed, max_tokens=10)
    (record,) = await gateway.settled()
    assert holds in ([record.held], [])
    assert answer.status == 200 or not holds
    assert gateway.engine.store.books.available() == gateway.engine.store.books.balance()


@pytest.mark.parametrize("weights", [(0, 5), (0, 0)])
async def test_r5_a_weight_of_zero_is_never_drawn_unless_all_are(
    gateway: Gateway, provider: Provider, weights: tuple[int, int]
) -> None:
    provider.other = speak()
    for name, weight in zip(("one", "two"), weights, strict=True):
        gateway.channel(provider.base_url, f"m={name}", name="up" if name == "one" else name, weight=weight)
    for _ in range(24):
        await gateway.client.chat()
    asked = {exchange.json["model"] for exchange in provider.exchanges}
    assert asked == ({"two"} if any(weights) else {"one", "two"})


async def test_r6_what_follows_the_usage_does_not_lose_it(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", stream(*story("Hel", "lo"), chunk(usage=usage(9, 12)), chunk(), chunk(usage=None)))
    answer = await gateway.client.chat(stream=True, stream_options={"include_usage": True})
    assert stream_faults(answer.body, usage="yes") == []
    assert (gateway.record.input, gateway.record.output, gateway.record.source) == (9, 12, UsageSource.REPORTED)


SILENT: dict[str, list[dict[str, object]]] = {
    "tool calls": [{"tool_calls": [tool_call(0, "call_a", "look_something_up", '{"where":"in the long book"}')]}],
    "reasoning": [{"reasoning_content": "first I think about it for a long while"}],
    "refusal": [{"refusal": "I would rather not talk about any of this"}],
}


@pytest.mark.parametrize("name", SILENT)
@pytest.mark.parametrize("streamed", [False, True])
async def test_r7_output_that_is_not_text_is_counted(
    gateway: Gateway, provider: Provider, name: str, streamed: bool
) -> None:
    if streamed:
        docs = [chunk(delta(**more)) for more in SILENT[name]]  # type: ignore[arg-type]
        provider.on("m", stream(story()[0], *docs, chunk(delta(finish="stop"))))
    else:
        doc = whole("m")
        doc["choices"][0]["message"] |= {"content": None, **SILENT[name][0]}
        provider.on("m", reply(doc))
    assert (await gateway.client.chat(stream=streamed)).status == 200
    assert gateway.record.source is UsageSource.ESTIMATED
    assert gateway.record.output >= 5


async def test_r14_no_refusal_has_an_empty_body(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", speak())
    client = gateway.token("slow", limits=Limits(rpm=1))
    assert (await client.chat()).status == 200
    answer = await client.chat()
    assert answer.refusal == (429, "rate_limit_exceeded", None)
    assert error_faults(answer.json) == []
    assert answer.error["type"] == "rate_limit_error"
    assert 1 <= int(answer.head.get("retry-after")) <= 60


@pytest.mark.parametrize("status", [408, 504])
async def test_r16_an_upstream_that_timed_out_may_be_followed_by_another(
    gateway: Gateway, provider: Provider, status: int
) -> None:
    gateway.channel(provider.base_url, "m=one", name="up", priority=1)
    gateway.channel(provider.base_url, "m=two", name="two")
    provider.on("one", fail(status))
    provider.on("two", speak())
    assert (await gateway.client.chat()).text == "Hello"


async def test_r16_silence_is_followed_by_another_once(gateway: Gateway, provider: Provider) -> None:
    for n in range(3):
        gateway.channel(provider.base_url, f"m=c{n}", name=f"c{n}", priority=9 - n, timeouts=Timeouts(head=0.1))
        provider.on(f"c{n}", silence)
    gateway.change("channels", "ch_up", None)
    assert (await gateway.client.chat()).refusal == (504, "upstream_timeout", None)
    assert [exchange.json["model"] for exchange in provider.exchanges] == ["c0", "c1"]


async def test_r17_stream_options_of_ours_are_withdrawn_where_they_are_refused(
    gateway: Gateway, provider: Provider
) -> None:
    gateway.channel(provider.base_url, strict=True)
    refused = fail(400, "Unknown parameter: 'stream_options'", code="unknown_parameter")
    provider.on("m", refused, speak())
    for _ in range(2):
        answer = await gateway.client.chat(stream=True)
        assert (answer.status, answer.text) == (200, "Hello")
        assert not answer.head.get("x-gateway-dropped-params")
    assert ["stream_options" in exchange.json for exchange in provider.exchanges] == [True, False, False]


async def test_r19_a_later_rest_is_never_shortened_by_a_shorter_one(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", fail(429, "slow", headers={"retry-after": "50"}), fail(429, "slow", headers={"retry-after": "7"}))
    for _ in range(2):
        await gateway.client.chat()
    state = gateway.engine.health.state(gateway.engine.catalog.channel("up"))
    assert state.name == "cooling"
    assert state.left_s > 40


async def test_r20_calls_that_are_refused_do_not_use_up_a_limit(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", speak())
    client = gateway.token("slow", limits=Limits(rpm=3, concurrent=1))
    for _ in range(10):
        assert (await client.chat("unknown")).status == 404
        assert (await client.post(b"{")).status == 400
    assert [(await client.chat()).status for _ in range(5)] == [200, 200, 200, 429, 429]
    assert len(provider.exchanges) == 3


async def test_r20_one_call_in_flight_means_one(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", speak())
    client = gateway.token("slow", limits=Limits(concurrent=1, queue=2))
    answers: list[Answer] = await asyncio.gather(*(client.chat() for _ in range(10)))
    statuses = [answer.status for answer in answers]
    assert set(statuses) <= {200, 429}
    assert len(provider.exchanges) == statuses.count(200) >= 1


async def test_r22_names_with_all_signs_work(gateway: Gateway, provider: Provider) -> None:
    names = ["a/b:free", "with blank", "ü-日本", "a@b+c", "50%", "x" * 200]
    gateway.channel(provider.base_url, *names)
    provider.other = speak()
    for name in names:
        answer = await gateway.client.chat(name)
        assert (answer.status, answer.json["model"], provider.last.json["model"]) == (200, name, name)
        assert answer.head.get("x-gateway-model").isascii()


async def test_limits_are_reported_on_every_answer(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", speak(prompt=9, completion=12))
    client = gateway.token("known", limits=Limits(rpm=60, tpm=100_000))
    answer = await client.chat(max_tokens=10)
    head = answer.head
    assert (head.get("x-ratelimit-limit-requests"), head.get("x-ratelimit-limit-tokens")) == ("60", "100000")
    assert int(head.get("x-ratelimit-remaining-requests")) == 59
    assert 99_000 < int(head.get("x-ratelimit-remaining-tokens")) < 100_000
    assert head.get("x-ratelimit-reset-requests").endswith("s")


async def test_a_call_larger_than_a_limit_is_reported_at_once(gateway: Gateway, provider: Provider) -> None:
    client = gateway.token("small", limits=Limits(tpm=50))
    answer = await client.chat(messages=[{"role": "user", "content": "word " * 200}])
    assert (answer.status, answer.error["code"]) == (429, "request_too_large_for_limit")
    assert not answer.head.get("retry-after")
    assert answer.head.get("x-should-retry") == "false"
    assert provider.exchanges == []


PROXY = "http://me:pw@127.0.0.1:1"


async def test_a_proxy_that_is_down_was_not_the_upstream(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, name="direct", priority=-1)
    gateway.channel(provider.base_url, proxy=PROXY)
    provider.on("m", speak())
    assert (await gateway.client.chat()).text == "Hello"
    record = gateway.record
    assert [(a.kind, a.billed) for a in record.attempts] == [(FailureKind.NETWORK, False), (None, False)]
    assert "the proxy 127.0.0.1:1 cannot be reached" in record.attempts[0].reason
    assert "pw" not in record.attempts[0].reason
