import pytest

from gateway.client.control import ControlClient
from tests.client.examined import Spoil, failure, steps
from tests.fakes.gateway import Gateway
from tests.fakes.provider import Provider
from tests.fakes.replies import speak

ILLS: dict[str, tuple[Spoil, dict[str, str], str, str]] = {
    "wrong key": (lambda g, o: o.tokens(), {"key": "sk-tk-wrong"}, "the token is accepted", "token rotate"),
    "no such token": (lambda g, o: o.tokens(), {"token": "nobody"}, "the token is accepted", "token list"),
    "no token": (lambda g, o: o.remove_token("laptop"), {}, "the token is accepted", "token add"),
    "disabled": (
        lambda g, o: o.edit_token("laptop", {"enabled": False}),
        {"token": "laptop"},
        "the token is accepted",
        "'tollkeeper token enable laptop'",
    ),
    "expired": (
        lambda g, o: o.edit_token("laptop", {"expires": 1}),
        {"token": "laptop"},
        "the token is accepted",
        "token edit laptop --expires",
    ),
    "all disabled": (lambda g, o: o.edit_token("laptop", {"enabled": False}), {}, "the token is accepted", "token add"),
    "no models": (lambda g, o: o.remove_channel("up"), {}, "the model exists", "channel add"),
    "unknown model": (lambda g, o: o.models(), {"model": "mm"}, "the model exists", "model list"),
    "switched off": (
        lambda g, o: o.edit_channel("up", {"enabled": False}),
        {"model": "m"},
        "the model exists",
        "channel enable up",
    ),
    "other group": (
        lambda g, o: o.edit_channel("up", {"groups": []}),
        {"model": "m"},
        "the group includes it",
        "channel edit up --group default",
    ),
    "group's patterns": (
        lambda g, o: o.edit_group("default", {"models": ["x*"]}),
        {"model": "m"},
        "the group includes it",
        "group edit default --models",
    ),
    "token's patterns": (
        lambda g, o: o.edit_token("laptop", {"models": ["x*"]}),
        {"model": "m"},
        "the group includes it",
        "token edit laptop --models",
    ),
}


@pytest.mark.parametrize(("spoil", "what", "name", "fix"), ILLS.values(), ids=ILLS)
async def test_each_ill_is_found_where_it_is(
    owner: ControlClient, gateway: Gateway, spoil: Spoil, what: dict[str, str], name: str, fix: str
) -> None:
    await spoil(gateway, owner)
    step = await failure(owner, **what)
    assert step.name == name
    assert fix in step.fix


async def test_a_model_that_others_answer_for_exists(owner: ControlClient) -> None:
    await owner.edit_group("default", {"fallbacks": [{"model": "old", "to": ["m"]}]})
    found = await steps(owner, model="old")
    assert {step.result for step in found.values()} == {"ok"}
    assert found["the model exists"].text == "no channel serves 'old', other models answer for it"


async def test_a_server_that_does_not_listen(owner: ControlClient, gateway: Gateway) -> None:
    gateway.engine.address = ""
    assert (await failure(owner)).name == "the gateway answers"


async def test_a_near_name_is_suggested(owner: ControlClient, gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, "gpt-large", name="more")
    assert "did you mean 'gpt-large'" in (await failure(owner, model="gtp-large")).text


async def test_the_first_model_it_sees_is_taken(owner: ControlClient, gateway: Gateway, provider: Provider) -> None:
    gateway.channel(provider.base_url, "a", "b", name="more")
    provider.on("a", speak())
    assert (await steps(owner))["the model exists"].text == "'a' is served by more"
