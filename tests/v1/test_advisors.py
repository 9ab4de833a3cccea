"""Another model that works on an answer of Anthropic's is charged and held for at its own price."""

from gateway.domain.channel import Dialect
from gateway.domain.price import Tier
from gateway.domain.units import DOLLAR, Nanos
from tests.fakes.gateway import Gateway
from tests.fakes.messages import message
from tests.fakes.provider import Provider
from tests.fakes.replies import reply


async def test_an_advisor_is_charged_and_held_for_at_its_own_price(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, "m", "big=claude-big", dialect=Dialect.ANTHROPIC)
    gateway.price("m", input=Nanos(3 * DOLLAR), output=Nanos(15 * DOLLAR))
    gateway.price("big", input=Nanos(5 * DOLLAR), output=Nanos(25 * DOLLAR))
    doc, step = message(), {"type": "message", "input_tokens": 100, "output_tokens": 10}
    advice = {**step, "type": "advisor_message", "model": "claude-big-20260301", "output_tokens": 20}
    doc["usage"] |= {"iterations": [step, advice]}
    provider.on("m", reply(doc))
    tool = {"type": "advisor_20260301", "name": "advisor", "model": "claude-big", "max_uses": 1, "max_tokens": 1000}
    await gateway.client.messages()
    await gateway.client.messages(tools=[tool])
    plain, advised = gateway.records
    assert (advised.cost, advised.marks) == (100 * 3_000 + 10 * 15_000 + 100 * 5_000 + 20 * 25_000, ())
    assert advised.held - plain.held > 1000 * 25_000
    assert (advised.input, advised.output, advised.parts) == (200, 30, {"other_input": 100, "other_output": 20})
    gateway.change("prices", "big", None)
    await gateway.client.messages()
    unknown = gateway.records[-1]
    assert (unknown.cost, unknown.marks) == (200 * 3_000 + 30 * 15_000, ("upstream_extra=iteration:advisor_message",))


async def test_a_fallback_that_the_vendor_tries_is_held_for(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, "m", "big=claude-big", dialect=Dialect.ANTHROPIC)
    tier = Tier(above=150, input=Nanos(90 * DOLLAR), output=Nanos(90 * DOLLAR))
    gateway.price("m", input=Nanos(3 * DOLLAR), output=Nanos(15 * DOLLAR), tiers=(tier,))
    gateway.price("big", input=Nanos(50 * DOLLAR), output=Nanos(250 * DOLLAR))
    doc, step = message(), {"type": "message", "input_tokens": 100, "output_tokens": 5}
    doc["usage"] |= {"iterations": [step, {**step, "type": "fallback_message", "model": "claude-big"}]}
    provider.on("m", reply(doc))
    said = [{"role": "user", "content": "x" * 300}]
    await gateway.client.messages(max_tokens=5, messages=said, fallbacks=[{"model": "claude-big"}])
    assert gateway.record.cost == 100 * 3_000 + 5 * 15_000 + 100 * 50_000 + 5 * 250_000
    assert gateway.record.cost <= gateway.record.held
