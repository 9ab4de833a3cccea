"""Anthropic's messages: writes a conversation and its tools as the API wants them.

The rules of the API: user and assistant take turns, and the user begins; no message is empty; all results of one
assistant message are at the beginning of the next user message; a system message among the messages, where the model
accepts one, follows a user's message, and an assistant's message or nothing follows it.

A model that takes no JSON schema for its answer, or not this one, gets a tool, ``json_response``, whose input is the
answer.
"""

import base64
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
from gateway.upstream.answer_formats import JSON_FORMATS, ResponseFormat
from gateway.upstream.anthropic.models import AnthropicModel
from gateway.upstream.call_memory import Recall
from gateway.upstream.message_shapes import FILLER, GO_ON
from gateway.upstream.tool_schemas import COMBINATIONS, merge_combinations, strict_schema
from gateway.upstream.translation import NameRules, check_address, conversation_of, schema_fields

Block = dict[str, Any]

IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_TEXTS = frozenset({"application/json", "application/xml", "application/yaml", "application/javascript"})
"""Media types of texts, in addition to those that begin with ``text/``."""


def blocks_of(parts: Iterable[TextPart | MediaPart]) -> list[Block]:
    """Returns the blocks without blank texts, which the API refuses. Raises BadRequest for media it refuses."""
    accepted = (part for part in parts if not (isinstance(part, TextPart) and part.blank))
    return [text_block(part) if isinstance(part, TextPart) else _media_block(part) for part in accepted]


def text_block(text: TextPart) -> Block:
    """Returns a text block."""
    return _mark_cached({"type": "text", "text": text.raw}, text.cache)


def result_block(result: ResultPart) -> Block:
    """Returns a tool's result. A cache mark within it becomes one at its end."""
    content = blocks_of(result.parts)
    caches = [block.pop("cache_control") for block in content if "cache_control" in block]
    block: Block = {"type": "tool_result", "tool_use_id": TOOLS.valid_name(result.call_id)}
    if result.failed:
        block["is_error"] = True
    if content:
        block["content"] = content
    return _mark_cached(block, caches[-1] if caches else NULL)


def _media_block(media: MediaPart) -> Block:
    """Returns an image or a document. Raises BadRequest for other media."""
    is_image = media.type in IMAGES or (not media.type and bool(media.url))
    is_text = media.type in _TEXTS or media.type.startswith("text/")
    if not (is_image or is_text or media.type == "application/pdf") or (media.url and is_text):
        raise unsupported_param(media.param, f"{media.type} is neither an image nor a document that Anthropic accepts")
    source = {"type": "base64", "media_type": media.type, "data": media.data}
    if media.url:
        check_address(media)
        source = {"type": "url", "url": media.url}
    elif is_text:
        try:
            text = base64.b64decode(media.data, validate=True).decode()
        except ValueError as error:
            raise BadRequest(f"{media.param}: is not base64 of UTF-8 text", param=media.param) from error
        source = {"type": "text", "media_type": "text/plain", "data": text}
    title = {"title": media.name} if media.name and not is_image else {}
    return _mark_cached({"type": "image" if is_image else "document", "source": source, **title}, media.cache)


def _mark_cached(block: Block, cache: msgspec.Raw) -> Block:
    return block if rawjson.is_null(cache) else {**block, "cache_control": cache}


TOOLS = NameRules(invalid_character=re.compile(r"[^A-Za-z0-9_-]"), max_length=128)
"""Names of tools, and ids of their calls."""


def _last_prompt(turns: Sequence[Turn]) -> int:
    """Returns the position of the user's last turn that does not come with results, or -1.

    Programs such as droid add reminders of the user to the results of tools. The API still wants the loop's thoughts.
    """
    last, has_results = -1, False
    for position, turn in enumerate(turns):
        if turn.role == "user" and not has_results:
            last = position
        elif turn.role in ("assistant", "tool"):
            has_results = turn.role == "tool"
    return last


class Dialogue:
    """The messages and the system prompt of a conversation."""

    def __init__(self, turns: Sequence[Turn], recall: Recall, *, system_messages: bool, prefill: bool = True) -> None:
        """``system_messages`` and ``prefill``: as in ``AnthropicModel``. Raises BadRequest for media it refuses."""
        self._recall = recall
        self._prefill = prefill
        self._system_inside = system_messages
        self._held_system: list[Block] = []
        """System texts for after the user's message."""
        self._held_media: list[Block] = []
        """Media of the assistant, for the user's next message: only the user may send them."""
        self._loop_begins_with_thought: bool | None = None
        """Whether the first assistant message of the running tool loop has a thought; None before it exists."""
        self.system: list[Block] = []
        self.messages: list[dict[str, Any]] = []
        self.thoughtless = False
        """Whether the running tool loop, or the message to continue, lacks the thought that the API wants."""
        last_prompt = _last_prompt(turns)
        for position, turn in enumerate(turns):
            self._add(turn, running=position > last_prompt)
        self._finish()

    def _add(self, turn: Turn, *, running: bool) -> None:
        """Add a turn; ``running``: it follows the user's last prompt, so the model is still working on an answer."""
        match turn.role:
            case "system":
                inside = self._system_inside and self.messages
                (self._held_system if inside else self.system).extend(blocks_of(turn.parts))
            case "user":
                self._content("user").extend([*self._take_media(), *blocks_of(turn.parts)])
            case "tool":
                results = [result_block(block) for block in turn.blocks if isinstance(block, ResultPart)]
                self._content("user").extend(results)
            case _:
                self._add_assistant(turn, running=running)

    def _finish(self) -> None:
        """Make the messages comply with the rules. One of the assistant at the end must not end in whitespace, and to a
        model that does not continue it the user says to go on.
        """
        if self._held_media:
            self._content("user").extend(self._take_media())
        self._place_system()
        if not self.messages or self.messages[0]["role"] != "user":
            self.messages.insert(0, {"role": "user", "content": []})
        for message in self.messages:
            message["content"] = message["content"] or [{"type": "text", "text": FILLER}]
        last = self.messages[-1]
        if last["role"] == "assistant" and not self._prefill:
            self.messages.append({"role": "user", "content": [{"type": "text", "text": GO_ON}]})
        elif last["role"] == "assistant" and last["content"][-1]["type"] == "text":
            self.thoughtless = self.thoughtless or not isinstance(last["content"][0], msgspec.Raw)
            last["content"][-1]["text"] = rawjson.text(last["content"][-1]["text"]).rstrip()

    def _take_media(self) -> list[Block]:
        media, self._held_media = self._held_media, []
        return media

    def _content(self, role: str) -> list[Any]:
        """Returns the content of the last message, or of a new one if the last has another role."""
        if not self.messages or self.messages[-1]["role"] != role:
            self.messages.append({"role": role, "content": []})
        content: list[Any] = self.messages[-1]["content"]
        return content

    def _add_assistant(self, turn: Turn, *, running: bool) -> None:
        """Add thoughts and texts in their order, then the calls, because results must follow these."""
        calls, blocks = turn.calls, list[Any]()
        self._held_media += blocks_of([part for part in turn.parts if isinstance(part, MediaPart)])
        for part in turn.blocks:
            if isinstance(part, ThoughtPart):
                blocks += part.signed
            elif isinstance(part, TextPart) and not part.blank:
                blocks.append(text_block(part))
        has_thought = any(isinstance(block, msgspec.Raw) for block in blocks)  # thoughts are raw
        if not calls and all(isinstance(block, msgspec.Raw) for block in blocks):
            return
        recalling = calls if running and not has_thought else ()
        recalled = {call.id: rawjson.items(kept) for call in recalling if (kept := self._recall(call.id))}
        if calls and (first := recalled.pop(calls[0].id, [])):
            blocks, has_thought = [*first, *blocks], True
        if running and self._loop_begins_with_thought is None:
            self._loop_begins_with_thought = has_thought
        self.thoughtless = self.thoughtless or (bool(calls) and self._loop_begins_with_thought is False)
        self._place_system()
        content = self._content("assistant")
        content += blocks
        for call in calls:
            content += recalled.get(call.id, [])
            name, call_id = TOOLS.valid_name(call.name), TOOLS.valid_name(call.id)
            content.append({"type": "tool_use", "id": call_id, "name": name, "input": call.arguments})

    def _place_system(self) -> None:
        """Put the held system texts after the user's message, or into the system prompt if none precedes them."""
        if self._held_system and self.messages[-1]["role"] == "user":
            self.messages.append({"role": "system", "content": self._held_system})
        else:
            self.system += self._held_system
        self._held_system = []


JSON_TOOL = "json_response"

_NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}}


def tools_and_choice(
    conversation: Conversation, form: ResponseFormat, model: AnthropicModel, *, thinking: bool, forbids_parallel: bool
) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """Returns the tools, and the choice among them. ``forbids_parallel``: the client wants no parallel calls.

    Raises BadRequest if the model cannot be made to call a tool, but the client demands a call.
    """
    offers, client_choice = conversation.allowed_tools, conversation.choice
    if client_choice.forced and offers and not model.forced_tools:
        raise unsupported_param(client_choice.param, "this model cannot be made to call a tool; use 'auto'")
    tools = [_tool(offer, model) for offer in offers]
    choice = _choice(client_choice)
    if not tools:
        # the API wants earlier calls to have a definition, even of tools that are not offered any more
        names = map(TOOLS.valid_name, conversation.called_functions)
        tools = [{"name": name, "input_schema": _NO_ARGUMENTS} for name in names]
        choice = {"type": "none"} if tools else None
    if not rawjson.is_null(form.schema) and not model.structured:
        tools.append({"name": JSON_TOOL, "description": "Gives the answer.", "input_schema": form.schema})
        choice = {"type": "auto"} if thinking else _with_json_tool(choice)
    if not tools:
        return tools, None
    if forbids_parallel and (choice or {}).get("type") != "none":
        choice = {**(choice or {"type": "auto"}), "disable_parallel_tool_use": True}
    return tools, choice


def _with_json_tool(choice: dict[str, Any] | None) -> dict[str, Any]:
    """Returns the choice that makes the model answer by ``json_response``, unless it may call a client's tool first."""
    if choice is None or choice["type"] == "none":
        return {"type": "tool", "name": JSON_TOOL}
    return {"type": "any"} if choice["type"] == "auto" else choice


def answers_by_tool(order: Order) -> bool:
    """Returns whether a call of ``json_response`` in the answer is the answer itself."""
    form = rawjson.text_at(order.fields.get("response_format"), "type")
    is_clients_tool = any(tool.name == JSON_TOOL for tool in conversation_of(order).tools)
    return form in JSON_FORMATS and not is_clients_tool


def _tool(offer: ToolOffer, model: AnthropicModel) -> dict[str, Any]:
    tool: dict[str, Any] = {"name": TOOLS.valid_name(offer.name), "input_schema": _schema(offer)}
    if offer.description:
        tool["description"] = offer.description
    if offer.strict and model.structured and (strict := strict_schema(tool["input_schema"])):
        tool |= {"input_schema": strict, "strict": True}
    return _mark_cached(tool, offer.cache)


def _schema(offer: ToolOffer) -> dict[str, Any]:
    """Returns the schema of a function's arguments, which must describe an object without combinations."""
    if rawjson.is_null(offer.parameters):
        return _NO_ARGUMENTS
    fields = schema_fields(offer) | {"type": "object"}
    return fields if not fields.keys() & COMBINATIONS else merge_combinations(rawjson.value(rawjson.encode(fields)))


def _choice(choice: ToolChoice) -> dict[str, Any] | None:
    match choice.mode:
        case "auto" | "none":
            return {"type": choice.mode}
        case "required":
            return {"type": "any"}
        case "named":
            return {"type": "tool", "name": TOOLS.valid_name(choice.name)}
    return None
