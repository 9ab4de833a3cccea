import pytest

from gateway.client.control import ControlClient
from gateway.control import offers
from gateway.control.offers import LOCAL_SERVERS, key_offers
from gateway.domain.urls import checked_base_url
from gateway.upstream.vendors import PRESETS, Vendor
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider
from tests.fakes.replies import fail, reply, silence

VARIABLES = {row.key_variable: row.name for row in PRESETS.values() if row.key_variable}
LIST = reply({"object": "list", "data": [{"id": "llama"}]})


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """No keys in the environment, and no servers on this machine but the tests' own."""
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(offers, "LOCAL_SERVERS", ())


@pytest.fixture
def found(gateway: Gateway, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> str:
    """A local server where one may be expected; the gateway has another channel."""
    provider.on("/v1/models", LIST)
    gateway.channel("http://127.0.0.1:9/v1")
    monkeypatch.setattr(
        offers,
        "LOCAL_SERVERS",
        (Vendor(name="ollama", base_url=provider.base_url), Vendor(name="jan", base_url="http://127.0.0.1:9/v1")),
    )
    return provider.base_url


async def test_nothing_is_offered_where_nothing_is(owner: ControlClient) -> None:
    assert await owner.offers() == []


async def test_a_local_server_is_offered_with_its_models(owner: ControlClient, found: str) -> None:
    (offer,) = await owner.offers()
    assert (offer.name, offer.preset, offer.base_url, offer.key) == ("ollama", "ollama", found, "")
    assert [model.name for model in offer.models] == ["llama"]


async def test_an_offer_taken_is_not_made_again(owner: ControlClient, found: str) -> None:
    (offer,) = await owner.offers()
    await owner.add_channel(
        {"name": offer.name, "dialect": offer.dialect, "preset": offer.preset, "base_url": offer.base_url}
    )
    assert await owner.offers() == []


@pytest.mark.parametrize("script", [fail(404), fail(401), reply(b"<html>hello</html>"), silence])
async def test_other_programs_on_a_usual_port_are_not_offered(
    owner: ControlClient, provider: Provider, found: str, script: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offers, "ANSWER_S", 0.1)
    provider.on("/v1/models", script)  # type: ignore[arg-type]
    assert await owner.offers() == []


async def test_a_key_in_the_environment_is_offered_by_its_name(
    owner: ControlClient, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GROQ_API_KEY", "gsk-canary")
    assert b"gsk-canary" not in await owner.send(owner.build_request("GET", "/offers"))
    (offer,) = await owner.offers()
    assert (offer.name, offer.key, offer.base_url) == ("groq", "env:GROQ_API_KEY", PRESETS["groq"].base_url)
    assert provider.exchanges == []


def test_a_token_of_our_own_is_not_the_vendor_s() -> None:
    assert key_offers({"OPENAI_API_KEY": "sk-tk-abc", "MISTRAL_API_KEY": " "}) == []


def test_offers_are_acceptable() -> None:
    assert all(checked_base_url(vendor.base_url) == vendor.base_url for vendor in LOCAL_SERVERS)
    offered = key_offers(dict.fromkeys(VARIABLES, "secret"))
    assert [offer.name for offer in offered] == [*VARIABLES.values()]
    assert all(checked_base_url(offer.base_url) == offer.base_url for offer in offered)
    assert all(offer.preset in ("", *PRESETS) for offer in offered)


async def test_presets_fill_in_what_need_not_be_given(owner: ControlClient) -> None:
    found = {preset.name: preset for preset in await owner.presets()}
    assert list(found) == list(PRESETS)
    claude, llama = found["anthropic"], found["ollama"]
    assert (claude.dialect, claude.key_variable, claude.local) == ("anthropic", "ANTHROPIC_API_KEY", False)
    assert (llama.dialect, llama.key_variable, llama.local) == ("openai", "", True)
