"""WebSocket on ``/v1/responses``: what frames are answered with, and what a connection remembers."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from gateway.domain.call import Outcome
from gateway.domain.limits import Limits
from tests.fakes.audit import verify
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider, Script
from tests.fakes.replies import (
    choice,
    chunk,
    delta,
    dumps,
    fail,
    in_steps,
    reply,
    speak,
    speak_after,
    stream,
    tool_call,
    usage,
    whole,
)
from tests.fakes.responses import events_of, function_call, message, parsed, respond, response
from tests.fakes.websocket import frame, said, shaken, talk

Doc = dict[str, Any]


@pytest.fixture(autouse=True)
def _upstream(gateway: Gateway, provider: Provider) -> None:
    """A channel that speaks chat completions alone, and answers with an A."""
    chats(gateway, provider)
    provider.on("m", speak("A"))


def chats(gateway: Gateway, provider: Provider) -> None:
    """A channel that speaks chat completions alone."""
    gateway.channel(provider.base_url, preset="cerebras")


def native(gateway: Gateway, provider: Provider) -> None:
    """A channel that speaks the Responses API."""
    gateway.channel(provider.base_url, preset="vllm")


def heard(provider: Provider) -> list[list[str]]:
    """The texts of the conversations that the upstream was sent."""
    return [[message["content"] for message in exchange.json["messages"]] for exchange in provider.exchanges]


def said_to(request: Doc) -> list[str]:
    """The texts of a request to a chat, or to the Responses API."""
    items = request.get("messages") or request["input"]
    contents = [item["content"] for item in items] if isinstance(items, list) else [items]
    return [content if isinstance(content, str) else content[0]["text"] for content in contents]


@pytest.mark.parametrize("channel", [chats, native])
async def test_a_request_is_a_frame_and_so_is_each_event(
    gateway: Gateway, provider: Provider, channel: Callable[[Gateway, Provider], None]
) -> None:
    channel(gateway, provider)
    provider.on("m", respond(message("Hello")) if channel is native else speak("Hel", "lo"))
    async with talk(gateway) as peer:
        await peer.create()
        events = await peer.events()
    names = [event["type"] for event in events]
    assert names[:3] == ["response.created", "response.in_progress", "response.output_item.added"]
    assert names[-2:] == ["response.output_item.done", "response.completed"]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert said(events[-1]["response"]) == "Hello"
    record = (await gateway.settled())[0]
    assert (record.outcome, record.api, record.stream, record.status) == (Outcome.DONE, "responses", True, 200)
    assert (record.input, record.output, record.cost) == (9, 12, 9 * 2_500 + 12 * 10_000)
    assert verify(gateway.engine.store).equal


async def test_a_request_that_comes_meanwhile_waits_its_turn(gateway: Gateway, provider: Provider) -> None:
    go = asyncio.Event()
    provider.on("m", speak_after(go), speak("two"))
    async with talk(gateway) as peer:
        await peer.create("first")
        await provider.asked()
        await peer.create("second")
        await asyncio.sleep(0.05)
        assert len(provider.exchanges) == 1
        go.set()
        names = [event["type"] for event in [*await peer.events(), *await peer.events()]]
    assert [name for name in names if name == "response.completed"] == ["response.completed"] * 2
    assert names.index("response.completed") < names.index("response.created", 1)


async def test_more_requests_than_may_wait_are_refused(gateway: Gateway, provider: Provider) -> None:
    go = asyncio.Event()
    provider.on("m", speak_after(go))
    async with talk(gateway) as peer:
        await peer.create()
        await provider.asked()
        for _ in range(17):
            await peer.create()
        last = await peer.last()
        assert (last["type"], last["status"], last["error"]["code"]) == ("error", 429, "rate_limit_exceeded")
        go.set()
        assert [(await peer.last())["type"] for _ in range(17)] == ["response.completed"] * 17
    assert len(await gateway.settled(18)) == 18


@pytest.mark.parametrize("channel", [chats, native])
async def test_a_turn_goes_on_from_the_response_before(
    gateway: Gateway, provider: Provider, channel: Callable[[Gateway, Provider], None]
) -> None:
    channel(gateway, provider)
    answers = [respond(message(text)) for text in "AB"] if channel is native else [speak("A"), speak("B")]
    provider.on("m", *answers)
    async with talk(gateway) as peer:
        first = await peer.response("one")
        second = await peer.response([{"role": "user", "content": "two"}], previous=first["id"], instructions="Be.")
        assert said(second) == "B"
    sent = provider.last.json
    assert "previous_response_id" not in sent
    if channel is native:
        items = [item["content"] if isinstance(item["content"], str) else "A" for item in sent["input"]]
        assert (sent["instructions"], items) == ("Be.", ["one", "A", "two"])
    else:
        assert heard(provider)[1] == ["Be.", "one", "A", "two"]
        assert second["previous_response_id"] == first["id"]


async def test_a_tool_call_goes_round(gateway: Gateway, provider: Provider) -> None:
    called = stream(
        chunk(delta(role="assistant", tool_calls=[tool_call(0, "call_1", "look", '{"at": "sky"}')])),
        chunk(delta(finish="tool_calls")),
        chunk(usage=usage()),
    )
    provider.on("m", called, speak("Blue."))
    tools = [{"type": "function", "name": "look", "parameters": {"type": "object"}}]
    async with talk(gateway) as peer:
        first = await peer.response("Which colour?", tools=tools)
        (call,) = first["output"]
        assert (call["type"], call["name"], call["arguments"]) == ("function_call", "look", '{"at": "sky"}')
        result = {"type": "function_call_output", "call_id": call["call_id"], "output": "blue"}
        assert said(await peer.response([result], previous=first["id"], tools=tools)) == "Blue."
    roles = [message["role"] for message in provider.last.json["messages"]]
    assert roles == ["user", "assistant", "tool"]


async def test_what_is_not_known_here_is_not_found(gateway: Gateway, provider: Provider) -> None:
    """Not even on another connection; the client sends all of it again, on the same one."""
    async with talk(gateway) as peer:
        first = await peer.response("one")
    async with talk(gateway) as peer:
        assert await peer.error("two", previous=first["id"]) == (400, "previous_response_not_found")
        assert await peer.error("two", previous="resp_never") == (400, "previous_response_not_found")
        assert said(await peer.response("one and two")) == "A"
    assert len(provider.exchanges) == 2


async def test_a_response_that_an_upstream_keeps_is_continued_there(gateway: Gateway, provider: Provider) -> None:
    native(gateway, provider)
    provider.on("m", respond(message("A"), store=True), respond(message("B")))
    async with talk(gateway) as peer:
        first = await peer.response("one", store=True)
        await peer.response("two", store=True, previous=first["id"])
    assert (provider.last.json["previous_response_id"], provider.last.json["input"]) == (first["id"], "two")


@pytest.mark.parametrize("channel", [chats, native])
async def test_a_response_that_was_stored_over_http_is_continued(
    gateway: Gateway, provider: Provider, channel: Callable[[Gateway, Provider], None]
) -> None:
    """Also by turns that are not stored themselves, and that go on from each other."""
    channel(gateway, provider)
    told = [respond(message(text, f"msg_{text}"), store=False, id=f"resp_{text}") for text in "ABC"]
    provider.on("m", *(told if channel is native else map(speak, "ABC")))
    asked = {"model": "m", "input": "one", "stream": True}
    first = parsed((await gateway.client.ask("POST", "/v1/responses", dumps(asked))).body)[-1]["response"]
    async with talk(gateway) as peer:
        second = await peer.response("two", previous=first["id"])
        third = await peer.response("three", previous=second["id"])
        item = {"type": "item_reference", "id": first["output"][0]["id"]}
        await peer.response([item, {"role": "user", "content": "four"}])
    assert third["previous_response_id"] == second["id"]
    texts = [said_to(exchange.json) for exchange in provider.exchanges]
    assert texts == [["one"], ["one", "A", "two"], ["one", "A", "two", "B", "three"], ["A", "four"]]


@pytest.mark.parametrize("store", [True, False])
async def test_a_stored_response_is_continued_over_http(gateway: Gateway, provider: Provider, *, store: bool) -> None:
    provider.on("m", speak("A"), speak("B"), reply(whole("m", choice("C"), spent=usage())))
    async with talk(gateway) as peer:
        first = await peer.response("one", store=store)
        second = await peer.response("two", store=store, previous=first["id"])
    asked = {"model": "m", "input": "three", "previous_response_id": second["id"]}
    answer = await gateway.client.ask("POST", "/v1/responses", dumps(asked))
    if store:
        assert (answer.status, heard(provider)[-1]) == (200, ["one", "A", "two", "B", "three"])
        assert (await gateway.client.get(f"/v1/responses/{second['id']}")).json == second
    else:
        assert answer.refusal == (400, "previous_response_not_found", "previous_response_id")


async def test_nothing_is_stored_where_that_is_switched_off(gateway: Gateway) -> None:
    gateway.settings(responses_mib=0)
    async with talk(gateway) as peer:
        first = await peer.response("one", store=True)
        assert said(await peer.response("two", previous=first["id"])) == "A"
    assert (await gateway.client.get(f"/v1/responses/{first['id']}")).status == 404


async def test_a_model_cannot_be_steered(gateway: Gateway, provider: Provider) -> None:
    """The client hears so at once, while the response goes on."""
    go = asyncio.Event()
    provider.on("m", speak_after(go))
    async with talk(gateway) as peer:
        await peer.create()
        await provider.asked()
        await peer.send({"type": "response.steer", "previous_response_id": "resp_1", "input": "shorter"})
        while (event := await peer.event())["type"] != "response.steer.failed":
            pass
        assert event["error"]["code"] == "steering_not_supported"
        assert event["steer"] == {"previous_response_id": "resp_1", "input": "shorter"}
        go.set()
        assert (await peer.last())["type"] == "response.completed"


HALF = in_steps(chunk(delta("A", tool_calls=[tool_call(0, "c1", "f", "{}")])), chunk(delta("B")), hangs=True)
BEGUN = in_steps(*events_of(response(message("A"), function_call("f", "{}")))[:-1], hangs=True)


@pytest.mark.parametrize(("channel", "script"), [(chats, HALF), (native, BEGUN)])
async def test_an_interrupted_response_ends_with_its_whole_items_and_can_be_gone_on_from(
    gateway: Gateway, provider: Provider, channel: Callable[[Gateway, Provider], None], script: Script
) -> None:
    """Codex interrupts a response when its user writes meanwhile."""
    channel(gateway, provider)
    provider.on("m", script, respond(message("C")) if channel is native else speak("C"))
    async with talk(gateway) as peer:
        await peer.create("one")
        begun, kinds = await peer.event(), [""]
        while kinds.count("response.output_item.done") < 2:
            kinds.append((await peer.event())["type"])
        name = begun["response"]["id"]
        for each in ("resp_other", name):
            await peer.send({"type": "response.interrupt", "response_id": each, "mode": "discard_partial_items"})
        last = await peer.last()
        assert (last["type"], last["response"]["id"]) == ("response.incomplete", name)
        assert last["response"]["incomplete_details"] == {"reason": "interrupted"}
        assert [item["type"] for item in last["response"]["output"]] == ["message", "function_call"]
        await peer.send({"type": "response.interrupt", "response_id": name, "mode": "discard_partial_items"})
        result = {"type": "function_call_output", "call_id": last["response"]["output"][1]["call_id"], "output": "x"}
        more = await peer.response([result, {"role": "user", "content": "two"}], previous=name)
        assert said(more) == "C"
    assert [record.outcome for record in await gateway.settled(2)] == [Outcome.CANCELLED, Outcome.DONE]


FAILURES: dict[str, Doc] = {
    "an upstream fails": {"input": "two"},
    "a result has no call": {"input": [{"type": "function_call_output", "call_id": "call_x", "output": "x"}]},
    "the request is wrong": {"input": 5},
    "the model does not exist": {"input": "two", "model": "nothing"},
}


@pytest.mark.parametrize("case", FAILURES)
async def test_a_turn_that_fails_takes_what_it_went_on_from_with_it(
    gateway: Gateway, provider: Provider, case: str
) -> None:
    provider.on("m", speak("A"), fail(400, "no") if case == "an upstream fails" else speak("never"), speak("B"))
    async with talk(gateway) as peer:
        first = await peer.response("one")
        status, _ = await peer.error(previous=first["id"], **FAILURES[case])
        assert status == 400
        assert await peer.error("two", previous=first["id"]) == (400, "previous_response_not_found")
        assert (await peer.response("again"))["status"] == "completed"


async def test_a_conversation_that_is_too_long_is_a_failed_response_for_codex(
    gateway: Gateway, provider: Provider
) -> None:
    """Its handshakes have no User-Agent up to 0.158."""
    provider.on("m", fail(400, "This model's maximum context length is 8 tokens", code="context_length_exceeded"))
    async with talk(gateway, headers={"user-agent": "", "originator": "codex_exec"}) as peer:
        await peer.create("one")
        last = await peer.last()
    assert (last["type"], last["response"]["error"]["code"]) == ("response.failed", "context_length_exceeded")
    record = (await gateway.settled())[0]
    assert (record.app, record.status, record.cost) == ("codex_exec", 400, 0)


async def test_an_answer_that_breaks_is_failed_and_not_remembered(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", stream(chunk(delta("Hal")), done=False), speak("B"))
    async with talk(gateway) as peer:
        await peer.create("one")
        last = await peer.last()
        assert (last["type"], last["response"]["status"]) == ("response.failed", "failed")
        id = last["response"]["id"]
        assert await peer.error("two", previous=id) == (400, "previous_response_not_found")
        assert said(await peer.response("again")) == "B"
    assert gateway.records[0].outcome is not Outcome.DONE
    assert verify(gateway.engine.store).equal


async def test_a_request_without_generation_is_only_remembered(gateway: Gateway, provider: Provider) -> None:
    """Codex sends one as soon as it starts."""
    async with talk(gateway) as peer:
        warm = await peer.response([{"role": "user", "content": "one"}], generate=False)
        assert (warm["output"], warm["usage"]["total_tokens"]) == ([], 0)
        assert (await peer.response([], previous=warm["id"]))["status"] == "completed"
        assert (await peer.error("x", generate=False, model="nothing"))[1] == "model_not_found"
    assert heard(provider) == [["one"]]
    assert [record.code for record in gateway.records] == ["", "model_not_found"]


async def test_all_events_repeat_the_stream_id_of_their_request(gateway: Gateway, provider: Provider) -> None:
    async with talk(gateway) as peer:
        await peer.create(stream_id="left")
        assert {event["stream_id"] for event in await peer.events()} == {"left"}
        await peer.create(stream_id="right", model="nothing")
        assert (await peer.last())["stream_id"] == "right"
    assert "stream_id" not in provider.last.json


FRAMES: dict[str, tuple[str | bytes, int, str]] = {
    "binary": (b'{"type":"response.create","model":"m","input":"hi"}', 415, "unsupported_media_type"),
    "no JSON": ("{", 400, "invalid_json"),
    "another event": ('{"type":"response.cancel"}', 400, "invalid_value"),
    "no type": ('{"model":"m","input":"hi"}', 400, "invalid_value"),
    "no model": ('{"type":"response.create","input":"hi"}', 400, "missing_required_parameter"),
    "a wrong type": ('{"type":"response.create","model":"m","input":"hi","store":7}', 400, "invalid_type"),
    "background": (
        '{"type":"response.create","model":"m","input":"hi","background":true}',
        400,
        "unsupported_parameter",
    ),
}


@pytest.mark.parametrize("case", FRAMES)
async def test_a_wrong_frame_leaves_the_connection_open(gateway: Gateway, case: str) -> None:
    text, status, code = FRAMES[case]
    async with talk(gateway) as peer:
        await (peer.socket.send_str(text) if isinstance(text, str) else peer.socket.send_bytes(text))
        last = await peer.last()
        assert (last["type"], last["status"], last["error"]["code"]) == ("error", status, code)
        assert last["headers"]["x-request-id"].startswith("req_")
        assert said(await peer.response()) == "A"
    assert [record.code for record in gateway.records] == [code, ""]


async def test_a_surrogate_that_is_alone_is_replaced_and_remembered(gateway: Gateway, provider: Provider) -> None:
    start = '{"type":"response.create","model":"m","store":false,"input":'
    async with talk(gateway) as peer:
        await peer.socket.send_str(start + r'"x\ud83dy"}')
        first = (await peer.last())["response"]
        await peer.socket.send_str(start + r'"z\udc00","previous_response_id":"' + first["id"] + '"}')
        assert (await peer.last())["type"] == "response.completed"
    assert heard(provider)[1] == ["x\ufffdy", "A", "z\ufffd"]


async def test_a_large_request_is_read_beside_the_loop(gateway: Gateway, provider: Provider) -> None:
    gateway.grant(10**12)
    async with talk(gateway) as peer:
        first = await peer.response("x" * 400_000)
        await peer.response("y" * 400_000, previous=first["id"])
    assert [len(text) for text in heard(provider)[1]] == [400_000, 1, 400_000]


async def test_frames_may_be_split_anywhere(gateway: Gateway) -> None:
    """In bytes, and in fragments with a ping between them."""
    request = b'{"type":"response.create","model":"m","input":"hi"}'
    head, peer = await shaken(gateway.client)
    assert head.status == 101
    await peer.write_slowly(frame(request))
    await gateway.settled(1)
    parts = [request[start : start + 5] for start in range(0, len(request), 5)]
    for number, part in enumerate(parts):
        await peer.write(frame(part, 1 if not number else 0, last=number == len(parts) - 1) + frame(b"?", 9))
    records = await gateway.settled(2)
    assert [record.outcome for record in records] == [Outcome.DONE] * 2
    assert peer.buffer.count(b"\x8a\x01?") == len(parts)
    peer.close()


async def test_a_frame_that_is_too_large_closes_the_connection(gateway: Gateway) -> None:
    async with talk(gateway) as peer:
        try:
            await peer.socket.send_bytes(bytes((32 << 20) + 1))
        except ConnectionError:
            return
        assert await peer.closed() == 1009
    await gateway.until(lambda: gateway.records)
    assert gateway.record.code == "request_too_large"


async def test_limits_hold_for_each_request(gateway: Gateway) -> None:
    async with talk(gateway, gateway.token("few", limits=Limits(rpm=1))) as peer:
        await peer.response()
        await peer.create()
        last = await peer.last()
    assert (last["status"], last["error"]["code"]) == (429, "rate_limit_exceeded")
    assert int(last["headers"]["retry-after"]) > 0


HANDSHAKES: dict[str, tuple[dict[str, str], int, str]] = {
    "no such key": ({"authorization": "Bearer sk-none"}, 401, "invalid_api_key"),
    "a web page": ({"origin": "https://evil.example"}, 403, "origin_not_allowed"),
    "another host": ({"host": "evil.example"}, 421, "wrong_host"),
    "an old version": ({"sec-websocket-version": "8"}, 426, "websocket_not_supported"),
    "a short key": ({"sec-websocket-key": "AAAA"}, 426, "websocket_not_supported"),
    "no upgrade": ({"connection": "keep-alive"}, 426, "websocket_not_supported"),
}


@pytest.mark.parametrize("case", HANDSHAKES)
async def test_a_handshake_that_is_not_accepted_is_an_error_over_http(gateway: Gateway, case: str) -> None:
    headers, status, code = HANDSHAKES[case]
    upgrade = {"upgrade": "websocket", "connection": "Upgrade", "sec-websocket-version": "13"}
    more = {**upgrade, "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==", **headers}
    answer = await gateway.client.get("/v1/responses", more)
    assert (answer.status, answer.error["code"]) == (status, code)
    assert gateway.record.code == code


async def test_an_origin_that_is_permitted_may_begin(gateway: Gateway) -> None:
    gateway.settings(origins=("https://app.example",))
    async with talk(gateway, headers={"origin": "https://app.example"}) as peer:
        assert said(await peer.response()) == "A"


async def test_the_beta_of_the_connection_goes_no_further(gateway: Gateway, provider: Provider) -> None:
    native(gateway, provider)
    provider.on("m", respond(message("A")))
    async with talk(gateway, headers={"openai-beta": "responses_websockets=2026-02-06"}) as peer:
        await peer.response()
    assert provider.last.head.get("openai-beta") == ""


async def test_a_conversation_is_compacted_and_goes_on_from_its_summary(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", speak("A"), speak("They launch on Tuesday."), speak("B"))
    async with talk(gateway) as peer:
        first = await peer.response("one")
        short = await peer.response([{"type": "compaction_trigger"}], previous=first["id"])
        assert [item["type"] for item in short["output"]] == ["compaction"]
        assert said(await peer.response("two", previous=short["id"])) == "B"
    texts = " ".join(heard(provider)[2])
    assert ("They launch on Tuesday." in texts, "one" in texts.split()) == (True, False)
    assert [record.marks for record in await gateway.settled(3)] == [(), ("compaction",), ()]


async def test_what_was_compacted_over_http_begins_a_conversation(gateway: Gateway, provider: Provider) -> None:
    chats(gateway, provider)
    provider.on("m", reply(whole("m", choice("They launch on Tuesday."), spent=usage())), speak("B"), speak("C"))
    answer = await gateway.client.ask("POST", "/v1/responses/compact", dumps({"model": "m", "input": "one"}))
    async with talk(gateway) as peer:
        first = await peer.response([*answer.json["output"], {"role": "user", "content": "two"}])
        assert said(await peer.response("three", previous=first["id"])) == "C"
    assert "They launch on Tuesday." in " ".join(heard(provider)[2])
