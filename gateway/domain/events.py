"""Events: what watchers receive: a snapshot, then changes in order, and a new snapshot if they fall behind.

Each event is one line with a JSON object. Its ``type`` names the event.
"""

import msgspec

from gateway.domain.call import Running
from gateway.domain.incidents import Incident
from gateway.domain.units import CallId, Millis
from gateway.domain.views import AccountView, CallView, ChannelView, GroupView, ModelView, Status, TokenView


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """The base of all events, which are sent as JSON with their ``type``."""


class Tables(Event, frozen=True, kw_only=True):
    """The base of events with all current tables."""

    account: AccountView
    tokens: list[TokenView]
    groups: list[GroupView]
    channels: list[ChannelView]
    models: list[ModelView]
    refuses_unpriced: bool = False
    removed_names: dict[str, str] = {}
    """The last names of the removed tokens and channels that the history has, by id."""


class Snapshot(Tables, frozen=True, kw_only=True, tag="snapshot"):
    """The whole current state."""

    status: Status
    running: list[Running]
    recent: list[CallView]
    """The newest settled calls, newest first."""
    older: int = 0
    """How many records are older than these."""
    waiting: list[Running] = []
    """Calls that wait for a free slot. Nothing is held for them yet."""
    incidents: list[Incident] = []
    """The incidents, oldest first."""


class CallStarted(Event, frozen=True, kw_only=True, tag="started"):
    """A call was admitted, and its hold is written."""

    call: Running


class CallWaiting(Event, frozen=True, kw_only=True, tag="waiting"):
    """A call waits for a free slot (see ``waits_for``). Nothing is held for it yet."""

    call: Running


class CallLeft(Event, frozen=True, kw_only=True, tag="left"):
    """A waiting call was not admitted. Its refusal, if recorded, is an event of its own."""

    call_id: CallId


class CallProgress(Event, frozen=True, kw_only=True, tag="progress"):
    """A running call progressed: it was routed, or has more tokens. A later event of the same call replaces it."""

    call: Running


class CallSettled(Event, frozen=True, kw_only=True, tag="settled"):
    """A call ended, or was refused."""

    call: CallView


class EntityChanged(Tables, frozen=True, kw_only=True, tag="changed"):
    """The configuration, the state of a channel or a balance changed."""


class Balance(Event, frozen=True, kw_only=True, tag="balance"):
    """The account's money changed; sent at most a few times a second."""

    account: AccountView


class Heartbeat(Event, frozen=True, kw_only=True, tag="beat"):
    """Nothing happened, but the connection works."""

    time_ms: Millis


class StatusChanged(Event, frozen=True, kw_only=True, tag="status"):
    """The store failed or works again (``status.store_error``), or Ollama's port was opened or closed."""

    status: Status


class IncidentChanged(Event, frozen=True, kw_only=True, tag="incident"):
    """An incident began, continued or ended; or a budget is nearly spent."""

    incident: Incident


class Stopping(Event, frozen=True, kw_only=True, tag="stopping"):
    """The server stops after the running calls."""

    until_ms: Millis
    running: list[CallId]


AnyEvent = (
    Snapshot
    | CallStarted
    | CallProgress
    | CallWaiting
    | CallLeft
    | CallSettled
    | EntityChanged
    | Balance
    | Heartbeat
    | IncidentChanged
    | StatusChanged
    | Stopping
)
