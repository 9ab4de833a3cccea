"""Engine: the parts of a running gateway, shared by the public port and the owner's API.

``server`` puts it together once. The configuration changes only through ``change``, which applies all changes or none,
makes a new catalog, forgets what was learned of the edited channels, and informs watchers.
"""

import os
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from gateway import __version__
from gateway.config import Config
from gateway.core.answer_memory import AnswerMemory, AnswerShare
from gateway.core.attempts import Attempts
from gateway.core.catalog import Catalog
from gateway.core.channel_health import HealthState
from gateway.core.incident_watch import IncidentWatch
from gateway.core.live_calls import LiveCalls
from gateway.core.memory import Pressure, map_large_blocks, resident, trim
from gateway.core.open_files import OpenFiles
from gateway.core.pipeline import Pipeline
from gateway.core.response_memory import ResponseMemory
from gateway.core.tasks import Tasks
from gateway.domain.call import Outcome
from gateway.domain.channel import Channel
from gateway.domain.errors import Unavailable
from gateway.domain.events import StatusChanged
from gateway.domain.human_values import unset_text
from gateway.domain.incidents import Incidents
from gateway.domain.key_owners import retirements
from gateway.domain.registry import Change, with_changes
from gateway.domain.settings import Settings
from gateway.domain.units import CallId, ChannelId, Millis, TokenId
from gateway.domain.views import Status
from gateway.inbound.api import InboundApi
from gateway.store.store import Store
from gateway.upstream.upstreams import Upstreams


@dataclass(kw_only=True, eq=False)
class Engine:
    """The parts, and the operations that need several of them."""

    config: Config
    store: Store
    tasks: Tasks
    live: LiveCalls
    upstreams: Upstreams
    files: OpenFiles
    attempts: Attempts
    apis: Mapping[str, InboundApi]
    """The inbound APIs of the public port, by name."""

    def __post_init__(self) -> None:
        store, live, upstreams, attempts = self.store, self.live, self.upstreams, self.attempts
        self.clock = attempts.clock
        self.health = attempts.health
        self.bus = attempts.progress.bus
        self.limiter = attempts.channel_limits.limiter
        self.learned = attempts.preparer.learned
        self.worker = attempts.preparer.worker
        self.running_counts = Counter[TokenId]()
        """How many requests each token has running that only count input tokens."""
        self.open_connections: Callable[[], int] = lambda: 0
        """Returns how many connections clients have open."""
        self._catalog = Catalog(store.entities.registry, self.now())
        upstreams.redaction.use_channels(self.catalog.registry.channels)
        self.started = self.clock.wall()
        self._started_at = self.clock.mono()
        self.instance = secrets.token_hex(8)
        self.address = ""
        """The base URL of the public port; empty before it listens."""
        self.ollama_address = ""
        """The address of Ollama's port; empty while it is closed."""
        self.ollama_error = ""
        """Why Ollama's port is closed although it should be open."""
        self.on_settings_change: Callable[[], None] = lambda: None
        self.on_stop: Callable[[bool], None] = lambda _now: None
        """Stops the server: at once if it is called with True, else when all calls have ended."""
        map_large_blocks()
        self.pressure = Pressure(resident, self.settings, live.calls, trim)
        self.responses = ResponseMemory(lambda: self.settings().responses_mib << 20, self.clock.mono)
        self.answers = AnswerMemory(self.settings, live.calls)
        upstreams.share = partial(AnswerShare, self.answers)
        live.on_idle = self.pressure.relax
        self.bus.on_noteworthy = live.wake
        self.incident_watch = IncidentWatch(
            incidents=Incidents(store.load_incidents()),
            write=store.save_incidents,
            bus=self.bus,
            books=store.books,
            health=self.health,
            variables=upstreams.variables,
            catalog=lambda: self.catalog,
            trouble=lambda: store.books.disk_errors.text,
            clock=self.clock,
        )
        live.on_tick = self.incident_watch.refresh
        self.pipeline = Pipeline(
            books=store.books, catalog=lambda: self.catalog, attempts=attempts, live=live, answers=self.answers
        )

    @property
    def catalog(self) -> Catalog:
        """Returns the catalog for calls that begin now."""
        end = self._catalog.end
        if end is not None and self.now() >= end:
            self._catalog = Catalog(self._catalog.registry, self.now())
        return self._catalog

    def now(self) -> Millis:
        return self.clock.wall()

    def settings(self) -> Settings:
        return self.catalog.registry.settings

    @property
    def uptime_s(self) -> int:
        """Returns how long the gateway has been running, by the monotonic clock."""
        return int(self.clock.mono() - self._started_at)

    def change(self, changes: Sequence[Change], entry: int = 0) -> None:
        """Apply an edit of the configuration, all of its changes or none.

        ``entry`` is its number in the history; 0 if it is not the owner's. If the store raises, nothing has changed.
        """
        self.pipeline.refusals.write_shared()
        if self.bus.noteworthy:
            self.incident_watch.refresh()  # for the calls that failed before the edit
        before = self.catalog.registry
        changes = [*changes, *retirements(changes, before, with_changes(before, changes), self.now())]
        self.store.entities.apply(changes, entry)
        after = self.store.entities.registry
        self._catalog = Catalog(after, self.now())
        self.upstreams.redaction.use_channels(after.channels)
        self.limiter.concurrency.apply_limits(self.catalog.gates)
        channel_ids = {ChannelId(change.key) for change in changes if change.table == "channels"}
        for channel_id in channel_ids:
            self._forget_outdated(channel_id, before.channels.get(channel_id), after.channels.get(channel_id))
        if channel_ids:
            self.incident_watch.refresh()  # for the incidents that ended with the edit
        if any(change.table == "settings" for change in changes):
            self.answers.serve_waiting()
            self.on_settings_change()
        self.bus.publish_change()

    def _forget_outdated(self, channel_id: ChannelId, before: Channel | None, after: Channel | None) -> None:
        """Forget what was learned of a channel and may be wrong after its edit."""
        if before is None or after is None or _changes_upstream(before, after):
            self.health.clear(channel_id)
            self.learned.forget(channel_id)
            self.upstreams.forget(channel_id)
            return
        if (before.patterns, before.models) != (after.patterns, after.models):
            self.health.forget_missing(channel_id)
        if before.all_keys != after.all_keys:
            self.health.renumber_keys(before, after)
            self.upstreams.forget(channel_id)

    def report_store(self) -> None:
        """Report that the store has failed, or works again."""
        self.bus.publish(StatusChanged(status=self.status()))
        self.incident_watch.refresh()  # while all calls are refused, no tick does

    def cancel(self, call: CallId) -> bool:
        """End a running or waiting call. Returns False if no call has this id."""
        unfinished = self.live.calls.get(call) or self.pipeline.waiting.calls.get(call)
        if unfinished is not None:
            unfinished.end(Outcome.CANCELLED)
        return unfinished is not None

    def refuse_calls(self) -> None:
        """Refuse new calls from now on. Running ones continue."""
        msg = "the gateway is stopping; try again when it is back"
        self.pipeline.closed = Unavailable(msg, code="gateway_stopping", retry_after_s=5)
        self.limiter.concurrency.close(self.pipeline.closed)

    def waits(self) -> Counter[str]:
        """Returns how many calls wait for what: those in the queue, and those before their next attempt."""
        running = self.store.books.running.values()
        return Counter(call.waits_for for call in (*self.pipeline.waiting.all(), *running) if call.waits_for)

    def channel_state(self, channel: Channel) -> HealthState:
        """Returns the state of a channel. It needs attention if an environment variable of its settings is missing."""
        state = self.health.state(channel)
        missing = unset_text(self.upstreams.variables.blocking(channel)) if state.name != "off" else ""
        return HealthState("attention", missing) if missing else state

    def key_states(self, channel: Channel) -> Iterator[HealthState]:
        """Yields the states of a channel's keys in order; ``unset`` for a key whose variable is not set."""
        for key, state_id in zip(channel.all_keys, channel.state_ids, strict=False):
            if missing := self.upstreams.variables.missing_in(key):
                yield HealthState("unset", f"set {missing} where the server runs, then restart the server")
            else:
                yield self.health.state_of(state_id)

    def status(self) -> Status:
        channels, keys = Counter[str](), Counter[str]()
        for channel in self.catalog.registry.channels.values():
            state = self.channel_state(channel).name
            channels[state] += 1
            if channel.keys and state != "off":
                keys.update(key_state.name for key_state in self.key_states(channel))
        return Status(
            version=__version__,
            instance=self.instance,
            pid=os.getpid(),
            address=self.address,
            ollama_address=self.ollama_address,
            ollama_error=self.ollama_error,
            home=str(self.config.home),
            started_ms=self.started,
            uptime_s=self.uptime_s,
            in_flight=len(self.live.calls),
            waits=dict(self.waits().most_common()),
            queued=len(self.pipeline.waiting.all()),
            watchers=self.bus.consoles,
            state=self._state(),
            store_error=self.store.books.disk_errors.text,
            durability=self.settings().durability.value,
            channels=dict(channels),
            keys={state: count for state, count in keys.items() if state in ("attention", "unset")},
            records=self.store.calls.count,
            drain_s=self.config.drain_s,
            connections=self.open_connections(),
            most_connections=self.files.clients() if self.address else 0,
            open_files=self.files.limit if self.address and self.files.limited_by_system else 0,
        )

    def _state(self) -> str:
        if not self.store.books.healthy:
            return "store_failed"
        if self.pipeline.closed is not None:
            return "draining"
        return "serving" if self.address else "embedded"


def _changes_upstream(before: Channel, after: Channel) -> bool:
    """Returns whether an edit makes what was learned of the upstream wrong: a new URL does, a new name does not."""
    ignored = {"last_check", "name", "note", "priority", "weight", "cost_factor", "groups", "models", "patterns"}
    if set(before.all_keys) & set(after.all_keys):  # keys have states of their own
        ignored |= {"key", "keys"}
    names = Channel.__struct_fields__
    return any(getattr(before, name) != getattr(after, name) for name in names if name not in ignored)
