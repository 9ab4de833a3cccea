"""The doctor tests a model for embeddings by a call for embeddings, and takes another one where it may choose."""

import pytest

from gateway.client.control import ControlClient
from tests.client.examined import failure, steps
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider
from tests.fakes.replies import at_path, fail
from tests.v1.test_every_api import upstream

EMBEDDING = "nomic-embed-text"


@pytest.fixture(autouse=True)
def embedding(gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, EMBEDDING)
    no_chat = fail(400, f"{EMBEDDING} does not support chat")
    provider.on(EMBEDDING, at_path("/embeddings", upstream(), no_chat))


async def apis(gateway: Gateway, number: int) -> set[tuple[str, str]]:
    return {(record.model, record.api or "chat") for record in await gateway.settled(number)}


async def test_embedding_models_are_tested_by_embeddings(owner: ControlClient, gateway: Gateway) -> None:
    found = await steps(owner)
    assert {step.result for name, step in found.items() if name != "the quota is enough"} == {"ok"}
    text = found["a real call works"].text
    assert text.startswith("a call for embeddings took ")
    assert text.endswith("by channel 'up', for $0.00")
    assert await apis(gateway, 1) == {(EMBEDDING, "embeddings")}


async def test_chat_models_are_tested_first(owner: ControlClient, gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, EMBEDDING, "z")
    provider.on("z", upstream())
    assert (await steps(owner))["the model is offered"].text.startswith("token 'laptop' sees 'z': ")
    assert await apis(gateway, 2) == {("z", "chat")}
    assert (await steps(owner, api="embeddings"))["the model is offered"].text.startswith(
        f"token 'laptop' sees '{EMBEDDING}': "
    )


async def test_the_upstream_name_decides_the_api(owner: ControlClient, gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, f"vectors={EMBEDDING}")
    assert (await steps(owner, model="vectors"))["a real call works"].result == "ok"
    assert await apis(gateway, 1) == {("vectors", "embeddings")}


async def test_a_chosen_api_or_model_is_tested(owner: ControlClient, gateway: Gateway, provider: Provider) -> None:
    step = await failure(owner, api="chat")
    assert (step.name, "does not support chat" in step.text) == ("a real call works", True)
    gateway.channel(provider.base_url, "z")
    step = await failure(owner, api="embeddings")
    assert (step.name, step.fix) == ("the model is offered", "name the model to test: --model NAME")
    provider.on("z", upstream())
    assert (await steps(owner, api="embeddings", model="z"))["a real call works"].result == "ok"
