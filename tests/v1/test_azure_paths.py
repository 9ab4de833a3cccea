"""Azure's paths are other ways to the same calls: the model of the path counts, whatever the body says."""

import pytest

from tests.fakes.gateway import Gateway
from tests.fakes.obedient import obey
from tests.fakes.provider import Provider
from tests.fakes.replies import Doc, choice, dumps, reply, speak, usage, whole

CHAT: Doc = {"messages": [{"role": "user", "content": "Hi"}]}
VERSION = "?api-version=2024-10-21"


@pytest.mark.parametrize(
    ("path", "sent"),
    [
        ("/openai/deployments/m/chat/completions", {}),
        ("/openai/deployments/m/chat/completions", {"model": "gpt-35-turbo"}),
        ("/v1/openai/deployments/m/chat/completions/", {}),
        ("/v1/deployments/m/chat/completions", {"model": "m"}),
        ("/deployments/m/chat/completions", {}),
        ("/k/{key}/openai/deployments/m/chat/completions", {"model": "gpt-35-turbo"}),
    ],
)
async def test_a_deployment_is_a_model(
    gateway: Gateway, provider: Provider, path: str, sent: Doc, *, stream: bool
) -> None:
    gateway.channel(provider.base_url, "m")
    body = dumps({**CHAT, **sent, "stream": stream})
    answer = await gateway.client.ask("POST", path.format(key=gateway.client.key) + VERSION, body)
    (record,) = await gateway.settled()
    assert (answer.status, record.model, provider.last.json["model"]) == (200, "m", "m")


async def test_a_deployment_may_have_slashes(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, "org/m:free")
    provider.on("org/m:free", speak("Hello"))
    path = "/openai/deployments/org%2Fm%3Afree/chat/completions" + VERSION
    assert (await gateway.client.ask("POST", path, dumps(CHAT))).text == "Hello"


@pytest.mark.parametrize("path", ["/openai/v1/chat/completions", "/openai/v1/chat/completions?api-version=preview"])
async def test_the_newer_form_has_the_model_in_its_body(gateway: Gateway, provider: Provider, path: str) -> None:
    gateway.channel(provider.base_url, "m")
    assert (await gateway.client.ask("POST", path, dumps({**CHAT, "model": "m"}))).text == "Hello"


async def test_the_other_calls_of_a_deployment(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, "m", preset="cerebras")
    provider.on("m", obey, reply(whole("m", choice("Hi"), spent=usage())))
    embedded = await gateway.client.ask("POST", "/openai/deployments/m/embeddings" + VERSION, dumps({"input": "hi"}))
    answered = await gateway.client.ask("POST", "/openai/responses" + VERSION, dumps({"model": "m", "input": "hi"}))
    assert embedded.json["data"][0]["embedding"] == [0.5]
    assert answered.json["output"][0]["content"][0]["text"] == "Hi"


async def test_a_deployment_that_does_not_exist_is_an_unknown_model(gateway: Gateway) -> None:
    answer = await gateway.client.ask("POST", "/openai/deployments/nope/chat/completions", dumps(CHAT))
    assert answer.refusal == (404, "model_not_found", "model")


@pytest.mark.parametrize("body", [b"[]", b"{", b"", b'"x"'])
async def test_a_body_without_an_object_gets_the_usual_error(gateway: Gateway, body: bytes) -> None:
    asked = [
        await gateway.client.ask("POST", path, body)
        for path in ("/openai/deployments/m/chat/completions", "/v1/chat/completions")
    ]
    assert asked[0].refusal == asked[1].refusal


async def test_an_unsupported_call_of_a_deployment_is_rejected_with_the_reason(gateway: Gateway) -> None:
    answer = await gateway.client.ask("POST", "/openai/deployments/m/images/generations" + VERSION, b"{}")
    assert answer.refusal == (404, "unknown_url", None)
    assert "this API is not supported" in answer.error["message"]
