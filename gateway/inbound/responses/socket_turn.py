"""The turns of a WebSocket of the Responses API: a frame is a request, and each event of its answer is a frame.

The protocol is OpenAI's WebSocket mode, which Open Responses shares. Each frame is a request as it is sent over HTTP,
with ``type: response.create``. A ``previous_response_id`` names a response of the same connection, even with
``store: false``, or one that is remembered for the token. A turn that fails makes the gateway forget the response that
it continued; the client then sends the whole input again. No model here can be steered: ``response.steer`` is answered
as OpenAI answers it for such models. ``response.interrupt`` ends the running response; the client can go on from it.
"""

from collections.abc import Mapping
from functools import lru_cache

import msgspec

from gateway.domain import rawjson
from gateway.domain.errors import BadRequest
from gateway.domain.json_text import SMALL
from gateway.domain.rawjson import NULL, Fields
from gateway.domain.sse import BLANK, Framer, parse, with_line_feeds
from gateway.domain.units import CallId, Millis
from gateway.domain.usage import Usage
from gateway.inbound.api import HttpRequest, InboundRequest
from gateway.inbound.json_body import read_body
from gateway.inbound.responses.api import RESPONSES
from gateway.inbound.responses.render import ResponseRenderer
from gateway.inbound.responses.tools import ToolTable

CREATE = "response.create"
STEER = "response.steer"
_NAME = b"event: "
_DATA = b"data: "
_ITEM_DONE = _NAME + b"response.output_item.done"
_FAILURES = frozenset({_NAME + b"response.failed", _NAME + b"error"})
_CREATED = _NAME + b"response.created"
_KEPT_EVENTS = _FAILURES | {_CREATED, _ITEM_DONE, _NAME + b"response.completed", _NAME + b"response.incomplete"}
"""The first lines of the events that are kept, at least in part."""


class SocketTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed frame."""

    body: bytes
    """The request as it is sent over HTTP."""
    previous: str
    """The id of the response that it continues; empty if it starts a conversation."""
    local: bool
    """Whether only this connection may have that response: ``store`` is false."""
    generate: bool = True
    """Whether the request is answered; otherwise it is only remembered."""
    stream_id: str = ""
    """The client's name of its sequence of turns, which all events repeat."""


def read_turn(data: bytes) -> SocketTurn:
    """Returns the turn that a frame requests. Raises BadRequest."""
    sent = read_body(data)
    if sent.values.get("type") != CREATE:
        msg = f"only frames with the type {CREATE!r} are accepted here"
        raise BadRequest(msg, code="invalid_value", param="type")
    own_fields = ("type", "stream_id", "generate", "event_id")
    request = {name: raw for name, raw in sent.fields.items() if name not in own_fields}
    return SocketTurn(
        body=rawjson.encode({**request, "stream": True}),
        previous=rawjson.text_at(sent.values, "previous_response_id"),
        local=sent.values.get("store") is False,
        generate=sent.values.get("generate") is not False,
        stream_id=rawjson.text_at(sent.values, "stream_id"),
    )


def steering_failed(data: bytes) -> bytes:
    """Returns the frame that rejects the user's input to a running response; empty if ``data`` is another event."""
    steer = _read_control(data, STEER)
    if not steer:
        return b""
    message = "no model can be steered here; send this input in the next response.create"
    error = {"type": "invalid_request_error", "code": "steering_not_supported", "message": message}
    target = {name: steer.get(name) for name in ("previous_response_id", "input")}
    return rawjson.encode({"type": f"{STEER}.failed", "sequence_number": 0, "steer": target, "error": error})


def interrupted_id(data: bytes) -> str:
    """Returns the id of the response that the client interrupts; empty if ``data`` is another event."""
    return rawjson.text_at(_read_control(data, "response.interrupt").get("response_id"))


def _read_control(data: bytes, kind: str) -> Fields:
    """Returns the fields of an event of this type; nothing for others, and for one too large to be decoded."""
    fields = rawjson.maybe_fields(data) if len(data) <= SMALL and kind.encode() in data else {}
    return fields if rawjson.text_at(fields.get("type")) == kind else {}


def warm_up(body: bytes, repeats: Mapping[str, msgspec.Raw], call: CallId, ts: Millis) -> tuple[InboundRequest, bytes]:
    """Returns a checked request that is only to be remembered, and the events of its response, which has no output."""
    fields = read_body(body).fields
    if rawjson.is_null(fields.get("input", NULL)):
        body = rawjson.encode({**fields, "input": []})
    request = RESPONSES.parse(HttpRequest(body=body, target="", headers={}, repeats=repeats))
    order = msgspec.structs.replace(RESPONSES.order(request, call, ts), clock=lambda: ts)
    return request, ResponseRenderer(order, ToolTable(), order).tail(Usage())


def error_frame(status: int, headers: Mapping[str, str], body: bytes, stream_id: str) -> bytes:
    """Returns the frame of an error that is sent instead of an answer; ``body`` is that over HTTP."""
    stream = {"stream_id": stream_id} if stream_id else {}
    error = rawjson.at(rawjson.maybe(body), "error")
    if not isinstance(error, dict):
        error = {"type": "upstream_error", "code": None, "message": body.decode("utf-8", "replace"), "param": None}
    return rawjson.encode({"type": "error", **stream, "status": status, "error": error, "headers": headers})


class TurnEvents:
    """Turns the events of an answer into frames, and keeps what must be remembered."""

    def __init__(self, stream_id: str) -> None:
        self._prefix = b'{"stream_id":%b,' % rawjson.encode(stream_id) if stream_id else b""
        self._framer = Framer()
        self.items: list[bytes] = []
        """The data of the events of finished items."""
        self.last = b""
        """The data of the last event of a complete answer."""
        self._created = b""
        self._interrupted = False

    def interrupt(self, response: str) -> bool:
        """Turn the failure that follows into the end of this response. Returns False if another response runs."""
        self._interrupted = rawjson.at(rawjson.maybe(self._created), "response", "id") == response
        return self._interrupted

    def feed(self, data: bytes) -> bytes:
        """Returns the frames, one for each event."""
        blocks = with_line_feeds(self._framer.feed(data))
        if not blocks.isascii():  # a frame that is not UTF-8 would end the connection
            blocks = blocks.decode("utf-8", "replace").encode("utf-8", "replace")
        events = map(_read_event, blocks.removesuffix(BLANK).split(BLANK))
        texts = [self._keep(name, text) for name, text in events if text]
        if self._prefix:
            texts = [self._prefix + text[1:] if text.startswith(b'{"') else text for text in texts]
        return b"".join([_frame_head(len(text)) + text for text in texts])

    def _keep(self, name: bytes, text: bytes) -> bytes:
        """Keep what must be remembered. Returns the data; the failure of an interrupted response becomes its end."""
        if name not in _KEPT_EVENTS:
            return text
        if name == _CREATED:
            self._created = text
        elif name == _ITEM_DONE:
            self.items.append(text)
        elif name in _FAILURES and self._interrupted:
            self.last = text = self._interrupted_end(text)
        else:
            self.last = b"" if name in _FAILURES else text
        return text

    def _interrupted_end(self, failed: bytes) -> bytes:
        """Returns the end of an interrupted response, with the finished items. ``failed`` is its failure."""
        fields = rawjson.fields(failed)
        items = [rawjson.fields(event)["item"] for event in self.items]
        details = {"error": None, "incomplete_details": {"reason": "interrupted"}}
        response = {**rawjson.fields(fields["response"]), "status": "incomplete", **details, "output": items}
        return rawjson.encode({**fields, "type": "response.incomplete", "error": None, "response": response})


@lru_cache(maxsize=4096)
def _frame_head(size: int) -> bytes:
    """Returns the head of a text frame, neither masked nor compressed (RFC 6455, section 5.2)."""
    if size < 126:
        return b"\x81%c" % size
    return b"\x81\x7e" + size.to_bytes(2) if size < 1 << 16 else b"\x81\x7f" + size.to_bytes(8)


def _read_event(block: bytes) -> tuple[bytes, bytes]:
    """Returns an event's first line and its data. The name may be only in the data. Both are empty without an event."""
    head, _, data = block.partition(b"\n" + _DATA)
    if head.startswith(_NAME) and data.startswith(b"{") and b"\n" not in head + data:  # as nearly all are written
        return head, data
    event = parse(block)
    if event is None or event.data == b"[DONE]":
        return b"", b""
    name = event.name or rawjson.text_at(rawjson.maybe_fields(event.data).get("type")).encode("utf-8", "replace")
    return _NAME + name if name else b"", event.data
