"""IncidentWatch: keeps the incidents up to date, and warns once when a budget is nearly spent.

They are refreshed once a second while calls run, after a refusal, before an edit, and on request, from the failed calls
that the ``EventBus`` keeps. Changes are written at most every two seconds, and when the gateway stops.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from gateway.core.catalog import Catalog
from gateway.core.channel_health import ChannelHealth, HealthState
from gateway.core.clock import Clock
from gateway.core.event_bus import EventBus
from gateway.core.quota import MoneyBooks
from gateway.domain.budget import (
    BALANCE_ID,
    BALANCE_NAME,
    WARN_SHARE,
    Budget,
    budget_id,
    budget_name,
    window_end,
    window_start,
)
from gateway.domain.call import ACCOUNT, FailureKind, Record, Scope, exceeded_budget
from gateway.domain.channel import Channel
from gateway.domain.cost import price_gap
from gateway.domain.human_values import unset_text
from gateway.domain.incidents import (
    ALL_SPENT,
    PAUSED_STATES,
    STORE,
    Condition,
    Incident,
    Incidents,
    spent_share,
    spent_text,
)
from gateway.domain.money import dollars
from gateway.domain.text import plain
from gateway.domain.units import DAY_MS, Millis
from gateway.domain.views import BudgetView, call_view
from gateway.upstream.credentials import ChannelVariables

_log = logging.getLogger("tollkeeper")


@dataclass(kw_only=True, eq=False)
class IncidentWatch:
    """Finds the current incidents."""

    incidents: Incidents
    write: Callable[[Sequence[Incident]], None]
    """Writes the incidents, oldest first."""
    bus: EventBus
    books: MoneyBooks
    health: ChannelHealth
    variables: ChannelVariables
    catalog: Callable[[], Catalog]
    trouble: Callable[[], str]
    """Returns what is wrong with the store; empty if nothing is."""
    clock: Clock

    def __post_init__(self) -> None:
        self.serving = False
        """Set once the public port listens. Before, as in a command, the environment may differ from the calls'."""
        self._saved = (self.incidents.copies(), self.clock.mono())
        """What was written, and when."""
        self._too_small: dict[str, tuple[Millis, BudgetView]] = {}
        """The budgets that were too small for a call within ten minutes and have paid for none since, by id: when that
        was, and the budget at that time."""

    def refresh(self) -> Incidents:
        incidents, now = self.incidents, self.clock.wall()
        records = [self.bus.noteworthy.popleft() for _ in range(len(self.bus.noteworthy))]
        calls = [call_view(record) for record in records]
        budgets = self._spent_budgets({exceeded_budget(call.marks) for call in calls} - {""}, now)
        for call in calls:
            incidents.add_failures(call)
        for record in records:
            self._report_price_gap(record, now)
        channels = [channel for channel in self.catalog().registry.channels.values() if channel.enabled]
        conditions = [*budgets, *self._unset(channels), *self._channel_conditions(channels)]
        if trouble := self.trouble():
            conditions.append(Condition(channel=STORE, reason=trouble))
        for warning in incidents.update(conditions, set(self._failing(channels)), now):
            _log.warning("%s: %s", warning.budget, warning.reason)
        for call in calls:
            incidents.add_refusal(call)
        if self.clock.mono() - self._saved[1] >= 2.0:
            self.save()
        return incidents

    def _report_price_gap(self, record: Record, now: Millis) -> None:
        """Report a price that differs from the cost that the upstream reports, once a day for a model of a channel."""
        if (gap := price_gap(record)) is None:
            return
        subject = f"price {record.channel} {record.model}"
        day = now // DAY_MS  # of UTC
        earlier = (incident for incident in self.incidents.newest() if incident.subject_id == subject)
        if any(incident.began // DAY_MS == day for incident in earlier):
            return
        name = f"reported cost of '{plain(record.model)}' at channel '{plain(record.channel_name)}'"
        reason = f"its price gives {dollars(gap[0])}, the upstream reports {dollars(gap[1])}"
        gap_condition = Condition(channel=STORE, budget=name, subject_id=subject, reason=reason)
        self.incidents.begin(gap_condition, now).ended = now

    def save(self) -> None:
        """Write the incidents if they changed."""
        if self.incidents.changed_since(self._saved[0]):
            self.write(self.incidents.newest()[::-1])
            self._saved = (self.incidents.copies(), self.clock.mono())

    def _spent_budgets(self, refused: set[str], now: Millis) -> list[Condition]:
        """Returns the budgets that are nearly spent or too small. ``refused`` are the latest too small ones (ids)."""
        spent = self.books.spent(ACCOUNT, Millis(0))
        registry = self.catalog().registry
        names = {str(channel.id): channel.name for channel in registry.channels.values()}
        too_small: dict[str, tuple[Millis, BudgetView]] = {}
        conditions: list[Condition] = []
        for subject, name, view in self._budgets(now):
            names[subject] = name
            since, before = (now, view) if subject in refused else self._too_small.get(subject, (Millis(0), view))
            if now - since <= 600_000 and _is_unused_since(view, before):
                too_small[subject] = since, before
            if subject in too_small or spent_share(view) >= WARN_SHARE:
                conditions.append(_spent_condition(subject, name, view, too_small=subject in too_small))
        self.incidents.follow_names(names)
        self._too_small = too_small
        if spent.nanos and spent.nanos >= registry.granted:
            spent_balance = Condition(
                channel=STORE, subject_id=BALANCE_ID, budget=BALANCE_NAME, reason=ALL_SPENT, refusing=True
            )
            conditions.append(spent_balance)
        return conditions

    def _budgets(self, now: Millis) -> Iterator[tuple[str, str, BudgetView]]:
        """Yields the id, the name and the use of each budget."""
        for scope, owner, budgets in self._owners(now):
            for view in budget_use(self.books, scope, budgets, now):
                yield budget_id(view.window, *scope), budget_name(view.window, owner), view

    def _owners(self, now: Millis) -> Iterator[tuple[Scope, str, Sequence[Budget]]]:
        registry = self.catalog().registry
        yield ACCOUNT, "the account", registry.account.budgets
        for group in registry.groups.values():
            yield ("group", group.id), f"group '{plain(group.name)}'", group.budgets
        for token in registry.tokens.values():
            if not token.program_ended(now):  # the token of a program that has not ended
                yield ("token", token.id), f"token '{plain(token.name)}'", token.budgets

    def _unset(self, channels: Iterable[Channel]) -> Iterator[Condition]:
        """Yields the channels that refer to variables that are not set; before the port listens, those known before."""
        paused_incidents = (incident for incident in self.incidents.newest() if incident.paused)
        known_reasons = {each.subject_id: each.reason for each in paused_incidents if each.kind is FailureKind.UNSET}
        for channel in channels:
            reason = unset_text(self.variables.missing(channel)) if self.serving else known_reasons.get(channel.id, "")
            if reason:
                yield _condition(channel, FailureKind.UNSET, reason)

    def _channel_conditions(self, channels: Iterable[Channel]) -> Iterator[Condition]:
        for channel in channels:
            if missing := self.health.missing(channel.id):
                yield _condition(channel, FailureKind.MISSING, "", until=self._end_of_pause(max(missing.values())))
            yield from self._pause(channel, "", self.health.state(channel))
            for _, id, name in channel.several_keys:
                yield from self._pause(channel, name, self.health.state_of(id))

    def _pause(self, channel: Channel, key: str, state: HealthState) -> Iterator[Condition]:
        """Yields the pause of a channel or key, if it has one. A refusal lasts until a key is accepted."""
        is_refused = state.kind is FailureKind.AUTH
        if state.kind is not FailureKind.UNSET and (state.name in PAUSED_STATES or is_refused):
            until = self._end_of_pause(state.left_s) if state.left_s else None
            yield _condition(channel, state.kind, state.reason, key=key, until=until)

    def _failing(self, channels: Iterable[Channel]) -> Iterator[tuple[str, str]]:
        """Yields the channels and keys that had no success since their last failure."""
        for channel in channels:
            for _, id, name in (("", channel.id, ""), *channel.several_keys):
                if self.health.failed_last(id):
                    yield channel.id, name

    def _end_of_pause(self, left_s: float) -> Millis:
        return Millis(self.clock.wall() + round(left_s * 1000))


def _condition(
    channel: Channel, kind: FailureKind | None, reason: str, *, key: str = "", until: Millis | None = None
) -> Condition:
    return Condition(channel=channel.name, subject_id=channel.id, key=key, kind=kind, reason=reason, until=until)


def _spent_condition(subject: str, name: str, view: BudgetView, *, too_small: bool) -> Condition:
    reason = spent_text(view)
    refusing = too_small or reason == ALL_SPENT
    return Condition(
        channel=STORE, subject_id=subject, budget=name, reason=reason, until=view.resets_at_ms, refusing=refusing
    )


def _is_unused_since(view: BudgetView, before: BudgetView) -> bool:
    """Returns whether a budget was neither changed nor reset, and has paid for nothing since."""
    return msgspec.structs.replace(view, held_nanos=before.held_nanos) == before


def budget_use(books: MoneyBooks, scope: Scope, budgets: Iterable[Budget], now: Millis) -> Iterator[BudgetView]:
    """Yields the budgets with the amounts that are used in their current windows."""
    for budget in budgets:
        since, until = window_start(budget.window, now), window_end(budget.window, now)
        spent, held = books.spent(scope, since, until), books.held(scope, since)
        yield BudgetView(
            window=budget.window,
            nanos=budget.nanos,
            tokens=budget.tokens,
            spent_nanos=spent.nanos,
            held_nanos=held.nanos,
            spent_tokens=spent.tokens,
            resets_at_ms=until,
        )
