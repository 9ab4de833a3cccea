"""Output items of a response while they grow: the events that a client gets of each, and the finished item.

An event is its type and its fields, without its number and its place in the output, which ``render`` adds. Texts stay
JSON strings as they came.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import PLAIN_SEAL, Citation, Medium, Seal, join_strings, seal_text
from gateway.domain.json_text import nested_value
from gateway.inbound.responses.tools import ClientTool, ToolKind

Event = tuple[bytes, bytes]
"""The type without ``response.``, and the fields, each with a comma before it."""

EMPTY = b'""'
NO_LOGPROBS = b"[]"
COMPLETED = "completed"
IN_PROGRESS = "in_progress"


def field(name: bytes, value: bytes) -> bytes:
    """Returns ``,"name":value``, for an event that is joined from its fields."""
    return b',"%b":%b' % (name, value)


class OutputItem:
    """An item of the response's ``output``. Its methods return the events that a stream has for it."""

    def __init__(self, id: str, kind: str, **head: object) -> None:
        self._head = {"id": id, "type": kind, **head}
        self._place = field(b"item_id", rawjson.encode(id))
        self._pieces: list[bytes] = []

    @property
    def text(self) -> bytes:
        """Returns all pieces as one JSON string."""
        if len(self._pieces) != 1:
            self._pieces = [join_strings(self._pieces)]
        return self._pieces[0]

    def begin_events(self) -> Iterable[Event]:
        """Returns the events that begin the item."""
        return ((b"output_item.added", field(b"item", self.encode_item(IN_PROGRESS))),)

    def add_piece(self, piece: bytes, logprobs: bytes = NO_LOGPROBS) -> Iterable[Event]:
        """Add a piece of the text, a JSON string. Returns its events."""
        self._pieces.append(piece)
        return ()

    def end_events(self, status: str) -> Iterable[Event]:
        """Returns the events of the item's end, before the one with the finished item."""
        return ()

    def encode_item(self, status: str) -> bytes:
        """Returns the item as JSON: ``in_progress`` when it begins, with another status when it has ended."""
        raise NotImplementedError


class PartItem(OutputItem):
    """An item with a text in one part. The part begins with the first piece: sealed reasoning may have no text."""

    kind = "message"
    part_type = text_event = b"output_text"
    """The type of the part, and the name of the events of its text."""
    part_event, holder, index = b"content_part", b"content", b"content_index"
    """The name of the events of the part, and the fields with the part and with its number."""
    text_field = b"text"

    def __init__(self, id: str, **head: object) -> None:
        super().__init__(id, self.kind, **head)
        self._place += field(self.index, b"0")

    def add_piece(self, piece: bytes, logprobs: bytes = NO_LOGPROBS) -> Iterable[Event]:
        begun = self._begin_part()
        super().add_piece(piece, logprobs)
        return (*begun, (self.text_event + b".delta", self._place + field(b"delta", piece)))

    def end_events(self, status: str) -> Iterable[Event]:
        if not self._pieces:
            return ()
        text = self._place + field(self.text_field, self.text)
        part = self._place + field(b"part", self._part(self.text))
        return (self.text_event + b".done", text), (self.part_event + b".done", part)

    def encode_item(self, status: str) -> bytes:
        part = self._part(self.text) if self._pieces else b""
        return b'%b,"%b":[%b]}' % (rawjson.encode({**self._head, "status": status})[:-1], self.holder, part)

    def _begin_part(self) -> tuple[Event, ...]:
        if self._pieces:
            return ()
        return ((self.part_event + b".added", self._place + field(b"part", self._part(EMPTY))),)

    def _part(self, text: bytes) -> bytes:
        return b'{"type":"%b","%b":%b}' % (self.part_type, self.text_field, text)


def _with_lists(logprobs: bytes) -> bytes:
    """Returns the probabilities with the lists that they always have in Responses, but not in chat completions."""
    tokens = rawjson.maybe_objects(logprobs) or []
    for token in tokens:
        others = rawjson.maybe_objects(token.get("top_logprobs")) or []
        for each in (token, *others):
            if rawjson.is_null(each.get("bytes")):
                each["bytes"] = rawjson.EMPTY_LIST
        token["top_logprobs"] = rawjson.raw(others)
    return rawjson.encode(tokens)


class MessageItem(PartItem):
    """The assistant's text, with its sources and probabilities."""

    def __init__(self, id: str) -> None:
        super().__init__(id, role="assistant")
        self._logprobs: list[bytes] = []
        self._annotations: list[bytes] = []

    def add_piece(self, piece: bytes, logprobs: bytes = NO_LOGPROBS) -> Iterable[Event]:
        if logprobs != NO_LOGPROBS and (logprobs := _with_lists(logprobs)) != NO_LOGPROBS:
            self._logprobs.append(logprobs[1:-1])
        *begun, (name, fields) = super().add_piece(piece, logprobs)
        return (*begun, (name, fields + field(b"logprobs", logprobs)))

    def cite(self, citation: Citation) -> Iterable[Event]:
        """Add a source of the text. Returns its events."""
        start = citation.start or 0
        place = {"start_index": start, "end_index": citation.end or start}
        annotation = rawjson.encode({"type": "url_citation", "url": citation.url, "title": citation.title, **place})
        number = field(b"annotation_index", b"%d" % len(self._annotations))
        begun = self._begin_part()
        if begun:
            self._pieces.append(EMPTY)
        self._annotations.append(annotation)
        return *begun, (b"output_text.annotation.added", self._place + number + field(b"annotation", annotation))

    def end_events(self, status: str) -> Iterable[Event]:
        for name, fields in super().end_events(status):
            more = field(b"logprobs", self._all_logprobs()) if name == b"output_text.done" else b""
            yield name, fields + more

    def _all_logprobs(self) -> bytes:
        return b"[%b]" % b",".join(self._logprobs)

    def _part(self, text: bytes) -> bytes:
        return b'%b,"annotations":[%b],"logprobs":%b}' % (
            super()._part(text)[:-1],
            b",".join(self._annotations) if self._pieces else b"",
            self._all_logprobs() if self._pieces else b"[]",
        )


class RefusalItem(PartItem):
    """The assistant's refusal."""

    part_type = text_event = text_field = b"refusal"


class ReasoningItem(PartItem):
    """The reasoning. Its text is a summary, because all clients read those. A client that did not ask for a summary
    gets the text as the content too.
    """

    kind, part_type, text_event = "reasoning", b"summary_text", b"reasoning_summary_text"
    part_event, holder, index = b"reasoning_summary_part", b"summary", b"summary_index"

    def __init__(self, id: str, *, summary: bool, sealed: bool) -> None:
        """See ``ResponsePlan`` for ``summary`` and ``sealed``."""
        super().__init__(id)
        self._summary = summary
        self._sealed = sealed
        self._seal = PLAIN_SEAL

    def seal(self, seal: Seal) -> None:
        """Keep what the vendor wants back."""
        self._seal = seal

    def encode_item(self, status: str) -> bytes:
        if not self._summary and self._pieces:
            self._head["content"] = [{"type": "reasoning_text", "text": msgspec.Raw(self.text)}]
        if self._sealed and status != IN_PROGRESS:
            self._head["encrypted_content"] = seal_text(self._seal)
        return super().encode_item(status)


class CallItem(OutputItem):
    """The call of a function, or of a custom tool, whose input the model may have written in a JSON object."""

    def __init__(self, id: str, call_id: str, tool: ClientTool, *, bare: bool) -> None:
        """``bare``: the upstream has custom tools itself, so the pieces are the input."""
        is_custom = tool.kind is ToolKind.CUSTOM
        names = {"name": tool.name, "namespace": tool.namespace} if tool.namespace else {"name": tool.name}
        super().__init__(id, "custom_tool_call" if is_custom else "function_call", call_id=call_id, **names)
        self._wrapped = is_custom and not bare
        self._field = "input" if is_custom else "arguments"
        self._events = b"custom_tool_call_input" if is_custom else b"function_call_arguments"
        self._name = b"" if is_custom else field(b"name", rawjson.encode(tool.name))

    def add_piece(self, piece: bytes, logprobs: bytes = NO_LOGPROBS) -> Iterable[Event]:
        super().add_piece(piece)
        return () if self._wrapped else self._delta(piece)

    def end_events(self, status: str) -> Iterable[Event]:
        """See ``OutputItem``. A call without arguments gets an empty object."""
        more: Iterable[Event] = ()
        if self._wrapped:
            self._pieces = [rawjson.encode(_unwrap_input(rawjson.text(self.text)))]
            more = self._delta(self.text) if self.text != EMPTY else ()
        elif not self._pieces and self._name and status == COMPLETED:
            more = self.add_piece(b'"{}"')
        text = field(self._field.encode(), self.text)
        return *more, (self._events + b".done", self._place + self._name + text)

    def encode_item(self, status: str) -> bytes:
        text = msgspec.Raw(self.text if self._pieces else EMPTY)  # ``text`` would count as a piece from then on
        return rawjson.encode({**self._head, self._field: text, "status": status})

    def _delta(self, piece: bytes) -> tuple[Event]:
        return ((self._events + b".delta", self._place + field(b"delta", piece)),)


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

    def begin_events(self) -> Iterable[Event]:
        return ()

    def end_events(self, status: str) -> Iterable[Event]:
        return super().begin_events()

    def encode_item(self, status: str) -> bytes:
        text = rawjson.text(self.text)
        value = nested_value(text)
        arguments = value if isinstance(value, dict) else {}
        return rawjson.encode({**self._head, **_call_fields(self._kind, arguments, text), "status": status})


class ImageItem(OutputItem):
    """An image that the model made."""

    def __init__(self, id: str, medium: Medium) -> None:
        super().__init__(id, "image_generation_call")
        self._medium = medium

    def end_events(self, status: str) -> Iterable[Event]:
        return ((b"image_generation_call.completed", self._place),)

    def encode_item(self, status: str) -> bytes:
        if status == IN_PROGRESS:
            return rawjson.encode({**self._head, "status": status, "result": None})
        image_format = self._medium.type.partition("/")[2] or "png"
        result = self._medium.data or self._medium.url
        return rawjson.encode({**self._head, "status": COMPLETED, "output_format": image_format, "result": result})


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
