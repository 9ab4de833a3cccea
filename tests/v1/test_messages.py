"""The Messages API over HTTP: native channels get what the client sent, and clients what the channel answered.

Long: the cases of one contract in order, on one native channel.
"""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from gateway.domain.channel import Dialect, Overrides, ServedModel
from gateway.domain.group import Fallback
from gateway.domain.limits import Limits
from gateway.domain.units import MILLION, ChannelId, Nanos
from tests.fakes.client import Answer, Client, read_answer
from tests.fakes.gateway import Gateway
from tests.fakes.messages import (
    SIGNATURE,
    event,
    grammar_faults,
    message,
    message_events,
    read_events,
    speak_messages,
    text_block,
)
from tests.fakes.provider import Provider
from tests.fakes.replies import Doc, cut, dumps, fail, in_steps, reply, speak

PATH = "/v1/messages"
HELLO: Doc = {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "Hi"}]}
BETA = {"anthropic-version": "2023-06-01", "anthropic-beta": "a-1,b-2"}


@pytest.fixture
def native(gateway: Gateway, provider: Provider) -> Gateway:
    """The channel speaks Messages."""
    gateway.channel(provider.base_url, dialect=Dialect.ANTHROPIC)
    provider.on("m", speak_messages())
    return gateway


async def post(
    at: Gateway | Client, body: object = None, *, path: str = PATH, headers: Mapping[str, str | None] | None = None
) -> Answer:
    client = at.client if isinstance(at, Gateway) else at
    data = body if isinstance(body, bytes) else dumps(HELLO if body is None else body)
    return await client.ask("POST", path, data, headers)


async def test_native_bytes_pass_both_ways_as_they_are(native: Gateway, provider: Provider) -> None:
    body = b'{ "max_tokens" : 100,"model":"m", "x": {"y": 1.50},\n "messages":[{"role":"user","content":"Hi \\ud83d"}]}'
    told = b' {"type":"message","content":[ ],"model":"m-2025","usage":{"input_tokens":1,"output_tokens":2}}'
    provider.on("m", reply(told))
    answer = await post(native, body)
    assert (provider.last.body, answer.body) == (body, told)


async def test_an_alias_changes_the_models_name_alone(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, "fast=claude-x", dialect=Dialect.ANTHROPIC)
    gateway.price("fast")
    provider.on("claude-x", speak_messages())
    sent = {**HELLO, "model": "fast", "system": [text_block()], "unknown": {"a": [1.50]}}
    assert (await post(gateway, sent)).json["model"] == "fast"
    assert provider.last.json == {**sent, "model": "claude-x"}
    streamed = read_events((await post(gateway, {**sent, "stream": True})).body)
    assert streamed[0]["message"]["model"] == "fast"


async def test_a_native_stream_passes_as_it_is(native: Gateway) -> None:
    answer = await post(native, {**HELLO, "stream": True})
    assert answer.body == b"".join(message_events(message(model="m")))
    assert answer.head.get("content-type").startswith("text/event-stream")
    (record,) = await native.settled()
    assert (record.input, record.output, record.finish) == (9, 12, "stop")


async def test_odd_json_passes_a_renaming_relay_value_by_value(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, "fast=claude-x", dialect=Dialect.ANTHROPIC)
    provider.on("claude-x", speak_messages())
    turns = b'[{"role":"user","z":{"b":1.0e1,"a":[ ]},"content":"\\ud83d\\ude00 \\u00e9"}]'
    await post(gateway, b'{"q":null,"model":"fast","max_tokens":1,"messages":' + turns + b"}")
    assert provider.last.body == b'{"q":null,"model":"claude-x","max_tokens":1,"messages":' + turns + b"}"


@pytest.mark.parametrize("dialect", [Dialect.ANTHROPIC, Dialect.OPENAI])
async def test_the_beta_query_goes_to_anthropic_alone(gateway: Gateway, provider: Provider, dialect: Dialect) -> None:
    gateway.channel(provider.base_url, dialect=dialect)
    native = dialect is Dialect.ANTHROPIC
    provider.on("m", speak_messages() if native else speak())
    assert (await post(gateway, path=PATH + "?beta=true")).status == 200
    assert provider.last.path.endswith("?beta=true") is native


async def test_the_clients_credentials_stay_here(native: Gateway, provider: Provider) -> None:
    key = native.client.key
    private = {"cookie": "c=1", "x-claude-code-session-id": "s", "x-app": "cli", "x-stainless-lang": "js"}
    await post(native, headers={"authorization": None, "x-api-key": key, **private}, path=PATH + "?key=k&beta=true")
    head = provider.last.head
    assert key not in str(head.headers)
    assert [name for name in private if head.get(name)] == []
    assert (head.get("x-api-key"), provider.last.path) == ("sk-upstream-canary", "/v1/messages?beta=true")


async def test_betas_are_joined_and_go_on_in_order(native: Gateway, provider: Provider) -> None:
    body = dumps(HELLO)
    raw = native.client.request("POST", PATH, body, {"anthropic-version": "2024-01-01", "anthropic-beta": "a-1"})
    peer = await native.client.connect()
    await peer.write(raw.replace(b"anthropic-beta: a-1\r\n", b"anthropic-beta: a-1\r\nAnthropic-Beta: zz-9,b-2\r\n"))
    await read_answer(peer)
    peer.reset()
    assert provider.last.head.get("anthropic-beta") == "a-1,zz-9,b-2"
    assert provider.last.head.get("anthropic-version") == "2024-01-01"


async def test_a_version_is_sent_if_the_client_has_none(native: Gateway, provider: Provider) -> None:
    await post(native)
    assert provider.last.head.get("anthropic-version") == "2023-06-01"


async def test_thoughts_of_others_are_left_out_and_the_vendors_own_stay(native: Gateway, provider: Provider) -> None:
    own = {"type": "thinking", "thinking": "", "signature": SIGNATURE}
    ours = [{"type": "thinking", "thinking": "x", "signature": seal} for seal in ("", "tk1.p", "tk1.g.e30=")]
    turns: list[Doc] = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [ours[0], own, text_block()]},
        {"role": "assistant", "content": ours[1:]},
        {"role": "user", "content": 'Why "signature":"" here?'},
    ]
    answer = await post(native, {**HELLO, "messages": turns})
    sent = provider.last.json["messages"]
    assert sent == [turns[0], {"role": "assistant", "content": [own, text_block()]}, turns[3]]
    assert answer.head.get("x-gateway-dropped-params") == "messages[].thinking"


async def test_the_owners_overrides_are_in_native_words(gateway: Gateway, provider: Provider) -> None:
    overrides = Overrides(
        set={"temperature": 0.5, "reasoning_effort": "low", "stop": "END", "seed": 1},
        remove=("user", "max_tokens"),
        system="Be brief.",
    )
    gateway.channel(provider.base_url, dialect=Dialect.ANTHROPIC, overrides=overrides)
    provider.on("m", speak_messages())
    system = [text_block("x-anthropic-billing-header: a"), text_block("You are")]
    answer = await post(gateway, {**HELLO, "system": system, "metadata": {"user_id": "u"}})
    sent = provider.last.json
    assert sent["system"] == [*system, text_block("Be brief.")]
    assert (sent["temperature"], sent["output_config"], sent["stop_sequences"]) == (0.5, {"effort": "low"}, ["END"])
    assert ("metadata" in sent, "seed" in sent, sent["max_tokens"]) == (False, False, 100)
    assert answer.head.get("x-gateway-dropped-params") == "user,seed"


async def test_a_cap_above_the_models_limit_is_lowered(gateway: Gateway, provider: Provider) -> None:
    served = ServedModel(name="m", max_output=50)
    gateway.channel(provider.base_url, dialect=Dialect.ANTHROPIC)
    channel = gateway.engine.catalog.registry.channels[ChannelId("ch_up")]
    gateway.change("channels", channel.id, msgspec.structs.replace(channel, models=(served,)))
    provider.on("m", speak_messages())
    answer = await post(gateway)
    assert (provider.last.json["max_tokens"], answer.head.get("x-gateway-output-limit")) == (50, "50")


async def test_a_session_stays_with_its_channel(gateway: Gateway, provider: Provider) -> None:
    for name in ("up", "b", "c", "d"):
        gateway.channel(provider.base_url, name=name, dialect=Dialect.ANTHROPIC)
    provider.on("m", speak_messages())
    user = json.dumps({"device_id": "dev-canary", "session_id": "11111111-2222-3333-4444-555555555555"})
    used = set()
    for turn in range(6):
        turns = [{"role": "user", "content": f"words {turn}"}]
        answer = await post(gateway, {**HELLO, "messages": turns, "metadata": {"user_id": user}})
        used.add(answer.head.get("x-gateway-channel"))
    assert len(used) == 1
    assert "dev-canary" not in str(gateway.records)


async def test_a_native_refusal_is_passed_on_word_by_word(native: Gateway, provider: Provider) -> None:
    body = b'{"type":"error","error":{"type":"invalid_request_error","message":"thinking.type: adaptive is not known"}}'
    provider.on("m", reply(body, status=400))
    for _ in range(2):
        answer = await post(native)
        assert (answer.status, answer.body) == (400, body)
    assert len(provider.exchanges) == 2  # nothing was learned, nothing tried again
    assert native.engine.health.state(native.engine.catalog.registry.channels[ChannelId("ch_up")]).name == "ok"


async def test_a_refusal_shows_no_key(native: Gateway, provider: Provider) -> None:
    body = b'{"type":"error","error":{"type":"invalid_request_error","message":"odd key sk-upstream-canary"}}'
    provider.on("m", reply(body, status=400))
    answer = await post(native)
    assert (answer.status, b"canary" in answer.body) == (400, False)
    assert answer.json["error"]["type"] == "invalid_request_error"


async def test_our_own_errors_have_it_too(gateway: Gateway) -> None:
    cases = [
        (await post(gateway, {**HELLO, "model": "none"}), 404, "not_found_error"),
        (await post(gateway, {"model": "m", "messages": []}), 400, "invalid_request_error"),
        (await post(Client(gateway.port, "sk-tk-wrong")), 401, "authentication_error"),
        (await post(gateway, b"[]"), 400, "invalid_request_error"),
        (await gateway.client.get(PATH), 405, "invalid_request_error"),
        (await post(gateway, path=PATH + "/batches"), 404, "not_found_error"),
        (await post(gateway, path="/v1/files", headers=BETA), 404, "not_found_error"),
    ]
    assert [(answer.status, answer.json["error"]["type"]) for answer, *_ in cases] == [
        tuple(case[1:]) for case in cases
    ]
    assert cases[2][0].head.get("x-should-retry") == "false"
    assert cases[0][0].error["message"].startswith("model: 'none'")


async def test_a_spent_budget_is_a_limit_that_a_client_does_not_retry(gateway: Gateway) -> None:
    gateway.grant(-(10**10))
    answer = await post(gateway)
    assert (answer.status, answer.error["type"], answer.head.get("x-should-retry")) == (
        429,
        "rate_limit_error",
        "false",
    )
    assert answer.error["details"] == {"error_code": "enforced_spend_limit_reached"}


async def test_max_tokens_is_required_and_may_be_zero(native: Gateway, provider: Provider) -> None:
    answer = await post(native, {name: value for name, value in HELLO.items() if name != "max_tokens"})
    assert (answer.status, answer.error["message"], answer.error["param"]) == (
        400,
        "max_tokens: Field required",
        "max_tokens",
    )
    assert (await post(native, {**HELLO, "max_tokens": 0})).status == 200
    assert provider.last.json["max_tokens"] == 0


async def test_without_output_a_translated_answer_is_empty(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", speak("word"))
    answer = await post(gateway, {**HELLO, "max_tokens": 0})
    assert (answer.json["content"], answer.json["stop_reason"]) == ([], "max_tokens")
    streamed = read_events((await post(gateway, {**HELLO, "max_tokens": 0, "stream": True})).body)
    assert (len(streamed), grammar_faults(streamed)) == (4, [])


async def test_a_stream_that_breaks_ends_with_an_error(native: Gateway, provider: Provider) -> None:
    events = message_events(message())
    for count in range(3, len(events) - 1):
        provider.on("m", in_steps(*events[:count]))
        found = read_events((await post(native, {**HELLO, "stream": True})).body)
        assert found[-1]["type"] == "error", count
        assert "message_stop" not in [doc["type"] for doc in found]


async def test_a_stream_that_said_why_it_ended_gets_its_last_event(native: Gateway, provider: Provider) -> None:
    provider.on("m", in_steps(*message_events(message())[:-1]))
    found = read_events((await post(native, {**HELLO, "stream": True})).body)
    assert [doc["type"] for doc in found[-2:]] == ["message_delta", "message_stop"]


async def test_an_error_before_anything_else_is_a_status(native: Gateway, provider: Provider) -> None:
    error = {"type": "overloaded_error", "message": "Overloaded"}
    provider.on("m", in_steps(event("error", error=error)))
    answer = await post(native, {**HELLO, "stream": True})
    assert (answer.status, answer.json["error"]["type"]) == (529, "overloaded_error")


async def test_a_native_channel_counts(native: Gateway, provider: Provider) -> None:
    native.grant(-(10**10))
    body = {name: value for name, value in HELLO.items() if name != "max_tokens"}
    answer = await post(native, body, path=PATH + "/count_tokens?beta=true", headers=BETA)
    assert (answer.status, answer.json) == (200, {"input_tokens": 42})
    assert (provider.last.path, provider.last.body) == ("/v1/messages/count_tokens?beta=true", dumps(body))
    assert provider.last.head.get("anthropic-beta") == "a-1,b-2"
    assert native.records == []


async def test_the_model_that_answers_for_an_alias_counts(native: Gateway, provider: Provider) -> None:
    native.group("default", fallbacks=(Fallback(model="best", to=("m",)),))
    answer = await post(native, {**HELLO, "model": "best"}, path=PATH + "/count_tokens")
    assert (answer.status, answer.json, provider.last.json["model"]) == (200, {"input_tokens": 42}, "m")


@pytest.mark.parametrize("script", [fail(404), fail(500), fail(429), fail(401)])
async def test_an_estimate_replaces_a_count_that_fails(native: Gateway, provider: Provider, script: Any) -> None:
    provider.on("m", script)
    answer = await post(native, {**HELLO, "system": "word " * 400}, path=PATH + "/count_tokens")
    assert (answer.status, 300 < answer.json["input_tokens"] < 500) == (200, True)
    assert native.records == []


async def test_a_count_is_without_what_calls_were_refused_for(native: Gateway, provider: Provider) -> None:
    body, refusal = {**HELLO, "odd_field": {"a": 1}}, fail(400, "odd_field: Extra inputs are not permitted")
    provider.on("m", refusal, reply(message()))
    assert (await post(native, body)).status == 200
    await post(native, body, path=PATH + "/count_tokens")
    assert provider.last.json == HELLO


@pytest.mark.parametrize("kind", ["text", "json_object", "json_schema"])
async def test_a_format_of_chats_that_is_refused_is_the_clients_mistake(
    native: Gateway, provider: Provider, kind: str
) -> None:
    """Nothing is moved into a system message at the beginning, which this API refuses too."""
    text = "response_format: Extra inputs are not permitted"
    provider.on("m", fail(400, text))
    for _ in range(2):
        answer = await post(native, {**HELLO, "response_format": {"type": kind, "json_schema": {"schema": {}}}})
        assert (answer.status, answer.json["error"]["message"]) == (400, text)
    assert [exchange.json["messages"] for exchange in provider.exchanges] == [HELLO["messages"]] * 2


async def test_a_count_says_what_is_wrong_with_the_request(native: Gateway, provider: Provider) -> None:
    body = b'{"type":"error","error":{"type":"invalid_request_error","message":"odd"}}'
    provider.on("m", reply(body, status=400))
    answer = await post(native, path=PATH + "/count_tokens")
    assert (answer.status, answer.body) == (400, body)
    assert (await post(native, {**HELLO, "model": "none"}, path=PATH + "/count_tokens")).status == 404


@pytest.mark.parametrize(
    "refusal",
    [
        "messages.1.content.0.type: Expected `thinking`, but found `text`: it must start with a thinking block",
        "messages.1.content.0.tool_use.provider_specific_fields: Extra inputs are not permitted",  # Bifrost
        "context_management: Extra inputs are not permitted",
    ],
)
async def test_a_count_of_what_calls_are_repaired_for_is_estimated(
    native: Gateway, provider: Provider, refusal: str
) -> None:
    provider.on("m", fail(400, refusal))
    answer = await post(native, {**HELLO, "thinking": {"type": "enabled"}}, path=PATH + "/count_tokens")
    assert (answer.status, answer.json["input_tokens"] > 0, len(provider.exchanges)) == (200, True, 1)


async def test_elsewhere_a_count_asks_nobody(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, dialect=Dialect.GEMINI)
    answer = await post(gateway, path=PATH + "/count_tokens")
    assert (answer.status, answer.json["input_tokens"] > 0, provider.exchanges) == (200, True, [])


async def test_discovery_gets_a_page(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, "claude-a", "claude-b", "m")
    asked = await gateway.client.ask("GET", "/v1/models?limit=2", headers=BETA)
    assert ([model["id"] for model in asked.json["data"]], asked.json["has_more"]) == (["claude-a", "claude-b"], True)
    assert len((await gateway.client.ask("GET", "/v1/models?limit=2")).json["data"]) == 3


@pytest.mark.parametrize("name", ["anthropic/m", "claude/m", "m[1m]", "anthropic/m[1m]"])
async def test_other_spellings_of_a_model(native: Gateway, provider: Provider, name: str) -> None:
    assert (await post(native, {**HELLO, "model": name})).status == 200
    assert (provider.last.json["model"], native.record.model) == ("m", "m")


async def test_discovery_lists_every_model_as_claude_code_offers_it(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, "claude-a", "m", dialect=Dialect.ANTHROPIC)
    provider.on("m", speak_messages())

    async def ids(headers: Mapping[str, str] | None = None) -> list[str]:
        return [model["id"] for model in (await gateway.client.ask("GET", "/v1/models", headers=headers)).json["data"]]

    assert await ids(BETA) == ["claude-a", "m"]
    gateway.settings(list_for_claude=True)
    assert (await ids(), await ids(BETA)) == (["claude-a", "m"], ["claude-a", "claude/m", "m"])
    one = await gateway.client.ask("GET", "/v1/models/claude/m", headers=BETA)
    assert (one.status, one.json["id"]) == (200, "claude/m")
    await post(gateway, {**HELLO, "model": "claude/m"})
    assert (provider.last.json["model"], gateway.record.model) == ("m", "m")


@pytest.mark.parametrize("more", [{}, {"stream": True, "max_tokens": 50}])
async def test_the_call_that_repeats_a_broken_stream_is_marked(native: Gateway, provider: Provider, more: Doc) -> None:
    provider.on("m", cut(*message_events(message(text_block("Hello")))[:4]), speak_messages())
    session = {"x-claude-code-session-id": "s-1"}
    events = read_events((await post(native, {**HELLO, "stream": True}, headers=session)).body)
    assert [events[-1]["type"], events[-2]["type"]] == ["error", "content_block_delta"]  # the block is left open
    await post(native, {**HELLO, "messages": [{"role": "user", "content": "Other"}]}, headers=session)
    await post(native, HELLO, headers={"x-claude-code-session-id": "s-2"})
    await post(native, {**HELLO, **more}, headers=session)
    await post(native, {**HELLO, **more}, headers=session)
    assert ["after_break" in record.marks for record in native.records] == [False, False, False, True, False]


@pytest.mark.parametrize(
    ("preset", "choice", "marks"),
    [
        ("ollama", {"type": "any"}, ("tool_choice_ignored",)),
        ("ollama", {"type": "none"}, ("tool_choice_ignored",)),
        ("ollama", {"type": "auto"}, ()),
        ("anthropic", {"type": "any"}, ()),
    ],
)
async def test_a_choice_of_tools_that_ollama_ignores_is_marked(
    gateway: Gateway, provider: Provider, preset: str, choice: Doc, marks: tuple[str, ...]
) -> None:
    gateway.channel(provider.base_url, dialect=Dialect.ANTHROPIC, preset=preset)
    body = {**HELLO, "tools": [{"name": "f", "input_schema": {"type": "object"}}], "tool_choice": choice}
    for stream in (False, True):
        provider.on("m", speak_messages())
        assert (await post(gateway, {**body, "stream": stream})).status == 200
        assert provider.last.json["tool_choice"] == choice
    assert [record.marks for record in gateway.records] == [marks, marks]


async def test_a_large_request_passes_as_it_is(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, "m", "fast=claude-x", dialect=Dialect.ANTHROPIC)
    gateway.price("m", input=Nanos(MILLION))
    gateway.price("fast", input=Nanos(MILLION))
    provider.on("m", speak_messages())
    provider.on("claude-x", speak_messages())
    turns = [{"role": "user", "content": "word \u00e9 " * 40_000}]
    body = dumps({**HELLO, "messages": turns})
    await post(gateway, body)
    assert provider.last.body == body
    await post(gateway, dumps({**HELLO, "model": "fast", "messages": turns, "stream": True}))
    assert provider.last.json == {**HELLO, "model": "claude-x", "messages": turns, "stream": True}


async def test_a_running_call_has_its_api_and_a_hold_for_cap_and_input(native: Gateway, provider: Provider) -> None:
    held: list[int] = []

    async def look(exchange: Any) -> None:
        (running,) = native.engine.store.books.running.values()
        assert (running.api, running.native) == ("messages", True)
        held.append(running.held)
        await speak_messages()(exchange)

    provider.on("m", look)
    await post(native, {**HELLO, "max_tokens": 1000})
    assert held[0] >= 1000 * 10_000
    assert native.record.held == held[0]


async def test_the_vendors_limits_are_passed_on_and_its_account_is_not(native: Gateway, provider: Provider) -> None:
    limits = {
        "anthropic-ratelimit-requests-remaining": "49",
        "anthropic-ratelimit-tokens-reset": "2026-11-22T15:00:00Z",
    }
    private = {"anthropic-organization-id": "org-1", "set-cookie": "a=b"}
    provider.on("m", reply(message(), headers={**limits, **private}))
    head = (await post(native)).head
    assert {name: head.get(name) for name in limits} == limits
    assert [name for name in private if head.get(name)] == []


async def test_blocks_that_nobody_here_knows_pass_as_they_are(native: Gateway, provider: Provider) -> None:
    blocks: list[Doc] = [
        {"type": "redacted_thinking", "data": "x" * 50},
        {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "a"}},
        {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [{"type": "web_search_result"}]},
        {"type": "compaction", "content": "c", "encrypted_content": "y" * 50},
        {"type": "some_day", "x": [1.50]},
    ]
    doc = message(*blocks, text_block("Hello"), model="m")
    cited = event("content_block_delta", index=5, delta={"type": "citations_delta", "citation": {"type": "x"}})
    events = message_events(doc)
    events[-3:-3] = [cited]
    provider.on("m", in_steps(*events), reply(doc))
    assert (await post(native, {**HELLO, "stream": True})).body == b"".join(events)
    assert (await post(native)).body == dumps(doc)


async def test_a_long_signature_is_held_for_by_the_eighth(native: Gateway, provider: Provider) -> None:
    thought = {"type": "thinking", "thinking": "", "signature": "A" * 48_000}
    turns = [*HELLO["messages"], {"role": "assistant", "content": [thought, text_block()]}, *HELLO["messages"]]
    body = dumps({**HELLO, "max_tokens": 1, "messages": turns})
    await post(native, body)
    assert provider.last.body == body
    assert 6_000 * 2_500 < native.record.held < 6_300 * 2_500


async def test_fourteen_counts_at_once(native: Gateway, provider: Provider) -> None:
    client = native.token("slow", limits=Limits(rpm=1))
    answers = await asyncio.gather(*(post(client, path=PATH + "/count_tokens") for _ in range(14)))
    assert [answer.json for answer in answers] == [{"input_tokens": 42}] * 14
    assert native.records == []


async def test_a_long_day_of_a_program(native: Gateway, provider: Provider) -> None:
    blocks = [
        {"type": "tool_result", "tool_use_id": f"t{n}", "content": [text_block("x" * 500)]} for n in range(15_000)
    ]
    body = dumps({**HELLO, "messages": [{"role": "user", "content": blocks}]})
    size = len(body)
    assert size > 8 << 20
    assert sum(body.count(mark) for mark in (b"{", b"[", b":", b",")) > 150_000
    native.price("m", input=Nanos(MILLION), output=Nanos(MILLION))
    assert (await post(native, body)).status == 200
    assert provider.last.body == body
