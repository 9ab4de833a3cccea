"""Blocks that only Anthropic takes are texts for a Messages channel that refuses them: a session goes on there."""

import pytest

from gateway.domain.channel import Dialect
from tests.fakes.gateway import Gateway
from tests.fakes.messages import speak_messages
from tests.fakes.provider import Exchange, Provider
from tests.fakes.replies import Doc, dumps, reply
from tests.v1.test_deferred_tools import refusal

FALLBACK: Doc = {"type": "fallback", "from": {"model": "a"}, "to": {"model": "m"}}
SUMMARY: Doc = {"type": "compaction", "content": "What came before."}
COMMENT: Doc = {"type": "connector_text", "text": "I look.", "signature": "x"}
SEARCH: Doc = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "rain"}}
FOUND: Doc = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
TEXT: Doc = {"type": "text", "text": "Hello"}
PYDANTIC = (
    "[{'type': 'literal_error', 'loc': ('body', 'messages', 1, 'content', 'list[AnthropicContentBlock]', 0, 'type'),"
    " 'msg': \"Input should be 'text', 'image' or 'tool_use'\", 'input': '%s', 'ctx': {'expected': \"'text'\"}}]"
)
WORDS = {
    "anthropic": "messages.1.content.0: Input tag '%s' found using 'type' does not match the expected tags: 'text'",
    "deepseek": "messages[1].content[0].type: unknown variant `%s`, expected one of `text`, `tool_use`",
    "vllm": PYDANTIC,
    "kimi": "Invalid request Error",
}
BLOCKS: dict[str, tuple[list[Doc], list[str]]] = {
    "fallback": ([FALLBACK], ["[fallback]"]),
    "compaction": ([SUMMARY], ["[compaction]\n\nWhat came before."]),
    "connector_text": ([COMMENT], ["[connector_text]\n\nI look."]),
    "server_tool_use": ([SEARCH, FOUND], ["[server_tool_use web_search]\n\nrain", "[web_search_tool_result]"]),
}


@pytest.mark.parametrize("kind", BLOCKS)
@pytest.mark.parametrize("words", WORDS)
async def test_a_refused_block_becomes_a_text(gateway: Gateway, provider: Provider, words: str, kind: str) -> None:
    blocks, texts = BLOCKS[kind]
    message = WORDS[words] % kind if "%" in WORDS[words] else WORDS[words]

    async def strict(exchange: Exchange) -> None:
        types = {block["type"] for block in exchange.json["messages"][1]["content"]}
        await (speak_messages() if types == {"text"} else reply(refusal(message), status=400))(exchange)

    gateway.channel(provider.base_url, dialect=Dialect.ANTHROPIC)
    provider.on("m", strict)
    assistant = {"role": "assistant", "content": [*blocks, TEXT]}
    messages = [{"role": "user", "content": "Hi"}, assistant, {"role": "user", "content": "And?"}]
    answer = await gateway.client.ask(
        "POST", "/v1/messages", dumps({"model": "m", "max_tokens": 9, "messages": messages})
    )
    assert answer.status == 200
    sent = provider.exchanges[-1].json["messages"]
    assert [block["text"] for block in sent[1]["content"]] == [*texts, "Hello"]
    assert answer.head.get("x-gateway-dropped-params") == (
        "messages[].content" if words == "kimi" else f"messages[].{kind}"
    )


async def test_a_refused_text_stays_refused(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, dialect=Dialect.ANTHROPIC)
    provider.on("m", reply(refusal(WORDS["anthropic"] % "text"), status=400))
    messages = [{"role": "user", "content": [TEXT]}]
    answer = await gateway.client.ask(
        "POST", "/v1/messages", dumps({"model": "m", "max_tokens": 9, "messages": messages})
    )
    assert (answer.status, len(provider.exchanges)) == (400, 1)


async def test_a_server_that_wants_the_system_first_gets_reminders_from_the_user(
    gateway: Gateway, provider: Provider
) -> None:
    """Ollama's templates say so of Messages, whose system prompt is not a message."""
    gateway.channel(provider.base_url, dialect=Dialect.ANTHROPIC)
    provider.on("m", reply(refusal("system message must be at the beginning"), status=500), speak_messages())
    messages = [{"role": role, "content": role} for role in ("user", "system", "user")]
    body = {"model": "m", "max_tokens": 9, "system": "Be", "messages": messages}
    assert (await gateway.client.ask("POST", "/v1/messages", dumps(body))).status == 200
    assert [message["role"] for message in provider.exchanges[-1].json["messages"]] == ["user", "user", "user"]
