"""Input items of the Responses API as messages of a chat completion.

Items are smaller than messages: text, reasoning and each call of a tool are items of their own. What an assistant wrote
and called up to the first result becomes one message. Results follow the message with their calls, wherever they stood.
Interrupted turns leave calls without results and results without calls, which no upstream accepts: the former get one
that says so, the latter are left out.

What only the vendor can express is a fault. It is kept, not raised: a channel that speaks this API gets the request as
it came. Texts stay the bytes they came as, so that marks of long strings survive (see ``long_strings``).
"""

from typing import Any

import msgspec

from gateway.domain.answer import SealKind
from gateway.domain.errors import BadRequest
from gateway.domain.long_strings import LongStrings
from gateway.domain.text import plain
from gateway.inbound.json_body import read_typed
from gateway.inbound.responses.content import chain_contents, glue_texts, joined_text, read_content, texts_only
from gateway.inbound.responses.tools import ClientTool, ToolKind, ToolTable
from gateway.inbound.sealed import unwrap
from gateway.upstream import rawjson
from gateway.upstream.rawjson import NULL

NO_OUTPUT = msgspec.Raw(b'"[no output]"')
_EMPTY = msgspec.Raw(b'""')
_ROLES = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}
"""OpenAI reads ``system`` as ``developer`` where it must; few others know the newer word."""
_CALLS = {
    "function_call": ToolKind.FUNCTION,
    "custom_tool_call": ToolKind.CUSTOM,
    "tool_search_call": ToolKind.TOOL_SEARCH,
    "local_shell_call": ToolKind.LOCAL_SHELL,
    "shell_call": ToolKind.SHELL,
    "apply_patch_call": ToolKind.APPLY_PATCH,
}
_OUTPUTS = frozenset(
    {
        *("function_call_output", "custom_tool_call_output", "tool_search_output", "local_shell_call_output"),
        *("shell_call_output", "apply_patch_call_output"),
    }
)
_TOLD = frozenset(
    {
        *("web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "computer_call"),
        *("computer_call_output", "mcp_call", "mcp_list_tools", "mcp_approval_request", "mcp_approval_response"),
        *("program", "program_output"),
    }
)
"""What a vendor's own tools did. Elsewhere the model reads it as a line of text."""
_FOREIGN = {
    "item_reference": "items are not kept here; send them in full",
    "compaction": "only its vendor can read a compacted conversation",
    "compaction_trigger": "only its vendor can compact a conversation",
    "configuration_update": "it has no counterpart at this channel",
}


class InputItem(msgspec.Struct, frozen=True, gc=False):
    """What is read of an item, whichever it is."""

    type: str = ""
    role: str = ""
    id: str | None = None
    call_id: str | None = None
    name: str = ""
    namespace: str | None = None
    content: msgspec.Raw = NULL
    arguments: msgspec.Raw = NULL
    input: msgspec.Raw = NULL
    output: msgspec.Raw = NULL
    action: msgspec.Raw = NULL
    operation: msgspec.Raw = NULL
    status: msgspec.Raw = NULL
    summary: msgspec.Raw = NULL
    encrypted_content: msgspec.Raw = NULL
    tools: list[msgspec.Raw] | None = None

    @property
    def kind(self) -> str:
        """Its type; messages and references may leave it out."""
        return self.type or ("message" if self.role else "item_reference")

    @property
    def call(self) -> str:
        """The id of the call that it is, or answers."""
        return self.call_id or self.id or ""


_ITEM = msgspec.json.Decoder(InputItem)


class InputReader:
    """Reads the items of one request. ``messages``, and the ``tools`` that items bring, are the result."""

    def __init__(self, tools: ToolTable, long: LongStrings) -> None:
        self.messages: list[dict[str, Any]] = []
        self.fault: BadRequest | None = None
        """The first thing that has no counterpart in a chat completion."""
        self.sealed = False
        """There is reasoning in the messages that only some channels want."""
        self.tools = tools
        self._long = long
        self._assistant: dict[str, Any] | None = None
        """The assistant's message that is not complete yet."""
        self._calls: list[int] = []
        """Which items are its calls."""
        self._results: dict[int, tuple[str, InputItem]] = {}
        """Where it is, and the item, by the number of the call's item."""
        self._signatures: dict[str, str] = {}

    def instruct(self, instructions: msgspec.Raw) -> None:
        """The text that stands before all others. It may also be items."""
        if bytes(memoryview(instructions)[:1]) == b"[":
            self.read(instructions, "instructions")
        elif not rawjson.is_null(instructions):
            self.messages.append({"role": "system", "content": instructions})

    def read(self, given: msgspec.Raw, where: str = "input") -> None:
        """All items, or the one text."""
        if bytes(memoryview(given)[:1]) == b'"':
            self.messages.append({"role": "user", "content": given})
            return
        items: list[tuple[int, msgspec.Raw, InputItem]] = []
        for number, raw in enumerate(rawjson.items(given)):
            try:
                items.append((number, raw, read_typed(_ITEM, raw, f"{where}[{number}]")))
            except BadRequest as fault:
                self._fail(fault)
        self._pair(items, where)
        for number, raw, item in items:
            try:
                self._read(number, item, raw, f"{where}[{number}]")
            except BadRequest as fault:
                self._fail(fault)
        self._close()

    def _pair(self, items: list[tuple[int, msgspec.Raw, InputItem]], where: str) -> None:
        """Find the result of each call. Some models give the same id to calls of different turns."""
        self._results = {}
        waiting: dict[str, int] = {}
        for number, _, item in items:
            if item.kind in _CALLS:
                waiting[item.call] = number
            elif item.kind in _OUTPUTS and (call := waiting.pop(item.call, None)) is not None:
                self._results[call] = f"{where}[{number}]", item

    def _fail(self, fault: BadRequest) -> None:
        self.fault = self.fault or fault

    def _read(self, number: int, item: InputItem, raw: msgspec.Raw, where: str) -> None:
        kind = item.kind
        if kind == "message":
            self._message(item, where)
        elif kind in _CALLS:
            self._call(item, _CALLS[kind], where)
            self._calls.append(number)
        elif kind in _OUTPUTS:
            self._close()
        elif kind == "reasoning":
            self._reasoning(item)
        elif kind == "additional_tools":
            self.tools.add(item.tools or (), f"{where}.tools")
        elif kind in _TOLD:
            self._say(rawjson.raw(_describe_tool(kind, rawjson.value(self._long.full(raw)))))
        else:
            why = _FOREIGN.get(kind, "this kind of item has no counterpart at this channel")
            msg = f"{where}: an item of type '{plain(kind, 40)}': {why}"
            raise BadRequest(msg, code="unsupported_parameter", param=where)

    def _message(self, item: InputItem, where: str) -> None:
        role = _ROLES.get(item.role)
        if role is None:
            msg = f"{where}.role: must be user, assistant, system or developer"
            raise BadRequest(msg, param=f"{where}.role")
        parts = read_content(item.content, f"{where}.content")
        if role == "assistant":
            self._say(joined_text(parts) if texts_only(parts) else rawjson.raw(parts))
            return
        self._close()
        single = joined_text(parts) if len(parts) == 1 and texts_only(parts) else rawjson.raw(parts)
        self.messages.append({"role": role, "content": single if parts else _EMPTY})

    def _say(self, content: msgspec.Raw) -> None:
        """The assistant's text. Behind its calls there is no place for a message of its own."""
        if self._assistant is not None and "content" in self._assistant:
            content = chain_contents(self._assistant["content"], content)
        self._open()["content"] = content

    def _open(self) -> dict[str, Any]:
        if self._assistant is None:
            self._assistant = {"role": "assistant"}
        return self._assistant

    def _call(self, item: InputItem, kind: ToolKind, where: str) -> None:
        if not item.call:
            raise BadRequest(f"{where}.call_id: is required", code="missing_required_parameter", param=where)
        tool = ClientTool(kind, item.name or kind.value, item.namespace or "")
        call: dict[str, Any] = {
            "id": item.call,
            "type": "function",
            "function": {"name": self.tools.name(tool), "arguments": _arguments(item, kind, self._long)},
        }
        if (signature := self._signatures.get(item.call)) is not None:
            call["extra_content"] = {"google": {"thought_signature": signature}}
        self._open().setdefault("tool_calls", []).append(call)

    def _reasoning(self, item: InputItem) -> None:
        text = rawjson.maybe(self._long.full(item.encrypted_content))
        seal = unwrap(text) if isinstance(text, str) else None
        if seal is None:
            return
        self.sealed = True
        if seal.kind is SealKind.GEMINI:
            signatures = rawjson.maybe(seal.content)
            self._signatures.update(signatures if isinstance(signatures, dict) else {})
        elif seal.kind is SealKind.ANTHROPIC:
            if self._assistant is not None and self._assistant.keys() & {"content", "tool_calls"}:
                self._close()  # later thoughts must not precede earlier words
            blocks = rawjson.maybe(seal.content)
            self._open().setdefault("thinking_blocks", []).extend(blocks if isinstance(blocks, list) else ())
        elif (text := _reasoning_text(item)) is not None:
            known = self._open().get("reasoning_content")
            self._open()["reasoning_content"] = text if known is None else chain_contents(known, text)

    def _close(self) -> None:
        """The assistant's message is complete; the results of its calls follow."""
        message, self._assistant = self._assistant, None
        calls, self._calls = self._calls, []
        if message is None or not message.keys() & {"content", "tool_calls"}:
            return  # there was only reasoning
        message.setdefault("content", NULL)
        self.messages.append(message)
        images: list[dict[str, Any]] = []
        for number, call in zip(calls, message.get("tool_calls", ()), strict=True):
            content = self._result(number, call["id"], images)
            self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})
        if images:
            self.messages.append({"role": "user", "content": images})

    def _result(self, number: int, call: str, images: list[dict[str, Any]]) -> msgspec.Raw:
        """The text of a call's result. What is not text goes to ``images``."""
        if number not in self._results:
            return NO_OUTPUT
        where, item = self._results[number]
        try:
            return self._output(item, where, call, images)
        except BadRequest as fault:
            self._fail(fault)
            return NO_OUTPUT

    def _output(self, item: InputItem, where: str, call: str, images: list[dict[str, Any]]) -> msgspec.Raw:
        if item.kind == "tool_search_output":
            return self._found(item, f"{where}.tools")
        if item.kind == "shell_call_output":
            return rawjson.raw(self._long.full(item.output).decode())
        if item.kind == "apply_patch_call_output":
            texts = [raw for raw in (item.status, item.output) if bytes(memoryview(raw)[:1]) == b'"']
            return glue_texts(texts, rb"\n")
        parts = read_content(item.output, f"{where}.output")
        texts = [part["text"] for part in parts if part["type"] == "text"]
        others = [part for part in parts if part["type"] != "text"]
        if others:
            images.extend(others)
            texts.append(rawjson.raw(f"[{others[0]['type'].removesuffix('_url')} of tool result {call}]"))
        return glue_texts(texts, rb"\n")

    def _found(self, item: InputItem, where: str) -> msgspec.Raw:
        """The result of a search for tools: they can be called from now on."""
        before = len(self.tools.functions)
        self.tools.add(item.tools or (), where)
        names = [rawjson.fields(one["function"])["name"] for one in self.tools.functions[before:]]
        return rawjson.raw(rawjson.encode({"tools": names}).decode())


def _arguments(item: InputItem, kind: ToolKind, long: LongStrings) -> msgspec.Raw:
    """The JSON text of the arguments, as a JSON string."""
    if kind is ToolKind.FUNCTION:
        return _EMPTY if rawjson.is_null(item.arguments) else item.arguments
    if kind is ToolKind.CUSTOM:
        return rawjson.raw('{"input":' + long.full(item.input).decode() + "}")
    given = {
        ToolKind.TOOL_SEARCH: item.arguments,
        ToolKind.APPLY_PATCH: item.operation,
    }.get(kind, item.action)
    return rawjson.raw(long.full(given).decode())


def _reasoning_text(item: InputItem) -> msgspec.Raw | None:
    """What was thought, as the client had it to read."""
    for content in (item.content, item.summary):
        parts = [] if rawjson.is_null(content) else read_content(content, "reasoning")
        if parts and texts_only(parts):
            return glue_texts([part["text"] for part in parts], rb"\n\n")
    return None


_ASKED = ("name", "query", "queries", "url", "pattern", "arguments", "code", "revised_prompt")
_BROUGHT = ("filename", "title", "url", "text", "logs")


def _describe_tool(kind: str, item: Any) -> str:
    """What a vendor's own tool did, and what came of it."""
    holders = [holder for holder in (item, item.get("action")) if isinstance(holder, dict)]
    lines = [" ".join([f"[{kind}]", *_texts(holders, _ASKED)])]
    for name in ("results", "outputs"):
        found = item.get(name)
        lines += _texts(found if isinstance(found, list) else [], _BROUGHT)
    if isinstance(item.get("output"), str):
        lines.append(item["output"])
    return "\n".join(lines)


def _texts(holders: list[Any], names: tuple[str, ...]) -> list[str]:
    values = [holder.get(name) for holder in holders if isinstance(holder, dict) for name in names]
    flat = [text for value in values for text in (value if isinstance(value, list) else [value])]
    return [text for text in flat if isinstance(text, str) and text]
