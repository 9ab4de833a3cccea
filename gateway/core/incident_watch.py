"""IncidentWatch: keeps the incidents up to date, and warns once when a budget is nearly spent.

It looks once a second while calls run, after a refusal, before an edit, and on request; calls only leave their failures
with it. Changes are written at most every few seconds, and when the gateway stops.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from gateway.core.catalog import Catalog
from gateway.core.channel_health import OK, ChannelHealth, HealthState
from gateway.core.clock import Clock
from gateway.core.event_bus import EventBus
from gateway.core.quota import MoneyBooks
from gateway.domain.budget import (
    BALANCE_ID,
    BALANCE_NAME,
    WARN_SHARE,
    Budget,
    Window,
    budget_id,
    budget_name,
    window_end,
    window_start,
)
from gateway.domain.call import ACCOUNT, Record, Scope, exceeded_budget
from gateway.domain.channel import Channel, key_id, key_name
from gateway.domain.incidents import STORE, ChannelState, Incident, Incidents, SpentBudget, spent_share
from gateway.domain.money import dollars
from gateway.domain.price_gap import price_gap
from gateway.domain.text import plain
from gateway.domain.units import ChannelId, Millis, Nanos
from gateway.domain.views import BudgetView, call_view
from gateway.upstream.credentials import ChannelVariables, unset_text

_log = logging.getLogger("tollkeeper")


class IncidentStore(Protocol):
    """Keeps incidents across restarts."""

    def load(self) -> list[Incident]:
        """Returns the incidents, oldest first."""

    def save(self, incidents: Sequence[Incident]) -> bool:
        """Write the incidents. Returns whether it succeeded."""


class IncidentWatch:
    """``trouble`` returns what is wrong with the store; empty if it works."""

    def __init__(
        self,
        *,
        kept: IncidentStore,
        bus: EventBus,
        books: MoneyBooks,
        health: ChannelHealth,
        variables: ChannelVariables,
        catalog: Callable[[], Catalog],
        trouble: Callable[[], str],
        clock: Clock,
    ) -> None:
        self._kept, self._bus, self._books, self._health = kept, bus, books, health
        self._variables, self._catalog, self._trouble, self._clock = variables, catalog, trouble, clock
        self.incidents = Incidents(kept.load())
        self.serving = False
        """Set once /v1 listens. Before that, as in a command, the environment need not be that of the calls."""
        self._saved = (self.incidents.copies(), clock.mono())
        """What was written, and when."""
        self._counted = -1
        """How many calls were settled when the budgets were last checked."""
        self._known: Catalog | None = None
        """The configuration at that time."""
        self._refusing: set[str] = set()
        """The ids of budgets that were too small for calls then."""
        self.incidents.follow_names(dict(self._names()), clock.wall())

    def look(self) -> Incidents:
        """Returns the present incidents."""
        found, now = self.incidents, self._clock.wall()
        self._look_at_budgets(now)  # first, so that there is what refused calls belong to
        while self._bus.noteworthy:
            record = self._bus.noteworthy.popleft()
            found.add_call(call_view(record))
            self._look_at_cost(record, now)
        channels = self._catalog().registry.channels.values()
        if self.serving:
            missing = {c.name: unset_text(self._variables.missing(c)) for c in channels if c.enabled}
            found.update_unset({name: text for name, text in missing.items() if text}, now)
        found.update_keys(dict(self._key_states(channels)), now)  # first: what was the channel's may be a key's now
        found.update_channels(map(self._state_of, channels), now)
        found.update_store(self._trouble(), now)
        if self._clock.mono() - self._saved[1] >= 2.0:
            self.save()
        return found

    def _look_at_cost(self, record: Record, now: Millis) -> None:
        """Report, once a day and model of a channel, a price that differs from the cost the upstream reports."""
        if (gap := price_gap(record)) is None:
            return
        subject = f"price {record.channel} {record.model}"
        day = now // 86_400_000  # of UTC
        if any(one.subject_id == subject and one.began // 86_400_000 == day for one in self.incidents.newest()):
            return
        name = f"reported cost of '{plain(record.model)}' at channel '{plain(record.channel_name)}'"
        reason = f"its price gives {dollars(gap[0])}, the upstream reports {dollars(gap[1])}"
        self.incidents.begin(
            channel=STORE, budget=name, subject_id=subject, reason=reason, began=now, last=now, ended=now
        )

    def save(self) -> None:
        """Write the incidents if they changed."""
        if self.incidents.changed_since(self._saved[0]):
            self._kept.save(self.incidents.newest()[::-1])
            self._saved = (self.incidents.copies(), self._clock.mono())

    def _look_at_budgets(self, now: Millis) -> None:
        catalog, calls = self._catalog(), self._books.spent(ACCOUNT, Millis(0)).calls
        if new := self._known is not catalog:
            self.incidents.follow_names(dict(self._names()), now)
        refused = {exceeded_budget(call.marks) for call in self._bus.noteworthy} - {""}
        refusing = refused | {one.subject_id for one in self.incidents.newest() if one.refused and one.refuses(now)}
        if not (refused or new) and self._counted == calls and self._refusing == refusing:
            return
        self._counted, self._known, self._refusing = calls, catalog, refusing
        spent = {
            id_: SpentBudget(budget_name(view.window, owner), view, id_ in refused)
            for scope, owner, budgets in self._budgets()
            for view in budget_use(self._books, scope, budgets, now)
            if (id_ := budget_id(view.window, *scope)) in refusing or spent_share(view) >= WARN_SHARE
        } | self._spent_balance()
        for warning in self.incidents.update_budgets(spent, now):
            _log.warning("%s: %s", warning.budget, warning.reason)

    def _spent_balance(self) -> dict[str, SpentBudget]:
        """Yields the balance as a spent budget; nothing while money is left, or if nothing was ever spent."""
        granted, spent = self._catalog().registry.granted, self._books.spent(ACCOUNT, Millis(0))
        if spent.nanos < granted or not spent.nanos:
            return {}
        held = self._books.held(ACCOUNT)
        view = BudgetView(
            window=Window.EVER,
            nanos=Nanos(max(0, granted)),
            spent_nanos=spent.nanos,
            held_nanos=held.nanos,
            spent_tokens=spent.tokens,
            resets_at_ms=None,
        )
        return {BALANCE_ID: SpentBudget(BALANCE_NAME, view)}

    def _names(self) -> Iterator[tuple[str, str]]:
        """Returns the names of channels and budgets by their ids."""
        for channel in self._catalog().registry.channels.values():
            yield channel.id, channel.name
        for scope, owner, budgets in self._budgets():
            for budget in budgets:
                yield budget_id(budget.window, *scope), budget_name(budget.window, owner)

    def _budgets(self) -> Iterator[tuple[Scope, str, Sequence[Budget]]]:
        registry, now = self._catalog().registry, self._clock.wall()
        yield ACCOUNT, "the account", registry.account.budgets
        for group in registry.groups.values():
            if group.budgets:
                yield ("group", group.id), f"group '{plain(group.name)}'", group.budgets
        for token in registry.tokens.values():
            if token.budgets and not token.outlived(now):  # the program has ended
                yield ("token", token.id), f"token '{plain(token.name)}'", token.budgets

    def _state_of(self, channel: Channel) -> ChannelState:
        blocked = self._variables.blocking(channel)  # an incident of its own
        return self._shown(channel, OK if blocked else self._health.state(channel), channel.id)

    def _key_states(self, channels: Iterable[Channel]) -> Iterator[tuple[tuple[str, str], ChannelState]]:
        """Returns the key states of channels that are in use and have several keys."""
        for channel in channels:
            for number, key in enumerate(channel.all_keys if channel.keys and channel.enabled else (), start=1):
                unset = self._variables.missing_in(key)  # an incident of its own, too
                one = key_id(channel.id, number)
                state = OK if unset else self._health.state_of(one)
                yield (channel.name, key_name(number, key)), self._shown(channel, state, one)

    def _shown(self, channel: Channel, state: HealthState, one: ChannelId) -> ChannelState:
        until = Millis(self._clock.wall() + round(state.left_s * 1000)) if state.left_s else None
        failing = channel.enabled and self._health.failed_last(one)
        left_s = max(self._health.missing(channel.id).values(), default=0.0)
        lacks = Millis(self._clock.wall() + round(left_s * 1000)) if left_s else None
        return ChannelState(channel.name, state.name, state.reason, until, failing, lacks)


def budget_use(books: MoneyBooks, scope: Scope, budgets: Iterable[Budget], now: Millis) -> Iterator[BudgetView]:
    """Returns budgets with what is used of them now."""
    for budget in budgets:
        spent, held = books.spent(scope, window_start(budget.window, now)), books.held(scope)
        yield BudgetView(
            window=budget.window,
            nanos=budget.nanos,
            tokens=budget.tokens,
            spent_nanos=spent.nanos,
            held_nanos=held.nanos,
            spent_tokens=spent.tokens,
            resets_at_ms=window_end(budget.window, now),
        )
