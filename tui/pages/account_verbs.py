"""Account verbs: add money, suspend and resume, budgets."""

from collections.abc import Mapping
from typing import Any

from gateway.domain.errors import BadRequest
from gateway.domain.money import dollars, nanos_of
from gateway.domain.views import AccountView
from tui import twins
from tui.pages.base import Verb
from tui.parse import budget_bodies, budgets, token_budgets, written_budgets, written_token_budgets
from tui.twins import command
from tui.widgets.form import Field, Form, Plan, Values
from tui.widgets.toast import tell

Account = Any
"""The page; it imports this file."""

USUAL = "10"
"""Dollars of a top-up if nothing else is typed."""

WHEN_EMPTY = ("let them finish", "stop running streams")


async def grant(page: Account) -> None:
    """Top up; a negative amount corrects."""
    session = page.session

    def live(values: Values) -> str:
        there = session.board.account
        return f"the balance will be {dollars((there.balance_nanos if there else 0) + values['nanos'])}"

    plan = Plan(
        title="Add money",
        fields=[
            Field(id="nanos", label="Dollars", value=USUAL, hint="10, or -2.50 to correct", parse=_amount),
            Field(id="note", label="Note", hint="why"),
        ],
        save=lambda values: session.client.grant(values["nanos"], values["note"]),
        twin=lambda values: command("account", "grant", values["nanos"], note=values["note"].strip() or None),
        live=live,
        verb="Add",
    )
    found: AccountView | None = await page.ask(Form(plan))
    if found is not None:
        tell(page, f"the balance is {dollars(found.balance_nanos)}; u takes it back")


async def suspend(page: Account) -> None:
    """Refuse all calls, or take them again."""
    account: AccountView | None = page.session.board.account
    if account is None:
        return
    if account.status != "active":
        await page.session.client.set_account({"status": "active"})
        tell(page, "the account is active: calls are taken again")
    elif await page.sure(
        "Suspend the account?", "Every call is refused until it is resumed; running ones end.", "Suspend"
    ):
        await page.session.client.set_account({"status": "suspended"})
        tell(page, "the account is suspended: space resumes it")


async def edit(page: Account) -> None:
    """Budgets of everything together, and what happens to streams when the money is gone."""
    session, account = page.session, page.session.board.account
    if account is None:
        return
    stops = WHEN_EMPTY[account.stop_when_empty]
    plan = Plan(
        title="Account",
        fields=[
            Field(
                id="budgets",
                label="Budget, dollars",
                value=written_budgets(account.budgets),
                hint="none, or day=5 week=20 month=50",
                parse=budgets,
            ),
            Field(
                id="token_budgets",
                label="Budget, tokens",
                value=written_token_budgets(account.budgets),
                hint="none, or day=1M",
                parse=token_budgets,
            ),
            Field(id="stop_when_empty", label="When it is empty", value=stops, options=WHEN_EMPTY, parse=_stops),
        ],
        save=lambda values: session.client.set_account(body(values)),
        twin=lambda values: twin(account, values),
    )
    if await page.ask(Form(plan)) is not None:
        tell(page, "the account was changed; u takes it back")


def body(values: Values) -> dict[str, Any]:
    """What the server takes."""
    found = budget_bodies(values["budgets"], values["token_budgets"])
    return {"budgets": found, "stop_when_empty": values["stop_when_empty"]}


def twin(account: AccountView, values: Mapping[str, str]) -> str:
    """The command that does the same."""
    text = "account set" + twins.budgets(values, account.budgets)
    if _stops(values["stop_when_empty"]) != account.stop_when_empty:
        text += " --stop-when-empty" if _stops(values["stop_when_empty"]) else " --finish-when-empty"
    return text


def _stops(text: str) -> bool:
    return text == WHEN_EMPTY[1]


def _amount(text: str) -> int:
    nanos = nanos_of(text)
    if nanos == 0:
        raise BadRequest("nothing would change")
    return nanos


VERBS: Mapping[str, Verb] = {"grant": grant, "suspend": suspend, "edit": edit}
