"""The turns of a WebSocket of the Responses API: a frame becomes a request with the whole conversation in it.

The protocol is OpenAI's WebSocket mode, and that of Open Responses. Each frame is a request as it is sent over HTTP,
with ``type: response.create``. A ``previous_response_id`` names a response of the same connection: its conversation is
remembered there (``TurnHistories``), also with ``store: false``, so any channel can continue it. A turn that fails
removes the conversation that it continued; the client then sends the whole input again.
"""

from collections.abc import Mapping

import msgspec

from gateway.domain import rawjson
from gateway.domain.errors import BadRequest, TooLarge
from gateway.domain.rawjson import NULL, Fields
from gateway.domain.units import CallId, Millis
from gateway.domain.usage import Usage
from gateway.inbound.api import HttpRequest, InboundRequest
from gateway.inbound.json_body import fields_of, read_typed, unmask
from gateway.inbound.responses.api import RESPONSES
from gateway.inbound.responses.render import ResponsePlan, ResponseRenderer
from gateway.inbound.responses.request import echo_of, read_fields
from gateway.inbound.responses.summary import COMPACTIONS
from gateway.inbound.responses.tools import ToolTable
from gateway.upstream.framing import SSEEvent

CREATE = "response.create"
_OWN = frozenset({"type", "stream_id", "generate", "event_id"})
"""Fields that the request over HTTP does not have."""
REMEMBERED = 4
"""Conversations of a connection that can be gone on from: the last ones, for clients that go back a turn."""
REMEMBERED_BYTES = 16 << 20
_WATCHED = {
    b"response.output_item.done": "item",
    b"response.completed": "response",
    b"response.incomplete": "response",
    b"response.failed": "",
    b"error": "",
}
"""Events that are read, and the field of interest."""
_FIRST_AND_LAST = frozenset(
    {b"response.created", b"response.in_progress", b"response.completed", b"response.incomplete", b"response.failed"}
)
"""Events that repeat fields of the request."""


class TurnHistory(msgspec.Struct, frozen=True, gc=False):
    """The conversation up to a response, which is its last part."""

    items: bytes = b""
    """JSON values with commas between them."""
    calls: frozenset[str] = frozenset()
    """The ids of the tool calls in it."""


class SocketTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A frame, read."""

    fields: Fields
    """The request without ``previous_response_id``."""
    mask: bytes
    previous: str
    """The response that it goes on from, or empty."""
    given: TurnHistory
    """Its own input."""
    local: bool
    """The response is to be found on the connection or nowhere: ``store`` is false."""
    generate: bool = True
    """False: it is only to be remembered."""
    stream_id: str = ""
    """The client's name of the sequence of turns that it belongs to, which all events repeat."""

    def body(self, before: TurnHistory | None, limit: int) -> bytes:
        """The request as it is sent over HTTP, after this conversation.

        Raises TooLarge, and BadRequest for the result of a tool call that is not in the conversation.
        """
        fields = {**self.fields, "stream": msgspec.Raw(b"true")}
        if not self.previous:
            return self._encoded(fields)
        if before is None:
            return self._encoded({**fields, "previous_response_id": rawjson.raw(self.previous)})
        given = fields.pop("input", NULL)
        if not rawjson.is_null(given) and bytes(memoryview(given)[:1]) not in (b'"', b"["):
            raise BadRequest("input must be a string or an array of items", code="invalid_type", param="input")
        if len(before.items) + len(self.given.items) > limit:
            raise TooLarge(f"the conversation is larger than {limit >> 20} MiB")
        known = before.calls | self.given.calls
        if lost := next((call for call in _results(self.given.items) if call not in known), None):
            msg = f"input: no tool call has the id {lost[:80]!a} of the result that is sent"
            raise BadRequest(msg, param="input")
        return b'%b,"input":[%b]}' % (self._encoded(fields)[:-1], _join(before.items, self.given.items))

    def _encoded(self, fields: Fields) -> bytes:
        body = rawjson.encode(fields)
        return unmask(body, self.mask) if self.mask else body


class _Item(msgspec.Struct, frozen=True, gc=False):
    type: str | None = None
    call_id: str | None = None


class _OutputItem(msgspec.Struct, frozen=True, gc=False):
    type: str | None = None
    encrypted_content: msgspec.Raw = NULL
    content: msgspec.Raw = NULL


class _Response(msgspec.Struct, frozen=True, gc=False):
    id: str = ""
    output: list[msgspec.Raw] = []
    store: bool | None = None


class _Frame(msgspec.Struct, frozen=True, gc=False):
    previous_response_id: str | None = None
    store: bool | None = None
    generate: bool | None = None
    stream_id: str | None = None


class _Kind(msgspec.Struct, frozen=True, gc=False):
    type: str = ""


_READ = ("previous_response_id", "store", "generate", "stream_id")
_FRAME = msgspec.json.Decoder(_Frame)
_ITEMS = msgspec.json.Decoder(list[_Item])
_OUTPUT_ITEM = msgspec.json.Decoder(_OutputItem)
_RESPONSE = msgspec.json.Decoder(_Response)
_KIND = msgspec.json.Decoder(_Kind)
_ODD = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def read_turn(data: bytes) -> SocketTurn:
    """What a frame asks for. Raises BadRequest."""
    fields, mask = fields_of(data)
    frame = read_typed(_FRAME, rawjson.encode({name: fields[name] for name in _READ if name in fields}), "")
    if (kind := fields.get("type")) is None or rawjson.maybe(kind) != CREATE:
        msg = f"a frame is a request with the type {CREATE!r}; other events are not understood here"
        raise BadRequest(msg, code="invalid_value", param="type")
    own = {name: raw for name, raw in fields.items() if name not in _OWN and name != "previous_response_id"}
    given = unmask(_inner(own.get("input", NULL)), mask) if mask else _inner(own.get("input", NULL))
    return SocketTurn(
        fields=own,
        mask=mask,
        previous=frame.previous_response_id or "",
        given=TurnHistory(given, _calls(given)),
        local=frame.store is False,
        generate=frame.generate is not False,
        stream_id=frame.stream_id or "",
    )


def warm_up(body: bytes, call: CallId, ts: Millis) -> tuple[InboundRequest, bytes]:
    """A request that is only to be remembered, checked, and the events of its response, which has no output."""
    fields = fields_of(body)[0]
    if rawjson.is_null(fields.get("input", NULL)):
        body = rawjson.encode({**fields, "input": msgspec.Raw(b"[]")})
    request = RESPONSES.parse(HttpRequest(body=body, target="", headers={}))
    order = RESPONSES.order(request, call, ts)
    plan = ResponsePlan(
        id=order.answer_id,
        model=order.model,
        created=order.created,
        clock=lambda: ts,
        echo=echo_of(order, read_fields(order.fields)),
        tool=ToolTable().tool,
        summary=False,
        sealed=False,
    )
    return request, ResponseRenderer(plan).tail(Usage(), estimated=False)


def error_frame(status: int, headers: Mapping[str, str], body: bytes, stream_id: str) -> bytes:
    """The frame for an error that is sent instead of an answer; ``body`` is what it is over HTTP."""
    lane = {"stream_id": stream_id} if stream_id else {}
    found = rawjson.maybe(body)
    error = found.get("error") if isinstance(found, dict) else None
    if not isinstance(error, dict):
        error = {"type": "upstream_error", "code": None, "message": body.decode("utf-8", "replace"), "param": None}
    return rawjson.encode({"type": "error", **lane, "status": status, "error": error, "headers": headers})


class TurnHistories:
    """What a connection remembers, by the ids of responses."""

    def __init__(self) -> None:
        self._by_id: dict[str, TurnHistory] = {}

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(len(one.items) for one in self._by_id.values())

    def before(self, turn: SocketTurn) -> TurnHistory | None:
        """The conversation that a turn goes on from; None if there is none, or if its upstream has to know it.

        Raises BadRequest if nobody knows it.
        """
        found = self._by_id.get(turn.previous) if turn.previous else TurnHistory()
        if found is None and turn.local:
            msg = f"the response {turn.previous[:80]!a} is not kept on this connection; send the whole input"
            raise BadRequest(msg, code="previous_response_not_found", param="previous_response_id")
        return found

    def put(self, id: str, conversation: TurnHistory) -> None:
        """Remember it, and forget the oldest ones."""
        self._by_id.pop(id, None)
        self._by_id[id] = conversation
        while len(self._by_id) > REMEMBERED or self.size > REMEMBERED_BYTES:
            del self._by_id[next(iter(self._by_id))]

    def forget(self, id: str) -> None:
        """A turn that went on from it failed."""
        self._by_id.pop(id, None)

    def clear(self) -> None:
        """Forget all of them."""
        self._by_id.clear()


class TurnEvents:
    """Hears the events of an answer, and makes them what the client of a WebSocket gets."""

    def __init__(self, turn: SocketTurn, before: TurnHistory | None) -> None:
        self._turn = turn
        self._before = before
        self._items: list[msgspec.Raw] = []
        self._prefix = b'{"stream_id":%b,' % rawjson.encode(turn.stream_id) if turn.stream_id else b""
        self._previous = (
            b'"previous_response_id":%b' % rawjson.encode(turn.previous) if before and turn.previous else b""
        )
        self.answered: tuple[str, TurnHistory | None] | None = None
        """Once the answer is whole: its id and what to remember, None if its upstream does."""

    def hear(self, event: SSEEvent) -> bytes:
        """The frame for this event; empty if there is none."""
        data, name = event.data, event.name
        if data == b"[DONE]":
            return b""
        if not name:
            name = _kind(data)
        if name in _WATCHED:
            self._read(name, data)
        if self._previous and name in _FIRST_AND_LAST:
            head, found, rest = data.rpartition(b'"previous_response_id":null')
            data = head + self._previous + rest if found else data
        if self._prefix and data.startswith(b'{"'):
            data = self._prefix + data[1:]
        return data if data.isascii() or _is_utf8(data) else data.decode("utf-8", "replace").encode()

    def _read(self, name: bytes, data: bytes) -> None:
        wanted = _WATCHED[name]
        if not wanted:
            self.answered = None
            return
        try:
            raw = rawjson.fields(data)[wanted]
            response = _RESPONSE.decode(raw) if wanted == "response" else None
        except (KeyError, ValueError, *_ODD):
            return
        if response is None:
            self._items.append(raw)
        elif response.id:
            self.answered = response.id, self._conversation(response)
            self._items = []

    def _conversation(self, response: _Response) -> TurnHistory | None:
        if self._before is None or (response.store and not self._turn.local):
            return None
        output = [raw for raw in response.output or self._items if _can_return(raw)]
        if compactions := [place for place, raw in enumerate(output) if _OUTPUT_ITEM.decode(raw).type in COMPACTIONS]:
            said = b",".join(map(bytes, output[compactions[-1] :]))  # this item stands for all before it
            return TurnHistory(said, _calls(said))
        said = b",".join(map(bytes, output))
        items = _join(_join(self._before.items, self._turn.given.items), said)
        return TurnHistory(items, self._before.calls | self._turn.given.calls | _calls(said))


def _kind(data: bytes) -> bytes:
    try:
        return _KIND.decode(data).type.encode()
    except _ODD:
        return b""


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _can_return(raw: msgspec.Raw) -> bool:
    """Reasoning that is neither sealed nor readable is known to its upstream alone, which refuses it later. What is not
    an item cannot be sent either.
    """
    try:
        item = _OUTPUT_ITEM.decode(raw)
    except _ODD:
        return False
    return item.type != "reasoning" or not (rawjson.is_null(item.encrypted_content) and rawjson.is_null(item.content))


def _inner(given: msgspec.Raw) -> bytes:
    """The items of an input, without its brackets; a text is one of the user. Empty if it is neither."""
    raw = bytes(given)
    if raw.startswith(b"["):
        return raw[1:-1].strip()
    return b'{"type":"message","role":"user","content":%b}' % raw if raw.startswith(b'"') else b""


def _join(before: bytes, after: bytes) -> bytes:
    return b",".join(filter(None, (before, after)))


def _read_items(items: bytes) -> list[_Item]:
    """Empty if they are not understood; whoever reads them next says why."""
    try:
        return _ITEMS.decode(b"[%b]" % items)
    except _ODD:
        return []


def _calls(items: bytes) -> frozenset[str]:
    return frozenset(one.call_id for one in _read_items(items) if one.call_id and not _is_result(one))


def _results(items: bytes) -> list[str]:
    return [one.call_id for one in _read_items(items) if one.call_id and _is_result(one)]


def _is_result(item: _Item) -> bool:
    return (item.type or "").endswith("_output")
