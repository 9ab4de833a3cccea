"""Views: what the control API sends to front ends. The ``--json`` output is the same, so the keys are stable.

A view never contains a secret. Money is in nano-dollars (``*_nanos``), moments are in milliseconds since the epoch
(``*_ms``), and durations in milliseconds (``duration_ms``, ``first_byte_ms``).

Long: the views that all front ends share, one after another.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from itertools import chain, count
from operator import attrgetter
from typing import Any

import msgspec

from gateway.domain.account import AccountFields
from gateway.domain.budget import Budget
from gateway.domain.call import CHAT_API, REPEATED_MARK, STAYED_MARK, Attempt, Outcome, Record, Running, mark_total
from gateway.domain.channel import ChannelFields, Check, Dialect, ServedModel
from gateway.domain.group import GroupFields
from gateway.domain.human_values import brief_span, first_of
from gateway.domain.key_owners import KeyOwner
from gateway.domain.price import Rates, UpstreamPrices
from gateway.domain.price_view import PriceView
from gateway.domain.text import plain
from gateway.domain.token import TokenFields, TokenState
from gateway.domain.units import Millis, Nanos
from gateway.domain.usage import Usage, UsageSource


class BudgetView(Budget, frozen=True, kw_only=True, omit_defaults=False):
    """A budget and how much of it is used in the current window."""

    nanos: Nanos | None = msgspec.field(default=None, name="limit_nanos")
    tokens: int | None = msgspec.field(default=None, name="limit_tokens")
    spent_nanos: Nanos
    held_nanos: Nanos
    spent_tokens: int
    resets_at_ms: Millis | None


class AccountView(AccountFields, frozen=True, kw_only=True, omit_defaults=False):
    """The account. ``available = balance - held``, and ``balance = granted - spent``."""

    granted_nanos: Nanos
    spent_nanos: Nanos
    held_nanos: Nanos
    balance_nanos: Nanos
    available_nanos: Nanos
    budgets: tuple[BudgetView, ...] = ()
    begun_ms: Millis | None = None
    """When the first grant was made, before which nothing can have been spent."""


class TokenView(TokenFields, frozen=True, kw_only=True, omit_defaults=False):
    """A token without its key."""

    id: str
    hint: str
    state: str
    created_ms: Millis
    expires: Millis | None = msgspec.field(default=None, name="expires_ms")
    last_used_ms: Millis | None
    calls: int
    spent_nanos: Nanos
    held_nanos: Nanos
    budgets: tuple[BudgetView, ...] = ()
    sees: list[str]
    waiting: int = 0
    """The number of its calls that wait for a free slot."""
    temporary: bool = False
    keys: tuple[KeyOwner, ...] = ()
    """Its key and its former keys by their handles, newest first."""

    @property
    def search_text(self) -> str:
        """Returns the text that is searched, with the handles of its keys."""
        return " ".join([self.name, self.group, self.state, self.hint, self.note, *(key.handle for key in self.keys)])

    @property
    def program_ended(self) -> bool:
        """Returns whether the program that it was created for has ended, so that lists omit it."""
        return self.temporary and self.state == TokenState.EXPIRED


class NewToken(msgspec.Struct, frozen=True, kw_only=True):
    """A token that was created or got a new key. Only this view shows the key."""

    key: str
    token: TokenView


class GroupView(GroupFields, frozen=True, kw_only=True, omit_defaults=False):
    """A group, with the tokens and channels that it connects."""

    sees: list[str]
    budgets: tuple[BudgetView, ...] = ()
    tokens: list[str]
    channels: list[str]
    """The names of its channels, in the order of their priority."""
    calls: int
    spent_nanos: Nanos
    created_ms: Millis
    waiting: int = 0
    id: str = ""


class KeyView(msgspec.Struct, frozen=True, kw_only=True):
    """One of a channel's keys, masked."""

    number: int
    """Its number, from 1. It changes if a key before it is removed."""
    key: str
    """The masked key, or the ``env:NAME`` reference."""
    state: str
    """``ok``, ``cooling``, ``half_open``, ``attention``, or ``unset`` if its variable is not set."""
    reason: str
    until_ms: Millis | None


class ChannelView(ChannelFields, frozen=True, kw_only=True, omit_defaults=False):
    """A channel without its secrets: keys and header values are masked, and the proxy has no user and password."""

    id: str
    dialect: Dialect
    key: str
    """Its first key, masked, or the ``env:NAME`` reference."""
    keys: tuple[KeyView, ...] = ()  # type: ignore[assignment] # views of the keys
    headers: dict[str, str]
    proxy: str = ""
    state: str
    """``ok``, ``cooling``, ``half_open``, ``attention`` or ``off``."""
    reason: str
    until_ms: Millis | None
    in_flight: int
    calls: int
    errors: int
    """The number of calls that failed here, without those that the client or the owner ended."""
    spent_nanos: Nanos
    possible_nanos: Nanos
    """What its upstream may have billed although it was not charged."""
    created_ms: Millis
    last_check: Check | None
    waiting: int = 0
    listed_ms: Millis | None = None
    """When the list of its upstream was fetched; None if it never was."""
    list_error: str = ""
    """Why that list could not be refreshed."""
    missing_variables: tuple[str, ...] = ()
    """The environment variables that its keys, headers or proxy need and that are not set for the server."""
    refused_params: tuple[str, ...] = ()
    """What its upstream refused in the last hour, for any model, so that it is left out of requests."""
    untested: bool = False
    """Whether no call and no test has succeeded there yet, so that ``ok`` only means that nothing failed."""
    missing_models: dict[str, Millis] = msgspec.field(default_factory=dict)
    """When models that the upstream lacks are tried again. ``NAME by API``: only one API lacks it."""

    @property
    def shown_state(self) -> str:
        return "untested" if self.untested and self.state == "ok" else self.state

    def missing_text(self, now: Millis) -> str:
        """Returns ``the upstream does not have gpt-4o; retry in 9m30s``; empty if it has all models."""
        waits = {name: until - now for name, until in self.missing_models.items() if until > now}
        if not waits:
            return ""
        names = first_of([plain(name, 80) for name in waits], 3)
        return f"the upstream does not have {names}; retry in {brief_span(min(waits.values()))}"


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """A possible channel: a model server that was found on this machine, or a key in the environment."""

    name: str
    dialect: str
    preset: str
    base_url: str
    key: str
    """The ``env:NAME`` reference to its key; empty if it needs none."""
    models: list[ServedModel]
    """The models that a local server lists; empty for a vendor, whose list is not fetched."""

    def channel_body(self, used_names: Collection[str] = ()) -> dict[str, Any]:
        """Returns the request body of a channel for it. Its name gets a number if it is used already."""
        names = chain([self.name], (f"{self.name}-{number}" for number in count(2)))
        name = next(name for name in names if name not in used_names)
        optional = {"preset": self.preset, "key": self.key, "models": msgspec.to_builtins(self.models)}
        body: dict[str, Any] = {"name": name, "dialect": self.dialect, "base_url": self.base_url}
        return body | {field: value for field, value in optional.items() if value}


def targets_of(names: Collection[str], channels: Iterable[ChannelView]) -> set[str]:
    """Returns the models that these names stand for at channels that map them."""
    models = (model for channel in channels for model in channel.models if model.name in names)
    return {model.upstream_name for model in models}.difference(names)


class ModelView(msgspec.Struct, frozen=True, kw_only=True):
    """A public model name: which channels serve it, which groups see it, and what it costs."""

    name: str
    channels: list[str]
    groups: list[str]
    context: int | None
    price: PriceView | None
    calls: int
    spent_nanos: Nanos
    published: UpstreamPrices | None = None
    """The price published by the upstream that is tried first."""
    context_source: str = ""
    """The source of the context length: ``upstream`` or the name of the price list; empty if it is unknown."""
    prices: list[PriceView] = []
    """The prices of its channels, if they differ."""
    stands_for: str = ""
    """The model that answers instead, if the name is only an alias in a group; else empty."""


ABANDONED = {
    Outcome.CLIENT_CLOSED.value: "left by the client",
    Outcome.CANCELLED.value: "ended by you",
    Outcome.STOPPED.value: "stopped here",
}
"""Texts for attempts that were ended while the upstream was working, by the outcome of the call."""

_COUNTS = ("input", "cached", "cache_write", "cache_write_long", "output", "reasoning")
"""The counts of tokens, by their names in a usage and in a record."""


class CallView(msgspec.Struct, frozen=True, kw_only=True):
    """One call. See ``domain.call.Record`` for most fields."""

    id: str
    time: str
    """When it was accepted, as ISO 8601 in UTC."""
    time_ms: Millis
    state: str
    """``running`` or ``settled``."""
    token: str
    token_id: str
    group: str
    model: str
    upstream_model: str
    channel: str
    app: str
    status: int = 0
    outcome: str = ""
    code: str = ""
    error: str = ""
    finish_reason: str = ""
    stream: bool
    duration_ms: Millis
    first_byte_ms: Millis | None
    overhead_us: int = 0
    input_tokens: int
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int
    reasoning_tokens: int = 0
    usage_source: str
    cost_nanos: Nanos
    rates: Rates | None = None
    held_nanos: Nanos
    balance_nanos: Nanos | None = None
    possible_nanos: Nanos = Nanos(0)
    attempts: list[Attempt] = []
    upstream_id: str = ""
    retry: int = 0
    marks: list[str] = []
    cache_write_long_tokens: int = 0
    api: str = CHAT_API
    native: bool = False
    request: str = ""
    waits_for: str = ""
    channel_id: str = ""
    parts: dict[str, int] = {}
    variant: str = ""
    group_id: str = ""

    @property
    def usage(self) -> Usage:
        return Usage(**{name: getattr(self, f"{name}_tokens") for name in _COUNTS}, parts=self.parts)

    @property
    def lost(self) -> bool:
        """Returns whether the gateway stopped while the call ran, so that its duration and usage are unknown."""
        return self.outcome == Outcome.LOST

    @property
    def known_duration_ms(self) -> Millis | None:
        return None if self.lost else self.duration_ms

    @property
    def count(self) -> int:
        """Returns how many calls it stands for: of many similar refusals, only one per second is recorded."""
        return 1 + mark_total(self.marks, REPEATED_MARK)

    @property
    def stay(self) -> str:
        """Returns where it stayed with its conversation although others rank higher; empty if it did not."""
        if STAYED_MARK not in self.marks or not self.attempts:
            return ""
        first, last = self.attempts[0].channel, self.attempts[-1].channel
        failure = "; it failed" if last != first else ""
        return f"at {first}, which answered this conversation before, although others come first{failure}"

    @property
    def fallback(self) -> str:
        """Returns the fallback that was called last, instead of the model that the client named; else empty."""
        return self.attempts[-1].model if self.attempts else ""

    @property
    def failed_tries(self) -> int:
        """Returns how many attempts failed, without the last one of several, because nothing waited after it."""
        return sum(attempt.kind is not None for attempt in self.attempts[:-1] or self.attempts)

    @property
    def between_tries_ms(self) -> Millis:
        """Returns how long it waited between attempts; 0 if that was less than 50 ms."""
        if self.state == "running" or self.lost or not self.failed_tries:
            return Millis(0)
        waited = self.duration_ms - self.overhead_us // 1000 - sum(attempt.ms for attempt in self.attempts)
        return Millis(waited if waited >= 50 else 0)

    def attempt_status(self, attempt: Attempt) -> str:
        """Returns the status of an attempt; without one, ``cut off``, ``no answer``, or who ended it."""
        if attempt.status:
            return str(attempt.status)
        if attempt.kind is None and self.outcome in ABANDONED:
            return ABANDONED[self.outcome]
        return "cut off" if attempt is self.attempts[-1] and self.first_byte_ms is not None else "no answer"

    @property
    def conversion(self) -> str:
        """Returns ``native`` or ``translated``; empty for chat completions, and if no channel is known."""
        return conversion(self.api, native=self.native) if self.channel and not self.lost else ""


def conversion(api: str, *, native: bool) -> str:
    """Returns ``native`` or ``translated``; empty for chat completions, the gateway's own form."""
    if api == CHAT_API:
        return ""
    return "native" if native else "translated"


class CallPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of a list of calls, and how to continue. It may be short or empty although there is more to search."""

    calls: list[CallView]
    """The calls, newest first."""
    cursor: str | None = None
    """The ``before`` of the next page; None if everything was searched."""
    back_to_ms: Millis = Millis(0)
    """When the oldest examined call began, if there is more to search."""
    left: int = 0
    """The number of calls that were not examined yet."""


class SumRow(msgspec.Struct, frozen=True, kw_only=True):
    """The sums of calls with one value of a dimension (token, model, channel, group or app), or in one span of time."""

    key: str
    """The value of the dimension; for a token, group or channel its id."""
    name: str
    calls: int
    errors: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cost_nanos: Nanos
    possible_nanos: Nanos
    duration_ms: int
    """The sum of the durations of all calls."""
    first_byte_ms: int
    """The sum of the times to the first byte, of calls that had one."""
    refused: int = 0
    """The number of calls that the gateway refused. They are not in averages of durations."""
    repeats: int = 0
    """The number of refused calls without a record, because they were like the one before."""
    first_bytes: int = 0
    """The number of calls that had a first byte."""
    aborts: int = 0
    """The number of calls that the client, the owner or a stop of the gateway ended. They are not errors."""
    refused_ms: int = 0
    """The part of ``duration_ms`` that belongs to refused calls."""
    lost: int = 0
    """The number of calls that were running when the gateway died. They are not errors either."""
    waited_ms: int = 0
    """The part of ``first_byte_ms`` that calls waited for a free slot, before any upstream request."""
    duration_p50_ms: Millis | None = None
    """The duration that half of the calls did not exceed; None if not requested, or not known any more."""
    duration_p95_ms: Millis | None = None
    first_byte_p50_ms: Millis | None = None
    """The time to the first byte that half of the calls did not exceed."""
    first_byte_p95_ms: Millis | None = None

    @property
    def mean_duration_ms(self) -> float | None:
        """Returns the mean duration of the calls that were not refused; None if all were."""
        calls = self.calls - self.refused
        return (self.duration_ms - self.refused_ms) / calls if calls > 0 else None

    @property
    def mean_first_byte_ms(self) -> float | None:
        """Returns the mean time to the first byte; None if no call had one."""
        return self.first_byte_ms / self.first_bytes if self.first_bytes and self.first_byte_ms else None

    @property
    def mean_upstream_ms(self) -> float | None:
        """Returns the mean time to the first byte without the wait for a free slot; None if no call had one."""
        mean = self.mean_first_byte_ms
        return None if mean is None else mean * (1 - self.waited_ms / self.first_byte_ms)


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One hour or day of a chart."""

    start_ms: Millis
    key: str
    """The value of the dimension; empty for the total."""
    row: SumRow


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The usage in a span of time: in total, by one dimension, and over time."""

    since_ms: Millis
    until_ms: Millis
    by: str
    total: SumRow
    rows: list[SumRow]
    series: list[Point]
    first_ms: Millis | None = None
    """When the earliest call of all began; None before the first call."""
    incomplete: bool = False
    """Whether calls are missing because they were filtered by their records, and some of those are deleted."""


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the running server."""

    version: str
    instance: str
    pid: int
    address: str
    """The base URL of /v1; empty if only the control API runs."""
    home: str
    started_ms: Millis
    uptime_s: int = 0
    """The seconds since the start, by a monotonic clock."""
    in_flight: int
    watchers: int
    state: str
    """``serving``, ``draining``, ``store_failed`` or ``embedded``."""
    store_error: str = ""
    """Why the store failed, without paths; empty while it works."""
    durability: str
    channels: dict[str, int]
    """The number of channels by state."""
    keys: dict[str, int] = {}
    """The number of keys that need attention or are not set, by state, of channels with several keys."""
    records: int
    connections: int = 0
    most_connections: int = 0
    """The maximum number of open connections; 0 for no limit."""
    open_files: int = 0
    """The system's limit of open files, if it allows fewer connections than the settings; else 0."""
    ollama_address: str = ""
    """The address of the second port, for programs that speak Ollama's API; empty if it is not open."""
    ollama_error: str = ""
    """Why the second port is not open although it should be."""
    waits: dict[str, int] = {}
    """The number of waiting calls by what they wait for."""
    queued: int = 0
    """The number of waiting calls that have no hold yet, and so are not in ``in_flight``."""
    drain_s: float = 30.0
    """How long the stopping server waits for running calls, in seconds."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the doctor."""

    name: str
    result: str
    """``ok``, ``fail``, ``skipped``, or ``warning``: a problem, but not one of the call in question."""
    text: str
    fix: str = ""
    code: str = ""
    """The code of the error that calls get because of it; empty if calls are not refused."""
    status: int = 0


def iso(ms: Millis) -> str:
    """Returns a moment as ISO 8601 in UTC with milliseconds, for example ``2026-11-20T22:31:05.120Z``."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


_VIEW_NAMES: Mapping[str, str] = {
    "ts": "time_ms",
    "token": "token_id",
    "token_name": "token",
    "group": "group_id",
    "channel": "channel_id",
    "channel_name": "channel",
    "finish": "finish_reason",
    "ms": "duration_ms",
    "ttft": "first_byte_ms",
    "overhead": "overhead_us",
    **{name: f"{name}_tokens" for name in _COUNTS},
    "source": "usage_source",
    **{name: f"{name}_nanos" for name in ("cost", "held", "balance", "possible")},
}
"""The names in views of fields of records and running calls that have other names there."""


def _shared_fields(kind: type[Record | Running]) -> Callable[[Any], dict[str, Any]]:
    """Returns a function that returns the fields of a call that its view has too, by their names in the view."""
    names = {name: _VIEW_NAMES.get(name, name) for name in kind.__struct_fields__}
    shared = {name: view_name for name, view_name in names.items() if view_name in CallView.__struct_fields__}
    values = attrgetter(*shared)
    return lambda call: dict(zip(shared.values(), values(call), strict=True))


_record_fields, _running_fields = _shared_fields(Record), _shared_fields(Running)


def call_view(record: Record) -> CallView:
    """Returns a settled call as front ends see it."""
    others = {
        "time": iso(record.ts),
        "state": "settled",
        "group": record.group_name or record.group,
        "possible_nanos": record.possible + sum(record.possible_elsewhere.values()),
        "attempts": list(record.attempts),
        "marks": list(record.marks),
    }
    return CallView(**_record_fields(record) | others)


class RunningView(CallView, frozen=True, kw_only=True):
    """A call that is not settled yet. Its input and cost are upper bounds, its output is an estimate."""

    attempt: int
    """The number of the current attempt; 0 before the first."""
    substitute: str
    """The model that is called instead of the one that the client named; else empty."""

    @property
    def fallback(self) -> str:
        return self.substitute


def running_view(call: Running, now: Millis) -> RunningView:
    """Returns a running call as front ends see it."""
    return RunningView(
        **_running_fields(call),
        time=iso(call.ts),
        group=call.group_name or call.group,
        state="running",
        duration_ms=Millis(max(0, now - call.ts)),
        usage_source=UsageSource.ESTIMATED.value,
        attempt=call.attempt,
        substitute=call.fallback,
    )
