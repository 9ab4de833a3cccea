"""Account page: shows the balance, how long it lasts, budgets and grants; adds money, suspends, and edits budgets."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar

from textual.app import ComposeResult
from textual.content import Content

from gateway.domain.account import AccountFields, Grant
from gateway.domain.budget import days
from gateway.domain.fields import ACCOUNT
from gateway.domain.forecast import PACE_DAYS, balance_forecast, forecast, used_share
from gateway.domain.money import dollars, parse_dollars
from gateway.domain.units import Millis
from gateway.domain.views import AccountView
from tui import format as fmt, glyphs
from tui.alerts import LOW_BALANCE
from tui.budgets import budget_parts, by_unit
from tui.charts import spark
from tui.pages.base import AnyPage, ConsolePage, Verb
from tui.pages.entities import EntityForm
from tui.pages.usage_panels import budget_rows, budget_sources
from tui.session import ConsoleSession
from tui.text import TextCard, content, lines, safe
from tui.trends import Trends, trends
from tui.widgets.dialogs import toast
from tui.widgets.form import Form, FormField, FormPlan, Values
from tui.widgets.text_block import TextBlock


async def _grant(page: AnyPage) -> None:
    """Add money to the balance. A negative amount corrects a grant."""
    session = page.session

    def preview(values: Values) -> str:
        balance = session.board.account.balance_nanos if session.board.account else 0
        return f"new balance: {dollars(balance + values['nanos'])}"

    plan = FormPlan(
        title="Add money",
        fields=[
            FormField(id="nanos", label="Dollars", value="10", hint="10, or -2.50 to correct", parse=parse_dollars),
            FormField(id="note", label="Note", hint="why"),
        ],
        save=lambda values: session.client.grant(values["nanos"], values["note"]),
        command=lambda values: fmt.cli_command(
            "account", "grant", values["nanos"], note=values["note"].strip() or None
        ),
        preview=preview,
        verb="Add",
    )
    account: AccountView = await page.ask(Form(plan))
    page.report_change(f"Balance: {dollars(account.balance_nanos)}.")


async def _suspend(page: AnyPage) -> None:
    """Suspend the account, so that all calls are rejected, or resume it."""
    account: AccountView | None = page.session.board.account
    if account is None:
        return
    if account.status != "active":
        await page.session.client.set_account({"status": "active"})
        toast(page, "Account active: calls are accepted again.", change=True)
    else:
        consequences = "New calls are rejected until you resume it. Running calls finish."
        await page.confirm("Suspend the account?", consequences, "Suspend")
        await page.session.client.set_account({"status": "suspended"})
        toast(page, f"Account suspended. Press {page.session.key('account.suspend')} to resume.", change=True)


async def _edit(page: AnyPage) -> None:
    """Edit the account's budgets, and what happens to running streams when they are used up."""
    session, account = page.session, page.session.board.account
    if account is None:
        return
    table = [field for field in ACCOUNT if field.name != "status"]
    form = EntityForm("account", table, AccountFields(), session, account)
    await page.ask(Form(form.plan("Account", session.client.set_account)))
    page.report_change("Account saved.")


class AccountPage(ConsolePage):
    """The page with status, balance, budgets and grants."""

    DEFAULT_CSS = "AccountPage TextBlock { padding: 1 0 0 0; }"
    scopes = ("account",)
    verbs: ClassVar[Mapping[str, Verb]] = {
        "grant": _grant,
        "suspend": _suspend,
        "edit": _edit,
        "settings": lambda page: page.app.open_page("settings"),
    }

    def __init__(self, session: ConsoleSession) -> None:
        super().__init__(session)
        self._grants: Sequence[Grant] | None = None
        self._trends = Trends()
        self._first_call: Millis | None = None

    def compose(self) -> ComposeResult:
        yield TextBlock()

    def renew(self) -> None:
        account = self.session.board.account
        if account is None:
            return
        self.fetch_if_due(account.granted_nanos, account.spent_nanos, pause_ms=5_000)
        self.query_one(TextBlock).show(partial(self.draw, account))

    def draw(self, account: AccountView, width: int) -> Content:
        card, now = TextCard(width, label=12), self.session.now()
        card.row("status", *self._status(account))
        available, held = account.available_nanos, account.held_nanos
        tone = "warn" if available < LOW_BALANCE else "bold"
        card.row(
            "available",
            (dollars(available), "bad" if available <= 0 else tone),
            (f"   {dollars(held)} held by running calls" if held else "", "dim"),
            self._outlook(account),
        )
        sums = f"{dollars(account.granted_nanos)} granted, {dollars(account.spent_nanos)} spent"
        card.row("balance", f"{dollars(account.balance_nanos)}   ", (sums, "dim"))
        card.row("30 days", *self._month_costs(width))
        card.line("")
        for budget in by_unit(account.budgets):
            text = forecast(budget, now, now if account.begun_ms is None else account.begun_ms)
            card.row(budget.window.info.rate, *budget_parts(budget, 20, text))
        if not account.budgets:
            edit_key = self.session.key("account.edit")
            card.row("budgets", (f"none: only the balance limits spending; {edit_key} adds budgets", "dim"))
        effect = "are stopped (finish_reason length)" if account.stop_when_empty else "may finish, even below zero"
        card.row("when empty", (f"running streams {effect}", "dim"))
        card.line("")
        return lines(card.content(), *self._other_budgets(width), *self._grant_lines())

    def _status(self, account: AccountView) -> list[tuple[str, str]]:
        key = self.session.key("account.suspend")
        if account.status == "active":
            return [(f"{glyphs.ON} active", "ok"), (f"   {key} suspends", "dim")]
        hint = f"   all calls are rejected; {key} resumes"
        return [(f"{glyphs.FAILED} {safe(account.status)}", "bad"), (hint, "dim")]

    def _outlook(self, account: AccountView) -> tuple[str, str]:
        """Returns how long the money will last, or that a budget is used up, and the tone of that text."""
        if account.available_nanos > 0 and any(used_share(budget) >= 1 for budget in account.budgets):
            return "   calls are rejected: a budget is used up", "bad"
        spent = sum(self._trends.values("", lambda row: row.cost_nanos)[-PACE_DAYS:])
        pace = balance_forecast(account.available_nanos, int(spent), self._first_call, self.session.now())
        return f"   {pace}", "dim"

    def _month_costs(self, width: int) -> list[tuple[str, str]]:
        costs = self._trends.values("", lambda row: row.cost_nanos)
        spark_width = min(30, max(10, width - 40))
        week_cost = sum(costs[-PACE_DAYS:])
        return [
            (spark(costs, spark_width), "live"),
            (f" {fmt.dollar_amount(int(sum(costs)))}, last {PACE_DAYS} days {fmt.dollar_amount(int(week_cost))}", ""),
        ]

    def _other_budgets(self, width: int) -> list[Content]:
        sources = [source for source in budget_sources(self.session) if source.kind != "account"]
        if not sources:
            return []
        rows = budget_rows(self.session, sources[:200], width)
        if more := len(sources) - len(rows):
            rows.append(content((f" and {more} more: pages 2 and 3 show each", "dim")))
        return [content((" budgets of groups and tokens, the most used first", "dim")), *rows, content("")]

    def _grant_lines(self) -> list[Content]:
        if self._grants is None:
            return [content((" grants ...", "dim"))]
        now = self.session.now()
        rows = [content(*self.session.hint(" grants, newest first{   account.grant} adds money", "dim"))]
        for entry in sorted(self._grants, key=lambda entry: -entry.time)[:200]:
            amount = f"   {'' if entry.nanos < 0 else '+'}{dollars(entry.nanos)}"
            rows.append(content(f"{amount:<16}", (f"{fmt.moment(entry.time, now):<14}", "dim"), safe(entry.note)))
        if not self._grants:
            rows.append(content("   none yet"))
        return rows

    async def fetch(self) -> None:
        starts = days(30, self.session.now())
        self._grants = await self.session.client.grants()
        summary = await self.session.client.summary(since=starts[0], step="day")
        self._trends, self._first_call = trends(summary, starts), summary.first_ms
