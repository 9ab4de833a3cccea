"""Events: what watchers get, in order. First a snapshot, then changes, and a snapshot again after falling behind.

One JSON object a line; the tag ``type`` tells which.
"""

import msgspec

from gateway.domain.call import Running
from gateway.domain.incidents import Incident
from gateway.domain.units import CallId, Millis
from gateway.domain.views import (
    AccountView,
    CallView,
    ChannelView,
    GroupView,
    ModelView,
    Status,
    TokenView,
)


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """Base of all events; ``seq`` numbers the events of one stream (a snapshot carries the number of the last one)."""

    seq: int


class Snapshot(Event, frozen=True, kw_only=True, tag="snapshot"):
    """The whole present state."""

    status: Status
    account: AccountView
    tokens: list[TokenView]
    groups: list[GroupView]
    channels: list[ChannelView]
    models: list[ModelView]
    running: list[Running]
    recent: list[CallView]
    """The newest settled calls, newest first."""
    older: int | None = None
    """How many records are older than these; None: all but so many as these are."""
    waiting: list[Running] = []
    """Calls that wait for a place; nothing is held for them yet."""
    incidents: list[Incident] = []
    """Oldest first."""
    refuses_unpriced: bool = False
    """Whether calls of models without a price are refused."""
    removed_names: dict[str, str] = {}
    """The last names of removed tokens and channels by id, as far as the history has them."""


class CallStarted(Event, frozen=True, kw_only=True, tag="started"):
    """A call was admitted; its hold is written."""

    call: Running


class CallWaiting(Event, frozen=True, kw_only=True, tag="waiting"):
    """A call waits for a place, see ``waits_for``; nothing is held for it yet."""

    call: Running


class CallLeft(Event, frozen=True, kw_only=True, tag="left"):
    """A call that waited was not admitted; its refusal, if it is recorded, is an event of its own."""

    call_id: CallId


class CallRepeated(Event, frozen=True, kw_only=True, tag="repeated"):
    """A refusal is repeated, so often so far; a ``settled`` event of the same call follows when it is recorded."""

    call: CallView


class CallProgress(Event, frozen=True, kw_only=True, tag="progress"):
    """A running call moved: routed, first byte, tokens so far. Later ones supersede earlier ones of the same call."""

    call: Running


class CallSettled(Event, frozen=True, kw_only=True, tag="settled"):
    """A call ended, or was refused."""

    call: CallView


class EntityChanged(Event, frozen=True, kw_only=True, tag="changed"):
    """The configuration, a channel's health or the balances changed; the tables as they are now."""

    account: AccountView
    tokens: list[TokenView]
    groups: list[GroupView]
    channels: list[ChannelView]
    models: list[ModelView]
    refuses_unpriced: bool = False
    removed_names: dict[str, str] = {}


class Balance(Event, frozen=True, kw_only=True, tag="balance"):
    """The account's money moved; sent at most a few times a second."""

    account: AccountView


class Heartbeat(Event, frozen=True, kw_only=True, tag="beat"):
    """Nothing happened: the stream is alive."""

    time_ms: Millis


class StoreChanged(Event, frozen=True, kw_only=True, tag="store"):
    """The store has failed, or works again: ``status.store_error`` tells."""

    status: Status


class IncidentChanged(Event, frozen=True, kw_only=True, tag="incident"):
    """An incident began, went on or ended; or most of a budget is spent."""

    incident: Incident


class Stopping(Event, frozen=True, kw_only=True, tag="stopping"):
    """The server drains and will go away."""

    until_ms: Millis
    running: list[CallId]


AnyEvent = (
    Snapshot
    | CallStarted
    | CallProgress
    | CallWaiting
    | CallLeft
    | CallRepeated
    | CallSettled
    | EntityChanged
    | Balance
    | Heartbeat
    | IncidentChanged
    | StoreChanged
    | Stopping
)
