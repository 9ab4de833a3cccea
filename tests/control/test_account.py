import pytest

from gateway.client.control import ControlClient
from gateway.domain.budget import Window
from gateway.domain.errors import BadRequest
from gateway.domain.units import DOLLAR
from tests.fakes.gateway import GRANTED, Gateway


async def test_the_account_is_shown(owner: ControlClient) -> None:
    account = await owner.account()
    assert (account.status, account.granted_nanos, account.spent_nanos) == ("active", GRANTED, 0)
    assert account.balance_nanos == account.available_nanos == GRANTED
    assert (await owner.set_account({"status": "suspended"})).status == "suspended"


async def test_an_invalid_budget_changes_nothing(owner: ControlClient) -> None:
    with pytest.raises(BadRequest) as caught:
        await owner.set_account({"status": "suspended", "budgets": [{"window": "day", "nanos": -1}]})
    assert caught.value.param == "budgets"
    assert (await owner.account()).status == "active"


async def test_a_grant_tops_up_and_a_negative_one_corrects(owner: ControlClient) -> None:
    assert (await owner.grant(5 * DOLLAR, "birthday")).balance_nanos == GRANTED + 5 * DOLLAR
    assert [(grant.nanos, grant.note) for grant in await owner.grants()] == [(GRANTED, ""), (5 * DOLLAR, "birthday")]
    assert (await owner.grant(-DOLLAR)).balance_nanos == GRANTED + 4 * DOLLAR


async def test_budgets_show_what_is_used(owner: ControlClient, gateway: Gateway) -> None:
    record = await gateway.call()
    account = await owner.set_account({"budgets": [{"window": "day", "nanos": DOLLAR, "tokens": 10}]})
    (budget,) = account.budgets
    assert (budget.window, budget.nanos, budget.spent_nanos) == (Window.DAY, DOLLAR, record.cost)
    assert (budget.tokens, budget.spent_tokens) == (10, record.input + record.output)
    assert budget.resets_at_ms is not None
