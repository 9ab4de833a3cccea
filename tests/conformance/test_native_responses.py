"""Channels that speak the Responses API: what the client sent arrives, and what came back is what was sent.

Long: requests, answers, streams and failures of one API share its recorded upstream.
"""

import json
from typing import Any

import pytest
from openai import APIError

from gateway.domain.answer import PLAIN_SEAL, seal_text
from gateway.domain.channel import Dialect, Overrides, ServedModel
from gateway.domain.units import MILLION, Nanos
from gateway.domain.usage import UsageSource
from tests.conformance.sdk import openai
from tests.fakes.client import Answer, Client
from tests.fakes.gateway import GRANTED, Gateway
from tests.fakes.provider import Provider, Script
from tests.fakes.replies import Doc, choice, chunk, cut, delta, dumps, fail, reply, slam, stream_bytes, usage, whole
from tests.fakes.responses import either, event, events_of, function_call, message, parsed, respond, response, spent

PATH = "/v1/responses"
CHAT = reply(whole("m", choice("translated"), spent=usage()))


async def call(gateway: Gateway, body: bytes | None = None, client: Client | None = None, **fields: Any) -> Answer:
    data = dumps({"model": "m", "input": "hi", **fields}) if body is None else body
    return await (client or gateway.client).ask("POST", PATH, data)


async def test_nothing_is_changed(gateway: Gateway, provider: Provider) -> None:
    data = b"".join(events_of(response(message("Hello"), function_call("f", "{}"))))
    provider.on("m", stream_bytes(data, size=50))
    body = (
        b'{ "model":"m","input": "hi" , "stream":true,"x":{"deep":[1.50, "\\ud83d"]}, "reasoning" : {"effort":"low"} }'
    )
    answer = await call(gateway, body)
    assert provider.last.body == body
    assert (provider.last.path, answer.body) == ("/v1/responses", data)
    record = gateway.record
    assert (record.input, record.output, record.finish) == (9, 12, "tool_calls")
    assert record.source is UsageSource.REPORTED


async def test_only_the_models_name_differs(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, "fast=gpt-x")
    gateway.price("fast")
    provider.on("gpt-x", respond(message("Hello")))
    body = b'{"z":1,"model":"fast","input":[{"role":"user","content":"hi"}],"stream":true}'
    events = parsed((await call(gateway, body)).body)
    assert provider.last.body == body.replace(b'"fast"', b'"gpt-x"')
    assert {one["response"]["model"] for one in events if "response" in one} == {"fast"}
    assert (await call(gateway, body.replace(b"true", b"false"))).json["model"] == "fast"


async def test_a_plain_answer_passes_as_it_came(gateway: Gateway, provider: Provider) -> None:
    body = json.dumps(response(message("Hello"), odd={"a": 1.50}), indent=1).encode()
    provider.on("m", reply(body))
    assert (await call(gateway)).body == body
    assert (gateway.record.input, gateway.record.output) == (9, 12)


async def test_headers_of_the_client_stay_here(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", respond())
    sent = {"session-id": "s1", "originator": "codex", "openai-beta": "b=1", "openai-organization": "o", "cookie": "c"}
    await gateway.client.ask("POST", PATH, dumps({"model": "m", "input": "hi"}), sent)
    names = {name for name, _ in provider.last.head.headers}
    assert "openai-beta" in names
    assert not names & {"session-id", "originator", "openai-organization", "cookie"}


def odd(message: str = "no handler for this", **more: Any) -> Script:
    """A refusal in unusual words."""
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": None, **more}
    return reply({"error": error}, status=404)


@pytest.mark.parametrize("refusal", [fail(404, "Invalid URL (POST /v1/responses)"), odd()], ids=["usual", "unusual"])
async def test_an_upstream_without_the_api_gets_chat_completions(
    gateway: Gateway, provider: Provider, refusal: Script
) -> None:
    provider.on("m", either(refusal, CHAT))
    for _ in range(2):
        assert (await call(gateway)).json["output"][0]["content"][0]["text"] == "translated"
    paths = [exchange.path for exchange in provider.exchanges]
    assert paths == ["/v1/responses", "/v1/chat/completions", "/v1/chat/completions"]
    assert not gateway.engine.health.failing


NOT_HERE = {
    "copilot": (400, "model m is not supported via Responses API.", {"code": "unsupported_api_for_model"}),
    "bedrock": (400, "The model 'm' does not support the '/v1/responses' API", {}),
    "zen": (401, "Model m is not supported for format openai", {"type": "ModelError"}),
    "new-api": (500, "not implemented", {"type": "new_api_error", "code": "convert_request_failed"}),
}


@pytest.mark.parametrize("vendor", NOT_HERE)
async def test_a_model_that_lacks_the_api_gets_chat_completions_and_others_do_not(
    gateway: Gateway, provider: Provider, vendor: str
) -> None:
    status, words, more = NOT_HERE[vendor]
    gateway.channel(provider.base_url, "m", "n")
    gateway.price("n")
    provider.on("m", either(reply({"error": {"message": words, **more}}, status=status), CHAT))
    provider.on("n", respond(message("native")))
    for model, text in (("m", "translated"), ("n", "native"), ("m", "translated"), ("n", "native")):
        assert (await call(gateway, model=model)).json["output"][0]["content"][0]["text"] == text
    paths = [f"{exchange.json['model']} {exchange.path.removeprefix('/v1/')}" for exchange in provider.exchanges]
    assert paths == ["m responses", "m chat/completions", "n responses", "m chat/completions", "n responses"]
    assert not gateway.engine.health.failing


async def test_a_chat_with_a_model_of_another_api_goes_to_the_next_channel(
    gateway: Gateway, provider: Provider
) -> None:
    gateway.channel(provider.base_url, "m=m-9", name="first", priority=9)
    lacks = fail(400, "The model 'm-9' does not support the '/v1/responses' API")
    provider.on("m-9", either(lacks, fail(400, "The model 'm-9' does not support the '/v1/chat/completions' API")))
    provider.on("m", CHAT)
    body = dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]})
    answer = await gateway.client.ask("POST", "/v1/chat/completions", body)
    assert (answer.status, [exchange.json["model"] for exchange in provider.exchanges]) == (200, ["m-9", "m-9", "m"])


async def test_an_unusual_404_teaches_nothing_if_chats_fail_too(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", either(odd(), fail(500)))
    assert "no handler for this" in (await call(gateway)).body.decode()
    provider.on("m", either(respond(message("native")), CHAT))
    assert (await call(gateway)).json["output"][0]["content"][0]["text"] == "native"


@pytest.mark.parametrize("stream", [True, False])
async def test_a_translated_request_that_is_accepted_is_not_hidden_by_the_first_refusal(
    gateway: Gateway, provider: Provider, *, stream: bool
) -> None:
    provider.on("m", either(odd(), cut(chunk(delta("Hel")))))
    broken = (await call(gateway, stream=stream)).body.decode()
    assert "no handler for this" not in broken
    assert "the stream before the answer was complete" in broken or not stream
    assert (gateway.record.attempts[-1].kind, gateway.record.status) != ("client", 400)
    provider.on("m", either(respond(message("native")), CHAT))
    assert (await call(gateway)).json["output"][0]["content"][0]["text"] == "translated"


@pytest.mark.parametrize(("status", "seen"), [(400, 400), (429, 429), (401, 502)])
async def test_what_chat_completions_say_of_the_request_is_not_hidden_by_the_first_refusal(
    gateway: Gateway, provider: Provider, status: int, seen: int
) -> None:
    provider.on("m", either(odd("Not Found"), fail(status, "too long, too often or without a key")))
    answer = await call(gateway)
    assert (answer.status, "Not Found" in answer.body.decode()) == (seen, False)


@pytest.mark.parametrize("named", [{"param": "input"}, {"code": "item_not_found"}])
async def test_a_404_that_names_what_is_lacking_is_the_answer(gateway: Gateway, provider: Provider, named: Doc) -> None:
    provider.on("m", either(odd("Item with id 'rs_1' not found.", **named), CHAT))
    assert "rs_1" in (await call(gateway)).body.decode()
    assert len(provider.exchanges) == 1


async def test_a_mistake_is_reported_in_the_upstreams_words(gateway: Gateway, provider: Provider) -> None:
    body = b'{"error": {"message":"bad effort", "type":"invalid_request_error","param":"reasoning.effort","code":"x"}}'
    provider.on("m", reply(body, status=400))
    answer = await call(gateway)
    assert (answer.status, answer.body) == (400, body)
    assert not gateway.engine.health.failing


async def test_the_owners_overrides_have_the_words_of_this_api(gateway: Gateway, provider: Provider) -> None:
    wanted = {"temperature": 0.5, "max_tokens": 7, "reasoning_effort": "low", "store": False, "stop": "x"}
    gateway.channel(provider.base_url, overrides=Overrides(set=wanted, remove=("user",), system="Own."))
    provider.on("m", respond())
    await call(gateway, instructions="Mine.", safety_identifier="me", max_output_tokens=99)
    sent = provider.last.json
    assert (sent["temperature"], sent["max_output_tokens"], sent["reasoning"], sent["store"]) == (
        0.5,
        7,
        {"effort": "low"},
        False,
    )
    assert (sent["instructions"], "safety_identifier" in sent, "stop" in sent) == ("Mine.\n\nOwn.", False, False)


async def test_a_limit_above_the_models_own_is_lowered(gateway: Gateway, provider: Provider) -> None:
    """The hold pays for no more."""
    gateway.channel(provider.base_url, models=(ServedModel(name="m", max_output=100),))
    provider.on("m", respond())
    answer = await call(gateway, max_output_tokens=5000)
    assert provider.last.json["max_output_tokens"] == 100
    assert answer.head.get("x-gateway-output-limit") == "100"


async def test_where_less_is_left_than_the_least_limit_costs_is_refused(gateway: Gateway, provider: Provider) -> None:
    """OpenAI accepts no limit below 16."""
    gateway.price(input=Nanos(0), output=Nanos(25 * MILLION))
    gateway.grant(25 * 15 - GRANTED)
    assert (await call(gateway)).status == 429
    assert provider.exchanges == []


@pytest.mark.parametrize(("left", "limit"), [(100, 100), (16, 16)])
async def test_where_little_is_left_a_call_without_a_limit_gets_the_one_that_is_paid(
    gateway: Gateway, provider: Provider, left: int, limit: int
) -> None:
    gateway.price(input=Nanos(0), output=Nanos(25 * MILLION))
    gateway.grant(25 * left - GRANTED)
    provider.on("m", reply(json.dumps(response(message("Hello"))).encode()))
    await call(gateway)
    assert provider.last.json["max_output_tokens"] == limit
    assert f"output_limit={limit}" in gateway.record.marks


async def test_seals_of_the_gateway_never_reach_a_vendor(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", respond())
    ours = {"type": "reasoning", "summary": [], "encrypted_content": seal_text(PLAIN_SEAL)}
    theirs = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}
    answer = await call(gateway, input=[{"role": "user", "content": 'say "tk1.p"'}, ours, theirs])
    assert answer.head.get("x-gateway-dropped-params") == "input[].reasoning"
    assert [item.get("encrypted_content") for item in provider.last.json["input"]] == [None, "gAAAA"]


async def test_an_error_event_without_an_end_becomes_a_failed_response(gateway: Gateway, provider: Provider) -> None:
    begun = events_of(response(message("Hello")))[:5]
    error = event("error", 5, code="server_error", message="it broke", param=None)
    provider.on("m", stream_bytes(b"".join(begun) + error))
    answer = await call(gateway, stream=True)
    assert answer.body.startswith(b"".join(begun) + error)
    last = parsed(answer.body)[-1]
    assert (last["type"], last["sequence_number"]) == ("response.failed", 6)
    assert (last["response"]["status"], last["response"]["id"]) == ("failed", "resp_0123456789abcdef")
    assert "it broke" in last["error"]["message"]
    assert gateway.record.status == 502


OUT_OF_CREDIT = {"type": "insufficient_quota", "code": "insufficient_quota", "message": "You exceeded your quota."}
TOO_LONG = {"code": "context_length_exceeded", "message": "Your input exceeds the context window of this model."}


@pytest.mark.parametrize(
    ("after", "answered"),
    [
        (event("error", 2, error=OUT_OF_CREDIT), True),
        (event("response.failed", 2, response=response(status="failed", error=OUT_OF_CREDIT)), True),
        (b"", True),
        (event("response.failed", 2, response=response(status="failed", error=TOO_LONG)), False),
    ],
    ids=["error", "failed", "cut off", "too long"],
)
async def test_a_stream_that_fails_before_its_first_item_goes_to_the_next_channel(
    gateway: Gateway, provider: Provider, after: bytes, *, answered: bool
) -> None:
    gateway.channel(provider.base_url, "m=m-9", name="first", priority=9)
    opening, answer = b"".join(events_of(response())[:2]), b"".join(events_of(response(message("Hello"))))
    provider.on("m-9", stream_bytes(opening + after))
    provider.on("m", stream_bytes(answer, size=50))
    got = (await call(gateway, stream=True)).body
    assert got.startswith(answer if answered else opening)
    assert parsed(got)[-1]["response"]["error"] == (None if answered else TOO_LONG)


@pytest.mark.parametrize("beside", [False, True])
async def test_a_failed_response_passes_with_its_error(gateway: Gateway, provider: Provider, *, beside: bool) -> None:
    error = {"code": "context_length_exceeded", "message": "too long"}
    failed = response(status="failed", usage=spent(50, 3), error=None if beside else error)
    more = {"error": error} if beside else {}
    data = [*events_of(response(message("Hello")))[:5], event("response.failed", 5, response=failed, **more)]
    provider.on("m", stream_bytes(b"".join(data)))
    last = parsed((await call(gateway, stream=True)).body)[-1]
    assert (last["type"], last["sequence_number"], last["response"]["error"]) == ("response.failed", 5, error)
    record = gateway.record
    assert (record.input, record.output, record.source) == (50, 3, UsageSource.PARTIAL)
    assert record.status == 400


async def test_a_stream_cut_off_ends_in_a_failed_response(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", stream_bytes(b"".join(events_of(response(message("Hello")))[:-1])))
    async with openai(gateway) as client:
        with pytest.raises(APIError) as broken:
            async with client.responses.stream(model="m", input="hi") as stream:
                await stream.get_final_response()
    assert broken.value.code == "upstream_stream_truncated"
    (last,) = [line for line in (await call(gateway, stream=True)).body.splitlines() if b'"response.failed"' in line]
    assert json.loads(last.removeprefix(b"data: "))["response"]["error"]["code"] == "server_error"


async def test_a_whole_answer_to_a_stream_request_becomes_events(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", reply(response(message("Hello"), function_call("f", "{}"))))
    async with openai(gateway) as client, client.responses.stream(model="m", input="hi") as stream:
        made = await stream.get_final_response()
    assert made.output_text == "Hello"
    assert (gateway.record.input, gateway.record.output) == (9, 12)


async def test_no_secret_shows_around_the_content_of_a_stream(gateway: Gateway, provider: Provider) -> None:
    key = "sk-upstream-canary"
    piece = {"item_id": "msg_1", "output_index": 0, "content_index": 0, "logprobs": []}
    whole = {**response(message("Hello")), "metadata": {"x": key}, "y": key}
    items = whole["output"]
    items[0] |= {"z": [key]}
    data = [
        event("response.created", 0, response={**whole, "output": [], "status": "in_progress"}),
        event("response.output_text.delta", 1, **piece, delta=key),
        event("response.output_text.delta", 2, **{**piece, "item_id": key}, delta="b"),
        event("response.output_text.delta", 3, **piece, delta="c", obfuscation=key),
        event("response.new.delta", 4, delta=key, id=key),
        event("response.output_item.done", 5, output_index=0, item=items[0]),
        event("response.completed", 6, response=whole),
    ]
    provider.on("m", stream_bytes(b"".join(data)))
    answer = await call(gateway, stream=True)
    found = parsed(answer.body)
    assert [doc["sequence_number"] for doc in found] == list(range(7))
    assert [doc["delta"] for doc in found if doc["type"] == "response.output_text.delta"] == [key, "b", "c"]
    assert answer.body.count(key.encode()) == 1  # what the model says is never changed
    assert found[-1]["response"]["output"][0]["content"][0]["text"] == "Hello"
    provider.on("m", reply({**whole, "id": key}))
    plain = await call(gateway)
    assert (plain.status, key.encode() in plain.body) == (200, False)
    assert plain.json["output"][0]["content"][0]["text"] == "Hello"


async def test_a_conversation_that_is_kept_goes_on_where_it_is(gateway: Gateway, provider: Provider) -> None:
    """Also if another channel comes first, and nowhere else if its own is down."""
    provider.on("m", respond(message("one")))
    assert (await call(gateway)).json["id"] == "resp_0123456789abcdef"
    gateway.channel("http://127.0.0.1:9/v1", name="other", priority=9)
    provider.on("m", respond(message("two")))
    answer = await call(gateway, previous_response_id="resp_0123456789abcdef")
    assert answer.head.get("x-gateway-channel") == "up"
    assert provider.last.json["previous_response_id"] == "resp_0123456789abcdef"
    gateway.channel(provider.base_url, enabled=False)
    answer = await call(gateway, previous_response_id="resp_0123456789abcdef")
    assert (answer.status, answer.error["code"]) == (503, "no_channel_available")
    assert "'up'" in answer.error["message"]


async def test_input_kept_by_the_vendor_is_held(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", respond())
    await call(gateway, max_output_tokens=10)
    await call(gateway, max_output_tokens=10, previous_response_id="resp_x")
    first, second = gateway.records
    assert second.held - first.held >= 128_000 * 2_500


@pytest.mark.parametrize(
    "error",
    [
        {"message": "cannot decrypt", "code": "invalid_encrypted_content"},
        {
            "message": "Upstream request failed: reasoning `encrypted_content` was not issued to this caller"
        },  # opencode Zen
        {"message": "The encrypted content gAAA... could not be verified."},
    ],
)
async def test_foreign_reasoning_is_dropped_once(gateway: Gateway, provider: Provider, error: dict[str, str]) -> None:
    refused = reply({"error": error}, status=400)
    provider.on("m", refused, respond(message("Hello")))
    theirs = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}
    answer = await call(gateway, input=[theirs, {"role": "user", "content": "hi"}])
    assert answer.json["output"][0]["content"][0]["text"] == "Hello"
    assert [item.get("type", "message") for item in provider.last.json["input"]] == ["message"]
    assert "reasoning_dropped" in ",".join(gateway.record.marks)
    assert len(provider.exchanges) == 2


async def test_broken_arguments_of_an_earlier_call_do_not_fail_the_next_ones(
    gateway: Gateway, provider: Provider
) -> None:
    refused = {"message": "Unterminated string starting at: line 1 column 11 (char 10)", "code": 400}  # vLLM
    provider.on("m", reply({"error": refused}, status=400), respond(message("Hello")))
    called = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"value": "'}
    output = {"type": "function_call_output", "call_id": "c1", "output": "Not executed."}
    assert (await call(gateway, input=[called, output])).status == 200
    assert isinstance(json.loads(provider.last.json["input"][0]["arguments"]), dict)


async def test_calls_and_outputs_that_lack_one_another_are_put_in_order(gateway: Gateway, provider: Provider) -> None:
    """Interrupted and shortened conversations have such items, and each later turn would fail."""
    refused = {"message": "No tool output found for function call c1.", "param": "input"}
    provider.on("m", reply({"error": refused}, status=400), respond(message("Hello")))
    called = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
    lost = {"type": "custom_tool_call_output", "call_id": "c0", "output": "done"}
    items = [lost, called, {"role": "user", "content": "Go on"}]
    assert [(await call(gateway, input=items)).status for _ in range(2)] == [200, 200]
    assert len(provider.exchanges) == 3
    label, text = ({"type": "input_text", "text": said} for said in ("[tool result]", "done"))
    assert provider.last.json["input"] == [
        {"type": "message", "role": "user", "content": [label, text]},
        called,
        {"type": "function_call_output", "call_id": "c1", "output": "[no output]"},
        {"role": "user", "content": "Go on"},
    ]


@pytest.mark.parametrize("error", ["Invalid 'input[0].id': too long", "encrypted content was not issued to you", "No"])
@pytest.mark.parametrize("items", [{}, {"input": ["x"]}, {"input": [None, 5]}, {"input": "x"}])
async def test_a_refusal_of_an_input_without_items_is_passed_on(
    gateway: Gateway, provider: Provider, items: dict[str, Any], error: str
) -> None:
    provider.on("m", reply({"error": {"message": error}}, status=400))
    answer = await call(gateway, dumps({"model": "m", "prompt": {"id": "pmpt_1"}, **items}))
    assert (answer.status, error in answer.body.decode()) == (400, True)


async def test_only_the_reasoning_that_nothing_follows_is_left_out(gateway: Gateway, provider: Provider) -> None:
    """Codex keeps it of a stream that broke, and sends it with every later call of the session."""
    text = "Item 'rs_2' of type 'reasoning' was provided without its required following item."
    provider.on("m", reply({"error": {"message": text, "param": "input"}}, status=400), respond(message("Hello")))
    said = {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]}
    thought = {"type": "reasoning", "id": "rs_1", "summary": []}
    answer = await call(gateway, input=[thought, said, {**thought, "id": "rs_2"}])
    assert (answer.status, provider.last.json["input"]) == (200, [thought, said])
    assert answer.head.get("x-gateway-dropped-params") == "reasoning_dropped"


@pytest.mark.parametrize(
    "text",
    [
        "Item 'rs_9' of type 'reasoning' was provided without its required following item.",
        "Item 'msg_1' of type 'message' was provided without its required 'reasoning' item: 'rs_1'.",
    ],
)
async def test_items_without_the_reasoning_that_belongs_to_them_are_sent_as_new_ones(
    gateway: Gateway, provider: Provider, text: str
) -> None:
    provider.on("m", reply({"error": {"message": text, "param": "input"}}, status=400), respond(message("Hello")))
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]}
    asked = {"role": "user", "content": "hi"}
    thought = {"type": "reasoning", "id": "rs_1", "summary": []}
    answer = await call(gateway, input=[{**said, "id": "msg_1"}, thought, asked])
    assert (answer.status, provider.last.json["input"]) == (200, [said, asked])
    assert answer.head.get("x-gateway-dropped-params") == "reasoning_dropped"


@pytest.mark.parametrize("has_deltas", [False, True])
async def test_items_that_only_the_last_event_has_get_their_own_events(
    gateway: Gateway, provider: Provider, has_deltas: bool
) -> None:
    events = events_of(response(message("Hello"), function_call("f", "{}")))
    deltas = [event for event in events if b"output_text.delta" in event] if has_deltas else []
    provider.on("m", stream_bytes(b"".join([*events[:2], *deltas, events[-1]])))
    told = parsed((await call(gateway, input="Hi", stream=True)).body)
    done = [doc["item"] for doc in told if doc["type"] == "response.output_item.done"]
    assert done == [message("Hello"), function_call("f", "{}")] == told[-1]["response"]["output"]
    assert "".join(doc["delta"] for doc in told if doc["type"] == "response.output_text.delta") == "Hello"
    assert told[-1]["sequence_number"] == told[-2]["sequence_number"] + 1


async def test_ids_of_items_that_were_not_stored_are_left_out(gateway: Gateway, provider: Provider) -> None:
    """Codex sends them if it does not see that Azure answers behind the gateway."""
    text = "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false."
    provider.on("m", reply({"error": {"message": text, "param": "input"}}, status=404), respond(message("Hello")))
    thought = {"type": "reasoning", "summary": [], "encrypted_content": "gAAAA"}
    answer = await call(gateway, input=[{**thought, "id": "rs_1"}, {"role": "user", "content": "hi"}])
    assert (answer.status, provider.last.json["input"][0]) == (200, thought)
    assert answer.head.get("x-gateway-dropped-params") == "input[].id"


async def test_what_other_makers_put_into_items_is_left_out(gateway: Gateway, provider: Provider) -> None:
    long = "Invalid 'input[1].id': string too long. Expected a string with maximum length 64."
    texts = "Invalid 'input[0].content': array too long. Expected an array with maximum length 0, but got length 1."
    sealed = "The encrypted content gAAA... could not be verified."
    refusals = [reply({"error": {"message": text}}, status=400) for text in (long, texts, sealed)]
    provider.on("m", *refusals, respond(message("Hello")))
    theirs = {"type": "reasoning", "id": "4b_rs", "summary": [], "encrypted_content": "5ad4"}
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]}
    asked = {"role": "user", "content": "hi"}
    thought = {**theirs, "content": [{"type": "reasoning_text", "text": "Hm."}]}
    answer = await call(gateway, input=[thought, {**said, "id": "x" * 408}, asked])
    assert (answer.status, provider.last.json["input"]) == (200, [said, asked])
    dropped = "input[].id,input[].content,reasoning_dropped"
    assert answer.head.get("x-gateway-dropped-params") == dropped
    assert [len(exchange.json["input"]) for exchange in provider.exchanges] == [3, 3, 3, 2]


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ({"detail": "Unsupported parameter: prompt_cache_retention"}, "prompt_cache_retention"),
        ({"error": {"message": 'json: unknown field "client_metadata"'}}, "client_metadata"),
        ({"message": "Validation: Unsupported parameter(s): `prompt_cache_key`", "code": 400}, "prompt_cache_key"),
    ],
)
async def test_a_refused_field_that_changes_little_is_left_out_from_then_on(
    gateway: Gateway, provider: Provider, body: dict[str, Any], name: str
) -> None:
    provider.on("m", reply(body, status=400), respond(message("Hello")))
    fields: dict[str, Any] = {name: "24h"}
    for count in (2, 3):
        answer = await call(gateway, input="a", **fields)
        assert (answer.status, answer.head.get("x-gateway-dropped-params")) == (200, name)
        assert (name in provider.last.json, len(provider.exchanges)) == (False, count)


async def test_behind_output_it_is_passed_on(gateway: Gateway, provider: Provider) -> None:
    refused = {"code": "invalid_encrypted_content", "message": "cannot decrypt"}
    begun = b"".join(events_of(response(message("Hello")))[:5])
    failed = event("response.failed", 5, response={**response(message("Hel"), status="failed"), "error": refused})
    provider.on("m", stream_bytes(begun + failed))
    theirs = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}
    answer = await call(gateway, input=[theirs, {"role": "user", "content": "hi"}], stream=True)
    assert parsed(answer.body)[-1]["response"]["error"] == refused
    assert len(provider.exchanges) == 1


async def test_repeats_of_a_call_that_fails_do_not_reach_the_upstream(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", slam)
    answers = [await call(gateway, stream=True) for _ in range(30)]
    assert {answer.status for answer in answers} == {502}
    assert len(provider.exchanges) <= 3
    provider.on("m", respond())
    assert (await call(gateway, input="something else")).status == 200


async def test_a_mock_channel_is_not_tried_for_the_api(gateway: Gateway) -> None:
    gateway.channel("", "demo-echo", name="demo", dialect=Dialect.MOCK)
    answer = await call(gateway, dumps({"model": "demo-echo", "input": "hi"}))
    assert answer.status == 200
