"""What only Anthropic takes is a text for a Messages channel that refuses it: a session goes on there."""

import pytest

from gateway.domain.channel import Dialect
from tests.fakes.gateway import Gateway
from tests.fakes.messages import speak_messages
from tests.fakes.provider import Provider
from tests.fakes.replies import Doc, reply
from tests.v1.test_deferred_tools import post, refusal

TEXT: Doc = {"type": "text", "text": "Hello"}
SEARCH: Doc = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "rain"}}
FOUND: Doc = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
ARK = "The parameter `messages.content.type` specified in the request are not valid: invalid value: `fallback`"
VLLM = "[{'loc': ('body', 'messages', 1, 'content', 'list[Block]', 0, 'type'), 'msg': 'No', 'input': 'fallback'}]"


@pytest.mark.parametrize(
    ("message", "blocks", "texts", "dropped"),
    [
        (
            "messages.1.content.0: Input tag 'fallback' found using 'type'",
            [{"type": "fallback"}],
            ["[fallback]"],
            "fallback",
        ),
        (VLLM, [{"type": "fallback"}], ["[fallback]"], "fallback"),
        (ARK, [{"type": "fallback"}], ["[fallback]"], "fallback"),
        (
            "messages[1].content[0].type: unknown variant `compaction`, expected one of `text`",
            [{"type": "compaction", "content": "Before."}],
            ["[compaction]\n\nBefore."],
            "compaction",
        ),
        (
            "messages.1.content.0: Input tag 'server_tool_use' found using 'type'",
            [SEARCH, FOUND],
            ["[server_tool_use web_search]\n\nrain", "[web_search_tool_result]"],
            "server_tool_use",
        ),
        ("Invalid request Error", [{"type": "note", "text": "I look."}], ["[note]\n\nI look."], "content"),  # Kimi
        ("messages.1.content.0: Input tag 'text' found using 'type'", [], None, ""),
    ],
)
async def test_a_refused_block_becomes_a_text(
    gateway: Gateway, provider: Provider, message: str, blocks: list[Doc], texts: list[str] | None, dropped: str
) -> None:
    gateway.channel(provider.base_url, dialect=Dialect.ANTHROPIC)
    provider.on("m", reply(refusal(message), status=400), speak_messages())
    turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": [*blocks, TEXT]}]
    answer = await post(gateway, {"model": "m", "max_tokens": 9, "messages": [*turns, turns[0]]})
    assert (answer.status, len(provider.exchanges)) == ((200, 2) if texts else (400, 1))
    if texts is not None:
        sent = provider.last.json["messages"][1]["content"]
        assert [block["text"] for block in sent] == [*texts, "Hello"]
        assert answer.head.get("x-gateway-dropped-params") == f"messages[].{dropped}"


async def test_ollama_gets_claude_codes_reminders_from_the_user(gateway: Gateway, provider: Provider) -> None:
    """Its templates say so of Messages, too, whose system prompt is not a message."""
    gateway.channel(provider.base_url, dialect=Dialect.ANTHROPIC)
    provider.on("m", reply(refusal("system message must be at the beginning"), status=500), speak_messages())
    messages = [{"role": role, "content": role} for role in ("user", "system", "user")]
    assert (await post(gateway, {"model": "m", "max_tokens": 9, "system": "Be", "messages": messages})).status == 200
    assert [message["role"] for message in provider.last.json["messages"]] == ["user", "user", "user"]


async def test_an_image_of_another_type_than_it_is_said_to_be_is_sent_as_what_it_is(
    gateway: Gateway, provider: Provider
) -> None:
    gateway.channel(provider.base_url, dialect=Dialect.ANTHROPIC)
    message = "messages.0.content.0.image.source.base64: The image was specified using the image/png media type, but"
    refused = refusal(f"{message} does not match the provided media type image/png")
    provider.on("m", reply(refused, status=400), speak_messages())
    source = {"type": "base64", "media_type": "image/png", "data": "/9j/4AAQSkZJRg=="}
    image = {"type": "image", "source": source}
    result = {"type": "tool_result", "tool_use_id": "t", "content": [image]}
    answer = await post(
        gateway, {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": [image, result]}]}
    )
    assert answer.head.get("x-gateway-dropped-params") == "messages[].media_type"
    sent, inner = provider.last.json["messages"][0]["content"]
    assert sent["source"] == inner["content"][0]["source"] == {**source, "media_type": "image/jpeg"}
