"""Reads a Messages request into a ``Conversation``, for channels that do not speak Messages.

What has no counterpart and may not be left out is refused with 400. All other fields that are lost are named in
``x-gateway-dropped-params``.
"""

import hashlib
import re
from collections.abc import Mapping

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import PLAIN_SEAL, AnswerForm, Seal, SealKind, parse_seal
from gateway.domain.conversation import (
    Block,
    CallPart,
    Conversation,
    MediaPart,
    ResultPart,
    TextPart,
    ThoughtPart,
    join_texts,
)
from gateway.domain.errors import BadRequest, unsupported_param
from gateway.domain.order import Order
from gateway.domain.rawjson import NULL, Fields, is_nothing
from gateway.domain.transcript import Transcript
from gateway.domain.typed_json import read_typed
from gateway.inbound.json_body import check_text, unread_names
from gateway.inbound.media import document_part, image_part
from gateway.inbound.messages.tools import TOOL_CHANGE_TYPES, changed_tools, is_known_block, read_tools, readable_texts
from gateway.upstream.anthropic.messages import TOOLS
from gateway.upstream.efforts import sent_effort

_BILLING_LINE = re.compile(rb'"x-anthropic-billing-header:(?:[^"\\]|\\[^n])*(?:\\n)*')


class _ContentBlock(msgspec.Struct, gc=False):
    type: str
    text: msgspec.Raw = NULL
    source: msgspec.Raw = NULL
    """An object, or the address of a search result."""
    title: msgspec.Raw = NULL
    context: msgspec.Raw = NULL
    citations: msgspec.Raw = NULL
    content: msgspec.Raw = NULL
    id: str | int | None = None
    name: str = ""
    input: msgspec.Raw = NULL
    tool_use_id: str | int | None = None
    tool_name: str = ""
    server_name: str = ""
    tool: msgspec.Raw = NULL
    """A tool that is added or removed from here on."""
    tool_changes: list["_ContentBlock"] | None = None
    """What was added and removed in the messages that a compaction stands for."""
    is_error: bool | None = None
    thinking: msgspec.Raw = NULL
    signature: str | None = None
    cache_control: msgspec.Raw = NULL


class _Message(msgspec.Struct, gc=False):
    """One message; ``content`` is a string or an array of blocks."""

    role: str
    content: msgspec.Raw = NULL
    clear_at: str | None = None
    output_config: msgspec.Raw = NULL
    """In a system message, the effort for the answers until the user writes again."""


SAMPLING = ("temperature", "top_p", "top_k")
"""Fields that chat completions have under the same name. Their values are passed on unread."""
_READ_FIELDS = frozenset(
    {
        *("model", "messages", "system", "stream", "tools", "tool_choice", "max_tokens", "temperature", "top_p"),
        *("top_k", "stop_sequences", "thinking", "output_config", "output_format", "metadata", "service_tier"),
    }
)
_PARAM_NAMES = {
    "max_completion_tokens": "max_tokens",
    "stop": "stop_sequences",
    "reasoning_effort": "thinking",
    "response_format": "output_config.format",
    "safety_identifier": "metadata",
    "service_tier": "service_tier",
    "parallel_tool_calls": "tool_choice.disable_parallel_tool_use",
}
"""The client's names of parameters, by their names in chat completions."""
_READ_MEMBERS = {
    "thinking": {"type", "budget_tokens"},
    "output_config": {"effort", "format"},
    "tool_choice": {"type", "name", "disable_parallel_tool_use"},
}
"""The members that are read, by the field that has them."""
_TIERS = {"auto": "auto", "standard_only": "default"}
_UNTRANSLATABLE = {
    "mcp_servers": "can call MCP servers",
    "compaction": "answers with a compacted conversation",
    "container.skills": "has skills",
}
"""Fields that may not be left out because the answer would change, with what a channel of the dialect does."""


def translate_messages(order: Order) -> Order:
    """Returns the order with its conversation. Raises BadRequest."""
    request = order.fields
    _refuse_untranslatable(request)
    reader = _MessageReader()
    reader.read_system(request.get("system", NULL))
    messages = read_typed(list[_Message], request["messages"], "messages")
    last_user = max((i for i, message in enumerate(messages) if message.role == "user"), default=-1)
    for position, message in enumerate(messages):
        reader.read(message, f"messages.{position}", is_current=position > last_user)
    if reader.effort:
        config = rawjson.maybe_fields(request.get("output_config")) | {"effort": rawjson.raw(reader.effort)}
        request = {**request, "output_config": rawjson.raw(config)}
    parameters, param_names, dropped = _translate_parameters(request)
    all_tools = changed_tools(request.get("tools", NULL), reader.tool_changes)
    tools, choice, lost_tools = read_tools({**request, "tools": all_tools})
    unread = [name for name, raw in request.items() if name not in _READ_FIELDS and not is_nothing(raw)]
    conversation = Conversation(
        turns=reader.transcript.turns,
        tools=tools,
        choice=choice,
        param_names=param_names,
        extras=(*lost_tools, *dropped, *reader.lost, *unread),
    )
    fields = {"model": request["model"], **parameters}
    if tools and rawjson.at(request.get("tool_choice"), "disable_parallel_tool_use"):
        fields["parallel_tool_calls"] = msgspec.Raw(b"false")
    if order.stream:
        fields["stream"] = request["stream"]
    form, marks = AnswerForm(muted=rawjson.maybe(request["max_tokens"]) == 0), reader.transcript.marks
    return msgspec.structs.replace(
        order, fields=fields, body=b"", conversation=conversation, marks=marks, forward={}, query="", form=form
    )


def _refuse_untranslatable(fields: Fields) -> None:
    for path, reason in _UNTRANSLATABLE.items():
        name, *members = path.split(".")
        if rawjson.at(fields.get(name), *members):
            raise unsupported_param(path, f"only a channel of dialect anthropic {reason}")


class _MessageReader:
    """Reads the messages of one request. The result is ``transcript``."""

    def __init__(self) -> None:
        self.transcript = Transcript()
        self.tool_changes: list[tuple[str, msgspec.Raw]] = []
        """Tools that are added and removed within the conversation: the type of the block, and the tool."""
        self.effort = ""
        """The effort that a system message sets for this answer; empty if none does."""
        self.lost: dict[str, None] = {}
        """The client's names of what is left out."""

    def read_system(self, content: msgspec.Raw) -> None:
        """Read the leading system text."""
        blocks = _read_blocks(content, "system")
        text = bytes(blocks[0].text) if blocks else b""
        if billing := _BILLING_LINE.match(text):  # which only Anthropic reads
            blocks[0] = msgspec.structs.replace(blocks[0], text=msgspec.Raw(b'"' + text[billing.end() :]))
        self._add_system(blocks)

    def _add_system(self, blocks: list[_ContentBlock]) -> None:
        """Add a system text. Blocks without text are left out, and their names are kept in ``lost``."""
        if texts := [TextPart(raw=block.text, cache=block.cache_control) for block in blocks if _has_text(block)]:
            self.transcript.add("system", texts)
        self.lost |= {
            f"system[].{block.type}": None for block in blocks if block.type != "text" and not _has_text(block)
        }

    def read(self, message: _Message, param: str, *, is_current: bool) -> None:
        """Read a message; ``is_current``: the user has written nothing after it. Raises BadRequest."""
        all_blocks = _read_blocks(message.content, f"{param}.content")
        blocks = [block for block in all_blocks if block.type not in TOOL_CHANGE_TYPES]
        for block in all_blocks:
            changes = [block] if block.type in TOOL_CHANGE_TYPES else block.tool_changes or []
            self.tool_changes += [(change.type, change.tool) for change in changes]
            if not is_nothing(block.citations):
                self.lost["messages[].citations"] = None
            if not (is_known_block(block.type) or _has_text(block)):
                self.lost[f"messages[].{block.type}"] = None
        match message.role:
            case "user":
                places = ((block, f"{param}.content.{i}") for i, block in enumerate(blocks))
                parts = [part for block, place in places for part in _user_parts(block, place)]
                if blocks or not all_blocks:  # else the message only changes the tools
                    self.transcript.add("user", parts)
            case "assistant":
                self.transcript.add("assistant", self._assistant_parts(blocks, param))
            case "system":
                if is_current or message.clear_at != "next_user_message":
                    self._add_system(blocks)
                effort = rawjson.text_at(rawjson.maybe(message.output_config), "effort") if is_current else ""
                self.effort = effort or self.effort
            case _:
                raise BadRequest(f"{param}.role must be user, assistant or system", param=f"{param}.role")

    def _assistant_parts(self, blocks: list[_ContentBlock], param: str) -> list[Block]:
        parts: list[Block] = []
        signatures: dict[str, str] = {}
        for i, block in enumerate(blocks):
            if block.type == "tool_use":
                parts.append(_call_part(block, self.transcript, signatures))
            elif block.type in ("thinking", "redacted_thinking"):
                seal = parse_seal(block.signature or "") or (None if block.signature else PLAIN_SEAL)
                parts.append(_thought_part(block, seal))
                if seal is not None and seal.kind is SealKind.GEMINI:
                    signatures |= _signatures_in(seal.content)
            else:
                parts += _content_parts(block, f"{param}.content.{i}")
        return parts


def _read_blocks(content: msgspec.Raw, param: str) -> list[_ContentBlock]:
    """Returns the blocks of a content, which may be one text. Raises BadRequest."""
    if rawjson.is_null(content):
        return []
    if rawjson.is_text(content):
        return [_ContentBlock("text", text=content)]
    return read_typed(list[_ContentBlock], content, param)


def read_block(raw: msgspec.Raw, param: str, transcript: Transcript) -> list[Block]:
    """Returns the parts for a block of a user or an assistant, which some clients send in chats. Raises BadRequest."""
    block = read_typed(_ContentBlock, raw, param)
    if block.type == "tool_use":
        return [_call_part(block, transcript, {})]
    return [_thought_part(block, None)] if "thinking" in block.type else _user_parts(block, param)


def _call_part(block: _ContentBlock, transcript: Transcript, signatures: Mapping[str, str]) -> CallPart:
    """Returns a call. ``signatures`` are Gemini's, by the ids of their calls."""
    id, arguments = str(block.id or ""), b"" if rawjson.is_null(block.input) else bytes(block.input)
    arguments = transcript.arguments(arguments)
    return CallPart(id=id, name=block.name, arguments=arguments, signature=signatures.get(id, ""))


def _user_parts(block: _ContentBlock, param: str) -> list[Block]:
    """Returns the parts for a block. The cache mark of a tool's result goes to its last part."""
    if block.type != "tool_result":
        return [*_content_parts(block, param)]
    blocks = enumerate(_read_blocks(block.content, f"{param}.content"))
    parts = [part for i, result_block in blocks for part in _content_parts(result_block, f"{param}.content.{i}")]
    if parts and not rawjson.is_null(block.cache_control):
        parts[-1] = msgspec.structs.replace(parts[-1], cache=block.cache_control)
    return [ResultPart(call_id=str(block.tool_use_id or ""), parts=tuple(parts), failed=bool(block.is_error))]


def _content_parts(block: _ContentBlock, param: str) -> list[TextPart | MediaPart]:
    """Returns the parts for a block of a message. Raises BadRequest for what has no counterpart."""
    match block.type:
        case "text":
            return [TextPart(raw=block.text, cache=block.cache_control)] if _has_text(block) else []
        case "image":
            return [_media_part(block, param)]
        case "document":
            return _document_parts(block, param)
        case "search_result":
            heading = [_text_or_empty(block.title), _text_or_empty(block.source)]
            return _headed_parts(heading, _inner_parts(block.content, param), block.cache_control)
    return [_described_part(block)]


def described_block(raw: msgspec.Raw) -> msgspec.Raw:
    """Returns the text that stands for a block of an unusual type. Raises BadRequest."""
    return _described_part(read_typed(_ContentBlock, raw, "content")).raw


def _described_part(block: _ContentBlock) -> TextPart:
    """Returns a text for a block without a counterpart: the input and the result of a vendor's tool, or its text."""
    label = " ".join(filter(None, (f"[{block.type}", block.server_name, block.name or block.tool_name))) + "]"
    arguments, content = rawjson.maybe(block.input), rawjson.maybe(block.content)
    input_texts = [rawjson.encode(arguments).decode()] if block.type == "mcp_tool_use" else readable_texts(arguments)
    texts = [rawjson.raw(text) for text in (label, *input_texts, *readable_texts(content))]
    return TextPart(raw=join_texts([*texts, _text_or_empty(block.text)]))


def _thought_part(block: _ContentBlock, seal: Seal | None) -> ThoughtPart:
    """Returns the reasoning in a block, without its text if another vendor sealed it, which alone may read it."""
    name = f"messages[].{block.type}"
    if seal is None or block.type != "thinking":
        return ThoughtPart(name=name)
    return ThoughtPart(text=_text_or_empty(block.thinking), maker=seal.kind, name=name)


def _document_parts(block: _ContentBlock, param: str) -> list[TextPart | MediaPart]:
    source = read_typed(Fields, block.source, f"{param}.source")
    kind = rawjson.text_at(source.get("type"))
    heading = [_text_or_empty(block.title), _text_or_empty(block.context)]
    if kind == "text":
        text = TextPart(raw=check_text(source.get("data", NULL), f"{param}.source.data"))
        return _headed_parts(heading, [text], block.cache_control)
    if kind == "content":
        return _headed_parts(heading, _inner_parts(source.get("content", NULL), param), block.cache_control)
    context = [] if is_nothing(heading[1]) else [TextPart(raw=heading[1])]
    return [*context, _media_part(block, param, rawjson.text(heading[0]) or "document.pdf")]


def _headed_parts(
    heading: list[msgspec.Raw], parts: list[TextPart | MediaPart], cache: msgspec.Raw
) -> list[TextPart | MediaPart]:
    """Returns the heading and the texts of a document as one text, and its images."""
    texts = [part.raw for part in parts if isinstance(part, TextPart)]
    text = TextPart(raw=join_texts([*heading, *texts]), cache=cache)
    return [text, *(part for part in parts if isinstance(part, MediaPart))]


def _inner_parts(content: msgspec.Raw, param: str) -> list[TextPart | MediaPart]:
    return [part for block in _read_blocks(content, param) for part in _content_parts(block, param)]


def _media_part(block: _ContentBlock, param: str, name: str = "") -> MediaPart:
    """Returns an image, or a document with a name. Raises BadRequest for what only the vendor can open."""
    source = read_typed(Fields, block.source, f"{param}.source")
    kind, media_type = (rawjson.text_at(source.get(field)) for field in ("type", "media_type"))
    if kind not in ("url", "base64"):
        medium = "a document" if name else "an image"
        raise unsupported_param(f"{param}.source", f"{medium} of type '{kind}' has no counterpart there")
    field = "url" if kind == "url" else "data"
    place, cache = f"{param}.source.{field}", block.cache_control
    url = rawjson.text(check_text(source.get(field, NULL), place))
    if kind == "base64":
        url = f"data:{media_type};base64,{url}"
    return document_part(url, name, place, cache) if name else image_part(url, place, cache=cache)


def _has_text(block: _ContentBlock) -> bool:
    return rawjson.is_text(block.text) and bytes(block.text) != b'""'


def _text_or_empty(raw: msgspec.Raw) -> msgspec.Raw:
    return raw if rawjson.is_text(raw) else rawjson.raw("")


def _signatures_in(content: bytes) -> dict[str, str]:
    """Returns Gemini's signatures in the content of a seal, by the ids of their calls."""
    by_call = rawjson.maybe(content)
    pairs = by_call.items() if isinstance(by_call, dict) else ()
    return {TOOLS.valid_name(id): value for id, value in pairs if isinstance(value, str)}


def _translate_parameters(request: Fields) -> tuple[Fields, dict[str, str], list[str]]:
    """Returns the parameters by their names in chat completions, the client's names by these names, and the client's
    names of what is left out. Raises BadRequest.
    """
    fields: Fields = {"max_completion_tokens": rawjson.raw(max(1, rawjson.value(request["max_tokens"])))}
    for name in SAMPLING:
        if not rawjson.is_null(request.get(name)):
            fields[name] = request[name]
    stops = request.get("stop_sequences", NULL)
    if not is_nothing(stops) and read_typed(list[msgspec.Raw], stops, "stop_sequences"):
        fields["stop"] = stops
    names = dict(_PARAM_NAMES)
    if (effort := sent_effort(request)) is not None:
        fields["reasoning_effort"] = rawjson.raw(effort)
        if rawjson.is_null(request.get("thinking")):
            names["reasoning_effort"] = "output_config.effort"
    form = rawjson.at(request.get("output_config"), "format") or rawjson.maybe(request.get("output_format"))
    schema = rawjson.at(form, "schema") if rawjson.at(form, "type") == "json_schema" else None
    if schema is not None:
        chat_form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
        fields["response_format"] = rawjson.raw(chat_form)
    dropped = unread_names(request, _READ_MEMBERS)
    _add_account(request, fields, dropped)
    return fields, names, dropped


def _add_account(request: Fields, fields: Fields, dropped: list[str]) -> None:
    """Add the user's name as a digest, and the service tier. Adds to ``dropped`` what is left out."""
    metadata = rawjson.maybe(request.get("metadata"))
    if user := rawjson.text_at(metadata, "user_id"):  # it may contain ids of devices, and is too long there
        digest = hashlib.sha256(user.encode("utf-8", "replace")).hexdigest()[:32]
        fields["safety_identifier"] = rawjson.raw(digest)
    if metadata and not (isinstance(metadata, dict) and metadata.keys() <= {"user_id"}):
        dropped.append("metadata")
    tier = rawjson.maybe(request.get("service_tier"))
    if isinstance(tier, str) and tier in _TIERS:
        fields["service_tier"] = rawjson.raw(_TIERS[tier])
    elif tier:
        dropped.append("service_tier")
