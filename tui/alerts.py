"""Alerts: what needs attention now, the most urgent first. Empty while all is well."""

from collections.abc import Collection, Iterator, Sequence
from typing import Literal

import msgspec

from gateway import __version__
from gateway.domain.budget import WARN_SHARE, budget_id
from gateway.domain.incidents import spent_share
from gateway.domain.units import DOLLAR
from gateway.domain.views import BudgetView
from tui import format as fmt
from tui.board import Board
from tui.text import safe

Level = Literal["bad", "warn"]

LOW_BALANCE = DOLLAR // 2
"""The balance below which the console warns."""


class Alert(msgspec.Struct, frozen=True):
    """A problem. ``page`` is the page that shows more about it, and ``row`` the key of its row there."""

    level: Level
    text: str
    page: str
    row: str = ""


def alerts(board: Board, now: int) -> list[Alert]:
    """Returns everything that needs attention, the worst first."""
    refusing = {incident.subject_id for incident in board.incidents.newest() if incident.refuses(now)}
    all_alerts = [
        *_server_alerts(board, now),
        *_account_alerts(board, refusing),
        *_channel_alerts(board, now),
        *_budget_alerts(board, refusing),
    ]
    return sorted(all_alerts, key=lambda alert: alert.level != "bad")


def _server_alerts(board: Board, now: int) -> Iterator[Alert]:
    if board.stopping is not None:
        yield Alert("bad", f"stopping, {fmt.countdown(now, board.stopping)} at most", "live")
    status = board.status
    if status is None:
        return
    if status.store_error:
        yield Alert("bad", "store failed", "doctor")
    if status.ollama_error:
        yield Alert("warn", "Ollama's port is closed", "settings", "ollama_port")
    if status.version != __version__:
        yield Alert("warn", f"server {safe(status.version, 12)}, console {__version__}", "doctor")


def _account_alerts(board: Board, refusing: Collection[str]) -> Iterator[Alert]:
    account = board.account
    if account is None:
        return
    if account.status != "active":
        yield Alert("bad", f"account {safe(account.status, 12)}", "account")
    if account.balance_nanos <= 0:
        yield Alert("bad", "balance used up", "account")
    elif account.available_nanos <= 0:
        yield Alert("warn", "running calls hold the balance", "account")
    elif account.balance_nanos < LOW_BALANCE:
        yield Alert("warn", f"{fmt.dollar_amount(account.balance_nanos)} left", "account")
    yield from _budget_alert("account", "", "account", account.budgets, refusing)


def _channel_alerts(board: Board, now: int) -> Iterator[Alert]:
    for channel in board.channels:
        name = safe(channel.name, 16)
        if channel.state == "attention":
            yield Alert("bad", f"{name} needs attention", "channels", channel.id)
        elif channel.state == "cooling":
            state_text = fmt.channel_state(channel.state, channel.until_ms, now)
            yield Alert("warn", f"{name} {state_text}", "channels", channel.id)
        elif channel.state != "off":
            for state, problem in (("attention", "needs attention"), ("unset", "not set")):
                numbers = [str(key.number) for key in channel.keys if key.state == state]
                if numbers:
                    yield Alert("warn", f"{name} key {', '.join(numbers)} {problem}", "channels", channel.id)


def _budget_alerts(board: Board, refusing: Collection[str]) -> Iterator[Alert]:
    for token in board.tokens:
        if token.enabled:
            yield from _budget_alert("token", token.id, token.name, token.budgets, refusing, row=token.id)
    for group in board.groups:
        yield from _budget_alert("group", group.id, group.name, group.budgets, refusing, row=group.name)


def _budget_alert(
    kind: str, id_: str, name: str, budgets: Sequence[BudgetView], refusing: Collection[str], *, row: str = ""
) -> Iterator[Alert]:
    """Yields an alert if a budget is nearly spent or refuses calls. ``refusing``: the ids of the budgets that do."""
    share = max(map(spent_share, budgets), default=0.0)
    refuses = any(budget_id(budget.window, kind, id_) in refusing for budget in budgets)
    if share < WARN_SHARE and not refuses:
        return
    problem = f"{fmt.percent(share)}{', refusing' if refuses else ''}"
    if refuses and share < 1:  # this share does not explain the refusal; the current one arrives a moment later
        problem = "budget refusing"
    level: Level = "bad" if share >= 1 or refuses else "warn"
    yield Alert(level, f"{safe(name, 16)} {problem}", "account" if kind == "account" else f"{kind}s", row)
