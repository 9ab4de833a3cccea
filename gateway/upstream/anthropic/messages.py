"""A conversation and its tools as Anthropic wants them: user and assistant in turn, results first, nothing empty.

The rules of the API: the first message is the user's; a message is not empty; all results of one assistant message are
at the beginning of the next user message; system messages among the messages, where the model accepts them, follow a
user's message and precede an assistant's or are last.

A model that cannot be held to a JSON schema gets a tool instead, ``json_response``, whose input is the answer.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.conversation import (
    Conversation,
    MediaPart,
    ResultPart,
    TextPart,
    ThoughtPart,
    ToolChoice,
    ToolOffer,
    Turn,
)
from gateway.domain.errors import BadRequest, unsupported_param
from gateway.domain.order import Order
from gateway.domain.rawjson import NULL
from gateway.upstream.anthropic.models import AnthropicModel
from gateway.upstream.call_memory import Recall
from gateway.upstream.translation import (
    FILLER,
    JSON_FORMATS,
    NameRules,
    ResponseFormat,
    check_address,
    conversation_of,
    schema_fields,
)

Block = dict[str, Any]

IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})


def blocks_of(parts: Iterable[TextPart | MediaPart]) -> list[Block]:
    """Returns the blocks, without blank texts, which the API refuses. Raises BadRequest for what it does not accept."""
    return [
        text_block(part) if isinstance(part, TextPart) else _media_block(part)
        for part in parts
        if not (isinstance(part, TextPart) and part.blank)
    ]


def text_block(text: TextPart) -> Block:
    """Returns a text block."""
    return _mark_cached({"type": "text", "text": text.raw}, text.cache)


def result_block(result: ResultPart) -> Block:
    """Returns a tool's result. A cache breakpoint within it becomes one at its end."""
    inner = blocks_of(result.parts)
    caches = [block.pop("cache_control") for block in inner if "cache_control" in block]
    block: Block = {"type": "tool_result", "tool_use_id": TOOLS.valid_name(result.call_id)}
    if result.failed:
        block["is_error"] = True
    if inner:
        block["content"] = inner
    return _mark_cached(block, caches[-1] if caches else NULL)


def _media_block(media: MediaPart) -> Block:
    if media.url:
        check_address(media)
        return _mark_cached({"type": "image", "source": {"type": "url", "url": media.url}}, media.cache)
    source = {"type": "base64", "media_type": media.type, "data": media.data}
    if media.type == "text/plain":
        source = {"type": "text", "media_type": media.type, "data": _plain_text(media)}
    elif media.type not in IMAGES and media.type != "application/pdf":
        raise unsupported_param(media.where, f"{media.type} is neither an image nor a document that Anthropic accepts")
    if media.type in IMAGES:
        return _mark_cached({"type": "image", "source": source}, media.cache)
    title = {"title": media.name} if media.name else {}
    return _mark_cached({"type": "document", "source": source, **title}, media.cache)


def _plain_text(media: MediaPart) -> str:
    try:
        return base64.b64decode(media.data, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise BadRequest(f"{media.where}: is not base64 of UTF-8 text", param=media.where) from error


def _mark_cached(block: Block, cache: msgspec.Raw) -> Block:
    return block if rawjson.is_null(cache) else {**block, "cache_control": cache}


TOOLS = NameRules(
    valid=re.compile(r"[A-Za-z0-9_-]{1,128}"), invalid_character=re.compile(r"[^A-Za-z0-9_-]"), max_length=128
)
"""Names of tools, and ids of their calls."""


class Dialogue:
    """The conversation."""

    def __init__(self, turns: Sequence[Turn], recall: Recall, *, system_inside: bool) -> None:
        """Raises BadRequest for parts that the API does not accept."""
        self._kept = recall
        self._system_inside = system_inside
        self._waiting: list[Block] = []
        """System texts for the end of the user's message."""
        self._thoughtful: bool | None = None
        """Whether the first message of the running loop begins with a thought. Later ones need none."""
        self.system: list[Block] = []
        self.messages: list[dict[str, Any]] = []
        self.thoughtless = False
        """Whether the running tool loop calls tools and its first message does not begin with a thought."""
        asked = max((i for i, turn in enumerate(turns) if turn.role == "user"), default=-1)
        for position, turn in enumerate(turns):
            self._add(
                turn, running=position > asked
            )  # the model is still working on what follows the user's last words
        self._end()

    def _add(self, turn: Turn, *, running: bool) -> None:
        match turn.role:
            case "system":
                inside = self._system_inside and self.messages
                (self._waiting if inside else self.system).extend(blocks_of(turn.parts))
            case "user":
                self._of("user").extend(blocks_of(turn.parts))
            case "tool":
                self._of("user").extend(result_block(block) for block in turn.blocks if isinstance(block, ResultPart))
            case _:
                self._add_assistant(turn, running=running)

    def _end(self) -> None:
        """If the last message is the assistant's, the model continues it, so it must not end in whitespace."""
        self._place_system()
        if not self.messages or self.messages[0]["role"] != "user":
            self.messages.insert(0, {"role": "user", "content": []})
        for message in self.messages:
            message["content"] = message["content"] or [{"type": "text", "text": FILLER}]
        last = self.messages[-1]
        if last["role"] == "assistant" and last["content"][-1]["type"] == "text":
            last["content"][-1]["text"] = rawjson.text(last["content"][-1]["text"]).rstrip()

    def _of(self, role: str) -> list[Any]:
        """Returns the content of the last message, creating one if it has another role."""
        if not self.messages or self.messages[-1]["role"] != role:
            self.messages.append({"role": role, "content": []})
        content: list[Any] = self.messages[-1]["content"]
        return content

    def _add_assistant(self, turn: Turn, *, running: bool) -> None:
        """Add thoughts and texts in their order, then the calls, because results must follow these."""
        calls, said = turn.calls, list[Any]()
        for block in turn.blocks:
            if isinstance(block, ThoughtPart):
                said += block.signed
            elif isinstance(block, TextPart) and not block.blank:
                said.append(text_block(block))
        if not calls and all(isinstance(block, msgspec.Raw) for block in said):
            return
        thoughtful = any(isinstance(block, msgspec.Raw) for block in said)
        recalled = {} if thoughtful or not running else {call.id: self._recall(call.id) for call in calls}
        if calls and (first := recalled.pop(calls[0].id, [])):
            said, thoughtful = [*first, *said], True
        if running and self._thoughtful is None:
            self._thoughtful = thoughtful
        self.thoughtless = self.thoughtless or (bool(calls) and self._thoughtful is False)
        self._place_system()
        content = self._of("assistant")
        content += said
        for call in calls:
            content += recalled.get(call.id, [])
            name, call_id = TOOLS.valid_name(call.name), TOOLS.valid_name(call.id)
            content.append({"type": "tool_use", "id": call_id, "name": name, "input": call.arguments})

    def _recall(self, call_id: str) -> list[msgspec.Raw]:
        kept = self._kept(call_id)
        return rawjson.items(kept) if kept else []

    def _place_system(self) -> None:
        """Put the waiting texts after the user's message, or at the top if there is none to follow."""
        if self._waiting and self.messages[-1]["role"] == "user":
            self.messages.append({"role": "system", "content": self._waiting})
        else:
            self.system += self._waiting
        self._waiting = []


JSON_TOOL = "json_response"
JSON_LINE = "Reply with one JSON object and nothing else."

_NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}}


def equip(
    conversation: Conversation, form: ResponseFormat, row: AnthropicModel, *, thinking: bool, single: bool
) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """Returns the tools, and the choice among them. ``single``: the client wants no parallel calls.

    Raises BadRequest if the model cannot be made to call a tool.
    """
    offers, asked = conversation.allowed_tools, conversation.choice
    if asked.forced and offers and not row.forced_tools:
        raise unsupported_param(asked.param, "this model cannot be made to call a tool; use 'auto'")
    tools = [_tool(offer, row) for offer in offers]
    choice = _choice(asked)
    if not tools:
        # the API wants tools defined that were called earlier and are not offered any more
        names = map(TOOLS.valid_name, conversation.called_functions)
        tools = [{"name": name, "input_schema": _NO_ARGUMENTS} for name in names]
        choice = {"type": "none"} if tools else None
    if not rawjson.is_null(form.schema) and not row.structured:
        tools.append({"name": JSON_TOOL, "description": "Gives the answer.", "input_schema": form.schema})
        choice = {"type": "auto"} if thinking else _with_json_tool(choice)
    return tools, _limit_choice(choice, single=single) if tools else None


def _with_json_tool(choice: dict[str, Any] | None) -> dict[str, Any]:
    """Returns the choice that makes the model answer by the tool, unless it may call one of the client's first."""
    if choice is None or choice["type"] == "none":
        return {"type": "tool", "name": JSON_TOOL}
    return {"type": "any"} if choice["type"] == "auto" else choice


def answers_by_tool(order: Order) -> bool:
    """Returns whether a call of ``json_response`` in the answer is the answer itself."""
    form = rawjson.maybe(order.fields.get("response_format"))
    named = any(tool.name == JSON_TOOL for tool in conversation_of(order).tools)
    return isinstance(form, dict) and form.get("type") in JSON_FORMATS and not named


def _tool(offer: ToolOffer, row: AnthropicModel) -> dict[str, Any]:
    tool: dict[str, Any] = {"name": TOOLS.valid_name(offer.name), "input_schema": _schema(offer)}
    if offer.description:
        tool["description"] = offer.description
    if offer.strict and row.structured:
        tool["strict"] = True
    if not rawjson.is_null(offer.cache):
        tool["cache_control"] = offer.cache
    return tool


def _schema(offer: ToolOffer) -> dict[str, Any]:
    """Returns the schema of a function's arguments; the API insists on an object."""
    if rawjson.is_null(offer.parameters):
        return _NO_ARGUMENTS
    fields = {"type": "object"} | schema_fields(offer)
    return fields if not fields.keys() & _COMBINATIONS else _merge_combinations(rawjson.value(rawjson.encode(fields)))


_COMBINATIONS = frozenset({"anyOf", "oneOf", "allOf"})
"""What the API refuses at the top of a schema."""


def _merge_combinations(schema: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema with the arguments of all its parts; of alternatives, only what each of them requires is
    required.
    """
    properties, required = _arguments(schema)
    for name in sorted(_COMBINATIONS & schema.keys()):
        given = schema.pop(name)
        arguments = [_arguments(_resolve(part, schema)) for part in (given if isinstance(given, list) else ())]
        for inner, _ in arguments:
            properties = {**inner, **properties}
        sets = [needed for _, needed in arguments]
        if sets:
            required |= set.union(*sets) if name == "allOf" else set.intersection(*sets)
    merged: dict[str, Any] = {**schema, "properties": properties, "required": sorted(required)}
    definitions: dict[str, Any] = {name: merged.pop(name) for name in ("$defs", "definitions") if name in merged}
    return {**merged, **definitions} if b'"$ref"' in rawjson.encode(merged) else merged


def _arguments(schema: Any) -> tuple[dict[str, Any], set[str]]:
    """Returns the arguments in a schema, and those that it requires."""
    properties, required = (rawjson.at(schema, name) for name in ("properties", "required"))
    names = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
    return properties if isinstance(properties, dict) else {}, names


def _resolve(part: Any, schema: dict[str, Any]) -> Any:
    """Returns a part of a schema, looked up if it is a reference to one of the schema's definitions."""
    reference = rawjson.text_at(part, "$ref")
    return rawjson.at(schema, *reference[2:].split("/")) if reference.startswith("#/") else part


def _choice(choice: ToolChoice) -> dict[str, Any] | None:
    match choice.mode:
        case "auto" | "none":
            return {"type": choice.mode}
        case "required":
            return {"type": "any"}
        case "named":
            return {"type": "tool", "name": TOOLS.valid_name(choice.name)}
    return None


def _limit_choice(choice: dict[str, Any] | None, *, single: bool) -> dict[str, Any] | None:
    """Returns the choice, with at most one call at a time if the client wants no parallel ones."""
    if not single or (choice or {}).get("type") == "none":
        return choice
    return {**(choice or {"type": "auto"}), "disable_parallel_tool_use": True}
