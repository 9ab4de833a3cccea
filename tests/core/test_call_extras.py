"""What a call may be billed for in addition to plain text, held before it is sent."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from gateway.core.call_extras import call_extras, other_models_cost
from gateway.domain.channel import Channel, Dialect, Overrides, ServedModel
from gateway.domain.cost import CallExtras, cost, highest_cost
from gateway.domain.price import Price, PriceRule, rates
from gateway.domain.units import DOLLAR, MILLION, Nanos
from gateway.domain.usage import Usage
from gateway.inbound.api import HttpRequest, InboundApi
from gateway.inbound.chat.api import CHAT
from gateway.inbound.messages.api import MESSAGES
from gateway.inbound.responses.api import RESPONSES
from tests.core.kit import ask, channel

PRICE = Price(
    model="m",
    input=Nanos(2 * DOLLAR),
    output=Nanos(10 * DOLLAR),
    extras={"searches": Nanos(DOLLAR // 100), "images": Nanos(DOLLAR // 50)},
    rules=(
        PriceRule(variant="flex", input=Nanos(DOLLAR), output=Nanos(5 * DOLLAR)),
        PriceRule(variant="priority", input=Nanos(4 * DOLLAR), output=Nanos(20 * DOLLAR)),
        PriceRule(variant="fast", input=Nanos(12 * DOLLAR), output=Nanos(60 * DOLLAR)),
        PriceRule(variant="batch", input=Nanos(90 * DOLLAR), output=Nanos(90 * DOLLAR)),
    ),
)
PICTURE = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://a.example/b.png"}}] * 3}


def held(at: Channel, name: str = "m", **fields: Any) -> Nanos:
    """What a call of a million tokens each way holds."""
    extras = call_extras(ask(**fields), [(at, ServedModel(name="m", upstream=name))], [PRICE])
    return highest_cost(PRICE, MILLION, MILLION, MILLION, extras)


ANSWERS = [
    # dialect, what is sent, what the vendors' documents say that may be answered
    (Dialect.OPENAI, {}, ("", "flex", "priority")),
    (Dialect.OPENAI, {"service_tier": "auto"}, ("", "flex", "priority")),
    (Dialect.OPENAI, {"service_tier": "a new one"}, ("", "flex", "priority", "fast")),
    (Dialect.OPENAI, {"service_tier": "default"}, ("",)),
    (Dialect.OPENAI, {"service_tier": "flex"}, ("", "flex")),
    (Dialect.OPENAI, {"service_tier": "priority"}, ("", "priority")),
    (Dialect.OPENAI, {"service_tier": "fast"}, ("", "priority")),
    (Dialect.ANTHROPIC, {}, ("",)),
    (Dialect.ANTHROPIC, {"speed": "fast"}, ("", "fast")),
    (Dialect.ANTHROPIC, {"service_tier": "standard_only"}, ("",)),
    (Dialect.GEMINI, {}, ("",)),
    (Dialect.GEMINI, {"service_tier": "priority"}, ("", "priority")),
]


@pytest.mark.parametrize(("dialect", "sent", "answered"), ANSWERS)
@given(counts=st.tuples(*[st.integers(0, MILLION)] * 2))
def test_a_hold_covers_every_tier_that_may_be_answered(
    dialect: Dialect, sent: dict[str, str], answered: tuple[str, ...], counts: tuple[int, int]
) -> None:
    most = held(channel(dialect=dialect), **sent)
    for variant in answered:
        usage = Usage(input=counts[0], output=counts[1], variant=variant)
        assert cost(usage, rates(PRICE, usage.input, MILLION, variant)) <= most


@pytest.mark.parametrize(
    ("fields", "tier", "dollars"),
    [
        ({"dialect": Dialect.OPENAI}, "default", 12),
        ({"dialect": Dialect.OPENAI}, "flex", 12),
        ({"dialect": Dialect.GEMINI}, None, 12),
        ({"dialect": Dialect.ANTHROPIC}, "standard_only", 12),
        ({"overrides": Overrides(set={"service_tier": "default"})}, "priority", 12),
        ({"overrides": Overrides(default={"service_tier": "default"})}, "priority", 72),
        ({"overrides": Overrides(remove=("service_tier",), default={"service_tier": "flex"})}, "priority", 12),
        ({"overrides": Overrides(set={"service_tier": 7})}, "priority", 72),
    ],
)
def test_a_hold_leaves_out_what_is_impossible_there(fields: dict[str, Any], tier: str | None, dollars: int) -> None:
    sent = {} if tier is None else {"service_tier": tier}
    assert held(channel(**fields), **sent) == dollars * DOLLAR


@pytest.mark.parametrize(
    ("api", "preset", "tier", "dollars"),
    [
        (CHAT, "groq", "default", 12),
        (CHAT, "gemini-openai", "default", 72),
        (RESPONSES, "openai", "default", 12),
        (RESPONSES, "groq", "default", 72),
        (MESSAGES, "openai", "standard_only", 12),
        (MESSAGES, "openai", "flex", 72),
        (MESSAGES, "mistral", "standard_only", 72),
    ],
)
def test_a_service_tier_that_a_translation_leaves_out_rules_nothing_out(
    api: InboundApi, preset: str, tier: str, dollars: int
) -> None:
    said = (
        {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 9} if api is not RESPONSES else {"input": "Hi"}
    )
    body = msgspec.json.encode({"model": "m", "service_tier": tier, **said})
    request = api.parse(HttpRequest(body=body, target="/", headers={}))
    extras = call_extras(request, [(channel(preset=preset), ServedModel(name="m"))], [PRICE])
    assert highest_cost(PRICE, MILLION, MILLION, MILLION, extras) == dollars * DOLLAR


@pytest.mark.parametrize(
    ("name", "preset", "sent", "searches"),
    [
        ("m", "", {}, 0),
        ("m", "", {"tools": [{"type": "web_search_preview"}]}, 10),
        ("m", "", {"tools": [{"googleSearch": {}}]}, 10),
        ("m", "", {"tools": [{"type": "web_search_20250305", "max_uses": 3}]}, 3),
        ("m", "", {"tools": [{"type": "web_search_20250305"}, {"type": "advisor_1", "max_uses": 0}]}, 10),
        ("m", "", {"tools": [{"type": "web_search"}, {"type": "file_search", "max_uses": 2}]}, 12),
        ("m", "", {"tools": [{"type": "function", "function": {"name": "web_search"}}]}, 0),
        ("m", "", {"tools": [{"name": "web_search", "input_schema": {"default": {"max_uses": 9}}}]}, 0),
        ("m", "", {"web_search_options": {}}, 10),
        ("gpt-4o-search-preview", "", {}, 10),
        ("openai/gpt-4o:online", "openrouter", {}, 10),
        ("perplexity/sonar-pro", "", {}, 10),
    ],
)
def test_searches_are_held_for_where_possible(name: str, preset: str, sent: dict[str, Any], searches: int) -> None:
    most = held(channel(preset=preset), name, service_tier="default", **sent)
    assert most == 12 * DOLLAR + searches * DOLLAR // 100


@pytest.mark.parametrize("parameters", [{"plugins": [{"id": "web"}]}, {"tools": [{"type": "web_search"}]}])
def test_searches_that_the_owner_of_a_channel_allows_are_held_for(parameters: dict[str, Any]) -> None:
    for overrides in (Overrides(set=parameters), Overrides(default=parameters)):
        most = held(channel(overrides=overrides), service_tier="default")
        assert most == 12 * DOLLAR + 10 * DOLLAR // 100


@pytest.mark.parametrize(
    ("fallbacks", "outputs"),
    [
        (b'[{"model":"big"}]', [700]),
        (b'[{"model":"big","max_tokens":900},{"model":"big","max_tokens":5}]', [900, 700]),
        (b'[{"model":"small"}]', []),
        (b'["big"]', []),
        (b'"big"', []),
    ],
)
def test_each_fallback_that_a_request_names_is_held_for(fallbacks: bytes, outputs: list[int]) -> None:
    big = Price(model="big", input=Nanos(5 * DOLLAR), output=Nanos(25 * DOLLAR))
    fields = {"fallbacks": msgspec.Raw(fallbacks)}
    most = other_models_cost(fields, 10_000, 700, lambda name: [big] if name == "big" else [])
    assert most == sum(10_000 * 5_000 + output * 25_000 for output in outputs)


def test_a_fee_is_held_for_each_picture() -> None:
    assert held(channel(), service_tier="default", messages=[PICTURE]) == 12 * DOLLAR + 3 * DOLLAR // 50


LONG = {"type": "text", "text": "a", "prompt_cache_breakpoint": {"ttl": "12h"}}


@pytest.mark.parametrize(
    ("sent", "overrides", "dollars"),
    [
        ({}, None, 5),
        ({"prompt_cache_options": {"ttl": "30m"}}, None, 5),
        ({"prompt_cache_options": {"ttl": "12h"}}, None, 10),
        ({"messages": [{"role": "user", "content": [LONG]}]}, None, 10),
        ({}, Overrides(set={"prompt_cache_options": {"ttl": "12h"}}), 10),
    ],
)
def test_writes_to_a_cache_for_12_hours_are_held_for_where_they_are_asked_for(
    sent: dict[str, Any], overrides: Overrides | None, dollars: int
) -> None:
    price = Price(
        model="m",
        input=Nanos(4 * DOLLAR),
        output=Nanos(0),
        cache_write=Nanos(5 * DOLLAR),
        extras={"cache_write_12h": Nanos(10 * DOLLAR)},
    )
    extras = call_extras(ask(**sent), [(channel(overrides=overrides), ServedModel(name="m"))], [price])
    assert highest_cost(price, MILLION, 0, MILLION, extras) == dollars * DOLLAR


def test_an_escaped_time_to_live_is_seen() -> None:
    request = msgspec.structs.replace(ask(), body=b'{"prompt_cache_options":{"ttl":"\\u0031\\u0032h"}}')
    price = Price(model="m", input=Nanos(0), output=Nanos(0), extras={"cache_write_12h": Nanos(DOLLAR)})
    assert call_extras(request, [], [price]).cached_12h


@pytest.mark.parametrize(
    ("tools", "calls", "output"),
    [
        (b'[{"type":"advisor_20260301","name":"advisor","model":"big","max_uses":2,"max_tokens":2000}]', 2, 2000),
        (b'[{"type":"advisor_20260301","model":"big"},{"type":"custom","input_schema":{}}]', 3, 4096),
        (b'[{"type":"\\u0061dvisor_20260301","model":"big"}]', 3, 4096),
        (b'[{"type":"advisor_20260301","model":"another"}]', 0, 0),
        (b'[{"type":"custom","name":"advisor","model":"big"}]', 0, 0),
        (b'[{"type":"advisor_20260301","model":"big","max_uses":null,"max_tokens":null}]', 3, 4096),
        (b'[{"type":7},{"type":"advisor_20260301","model":"big","max_uses":true,"max_tokens":-1}]', 3, 4096),
        (b'[{"type":"advisor_20260301","model":7}]', 0, 0),
        (b'[3,{"type":"advisor_20260301","model":"big"}]', 0, 0),
        (b"", 0, 0),
    ],
)
def test_each_use_of_an_advisor_is_held_for_at_its_own_price(tools: bytes, calls: int, output: int) -> None:
    big = Price(model="big", input=Nanos(5 * DOLLAR), output=Nanos(25 * DOLLAR))
    fields = {"tools": msgspec.Raw(tools)}
    most = other_models_cost(fields, 10_000, 700, lambda name: [big] if name == "big" else [])
    assert most == calls * (10_000 * 5_000 + output * 25_000)
    extras = CallExtras(advisor_cost=most)
    plain, held = (highest_cost(PRICE, 10, 10, 2 * MILLION, each) for each in (CallExtras(), extras))
    assert held == plain + 2 * most


def test_an_advisor_is_held_for_as_the_call_may_be_processed() -> None:
    fields = {"tools": msgspec.Raw(b'[{"type":"advisor_20260301","model":"m","max_uses":1,"max_tokens":10}]')}
    text = Price(model="m", input=PRICE.input, output=PRICE.output, rules=PRICE.rules)
    costs = [other_models_cost(fields, 100, 0, lambda _: [text], variants) for variants in ((), ("fast",))]
    assert costs == [100 * 2_000 + 10 * 10_000, 100 * 12_000 + 10 * 60_000]
