"""A Messages request as a ``Conversation``, for channels that do not speak Messages.

What has no counterpart and may not be left out is refused with 400; all other fields that are lost are named in
``x-gateway-dropped-params``.
"""

import hashlib
import re
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import PLAIN_SEAL, Seal, SealKind, unwrap
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
from gateway.domain.json_text import read_typed
from gateway.domain.order import Order
from gateway.domain.rawjson import NULL, Fields, is_nothing
from gateway.domain.transcript import Transcript
from gateway.inbound.json_body import unread_in
from gateway.inbound.messages.tools import TOOL_CHANGES, changed_tools, read_tools, texts_told
from gateway.upstream.anthropic.messages import TOOLS
from gateway.upstream.openai.request import OPENAI_TOOLS

_BILLING = b'"x-anthropic-billing-header:'
_BILLING_LINE = re.compile(rb'"x-anthropic-billing-header:(?:[^"\\]|\\[^n])*(?:\\n)*')


class BlockSource(msgspec.Struct, gc=False):
    """Where an image or a document is."""

    type: str = ""
    media_type: str = ""
    data: msgspec.Raw = NULL
    url: msgspec.Raw = NULL
    content: msgspec.Raw = NULL


class ContentBlock(msgspec.Struct, gc=False):
    """One block of a message."""

    type: str
    text: msgspec.Raw = NULL
    source: msgspec.Raw = NULL
    """An object, or the address of a search result."""
    title: msgspec.Raw = NULL
    context: msgspec.Raw = NULL
    citations: msgspec.Raw = NULL
    content: msgspec.Raw = NULL
    id: str = ""
    name: str = ""
    input: msgspec.Raw = NULL
    tool_use_id: str = ""
    tool_name: str = ""
    server_name: str = ""
    tool: msgspec.Raw = NULL
    """A tool that is added or removed from here on."""
    is_error: bool | None = None
    thinking: msgspec.Raw = NULL
    signature: str = ""
    cache_control: msgspec.Raw = NULL


class MessagesTurn(msgspec.Struct, gc=False):
    """One message; ``content`` is a string or an array of blocks."""

    role: str
    content: msgspec.Raw = NULL


_BLOCKS = msgspec.json.Decoder(list[ContentBlock])
_TURNS = msgspec.json.Decoder(list[MessagesTurn])
SOURCE = msgspec.json.Decoder(BlockSource)


def without_billing(block: ContentBlock, *, first: bool) -> ContentBlock | None:
    """Returns a system block without the line that only Anthropic reads, and strips; None if nothing else is in it."""
    if first and bytes(block.text).startswith(_BILLING):
        text = b'"' + _BILLING_LINE.sub(b"", bytes(block.text), count=1)
        block = msgspec.structs.replace(block, text=msgspec.Raw(text))
    return block if has_text(block) else None


def has_text(block: ContentBlock) -> bool:
    """Returns whether it is a text that is not empty."""
    return block.type == "text" and bytes(memoryview(block.text)[:1]) == b'"' and bytes(block.text) != b'""'


def string_or_empty(raw: msgspec.Raw) -> msgspec.Raw:
    """Returns a JSON string, else an empty one."""
    return raw if bytes(memoryview(raw)[:1]) == b'"' else rawjson.raw("")


def blocks_in(content: msgspec.Raw, where: str) -> list[ContentBlock]:
    """Returns the blocks of a content, which may be one text. Raises BadRequest."""
    start = bytes(memoryview(content)[:1])
    if rawjson.is_null(content):
        return []
    if start == b'"':
        return [ContentBlock("text", text=content)]
    return read_typed(_BLOCKS, content, where)


def media_of(block: ContentBlock, where: str, name: str = "") -> MediaPart:
    """Returns an image, or a document with a name. Raises BadRequest for what only the vendor can open."""
    source = read_typed(SOURCE, block.source, f"{where}.source")
    if source.type == "url" and not name:
        return MediaPart(url=_string(source.url, f"{where}.source.url"), cache=block.cache_control, where=where)
    if source.type != "base64":
        raise unsupported_param(f"{where}.source", f"an image of type '{source.type}' has no counterpart there")
    kind, data = source.media_type.lower(), _string(source.data, f"{where}.source.data")
    return MediaPart(type=kind, data=data, name=name, cache=block.cache_control, where=where)


def _string(raw: msgspec.Raw, where: str) -> str:
    if bytes(memoryview(raw)[:1]) != b'"':
        raise BadRequest(f"{where} must be a string", code="invalid_type", param=where)
    return rawjson.text(raw)


PARAMETERS = frozenset(
    {
        *("max_tokens", "temperature", "top_p", "top_k", "stop_sequences", "thinking", "output_config"),
        *("output_format", "metadata", "service_tier"),
    }
)
"""Fields that are read here."""
_WORDS = {
    "max_completion_tokens": "max_tokens",
    "stop": "stop_sequences",
    "reasoning_effort": "thinking",
    "response_format": "output_config.format",
    "safety_identifier": "metadata",
    "service_tier": "service_tier",
    "parallel_tool_calls": "tool_choice.disable_parallel_tool_use",
}
"""The client's names, by those of chat completions."""
_READ_IN = {
    "thinking": {"type", "budget_tokens"},
    "output_config": {"effort", "format"},
    "tool_choice": {"type", "name", "disable_parallel_tool_use"},
}
"""What is read of fields that are objects."""
_EFFORTS = {"xhigh": "high", "max": "high"}
"""Efforts that many models with OpenAI's words do not know."""
_LIST = msgspec.json.Decoder(list[msgspec.Raw])
_TIERS = {"auto": "auto", "standard_only": "default"}
_READ = frozenset({"model", "messages", "system", "stream", "tools", "tool_choice", *PARAMETERS})


class MessagesTranslation(msgspec.Struct, frozen=True):
    """A translated request."""

    order: Order
    names: dict[str, str]
    """The client's names of tools by the sent ones, if they differ."""
    muted: bool
    """Whether the client wants no output: what must still be requested is not for it."""


def translate_messages(order: Order) -> MessagesTranslation:
    """Returns the request with its conversation. Raises BadRequest for what has no counterpart elsewhere."""
    given = order.fields
    _refuse(given)
    reader = _Reader()
    reader.read_system(given.get("system", NULL))
    turns = read_typed(_TURNS, given["messages"], "messages")
    for position, turn in enumerate(turns):
        reader.read(turn, f"messages.{position}")
    parameters, words, dropped = _translate_parameters(given)
    tools = read_tools({**given, "tools": changed_tools(given.get("tools", NULL), reader.changes)})
    if tools.single:
        parameters["parallel_tool_calls"] = msgspec.Raw(b"false")
    extras = [name for name, raw in given.items() if name not in _READ and not is_nothing(raw)]
    transcript = reader.transcript
    conversation = Conversation(
        turns=transcript.turns,
        tools=tools.offers,
        choice=tools.choice,
        param_names=words,
        extras=(*tools.dropped, *dropped, *reader.lost, *extras),
        marks=transcript.marks,
    )
    called = {name for turn in conversation.turns for name in (call.name for call in turn.calls)}
    names = {sent: own for own, sent in reader.spelled.items() if sent in called} | tools.names
    fields = {"model": given["model"], **parameters}
    if order.stream:
        fields["stream"] = given["stream"]
    translated = msgspec.structs.replace(
        order, fields=fields, body=b"", conversation=conversation, forward={}, query=""
    )
    return MessagesTranslation(translated, names, muted=rawjson.maybe(given["max_tokens"]) == 0)


class _Reader:
    """Reads the turns. ``transcript`` is the result."""

    def __init__(self) -> None:
        self.transcript = Transcript()
        self.spelled: dict[str, str] = {}
        """The sent names of tools that were called, if these differ from their own."""
        self.changes: list[tuple[str, msgspec.Raw]] = []
        """Tools that are added and removed on the way: the type of the block, and the tool."""
        self.lost: dict[str, None] = {}
        """The client's names of what is left out."""

    def read_system(self, content: msgspec.Raw) -> None:
        """Read the leading system text."""
        blocks = blocks_in(content, "system")
        texts = [text for i, block in enumerate(blocks) if (text := without_billing(block, first=i == 0)) is not None]
        if texts:
            self.transcript.add("system", [_text(block) for block in texts])

    def read(self, turn: MessagesTurn, where: str) -> None:
        """Read a turn. Raises BadRequest."""
        blocks = []
        for block in blocks_in(turn.content, f"{where}.content"):
            if block.type in TOOL_CHANGES:
                self.changes.append((block.type, block.tool))
            else:
                blocks.append(block)
            if not is_nothing(block.citations):
                self.lost["messages[].citations"] = None
        if turn.role == "assistant":
            self.transcript.add("assistant", self._assistant(blocks, where))
        elif turn.role == "system":
            if texts := [_text(block) for block in blocks if has_text(block)]:
                self.transcript.add("system", texts)
        elif turn.role == "user":
            places = ((block, f"{where}.content.{i}") for i, block in enumerate(blocks))
            self.transcript.add("user", [part for block, place in places for part in self._user(block, place)])
        else:
            raise BadRequest(f"{where}.role must be user, assistant or system", param=f"{where}.role")

    def _user(self, block: ContentBlock, where: str) -> list[Block]:
        if block.type != "tool_result":
            return [*_parts(block, where)]
        inner = enumerate(blocks_in(block.content, f"{where}.content"))
        parts = [part for i, inner_block in inner for part in _parts(inner_block, f"{where}.content.{i}")]
        return [ResultPart(call_id=block.tool_use_id, parts=tuple(parts), failed=bool(block.is_error))]

    def _assistant(self, blocks: list[ContentBlock], where: str) -> list[Block]:
        out: list[Block] = []
        signatures: dict[str, str] = {}
        for i, block in enumerate(blocks):
            if block.type == "tool_use":
                out.append(self._call(block, signatures.get(block.id, "")))
            elif block.type in ("thinking", "redacted_thinking"):
                seal = unwrap(block.signature) or (None if block.signature else PLAIN_SEAL)
                out.append(_thought(block, seal))
                if seal is not None and seal.kind is SealKind.GEMINI:
                    signatures |= _signatures(seal.content)
            else:
                out += _parts(block, f"{where}.content.{i}")
        return out

    def _call(self, block: ContentBlock, signature: str) -> CallPart:
        name = OPENAI_TOOLS.valid_name(block.name)
        if name != block.name:
            self.spelled[block.name] = name
        given = b"" if rawjson.is_null(block.input) else bytes(block.input)
        return CallPart(id=block.id, name=name, arguments=self.transcript.arguments(given), signature=signature)


def _parts(block: ContentBlock, where: str) -> list[TextPart | MediaPart]:
    """Returns the parts for a block of a message. Raises BadRequest for what has no counterpart."""
    match block.type:
        case "text":
            return [_text(block)] if has_text(block) else []
        case "image":
            return [media_of(block, where)]
        case "document":
            return [_document(block, where)]
        case "search_result":
            inner = [b.text for b in blocks_in(block.content, where) if has_text(b)]
            texts = [string_or_empty(block.title), string_or_empty(block.source), *inner]
            return [TextPart(raw=join_texts(texts), cache=block.cache_control)]
    label = " ".join(filter(None, (f"[{block.type}", block.server_name, block.name or block.tool_name))) + "]"
    given, content = rawjson.maybe(block.input), rawjson.maybe(block.content)
    asked = [rawjson.encode(given).decode()] if block.type == "mcp_tool_use" else texts_told(given)
    brought = [content] if isinstance(content, str) else texts_told(content)  # the summary of a compaction is a text
    return [TextPart(raw=rawjson.raw("\n\n".join([label, *asked, *brought])))]


def _thought(block: ContentBlock, seal: Seal | None) -> ThoughtPart:
    """Returns reasoning. What another vendor sealed is for that vendor only."""
    name = f"messages[].{block.type}"
    if seal is None or block.type != "thinking":
        return ThoughtPart(name=name)
    return ThoughtPart(text=string_or_empty(block.thinking), maker=seal.kind, name=name)


def _text(block: ContentBlock) -> TextPart:
    return TextPart(raw=block.text, cache=block.cache_control)


def _document(block: ContentBlock, where: str) -> TextPart | MediaPart:
    source = read_typed(SOURCE, block.source, f"{where}.source")
    title = [string_or_empty(block.title), string_or_empty(block.context)]
    if source.type == "text":
        return TextPart(raw=join_texts([*title, source.data]), cache=block.cache_control)
    if source.type == "content":
        inner = [b.text for b in blocks_in(source.content, where) if has_text(b)]
        return TextPart(raw=join_texts([*title, *inner]), cache=block.cache_control)
    if source.type != "base64":
        raise unsupported_param(f"{where}.source", f"a document of type '{source.type}' has no counterpart there")
    return media_of(block, where, rawjson.text(title[0]) or "document.pdf")


def _refuse(fields: Fields) -> None:
    """Raises BadRequest for what would change the answer if it were left out."""
    if rawjson.maybe(fields.get("mcp_servers")):
        raise unsupported_param("mcp_servers", "only a channel of dialect anthropic can call MCP servers")
    if rawjson.maybe(fields.get("compaction")):
        raise unsupported_param(
            "compaction", "only a channel of dialect anthropic answers with a compacted conversation"
        )
    if rawjson.at(fields.get("container"), "skills"):
        raise unsupported_param("container.skills", "only a channel of dialect anthropic has skills")


def _signatures(content: bytes) -> dict[str, str]:
    """Returns Gemini's thought signatures by the client's ids."""
    signatures = rawjson.maybe(content)
    items = signatures.items() if isinstance(signatures, dict) else ()
    return {TOOLS.valid_name(name): value for name, value in items if isinstance(value, str)}


def _translate_parameters(given: Fields) -> tuple[Fields, dict[str, str], list[str]]:
    """Returns the parameters in the words of chat completions, the client's names for them, and its names of what is
    lost.

    Raises BadRequest.
    """
    out: Fields = {"max_completion_tokens": rawjson.raw(max(1, rawjson.value(given["max_tokens"])))}
    out |= {name: given[name] for name in ("temperature", "top_p", "top_k") if not rawjson.is_null(given.get(name))}
    if not is_nothing(stops := given.get("stop_sequences", NULL)) and read_typed(_LIST, stops, "stop_sequences"):
        out["stop"] = stops
    words = dict(_WORDS)
    if (effort := _effort(given)) is not None:
        out["reasoning_effort"] = rawjson.raw(_EFFORTS.get(effort, effort))
        if rawjson.is_null(given.get("thinking")):
            words["reasoning_effort"] = "output_config.effort"
    if (schema := _schema(given)) is not None:
        form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
        out["response_format"] = rawjson.raw(form)
    dropped = [name for holder in _READ_IN for name in unread_in(given, holder, _READ_IN[holder])]
    dropped += _add_account(given, out)
    return out, words, dropped


def _effort(given: Fields) -> str | None:
    """Returns the effort as a word; None if the client does not set it."""
    thinking = rawjson.maybe(given.get("thinking"))
    kind = rawjson.at(thinking, "type")
    if kind == "disabled":
        return "none"
    if kind == "enabled":
        budget = thinking.get("budget_tokens") or 0
        if not isinstance(budget, int):
            raise BadRequest("thinking.budget_tokens must be an integer", param="thinking.budget_tokens")
        return "low" if budget < 2048 else "medium" if budget < 8192 else "high"
    return rawjson.text_at(given.get("output_config"), "effort") or None


def _schema(fields: Fields) -> Any:
    """Returns the schema that the answer must have."""
    form = rawjson.at(fields.get("output_config"), "format")
    form = form or rawjson.maybe(fields.get("output_format"))
    return rawjson.at(form, "schema") if rawjson.at(form, "type") == "json_schema" else None


def _add_account(given: Fields, out: Fields) -> list[str]:
    """Adds the user's name and the service tier. Returns what cannot be expressed."""
    dropped = []
    metadata = rawjson.maybe(given.get("metadata"))
    if user := rawjson.text_at(metadata, "user_id"):  # it may hold ids of devices, and is too long there
        out["safety_identifier"] = rawjson.raw(hashlib.sha256(user.encode("utf-8", "replace")).hexdigest()[:32])
    if metadata and not (isinstance(metadata, dict) and metadata.keys() <= {"user_id"}):
        dropped.append("metadata")
    tier = rawjson.maybe(given.get("service_tier"))
    if isinstance(tier, str) and tier in _TIERS:
        out["service_tier"] = rawjson.raw(_TIERS[tier])
    elif tier:
        dropped.append("service_tier")
    return dropped
