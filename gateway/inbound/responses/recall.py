"""Requests that go on from earlier responses, completed from memory, and what is kept of an answer.

``previous_response_id`` becomes the whole conversation up to that response, an ``item_reference`` the item itself. So
every channel can go on from it, and the request is held and priced as what it is. What is not remembered stays as the
client wrote it: an upstream may know it.
"""

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from gateway.domain import rawjson
from gateway.domain.kept_response import KeptResponse
from gateway.domain.rawjson import NULL, Fields
from gateway.inbound.json_body import BOM, fields_of, unmask
from gateway.upstream.framing import parse

_REFERENCE = b'"item_reference"'
_ENDED = frozenset({"completed", "incomplete"})


class ItemMemory(Protocol):
    """What is remembered of one token."""

    def conversation(self, response: str) -> list[bytes] | None:
        """Items of the conversation up to a response and in it; None if it is not remembered."""

    def item(self, id: str) -> bytes | None:
        """An item of a response; None if it is not remembered."""


class RecalledRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A request that may be remembered."""

    body: bytes
    """As it goes on."""
    repeats: Mapping[str, msgspec.Raw]
    """See ``AnswerForm``."""
    previous: str = ""
    input: bytes | None = None
    """See ``KeptResponse``; None: it is the input of ``body``."""


class _Head(msgspec.Struct, frozen=True, gc=False):
    store: bool | None = None
    previous_response_id: str | None = None
    input: msgspec.Raw = NULL


class _Answer(msgspec.Struct, frozen=True, gc=False):
    id: str
    output: list[msgspec.Raw]
    object: str = ""
    status: str = ""
    store: bool | None = None


_HEAD = msgspec.json.Decoder(_Head)
_ANSWER = msgspec.json.Decoder(_Answer)


def recall(body: bytes, remembered: ItemMemory) -> RecalledRequest:
    """The request with what is remembered in it. One that is not valid stays as it is: its errors are found later."""
    body = body.removeprefix(BOM)
    try:
        head = _HEAD.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return RecalledRequest(body=body, repeats={})
    repeats: dict[str, msgspec.Raw] = {} if head.store is False else {"store": msgspec.Raw(b"true")}
    before = remembered.conversation(head.previous_response_id) if head.previous_response_id else None
    if before is None and _REFERENCE not in body:
        return RecalledRequest(body=body, repeats=repeats)
    own = b",".join([_full_item(raw, remembered) for raw in _items_of(head.input)])
    fields, mask = fields_of(body)
    if before is not None:
        repeats["previous_response_id"] = fields.pop("previous_response_id")
    whole: Fields = {**fields, "input": msgspec.Raw(b"[%b]" % b",".join(filter(None, (*(before or ()), own))))}
    encoded = rawjson.encode(whole)
    return RecalledRequest(
        body=unmask(encoded, mask) if mask else encoded,
        repeats=repeats,
        previous=head.previous_response_id or "" if before is not None else "",
        input=own,
    )


def kept_of(request: RecalledRequest, data: bytes, call: str) -> KeptResponse | None:
    """What is to be remembered of the last bytes that the client gets; None: nothing.

    What the upstream keeps itself is left to it. ``call``: the end of the ids that responses are given here.
    """
    try:
        body = data if data.startswith(b"{") else _last_response(data)
        found = _ANSWER.decode(body)
        head = _HEAD.decode(request.body) if request.input is None else _Head()
        ids = [rawjson.maybe(rawjson.fields(raw).get("id")) for raw in found.output]
        given = b",".join(map(bytes, _items_of(head.input))) if request.input is None else request.input
    except (msgspec.DecodeError, ValueError):
        return None
    if found.object != "response" or found.status not in _ENDED or (found.store and not found.id.endswith(call)):
        return None
    items = {id: bytes(raw) for id, raw in zip(ids, found.output, strict=True) if isinstance(id, str)}
    if not items or len(items) < len(found.output):
        return None
    fields = rawjson.fields(body)
    del fields["output"]
    return KeptResponse(
        id=found.id,
        previous=request.previous,
        input=given,
        elsewhere=found.store is None,
        head=rawjson.encode(fields),
        items=items,
    )


def _last_response(data: bytes) -> bytes:
    """The response in the last event of a stream. Raises ValueError."""
    blocks = [block for block in data.replace(b"\r\n", b"\n").split(b"\n\n") if block.strip()]
    event = parse(blocks[-1]) if blocks else None
    return bytes(rawjson.fields(event.data).get("response", b"")) if event is not None else b""


def input_items(kept: list[KeptResponse]) -> list[dict[str, Any]]:
    """Items that responses answered, the oldest first, as the API lists them."""
    out = []
    for one in kept:
        for number, raw in enumerate(rawjson.items(b"[%b]" % one.input)):
            item: dict[str, Any] = rawjson.fields(raw)
            if rawjson.is_null(item.get("id")):
                item["id"] = f"item_{one.id.partition('_')[2]}{number:04x}"
            if "role" in item:
                item |= {"type": "message", "status": item.get("status", "completed")}
                item["content"] = _parts(item)
            out.append(item)
        out += [rawjson.fields(raw) for raw in rawjson.items(b"[%b]" % one.output)] if one is not kept[-1] else []
    return out


def _parts(item: Mapping[str, Any]) -> Any:
    content = item.get("content", NULL)
    if bytes(content)[:1] != b'"':
        return content
    if rawjson.maybe(item["role"]) == "assistant":
        return [{"type": "output_text", "text": content, "annotations": []}]
    return [{"type": "input_text", "text": content}]


def _items_of(given: msgspec.Raw) -> list[msgspec.Raw]:
    kind = bytes(memoryview(given)[:1])
    if kind == b'"':
        return [rawjson.raw({"type": "message", "role": "user", "content": given})]
    return rawjson.items(given) if kind == b"[" else []


def _full_item(raw: msgspec.Raw, remembered: ItemMemory) -> bytes:
    """An item, or what a reference names."""
    if _REFERENCE not in bytes(raw):
        return bytes(raw)
    item = rawjson.fields(raw)
    id = rawjson.maybe(item.get("id"))
    if rawjson.maybe(item.get("type")) != "item_reference" or not isinstance(id, str):
        return bytes(raw)
    return remembered.item(id) or bytes(raw)
