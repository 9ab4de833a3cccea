import pytest

from gateway.control.probe import probe
from gateway.domain.channel import Channel
from gateway.domain.errors import NotFound
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider
from tests.fakes.replies import choice, fail, reply, slam, whole

LIST = reply({"object": "list", "data": [{"id": "m", "object": "model"}]})
GOOD = reply(whole("m", choice("ok"), spent={"prompt_tokens": 14, "completion_tokens": 2, "total_tokens": 16}))


@pytest.fixture
def channel(gateway: Gateway, provider: Provider) -> Channel:
    provider.on("/v1/models", LIST)
    provider.on("m", GOOD)
    return gateway.engine.catalog.channel("up")


async def test_the_free_question_is_asked_alone(gateway: Gateway, provider: Provider, channel: Channel) -> None:
    check = await probe(gateway.engine, channel, "")
    assert (check.ok, check.text) == (True, "it lists 1 models")
    assert [exchange.path for exchange in provider.exchanges] == ["/v1/models"]


async def test_a_real_call_tells_its_tokens(gateway: Gateway, provider: Provider, channel: Channel) -> None:
    check = await probe(gateway.engine, channel, "m")
    assert check.ok
    assert check.text.startswith("'m' answered with 14 input, 2 output tokens")
    assert provider.last.json["stream"] is False


async def test_the_call_is_not_booked(gateway: Gateway, channel: Channel) -> None:
    await probe(gateway.engine, channel, "m")
    assert gateway.records == []


async def test_the_call_decides_when_there_is_no_list(gateway: Gateway, provider: Provider, channel: Channel) -> None:
    provider.on("/v1/models", fail(404))
    check = await probe(gateway.engine, channel, "m")
    assert check.ok
    assert "no list of models" in check.text


@pytest.mark.parametrize("script", [fail(401), fail(500), slam, reply(b"<html>"), reply({"choices": []})])
async def test_a_failed_call_is_told(gateway: Gateway, provider: Provider, channel: Channel, script: object) -> None:
    provider.on("m", script)  # type: ignore[arg-type]
    check = await probe(gateway.engine, channel, "m")
    assert not check.ok
    assert check.text.startswith("the call failed: ")


async def test_models_the_upstream_has_no_longer_are_named(gateway: Gateway, provider: Provider) -> None:
    provider.on("/v1/models", LIST)
    channel = gateway.channel(provider.base_url, "m", "old=ancient")
    assert "not among them: old" in (await probe(gateway.engine, channel, "")).text


async def test_a_model_it_does_not_serve_is_not_asked(gateway: Gateway, provider: Provider, channel: Channel) -> None:
    with pytest.raises(NotFound, match="it serves: m"):
        await probe(gateway.engine, channel, "other")
    assert provider.exchanges == []


async def test_what_an_upstream_says_is_made_harmless(gateway: Gateway, provider: Provider, channel: Channel) -> None:
    provider.on("/v1/models", fail(400, "\x1b]0;owned\x07"))
    assert "\x1b" not in (await probe(gateway.engine, channel, "")).text
