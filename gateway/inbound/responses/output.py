"""Output items of a response: the events that a client gets of each, and the finished item.

A whole item is written as the events of a stream (``item_events``). One that grows while it is rendered
(``OutputItem``) has the same events, but its text comes in pieces. Texts stay JSON strings as they came.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import PLAIN_SEAL, Citation, Medium, join_strings, seal_text
from gateway.domain.json_text import nested_value
from gateway.domain.rawjson import EMPTY_LIST, EMPTY_TEXT, Fields, JsonObject
from gateway.domain.sse import write_event
from gateway.domain.usage import Usage, modality_counts
from gateway.inbound.responses.tools import ClientTool, ToolKind

TypedEvent = tuple[str, JsonObject]
"""The type without ``response.``, and the fields."""
TEXT_EVENTS = {
    "output_text": ("output_text", "text"),
    "refusal": ("refusal", "refusal"),
    "reasoning_text": ("reasoning_text", "text"),
    "summary_text": ("reasoning_summary_text", "text"),
}
"""The name of the events with a part's text, and the part's field with it, by the part's type."""
INPUT_EVENTS = {
    "function_call": ("function_call_arguments", "arguments"),
    "custom_tool_call": ("custom_tool_call_input", "input"),
    "mcp_call": ("mcp_call_arguments", "arguments"),
}
"""The name of the events with a call's input, and the item's field with it, by the item's type."""
PART_LISTS = (("content", "content_part", "content_index"), ("summary", "reasoning_summary_part", "summary_index"))
"""The fields of items with parts, the name of the parts' events, and the field with a part's number."""
COMPLETED = "completed"
IN_PROGRESS = "in_progress"


def encode_event(name: str, number: int, fields: JsonObject) -> bytes:
    """Returns an event as it is sent. ``name`` is its type without ``response.``."""
    kind = f"response.{name}"
    return write_event(kind.encode(), rawjson.encode({"type": kind, "sequence_number": number, **fields}))


def usage_object(usage: Usage) -> dict[str, Any]:
    """Returns the usage as clients of this API read it."""
    return {
        "input_tokens": usage.input,
        "input_tokens_details": {
            "cached_tokens": usage.cached,
            "cache_write_tokens": usage.cache_write,
            **modality_counts(usage, "input"),
        },
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning, **modality_counts(usage, "output")},
        "total_tokens": usage.total,
    }


def item_events(output_place: JsonObject, raw: msgspec.Raw) -> Iterator[TypedEvent]:
    """Yields the events of a whole item. Raises ValueError unless it is an object."""
    item = rawjson.fields(raw)
    place: JsonObject = {"item_id": item.get("id", EMPTY_TEXT), **output_place}
    event, field = INPUT_EVENTS.get(rawjson.text_at(item.get("type")), ("", ""))
    empty = {**item, "status": rawjson.raw("in_progress")} if "status" in item else dict(item)
    empty |= {name: EMPTY_LIST for name, _, _ in PART_LISTS if rawjson.maybe_items(item.get(name))}
    if field:
        empty[field] = EMPTY_TEXT
    yield "output_item.added", {**output_place, "item": empty}
    for name, part_event, index in PART_LISTS:
        for i, part in enumerate(rawjson.maybe_items(item.get(name))):
            yield from _part_events(part_event, {**place, index: i}, rawjson.maybe_fields(part))
    if event:
        text = item.get(field, EMPTY_TEXT)
        yield f"{event}.delta", {**place, "delta": text}
        named = {"name": item["name"]} if event == "function_call_arguments" and "name" in item else {}
        yield f"{event}.done", {**place, field: text, **named}
    yield "output_item.done", {**output_place, "item": raw}


def _part_events(event: str, place: JsonObject, part: Fields) -> Iterator[TypedEvent]:
    """Yields the events of a part. A part with reasoning has only the events of its text."""
    name, field = TEXT_EVENTS.get(rawjson.text_at(part.get("type")), ("", ""))
    has_frame = name != "reasoning_text"
    if has_frame:
        empty = {**part, field: EMPTY_TEXT} if name else dict(part)
        if "annotations" in part:
            empty["annotations"] = EMPTY_LIST
        yield f"{event}.added", {**place, "part": empty}
    if name:
        logprobs = {"logprobs": part.get("logprobs", EMPTY_LIST)} if name == "output_text" else {}
        text = part.get(field, EMPTY_TEXT)
        yield f"{name}.delta", {**place, "delta": text, **logprobs}
        for number, annotation in enumerate(rawjson.maybe_items(part.get("annotations"))):
            yield "output_text.annotation.added", {**place, "annotation_index": number, "annotation": annotation}
        yield f"{name}.done", {**place, field: text, **logprobs}
    if has_frame:
        yield f"{event}.done", {**place, "part": part}


class OutputItem:
    """An item of the response's ``output`` that grows. Its methods return its events in a stream, without its place."""

    text_event = ""
    """The name of the events with its text, without ``.delta``; empty if the text is only in the finished item."""

    def __init__(self, id: str, kind: str, **head: object) -> None:
        self._head = {"id": id, "type": kind, **head}
        self._place: JsonObject = {"item_id": id}
        self._pieces: list[bytes] = []

    @property
    def text(self) -> msgspec.Raw:
        """Returns all pieces as one JSON string."""
        return msgspec.Raw(join_strings(self._pieces))

    def begin_events(self) -> Iterable[TypedEvent]:
        return (("output_item.added", {"item": self.fields(IN_PROGRESS)}),)

    def add_piece(self, piece: bytes, logprobs: bytes = b"") -> Iterable[TypedEvent]:
        """Add a piece of the text, a JSON string. Returns its events."""
        self._pieces.append(piece)
        return ((f"{self.text_event}.delta", {**self._place, "delta": msgspec.Raw(piece)}),) if self.text_event else ()

    def end_events(self, status: str) -> Iterable[TypedEvent]:
        """Returns the events of the item's end. The last one has the finished item, as raw JSON."""
        events = item_events({}, rawjson.raw(self.fields(status)))
        return [event for event in events if event[0].endswith(".done") and event[0] != "reasoning_text.done"]

    def fields(self, status: str) -> JsonObject:
        """Returns the item: ``in_progress`` when it begins, with another status when it has ended."""
        return {**self._head, "status": status}


class PartItem(OutputItem):
    """An item with a text in one part. The part begins with the first piece: sealed reasoning may have no text."""

    def __init__(self, id: str, kind: str, part_type: str, **head: object) -> None:
        super().__init__(id, kind, **head)
        self._part_type = part_type
        self.text_event, self._field = TEXT_EVENTS[part_type]
        contents, summaries = PART_LISTS
        self._holder, self._part_event, index = summaries if kind == "reasoning" else contents
        self._place[index] = 0

    def add_piece(self, piece: bytes, logprobs: bytes = b"") -> Iterable[TypedEvent]:
        return *self._begin_part(), *super().add_piece(piece)

    def fields(self, status: str) -> JsonObject:
        return {**self._head, "status": status, self._holder: [self._part(self.text)] if self._pieces else []}

    def _begin_part(self) -> tuple[TypedEvent, ...]:
        if self._pieces:
            return ()
        return ((f"{self._part_event}.added", {**self._place, "part": self._part(EMPTY_TEXT)}),)

    def _part(self, text: msgspec.Raw) -> JsonObject:
        return {"type": self._part_type, self._field: text}


def _with_lists(logprobs: bytes) -> list[Fields]:
    """Returns the probabilities with the lists that they always have in Responses, but not in chat completions."""
    tokens = rawjson.maybe_objects(logprobs) or []
    for token in tokens:
        others = rawjson.maybe_objects(token.get("top_logprobs")) or []
        for each in (token, *others):
            if rawjson.is_null(each.get("bytes")):
                each["bytes"] = EMPTY_LIST
        token["top_logprobs"] = rawjson.raw(others)
    return tokens


class MessageItem(PartItem):
    """The assistant's text, with its sources and probabilities."""

    def __init__(self, id: str) -> None:
        super().__init__(id, "message", "output_text", role="assistant")
        self._logprobs: list[Fields] = []
        self._annotations: list[JsonObject] = []

    def add_piece(self, piece: bytes, logprobs: bytes = b"") -> Iterable[TypedEvent]:
        *begun, (name, fields) = super().add_piece(piece)
        tokens = _with_lists(logprobs) if logprobs else []
        self._logprobs += tokens
        return (*begun, (name, {**fields, "logprobs": tokens}))

    def cite(self, citation: Citation) -> Iterable[TypedEvent]:
        """Add a source of the text. Returns its events."""
        start = citation.start or 0
        place = {"start_index": start, "end_index": citation.end or start}
        annotation = {"type": "url_citation", "url": citation.url, "title": citation.title, **place}
        number = {"annotation_index": len(self._annotations)}
        begun = self._begin_part()
        if begun:
            self._pieces.append(b'""')
        self._annotations.append(annotation)
        return *begun, ("output_text.annotation.added", {**self._place, **number, "annotation": annotation})

    def _part(self, text: msgspec.Raw) -> JsonObject:
        return {**super()._part(text), "annotations": [*self._annotations], "logprobs": [*self._logprobs]}


class ReasoningItem(PartItem):
    """The reasoning, as a summary, because all clients read those; also as the content if the client asked for none."""

    def __init__(self, id: str, *, summary: bool, sealed: bool) -> None:
        """``summary``: the client wants one; ``sealed``: it wants what it needs to send the reasoning back."""
        super().__init__(id, "reasoning", "summary_text")
        self._summary = summary
        self._sealed = sealed
        self.seal = PLAIN_SEAL
        """What the vendor wants back."""

    def fields(self, status: str) -> JsonObject:
        item = super().fields(status)
        if not self._summary and self._pieces:
            item["content"] = [{"type": "reasoning_text", "text": self.text}]
        if self._sealed and status != IN_PROGRESS:
            item["encrypted_content"] = seal_text(self.seal)
        return item


class CallItem(OutputItem):
    """The call of a function, or of a custom tool, whose input the model writes in a JSON object."""

    def __init__(self, id: str, call_id: str, tool: ClientTool) -> None:
        self._is_custom = tool.kind is ToolKind.CUSTOM
        kind = "custom_tool_call" if self._is_custom else "function_call"
        names = {"name": tool.name, "namespace": tool.namespace} if tool.namespace else {"name": tool.name}
        super().__init__(id, kind, call_id=call_id, **names)
        self.text_event, self._field = INPUT_EVENTS[kind]

    def add_piece(self, piece: bytes, logprobs: bytes = b"") -> Iterable[TypedEvent]:
        events = super().add_piece(piece)
        return () if self._is_custom else events

    def end_events(self, status: str) -> Iterable[TypedEvent]:
        """See ``OutputItem``. A call without arguments gets an empty object."""
        more: Iterable[TypedEvent] = ()
        if self._is_custom:
            text = _unwrap_input(rawjson.text(self.text))
            self._pieces.clear()
            more = super().add_piece(rawjson.encode(text)) if text else ()
        elif not self._pieces and status == COMPLETED:
            more = self.add_piece(b'"{}"')
        return *more, *super().end_events(status)

    def fields(self, status: str) -> JsonObject:
        return {**self._head, self._field: self.text, "status": status}


def _unwrap_input(text: str) -> str:
    """Returns the text in a model's ``{"input": "..."}``, which may be cut off, or have another form."""
    whole, completed = (part.encode("utf-8", "surrogatepass") for part in (text, text.rstrip("\\") + '"}'))
    value = rawjson.maybe(whole) or rawjson.maybe(completed)
    if isinstance(value, dict):
        return next((member for member in (value.get("input"), *value.values()) if isinstance(member, str)), text)
    return value if isinstance(value, str) else text


class ClientToolItem(OutputItem):
    """The call of a tool that the client has by itself. Nothing is sent before its arguments are complete."""

    def __init__(self, id: str, call_id: str, tool: ClientTool) -> None:
        super().__init__(id, f"{tool.kind}_call", call_id=call_id)
        self._kind = tool.kind

    def begin_events(self) -> Iterable[TypedEvent]:
        return ()

    def end_events(self, status: str) -> Iterable[TypedEvent]:
        return *super().begin_events(), *super().end_events(status)

    def fields(self, status: str) -> JsonObject:
        text = rawjson.text(self.text)
        value = nested_value(text)
        arguments = value if isinstance(value, dict) else {}
        return {**self._head, **_call_fields(self._kind, arguments, text), "status": status}


class ImageItem(OutputItem):
    """An image that the model made."""

    def __init__(self, id: str, medium: Medium) -> None:
        super().__init__(id, "image_generation_call")
        self._medium = medium

    def end_events(self, status: str) -> Iterable[TypedEvent]:
        return ("image_generation_call.completed", self._place), *super().end_events(status)

    def fields(self, status: str) -> JsonObject:
        if status == IN_PROGRESS:
            return {**self._head, "status": status, "result": None}
        image_format = self._medium.type.partition("/")[2] or "png"
        result = self._medium.data or self._medium.url
        return {**self._head, "status": COMPLETED, "output_format": image_format, "result": result}


_CALL_OPTIONS = {
    ToolKind.LOCAL_SHELL: ("working_directory", "timeout_ms", "user"),
    ToolKind.SHELL: ("timeout_ms", "max_output_length"),
}


def _call_fields(kind: ToolKind, arguments: dict[str, Any], text: str) -> dict[str, Any]:
    """Returns the fields of a call, given its arguments decoded (empty unless they are an object) and as a text."""
    options = {name: value for name, value in arguments.items() if name in _CALL_OPTIONS.get(kind, ())}
    match kind:
        case ToolKind.LOCAL_SHELL:
            command, env = _strings_in(arguments.get("command"), ["bash", "-lc"]), arguments.get("env")
            action = {"type": "exec", "command": command, "env": env if isinstance(env, dict) else {}}
            return {"action": action | options}
        case ToolKind.SHELL:
            action = {"commands": _strings_in(arguments.get("commands"), [])}
            return {"action": action | options, "environment": {"type": "local"}}
        case ToolKind.APPLY_PATCH:  # an operation without a path fails at the client, and the model reads the error
            kinds = ("create_file", "delete_file")
            operation = {"type": arguments.get("type") if arguments.get("type") in kinds else "update_file"}
            operation["path"] = str(arguments.get("path") or "")
            if operation["type"] != "delete_file":
                operation["diff"] = str(arguments.get("diff") or ("" if arguments else text))
            return {"operation": operation}
    if not arguments and text.strip() not in ("", "{}"):
        arguments = {"query": text}
    return {"execution": "client", "arguments": arguments}


def _strings_in(value: object, shell: list[str]) -> list[str]:
    """Returns the strings in a list. For a single string, which models also write, returns it after the ``shell``."""
    if isinstance(value, str):
        return [*shell, value]
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


ID_PREFIXES = {
    ToolKind.FUNCTION: "fc",
    ToolKind.CUSTOM: "ctc",
    ToolKind.TOOL_SEARCH: "tsc",
    ToolKind.LOCAL_SHELL: "lsh",
    ToolKind.SHELL: "sh",
    ToolKind.APPLY_PATCH: "apc",
}
"""The starts of the ids of items with calls."""
