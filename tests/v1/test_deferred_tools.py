"""Tools that are loaded later reach a Messages channel as they are, and one that refuses them as ordinary tools."""

from collections.abc import Sequence

import pytest

from gateway.domain.channel import Dialect
from tests.fakes.client import Answer
from tests.fakes.gateway import Gateway
from tests.fakes.messages import speak_messages
from tests.fakes.provider import Provider
from tests.fakes.replies import Doc, dumps, reply

BETAS = "claude-code-20250219,advanced-tool-use-2025-11-20,tool-search-tool-2025-10-19,effort-2025-11-24"
SEARCH: Doc = {"name": "ToolSearch", "input_schema": {"type": "object"}}
FOUND: Doc = {"name": "mcp__db__query", "input_schema": {"type": "object"}}
REFERENCES: Sequence[Doc] = (
    {"type": "tool_reference", "tool_name": "mcp__db__query"},
    {"type": "text", "text": "one tool"},
)


def request(result: Sequence[Doc] = REFERENCES, **found: bool) -> Doc:
    """What Claude Code sends after its search has found a tool."""
    call = {"type": "tool_use", "id": "toolu_1", "name": "ToolSearch", "input": {"query": "select:mcp__db__query"}}
    return {
        "model": "m",
        "max_tokens": 100,
        "tools": [SEARCH, {**FOUND, **found}],
        "messages": [
            {"role": "user", "content": "Look."},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": list(result)}]},
        ],
    }


DEFERRED = request(defer_loading=True)


def refusal(message: str) -> bytes:
    return dumps({"type": "error", "error": {"type": "invalid_request_error", "message": message}})


async def post(gateway: Gateway, body: Doc) -> Answer:
    headers = {"anthropic-version": "2023-06-01", "anthropic-beta": BETAS}
    return await gateway.client.ask("POST", "/v1/messages", dumps(body), headers)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "tools.1.custom.defer_loading: Extra inputs are not permitted"),
        (400, "messages.2.content.0.tool_result.content.0.type: Input should be 'text' or 'image'"),
        (422, "messages[2].content[0]: unknown variant `tool_reference`, expected `text` or `image`"),
        (400, "Unexpected value(s) `advanced-tool-use-2025-11-20` for the `anthropic-beta` header"),
        (400, "invalid beta flag"),
        (400, "Tool reference 'mcp__db__query' not found in available tools"),
    ],
)
async def test_refused_deferred_tools_become_ordinary_ones(
    gateway: Gateway, provider: Provider, status: int, message: str
) -> None:
    gateway.channel(provider.base_url, dialect=Dialect.ANTHROPIC)
    provider.on("m", reply(refusal(message), status=status), speak_messages())
    answer = await post(gateway, DEFERRED)
    first, second = provider.exchanges
    assert (answer.status, first.json) == (200, DEFERRED)
    text = {"type": "text", "text": "[tool_reference mcp__db__query]"}
    assert second.json == request([text, REFERENCES[1]])
    assert second.head.get("anthropic-beta") == "claude-code-20250219,effort-2025-11-24"
    assert answer.head.get("x-gateway-dropped-params") == "defer_loading"
    record = (await gateway.settled(1))[0]
    assert (record.status, record.cost > 0) == (200, True)


@pytest.mark.parametrize("message", ["Invalid request Error", "messages.1.content.0: unknown variant tool_addition"])
async def test_refused_tool_additions_go_into_the_list(gateway: Gateway, provider: Provider, message: str) -> None:
    gateway.channel(provider.base_url, dialect=Dialect.ANTHROPIC)
    added = {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": {**FOUND, "description": "d"}}}
    gone = {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "ToolSearch"}}
    asked = [{"role": "user", "content": "Look."}]
    plain = {"model": "m", "max_tokens": 100, "tools": [SEARCH], "messages": asked}
    news = [
        {"role": "system", "content": [added]},
        {"role": "system", "content": [{"type": "text", "text": "a"}, gone]},
    ]
    body = {**plain, "messages": [*asked, *news]}
    provider.on("m", reply(refusal(message), status=400), speak_messages())
    assert (await post(gateway, body)).status == 200
    said = {"role": "system", "content": [{"type": "text", "text": "a"}]}
    tools = [{**FOUND, "description": "d"}]
    assert provider.last.json == {**plain, "tools": tools, "messages": [*asked, said]}


@pytest.mark.parametrize(
    ("message", "body"),
    [
        ("max_tokens: must be greater than 0", DEFERRED),
        ("messages.2.content.0.tool_result: missing", {**request([REFERENCES[1]]), "tools": [SEARCH]}),
    ],
)
async def test_other_refusals_are_passed_on(gateway: Gateway, provider: Provider, message: str, body: Doc) -> None:
    gateway.channel(provider.base_url, dialect=Dialect.ANTHROPIC)
    provider.on("m", reply(refusal(message), status=400))
    answer = await post(gateway, body)
    assert (answer.status, answer.body, len(provider.exchanges)) == (400, refusal(message), 1)


async def test_a_channel_that_takes_them_gets_the_clients_own_bytes(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, dialect=Dialect.ANTHROPIC)
    provider.on("m", speak_messages())
    assert (await post(gateway, DEFERRED)).status == 200
    assert provider.last.body == dumps(DEFERRED)
    assert provider.last.head.get("anthropic-beta") == BETAS
