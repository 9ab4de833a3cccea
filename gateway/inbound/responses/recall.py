"""Requests that go on from earlier responses, completed from memory, and what is kept of an answer.

``previous_response_id`` becomes the whole conversation up to that response, an ``item_reference`` the item itself. So
every channel can go on from it, and the request is held and priced as what it is. What is not remembered stays as the
client wrote it: an upstream may know it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import PLAIN_SEAL, wrap
from gateway.domain.errors import BadRequest
from gateway.domain.kept_response import KeptResponse
from gateway.domain.rawjson import NULL
from gateway.domain.sse import parse
from gateway.inbound.json_body import BOM, fields_of, mask, unmask
from gateway.inbound.responses.summary import COMPACTIONS

_ENDED = frozenset({"completed", "incomplete"})

Value = TypeVar("Value")


class ItemMemory(Protocol):
    """What is remembered for one token."""

    def conversation(self, response: str) -> list[KeptResponse]:
        """Returns the responses up to this one, the oldest first; empty if it is not remembered."""

    def item(self, id: str) -> bytes | None:
        """Returns an item of a response; None if it is not remembered."""


class RecalledRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A request that may be remembered."""

    body: bytes
    """The completed request."""
    stored: bool = False
    """Whether the client may continue the answer anywhere; otherwise only on the same connection, if at all."""
    previous: str = ""
    """The response that it continues, if that is remembered."""
    partial: bool = False
    """Whether it continues something that is not remembered: only its upstream knows the whole conversation."""
    input: bytes = b""
    """Its new input: JSON values with commas between them."""

    @property
    def repeats(self) -> dict[str, msgspec.Raw]:
        fields = {"store": msgspec.Raw(b"true")} if self.stored else {}
        return {**fields, "previous_response_id": rawjson.raw(self.previous)} if self.previous else fields


class _Head(msgspec.Struct, frozen=True, gc=False):
    store: bool | None = None
    previous_response_id: str | None = None
    conversation: msgspec.Raw = NULL
    input: msgspec.Raw = NULL


class _Item(msgspec.Struct, frozen=True, gc=False):
    type: str | None = None
    role: str | None = None
    id: str | None = None
    call_id: str | None = None
    encrypted_content: msgspec.Raw = NULL
    content: msgspec.Raw = NULL

    @property
    def is_reference(self) -> bool:
        """Returns whether it names another item; its type may be omitted."""
        return self.type == "item_reference" or (self.type is None and self.role is None)

    @property
    def is_result(self) -> bool:
        """Returns whether it is a tool's result."""
        return (self.type or "").endswith("_output")

    @property
    def is_bare_reasoning(self) -> bool:
        """Returns whether it is reasoning without what is needed to send it back."""
        return self.type == "reasoning" and rawjson.is_null(self.encrypted_content)

    @property
    def can_return(self) -> bool:
        """Returns whether it can be sent back: not if it is reasoning that only its upstream can read, which refuses it
        later.
        """
        return not self.is_bare_reasoning or self.content != NULL


class _Event(msgspec.Struct, frozen=True, gc=False):
    response: msgspec.Raw = NULL


class _Answer(msgspec.Struct, frozen=True, gc=False):
    id: str
    output: list[msgspec.Raw]
    object: str = ""
    status: str = ""
    store: bool | None = None


_HEAD = msgspec.json.Decoder(_Head)
_ITEMS = msgspec.json.Decoder(list[_Item])
_EVENT = msgspec.json.Decoder(_Event)
_ITEM = msgspec.json.Decoder(_Item)
_ANSWER = msgspec.json.Decoder(_Answer)


def recall(body: bytes, remembered: ItemMemory) -> RecalledRequest:
    """Returns the request completed from memory. An invalid one stays as it is: its errors are found later.

    Raises BadRequest for the result of a tool call that is not in the conversation.
    """
    body = body.removeprefix(BOM)
    try:
        head, digit = _decode(_HEAD, body)
        own = _inner(head.input)
        references = b'"id"' in own and any(item.is_reference for item in _ITEMS.decode(b"[%b]" % own))
    except (ValueError, RecursionError):
        return RecalledRequest(body=body)
    previous = head.previous_response_id or ""
    before = remembered.conversation(previous) if previous else []
    recalled = RecalledRequest(
        body=body,
        stored=head.store is not False,
        previous=previous if before else "",
        partial=(bool(previous) and not before) or not rawjson.is_null(head.conversation),
        input=unmask(own, digit),
    )
    if references:
        recalled = msgspec.structs.replace(recalled, input=_resolve(own, digit, remembered))
    return _complete(recalled, before) if before or references else recalled


def kept_of(
    request: RecalledRequest, data: bytes, call: str, done: Sequence[bytes] | None = None
) -> KeptResponse | None:
    """Returns what to remember of the last bytes that the client gets; None: nothing.

    What the upstream keeps itself is left to it. ``call``: the end of the ids that responses get here. ``done``: the
    events of the items, for a response that does not list them; None: it does.
    """
    try:
        text = _last_event(data)
        event, digit = _decode(_EVENT, text)
        body = mask(text)[0] if digit else text
        body = body if event.response == NULL else bytes(event.response)
        answer = _ANSWER.decode(body)
        if not answer.output and done is None:
            return None
        if not answer.output and done:
            output = [rawjson.fields(event)["item"] for event in done]
            body = rawjson.encode({**rawjson.fields(body), "output": output})
            answer = _ANSWER.decode(body)
        read = [_ITEM.decode(raw) for raw in answer.output]
    except (ValueError, KeyError, RecursionError):
        return None
    if answer.object != "response" or answer.status not in _ENDED:
        return None
    if answer.store and request.stored and not answer.id.endswith(call):
        return None
    items: dict[str, msgspec.Raw] = {}
    for number, (item, given) in enumerate(zip(read, answer.output, strict=True)):
        raw = _seal_reasoning(given) if item.is_bare_reasoning and answer.id.endswith(call) else given
        name = f"{answer.id}/{number}" if item.id is None or item.id in items else item.id
        items[name] = msgspec.Raw(unmask(bytes(raw), digit)) if digit else raw
    return KeptResponse(
        id=answer.id,
        previous=request.previous,
        input=request.input,
        elsewhere=request.partial or (answer.store is None and request.stored),
        body=unmask(body, digit),
        items=items,
    )


def _seal_reasoning(raw: msgspec.Raw) -> msgspec.Raw:
    """Seals the reasoning in an answer written here, so that a channel which can read it gets it back."""
    return rawjson.raw({**rawjson.fields(raw), "encrypted_content": wrap(PLAIN_SEAL)})


def input_items(kept: list[KeptResponse]) -> list[dict[str, Any]]:
    """Returns the items that responses answered, the oldest first, as the API lists them."""
    out = []
    for response in kept:
        for number, raw in enumerate(rawjson.items(b"[%b]" % response.input)):
            item: dict[str, Any] = rawjson.fields(raw)
            if rawjson.is_null(item.get("id")):
                item["id"] = f"item_{response.id.partition('_')[2]}{number:04x}"
            if "role" in item:
                item |= {"type": "message", "status": item.get("status", "completed")}
                item["content"] = _parts(item)
            out.append(item)
        out += map(rawjson.fields, response.items.values()) if response is not kept[-1] else []
    return out


def _parts(item: Mapping[str, Any]) -> Any:
    content = item.get("content", NULL)
    if bytes(content)[:1] != b'"':
        return content
    if rawjson.maybe(item["role"]) == "assistant":
        return [{"type": "output_text", "text": content, "annotations": []}]
    return [{"type": "input_text", "text": content}]


def _complete(request: RecalledRequest, before: list[KeptResponse]) -> RecalledRequest:
    """Returns the request with the whole conversation in it."""
    fields, digit = fields_of(request.body)
    fields.pop("input", None)
    if before:
        del fields["previous_response_id"]
    said = _join(_conversation(before))
    if before:
        _check_results(said, request.input)
    others = unmask(rawjson.encode(fields), digit)[1:-1]
    items = _join((said, request.input))
    return msgspec.structs.replace(request, body=b"{%b}" % _join((b'"input":[%b]' % items, others)))


def _conversation(before: list[KeptResponse]) -> list[bytes]:
    """Returns the items of a conversation, without those before a compaction."""
    said: list[bytes] = []
    for response in before:
        said.append(response.input)
        for raw in response.items.values():
            item = next(iter(_read_items(bytes(raw))), _Item())
            if item.type in COMPACTIONS:
                said.clear()
            if item.can_return:
                said.append(bytes(raw))
    return said


def _check_results(before: bytes, own: bytes) -> None:
    """Raises BadRequest for results without a call."""
    results = [item.call_id for item in _read_items(own) if item.call_id and item.is_result]
    if not results:
        return
    known = {item.call_id for item in _read_items(_join((before, own))) if not item.is_result}
    if known and (lost := next((call for call in results if call not in known), None)):
        raise BadRequest(f"input: no tool call has the id {lost[:80]!a} of the result that is sent", param="input")


def _resolve(own: bytes, digit: bytes, remembered: ItemMemory) -> bytes:
    """Returns the input with items instead of references to them."""
    out = []
    for raw, item in zip(rawjson.items(b"[%b]" % own), _ITEMS.decode(b"[%b]" % own), strict=True):
        resolved = remembered.item(item.id) if item.is_reference and item.id else None
        out.append(resolved or unmask(bytes(raw), digit))
    return _join(out)


def _read_items(items: bytes) -> list[_Item]:
    """Returns the items; empty if they are invalid, which is reported later."""
    try:
        return _decode(_ITEMS, b"[%b]" % items)[0]
    except (ValueError, RecursionError):
        return []


def _decode(decoder: "msgspec.json.Decoder[Value]", text: bytes) -> tuple[Value, bytes]:
    """Returns what is read of a text, and the digit that masks its lone surrogates, if it has any."""
    try:
        return decoder.decode(text), b""
    except msgspec.DecodeError:
        masked, digit = mask(text)
        return decoder.decode(masked), digit


def _last_event(data: bytes) -> bytes:
    """Returns the data of a stream's last event; a whole answer is returned unchanged. Raises ValueError."""
    if data.startswith(b"{"):
        return data
    lines = [line.rstrip(b"\r") for line in data.strip().split(b"\n")]
    blank = lines[::-1].index(b"") if b"" in lines else len(lines)
    event = parse(b"\n".join(lines[-blank:]))
    if event is None:
        raise ValueError("no event")
    return event.data


def _inner(given: msgspec.Raw) -> bytes:
    """Returns the items of an input, without its brackets; a text is one of the user. Raises ValueError for anything
    else.
    """
    raw = bytes(given)
    if raw.startswith(b'"'):
        return b'{"type":"message","role":"user","content":%b}' % raw
    if not raw.startswith(b"[") and given != NULL:
        raise ValueError("not an input")
    return raw[1:-1].strip() if raw.startswith(b"[") else b""


def _join(parts: Iterable[bytes]) -> bytes:
    return b",".join(filter(None, parts))
