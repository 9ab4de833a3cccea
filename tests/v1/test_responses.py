"""Which paths of the Responses API exist; input tokens are counted for nothing."""

from typing import Any

import pytest

from gateway.domain.limits import Limits
from tests.fakes.gateway import Gateway
from tests.fakes.obedient import obey
from tests.fakes.provider import Provider
from tests.fakes.replies import choice, dumps, reply, usage, whole


@pytest.mark.parametrize("path", ["/v1/conversations", "/v1/files", "/v1/vector_stores", "/v1/realtime"])
async def test_other_paths_name_what_exists(gateway: Gateway, path: str) -> None:
    answer = await gateway.client.get(path)
    assert answer.status == 404
    assert "POST /v1/responses," in answer.error["message"]
    assert "GET /v1/responses," not in answer.error["message"]


@pytest.mark.parametrize("path", ["/responses", "/v1/v1/responses", "/v1/responses/"])
async def test_the_path_is_found_however_it_is_spelled(gateway: Gateway, provider: Provider, path: str) -> None:
    gateway.channel(provider.base_url, preset="cerebras")
    provider.on("m", reply(whole("m", choice("Hi"), spent=usage())))
    answer = await gateway.client.ask("POST", path, dumps({"model": "m", "input": "hi"}))
    assert answer.json["output"][0]["content"][0]["text"] == "Hi"


@pytest.mark.parametrize(
    ("status", "message", "param"),
    [
        (400, "'type' of tool must be 'function'", None),  # llama.cpp
        (400, "Output of tool call should be 'Input text'", None),
        (400, "Cannot determine type of 'item'", None),
        (400, "tool type namespace not supported", None),  # vLLM
        (500, 'Failed to parse tools: Unsupported tool type: {"type":"namespace"}', None),  # Ollama
        (400, "Invalid", "tools.8.type"),  # LM Studio
        (400, "Invalid discriminator value. Expected 'function' | 'mcp'", "tools.6.type"),
        (400, "Unsupported Responses tool type: 'custom'", None),
        (400, "tools[8] must be a function tool", None),
        (400, "unknown tool type: namespace, currently only function and plugin are supported", None),  # Moonshot
        (400, "tools[0].type:type is illegal", None),  # Zhipu
        (400, "tools[0]: unknown variant `namespace`, expected one of `function`, `mcp`", None),
        (400, "Unsupported Responses API input item type: 'additional_tools'", None),
        (400, "Missing required parameter: 'input[0].content'.", "input[0].content"),
        (400, "Invalid input", "input"),
    ],
)
async def test_a_server_that_refuses_codex_tools_or_items_gets_chats_in_their_place_only(
    gateway: Gateway, provider: Provider, status: int, message: str, param: str | None
) -> None:
    gateway.channel(provider.base_url)
    refusal = dumps({"error": {"message": message, "type": "invalid_request_error", "param": param}})
    provider.on("m", reply(refusal, status=status), reply(whole("m", choice("Hi"), spent=usage())))
    function = {"type": "function", "name": "f", "parameters": {}}
    tool, more = {"type": "namespace", "name": "mcp", "tools": [function]}, {"type": "additional_tools", "tools": []}
    plain = {"model": "m", "input": [{"role": "user", "content": "a"}], "tools": [function]}
    codex = {**plain, "input": [more, *plain["input"]], "tools": [tool]}
    for count in (2, 3):
        answer = await gateway.client.ask("POST", "/v1/responses", dumps(codex))
        assert (answer.status, len(provider.exchanges)) == (200, count)
        assert provider.last.json["tools"][0]["function"]["name"] == "mcp__f"
    await gateway.settled(2)
    assert ["resent=1" in record.marks for record in gateway.records] == [True, False]
    provider.on("m", obey)
    assert (await gateway.client.ask("POST", "/v1/responses", dumps(plain))).status == 200
    assert (provider.last.path, provider.last.json) == ("/v1/responses", plain)


@pytest.mark.parametrize(
    "refusal",
    [
        {"error": {"message": "2 validation errors: {'loc': ('body', 'input', 'str'), 'msg': 'not a string'}"}},  # vLLM
        {"detail": [{"type": "missing", "loc": ["body", "input", 1, "id"], "msg": "Field required"}]},
        {"error": {"message": "Missing required parameter: 'input[1].id'.", "param": "input[1].id"}},
        {"error": {"message": "item['content'] is not an array"}},  # llama.cpp
        {"error": {"message": "unknown input item type: message"}},  # Ollama
    ],
)
async def test_a_server_that_refuses_how_items_are_written_gets_chats_for_what_goes_on(
    gateway: Gateway, provider: Provider, refusal: dict[str, Any]
) -> None:
    gateway.channel(provider.base_url)
    provider.on("m", reply(dumps(refusal), status=400), reply(whole("m", choice("Hi"), spent=usage())))
    first = {"model": "m", "input": [{"role": "user", "content": "a"}]}
    said = {"role": "assistant", "content": [{"type": "output_text", "text": "b"}]}
    going_on = dumps({"model": "m", "input": [*first["input"], said, *first["input"]]})
    for count in (2, 3):
        answer = await gateway.client.ask("POST", "/v1/responses", going_on)
        assert (answer.status, len(provider.exchanges), provider.last.path) == (200, count, "/v1/chat/completions")
    provider.on("m", obey)
    assert (await gateway.client.ask("POST", "/v1/responses", dumps(first))).status == 200
    assert provider.last.path == "/v1/responses"
    gateway.channel(provider.base_url, preset="groq")
    provider.on("m", reply(dumps(refusal), status=400))
    answer = await gateway.client.ask("POST", "/v1/responses", going_on)
    assert (answer.status, provider.last.path) == (400, "/v1/responses")


async def test_a_refusal_of_what_has_no_translation_is_passed_on(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url)
    refusal = dumps({"error": {"message": "Invalid input", "type": "invalid_request_error", "param": "input"}})
    provider.on("m", reply(refusal, status=400))
    items = [{"type": "compaction", "encrypted_content": "x"}, {"role": "user", "content": "a"}]
    for count in (1, 2):
        answer = await gateway.client.ask("POST", "/v1/responses", dumps({"model": "m", "input": items}))
        assert (answer.status, answer.body, len(provider.exchanges)) == (400, refusal, count)


async def test_chats_instead_of_responses_learn_from_refusals_too(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url)
    texts = ("'type' of tool must be 'function'", "System message must be at the beginning.")
    refusals = [reply(dumps({"error": {"message": text}}), status=400) for text in texts]
    provider.on("m", *refusals, reply(whole("m", choice("Hi"), spent=usage())))
    said = [{"role": role, "content": "a"} for role in ("user", "developer", "user")]
    tool = {"type": "namespace", "name": "mcp", "tools": [{"type": "function", "name": "f", "parameters": {}}]}
    for count in (3, 4):
        answer = await gateway.client.ask(
            "POST", "/v1/responses", dumps({"model": "m", "input": said, "tools": [tool]})
        )
        assert (answer.status, len(provider.exchanges)) == (200, count)
        assert [turn["role"] for turn in provider.last.json["messages"]] == ["system", "user", "user"]


async def test_openai_itself_refuses_wrong_tools(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, preset="openai")
    refusal = dumps({"error": {"message": "Invalid value: 'x'", "param": "tools[0].type", "code": "invalid_value"}})
    provider.on("m", reply(refusal, status=400))
    answer = await gateway.client.ask("POST", "/v1/responses", dumps({"model": "m", "input": "a", "tools": [{}]}))
    assert (answer.status, answer.body, len(provider.exchanges)) == (400, refusal, 1)


async def test_input_tokens_are_counted_for_nothing(gateway: Gateway, provider: Provider) -> None:
    client = gateway.token("poor", limits=Limits(rpm=1))
    body = dumps({"model": "m", "input": "How many tokens are these?", "instructions": "Count."})
    answers = [await client.ask("POST", "/v1/responses/input_tokens", body) for _ in range(3)]
    assert {answer.status for answer in answers} == {200}
    answer = answers[0]
    assert answer.json["object"] == "response.input_tokens"
    assert 5 < answer.json["input_tokens"] < 40
    assert (gateway.records, provider.exchanges) == ([], [])


async def test_an_unknown_model_has_no_tokens(gateway: Gateway) -> None:
    answer = await gateway.client.ask("POST", "/v1/responses/input_tokens", dumps({"model": "x", "input": "hi"}))
    assert answer.refusal == (400, "model_not_found", "model")
    assert gateway.record.status == 400


async def test_without_a_key_the_error_is_that_of_the_api(gateway: Gateway) -> None:
    answer = await gateway.client.ask("POST", "/v1/responses", dumps({"model": "m"}), {"authorization": None})
    assert (answer.status, answer.error["code"]) == (401, "missing_api_key")
