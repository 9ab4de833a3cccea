"""Chat completion requests written from conversations, for clients of other APIs.

The texts of a message are joined with blank lines between them, because not every model server accepts parts. What the
assistant wrote and the result of a tool are texts, so their media are put into the user's next message. Reasoning and
signatures go to vendors that read them.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.conversation import (
    CallPart,
    MediaPart,
    ResultPart,
    TextPart,
    ThoughtPart,
    ToolChoice,
    ToolOffer,
    Turn,
    join_texts,
)
from gateway.domain.errors import unsupported_param
from gateway.domain.order import Order
from gateway.domain.rawjson import NULL, Fields, JsonObject, is_nothing
from gateway.upstream.translation import NameRules, conversation_of, schema_fields
from gateway.upstream.vendors import LOCAL, OPENAI, OPENROUTER, PLAIN, Vendor

OPENAI_TOOLS = NameRules(invalid_character=re.compile(r"[^A-Za-z0-9_-]"), max_length=64)
_CALL_IDS = NameRules(invalid_character=re.compile("(?!)"), max_length=40)
"""The ids of tool calls that OpenAI takes. Others take longer ones, and some gateways keep signatures in them."""
MAX_STOPS = 4
"""OpenAI's limit of stop sequences."""
_ONLY_OPENAI = ("safety_identifier", "service_tier", "store")
"""Parameters that a client of another API means for OpenAI only, and that other vendors may refuse."""


def write_chat(order: Order, vendor: Vendor = PLAIN) -> Order:
    """Returns a translated order as a chat completion request; ``removed`` names what the vendor has no place for."""
    conversation = conversation_of(order)
    fields, dropped = _fit_parameters(order.fields, conversation.param_names, vendor)
    writer = _MessageWriter(vendor)
    for turn in conversation.turns:
        writer.add(turn)
    fields["messages"] = rawjson.raw(writer.finish())
    tools = conversation.tools if vendor is OPENAI else conversation.allowed_tools
    if tools:
        fields["tools"] = rawjson.raw([{**_tool(tool), **_cache_mark(tool.cache, vendor)} for tool in tools])
        if conversation.choice.mode:
            fields["tool_choice"] = rawjson.raw(_choice(conversation.choice, vendor))
    else:
        fields.pop("parallel_tool_calls", None)
    if conversation.cached and vendor is not OPENROUTER:
        dropped.append("cache_control")
    dropped += conversation.dropped_reasoning(partial(_accepts_thought, vendor)) + writer.unsaid
    param_names = conversation.param_names
    removed = (*order.removed, *(param_names.get(name, name) for name in dropped), *conversation.extras)
    return msgspec.structs.replace(order, fields=fields, body=b"", removed=tuple(dict.fromkeys(removed)))


def _fit_parameters(parameters: Fields, param_names: Mapping[str, str], vendor: Vendor) -> tuple[Fields, list[str]]:
    """Returns the parameters that this vendor accepts, and the names of the others."""
    fields = {name: raw for name, raw in parameters.items() if not rawjson.is_null(raw)}
    unaccepted = ["top_k"] if vendor is OPENAI else [name for name in _ONLY_OPENAI if name in param_names]
    dropped = [name for name in unaccepted if not is_nothing(fields.pop(name, NULL))]
    stops = rawjson.list_at(fields.get("stop")) if vendor is OPENAI else []
    if len(stops) > MAX_STOPS:
        fields["stop"] = rawjson.raw(stops[:MAX_STOPS])
        dropped.append("stop")
    return fields, dropped


class _MessageWriter:
    def __init__(self, vendor: Vendor) -> None:
        self._vendor = vendor
        self._call_id = _CALL_IDS.valid_name if vendor.name in (OPENAI.name, "azure") else str
        self._system_first = vendor.name in LOCAL
        """Whether there may be one system message only, at the beginning: templates of local servers want it so."""
        self._system_parts: list[TextPart | MediaPart] = []
        """What is in that message."""
        self._messages: list[JsonObject] = []
        self._held_media: list[JsonObject] = []
        """Media of tool results and of the assistant, for the user's next message."""
        self.unsaid: list[str] = []
        """The client's names of thoughts without a message that they could be in."""

    def add(self, turn: Turn) -> None:
        match turn.role:
            case "system":
                parts = [part for part in turn.parts if not _is_empty(part)]
                if self._system_first:
                    self._system_parts += parts
                elif parts:
                    self._messages.append({"role": "system", "content": self._content(parts)})
            case "tool":
                for block in turn.blocks:
                    if isinstance(block, ResultPart):
                        self._add_result(block)
            case "assistant":
                self._add_assistant(turn)
            case _:
                media, self._held_media = self._held_media, []
                self._messages.append({"role": "user", "content": self._content(turn.parts, media)})

    def finish(self) -> list[JsonObject]:
        """Returns the messages, once the system message and the media that were held back are in their places."""
        self._add_held_media()
        if self._system_parts:
            self._messages.insert(0, {"role": "system", "content": self._content(self._system_parts)})
        return self._messages

    def _add_held_media(self) -> None:
        """Add the held media as a message of the user, because the user's own does not follow."""
        if self._held_media:
            self._messages.append({"role": "user", "content": self._held_media})
            self._held_media = []

    def _add_result(self, result: ResultPart) -> None:
        """Add the result of a tool call as one text. Its media are held for the user's next message."""
        call_id = self._call_id(result.call_id)
        texts: list[msgspec.Raw] = []
        for part in result.parts:
            if isinstance(part, TextPart):
                texts.append(part.raw)
            else:
                kind = part.type.partition("/")[0] or "image"
                label = kind if kind in ("image", "audio") else "file"
                texts.append(rawjson.raw(f"[{label} of tool result {call_id[:64]}]"))  # not all of it for each medium
                self._held_media.append(_media(part, self._vendor))
        content = error_text(join_texts(texts)) if result.failed else join_texts(texts)
        caches = [part.cache for part in result.parts if not rawjson.is_null(part.cache)]
        mark = _cache_mark(caches[-1] if caches else NULL, self._vendor)
        marked = [{"type": "text", "text": content, **mark}] if mark else content
        self._messages.append({"role": "tool", "tool_call_id": call_id, "content": marked})

    def _add_assistant(self, turn: Turn) -> None:
        """Add a message of the assistant, unless it is empty."""
        calls = turn.calls
        texts = [part for part in turn.parts if isinstance(part, TextPart) and not _is_empty(part)]
        media = [self._part(part) for part in turn.parts if isinstance(part, MediaPart)]
        if not (calls or texts):
            self._held_media += media
            self.unsaid += [thought.name for thought in turn.thoughts if not thought.empty]
            return
        self._add_held_media()
        self._held_media = media
        message: JsonObject = {"role": "assistant", "content": self._content(texts) if texts else None}
        thoughts = [thought.text for thought in turn.thoughts if _accepts_thought(self._vendor, thought)]
        if any(bytes(thought) != b'""' for thought in thoughts):
            message["reasoning_content"] = join_texts(thoughts)
        if calls:
            message["tool_calls"] = [self._call(call) for call in calls]
        self._messages.append(message)

    def _call(self, call: CallPart) -> JsonObject:
        name, arguments = OPENAI_TOOLS.valid_name(call.name), bytes(call.arguments).decode("utf-8", "surrogatepass")
        function = {"name": name, "arguments": arguments}
        written: JsonObject = {"id": self._call_id(call.id), "type": "function", "function": function}
        if call.signature and self._vendor.reads_signatures:
            written["extra_content"] = {"google": {"thought_signature": call.signature}}
        return written

    def _content(self, parts: Sequence[TextPart | MediaPart], media: Iterable[JsonObject] = ()) -> Any:
        """Returns the content of a message: one text, or parts if there are ``media`` or others. Media come first."""
        written = [*media, *(self._part(part) for part in parts if not _is_empty(part))]
        if all(part.keys() == {"type", "text"} for part in written):
            return join_texts([part["text"] for part in written])
        return written

    def _part(self, part: TextPart | MediaPart) -> JsonObject:
        mark = _cache_mark(part.cache, self._vendor)
        if isinstance(part, MediaPart):
            return {**_media(part, self._vendor), **mark}
        if part.is_refusal:
            return {"type": "refusal", "refusal": part.raw}
        return {"type": "text", "text": part.raw, **mark}


def error_text(content: msgspec.Raw) -> msgspec.Raw:
    """Returns what a failed tool returned, so that it says so."""
    return content if bytes(content).startswith(b'"Error') else msgspec.Raw(b'"Error: ' + bytes(content)[1:])


def _cache_mark(cache: msgspec.Raw, vendor: Vendor) -> JsonObject:
    """Returns the field with a cache mark, which only OpenRouter takes; else an empty dictionary."""
    return {"cache_control": cache} if vendor is OPENROUTER and not rawjson.is_null(cache) else {}


def _accepts_thought(vendor: Vendor, thought: ThoughtPart) -> bool:
    return thought.empty or not (vendor.strict_messages or rawjson.is_null(thought.text))


def _is_empty(part: TextPart | MediaPart) -> bool:
    return isinstance(part, TextPart) and bytes(part.raw) == b'""'


def _media(media: MediaPart, vendor: Vendor) -> JsonObject:
    """Returns the part for a medium. Raises BadRequest for a document's address, unless the vendor fetches it."""
    if not media.type or media.type.startswith("image/"):
        image = {"url": media.url or f"data:{media.type};base64,{media.data}"}
        return {"type": "image_url", "image_url": {**image, **({"detail": media.detail} if media.detail else {})}}
    if media.url and vendor is not OPENROUTER:
        raise unsupported_param(media.param, "this channel does not fetch files; send their data")
    if media.type.startswith("audio/"):
        data, kind = media.url or media.data, media.type.partition("/")[2]
        return {"type": "input_audio", "input_audio": {"data": data, "format": kind}}
    name = {"filename": media.name} if media.name else {}
    return {"type": "file", "file": {**name, "file_data": media.url or f"data:{media.type};base64,{media.data}"}}


def _tool(tool: ToolOffer) -> JsonObject:
    function: JsonObject = {"name": OPENAI_TOOLS.valid_name(tool.name)}
    if tool.description:
        function["description"] = tool.description
    if not rawjson.is_null(tool.parameters):
        # Strict servers demand both, such as OpenAI's, LM Studio's and DeepSeek's.
        function["parameters"] = {"type": "object", "properties": {}, **schema_fields(tool)}
    if tool.strict is not None:
        function["strict"] = tool.strict
    return {"type": "function", "function": function}


def _choice(choice: ToolChoice, vendor: Vendor) -> object:
    """Returns the choice. Only OpenAI takes all tools and the names of those that are allowed, for its prompt cache."""
    if choice.allowed is not None and vendor is OPENAI:
        tools = [_function_named(name) for name in choice.allowed]
        return {"type": "allowed_tools", "allowed_tools": {"mode": choice.mode, "tools": tools}}
    return _function_named(choice.name) if choice.mode == "named" else choice.mode


def _function_named(name: str) -> JsonObject:
    return {"type": "function", "function": {"name": OPENAI_TOOLS.valid_name(name)}}
