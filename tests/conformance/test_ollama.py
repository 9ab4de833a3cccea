"""Ollama's root, used by Ollama's own Python client and by raw requests as its other clients send them.

Long: every address of one API, and the cases of its contract in order.
"""

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from ollama import AsyncClient, ResponseError

from gateway.core.live_calls import CallDeadlines
from gateway.domain.call import Outcome
from gateway.domain.channel import Dialect, ServedModel
from gateway.domain.events import StatusChanged
from gateway.domain.group import Fallback
from gateway.domain.usage import UsageSource
from gateway.v1.ports import open_ollama_port
from tests.conformance.test_completions import answered, said
from tests.conformance.test_embeddings import vectors
from tests.fakes.client import HELLO, Answer, Client, Doc, read_answer
from tests.fakes.gateway import Gateway
from tests.fakes.messages import message, speak_messages, text_block
from tests.fakes.provider import Exchange, Provider, Script
from tests.fakes.replies import (
    DONE,
    choice,
    chunk,
    cut,
    delta,
    dumps,
    event,
    in_steps,
    reply,
    speak,
    story,
    stream,
    stream_bytes,
    tool_call,
    usage,
    whole,
)

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(40)).decode()
JPEG = base64.b64encode(b"\xff\xd8\xff\xe0" + bytes(40)).decode()


@asynccontextmanager
async def sdk(port: int, key: str = "") -> AsyncIterator[AsyncClient]:
    """Ollama's client, which sends a key only if it is given one."""
    headers = {"Authorization": f"Bearer {key}"} if key else None
    async with AsyncClient(f"http://127.0.0.1:{port}", headers=headers) as client:
        yield client


@pytest.fixture
async def client(gateway: Gateway) -> AsyncIterator[AsyncClient]:
    """Ollama's client with the key of the gateway's token."""
    async with sdk(gateway.port, gateway.client.key) as found:
        yield found


async def post(client: Client, path: str, body: Doc, headers: dict[str, str | None] | None = None) -> Answer:
    return await client.ask("POST", path, dumps(body), headers)


def lines(answer: Answer) -> list[Doc]:
    """The lines of a stream; each is a JSON object and ends with a line feed."""
    assert answer.body.endswith(b"\n")
    return [json.loads(line) for line in answer.body[:-1].split(b"\n")]


async def test_the_python_client_chats(gateway: Gateway, provider: Provider, client: AsyncClient) -> None:
    plain = await client.chat("m", messages=[{"role": "user", "content": "Hi"}])
    assert (plain.message.content, plain.done, plain.done_reason) == ("Hello", True, "stop")
    assert (plain.prompt_eval_count, plain.eval_count) == (9, 12)
    parts = [part async for part in await client.chat("m", messages=[{"role": "user", "content": "Hi"}], stream=True)]
    assert [part.message.content for part in parts] == ["Hel", "lo", ""]
    assert [part.done for part in parts] == [False, False, True]
    assert min(parts[-1].total_duration or 0, parts[-1].eval_duration or 0, parts[-1].prompt_eval_duration or 0) > 0
    assert {record.cost for record in gateway.records} == {9 * 2_500 + 12 * 10_000}


async def test_the_python_client_generates(gateway: Gateway, provider: Provider, client: AsyncClient) -> None:
    plain = await client.generate("m", prompt="Hi", system="Be brief")
    assert (plain.response, plain.done) == ("Hello", True)
    assert provider.last.json["messages"] == [
        {"role": "system", "content": "Be brief"},
        {"role": "user", "content": "Hi"},
    ]
    parts = [part async for part in await client.generate("m", prompt="Hi", stream=True)]
    assert [part.response for part in parts] == ["Hel", "lo", ""]


async def test_the_python_client_embeds(gateway: Gateway, provider: Provider, client: AsyncClient) -> None:
    provider.on("m", vectors())
    several = await client.embed("m", input=["a", "b"])
    assert [list(one) for one in several.embeddings] == [[0.0, 0.25, -0.5, 0.125], [1.0, 0.25, -0.5, 0.125]]
    assert several.prompt_eval_count == 7
    single = await client.embeddings("m", prompt="a")
    assert list(single.embedding) == [0.0, 0.25, -0.5, 0.125]
    assert [(record.input, record.output) for record in gateway.records] == [(7, 0), (7, 0)]
    assert provider.last.json["encoding_format"] == "float"


@pytest.mark.parametrize(
    ("upstream", "abilities"),
    [
        ("gpt-4o-mini", ["completion", "tools", "vision"]),
        ("o3", ["completion", "tools", "vision", "thinking"]),
        ("llama3", ["completion", "tools"]),
        ("text-embedding-3-small", ["embedding"]),
    ],
)
async def test_another_name_can_do_what_its_model_can(
    gateway: Gateway, provider: Provider, client: AsyncClient, upstream: str, abilities: list[str]
) -> None:
    """Clients attach pictures only to models that are listed with ``vision``."""
    gateway.channel(provider.base_url, f"fast={upstream}")
    gateway.group("default", fallbacks=(Fallback(model="best", to=("fast",)),))
    listed = (await gateway.client.ask("GET", "/api/tags")).json["models"]
    assert {model["name"]: model["capabilities"] for model in listed} == {"fast": abilities, "best": abilities}
    assert [(await client.show(name)).capabilities for name in ("fast", "best")] == [abilities, abilities]


async def test_the_python_client_lists_and_shows(gateway: Gateway, provider: Provider, client: AsyncClient) -> None:
    gateway.channel(provider.base_url, "m", "text-embedding-3-small", "gpt-5")
    assert [model.model for model in (await client.list()).models] == ["gpt-5", "m", "text-embedding-3-small"]
    shown = await client.show("gpt-5")
    listed = (await gateway.client.ask("GET", "/api/tags")).json["models"][0]
    assert shown.capabilities == listed["capabilities"] == ["completion", "tools", "vision", "thinking"]
    assert "tk.context_length" not in (shown.modelinfo or {})
    assert (await client.show("text-embedding-3-small")).capabilities == ["embedding"]
    assert (await client.ps()).models == []
    assert (await client.pull("m")).status == "success"
    with pytest.raises(ResponseError) as caught:
        await client.show("none")
    assert caught.value.status_code == 404
    assert gateway.records == [] or {record.code for record in gateway.records} == {"model_not_found"}


async def test_what_clients_in_swift_read_only_in_ollamas_own_form(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, "m")
    listed = (await gateway.client.ask("GET", "/api/tags")).json["models"][0]
    shown = (await post(gateway.client, "/api/show", {"model": "m"})).json
    for model in (listed, shown):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", model["modified_at"])
    assert {name: shown[name] for name in ("license", "modelfile", "parameters", "template")} == dict.fromkeys(
        ("license", "modelfile", "parameters", "template"), ""
    )


async def test_show_has_the_context_that_is_known(gateway: Gateway, provider: Provider, client: AsyncClient) -> None:
    names = ("b", "text-embedding-x", "unknown")
    models = [ServedModel(name="a", context=32_768), *(ServedModel(name=name) for name in names)]
    gateway.channel(provider.base_url, models=models)
    gateway.price("b", context=200_000)
    gateway.price("text-embedding-x", context=8192)
    shown = [(await client.show(name)).modelinfo for name in ("a", *names)]
    lengths = {"general.architecture": "tk", "tk.embedding_length": 0}
    assert shown == [
        {"general.basename": "a", "tk.context_length": 32_768, **lengths},
        {"general.basename": "b", "tk.context_length": 200_000, **lengths},
        {"general.basename": "text-embedding-x"},
        {"general.basename": "unknown"},
    ]


async def test_a_request_streams_unless_it_says_otherwise(gateway: Gateway, provider: Provider) -> None:
    answer = await post(gateway.client, "/api/chat", {"model": "m", "messages": HELLO})
    assert answer.head.get("content-type") == "application/x-ndjson"
    assert [line["done"] for line in lines(answer)] == [False, False, True]
    assert provider.last.json["stream"] is True


@pytest.fixture
def patience() -> CallDeadlines:
    return CallDeadlines(first_event=0.3, keep_alive=0.3)


async def test_silence_sends_nothing(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", in_steps(2.5, *story("Hi"), DONE))
    body = dumps({"model": "m", "messages": HELLO})
    peer = await gateway.client.send(gateway.client.request("POST", "/api/chat", body))
    answer = await read_answer(peer)
    assert [line["message"]["content"] for line in lines(answer)] == ["Hi", ""]
    peer.close()


@pytest.mark.parametrize("streamed", [False, True])
async def test_tool_calls_come_whole(provider: Provider, client: AsyncClient, *, streamed: bool) -> None:
    calls = [tool_call(0, "call_a", "weather", '{"city": "Rome"}'), tool_call(1, "call_b", "weather", "")]
    pieces = [
        chunk(delta(tool_calls=[{**tool_call(0, "call_a", "weather", '{"city"'), "index": 0}])),
        chunk(delta(tool_calls=[{"index": 0, "function": {"arguments": ': "Rome"}'}}])),
        chunk(delta(tool_calls=[calls[1]])),
        chunk(delta(finish="tool_calls")),
    ]
    message = {"tool_calls": [{k: v for k, v in call.items() if k != "index"} for call in calls]}
    answer = whole("m", {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "tool_calls"})
    provider.on("m", stream(*pieces) if streamed else reply({**answer, "usage": usage()}))
    if streamed:
        parts = [part async for part in await client.chat("m", messages=HELLO, stream=True)]
        made = [call for part in parts for call in part.message.tool_calls or ()]
    else:
        made = list((await client.chat("m", messages=HELLO)).message.tool_calls or ())
    assert [(call.function.name, dict(call.function.arguments)) for call in made] == [
        ("weather", {"city": "Rome"}),
        ("weather", {}),
    ]


async def test_the_sequence_of_an_editor(gateway: Gateway, provider: Provider) -> None:
    """With no field for a key it is in the base URL."""
    root = f"/k/{gateway.client.key}"
    nobody = Client(gateway.port)
    version = (await nobody.get(f"{root}/api/version")).json["version"]
    assert [part.isdecimal() for part in version.split(".")] == [True, True, True]
    (model,) = (await nobody.get(f"{root}/api/tags")).json["models"]
    shown = (await post(nobody, f"{root}/api/show", {"model": model["name"]})).json
    assert "tools" in shown["capabilities"]
    answer = await post(nobody, f"{root}/v1/chat/completions", {"model": "m", "messages": HELLO})
    assert answer.text == "Hello"
    assert gateway.record.token_name == "laptop"


@pytest.mark.parametrize(
    ("path", "body", "shape"),
    [
        ("/api/chat", {"messages": []}, "message"),
        ("/api/chat", {}, "message"),
        ("/api/generate", {"prompt": ""}, "response"),
        ("/api/generate", {"keep_alive": 0}, "response"),
    ],
)
async def test_a_request_without_a_prompt_loads_the_model(
    gateway: Gateway, provider: Provider, path: str, body: Doc, shape: str
) -> None:
    answer = await post(gateway.client, path, {"model": "m", **body})
    assert (answer.json["done"], answer.json["done_reason"], shape in answer.json) == (True, "load", True)
    assert (provider.exchanges, gateway.records) == ([], [])
    unknown = await post(gateway.client, path, {"model": "none", **body})
    assert (unknown.status, "not visible" in unknown.json["error"]) == (404, True)


@pytest.mark.parametrize(("path", "body"), [("/api/chat", {"messages": ""}), ("/api/generate", {"prompt": []})])
async def test_an_empty_value_of_a_wrong_type_loads_no_model(gateway: Gateway, path: str, body: Doc) -> None:
    answer = await post(gateway.client, path, {"model": "m", **body})
    assert (answer.status, [record.code for record in gateway.records]) == (400, ["invalid_type"])


async def test_thoughts_come_before_the_text(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(f"http://127.0.0.1:{provider.port}", "claude-sonnet-4-5", dialect=Dialect.ANTHROPIC)
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "abc"}
    provider.other = speak_messages(message(thought, text_block("Yes")))
    body = {"model": "claude-sonnet-4-5", "messages": HELLO, "think": "high"}
    found = lines(await post(gateway.client, "/api/chat", body))
    assert [line["message"].get("thinking") for line in found] == ["Hm.", None, None]
    assert [line["message"]["content"] for line in found] == ["", "Yes", ""]
    assert provider.last.json["thinking"]["type"] == "enabled"


@pytest.mark.parametrize(
    ("think", "effort"), [(True, "medium"), (False, "none"), ("max", "max"), ("", None), (None, None)]
)
async def test_how_much_to_think(gateway: Gateway, provider: Provider, think: Any, effort: str | None) -> None:
    await post(gateway.client, "/api/generate", {"model": "m", "prompt": "p", "think": think})
    assert provider.last.json.get("reasoning_effort") == effort


async def test_a_stream_that_breaks_ends_with_an_error(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", cut(*story("a", "b")[:2]))
    found = lines(await post(gateway.client, "/api/chat", {"model": "m", "messages": HELLO}))
    assert [line.get("done") for line in found] == [False, None]
    assert list(found[-1]) == ["error"]
    assert gateway.record.outcome is Outcome.UPSTREAM_CUT


@pytest.mark.parametrize(("image", "kind"), [(PNG, "image/png"), (JPEG, "image/jpeg")])
@pytest.mark.parametrize("path", ["/api/chat", "/api/generate"])
async def test_images_get_their_type(gateway: Gateway, provider: Provider, path: str, image: str, kind: str) -> None:
    turn = {"role": "user", "content": "what?", "images": [image]}
    body = {"messages": [turn]} if path == "/api/chat" else {"prompt": "what?", "images": [image]}
    assert (await post(gateway.client, path, {"model": "m", **body})).status == 200
    assert provider.last.json["messages"][0]["content"] == [
        {"type": "text", "text": "what?"},
        {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{image}"}},
    ]


def picture(data: str) -> Doc:
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}


DRAWN = [picture(PNG), picture(JPEG)]


def draw(exchange: Exchange) -> Script:
    """An upstream that answers with a text and two images."""
    if exchange.json.get("stream"):
        first, second = ({**one, "index": index} for index, one in enumerate(DRAWN))
        return stream(*story("Look")[:-1], *(chunk(delta(images=[one])) for one in (first, second)), *story("")[-1:])
    return reply(whole("m", {**choice("Look"), "message": {**choice("Look")["message"], "images": DRAWN}}))


async def test_the_python_client_sends_images_back(gateway: Gateway, provider: Provider, client: AsyncClient) -> None:
    """It refuses the base64 texts that Ollama's other clients read."""
    provider.on("m", lambda exchange: draw(exchange)(exchange))
    asked: list[Any] = [{"role": "user", "content": "Draw"}]
    plain = await client.chat("m", messages=asked)
    assert plain.message.content == "Look"
    assert [image.value for image in plain.message.images or ()] == [PNG, JPEG]
    parts = [part.message async for part in await client.chat("m", messages=asked, stream=True)]
    assert "".join(part.content or "" for part in parts) == "Look"
    assert [image.value for part in parts for image in part.images or ()] == [PNG, JPEG]
    await client.chat("m", messages=[*asked, plain.message, {"role": "user", "content": "Again"}])
    assert PNG in provider.last.body.decode()


async def test_the_python_client_generates_an_image(gateway: Gateway, provider: Provider, client: AsyncClient) -> None:
    provider.on("m", lambda exchange: draw(exchange)(exchange))
    plain = await client.generate("m", prompt="Draw")
    assert (plain.response, plain.image) == ("Look", PNG)
    parts = [part async for part in await client.generate("m", prompt="Draw", stream=True)]
    assert [part.image for part in parts if part.image] == [PNG, JPEG]


async def test_the_python_client_gets_log_probabilities(
    gateway: Gateway, provider: Provider, client: AsyncClient
) -> None:
    tokens: list[Doc] = [{"token": text, "logprob": -0.5, "bytes": None, "top_logprobs": []} for text in ("H", "i")]
    pieces = [{**delta(token["token"]), "logprobs": {"content": [token], "refusal": None}} for token in tokens]
    provider.on("m", stream(*map(chunk, pieces), chunk(delta(finish="stop"))))
    streamed = await client.chat("m", messages=HELLO, stream=True, logprobs=True, top_logprobs=1)
    found = [part.logprobs async for part in streamed]
    assert [[token.token for token in part or ()] for part in found] == [["H"], ["i"], []]
    provider.on("m", reply(whole("m", {**choice("Hi"), "logprobs": {"content": tokens, "refusal": None}})))
    plain = await client.generate("m", prompt="Hi", logprobs=True)
    assert [token.token for token in plain.logprobs or ()] == ["H", "i"]


async def test_other_clients_get_images_as_texts(gateway: Gateway, provider: Provider) -> None:
    provider.on("m", lambda exchange: draw(exchange)(exchange))
    plain = await post(gateway.client, "/api/chat", {"model": "m", "messages": HELLO, "stream": False})
    assert plain.json["message"] == {"role": "assistant", "content": "Look", "images": [PNG, JPEG]}
    plain = await post(gateway.client, "/api/generate", {"model": "m", "prompt": "Draw", "stream": False})
    assert (plain.json["response"], plain.json["image"], plain.json["images"]) == ("Look", PNG, [PNG, JPEG])
    streamed = lines(await post(gateway.client, "/api/chat", {"model": "m", "messages": HELLO}))
    assert [line["message"]["images"] for line in streamed if "images" in line["message"]] == [[PNG], [JPEG]]


async def test_no_key_no_answer(gateway: Gateway, provider: Provider) -> None:
    nobody = Client(gateway.port)
    for method, path in (("GET", "/api/tags"), ("GET", "/api/version"), ("POST", "/api/chat"), ("POST", "/api/show")):
        answer = await nobody.ask(method, path, dumps({"model": "m", "messages": HELLO}) if method == "POST" else b"")
        assert (answer.status, list(answer.json)) == (401, ["error"])
    assert (await nobody.get("/k/sk-tk-wrong/api/tags")).status == 401


async def test_a_named_token_answers_for_programs_without_a_key(gateway: Gateway, provider: Provider) -> None:
    gateway.token("ollama")
    gateway.settings(ollama_token="ollama")
    nobody = Client(gateway.port)
    assert [model["name"] for model in (await nobody.get("/api/tags")).json["models"]] == ["m"]
    assert (await post(nobody, "/api/chat", {"model": "m", "messages": HELLO})).status == 200
    assert gateway.record.token_name == "ollama"
    assert (await post(nobody, "/v1/chat/completions", {"model": "m", "messages": HELLO})).status == 401
    gateway.settings(ollama_token="gone")
    refused = await nobody.get("/api/tags")
    assert (refused.status, "'gone', which does not exist" in refused.json["error"]) == (401, True)


async def test_a_foreign_page_is_refused(gateway: Gateway, provider: Provider) -> None:
    gateway.settings(ollama_token="laptop")
    page = {"origin": "https://evil.example"}
    body = {"model": "m", "messages": HELLO}
    for headers in (page, {**page, "content-type": "text/plain"}):
        assert (await post(Client(gateway.port), "/api/chat", body, dict(headers))).status == 403
    assert (await Client(gateway.port).ask("GET", "/api/tags", headers={"host": "evil.example"})).status == 421
    assert provider.exchanges == []


async def test_an_origin_that_any_page_can_have_needs_a_key(gateway: Gateway, provider: Provider) -> None:
    gateway.settings(ollama_token="laptop", app_origins=True)
    body = {"model": "m", "messages": HELLO}
    assert (await post(Client(gateway.port), "/api/chat", body, {"origin": "null"})).status == 401
    assert (await post(Client(gateway.port), "/api/chat", body, {"origin": "app://obsidian.md"})).status == 200


async def test_a_key_in_the_path_is_for_this_machine(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.v1.app.is_this_machine", lambda _: False)
    gateway.settings(ollama_token="laptop")
    assert (await Client(gateway.port).get(f"/k/{gateway.client.key}/api/tags")).status == 401
    assert (await Client(gateway.port).get("/api/tags")).status == 401


async def test_a_key_in_the_path_is_never_shown(gateway: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    answer = await Client(gateway.port).get(f"/k/{gateway.client.key}/api/nothing")
    assert (answer.status, list(answer.json)) == (404, ["error"])
    shown = answer.body.decode() + caplog.text + str(gateway.records)
    assert gateway.client.key not in shown
    assert "/api/nothing" in answer.json["error"]


@pytest.mark.parametrize(
    ("offered", "asked"), [("m", "m:latest"), ("llama3:latest", "llama3"), ("x:latest", "x:latest")]
)
@pytest.mark.parametrize("path", ["/api/chat", "/api/generate", "/api/embed"])
async def test_latest_is_the_same_as_nothing(
    gateway: Gateway, provider: Provider, offered: str, asked: str, path: str
) -> None:
    gateway.channel(provider.base_url, offered)
    provider.on(offered, vectors() if path == "/api/embed" else speak("Hi"))
    body: Doc = {"model": asked, "messages": HELLO, "prompt": "p", "input": "a"}
    assert (await post(gateway.client, path, body)).status == 200
    assert (provider.last.json["model"], gateway.record.model) == (offered, offered)
    assert (await post(gateway.client, "/api/show", {"model": asked})).status == 200


@pytest.mark.parametrize("reported", [True, False])
async def test_the_last_line_is_what_the_ledger_says(gateway: Gateway, provider: Provider, *, reported: bool) -> None:
    provider.on("m", speak("Hel", "lo") if reported else stream(*story("Hel", "lo")))
    last = lines(await post(gateway.client, "/api/chat", {"model": "m", "messages": HELLO}))[-1]
    record = gateway.record
    assert (last["prompt_eval_count"], last["eval_count"]) == (record.input, record.output)
    assert record.source is (UsageSource.REPORTED if reported else UsageSource.ESTIMATED)


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_suffix_goes_to_completions(gateway: Gateway, provider: Provider, *, streamed: bool) -> None:
    chunks = [answered(said("mid", finish=None)), answered(said("")), answered(spent=usage(4, 2))]
    data = b"".join(map(event, chunks)) + DONE
    provider.on("m", stream_bytes(data) if streamed else reply(answered(said("mid"), spent=usage(4, 2))))
    body = {"model": "m", "prompt": "a", "suffix": "b", "stream": streamed, "options": {"num_predict": 8}}
    answer = await post(gateway.client, "/api/generate", body)
    found = lines(answer) if streamed else [answer.json]
    assert "".join(line["response"] for line in found) == "mid"
    assert (found[-1]["done"], found[-1]["prompt_eval_count"], found[-1]["eval_count"]) == (True, 4, 2)
    assert provider.last.path == "/v1/completions"
    assert {"prompt": "a", "suffix": "b", "max_tokens": 8}.items() <= provider.last.json.items()


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("json", {"type": "json_object"}),
        ({"type": "object"}, {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "object"}}}),
        ("", None),
    ],
)
async def test_the_form_of_an_answer(gateway: Gateway, provider: Provider, given: Any, sent: Doc | None) -> None:
    provider.on("m", speak("{}"))
    await post(gateway.client, "/api/chat", {"model": "m", "messages": HELLO, "format": given})
    assert provider.last.json.get("response_format") == sent


@pytest.mark.parametrize("path", ["create", "copy", "push", "delete", "blobs/sha256:1", "me"])
async def test_what_only_a_model_server_does_is_refused_in_its_form(gateway: Gateway, path: str) -> None:
    answer = await gateway.client.ask("POST", f"/api/{path}", b"{}")
    assert (answer.status, list(answer.json)) == (404, ["error"])


@asynccontextmanager
async def second_port(gateway: Gateway, **fields: Any) -> AsyncIterator[int]:
    """Ollama's port, at a free one."""
    free = await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0)
    number = free.sockets[0].getsockname()[1]
    free.close()
    async with open_ollama_port(gateway.engine):
        gateway.settings(ollama_token="laptop", ollama_port=number, **fields)
        await gateway.until(lambda: gateway.engine.ollama_address or gateway.engine.ollama_error)
        yield number


async def test_the_second_port_needs_no_key(gateway: Gateway, provider: Provider) -> None:
    async with second_port(gateway) as number:
        assert gateway.engine.status().ollama_address == f"http://127.0.0.1:{number}"
        assert (await Client(number).get("/")).body == b"Ollama is running"
        async with sdk(number) as client:
            assert (await client.chat("m", messages=HELLO)).message.content == "Hello"
        answer = await post(Client(number, "ollama"), "/v1/chat/completions", {"model": "m", "messages": HELLO})
        assert answer.text == "Hello"
        other = gateway.token("other")
        await post(Client(number, other.key), "/api/chat", {"model": "m", "messages": HELLO})
    assert [record.token_name for record in gateway.records] == ["laptop", "laptop", "other"]


async def test_the_second_port_follows_the_settings(gateway: Gateway) -> None:
    async with second_port(gateway) as number:
        gateway.settings(ollama_token="", ollama_port=number)
        await gateway.until(lambda: not gateway.engine.ollama_address)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", number)


async def test_a_second_port_that_is_taken_is_reported(gateway: Gateway) -> None:
    taken = await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0)
    number = taken.sockets[0].getsockname()[1]
    async with open_ollama_port(gateway.engine):
        with gateway.engine.bus.watch() as watcher:
            gateway.settings(ollama_token="laptop", ollama_port=number)
            notices = (await watcher.next_batch(2)).notices
            while not (found := [notice for notice in notices if isinstance(notice, StatusChanged)]):
                notices = (await watcher.next_batch(2)).notices
        assert f"127.0.0.1:{number}" in found[0].status.ollama_error
        taken.close()
        gateway.settings(ollama_token="laptop", ollama_port=number, memory_mib=2000)  # any change tries again
        await gateway.until(lambda: gateway.engine.ollama_address)
    assert (await gateway.client.get("/v1/health")).status == 200
