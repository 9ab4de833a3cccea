"""Completes requests that go on from earlier responses, and returns what to remember of an answer.

``previous_response_id`` becomes the whole conversation up to that response, an ``item_reference`` the item itself. So
every channel can go on from it, and the request is held and priced as what it is. What is not remembered stays as the
client wrote it, because an upstream may know it.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import PLAIN_SEAL, seal_text
from gateway.domain.conversation import KeptResponse
from gateway.domain.errors import BadRequest, TooLarge
from gateway.domain.json_text import contains, replace_lone_surrogates
from gateway.domain.rawjson import NULL, Fields
from gateway.domain.sse import BLANK, BOM, parse, with_line_feeds
from gateway.inbound.json_body import check_structure, read_body
from gateway.inbound.responses.summary import COMPACTIONS

_FIELDS = msgspec.json.Decoder(Fields)


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
    """The response that it continues, if remembered."""
    partial: bool = False
    """Whether it continues something that is not remembered: only its upstream knows the whole conversation."""
    input: bytes = b""
    """Its new input: JSON values with commas between them."""

    @property
    def repeats(self) -> dict[str, msgspec.Raw]:
        """Returns fields that the answer repeats, although they are not in the completed request."""
        fields = {"store": msgspec.Raw(b"true")} if self.stored else {}
        return {**fields, "previous_response_id": rawjson.raw(self.previous)} if self.previous else fields


def recall(body: bytes, remembered: ItemMemory, max_size: int) -> RecalledRequest:
    """Returns the request completed from memory. An invalid one is not changed: its errors are found later.

    Raises BadRequest for the result of a tool call that is not in the conversation and for too large a structure, and
    TooLarge if the completed request has more than ``max_size`` bytes.
    """
    body = body.removeprefix(BOM)
    check_structure(body)
    try:
        head = _fields(body)
        items = _input_items(head.get("input", NULL))
        has_references = contains(items, b'"id"') and any(map(_is_reference, rawjson.objects(b"[%b]" % items)))
    except (ValueError, RecursionError):
        return RecalledRequest(body=body)
    previous = rawjson.text_at(head.get("previous_response_id"))
    responses = remembered.conversation(previous) if previous else []
    recalled = RecalledRequest(
        body=body,
        stored=rawjson.maybe(head.get("store")) is not False,
        previous=previous if responses else "",
        partial=(bool(previous) and not responses) or not rawjson.is_null(head.get("conversation")),
        input=_resolve_references(items, remembered, max_size) if has_references else items,
    )
    return _with_conversation(recalled, responses, max_size) if responses or has_references else recalled


def kept_of(request: RecalledRequest, data: bytes, call: str) -> KeptResponse | None:
    """Returns what to remember of the last bytes that the client gets; None if nothing is remembered.

    A response that its upstream keeps is not remembered. ``call`` is the end of the ids that responses get here.
    """
    try:
        text = _last_event(data)
        response = _fields(text).get("response", NULL)
        body = text if response == NULL else bytes(response)
        answer = _fields(body)
        id, store = rawjson.text_at(answer.get("id")), rawjson.maybe(answer.get("store"))
        is_own = id.endswith(call)
        items = _items_by_id(id, answer.get("output", NULL), seals=is_own)
    except (ValueError, RecursionError):
        return None
    kind, status = (rawjson.text_at(answer.get(name)) for name in ("object", "status"))
    is_kept_elsewhere = store and request.stored and not is_own
    if not id or kind != "response" or status not in ("completed", "incomplete") or is_kept_elsewhere:
        return None
    return KeptResponse(
        id=id,
        previous=request.previous,
        input=request.input,
        elsewhere=request.partial or (store is None and request.stored),
        body=body,
        items=items,
    )


def _items_by_id(response: str, output: msgspec.Raw, *, seals: bool) -> dict[str, msgspec.Raw]:
    """Returns the items in the output of a response by their ids. ``seals``: reasoning that has no seal gets one."""
    items: dict[str, msgspec.Raw] = {}
    for number, raw in enumerate(rawjson.items(output)):
        item = rawjson.fields(raw)
        id = rawjson.text_at(item.get("id"))
        id = f"{response}/{number}" if not id or id in items else id
        items[id] = raw
        if seals and _is_unsealed_reasoning(item):
            items[id] = rawjson.raw({**item, "encrypted_content": seal_text(PLAIN_SEAL)})
    return items


def _is_reference(item: Fields) -> bool:
    """Returns whether an item refers to another one: it has no type, or is a picture without its data."""
    kind = rawjson.text_at(item.get("type"))
    if kind == "image_generation_call":
        return rawjson.is_null(item.get("result"))
    is_bare = rawjson.is_null(item.get("type")) and rawjson.is_null(item.get("role"))
    return is_bare or kind == "item_reference"


def _is_unsealed_reasoning(item: Fields) -> bool:
    """Returns whether an item is reasoning without the content that upstreams want back."""
    return rawjson.text_at(item.get("type")) == "reasoning" and rawjson.is_null(item.get("encrypted_content"))


def input_items(responses: list[KeptResponse]) -> list[dict[str, Any]]:
    """Returns the items that the last of these responses answered, the oldest first, as the API lists them."""
    listed = []
    for response in responses:
        for number, raw in enumerate(rawjson.items(b"[%b]" % response.input)):
            item: dict[str, Any] = rawjson.fields(raw)
            if rawjson.is_null(item.get("id")):
                item["id"] = f"item_{response.id.partition('_')[2]}{number:04x}"
            if "role" in item:
                item |= {"type": "message", "status": item.get("status", "completed")}
                content = item.setdefault("content", NULL)
                if rawjson.is_text(content) and rawjson.maybe(item["role"]) == "assistant":
                    item["content"] = [{"type": "output_text", "text": content, "annotations": []}]
                elif rawjson.is_text(content):
                    item["content"] = [{"type": "input_text", "text": content}]
            listed.append(item)
        if response is not responses[-1]:
            listed += map(rawjson.fields, response.items.values())
    return listed


def _with_conversation(request: RecalledRequest, responses: list[KeptResponse], max_size: int) -> RecalledRequest:
    """Returns the request with the whole conversation. Raises BadRequest for results without a call, and TooLarge."""
    fields = read_body(request.body).fields
    fields.pop("input", None)
    earlier = _join(_earlier_items(responses))
    if responses:
        del fields["previous_response_id"]
        _check_results(earlier, request.input)
    content = b'"input":[%b]' % _join((earlier, request.input))
    body = b"{%b}" % _join((content, rawjson.encode(fields)[1:-1]))
    _check_size(len(body), max_size)
    return msgspec.structs.replace(request, body=body)


def _earlier_items(responses: list[KeptResponse]) -> list[bytes]:
    """Returns the items of a conversation, without those before a compaction."""
    earlier: list[bytes] = []
    for response in responses:
        earlier.append(response.input)
        for raw in response.items.values():
            item = rawjson.fields(raw)
            if rawjson.text_at(item.get("type")) in COMPACTIONS:
                earlier.clear()
            has_content = not rawjson.is_null(item.get("content"))
            if has_content or not _is_unsealed_reasoning(item):  # upstreams refuse reasoning without content
                earlier.append(bytes(raw))
    return earlier


def _check_results(earlier: bytes, items: bytes) -> None:
    """Raises BadRequest if the new items have a result without a call."""
    results = [call_id for is_result, call_id in _call_ids(items) if is_result and call_id]
    if not results:
        return
    calls = {call_id for is_result, call_id in _call_ids(_join((earlier, items))) if not is_result}
    if calls and (lost := next((call_id for call_id in results if call_id not in calls), None)):
        raise BadRequest(f"input: a tool result has the call_id {lost[:80]!a}, but no tool call has it", param="input")


def _resolve_references(items: bytes, remembered: ItemMemory, max_size: int) -> bytes:
    """Returns the items with those that they refer to. Raises TooLarge: an item may be referred to many times."""
    targets: dict[str, bytes | None] = {}
    resolved = []
    for raw, item in zip(rawjson.items(b"[%b]" % items), rawjson.objects(b"[%b]" % items), strict=True):
        id = rawjson.text_at(item.get("id")) if _is_reference(item) else ""
        if id and id not in targets:
            targets[id] = remembered.item(id)
        resolved.append(targets.get(id) or bytes(raw))
    _check_size(sum(map(len, resolved)), max_size)
    return _join(resolved)


def _check_size(size: int, max_size: int) -> None:
    if size > max_size:
        raise TooLarge(f"the request is larger than {max_size >> 20} MiB with the responses that it continues")


def _call_ids(items: bytes) -> Iterator[tuple[bool, str]]:
    """Yields whether each item is a tool's result, and its ``call_id``; nothing for invalid items."""
    for item in rawjson.maybe_objects(b"[%b]" % items) or ():
        yield rawjson.text_at(item.get("type")).endswith("_output"), rawjson.text_at(item.get("call_id"))


def _fields(text: bytes) -> Fields:
    """Returns the raw fields of an object, and never decodes all of it. Lone surrogates are replaced."""
    try:
        return _FIELDS.decode(text)
    except msgspec.DecodeError:
        return _FIELDS.decode(replace_lone_surrogates(text))


def _last_event(data: bytes) -> bytes:
    """Returns the data of a stream's last event, or a whole answer. Raises ValueError."""
    if data.startswith(b"{"):
        return data
    event = parse(with_line_feeds(data).strip(b"\n").rpartition(BLANK)[2])
    if event is None:
        raise ValueError("no event")
    return event.data


def _input_items(content: msgspec.Raw) -> bytes:
    """Returns an input's items as JSON values with commas between them. A text is the user's. Raises ValueError."""
    if rawjson.is_text(content):
        return b'{"type":"message","role":"user","content":%b}' % bytes(content)
    if rawjson.is_list(content):
        return bytes(content)[1:-1].strip()
    if content != NULL:
        raise ValueError("not an input")
    return b""


def _join(parts: Iterable[bytes]) -> bytes:
    return b",".join(filter(None, parts))
