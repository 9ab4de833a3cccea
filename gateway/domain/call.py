"""Call: one client request from acceptance to settlement, its attempts, and its record."""

import re
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from operator import attrgetter
from typing import Any, Final, Literal

import msgspec

from gateway.domain.price import Rates
from gateway.domain.units import CallId, Millis, Nanos
from gateway.domain.usage import Usage, UsageSource

CHAT_API = "chat"
"""The name of the inbound API of chat completions, the default of a call."""

Scope = tuple[Literal["account", "token", "group", "channel"], str]
"""What a call is charged to and limited by: ``("account", "")``, a token, group or channel by id."""

ACCOUNT: Scope = ("account", "")


class Outcome(StrEnum):
    """How a call ended."""

    DONE = "done"
    REFUSED = "refused"
    """The gateway refused the call before any upstream request."""
    ERROR = "error"
    """An upstream failed before the client got a byte, or the answer was withheld because it could not be recorded."""
    TIMEOUT = "timeout"
    UPSTREAM_CUT = "upstream_cut"
    """An upstream ended the answer in the middle."""
    CLIENT_CLOSED = "client_closed"
    CANCELLED = "cancelled"
    """The owner cancelled the call."""
    STOPPED = "stopped"
    """The gateway ended the answer, because the money was used up or the gateway stopped."""
    LOST = "lost"
    """The gateway died during the call, which the next start noticed."""

    @classmethod
    def _missing_(cls, _: object) -> "Outcome":
        """Returns what stands for an outcome that only a newer version knows. Its records stay readable."""
        return cls.ERROR


NOT_UPSTREAM: Final = ("client_closed", "cancelled", "stopped")
"""Outcomes that are not the upstream's fault, even if its attempt failed."""

NOT_ERRORS: Final = (*NOT_UPSTREAM, "lost")
"""Outcomes that do not count as errors: the client, the owner or the end of the server ended the call."""


class FailureKind(StrEnum):
    """The kind of failure of an attempt. It decides what the gateway does next. The most informative come first."""

    CLIENT = "client"
    CUT = "cut"
    AUTH = "auth"
    QUOTA = "quota"
    RATE = "rate"
    SERVER = "server"
    SLOW = "slow"
    NETWORK = "network"
    UNSET = "unset"
    """An environment variable for a key, a header or the proxy of the channel is not set: nothing was sent."""
    MISSING = "missing"

    @classmethod
    def _missing_(cls, _: object) -> "FailureKind":
        """Returns what stands for a kind that only a newer version knows."""
        return cls.SERVER


is_call_id = re.compile(r"req_[0-9a-f]{26}").fullmatch
"""Returns a match if the text has the form of a call's id, else None."""


def began_at(call_id: str) -> Millis | None:
    """Returns when a call began, which is in its id; None for a text that is not an id."""
    return Millis(int(call_id[4:16], 16)) if is_call_id(call_id) else None


class Attempt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One attempt of a call at one channel."""

    channel: str
    """The channel's name at that time."""
    status: int = 0
    """The upstream's HTTP status; 0 if it did not answer."""
    ms: Millis = Millis(0)
    kind: FailureKind | None = None
    """Why it failed; None if it succeeded."""
    reason: str = ""
    billed: bool = False
    """Whether the upstream may have billed it although it failed here."""
    key: str = ""
    """The number and mask of the key that was used, if the channel has several."""
    model: str = ""
    """The fallback that was called instead of the model that the client named; else empty."""


class CallNames(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Who makes a call, the model, and where it goes: what a running call and its record both have."""

    id: CallId
    ts: Millis
    """When the call was accepted. It counts to this hour, day and month."""
    token: str = ""
    """The token's id; empty if the key was unknown."""
    token_name: str = ""
    group: str = ""
    """The id of its group."""
    group_name: str = ""
    """The group's name at that time; empty if it is the same as the id."""
    model: str = ""
    """The requested public name."""
    upstream_model: str = ""
    channel: str = ""
    """The id of the channel of the last attempt."""
    channel_name: str = ""
    app: str = ""
    """The client program's name, from its User-Agent."""
    api: str = CHAT_API


class Record(CallNames, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What is stored about a finished call: one line of the log, without the prompt and the answer.

    The record is also the charge: writing it takes ``cost`` from the account.
    """

    request: str = ""
    """Method and path of a request that reached no API, without its query: ``POST /v1/files``."""
    native: bool = False
    """Whether the last attempt's channel speaks that API natively, so that request and answer passed unchanged. Never
    set for chat completions, to keep their lines short."""
    status: int = 0
    """The HTTP status of the answer; 499 if the client had disconnected, 0 if the call was lost."""
    outcome: Outcome = Outcome.DONE
    code: str = ""
    error: str = ""
    finish: str = ""
    """The ``finish_reason`` of the answer."""
    stream: bool = False
    ms: Millis = Millis(0)
    """Milliseconds from acceptance to the end."""
    ttft: Millis | None = None
    """Milliseconds from acceptance to the first byte of the answer."""
    overhead: int = 0
    """Microseconds spent in the gateway itself before the upstream request."""
    input: int = 0
    cached: int = 0
    cache_write: int = 0
    cache_write_long: int = 0
    output: int = 0
    reasoning: int = 0
    parts: Mapping[str, int] = {}
    variant: str = ""
    source: UsageSource = UsageSource.NONE
    """The fields from ``input`` to this one are as in ``Usage``."""
    cost: Nanos = Nanos(0)
    rates: Rates | None = None
    """The rates of the charge; None if the model was unpriced or nothing was used."""
    held: Nanos = Nanos(0)
    balance: Nanos | None = None
    """The account's balance just after this call."""
    possible: Nanos = Nanos(0)
    """What the upstream may have billed although it was not charged."""
    possible_elsewhere: dict[str, Nanos] = {}
    """What upstreams may have billed for earlier attempts, by channel id."""
    attempts: tuple[Attempt, ...] = ()
    upstream_id: str = ""
    retry: int = 0
    """The client's own count of its retries, as SDKs send it."""
    marks: tuple[str, ...] = ()
    """Notes about the call, such as ``no_done``, ``bad_chunks=2`` (see ``LOST_EVENTS_MARK``), ``dropped=seed``,
    ``suspect_usage``, or ``after_break`` (the same call was repeated just after its stream broke)."""

    @property
    def failed(self) -> bool:
        """Returns whether the status is not 2xx, even if the outcome is in ``NOT_ERRORS``."""
        return not 200 <= self.status < 300


class Running(CallNames, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A call that is not settled yet, as watchers see it and the file of running calls stores it."""

    native: bool = False
    stream: bool = False
    held: Nanos = Nanos(0)
    held_tokens: int = 0
    fallback: str = ""
    """The model that is called instead of the one that the client named; else empty."""
    attempt: int = 0
    ttft: Millis | None = None
    input: int = 0
    output: int = 0
    """Output tokens so far, estimated while the stream runs."""
    cost: Nanos = Nanos(0)
    """Cost so far, estimated."""
    waits_for: str = ""
    """What it waits for now, a free slot or its next attempt; empty if it does not wait."""


def _getter(names: tuple[str, ...]) -> Callable[[Any], dict[str, Any]]:
    """Returns a function that returns these attributes of an object, by name."""
    values = attrgetter(*names)
    return lambda item: dict(zip(names, values(item), strict=True))


shared_fields: Callable[[Running], dict[str, Any]] = _getter((*CallNames.__struct_fields__, "native", "stream"))
"""Returns the fields of a running call that its record has too."""
usage_fields: Callable[[Usage], dict[str, Any]] = _getter(
    tuple(name for name in Usage.__struct_fields__ if name in Record.__struct_fields__)
)
"""Returns the fields of a usage that the record of its call has too."""


def lost_record(call: Running) -> Record:
    """Returns the record of a call that a crash interrupted. It charges nothing; its upstream may have billed it."""
    return Record(
        **shared_fields(call),
        ttft=call.ttft,
        outcome=Outcome.LOST,
        code="gateway_stopped",
        error="the gateway stopped while this call was running",
        held=call.held,
        possible=call.held,
    )


LOST_EVENTS_MARK = "bad_chunks="
"""Prefix of a mark with the number of unreadable events that were skipped. The text may have gaps there."""
REPEATED_MARK = "repeated="
"""Prefix of a mark with how many more calls the record stands for: of many similar refusals, one a second has one."""
BUDGET_MARK = "budget="
"""Prefix of a mark with a budget that was nearly spent at the beginning: ``daily budget of token 'ci': 84% spent``."""
SKIPPED_MARK = "skipped="
"""Prefix of a refusal's mark with a channel that could not serve it: paused, or in need of attention."""
EXCEEDED_MARK = "exceeded="
"""Prefix of a refusal's mark with the id of the budget that was too small."""
SIZE_MARK = "request="
"""Prefix of a refusal's mark with the size of the request."""
WAITED_MARK = "waited="
"""Prefix of a mark with how long the call waited, and for what: ``120:channel 'lan' (1 call at once)``."""
STAYED_MARK = "conversation_stayed"
"""The mark of a call that stayed at its conversation's channel although others rank higher."""
PASSED_MARK = "passed="
"""Prefix of a mark with a higher-ranking channel, and why it was passed over: ``a: paused for 12s: rate limited``."""
EXPLAINED_MARKS = (REPEATED_MARK, EXCEEDED_MARK, SIZE_MARK, WAITED_MARK, STAYED_MARK, PASSED_MARK)
"""Prefixes of marks that are shown as sentences."""


def mark_values(marks: Iterable[str], prefix: str) -> list[str]:
    """Returns what follows the prefix in each mark that has it."""
    return [mark.removeprefix(prefix) for mark in marks if mark.startswith(prefix)]


def mark_total(marks: Iterable[str], prefix: str) -> int:
    """Returns the sum of the numbers that follow the prefix."""
    return sum(int(number) for number in mark_values(marks, prefix) if number.isdecimal())


def wait_of(marks: Iterable[str]) -> tuple[Millis, str]:
    """Returns how long a call waited before it was admitted, and for what; zero and nothing if it did not wait."""
    for value in mark_values(marks, WAITED_MARK):
        ms, _, place = value.partition(":")
        if ms.isdecimal():
            return Millis(int(ms)), place
    return Millis(0), ""


class RequestSize(msgspec.Struct, frozen=True, kw_only=True):
    """The size of a refused call."""

    input: int
    """Input tokens as estimated for the hold."""
    max_output: int | None
    """The request's limit on output tokens; None if it set none."""

    def mark(self) -> str:
        """Returns the mark that records this size: ``request=1200/60000``, ``request=1200/none``."""
        return f"{SIZE_MARK}{self.input}/{'none' if self.max_output is None else self.max_output}"

    def text(self) -> str:
        """Returns ``1,200 input tokens, at most 60,000 output tokens``."""
        output = "no limit of output" if self.max_output is None else f"at most {self.max_output:,} output tokens"
        return f"{self.input:,} input tokens, {output}"


def request_size(marks: Iterable[str]) -> RequestSize | None:
    """Returns the size of a refused call; None if its record does not have it."""
    for value in mark_values(marks, SIZE_MARK):
        input_tokens, _, output = value.partition("/")
        if input_tokens.isdecimal() and (output.isdecimal() or output == "none"):
            return RequestSize(input=int(input_tokens), max_output=int(output) if output.isdecimal() else None)
    return None


def exceeded_budget(marks: Iterable[str]) -> str:
    """Returns the id of the budget that was too small for a refused call; empty if it was not a budget."""
    return next(iter(mark_values(marks, EXCEEDED_MARK)), "")


def has_incident_mark(marks: Iterable[str]) -> bool:
    """Returns whether a call was refused for a reason that counts as an incident."""
    return any(mark.startswith((SKIPPED_MARK, EXCEEDED_MARK)) for mark in marks)


def outcome_text(outcome: str, finish: str = "") -> str:
    """Returns how a call ended, for people: ``finished (stop)``, ``lost (gateway stopped)``, ``upstream cut``."""
    texts = {Outcome.DONE.value: "finished", Outcome.LOST.value: "lost (gateway stopped)"}
    text = texts.get(outcome, outcome.replace("_", " "))
    return f"{text} ({finish})" if finish else text
