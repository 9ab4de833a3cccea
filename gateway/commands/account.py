"""``account``: shows the owner's balance, grants and budgets, and changes them."""

from collections.abc import Awaitable, Callable
from typing import Any

import click

from gateway.client.control import ControlClient
from gateway.commands import formatting, options
from gateway.commands.base import Noun
from gateway.commands.editing import field_options, patch_of
from gateway.commands.options import DOLLARS
from gateway.commands.output import ListColumn, out_list, out_view
from gateway.commands.session import run
from gateway.domain.account import Grant
from gateway.domain.fields import ACCOUNT, details
from gateway.domain.money import dollars
from gateway.domain.units import Millis, Nanos
from gateway.domain.views import AccountView


@click.group(cls=Noun, bare="show")
def account() -> None:
    """The account: balance, grants, budgets.

    The balance is the sum of all grants minus what has been spent. It is always computed, never stored.
    """


@account.command("show", examples=["tollkeeper account show"])
def show_account() -> None:
    """Show balance, holds and budgets."""
    _run_and_print(lambda client: client.account(), create=False)


def _run_and_print(query: Callable[[ControlClient], Awaitable[AccountView]], *, create: bool) -> None:
    """Query or change the account, then print it and how long the balance will last."""

    async def work(client: ControlClient) -> tuple[AccountView, formatting.BalanceOutlook | None]:
        view = await query(client)
        return view, await formatting.find_balance_outlook(client, view)

    view, outlook = run(work, create=create)
    pace = f"; {outlook.pace}" if outlook and outlook.pace else ""
    pairs = [
        ("available", f"{dollars(view.available_nanos)}{pace}"),
        ("balance", dollars(view.balance_nanos)),
        ("held", f"{dollars(view.held_nanos)} for running calls"),
        ("granted", dollars(view.granted_nanos)),
        ("spent", dollars(view.spent_nanos)),
        *details(ACCOUNT, view),
        *formatting.budget_outlooks(view.budgets, Millis(view.begun_ms or 0)),
    ]
    out_view(outlook.json() if outlook else view, pairs)


@account.command(
    context_settings={"ignore_unknown_options": True}, examples=['tollkeeper account grant 25 --note "November"']
)
@click.argument("amount", type=DOLLARS)
@click.option("--note", default="", help="A reason, shown in the list of grants.")
def grant(amount: int, note: str) -> None:
    """Add AMOUNT dollars to the balance; a negative AMOUNT subtracts them."""
    _run_and_print(lambda client: client.grant(Nanos(amount), note), create=True)


@account.command(examples=["tollkeeper account grants"])
def grants() -> None:
    """List all grants."""
    columns = [
        ListColumn("Amount", lambda g: dollars(g.nanos), "number"),
        ListColumn("Time", lambda g: formatting.moment(g.time), "whole"),
        ListColumn("Note", lambda g: g.note),
        ListColumn("Id", lambda g: g.id, "whole"),
    ]
    all_grants: list[Grant] = run(lambda client: client.grants())
    out_list(all_grants, columns, empty="no grants yet; add money: tollkeeper account grant 10")


@account.command(
    "set", examples=["tollkeeper account set --budget month=50", "tollkeeper account set --status suspended"]
)
@field_options(ACCOUNT)
def set_account(**values: Any) -> None:
    """Change the status or the budgets of the account."""

    async def work(client: ControlClient) -> AccountView:
        patch = patch_of(ACCOUNT, values, await client.account())
        return await client.set_account(options.require_changes(patch))

    _run_and_print(work, create=True)
