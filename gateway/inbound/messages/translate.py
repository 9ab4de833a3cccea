"""Messages requests as chat completion requests, for channels that do not speak Messages.

Texts stay the JSON that they came as. Several texts of a message become one, with blank lines between: not every model
server takes parts. What has no counterpart and may not be left out is refused with 400; of the other fields those that
are lost are named in ``x-gateway-dropped-params``, except for hints such as ``cache_control``.
"""

from typing import Any

import msgspec

from gateway.domain.answer import SealKind
from gateway.domain.channel import Channel, Dialect
from gateway.domain.errors import BadRequest
from gateway.inbound.messages.blocks import (
    ContentBlock,
    MessagesTurn,
    blocks_in,
    data_url,
    has_text,
    image_url,
    joined_texts,
    lenient_blocks,
    source_of,
    string_or_empty,
    turns_in,
    without_billing,
)
from gateway.inbound.messages.parameters import translate_parameters
from gateway.inbound.messages.tools import translate_tools
from gateway.inbound.sealed import unwrap
from gateway.upstream import rawjson
from gateway.upstream.adapter import Order
from gateway.upstream.anthropic.messages import TOOLS
from gateway.upstream.rawjson import NULL, Fields
from gateway.upstream.translate.request import unsupported_param
from gateway.upstream.vendors import LOCAL, OPENROUTER, Vendor, vendor_of

_SILENT = frozenset({"model", "messages", "system", "max_tokens", "stream", "tools", "tool_choice", "cache_control"})
"""Fields that are translated below, or are hints."""
_TRANSLATED = frozenset(
    {
        *("temperature", "top_p", "top_k", "stop_sequences", "thinking", "output_config", "output_format"),
        *("metadata", "service_tier"),
    }
)

_NO_TEXT = (b"null", b'""')


class Translation(msgspec.Struct, frozen=True):
    """A translated request."""

    order: Order
    """A chat completion request; ``removed`` names what is lost."""
    names: dict[str, str]
    """The client's names of tools by those that are sent, where they differ."""
    muted: bool
    """The client wants no output: what must be requested all the same is not for it."""


def translate(order: Order, channel: Channel) -> Translation:
    """The request as this channel can take it. Raises BadRequest for what has no counterpart there."""
    return _Translator(order, channel).translation()


class _Translator:
    """Translates one request."""

    def __init__(self, order: Order, channel: Channel) -> None:
        self._order = order
        self._fields = order.fields
        self._gemini = channel.dialect is Dialect.GEMINI
        self._vendor: Vendor = vendor_of(channel.preset, channel.base_url)
        self._marks = self._vendor is OPENROUTER
        """Marks for the prompt cache go along."""
        self._system_first = self._vendor.name in LOCAL
        self._tools = translate_tools(self._fields, rename=not self._gemini)
        self._messages: list[Fields] = []

    def translation(self) -> Translation:
        _refuse(self._fields)
        self._add_system(self._fields.get("system", NULL), "system")
        for position, turn in enumerate(turns_in(self._fields["messages"])):
            self._add_turn(turn, f"messages.{position}")
        cap = rawjson.value(self._fields["max_tokens"])
        parameters = translate_parameters(self._fields, self._vendor, gemini=self._gemini)
        dropped = (*self._tools.dropped, *parameters.dropped)
        fields: Fields = {
            "model": self._fields["model"],
            "messages": rawjson.raw(self._messages),
            "max_completion_tokens": rawjson.raw(max(1, cap)),
            **({"stream": self._fields["stream"]} if self._order.stream else {}),
            **self._tools.fields,
            **parameters.fields,
        }
        known = _SILENT | _TRANSLATED
        lost = [name for name, raw in self._fields.items() if name not in known and not rawjson.is_null(raw)]
        order = msgspec.structs.replace(
            self._order, fields=fields, body=b"", removed=(*dropped, *lost), forward={}, query=""
        )
        return Translation(order, self._tools.names, muted=cap == 0)

    def _add_system(self, content: msgspec.Raw, where: str) -> None:
        """A system text that stands first."""
        blocks = blocks_in(content, where)
        texts = [text for i, block in enumerate(blocks) if (text := without_billing(block, first=i == 0)) is not None]
        if texts:
            self._messages.append({"role": rawjson.raw("system"), "content": self._joined(texts)})

    def _add_turn(self, turn: MessagesTurn, where: str) -> None:
        blocks = blocks_in(turn.content, f"{where}.content")
        if turn.role == "assistant":
            self._add_assistant(blocks)
        elif turn.role == "system":
            self._add_inner_system(blocks)
        elif turn.role == "user":
            self._add_user(blocks, where)
        else:
            raise BadRequest(f"{where}.role must be user, assistant or system", param=f"{where}.role")

    def _add_inner_system(self, blocks: list[ContentBlock]) -> None:
        """A system message among the others. Templates of local servers take one at the beginning only."""
        texts = [block for block in blocks if has_text(block)]
        if not texts:
            return
        content = self._joined(texts)
        if not self._system_first:
            self._messages.append({"role": rawjson.raw("system"), "content": content})
        elif self._messages and bytes(self._messages[0]["role"]) == b'"system"':
            first = self._messages[0]
            first["content"] = joined_texts([first["content"], content])
        else:
            self._messages.insert(0, {"role": rawjson.raw("system"), "content": content})

    def _add_user(self, blocks: list[ContentBlock], where: str) -> None:
        """The results of tools first, each a message; then the rest, the images of results before it."""
        rest: list[Fields] = []
        images: list[Fields] = []
        for i, block in enumerate(blocks):
            if block.type == "tool_result":
                images += self._add_result(block, f"{where}.content.{i}")
            else:
                rest += self._parts(block, f"{where}.content.{i}")
        parts = images + rest
        if parts:
            self._messages.append({"role": rawjson.raw("user"), "content": self._content(parts)})

    def _add_result(self, block: ContentBlock, where: str) -> list[Fields]:
        """A tool's result. Its images are returned: there a result is text."""
        texts: list[msgspec.Raw] = []
        images: list[Fields] = []
        for i, inner in enumerate(blocks_in(block.content, f"{where}.content")):
            for part in self._parts(inner, f"{where}.content.{i}"):
                if "text" in part:
                    texts.append(part["text"])
                else:
                    images.append(part)
                    texts.append(rawjson.raw(f"[image of tool result {block.tool_use_id}]"))
        content = joined_texts(texts)
        if block.is_error and not bytes(content).startswith(b'"Error'):
            content = msgspec.Raw(b'"Error: ' + bytes(content)[1:])
        message = {"role": "tool", "tool_call_id": block.tool_use_id, "content": content}
        self._messages.append({name: rawjson.raw(value) for name, value in message.items()})
        return images

    def _add_assistant(self, blocks: list[ContentBlock]) -> None:
        calls = [self._call(block) for block in blocks if block.type == "tool_use"]
        parts = [part for block in blocks if block.type != "tool_use" for part in self._parts(block, "messages")]
        texts = [part["text"] for part in parts if "text" in part]
        if not (texts or calls):
            return
        message: Fields = {"role": rawjson.raw("assistant"), "content": joined_texts(texts) if texts else NULL}
        if thoughts := self._thoughts(blocks, calls):
            message["reasoning_content"] = joined_texts(thoughts)
        if calls:
            message["tool_calls"] = rawjson.raw(calls)
        self._messages.append(message)

    def _thoughts(self, blocks: list[ContentBlock], calls: list[dict[str, Any]]) -> list[msgspec.Raw]:
        """Reasoning that this gateway sealed, as far as the channel takes it; its signatures go with their calls."""
        texts: list[msgspec.Raw] = []
        signatures: dict[str, str] = {}
        for block in blocks:
            seal = unwrap(block.signature) if block.type == "thinking" else None
            if seal is not None:
                texts.append(block.thinking)
                if seal.kind is SealKind.GEMINI:
                    signatures |= _signatures(seal.content)
        if not self._gemini:
            return [] if self._vendor.strict_messages else [text for text in texts if bytes(text) not in _NO_TEXT]
        for call in calls:
            if signature := signatures.get(call["id"]):
                call["extra_content"] = {"google": {"thought_signature": signature}}
        return []

    def _call(self, block: ContentBlock) -> dict[str, Any]:
        arguments = b"{}" if rawjson.is_null(block.input) else self._order.long.full(block.input)
        function = {"name": self._tools.sent(block.name), "arguments": arguments.decode("utf-8", "surrogatepass")}
        return {"id": block.id, "type": "function", "function": function}

    def _parts(self, block: ContentBlock, where: str) -> list[Fields]:
        """The parts of a message that a block becomes. Raises BadRequest for what has no counterpart."""
        match block.type:
            case "text":
                return [self._text_part(block.text, block.cache_control)] if has_text(block) else []
            case "image":
                return [{"type": rawjson.raw("image_url"), "image_url": rawjson.raw({"url": image_url(block, where)})}]
            case "document":
                return self._document(block, where)
            case "search_result":
                inner = [b.text for b in blocks_in(block.content, where) if has_text(b)]
                return [
                    self._text_part(joined_texts([string_or_empty(block.title), string_or_empty(block.source), *inner]))
                ]
            case "thinking" | "redacted_thinking":
                return []
        label = f"[{block.type} {block.name or block.tool_name}".rstrip() + "]"
        found = [b.text for b in lenient_blocks(block.content) if has_text(b)]
        return [self._text_part(joined_texts([rawjson.raw(label), *found]))]

    def _document(self, block: ContentBlock, where: str) -> list[Fields]:
        source = source_of(block, where)
        title = [block.title] if not rawjson.is_null(block.title) else []
        if source.type == "text":
            return [self._text_part(joined_texts([*title, source.data]))]
        if source.type == "content":
            inner = [b.text for b in blocks_in(source.content, where) if has_text(b)]
            return [self._text_part(joined_texts([*title, *inner]))]
        if source.type != "base64":
            raise unsupported_param(f"{where}.source", f"a document of type '{source.type}' has no counterpart there")
        file: dict[str, object] = {"filename": block.title if title else "document.pdf", "file_data": data_url(source)}
        return [{"type": rawjson.raw("file"), "file": rawjson.raw(file)}]

    def _text_part(self, text: msgspec.Raw, cache: msgspec.Raw = NULL) -> Fields:
        part = {"type": rawjson.raw("text"), "text": text}
        return part if rawjson.is_null(cache) or not self._marks else {**part, "cache_control": cache}

    def _content(self, parts: list[Fields]) -> msgspec.Raw:
        """Texts as one text, unless something else is among them."""
        if all(part.keys() == {"type", "text"} for part in parts):
            return joined_texts([part["text"] for part in parts])
        return rawjson.raw(parts)

    def _joined(self, blocks: list[ContentBlock]) -> msgspec.Raw:
        return self._content([self._text_part(block.text, block.cache_control) for block in blocks])


def _refuse(fields: Fields) -> None:
    """What would change the answer if it were left out."""
    if rawjson.maybe(fields.get("mcp_servers")):
        raise unsupported_param("mcp_servers", "only a channel of dialect anthropic can call MCP servers")
    container = rawjson.maybe(fields.get("container"))
    if isinstance(container, dict) and container.get("skills"):
        raise unsupported_param("container.skills", "only a channel of dialect anthropic has skills")


def _signatures(content: bytes) -> dict[str, str]:
    """Gemini's thought signatures by the ids that the client knows."""
    found = rawjson.maybe(content)
    items = found.items() if isinstance(found, dict) else ()
    return {TOOLS.sent(name): value for name, value in items if isinstance(value, str)}
