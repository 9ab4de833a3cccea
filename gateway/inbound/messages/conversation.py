"""A Messages request as a ``Conversation``, for channels that do not speak Messages.

What has no counterpart and may not be left out is refused with 400; all other fields that are lost are named in
``x-gateway-dropped-params``.
"""

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import Seal, SealKind
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
from gateway.inbound.json_body import read_typed
from gateway.inbound.messages.blocks import (
    SOURCE,
    ContentBlock,
    MessagesTurn,
    blocks_in,
    has_text,
    lenient_blocks,
    media_of,
    string_or_empty,
    turns_in,
    without_billing,
)
from gateway.inbound.messages.parameters import PARAMETERS, translate_parameters
from gateway.inbound.messages.tools import read_tools
from gateway.inbound.sealed import PLAIN_SEAL, unwrap
from gateway.upstream.anthropic.messages import TOOLS
from gateway.upstream.openai.request import OPENAI_TOOLS

_READ = frozenset({"model", "messages", "system", "stream", "tools", "tool_choice", *PARAMETERS})


class MessagesTranslation(msgspec.Struct, frozen=True):
    """A translated request."""

    order: Order
    names: dict[str, str]
    """The client's names of tools by those that are sent, where they differ."""
    muted: bool
    """The client wants no output: what must be requested all the same is not for it."""


def translate_messages(order: Order) -> MessagesTranslation:
    """The request with its conversation. Raises BadRequest for what has no counterpart elsewhere."""
    given = order.fields
    _refuse(given)
    reader = _Reader()
    reader.read_system(given.get("system", NULL))
    for position, turn in enumerate(turns_in(given["messages"])):
        reader.read(turn, f"messages.{position}")
    parameters = translate_parameters(given)
    tools = read_tools(given)
    if tools.single:
        parameters.fields["parallel_tool_calls"] = msgspec.Raw(b"false")
    extras = [name for name, raw in given.items() if name not in _READ and not is_nothing(raw)]
    transcript = reader.transcript
    conversation = Conversation(
        turns=transcript.turns,
        tools=tools.offers,
        choice=tools.choice,
        words=parameters.words,
        extras=(*tools.dropped, *parameters.dropped, *extras),
        marks=transcript.marks,
    )
    called = {name for turn in conversation.turns for name in (call.name for call in turn.calls)}
    names = {sent: own for own, sent in reader.spelled.items() if sent in called} | tools.names
    fields = {"model": given["model"], **parameters.fields}
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
        """Names of tools that were called, as they are sent, where that is not their own."""

    def read_system(self, content: msgspec.Raw) -> None:
        """The system text that stands first."""
        blocks = blocks_in(content, "system")
        texts = [text for i, block in enumerate(blocks) if (text := without_billing(block, first=i == 0)) is not None]
        if texts:
            self.transcript.add("system", [_text(block) for block in texts])

    def read(self, turn: MessagesTurn, where: str) -> None:
        """One more turn. Raises BadRequest."""
        blocks = blocks_in(turn.content, f"{where}.content")
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
        parts = [part for i, one in inner for part in _parts(one, f"{where}.content.{i}")]
        return [ResultPart(call_id=block.tool_use_id, parts=tuple(parts), failed=bool(block.is_error))]

    def _assistant(self, blocks: list[ContentBlock], where: str) -> list[Block]:
        found: list[Block] = []
        signatures: dict[str, str] = {}
        for i, block in enumerate(blocks):
            if block.type == "tool_use":
                found.append(self._call(block, signatures.get(block.id, "")))
            elif block.type in ("thinking", "redacted_thinking"):
                seal = unwrap(block.signature) or (None if block.signature else PLAIN_SEAL)
                found.append(_thought(block, seal))
                if seal is not None and seal.kind is SealKind.GEMINI:
                    signatures |= _signatures(seal.content)
            else:
                found += _parts(block, f"{where}.content.{i}")
        return found

    def _call(self, block: ContentBlock, signature: str) -> CallPart:
        name = OPENAI_TOOLS.sent(block.name)
        if name != block.name:
            self.spelled[block.name] = name
        given = b"" if rawjson.is_null(block.input) else bytes(block.input)
        return CallPart(id=block.id, name=name, arguments=self.transcript.arguments(given), signature=signature)


def _parts(block: ContentBlock, where: str) -> list[TextPart | MediaPart]:
    """What a block of a message becomes. Raises BadRequest for what has no counterpart."""
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
    label = f"[{block.type} {block.name or block.tool_name}".rstrip() + "]"
    found = [b.text for b in lenient_blocks(block.content) if has_text(b)]
    return [TextPart(raw=join_texts([rawjson.raw(label), *found]))]


def _thought(block: ContentBlock, seal: Seal | None) -> ThoughtPart:
    """Reasoning. What another vendor sealed is for that vendor alone."""
    name = f"messages[].{block.type}"
    if seal is None or block.type != "thinking":
        return ThoughtPart(name=name)
    return ThoughtPart(text=string_or_empty(block.thinking), maker=seal.kind, name=name)


def _text(block: ContentBlock) -> TextPart:
    return TextPart(raw=block.text, cache=block.cache_control)


def _document(block: ContentBlock, where: str) -> TextPart | MediaPart:
    source = read_typed(SOURCE, block.source, f"{where}.source")
    title = [string_or_empty(block.title)]
    if source.type == "text":
        return TextPart(raw=join_texts([*title, source.data]), cache=block.cache_control)
    if source.type == "content":
        inner = [b.text for b in blocks_in(source.content, where) if has_text(b)]
        return TextPart(raw=join_texts([*title, *inner]), cache=block.cache_control)
    if source.type != "base64":
        raise unsupported_param(f"{where}.source", f"a document of type '{source.type}' has no counterpart there")
    return media_of(block, where, rawjson.text(title[0]) or "document.pdf")


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
