"""``account``: the owner's purse."""

import click

from gateway.client.control import ControlClient
from gateway.commands import formatting, options
from gateway.commands.base import Noun
from gateway.commands.options import DOLLARS, Amounts, budget_options, json_option
from gateway.commands.output import out_json, out_list, out_pairs
from gateway.commands.session import run
from gateway.domain.account import AccountStatus, Grant
from gateway.domain.money import dollars
from gateway.domain.units import Nanos
from gateway.domain.views import AccountView


@click.group(cls=Noun)
def account() -> None:
    """The purse: balance, grants, budgets.

    The balance is what was granted less what was spent; it is never stored, always computed.
    """


@account.command("show", examples=["tollkeeper account show"])
@json_option
def show_account(*, as_json: bool) -> None:
    """Show balance, holds and budgets."""
    _print(run(lambda client: client.account()), as_json=as_json)


@account.command(
    context_settings={"ignore_unknown_options": True}, examples=['tollkeeper account grant 25 --note "November"']
)
@click.argument("amount", type=DOLLARS)
@click.option("--note", default="", help="Why; shown in the list of grants.")
@json_option
def grant(amount: int, note: str, *, as_json: bool) -> None:
    """Add dollars to the account; a negative AMOUNT corrects."""
    _print(run(lambda client: client.grant(Nanos(amount), note)), as_json=as_json)


@account.command(examples=["tollkeeper account grants"])
@json_option
def grants(*, as_json: bool) -> None:
    """List what was granted."""
    columns = [
        (">Amount", lambda g: dollars(g.nanos)),
        ("Time", lambda g: formatting.moment(g.time)),
        ("Id", lambda g: g.id),
        ("Note", lambda g: g.note),
    ]
    found: list[Grant] = run(lambda client: client.grants())
    out_list(found, columns, as_json=as_json, empty="nothing was granted yet; add some: tollkeeper account grant 10")


@account.command(
    "set", examples=["tollkeeper account set --budget month=50", "tollkeeper account set --status suspended"]
)
@click.option(
    "--status", type=click.Choice([s.value for s in AccountStatus]), help="A suspended account spends nothing."
)
@click.option("--stop-when-empty/--finish-when-empty", default=None, help="End running streams when the money is gone.")
@budget_options
@json_option
def set_account(
    status: str | None,
    dollar_budgets: Amounts,
    token_budgets: Amounts,
    *,
    stop_when_empty: bool | None,
    as_json: bool,
) -> None:
    """Change status or budgets of the account."""

    async def work(client: ControlClient) -> AccountView:
        patch = options.given(status=status, stop_when_empty=stop_when_empty)
        if dollar_budgets or token_budgets:
            patch |= options.budgets((await client.account()).budgets, dollar_budgets, token_budgets)
        return await client.set_account(options.something(patch))

    _print(run(work), as_json=as_json)


def _print(view: AccountView, *, as_json: bool) -> None:
    if as_json:
        out_json(view)
        return
    out_pairs(
        [
            ("status", view.status),
            ("available", dollars(view.available_nanos)),
            ("balance", dollars(view.balance_nanos)),
            ("held", f"{dollars(view.held_nanos)} for running calls"),
            ("granted", dollars(view.granted_nanos)),
            ("spent", dollars(view.spent_nanos)),
            ("when empty", "running streams are stopped" if view.stop_when_empty else "running streams may finish"),
            *(("budget", formatting.budget(budget)) for budget in view.budgets),
        ]
    )
