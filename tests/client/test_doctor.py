from gateway.client.control import ControlClient
from gateway.client.doctor import Case, examine
from gateway.domain.group import Fallback
from tests.client.examined import NAMES, failure, steps
from tests.control.conftest import Surface
from tests.fakes.gateway import Gateway


async def test_all_is_well_and_two_real_calls_prove_it(owner: ControlClient, gateway: Gateway) -> None:
    found = await steps(owner)
    assert {step.result for step in found.values()} == {"ok"}
    assert found["the model is offered"].text == "token 'laptop' sees 'm': group 'default' has it from up"
    assert "for $0.000285 together" in found["a real call works"].text
    assert [record.stream for record in await gateway.settled(2)] == [False, True]


async def test_a_given_key_is_presented(owner: ControlClient, gateway: Gateway) -> None:
    found = await steps(owner, key=gateway.token("phone").key)
    assert found["the token is accepted"].text == "token 'phone' is accepted; it sees 1 model"
    assert {record.token_name for record in await gateway.settled(2)} == {"phone"}


async def test_a_named_token_is_used_without_its_key(owner: ControlClient, gateway: Gateway) -> None:
    gateway.token("phone")
    assert "'phone'" in (await steps(owner, token="phone"))["the token is accepted"].text
    assert {record.token_name for record in await gateway.settled(2)} == {"phone"}


async def test_what_follows_a_failure_is_not_asked(owner: ControlClient, gateway: Gateway) -> None:
    await owner.set_account({"status": "suspended"})
    found = await steps(owner)
    assert [step.result for step in found.values()] == ["ok"] * 3 + ["fail"] + ["skipped"] * (len(NAMES) - 4)
    assert gateway.records == []


async def test_about_one_call_the_rest_is_a_warning(owner: ControlClient, gateway: Gateway) -> None:
    gateway.channel("http://127.0.0.1:9/v1", "other", name="dead")
    for one_call, result in ((True, "warning"), (False, "fail")):
        found = {step.name: step async for step in examine(Case(owner, model="m"), one_call=one_call)}
        assert found["a real call works"].result == "ok"
        assert (found["channel dead"].result, bool(found["channel dead"].fix)) == (result, True)


async def test_a_server_that_is_gone(owner: ControlClient, surface: Surface) -> None:
    await surface.runner.cleanup()
    step = await failure(owner)
    assert (step.name, "tollkeeper serve" in step.fix) == ("the gateway answers", True)


async def test_an_alias_of_a_group_is_answered_by_another_model(owner: ControlClient, gateway: Gateway) -> None:
    gateway.group("default", fallbacks=(Fallback(model="smart", to=("m",)),))
    found = await steps(owner, model="smart")
    assert found["the model is offered"].text == (
        "token 'laptop' sees 'smart': no channel has it, others answer for it"
    )
    assert found["a real call works"].result == "ok"


async def test_a_server_that_is_stopping(owner: ControlClient, gateway: Gateway) -> None:
    gateway.engine.refuse_calls()
    step = await failure(owner)
    assert (step.name, step.code, step.text) == ("the gateway answers", "gateway_stopping", "the gateway is stopping")
    assert step.fix == "wait until it has stopped, then start it with 'tollkeeper serve'"
