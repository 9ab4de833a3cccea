"""Account: the purse: what is left and for how long, budgets, and what was put in."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.content import Content

from gateway.domain.account import Grant
from gateway.domain.errors import GatewayError
from gateway.domain.money import dollars
from gateway.domain.units import Millis, Nanos
from gateway.domain.views import AccountView
from tui import format as fmt
from tui.actions import bindings
from tui.alerts import LOW, used
from tui.budgets import brief, forecast, lasting, tone
from tui.card import Card
from tui.charts import spark
from tui.pages import account_verbs
from tui.pages.base import Page, Verb
from tui.safe import safe
from tui.session import Session
from tui.tones import content, lines
from tui.trends import DAY_MS, Trends, days, trends
from tui.widgets.drawn import Drawn

GAUGE = 20
PACE_DAYS = 7
"""Days whose spending is the pace."""


class Account(Page):
    """Status, balance, budgets, grants."""

    DEFAULT_CSS = "Account Drawn { padding: 1 0 0 0; }"
    scopes = ("account",)
    verbs: ClassVar[Mapping[str, Verb]] = account_verbs.VERBS
    BINDINGS = bindings(*scopes, verbs=frozenset(verbs))

    def __init__(self, session: Session) -> None:
        super().__init__(session, "account")
        self._grants: Sequence[Grant] | None = None
        self._trends = Trends()
        self._asked: tuple[Nanos, int] | None = None
        """What was granted when the grants were asked for, and the day."""

    def compose(self) -> ComposeResult:
        yield Drawn()

    def take_focus(self) -> None:
        self.query_one(Drawn).focus()

    def renew(self) -> None:
        account = self.session.board.account
        if account is None:
            return
        due = (account.granted_nanos, self.session.now() // (DAY_MS // 24))
        if self._asked != due and self.session.link == "attached":
            self._asked = due
            self.run_worker(self._ask(), group="account", exclusive=True, exit_on_error=True)
        self.query_one(Drawn).show(lambda width, _: self.draw(account, width))

    def draw(self, account: AccountView, width: int) -> Content:
        """All of it, in so many cells."""
        card, glyphs, now = Card(width, label=12), self.session.glyphs, self.session.now()
        active = account.status == "active"
        state = (f"{glyphs.on} active", "ok") if active else (f"{glyphs.failed} {safe(account.status)}", "bad")
        how = "space suspends it" if active else "every call is refused; space resumes it"
        card.row("status", state, (f"   {how}", "dim"))
        left = account.available_nanos
        card.row("available", (dollars(left), _tone(left)), *_held(account), (f"   {self._pace(account)}", "dim"))
        put = f"{dollars(account.granted_nanos)} granted, {dollars(account.spent_nanos)} spent"
        card.row("balance", f"{dollars(account.balance_nanos)}   ", (put, "dim"))
        card.row("30 days", *self._month(width))
        card.line("")
        for budget in account.budgets:
            told = f"   {forecast(budget, now, self._begun())}"
            card.row(f"a {budget.window.value}", (brief(budget, GAUGE, glyphs), tone(used(budget))), told)
        if not account.budgets:
            card.row("budgets", ("none: only the balance is a limit; e sets some", "dim"))
        stops = "are stopped (finish_reason length)" if account.stop_when_empty else "may finish, below zero if need be"
        card.row("when empty", (f"running streams {stops}", "dim"))
        card.line("")
        return lines(card.content(), *self._granted())

    def _begun(self) -> Millis:
        """When spending can have begun: with the first grant."""
        return min((one.time for one in self._grants or ()), default=self.session.now())

    def _pace(self, account: AccountView) -> str:
        spent = sum(self._trends.values("", lambda row: row.cost_nanos)[-PACE_DAYS:])
        return lasting(account.available_nanos, int(spent), PACE_DAYS * DAY_MS, self.session.now())

    def _month(self, width: int) -> list[tuple[str, str]]:
        costs = self._trends.values("", lambda row: row.cost_nanos)
        room = min(30, max(10, width - 40))
        week = sum(costs[-PACE_DAYS:])
        return [
            (spark(costs, room, self.session.glyphs), "live"),
            (f" {fmt.purse(int(sum(costs)))}, the last {PACE_DAYS} days {fmt.purse(int(week))}", ""),
        ]

    def _granted(self) -> list[Content]:
        if self._grants is None:
            return [content((" grants ...", "dim"))]
        now = self.session.now()
        rows = [content((" grants, the newest first", "dim"), ("   a", "key"), (" adds money", "dim"))]
        for one in sorted(self._grants, key=lambda g: -g.time)[:200]:
            sign = "" if one.nanos < 0 else "+"
            amount = f"   {sign}{dollars(one.nanos)}"
            rows.append(content(f"{amount:<16}", (f"{fmt.moment(one.time, now):<14}", "dim"), safe(one.note)))
        if not self._grants:
            rows.append(content("   nothing was put in yet"))
        return rows

    async def _ask(self) -> None:
        starts = days(30, self.session.now())
        try:
            self._grants = await self.session.client.grants()
            found = await self.session.client.summary(since=starts[0], step="day")
        except GatewayError:
            self._asked = None
            return  # the header says that the server is gone
        self._trends = trends(found, starts)
        self.renew()


def _held(account: AccountView) -> list[tuple[str, str]]:
    return [(f"   {dollars(account.held_nanos)} held by running calls", "dim")] if account.held_nanos else []


def _tone(left: int) -> str:
    return "bad" if left <= 0 else "warn" if left < LOW else "bold"
