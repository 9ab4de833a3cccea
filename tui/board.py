"""Board: the current state as one value. It applies the server's events in order, without screen or clock."""

from collections.abc import Sequence

import msgspec

from gateway.domain import events
from gateway.domain.current_names import CurrentNames, current_names_of
from gateway.domain.incidents import Incidents
from gateway.domain.units import Millis, Nanos
from gateway.domain.views import AccountView, ChannelView, GroupView, ModelView, Status, TokenView
from tui.calls import CallRing
from tui.trends import CallRates


class Board:
    """The server's latest state. Tables are replaced whole, calls change in place."""

    def __init__(self) -> None:
        self.status: Status | None = None
        """The server's status; None until the first snapshot arrives."""
        self.account: AccountView | None = None
        self.tokens: Sequence[TokenView] = ()
        """The tokens, except for programs that have ended."""
        self.ended_tokens: Sequence[TokenView] = ()
        self.groups: Sequence[GroupView] = ()
        self.channels: Sequence[ChannelView] = ()
        self.models: Sequence[ModelView] = ()
        self.names = CurrentNames()
        """The current names of tokens, channels and groups. A filter finds their calls by them."""
        self.unpriced: frozenset[str] = frozenset()
        self.refuses_unpriced = False
        self.calls = CallRing()
        self.call_rates = CallRates()
        self.incidents = Incidents()
        self.failures = 0
        """The number of calls with a failed attempt since this console opened."""
        self.today_nanos: int | None = None
        """The cost of calls since local midnight, with every settled one added; None until it is fetched."""
        self.today_tokens = 0
        """The tokens of the same calls."""
        self.today_start = Millis(0)
        """The midnight since which these two are counted; 0 if they must be fetched."""
        self.stopping: Millis | None = None
        """The latest time when the server stops; None while it serves."""
        self.tables_version = 0
        """A number that grows when anything except the calls changes."""

    @property
    def version(self) -> int:
        return self.tables_version + self.calls.version

    @property
    def unpriced_effect(self) -> str:
        """Returns what happens to calls of models without a price, as the end of a sentence about them: ``refused``."""
        return "refused" if self.refuses_unpriced else "counted but not charged, and no dollar budget will limit them"

    def apply(self, event: events.AnyEvent) -> None:
        if isinstance(event, events.CallStarted | events.CallProgress | events.CallWaiting):
            self.calls.update_running(event.call)
        elif isinstance(event, events.CallLeft):
            self.calls.remove_waiting(event.call_id)
        elif isinstance(event, events.CallSettled):
            if self.calls.holds_ended(event.call):
                return  # the snapshot had it: its record was written before its end was reported
            self.calls.settle(event.call)
            self.call_rates.add(event.call)
            self.failures += any(attempt.kind is not None for attempt in event.call.attempts)
            if self.today_nanos is not None:
                self.today_nanos += event.call.cost_nanos
                self.today_tokens += event.call.input_tokens + event.call.output_tokens
        else:
            self._apply_other(event)

    def mark_server_gone(self) -> None:
        """Note that the server is gone, with its running calls. Everything else keeps its last state."""
        self.stopping = None
        self.channels = [msgspec.structs.replace(channel, in_flight=0, waiting=0) for channel in self.channels]
        if (account := self.account) is not None:
            self.account = msgspec.structs.replace(account, held_nanos=Nanos(0), available_nanos=account.balance_nanos)
        self.calls.mark_running_lost()
        self.tables_version += 1

    def _apply_other(self, event: events.AnyEvent) -> None:
        if isinstance(event, events.Snapshot):
            self._load_snapshot(event)
        elif isinstance(event, events.EntityChanged):
            self._set_tables(event)
        elif isinstance(event, events.Balance):
            self.account = event.account
        elif isinstance(event, events.StatusChanged):
            self.status = event.status
        elif isinstance(event, events.IncidentChanged):
            self.incidents.put(event.incident)
        elif isinstance(event, events.Stopping):
            self.stopping = event.until_ms
        self.tables_version += 1

    def _load_snapshot(self, event: events.Snapshot) -> None:
        if self.status is None or self.status.instance != event.status.instance:
            self.calls, self.call_rates, self.today_nanos, self.stopping = CallRing(), CallRates(), None, None
        self.incidents = Incidents(event.incidents)
        self.today_start = Millis(0)
        self.status = event.status
        self._set_tables(event)
        for call in reversed(event.recent):
            if not self.calls.holds_ended(call):
                self.call_rates.add(call)
        self.calls.load_snapshot(event.older, event.recent, [*event.running, *event.waiting])

    def _set_tables(self, event: events.Snapshot | events.EntityChanged) -> None:
        self.account = event.account
        self.tokens = [token for token in event.tokens if not token.program_ended]
        self.ended_tokens = [token for token in event.tokens if token.program_ended]
        self.groups = event.groups
        self.channels, self.models = event.channels, event.models
        self.names = current_names_of(event)
        self.refuses_unpriced = event.refuses_unpriced
        self.unpriced = frozenset(model.name for model in event.models if model.price is None)
