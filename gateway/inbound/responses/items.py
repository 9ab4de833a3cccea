"""Reads the input items of the Responses API as turns of a conversation.

Items are smaller than messages: a text, reasoning and each call of a tool are items of their own. What an assistant
wrote and called becomes one turn; ``Transcript`` puts the results where they belong.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import PLAIN_SEAL, SealKind, parse_seal
from gateway.domain.conversation import CallPart, MediaPart, ResultPart, TextPart, ThoughtPart, join_texts
from gateway.domain.errors import BadRequest, unsupported_param
from gateway.domain.rawjson import NULL
from gateway.domain.text import plain
from gateway.domain.transcript import Transcript
from gateway.domain.typed_json import read_typed
from gateway.inbound.chat.contents import call_arguments, read_content, read_result, result_parts
from gateway.inbound.chat.conversation import ROLES
from gateway.inbound.media import image_part
from gateway.inbound.messages.tools import readable_texts
from gateway.inbound.responses.relay import REASONING
from gateway.inbound.responses.summary import COMPACTIONS, summary_in
from gateway.inbound.responses.tools import ClientTool, ToolKind, ToolTable

_CALL_KINDS = {"custom_tool_call" if kind is ToolKind.CUSTOM else f"{kind}_call": kind for kind in ToolKind}
"""The kinds of tools by the types of items with their calls."""
_OUTPUT_TYPES = frozenset({"tool_search_output", *(f"{call_type}_output" for call_type in _CALL_KINDS)})
_DESCRIBED_TYPES = frozenset(
    {
        *("web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "computer_call"),
        *("computer_call_output", "mcp_call", "mcp_list_tools", "mcp_approval_request", "mcp_approval_response"),
        *("program", "program_output", "agent_message"),
    }
)
"""Items of a vendor's own tools, and messages of Codex's agents. The model gets a description of each as text."""


class _InputItem(msgspec.Struct, frozen=True, gc=False):
    type: str | None = None
    role: str = ""
    id: str | None = None
    call_id: str | int | None = None
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
    tool_calls: msgspec.Raw = NULL
    reasoning: msgspec.Raw = NULL
    text: msgspec.Raw = NULL

    @property
    def kind(self) -> str:
        """Returns the item's type, which messages and references may omit."""
        return self.type or ("message" if self.role else "item_reference")

    @property
    def any_call_id(self) -> str:
        """Returns the id of a call, or of the call that a result belongs to."""
        return str(self.call_id or self.id or "")


class InputReader:
    """Reads the items of one request into its attributes. Some items add to ``tools``."""

    def __init__(self, tools: ToolTable) -> None:
        self.transcript = Transcript()
        self.tools = tools
        self.lost: dict[str, None] = {}
        """The names of the client's fields that are left out; a dict, to keep their order."""
        self.updates: dict[str, msgspec.Raw] = {}
        """The values that items set for the request's ``reasoning`` and ``text``; the last one of each counts."""
        self._signatures: dict[str, str] = {}
        """Gemini's signatures, by the ids of their calls."""

    def read(self, content: msgspec.Raw, param: str = "input", role: str = "user") -> None:
        """Read all items, or a text of this role. Raises BadRequest for items that only the vendor can read."""
        if rawjson.is_text(content):
            self.transcript.add(role, [TextPart(raw=content)])
            return
        for number, raw in enumerate(rawjson.items(content)):
            place = f"{param}[{number}]"
            self._read_item(read_typed(_InputItem, raw, place), raw, place)

    def _read_item(self, item: _InputItem, raw: msgspec.Raw, param: str) -> None:
        kind = item.kind
        if kind == "message":
            self._read_message(item, param)
        elif kind in ("tool_search_call", "tool_search_output") and item.call_id is None:  # OpenAI's servers made it
            self.tools.add(item.tools or (), f"{param}.tools")
            self._describe(kind, raw, param)
        elif kind in _CALL_KINDS:
            self.transcript.add("assistant", [self._call_part(item, _CALL_KINDS[kind])])
        elif kind in _OUTPUT_TYPES:
            parts = self._result_parts(item, param)
            self.transcript.add("tool", [ResultPart(call_id=item.any_call_id, parts=tuple(parts))])
        elif kind == "reasoning":
            self.transcript.add("assistant", [self._thought_part(item)])
        elif kind in COMPACTIONS:
            summary = summary_in(rawjson.text_at(item.encrypted_content))
            if summary is None:
                raise unsupported_param(param, "only its vendor can read this compacted conversation")
            self.transcript.add("user", [TextPart(raw=rawjson.raw(summary))])
        elif kind in ("additional_tools", "configuration_update"):
            self.tools.add(item.tools or (), f"{param}.tools")
            settings = {"reasoning": item.reasoning, "text": item.text}
            self.updates |= {name: raw for name, raw in settings.items() if not rawjson.is_null(raw)}
        elif kind in _DESCRIBED_TYPES:
            self._describe(kind, raw, param)
        else:
            raise _unreadable_item(item, param)

    def _read_message(self, item: _InputItem, param: str) -> None:
        role = ROLES.get(item.role)
        if role is None:
            raise BadRequest(f"{param}.role: must be user, assistant, system or developer", param=f"{param}.role")
        if item.role == "assistant" and b'_citation"' in bytes(item.content):
            self.lost["input[].annotations"] = None
        if not rawjson.is_nothing(item.tool_calls):  # a chat has them there
            self.lost["input[].tool_calls"] = None
        self.transcript.add(role, read_content(item.content, f"{param}.content", self.transcript))

    def _describe(self, kind: str, raw: msgspec.Raw, param: str) -> None:
        """Add what an item says to the transcript, as a text with its picture, and what they leave out to ``lost``."""
        item = rawjson.value(raw)
        picture, name = _picture_in(kind, item), _LOST_FIELDS.get(kind, "")
        if name and not picture and b'"%b"' % name.encode() in bytes(raw):
            self.lost[f"input[].{kind}.{name}"] = None
        for name in ("action", *_ENCODED) if kind == "computer_call" else _ENCODED:
            if not isinstance(item.get(name), str | None):
                item[name] = rawjson.encode(item[name]).decode()
        shown_fields = {"prompt": item.get("revised_prompt")} if kind == "image_generation_call" else item
        text = "\n".join([f"[{kind}]", *readable_texts(shown_fields)])
        role = "user" if kind == "agent_message" else "assistant"
        shown = [image_part(picture, param)] if picture else []
        self.transcript.add(role, [TextPart(raw=rawjson.raw(text)), *shown])

    def _call_part(self, item: _InputItem, kind: ToolKind) -> CallPart:
        return CallPart(
            id=item.any_call_id,
            name=self.tools.function_name(ClientTool(kind, item.name or kind.value, item.namespace or "")),
            arguments=self.transcript.arguments(_arguments(item, kind)),
            signature=self._signatures.get(item.any_call_id, ""),
        )

    def _thought_part(self, item: _InputItem) -> ThoughtPart:
        """Returns reasoning without what another vendor sealed. Keeps Gemini's signatures for the calls that follow."""
        text = rawjson.maybe(item.encrypted_content)
        seal = parse_seal(text) if isinstance(text, str) else PLAIN_SEAL
        if seal is None:
            return ThoughtPart(name=REASONING)
        content = rawjson.maybe(seal.content)
        if seal.kind is SealKind.ANTHROPIC:
            signed = tuple(map(rawjson.raw, content if isinstance(content, list) else ()))
            return ThoughtPart(signed=signed, maker=seal.kind, name=REASONING)
        if seal.kind is SealKind.GEMINI:
            self._signatures.update(content if isinstance(content, dict) else {})
        blocks = read_content(item.content, "reasoning", self.transcript)
        blocks = blocks or read_content(item.summary, "reasoning", self.transcript)
        texts = [block.raw for block in blocks if isinstance(block, TextPart)]
        return ThoughtPart(text=join_texts(texts), maker=seal.kind, name=REASONING)

    def _result_parts(self, item: _InputItem, param: str) -> Sequence[TextPart | MediaPart]:
        """Returns the result of a call. That of a search adds tools, which can be called from now on."""
        if item.kind == "tool_search_output":
            names = self.tools.add(item.tools or (), f"{param}.tools")
            return [TextPart(raw=rawjson.raw(rawjson.encode({"tools": names}).decode()))]
        if item.kind == "shell_call_output":
            return [TextPart(raw=rawjson.raw(bytes(item.output).decode()))]
        if item.kind == "apply_patch_call_output":
            texts = [raw for raw in (item.status, item.output) if rawjson.is_text(raw)]
            return [TextPart(raw=join_texts(texts, rb"\n"))]
        return result_parts(read_result(item.output, f"{param}.output", self.transcript))


def _unreadable_item(item: _InputItem, param: str) -> BadRequest:
    if item.kind == "item_reference":
        msg = f"{param}: the item '{plain(item.id or '', 80)}' is not kept here; send the whole input"
        return BadRequest(msg, code="previous_response_not_found", param=param)
    reason = "this kind of item has no counterpart at this channel"
    if item.kind == "compaction_trigger":
        reason = "it must be in the input of a request of its own"
    return unsupported_param(param, f"an item of type '{plain(item.kind, 40)}': {reason}")


def _arguments(item: _InputItem, kind: ToolKind) -> bytes:
    if kind is ToolKind.FUNCTION:
        return call_arguments(bytes(item.arguments))
    if kind is ToolKind.CUSTOM:
        return b'{"input":%b}' % bytes(item.input)
    arguments = {ToolKind.TOOL_SEARCH: item.arguments, ToolKind.APPLY_PATCH: item.operation}
    return bytes(arguments.get(kind, item.action))


_ENCODED = ("actions", "approve", "error")
"""Fields of an item that its description shows as JSON; MCP servers report errors as objects."""
_LOST_FIELDS = {
    "image_generation_call": "id",
    "mcp_list_tools": "tools",
    "agent_message": "encrypted_content",
    "computer_call_output": "output",
}
"""The field of an item that its description leaves out."""


def _picture_in(kind: str, item: dict[str, Any]) -> str:
    """Returns the address of the picture that a tool made, or its data as an address; else an empty string."""
    if kind == "computer_call_output":
        return rawjson.text_at(item, "output", "image_url")
    result = rawjson.text_at(item, "result") if kind == "image_generation_call" else ""
    return f"data:image/png;base64,{result}" if result and not result.startswith("http") else result
