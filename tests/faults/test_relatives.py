"""Defects that gateways of this kind really had, each with a test, unless another file here has it."""

import pytest

from gateway.domain.usage import UsageSource
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider, Script
from tests.fakes.replies import chunk, cut, delta, fail, reply, slam, speak, story, stream, tool_call, whole


@pytest.mark.parametrize("bad", [slam, fail(500), fail(401), fail(429), cut(*story("a")[:1])])
@pytest.mark.parametrize("streamed", [False, True])
async def test_one_hold_a_call_and_it_ends(gateway: Gateway, provider: Provider, bad: Script, streamed: bool) -> None:
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


SILENT: dict[str, list[dict[str, object]]] = {
    "tool calls": [{"tool_calls": [tool_call(0, "call_a", "look_something_up", '{"where":"in the long book"}')]}],
    "reasoning": [{"reasoning_content": "first I think about it for a long while"}],
    "refusal": [{"refusal": "I would rather not talk about any of this"}],
}


@pytest.mark.parametrize("name", SILENT)
@pytest.mark.parametrize("streamed", [False, True])
async def test_output_other_than_text_counts(gateway: Gateway, provider: Provider, name: str, streamed: bool) -> None:
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
