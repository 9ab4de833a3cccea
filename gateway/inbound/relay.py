"""Relays: calls at channels that speak the client's API. Bytes pass unchanged while the gateway reads what it needs.

A relay of an API is an adapter (``adapter.Adapter``) made of the parts here and of a ``NativeTap`` that knows the
API's events. Every value of a request that nothing names keeps its bytes; if nothing changes, the whole body does. The
terminal event of an answer is kept until ``tail``: no answer ends before its cost is written.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import AnswerPart
from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel, ServedModel
from gateway.domain.failure import AttemptFailed, Failure, UpstreamText
from gateway.domain.json_text import as_utf8, refuse_many_elements
from gateway.domain.order import Order
from gateway.domain.rawjson import Fields
from gateway.domain.sse import (
    BLANK,
    IDLE,
    SSEEvent,
    event_end,
    has_comment,
    is_idle,
    parse,
    with_blank_lines,
    with_line_feeds,
)
from gateway.domain.usage import Usage
from gateway.upstream.adapter import AnswerReader, AnswerStream, failing_attempt
from gateway.upstream.answer_errors import failure_named
from gateway.upstream.answer_state import AnswerState
from gateway.upstream.failures import REJECTED, bad_response, truncation
from gateway.upstream.openai.dialect import PLAIN_HEADERS, STREAM_HEADERS

CLIENT_STATUSES = frozenset({400, 413, 422})
"""Statuses of errors that clients get in the upstream's own words."""


def forwarded_headers(headers: Mapping[str, str], names: "re.Pattern[str]") -> dict[str, str]:
    """Returns the client's headers that match and may be passed on, by lower-case names. Repeated ones are joined."""
    forwarded: dict[str, str] = {}
    for sent_name, value in headers.items():
        name = sent_name.lower()
        if names.fullmatch(name) and value.isascii() and value.isprintable():
            forwarded[name] = f"{forwarded[name]},{value}" if name in forwarded else value
    return forwarded


def native_headers(order: Order, channel: Channel) -> dict[str, str]:
    """Returns the headers of a request. The channel's own headers and its key are added when it is sent."""
    forward = dict(order.forward)
    for name in channel.headers:
        forward.pop(name.lower(), None)
    return {**(STREAM_HEADERS if order.stream else PLAIN_HEADERS), **forward}


def lower_cap(fields: Fields, name: str, served: ServedModel) -> Fields:
    """Returns the output limit that replaces one above the model's own, under its name; empty if the limit stays."""
    cap, limit = rawjson.maybe(fields.get(name)), served.max_output
    return {name: rawjson.raw(limit)} if limit is not None and type(cap) is int and cap > limit else {}


def native_failure(
    failure: Failure, body: bytes, optional: Mapping[str, Sequence[str]], is_rule: Callable[[str], bool]
) -> Failure:
    """Returns a failure of the dialect with what a relay knows: the upstream's own words, and whether it may lack the
    API. Of the refused parameters the rules are kept, and the ``optional`` ones, which become paths of fields.
    """
    paths = (optional.get(name, (name,) if is_rule(name) else ()) for name in failure.parameters)
    failure = msgspec.structs.replace(failure, parameters=tuple(chain.from_iterable(paths)), needs_responses=None)
    is_absent = failure.status in (405, 501) and not failure.parameters
    if is_absent or (failure.status == 404 and failure.kind is FailureKind.SERVER):
        return msgspec.structs.replace(failure, lacks_api=True)
    if failure.status == 404 and failure.kind is FailureKind.CLIENT and not _names_something(failure):
        return msgspec.structs.replace(failure, may_lack_api=True)
    is_mistake = failure.kind is FailureKind.CLIENT and failure.status in CLIENT_STATUSES
    if is_mistake and isinstance(rawjson.maybe(body), dict):
        return msgspec.structs.replace(failure, verbatim=UpstreamText(body.decode("utf-8", "replace")))
    return failure


def _names_something(failure: Failure) -> bool:
    """Returns whether something in the request was not found, such as an earlier item, rather than the address."""
    origin = failure.origin or {}
    return failure.code != REJECTED or any(origin.get(name) for name in ("param", "code"))


class NativeTap(AnswerState):
    """Reads one native answer while its bytes pass. A subclass knows the events of its API."""

    streamed_kinds: frozenset[FailureKind] = frozenset()
    """The kinds of failures that clients act on only if a stream tells them, and not a status."""

    def __init__(self, order: Order, channel: Channel) -> None:
        super().__init__(order, all_choices=True, native=True)
        self._channel = channel
        self.done = False
        """Whether the terminal event was read."""
        self.failure: Failure | None = None
        """Set when an event reports one; the event does not go to the client."""
        self.reported_error: Failure | None = None
        """The failure in an event that the client has received. Some upstreams send no last event after it."""

    def take_pieces(self, events: bytes, start: int) -> tuple[int, int]:
        """Returns how many events from ``start`` on are usual pieces, which pass unchanged, and where they end."""
        return 0, start

    def take(self, event: SSEEvent) -> bytes | None:
        """Returns what the client gets instead of an event; None if it passes unchanged. Raises ValueError."""
        raise NotImplementedError

    def replay(self, body: bytes) -> bytes:
        """Returns a whole answer as the events of a stream, without the terminal one: a client that got the answer
        itself would call again, and pay twice. Raises AttemptFailed or ValueError for anything else.
        """
        raise NotImplementedError

    def cut_short(self) -> bytes:
        """Returns the events that end the answer here as at its length limit, without the terminal one."""
        raise NotImplementedError

    def terminal_event(self, usage: Usage) -> bytes:
        """Returns the terminal event for an answer that came without one."""
        raise NotImplementedError

    def take_parts(self, parts: Iterable[AnswerPart], reader: AnswerReader) -> None:
        """Take a reader's parts into the state. Raises ValueError if one makes no sense, and what the reader raises."""
        for part in parts:
            self.add(part)
        self.done, self.failure = reader.done, reader.failure
        if self.broken and self.failure is None:
            self.failure = failure_named(self._channel, self.broken)


class NativeStream(AnswerStream):
    """A streamed answer that passes unchanged."""

    def __init__(self, channel: Channel, reader: NativeTap) -> None:
        super().__init__(channel)
        self.state = self.reader = reader
        self.started = False
        """Whether there was something for the client."""
        self._terminal = b""
        """The upstream's terminal event, which waits for ``tail``."""
        self._opening = b""
        """The events before the answer begins, which wait for it: until then another channel may answer. OpenAI sends
        two of the empty response, and only then that the key is out of credit or limited. Anthropic sends the empty
        message and a ping, and only then that it is overloaded. After three events, clients must see that more comes.
        """

    def cut_short(self) -> bytes:
        self.finished = True
        self._terminal = b""
        return self._opening + self.reader.cut_short()

    def tail(self, usage: Usage) -> bytes:
        return self._terminal or self.reader.terminal_event(usage)

    def _normalize(self, events: bytes) -> bytes:
        """See ``AnswerStream``. Line ends pass unchanged too."""
        return as_utf8(events)

    def _read_body(self, body: bytes) -> bytes:
        try:
            with failing_attempt(body, self._channel):
                refuse_many_elements(body)
                events = self.reader.replay(body)
        except AttemptFailed as failed:
            self.failure = failed.failure
            return b""
        self.started = self.finished = True
        return events

    def _read_rest(self, rest: bytes) -> bytes:
        text = with_blank_lines(with_line_feeds(rest).strip(b"\n"))
        events, blank, last = text.rpartition(BLANK)
        event = parse(last)
        if event is not None and rawjson.maybe(event.data) is not None:  # its blank line never came
            events, blank = text, BLANK
        out = self._read_events(events + blank)
        if not (self.failure or self.finished):
            self.finished = self.reader.complete
            cut = truncation(self._channel, "its last event did not come")
            self.failure = None if self.finished else self.reader.reported_error or cut
        return out

    def _read_events(self, events: bytes) -> bytes:
        """See ``AnswerStream``. The bytes between replaced events pass in one piece."""
        out: list[bytes] = []
        start = passed = 0
        has_returns = b"\r" in events
        events = events if has_returns else with_blank_lines(events)
        while start < len(events) and not (self.failure or self.finished):
            count, end = (0, start) if has_returns else self.reader.take_pieces(events, start)
            replaced = None
            if count:
                self.events += count
                self.started = True
            else:
                end = event_end(events, start, has_returns=has_returns)
                replaced = self._read_event(events[start:end])
            if replaced is not None:
                out += (events[passed:start], replaced)
                passed = end
            start = end
        out.append(events[passed:start])
        content = self._opening + b"".join(out)
        can_pass = self.events > 3 if self.failure is None else self.failure.kind in self.reader.streamed_kinds
        self._opening = b"" if self.reader.began or self.finished or can_pass else content
        self.held += len(self._opening)
        return b"" if self._opening else content

    def _read_event(self, block: bytes) -> bytes | None:
        """Returns what the client gets instead of one decoded event; None if it passes unchanged."""
        text = with_line_feeds(block)
        event = parse(text.strip(b"\n"))
        if event is None or (event.name in IDLE and not self.started):
            self.events += event is not None
            self.comments += event is None and has_comment(text)
            return None if self.started else b""  # until the answer begins, another channel may answer
        self.events += 1
        if event.data.strip() == b"[DONE]":  # some relays send it
            self.finished = self.reader.complete
            return b""
        replaced = None
        try:
            refuse_many_elements(event.data)
            replaced = self.reader.take(event)
        except ValueError:
            if is_idle(event):
                return b""
            self.failure = bad_response(self._channel, "an event of the stream is not valid")
        else:
            self.failure = self.reader.failure
        if self.failure is not None:
            return b""
        self.started = True
        if self.reader.done:
            self._terminal, self.finished = block if replaced is None else replaced, True
            return b""
        return replaced
