"""Agents that work through thirty tool calls, by each dialect, with clients that drop what is not OpenAI's."""

from collections.abc import Mapping
from typing import Any

import pytest
from openai import APIError, AsyncOpenAI

from gateway.domain.channel import Dialect
from tests.cases.conversations import function
from tests.conformance.sdk import openai
from tests.fakes.agents import Agent, ClaudeAgent, DeepSeekAgent, GeminiAgent
from tests.fakes.audit import verify
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Exchange, Provider
from tests.fakes.replies import Doc, reply

TEXT: Doc = {"type": "text", "text": "Read it."}
NO_THREADS: Doc = {
    "type": "error",
    "error": {
        "type": "invalid_request_error",
        "message": "Threads are not supported.",
        "details": {"error_code": "thread_unsupported_request"},
    },
}
RESULT = '{"lines": [1, 2], "size": 9007199254740993}'
SYSTEM = "You work on files. " * 200
AGENTS: Mapping[Dialect, tuple[type[Agent], str, str]] = {
    Dialect.OPENAI: (DeepSeekAgent, "deepseek", "deepseek-v4"),
    Dialect.ANTHROPIC: (ClaudeAgent, "anthropic", "claude-sonnet-4-5"),
    Dialect.GEMINI: (GeminiAgent, "gemini", "gemini-3.8-flash"),
}
EACH = pytest.mark.parametrize("dialect", AGENTS)


def _connect(gateway: Gateway, provider: Provider, dialect: Dialect, **fields: Any) -> Any:
    kind, preset, model = AGENTS[dialect]
    agent = kind(**fields)
    gateway.channel(provider.root(dialect), f"m={model}", dialect=dialect, preset=preset)
    provider.other = agent
    return agent


async def _work(client: AsyncOpenAI, *, stream: bool, talk: list[Any] | None = None) -> tuple[str, list[Any]]:
    """One conversation to its end; only what the SDK's types know of an answer goes back."""
    talk = talk or [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "Read them all."}]
    tools: Any = [function("read", path={"type": "string"})]
    while True:
        fields: Any = {"model": "m", "messages": talk, "tools": tools, "reasoning_effort": "low"}
        if stream:
            async with client.chat.completions.stream(**fields) as events:
                answer = await events.get_final_completion()
        else:
            answer = await client.chat.completions.create(**fields)
        message = answer.choices[0].message
        if not message.tool_calls:
            return message.content or "", talk
        calls = [
            {"id": c.id, "type": "function", "function": {"name": c.function.name, "arguments": c.function.arguments}}
            for c in message.tool_calls
        ]
        talk.append({"role": "assistant", "content": message.content, "tool_calls": calls})
        talk += [{"role": "tool", "tool_call_id": call["id"], "content": RESULT} for call in calls]


@pytest.mark.sampled(3)  # each dialect
@EACH
@pytest.mark.parametrize("stream", [False, True])
async def test_thirty_turns_are_all_billed(
    gateway: Gateway, provider: Provider, dialect: Dialect, *, stream: bool
) -> None:
    agent = _connect(gateway, provider, dialect)
    async with openai(gateway) as client:
        said, talk = await _work(client, stream=stream)
    assert (said, agent.refusals, len(talk)) == ("All done.", [], 2 + 2 * 30)
    records = await gateway.settled(31)
    billed = [(exchange.bill.input, exchange.bill.output) for exchange in provider.exchanges if exchange.bill]
    assert [(record.input, record.output) for record in records] == billed
    assert all(record.held >= record.cost for record in records)


@pytest.mark.sampled(3)  # each dialect
@EACH
@pytest.mark.parametrize("stream", [False, True])
async def test_anthropics_tool_runner_works_through_ten_turns(
    gateway: Gateway, provider: Provider, dialect: Dialect, *, stream: bool
) -> None:
    """It begins with a conversation that the upstream is to keep; none of them does."""
    from anthropic import AsyncAnthropic, beta_async_tool

    agent = _connect(gateway, provider, dialect, turns=10)

    async def without_threads(exchange: Exchange) -> None:
        await (reply(NO_THREADS, status=400) if "thread" in exchange.json else agent)(exchange)

    provider.other = without_threads
    root = gateway.base_url.removesuffix("/v1")

    @beta_async_tool
    async def read(path: str) -> str:
        """Read a file."""
        return RESULT + path

    async with AsyncAnthropic(base_url=root, api_key=gateway.client.key) as client:
        talk = [{"role": "user", "content": [TEXT]}]
        fields: Any = {"model": "m", "max_tokens": 8000, "messages": talk, "tools": [read], "stream": stream}
        runner: Any = client.beta.messages.tool_runner(**fields)
        said = [await one.get_final_message() if stream else one async for one in runner]
    assert (said[-1].content[-1].text, len(said), agent.refusals) == ("All done.", 11, [])
    records = await gateway.settled(11)
    billed = [(exchange.bill.input, exchange.bill.output) for exchange in provider.exchanges if exchange.bill]
    assert [(record.input, record.output) for record in records if record.status == 200] == billed
    assert verify(gateway.engine.store).equal


async def test_claude_thinks_in_all_of_the_loop_and_caches_what_it_has_read(
    gateway: Gateway, provider: Provider
) -> None:
    agent = _connect(gateway, provider, Dialect.ANTHROPIC)
    async with openai(gateway) as client:
        await _work(client, stream=True)
    assert agent.thinking == [True] * 31
    assert sum(record.cached for record in await gateway.settled(31)) == agent.cached
    assert agent.cached > 0.9 * agent.input


@EACH
async def test_a_second_question_follows_the_first(gateway: Gateway, provider: Provider, dialect: Dialect) -> None:
    agent = _connect(gateway, provider, dialect, turns=3)
    async with openai(gateway) as client:
        said, talk = await _work(client, stream=True)
        talk += [{"role": "assistant", "content": said}, {"role": "user", "content": "And again."}]
        agent.turns = 6
        said, _ = await _work(client, stream=True, talk=talk)
    assert (said, agent.refusals) == ("All done.", [])


@EACH
async def test_a_turn_that_was_cut_off_may_be_retried(gateway: Gateway, provider: Provider, dialect: Dialect) -> None:
    _connect(gateway, provider, dialect, turns=4, cut_at=2)
    async with openai(gateway) as client:
        with pytest.raises(APIError) as caught:
            await _work(client, stream=True)
        assert (caught.value.type, "please retry your request" in caught.value.message) == ("server_error", True)
        said, _ = await _work(client, stream=True)
    assert said == "All done."


async def test_one_token_does_not_get_the_reasoning_of_another(gateway: Gateway, provider: Provider) -> None:
    agent = _connect(gateway, provider, Dialect.OPENAI, turns=2)
    async with openai(gateway) as client:
        _, talk = await _work(client, stream=False)
    async with openai(gateway, api_key=gateway.token("other").key, max_retries=0) as client:
        with pytest.raises(APIError, match="Missing `reasoning_content` field"):
            await _work(client, stream=False, talk=talk)
    assert len(agent.refusals) == 2  # without reasoning, and with an empty one
    sent = [
        message["reasoning_content"] for message in provider.last.json["messages"] if message["role"] == "assistant"
    ]
    assert sent == ["", ""]
