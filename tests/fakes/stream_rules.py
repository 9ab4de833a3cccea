"""Stream rules: whether the events of a streamed answer are in the order that clients rely on.

A client that meets a fault drops the stream and makes the call again, which is paid twice. A fault names events and
positions and quotes nothing of an answer.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from gateway.domain import rawjson
from gateway.domain.sse import BLANK, Framer, SSEEvent, parse
from gateway.domain.text import plain

_COUNTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
_FITTING = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "thinking"}
"""The block kind of deltas that belong to only one."""
_ANYWHERE = frozenset({"response.in_progress", "response.queued", "error"})
"""Events of a response that belong to no item."""
_LAST = frozenset({"response.completed", "response.incomplete", "response.failed"})

Event = Mapping[str, Any]
Blame = Callable[[str], None]


class Rules(Protocol):
    """The rules of one API, for one stream."""

    ended: bool
    """Whether the last event came."""

    def take(self, event: Event, blame: Blame) -> None:
        """Takes the next event."""


class MessagesRules:
    """One ``message_start``, blocks one after another, ``message_delta`` and ``message_stop``, or ``error``."""

    def __init__(self) -> None:
        self.ended = False
        self._begun = False
        self._blocks = 0
        """How many blocks began."""
        self._open = ""
        """The kind of the open block, or empty."""

    def take(self, event: Event, blame: Blame) -> None:
        kind = event["type"]
        if kind == "ping":
            return
        if not self._begun and kind not in ("message_start", "error"):
            blame(f"{_shown_text(kind)} comes before message_start")
        match kind:
            case "message_start":
                if self._begun:
                    blame("a second message_start")
                self._begun = True
                _check_counts(event.get("message"), kind, blame)
            case "message_delta":
                _check_counts(event, kind, blame)
            case "content_block_start" | "content_block_delta" | "content_block_stop":
                self._block(kind, event, blame)
            case "message_stop":
                if self._open:
                    blame(f"message_stop comes while block {self._blocks - 1} is open")
        self.ended = kind in ("message_stop", "error")

    def _block(self, kind: str, event: Event, blame: Blame) -> None:
        index = event.get("index")
        if kind == "content_block_start":
            if self._open or index != self._blocks:
                blame(f"block {index!r:.20} begins out of turn; {self._blocks} came before")
            self._open = str(_inner(event, "content_block").get("type"))
            self._blocks += 1
            return
        if not self._open or index != self._blocks - 1:
            blame(f"{kind} of block {index!r:.20}, which is not open")
        elif kind == "content_block_delta":
            delta = str(_inner(event, "delta").get("type"))
            if _FITTING.get(delta, self._open) != self._open:
                blame(f"{_shown_text(delta)} in a block of type {_shown_text(self._open)}")
        if kind == "content_block_stop":
            self._open = ""


class ResponsesRules:
    """Events numbered without a gap, items one after another, and one last event that has all the items."""

    def __init__(self) -> None:
        self.ended = False
        self._events = 0
        self._items: list[object] = []
        """The ids of items that began."""
        self._open = False

    def take(self, event: Event, blame: Blame) -> None:
        kind, number = event["type"], event.get("sequence_number")
        if number != self._events:
            blame(f"{_shown_text(kind)} has the sequence_number {number!r:.20} and is event {self._events}")
        if not self._events and kind != "response.created" and kind not in _LAST:
            blame(f"{_shown_text(kind)} comes before response.created")
        self._events += 1
        if kind in _LAST:
            self._end(kind, event, blame)
        elif kind != "response.created" and kind not in _ANYWHERE:
            self._item(kind, event, blame)

    def _item(self, kind: str, event: Event, blame: Blame) -> None:
        index, added = event.get("output_index"), kind == "response.output_item.added"
        if added:
            if self._open:
                blame("an item begins while another is open")
            self._items.append(_inner(event, "item").get("id"))
            self._open = True
        elif not self._open:
            blame(f"{_shown_text(kind)} belongs to no open item")
            return
        if index != len(self._items) - 1:
            blame(f"{_shown_text(kind)} has the output_index {index!r:.20} in item {len(self._items) - 1}")
        id = event.get("item_id", _inner(event, "item").get("id"))
        if id != self._items[-1]:
            blame(f"{_shown_text(kind)} has another id than its item")
        if kind == "response.output_item.done":
            self._open = False

    def _end(self, kind: str, event: Event, blame: Blame) -> None:
        self.ended = True
        response = _inner(event, "response")
        if response.get("status") != kind.removeprefix("response."):
            blame(f"{kind} with the status {_shown_text(str(response.get('status')))}")
        if kind == "response.failed":
            return
        if self._open:
            blame(f"{kind} comes while item {len(self._items) - 1} is open")
        output = response.get("output")
        if [item.get("id") for item in output or () if isinstance(item, dict)] != self._items:
            blame(f"the items of {kind} are not those that were streamed")


RULES: dict[str, Callable[[], Rules]] = {"messages": MessagesRules, "responses": ResponsesRules}
"""The rules by the name of the API."""


def faults(api: str, stream: bytes, *, size: int = 0) -> list[str]:
    """The faults of a whole stream, read in pieces of ``size`` bytes."""
    check = StreamCheck(RULES[api]())
    for start in range(0, len(stream), size or len(stream)):
        check.feed(stream[start : start + (size or len(stream))])
    check.end()
    return check.faults


class StreamCheck:
    """Reads the bytes of one stream as the client gets them."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._framer = Framer()
        self.faults: list[str] = []

    def feed(self, data: bytes) -> None:
        """Takes any piece of the stream."""
        for event in filter(None, map(parse, self._framer.feed(data).split(BLANK))):
            self._take(event)

    def end(self) -> None:
        """The stream ended, and was not cut off."""
        if self._framer.held:
            self._blame("the last event is not complete")
        if not self._rules.ended:
            self._blame("it ends without its last event")

    def _take(self, event: SSEEvent) -> None:
        ended, found = self._rules.ended, rawjson.maybe(event.data)
        if not isinstance(found, dict) or not isinstance(found.get("type"), str):
            self._blame("an event is not a JSON object with a type")
            return
        if ended:
            self._blame(f"{_shown_text(found['type'])} comes after the last event")
        if event.name.decode(errors="replace") != found["type"]:
            self._blame(f"{_shown_text(found['type'])} has another name in its event line")
        self._rules.take(found, self._blame)

    def _blame(self, fault: str) -> None:
        if len(self.faults) < 5:  # later ones usually follow from the first
            self.faults.append(fault)


def _inner(event: Event, name: str) -> Event:
    found = event.get(name)
    return found if isinstance(found, dict) else {}


def _check_counts(holder: object, kind: str, blame: Blame) -> None:
    usage = holder.get("usage") if isinstance(holder, dict) else None
    if not isinstance(usage, dict) or type(usage.get("output_tokens")) is not int:
        blame(f"{kind} has no usage")
    elif any(usage.get(name) is not None and type(usage[name]) is not int for name in _COUNTS):
        blame(f"the usage of {kind} has something other than whole numbers")


def _shown_text(text: str) -> str:
    return plain(text, 60)
