"""Output items of a response while they grow: the events that a client gets of each, and the item that remains.

Each kind of item has a class. ``added`` are the events with which an item begins, ``piece`` those of one more piece,
``ended`` those of its end, and ``done`` is the item as the response has it. Events come as their type and the
rest of their JSON object, whose number and place ``render`` adds. Texts stay JSON strings as they came.

Long: the items are short classes of the same form, which are read side by side.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import Citation, Medium, Seal, join_strings
from gateway.inbound.responses.input_text import InputText
from gateway.inbound.responses.tools import ClientTool, ToolKind
from gateway.inbound.sealed import PLAIN_SEAL, wrap

Event = tuple[bytes, bytes]
"""The type without ``response.``, and fields, each with a comma before it."""

PLACED_EVENT = b'event: response.%b\ndata: {"type":"response.%b","sequence_number":%d,"output_index":%d%b}\n\n'
EMPTY = b'""'
NO_LOGPROBS = b"[]"
COMPLETED = "completed"


class OutputItem(Protocol):
    """One item."""

    id: str
    held: int
    """Bytes of it that are kept for the end."""

    def added(self) -> Iterator[Event]:
        """Its beginning."""

    def piece(self, piece: bytes, logprobs: bytes = NO_LOGPROBS) -> Iterable[Event]:
        """One more piece, a JSON string."""

    def ended(self, status: str) -> Iterator[Event]:
        """Its end."""

    def done(self, status: str) -> bytes:
        """The item, of which nothing more comes."""


def field(name: bytes, value: bytes) -> bytes:
    """A field of an event."""
    return b',"%b":%b' % (name, value)


class MessageItem:
    """The assistant's text, or its refusal."""

    def __init__(self, id: str, *, refusal: bool = False) -> None:
        self.id = id
        self.held = 0
        self._refusal = refusal
        self._pieces: list[bytes] = []
        self._logprobs: list[bytes] = []
        self._annotations: list[bytes] = []
        self._place = field(b"item_id", rawjson.encode(id)) + b',"content_index":0'

    def added(self) -> Iterator[Event]:
        """See ``OutputItem``."""
        yield b"output_item.added", field(b"item", self._item(b"", "in_progress"))
        yield b"content_part.added", self._place + field(b"part", self._part(EMPTY))

    def piece(self, piece: bytes, logprobs: bytes = NO_LOGPROBS) -> tuple[Event]:
        """See ``OutputItem``."""
        self._pieces.append(piece)
        self.held += len(piece) + len(logprobs)
        if self._refusal:
            return ((b"refusal.delta", self._place + field(b"delta", piece)),)
        if logprobs != NO_LOGPROBS:
            self._logprobs.append(logprobs[1:-1])
        return ((b"output_text.delta", b'%b,"delta":%b,"logprobs":%b' % (self._place, piece, logprobs)),)

    def texts(self, pieces: list[bytes], number: int, place: int) -> bytes:
        """The events of several pieces without probabilities, of which the first has this number."""
        self._pieces += pieces
        self.held += sum(map(len, pieces))
        name = b"output_text.delta"
        head = PLACED_EVENT % (name, name, 0, place, self._place + b',"delta":')
        before, _, after = head.removesuffix(b"}\n\n").partition(b":0,")
        end = b',"logprobs":[]}\n\n'
        return b"".join([b"%b:%d,%b%b%b" % (before, n, after, piece, end) for n, piece in enumerate(pieces, number)])

    def cite(self, source: Citation) -> tuple[Event]:
        """A source of the text."""
        start = source.start or 0
        place = {"start_index": start, "end_index": source.end or start}
        annotation = rawjson.encode({"type": "url_citation", "url": source.url, "title": source.title, **place})
        number = len(self._annotations)
        self._annotations.append(annotation)
        self.held += len(annotation)
        more = field(b"annotation_index", b"%d" % number) + field(b"annotation", annotation)
        return ((b"output_text.annotation.added", self._place + more),)

    def ended(self, status: str) -> Iterator[Event]:
        """See ``OutputItem``."""
        text = join_strings(self._pieces)
        if self._refusal:
            yield b"refusal.done", self._place + field(b"refusal", text)
        else:
            yield b"output_text.done", self._place + field(b"text", text) + field(b"logprobs", self._all_logprobs())
        yield b"content_part.done", self._place + field(b"part", self._part(text))
        yield b"output_item.done", field(b"item", self.done(status))

    def done(self, status: str) -> bytes:
        """See ``OutputItem``."""
        return self._item(self._part(join_strings(self._pieces)), status)

    def _all_logprobs(self) -> bytes:
        return b"[%b]" % b",".join(self._logprobs)

    def _part(self, text: bytes) -> bytes:
        if self._refusal:
            return b'{"type":"refusal","refusal":%b}' % text
        annotations = b",".join(self._annotations)
        return b'{"type":"output_text","text":%b,"annotations":[%b],"logprobs":%b}' % (
            text,
            annotations,
            self._all_logprobs(),
        )

    def _item(self, part: bytes, status: str) -> bytes:
        head = rawjson.encode({"id": self.id, "type": "message", "status": status, "role": "assistant"})
        return b'%b,"content":[%b]}' % (head[:-1], part)


class ReasoningItem:
    """What the model thought: a summary if the client asked for one, else the text as it is."""

    def __init__(self, id: str, *, summary: bool, sealed: bool, standard: bool = False) -> None:
        """``sealed``: the client wants what it takes to send the reasoning back. ``standard``: see ``AnswerForm``."""
        self.id = id
        self.held = 0
        self._summary = summary
        self._sealed = sealed
        self._pieces: list[bytes] = []
        self._seal = PLAIN_SEAL
        index = b',"summary_index":0' if summary else b',"content_index":0'
        self._place = field(b"item_id", rawjson.encode(id)) + index
        text = b"reasoning" if standard else b"reasoning_text"
        self._name = b"reasoning_summary_text" if summary else text

    def seal(self, seal: Seal) -> None:
        """What its vendor wants back."""
        self._seal = seal
        self.held += len(seal.content)

    def added(self) -> Iterator[Event]:
        """See ``OutputItem``."""
        yield b"output_item.added", field(b"item", self._item("in_progress", whole=False))

    def piece(self, piece: bytes, logprobs: bytes = NO_LOGPROBS) -> Iterator[Event]:
        """See ``OutputItem``. The part begins with its first piece: sealed reasoning may have no text at all."""
        if not self._pieces and self._summary:
            yield b"reasoning_summary_part.added", self._place + field(b"part", self._part(EMPTY))
        self._pieces.append(piece)
        self.held += len(piece)
        yield self._name + b".delta", self._place + field(b"delta", piece)

    def ended(self, status: str) -> Iterator[Event]:
        """See ``OutputItem``."""
        if self._pieces:
            text = join_strings(self._pieces)
            yield self._name + b".done", self._place + field(b"text", text)
            if self._summary:
                yield b"reasoning_summary_part.done", self._place + field(b"part", self._part(text))
        yield b"output_item.done", field(b"item", self.done(status))

    def done(self, status: str) -> bytes:
        """See ``OutputItem``."""
        return self._item(status, whole=True)

    def _part(self, text: bytes) -> bytes:
        return b'{"type":"%b","text":%b}' % (b"summary_text" if self._summary else b"reasoning_text", text)

    def _item(self, status: str, *, whole: bool) -> bytes:
        parts = b"[%b]" % (self._part(join_strings(self._pieces)) if whole and self._pieces else b"")
        fields: dict[str, Any] = {"id": self.id, "type": "reasoning", "summary": [], "status": status}
        if self._summary:
            fields["summary"] = msgspec.Raw(parts)
        elif whole and self._pieces:
            fields["content"] = msgspec.Raw(parts)
        if self._sealed and whole:
            fields["encrypted_content"] = wrap(self._seal)
        return rawjson.encode(fields)


class ImageItem:
    """An image that the model made."""

    def __init__(self, id: str, medium: Medium) -> None:
        self.id = id
        self.held = len(medium.data)
        self._medium = medium
        self._place = field(b"item_id", rawjson.encode(id))

    def added(self) -> Iterator[Event]:
        """See ``OutputItem``."""
        begun = {"id": self.id, "type": "image_generation_call", "status": "in_progress", "result": None}
        yield b"output_item.added", field(b"item", rawjson.encode(begun))

    def piece(self, piece: bytes, logprobs: bytes = NO_LOGPROBS) -> Iterator[Event]:
        """See ``OutputItem``: it comes whole."""
        return iter(())

    def ended(self, status: str) -> Iterator[Event]:
        """See ``OutputItem``."""
        yield b"image_generation_call.completed", self._place
        yield b"output_item.done", field(b"item", self.done(status))

    def done(self, status: str) -> bytes:
        """See ``OutputItem``."""
        form = self._medium.type.partition("/")[2] or "png"
        more = {"status": "completed", "output_format": form, "result": self._medium.data or self._medium.url}
        return rawjson.encode({"id": self.id, "type": "image_generation_call", **more})


class FunctionItem:
    """The call of a function."""

    def __init__(self, id: str, call: str, tool: ClientTool) -> None:
        self.id = id
        self.held = 0
        self._pieces: list[bytes] = []
        self._place = field(b"item_id", rawjson.encode(id))
        self._head = {"id": id, "type": "function_call", "call_id": call, "name": tool.name}
        if tool.namespace:
            self._head["namespace"] = tool.namespace

    def added(self) -> Iterator[Event]:
        """See ``OutputItem``."""
        yield b"output_item.added", field(b"item", self._item(EMPTY, "in_progress"))

    def piece(self, piece: bytes, logprobs: bytes = NO_LOGPROBS) -> Iterator[Event]:
        """See ``OutputItem``."""
        self._pieces.append(piece)
        self.held += len(piece)
        yield b"function_call_arguments.delta", self._place + field(b"delta", piece)

    def ended(self, status: str) -> Iterator[Event]:
        """See ``OutputItem``. A call without arguments has an empty object of them."""
        if not self._pieces and status == COMPLETED:
            yield from self.piece(b'"{}"')
        name = field(b"name", rawjson.encode(self._head["name"]))
        yield b"function_call_arguments.done", self._place + name + field(b"arguments", join_strings(self._pieces))
        yield b"output_item.done", field(b"item", self.done(status))

    def done(self, status: str) -> bytes:
        """See ``OutputItem``."""
        return self._item(join_strings(self._pieces), status)

    def _item(self, arguments: bytes, status: str) -> bytes:
        return rawjson.encode({**self._head, "arguments": msgspec.Raw(arguments), "status": status})


class CustomItem:
    """The call of a custom tool. The model wrote the input as a JSON object; the client gets the text in it."""

    def __init__(self, id: str, call: str, tool: ClientTool, *, bare: bool = False) -> None:
        """``bare``: the upstream has custom tools itself, so that the pieces are the input."""
        self.id = id
        self.held = 0
        self._unwrapped = None if bare else InputText()
        self._pieces: list[bytes] = []
        self._place = field(b"item_id", rawjson.encode(id))
        self._head = {"id": id, "type": "custom_tool_call", "call_id": call, "name": tool.name}
        if tool.namespace:
            self._head["namespace"] = tool.namespace

    def added(self) -> Iterator[Event]:
        """See ``OutputItem``."""
        yield b"output_item.added", field(b"item", self._item(EMPTY, "in_progress"))

    def piece(self, piece: bytes, logprobs: bytes = NO_LOGPROBS) -> Iterator[Event]:
        """See ``OutputItem``."""
        self.held += len(piece)
        text = rawjson.text(piece)
        yield from self._add(text if self._unwrapped is None else self._unwrapped.feed(text))

    def ended(self, status: str) -> Iterator[Event]:
        """See ``OutputItem``."""
        yield from self._add("" if self._unwrapped is None else self._unwrapped.end())
        yield b"custom_tool_call_input.done", self._place + field(b"input", join_strings(self._pieces))
        yield b"output_item.done", field(b"item", self.done(status))

    def done(self, status: str) -> bytes:
        """See ``OutputItem``."""
        return self._item(join_strings(self._pieces), status)

    def _add(self, text: str) -> Iterator[Event]:
        if text:
            piece = rawjson.encode(text)
            self._pieces.append(piece)
            yield b"custom_tool_call_input.delta", self._place + field(b"delta", piece)

    def _item(self, text: bytes, status: str) -> bytes:
        return rawjson.encode({**self._head, "input": msgspec.Raw(text), "status": status})


class OwnToolItem:
    """The call of a tool that the client has by itself: a shell, a patch, the search for tools.

    Its arguments are an object in the item, so nothing of it is sent before they are complete.
    """

    def __init__(self, id: str, call: str, tool: ClientTool) -> None:
        self.id = id
        self.held = 0
        self._call = call
        self._kind = tool.kind
        self._pieces: list[bytes] = []

    def added(self) -> Iterator[Event]:
        """See ``OutputItem``."""
        return iter(())

    def piece(self, piece: bytes, logprobs: bytes = NO_LOGPROBS) -> Iterator[Event]:
        """See ``OutputItem``."""
        self._pieces.append(piece)
        self.held += len(piece)
        return iter(())

    def ended(self, status: str) -> Iterator[Event]:
        """See ``OutputItem``."""
        yield b"output_item.added", field(b"item", self.done("in_progress"))
        yield b"output_item.done", field(b"item", self.done(status))

    def done(self, status: str) -> bytes:
        """See ``OutputItem``."""
        text = rawjson.text(join_strings(self._pieces))
        found = rawjson.maybe(text.encode("utf-8", "surrogatepass"))
        given = found if isinstance(found, dict) else {}
        head = {"id": self.id, "type": f"{self._kind}_call", "call_id": self._call}
        return rawjson.encode({**head, **_OWN[self._kind](given, text), "status": status})


def _local_shell(given: dict[str, Any], _: str) -> dict[str, Any]:
    action = {name: given[name] for name in ("working_directory", "timeout_ms", "user") if name in given}
    env = given.get("env")
    return {
        "action": {
            "type": "exec",
            "command": _commands(given.get("command"), ["bash", "-lc"]),
            "env": env if isinstance(env, dict) else {},
            **action,
        }
    }


def _shell(given: dict[str, Any], _: str) -> dict[str, Any]:
    action = {name: given[name] for name in ("timeout_ms", "max_output_length") if name in given}
    return {"action": {"commands": _commands(given.get("commands"), []), **action}, "environment": {"type": "local"}}


def _commands(found: object, shell: list[str]) -> list[str]:
    """The words of a command. Models also write one line for a ``shell``."""
    if isinstance(found, str):
        return [*shell, found]
    return [word for word in found if isinstance(word, str)] if isinstance(found, list) else []


def _apply_patch(given: dict[str, Any], text: str) -> dict[str, Any]:
    """An operation without a path fails at the client, whose error the model reads."""
    kind = given.get("type") if given.get("type") in ("create_file", "delete_file") else "update_file"
    operation = {"type": kind, "path": str(given.get("path") or "")}
    if kind != "delete_file":
        operation["diff"] = str(given.get("diff") or ("" if given else text))
    return {"operation": operation}


def _tool_search(given: dict[str, Any], text: str) -> dict[str, Any]:
    return {"execution": "client", "arguments": given or ({"query": text} if text.strip() not in ("", "{}") else {})}


_OWN = {
    ToolKind.LOCAL_SHELL: _local_shell,
    ToolKind.SHELL: _shell,
    ToolKind.APPLY_PATCH: _apply_patch,
    ToolKind.TOOL_SEARCH: _tool_search,
}

PREFIXES = {
    ToolKind.FUNCTION: "fc",
    ToolKind.CUSTOM: "ctc",
    ToolKind.TOOL_SEARCH: "tsc",
    ToolKind.LOCAL_SHELL: "lsh",
    ToolKind.SHELL: "sh",
    ToolKind.APPLY_PATCH: "apc",
}
"""What the ids of items begin with."""


def call_item(id: str, call: str, tool: ClientTool, *, bare: bool) -> OutputItem:
    """The item of a call."""
    if tool.kind is ToolKind.FUNCTION:
        return FunctionItem(id, call, tool)
    if tool.kind is ToolKind.CUSTOM:
        return CustomItem(id, call, tool, bare=bare)
    return OwnToolItem(id, call, tool)
