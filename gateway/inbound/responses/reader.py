"""Reads a native response, streamed or whole: what it used, whether it failed, and by which name its model goes.

Nothing of it is kept except the response as its last event had it, without the items: that is what an end is made of
where the upstream brings none.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.channel import Channel
from gateway.domain.failure import AttemptFailed, Failure, UpstreamText
from gateway.domain.order import Order
from gateway.domain.rawjson import NULL, Fields
from gateway.domain.screen import Screen
from gateway.domain.sse import SSEEvent
from gateway.domain.usage import Usage
from gateway.inbound.responses.regular_events import PIECE_KINDS, PIECES, TEXT_KINDS
from gateway.inbound.responses.render import usage_object
from gateway.inbound.responses.replay import item_events
from gateway.inbound.responses.summary import COMPACTION
from gateway.upstream import answer_errors
from gateway.upstream.adapter import OutputCounter
from gateway.upstream.answer_errors import reported_failure
from gateway.upstream.usage_report import UsageReports

_CONTENT = frozenset(
    {
        *("delta", "text", "refusal", "arguments", "input", "code", "logprobs", "name", "content", "summary"),
        *("encrypted_content", "action", "operation", "annotations", "results", "outputs"),
    }
)
"""Fields with the model's words and with tool results; they are never searched for secrets."""
_CONTENT_OR_OUTPUT = _CONTENT | {"output"}
_INNER = frozenset({"response", "item", "part"})
_EMPTY = msgspec.Raw(b"[]")
_NONE = msgspec.Raw(b"")
"""Equals no value."""
_BILLED = ("service_tier",)
"""Fields of a response beside its usage that change its cost."""
_TERMINAL = {"response.completed": "completed", "response.incomplete": "incomplete", "response.failed": "failed"}


class ResponsesReader:
    """Reads the events of one answer. Implements ``relay.NativeReader``."""

    ended = False
    """Only the last event has the whole answer."""

    def __init__(self, order: Order, channel: Channel) -> None:
        self._order = order
        self._channel = channel
        self._reports = UsageReports(_limits(order.fields))
        self._response: Fields = {}
        """The response in the last event with one."""
        self._given = _NONE
        """The same as it was sent, if it had no items: most streams send it twice."""
        self._begun = False
        """Whether the client has an event."""
        self._next = 0
        """The number of the next event."""
        self.told: Failure | None = None
        """The failure of an error with an event of its own, which the client has."""
        self._cut = False
        self._called = False
        self._compacted = False
        """Whether an item stands for the conversation."""
        self._items: set[str] = set()
        """The item ids of the last pieces, which contain no secret."""
        self._suspect = False
        """Whether a piece contained one."""
        self.tally = OutputCounter()
        self.complete = False
        self.failure: Failure | None = None
        self.finish = ""

    @property
    def reported(self) -> Usage | None:
        return self._reports.usage(self.tally)

    @property
    def upstream_id(self) -> str:
        value = rawjson.maybe(self._response.get("id"))
        return value if isinstance(value, str) else ""

    @property
    def marks(self) -> tuple[str, ...]:
        marks = (COMPACTION,) if self._compacted else ()
        return tuple(dict.fromkeys(self._reports.marks + _extras(self._response) + marks))

    def take_pieces(self, events: bytes, start: int) -> tuple[int, int]:
        """See ``relay.NativeReader``. If a piece contains a secret beside its content, all later events are decoded."""
        pieces, end = ([], start) if self._suspect else PIECES.read(events, start)
        if not pieces:
            return 0, start
        screen, items = self._order.screen, {piece.item_id for piece in pieces}
        pads = [piece.obfuscation for piece in pieces if len(piece.obfuscation) >= screen.shortest]
        self._suspect = any(map(screen.has_secret, (",".join(pads), *(items - self._items))))
        if self._suspect:
            return 0, start
        self._items = items
        number = pieces[-1].sequence_number
        self._next = number + 1 if number is not None else self._next + len(pieces)
        self.tally.add("".join([piece.delta for piece in pieces]))
        self._begun = True
        return len(pieces), end

    def take(self, event: SSEEvent) -> bytes | None:
        data, made = event.data, None
        fields = rawjson.fields(data)
        kind = rawjson.text(fields["type"]) if "type" in fields else event.name.decode("utf-8", "replace")
        inner = _inner_of(fields, self._given, self._response)
        if self._order.screen.any_has_secret(_around(fields, inner, kind, self._response)):
            cleaned = cleaned_event(fields, inner, kind, self._order.screen)
            if cleaned != fields:
                fields, data = cleaned, rawjson.encode(cleaned)
                inner = _inner_of(fields, self._given, self._response)
                made = b"event: %b\ndata: %b\n\n" % (event.name or b"message", data)
        number = bytes(fields.get("sequence_number", NULL))
        self._next = int(number[:18]) + 1 if number.isdigit() else self._next + 1
        if kind in PIECE_KINDS:
            self.tally.add(rawjson.text(fields["delta"]))
        elif kind == "response.output_item.added":
            self._count(inner["item"])
        elif kind == "error" and self._begun:
            self.told = reported_failure(self._channel, data)
        elif kind == "error":  # before anything else it is an answer of another kind
            self.failure = reported_failure(self._channel, data)
        elif "response" in inner:
            return self._respond(fields, inner["response"], kind) or made
        elif not self._begun and (failure := answer_errors.failure_in(self._channel, fields)) is not None:
            self.failure = failure
        self._begun = True
        return made

    def replay(self, body: bytes) -> bytes:
        sent = self.whole(body)
        response = rawjson.fields(sent)
        begun = rawjson.raw({**response, "status": "in_progress", "output": [], "usage": None})
        out = [self._made("created", {"response": begun}), self._made("in_progress", {"response": begun})]
        for number, item in enumerate(rawjson.items(response.get("output", _EMPTY))):
            out += [self._made(name, event) for name, event in item_events(number, item)]
        self._response = response
        self.complete = True
        return b"".join(out)

    def cut_short(self) -> bytes:
        self.finish, self._cut = "length", True
        return b""

    def closing(self, usage: Usage, *, estimated: bool) -> bytes:
        status, response = rawjson.maybe(self._response.get("status")), rawjson.raw(self._response)
        if self._cut:
            status, details = "incomplete", {"reason": "max_output_tokens"}
            spent = usage_object(usage)
            response = rawjson.raw({**self._response, "status": status, "incomplete_details": details, "usage": spent})
        out = self._made("incomplete" if status == "incomplete" else "completed", {"response": response})
        self._next -= 1  # it is kept back, and replaced by ``failed`` if the record cannot be written
        return out

    def failed(self, error: Mapping[str, Any], detail: bytes) -> bytes:
        """Returns the event that ends a broken stream without one of its own."""
        response = {"id": self._order.answer_id, "object": "response", "output": [], **self._response}
        ended = rawjson.raw({**response, "status": "failed", "error": error})
        return self._made("failed", {"response": ended, "error": msgspec.Raw(detail)})

    def whole(self, body: bytes) -> bytes:
        """Returns a whole response as the client gets it. Raises AttemptFailed if it failed, ValueError for anything
        else.
        """
        fields = rawjson.fields(body)
        if self._order.screen.value_has_secret(msgspec.Raw(body)):
            cleaned = cleaned_response(fields, self._order.screen)
            fields, body = (fields, body) if cleaned == fields else (cleaned, rawjson.encode(cleaned))
        if "output" not in fields:
            failure = answer_errors.failure_in(self._channel, fields)
            raise ValueError("not a response") if failure is None else AttemptFailed(failure)
        self._see(fields)
        status = rawjson.maybe(fields.get("status"))
        if status == "failed":
            raise AttemptFailed(_failure(fields, {}, self._order.model, self._channel))
        for item in rawjson.objects(fields["output"]):
            self._count(item)
            self.tally.add(_text_of(rawjson.value(rawjson.raw(item))))
        self.finish = _finish_of(fields, str(status), called=self._called)
        told = _as_requested(fields, self._order)
        return body if told is fields else rawjson.encode(told)

    def _respond(self, fields: Fields, response: Fields, kind: str) -> bytes | None:
        self._see(response)
        renamed = kind == "response.done"  # Realtime's name of the last event, whatever the status
        if renamed:
            status = rawjson.text_at(response.get("status"))
            kind = f"response.{status if status in _TERMINAL.values() else 'completed'}"
            fields = {**fields, "type": rawjson.raw(kind)}
        if kind == "response.failed":
            self.failure = _failure(response, fields, self._order.model, self._channel)
            return None
        if kind in _TERMINAL:
            self.finish = _finish_of(response, _TERMINAL[kind], called=self._called)
            self.complete = True
            self._next -= 1  # it is kept back, and may be replaced
        self._begun, self._given = True, fields["response"] if response is self._response else _NONE
        told = _as_requested(response, self._order)
        if told is response and not renamed:
            return None
        data = rawjson.encode({**fields, "response": told})
        return b"event: %b\ndata: %b\n\n" % (kind.encode("utf-8", "surrogatepass"), data)

    def _see(self, response: Fields) -> None:
        self._response = response
        if response.get("output", _EMPTY) != _EMPTY:  # what is kept must not keep the items
            self._response = {n: raw.copy() if n != "output" else _EMPTY for n, raw in response.items()}
        if not rawjson.is_null(response.get("usage")):
            self._reports.add({"usage": _with_tools(response), **{n: response[n] for n in _BILLED if n in response}})

    def _count(self, item: Fields) -> None:
        kind = rawjson.maybe(item.get("type"))
        self._compacted = self._compacted or kind == COMPACTION
        if isinstance(kind, str) and kind.endswith("_call"):
            self._called = self._called or kind in ("function_call", "custom_tool_call")
            self.tally.add_call()
            name = rawjson.maybe(item.get("name"))
            self.tally.add(name if isinstance(name, str) else "")

    def _made(self, name: str, fields: Mapping[str, Any]) -> bytes:
        number, self._next = self._next, self._next + 1
        kind = f"response.{name}"
        data = rawjson.encode({"type": kind, "sequence_number": number, **fields})
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), data)


def cleaned_event(fields: Fields, inner: Mapping[str, Fields], kind: str, screen: Screen) -> Fields:
    """Returns an event without the secrets around its content. Unknown events have no content."""
    if kind in TEXT_KINDS:
        return screen.cleaned(fields, _CONTENT)
    out = screen.cleaned(fields, _INNER)
    for name, values in inner.items():
        cleaned = cleaned_response(values, screen)
        out[name] = fields[name] if cleaned == values else rawjson.raw(cleaned)
    return out


def cleaned_response(fields: Fields, screen: Screen) -> Fields:
    """Returns a response, an item or a part of an item, without the secrets around the content."""
    out = screen.cleaned(fields, _CONTENT_OR_OUTPUT)
    if _is_array(fields.get("output", NULL)):
        items = rawjson.objects(fields["output"])
        cleaned = [screen.cleaned(item, _CONTENT) for item in items]
        out["output"] = fields["output"] if cleaned == items else rawjson.raw(cleaned)
    return out


def _inner_of(fields: Fields, given: msgspec.Raw, response: Fields) -> dict[str, Fields]:
    """Returns the objects with content in an event. ``given`` is an earlier ``response``, as it was sent."""
    return {
        name: response if fields[name] == given else rawjson.fields(fields[name]) for name in _INNER if name in fields
    }


def _around(fields: Fields, inner: Mapping[str, Fields], kind: str, clean: Fields) -> list[msgspec.Raw]:
    """Yields all values of an event that are not content; of its objects their values, unless ``clean`` has them, which
    was searched: a stream sends its response three times.
    """
    outside = _CONTENT if kind in TEXT_KINDS else _INNER
    values = [value for name, value in fields.items() if name not in outside]
    for holder in () if kind in TEXT_KINDS else inner.values():
        if holder is clean:
            continue
        values += [
            value for name, value in holder.items() if name not in _CONTENT_OR_OUTPUT and clean.get(name) != value
        ]
        if holder.get("output", _EMPTY) != _EMPTY and _is_array(holder["output"]):
            for item in rawjson.objects(holder["output"]):
                values += [value for name, value in item.items() if name not in _CONTENT]
    return values


def _is_array(value: msgspec.Raw) -> bool:
    return bytes(memoryview(value)[:1]) == b"["


def _finish_of(response: Fields, status: str, *, called: bool) -> str:
    """Returns why an answer ended, in the words of chat completions."""
    if status != "incomplete":
        return "tool_calls" if called else "stop"
    details = rawjson.maybe(response.get("incomplete_details"))
    reason = details.get("reason") if isinstance(details, dict) else None
    return "content_filter" if reason == "content_filter" else "length"


def _extras(response: Fields) -> tuple[str, ...]:
    """Returns what is billed in addition to tokens."""
    used = rawjson.maybe(response.get("tool_usage"))
    search = used.get("web_search") if isinstance(used, dict) else None
    count = search.get("num_requests") if isinstance(search, dict) else None
    return (f"upstream_extra=web_search:{count}",) if isinstance(count, int) and count > 0 else ()


def _with_tools(response: Fields) -> msgspec.Raw:
    """Returns the usage with the counts of the vendor's own tools, which are beside it."""
    tools = response.get("tool_usage") or _searches_in(response.get("output", _EMPTY))
    usage = rawjson.maybe(response["usage"]) if tools else None
    return rawjson.raw({**usage, "tool_usage": tools}) if isinstance(usage, dict) else response["usage"]


def _searches_in(output: msgspec.Raw) -> dict[str, int]:
    """Returns how often the vendor searched, by the items of a response: not every upstream counts these."""
    if bytes(output).find(b'_search_call"') < 0:
        return {}
    searches = dict[str, int]()
    for item in rawjson.objects(output):
        kind, action = rawjson.maybe(item.get("type")), rawjson.maybe(item.get("action"))
        does = action.get("type") if isinstance(action, dict) else "search"  # it may open a page, which is free
        if kind in ("web_search_call", "file_search_call") and does == "search":
            searches[kind.removesuffix("_call")] = searches.get(kind.removesuffix("_call"), 0) + 1
    return searches


def _as_requested(response: Fields, order: Order) -> Fields:
    """Returns the response with the client's name of the model, and the response that its request continued."""
    changed: Fields = {}
    if (previous := order.form.repeats.get("previous_response_id")) is not None:
        changed["previous_response_id"] = previous
    if "model" in response and rawjson.maybe(response["model"]) != order.model:
        changed["model"] = rawjson.raw(order.model)
    return {**response, **changed} if changed else response


def _failure(response: Fields, event: Fields, model: str, channel: Channel) -> Failure:
    """Returns the failure of a response. Some upstreams put the error next to it."""
    error = response.get("error", NULL)
    if rawjson.is_null(error):
        error = event.get("error", NULL)
    body = b'{"error":{"message":"it failed"}}' if rawjson.is_null(error) else rawjson.encode({"error": error})
    whole = rawjson.encode({**event, "response": rawjson.raw({**response, "error": error, "model": model})})
    return msgspec.structs.replace(
        reported_failure(channel, body), verbatim=UpstreamText(whole.decode("utf-8", "replace"))
    )


def _limits(fields: Fields) -> Fields:
    """Returns what limits the usage, in the words of chat completions."""
    limited = dict(fields)
    if (cap := limited.pop("max_output_tokens", None)) is not None:
        limited["max_completion_tokens"] = cap
    return limited


def _text_of(item: Any) -> str:
    """Returns what the model wrote in an item."""
    held = (item.get(name) for name in ("content", "summary"))
    parts = [part for parts in held if isinstance(parts, list) for part in parts]
    texts = [part.get("text") or part.get("refusal") for part in parts if isinstance(part, dict)]
    texts += [item.get("arguments"), item.get("input"), item.get("code")]
    return "".join(text for text in texts if isinstance(text, str))
