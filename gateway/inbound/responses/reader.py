"""Reads a native response, streamed or whole, while its bytes pass: usage, failures and output.

It keeps the items and the response of the last event, so that it can end a stream that the upstream has not ended. Some
upstreams, such as relays of ChatGPT's plans, leave these out of the last event, where many clients read them.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import AnswerFinished
from gateway.domain.call import FailureKind
from gateway.domain.channel import Channel
from gateway.domain.failure import AttemptFailed, Failure, UpstreamText
from gateway.domain.json_text import TooManyElements
from gateway.domain.order import Order
from gateway.domain.rawjson import EMPTY_LIST, NULL, Fields
from gateway.domain.screen import Screen
from gateway.domain.sse import SSEEvent, write_event
from gateway.domain.usage import NOTHING, Usage
from gateway.inbound.relay import NativeTap
from gateway.inbound.responses.native_events import (
    KINDS,
    PIECES,
    TEXT_KINDS,
    TEXT_PIECE,
    MissingEvents,
    with_needed,
)
from gateway.inbound.responses.output import TypedEvent, encode_event, usage_object
from gateway.inbound.responses.summary import COMPACTION
from gateway.upstream.answer_errors import failure_in, reported_failure
from gateway.upstream.openai.responses_reader import ENDS, ERROR_EVENTS, REPORTS, failure_of, stop_word

_CONTENT = frozenset(
    {
        *("delta", "text", "refusal", "arguments", "input", "code", "command", "logprobs", "name", "content"),
        *("summary", "encrypted_content", "action", "operation", "annotations", "results", "outputs"),
    }
)
"""Fields with the model's words and with tool results, which are never searched for secrets."""
_HOLDERS = frozenset({"response", "item", "part"})
"""Fields of events with an object that has content."""
_COUNTS = (b'"input_tokens"', b'"cached_tokens"', b'"output_tokens"', b'"reasoning_tokens"', b'"total_tokens"')
"""Names in a usage without which Codex and Grok Build fail."""
_MAX_EVENTS = 10_000
"""More events than the items of any real response have. They are all written in the event loop, some 10 µs each."""


class ResponsesReader(NativeTap):
    """Reads the events of one answer."""

    streamed_kinds = frozenset({FailureKind.CLIENT})

    def __init__(self, order: Order, channel: Channel) -> None:
        super().__init__(order, channel)
        self._response: Fields = {}
        """The response in the last event with one, without its items."""
        self._missing = MissingEvents()
        self._next_number = 0
        self._has_call = False
        self._clean_ids: set[str] = set()
        """The item ids of the last pieces, which contain no secret."""
        self._has_secret = False
        """Whether a piece had a secret outside of its content."""

    def take_pieces(self, events: bytes, start: int) -> tuple[int, int]:
        """See ``NativeTap``. If a piece has a secret outside of its content, all later events are decoded."""
        pieces, end = ([], start) if self._has_secret else PIECES.read(events, start, self._missing.regular_heads)
        if not pieces or (self._missing.first_part is None and pieces[0].content_index):
            return 0, start
        screen, ids = self.order.screen, {piece.item_id for piece in pieces}
        paddings = [piece.obfuscation for piece in pieces if len(piece.obfuscation) >= screen.shortest]
        self._has_secret = any(map(screen.has_secret, (",".join(paddings), *(ids - self._clean_ids))))
        if self._has_secret:
            return 0, start
        self._clean_ids, self._missing.first_part = ids, 0
        number = pieces[-1].sequence_number
        self._next_number = number + 1 if number is not None else self._next_number + len(pieces)
        self.tally.add("".join([piece.delta for piece in pieces]))
        self.began = True
        return len(pieces), end

    def take(self, event: SSEEvent) -> bytes | None:
        sent = rawjson.fields(event.data)
        kind, fields = _with_type(sent, event.name)
        holders = {name: rawjson.fields(fields[name]) for name in _HOLDERS & fields.keys() if fields[name] != NULL}
        cleaned = _cleaned_event(kind, fields, holders, self.order.screen, self._response)
        if self._missing.has_other_ids is not False:
            cleaned = self._missing.with_first_id(kind, cleaned, holders.get("item", {}))
        missing = self._write_events(self._missing.begin_text(cleaned)) if kind == TEXT_PIECE else b""
        numbered = self._missing.with_numbers(kind, cleaned, holders.get("item", {}), self._next_number)
        if numbered == sent and not missing:
            return self._read_event(kind, sent, holders, event.data)
        data = rawjson.encode(numbered)
        written = self._read_event(kind, numbered, holders, data)
        return missing + (write_event(kind.encode("utf-8", "replace"), data) if written is None else written)

    def _read_event(self, kind: str, fields: Fields, holders: Mapping[str, Fields], data: bytes) -> bytes | None:
        """Read an event without secrets. Returns what the client gets instead; None if it passes unchanged."""
        number = bytes(fields.get("sequence_number", NULL))
        self._next_number = int(number[:18]) + 1 if number.isdigit() else self._next_number + 1
        if kind in KINDS:
            self.began = True
            if not self._missing.can_pass(kind, fields):
                return b""
            self.tally.add(rawjson.text_at(fields.get("delta")))
        elif kind == "response.output_item.added":
            self._missing.begin_item(fields, holders.get("item", {}))
            self._count_item(holders.get("item", {}))
        elif kind == "response.output_item.done" and "item" in holders:
            self.began = True
            events = self._missing.end_item(fields, holders["item"])
            missing = self._write_events(self._count_each(events or ()))
            end = b"" if events is None else write_event(kind.encode(), data)  # None: the end waits
            return None if events == [] else missing + end
        elif kind in ERROR_EVENTS:  # as the first event, it comes instead of an answer
            failure = reported_failure(self._channel, data)
            self.failure, self.reported_error = (None, failure) if self.began else (failure, None)
        elif "response" in holders:
            return self._read_response(kind, fields, holders["response"])
        elif not (self.began and kind.startswith("response.")):
            self.failure = failure_in(self._channel, fields)
            if self.failure is None and not (kind or self.began):  # such as a chat's, which no client could read
                raise ValueError("no event of a response")
            if not (self.failure or self._response or kind.startswith("response.")):
                return b""  # such as codex.rate_limits: SDKs want the response first
        self.began = self.began or self.failure is None
        return None

    def replay(self, body: bytes) -> bytes:
        """See ``NativeTap``."""
        response = rawjson.fields(self.read_whole(body))
        begun = {"response": rawjson.raw({**response, "status": "in_progress", "output": [], "usage": None})}
        out = self._write_events([("created", begun), ("in_progress", begun)])
        out += self._write_events(self._missing.events_of_items(response.get("output", EMPTY_LIST)))
        self._response = response
        self.done = True
        return out

    def cut_short(self) -> bytes:
        self.add(AnswerFinished("length"))
        details = rawjson.raw({"reason": "max_output_tokens"})
        ended: Fields = {"status": rawjson.raw("incomplete"), "incomplete_details": details, "usage": NULL}
        self._response = {**self._response, **ended}
        return b""

    def terminal_event(self, usage: Usage) -> bytes:
        response = self._response
        if rawjson.is_null(response.get("usage")):
            response = {**response, "usage": rawjson.raw(usage_object(usage))}
        name = "incomplete" if rawjson.text_at(response.get("status")) == "incomplete" else "completed"
        last = self._write_events([(name, {"response": rawjson.raw(response)})])
        self._next_number -= 1  # if the record cannot be written, ``broken_end`` replaces this event
        return last

    def broken_end(self, error: Mapping[str, Any], detail: bytes) -> bytes:
        """Returns the end of a broken stream whose last event did not come, as ``ResponseRenderer.broken_end`` does."""
        response = {"id": self.order.answer_id, "object": "response", "output": [], **self._response}
        ended = rawjson.raw({**response, "status": "failed", "error": error, "incomplete_details": None})
        return self._write_events([("failed", {"response": ended, "error": msgspec.Raw(detail)})])

    def read_whole(self, body: bytes) -> bytes:
        """Returns a response for the client. Raises AttemptFailed if it failed, and ValueError if it is not one."""
        sent = rawjson.fields(body)
        if "output" not in sent:
            failure = failure_in(self._channel, sent)
            raise ValueError("not a response") if failure is None else AttemptFailed(failure)
        items, screen = rawjson.maybe_objects(sent["output"]), self.order.screen
        can_pass = all("id" in item for item in items or ()) and not screen.value_has_secret(msgspec.Raw(body))
        fields = sent if can_pass else _cleaned_response(sent, screen, {})
        self._keep_response(fields)
        if (failure := _failure_of(fields, {}, "", self.order.model, self._channel)) is not None:
            raise AttemptFailed(failure)
        if items is None:
            raise ValueError("no list of items")
        for item in items:
            self._count_item(item, is_whole=True)
        self.add(AnswerFinished(stop_word(fields, "completed", has_call=self._has_call)))
        requested = self._as_requested(fields)
        return body if requested == sent else rawjson.encode(requested)

    def _read_response(self, kind: str, fields: Fields, response: Fields) -> bytes | None:
        """Returns what the client gets instead of an event with a response; None if the event passes unchanged."""
        sent, missing = response, b""
        is_last = kind in ENDS
        is_renamed = kind == "response.done"
        if is_last:
            response = self._missing.with_items(response)
        if "id" in self._response and response.get("id") != self._response["id"]:  # Copilot's changes with each event
            response = {**response, "id": self._response["id"]}
        if "model" not in response:  # llama.cpp begins without all this, on which SDKs fail
            created = rawjson.raw(self.order.created)
            response = {"created_at": created, "model": rawjson.raw(self.order.model), "output": EMPTY_LIST, **response}
        self._keep_response(response)
        if is_renamed:
            status = rawjson.text_at(response.get("status"))
            kind = f"response.{status if status in ENDS.values() else 'completed'}"
            fields = {**fields, "type": rawjson.raw(kind)}
        if is_last:
            failed = {**fields, "type": rawjson.raw("response.failed")}
            self.failure = _failure_of(response, failed, ENDS[kind], self.order.model, self._channel)
            if self.failure is not None:
                return None
            output = response.get("output", EMPTY_LIST)
            self._next_number -= 1  # this event waits, and may be replaced
            missing = self._write_events(self._count_each(self._missing.events_of_items(output)))
            self.add(AnswerFinished(stop_word(response, ENDS[kind], has_call=self._has_call)))
            self.done = True
        requested = self._as_requested(response)
        if missing:
            return missing + self._write_events([(kind.partition(".")[2], {"response": requested})])
        if requested is sent and not is_renamed:
            return None
        return write_event(kind.encode("utf-8", "surrogatepass"), rawjson.encode({**fields, "response": requested}))

    def _keep_response(self, response: Fields) -> None:
        """Keep the response without its items, and take its usage."""
        self._response = response
        self.upstream_id = rawjson.text_at(response.get("id"))
        if response.get("output", EMPTY_LIST) != EMPTY_LIST:  # copies, because slices would keep the items in memory
            self._response = {n: raw.copy() if n != "output" else EMPTY_LIST for n, raw in response.items()}
        if rawjson.is_null(response.get("usage")):
            return
        report = {name: raw for name, raw in response.items() if name in REPORTS}
        tools = response.get("tool_usage") or _count_searches(response.get("output", EMPTY_LIST))
        usage = rawjson.maybe(response["usage"]) if tools else None
        if isinstance(usage, dict):  # the counts of the vendor's own tools are next to it
            report["usage"] = rawjson.raw({**usage, "tool_usage": tools})
        self.reports.add(report)

    def _as_requested(self, response: Fields) -> Fields:
        """Returns the response with the client's names of model and previous response, and with a complete usage."""
        changes: Fields = {}
        if (previous := self.order.form.repeats.get("previous_response_id")) is not None:
            changes["previous_response_id"] = previous
        if "model" in response and rawjson.maybe(response["model"]) != self.order.model:
            changes["model"] = rawjson.raw(self.order.model)
        usage = bytes(response.get("usage", NULL))
        if usage[:1] == b"{" and not all(name in usage for name in _COUNTS):
            changes["usage"] = rawjson.raw(rawjson.value(usage) | usage_object(self.reported or NOTHING))
        return {**response, **changes} if changes else response

    def _count_item(self, item: Fields, *, is_whole: bool = False) -> None:
        """Count a call; and the texts of an item that came whole."""
        kind = rawjson.text_at(item.get("type"))
        if kind == COMPACTION and kind not in self.order.marks:
            self.add_mark(COMPACTION)
        if kind.endswith("_call"):
            self._has_call = self._has_call or kind in ("function_call", "custom_tool_call")
            self.tally.calls += 1
            self.tally.add(rawjson.text_at(item.get("name")))
        if is_whole:
            self.tally.add(_texts_in(item))

    def _count_each(self, events: Iterable[TypedEvent]) -> Iterator[TypedEvent]:
        """Yields events that the upstream left out. Their content is counted."""
        for name, fields in events:
            if name == "output_item.added":
                self._count_item(fields["item"])
            self.tally.add(rawjson.text_at(fields.get("delta")))
            yield name, fields

    def _write_events(self, events: Iterable[TypedEvent]) -> bytes:
        """Returns events as they are sent. Raises TooManyElements for more than items of real answers have."""
        out: list[bytes] = []
        for name, fields in events:
            if len(out) >= _MAX_EVENTS:
                raise TooManyElements(f"its items have more than {_MAX_EVENTS:,} parts")
            out.append(encode_event(name, self._next_number, fields))
            self._next_number += 1
        return b"".join(out)


def _with_type(fields: Fields, name: bytes) -> tuple[str, Fields]:
    """Returns the type of an event, and the event with it. Some relays write it only as the event's name.

    In Open Responses, the pieces of a reasoning have another type than with OpenAI.
    """
    sent = rawjson.text(fields["type"]) if "type" in fields else name.decode("utf-8", "replace")
    kind = sent.replace("response.reasoning.", "response.reasoning_text.")
    if not kind.startswith("response.") or (kind == sent and "type" in fields):
        return kind, fields
    is_bare = "type" not in fields and rawjson.maybe(fields.get("object")) == "response"
    typed = {"response": rawjson.raw(fields)} if is_bare else fields
    return kind, {**typed, "type": rawjson.raw(kind)}


def _cleaned_event(kind: str, fields: Fields, holders: dict[str, Fields], screen: Screen, known: Fields) -> Fields:
    """Returns an event without the secrets around its content. Removes them from its objects with content too, and adds
    the fields that these lack.

    All of an unknown event is searched, except values that the ``known`` response has too, because a stream sends its
    response three times.
    """
    if kind in TEXT_KINDS:
        return screen.without_secrets(fields, _CONTENT)
    event = screen.without_secrets(fields, _HOLDERS)
    for name, holder in holders.items():
        if name == "response":
            cleaned = _cleaned_response(holder, screen, known)
        else:
            cleaned = screen.without_secrets(with_needed(holder), _CONTENT)
        event[name] = fields[name] if cleaned == holder else rawjson.raw(cleaned)
        holders[name] = cleaned
    return event


def _cleaned_response(fields: Fields, screen: Screen, known: Fields) -> Fields:
    """Returns a response without the secrets around its content."""
    if fields == known:  # a stream begins with two events that have the same one
        return fields
    searched = {name for name, value in fields.items() if known.get(name) == value}
    response = screen.without_secrets(fields, _CONTENT | {"output"} | searched)
    if rawjson.is_list(fields.get("output", NULL)):
        items = rawjson.objects(fields["output"])
        whole = [item if "id" in item else with_needed(item) for item in items]
        cleaned = [screen.without_secrets(item, _CONTENT) for item in whole]
        response["output"] = fields["output"] if cleaned == items else rawjson.raw(cleaned)
    return response


def _texts_in(item: Fields) -> str:
    """Returns what the model wrote in an item."""
    decoded = rawjson.value(rawjson.raw(item))
    parts = [*rawjson.list_at(decoded, "content"), *rawjson.list_at(decoded, "summary")]
    texts = [part.get("text") or part.get("refusal") for part in parts if isinstance(part, dict)]
    texts += [decoded.get("arguments"), decoded.get("input"), decoded.get("code")]
    return "".join(text for text in texts if isinstance(text, str))


def _count_searches(output: msgspec.Raw) -> dict[str, int]:
    """Returns how often the vendor searched, counted from the items, because not every upstream reports it."""
    if bytes(output).find(b'_search_call"') < 0:
        return {}
    searches = dict[str, int]()
    for item in rawjson.objects(output):
        kind, action = rawjson.text_at(item.get("type")), rawjson.maybe(item.get("action"))
        action_type = action.get("type") if isinstance(action, dict) else "search"  # opening a page is free
        if kind in ("web_search_call", "file_search_call") and action_type == "search":
            name = kind.removesuffix("_call")
            searches[name] = searches.get(name, 0) + 1
    return searches


def _failure_of(response: Fields, event: Fields, status: str, model: str, channel: Channel) -> Failure | None:
    """Returns the failure of a response, in the words of its event, which has this ``status``."""
    failure = failure_of(response, event, status, channel)
    if failure is None:
        return None
    error = event.get("error", NULL) if rawjson.is_null(response.get("error")) else response["error"]
    failed = rawjson.raw({**response, "error": error, "model": model})
    whole = rawjson.encode({**event, "response": failed}).decode("utf-8", "replace")
    return msgspec.structs.replace(failure, verbatim=UpstreamText(whole))
