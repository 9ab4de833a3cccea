"""Reads a chat request into a ``Conversation``, for channels of other dialects.

``developer`` becomes ``system``; legacy ``function_call`` and role ``function`` become tool calls and results. Chat
completions have no field for the failure of a tool: a result counts as failed only if the client marks it by a field
that servers and frameworks have added. The model reads what the result says in any case.
"""

from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.answer import SealKind
from gateway.domain.channel import Channel, Overrides
from gateway.domain.conversation import (
    Block,
    CallPart,
    Conversation,
    ResultPart,
    TextPart,
    ThoughtPart,
    ToolChoice,
    ToolOffer,
)
from gateway.domain.errors import BadRequest, unsupported_param
from gateway.domain.order import Order
from gateway.domain.rawjson import NULL, Fields
from gateway.domain.text import plain
from gateway.domain.transcript import Transcript
from gateway.domain.typed_json import read_optional, read_typed
from gateway.inbound.chat.contents import call_arguments, read_content, read_result, result_parts
from gateway.inbound.json_body import check_text, unread_members
from gateway.upstream.adapter import DialectAdapter
from gateway.upstream.efforts import EFFORT, chat_effort
from gateway.upstream.openai.dialect import OpenAIDialect
from gateway.upstream.openai.request import write_chat
from gateway.upstream.overrides import apply_overrides
from gateway.upstream.translation import conversation_of
from gateway.upstream.vendors import vendor_of

TOOL_FIELDS = ("tools", "functions", "tool_choice", "function_call")
"""Fields about tools; ``functions`` and ``function_call`` are the legacy spelling."""


class ChatFunction(msgspec.Struct, frozen=True):
    """A function that is offered, or was called."""

    name: str | None = ""
    description: str | None = None
    parameters: msgspec.Raw = NULL
    strict: bool | None = None
    arguments: msgspec.Raw = NULL
    """The arguments of a call: JSON in a string, but some clients send the object itself."""


class ChatTool(msgspec.Struct, frozen=True):
    """A tool that is offered, or a call of one."""

    type: str | None = None
    id: str | int | None = None
    function: ChatFunction | None = None
    custom: Fields | None = None
    """A call of a custom tool, whose input is a text."""
    cache_control: msgspec.Raw = NULL
    extra_content: msgspec.Raw = NULL
    """Where Google has the thought signature."""


MODES = {"auto": "auto", "none": "none", "required": "required", "any": "required", "validated": "auto"}
"""``any`` is Mistral's word; Copilot CLI sends ``validated`` to models of Gemini."""


def read_tools(fields: Fields) -> tuple[tuple[ToolOffer, ...], ToolChoice]:
    """Returns the offered functions and the choice, in the legacy spelling without a newer one. Raises BadRequest."""
    tools = read_optional(list[ChatTool | None], fields.get("tools", NULL), "tools") or []
    raw_tools = rawjson.items(fields["tools"]) if tools else []
    offers = [_tool_offer(tool, raw, f"tools[{i}]") for i, (tool, raw) in enumerate(zip(tools, raw_tools, strict=True))]
    for i, function in enumerate(read_optional(list[ChatFunction], fields.get("functions", NULL), "functions") or ()):
        offers.append(_function_offer(function, NULL, f"functions[{i}]"))
    legacy = rawjson.is_null(fields.get("tool_choice")) and not rawjson.is_null(fields.get("function_call"))
    param = "function_call" if legacy else "tool_choice"
    return tuple(offers), _read_choice(rawjson.maybe(fields.get(param)), param)


def _tool_offer(tool: ChatTool | None, raw: msgspec.Raw, param: str) -> ToolOffer:
    if tool is not None and tool.function is not None and tool.type in (None, "function"):
        return _function_offer(tool.function, tool.cache_control, f"{param}.function")
    fields = rawjson.maybe_fields(raw)
    kind = rawjson.text_at(fields.get("type")) or next(iter(fields), "")  # Google's tools have no type, but one field
    if kind in ("function", "custom"):
        reason = "only functions with a name can be translated"
    else:
        reason = f"'{plain(kind, 40)}' is a tool that its vendor runs, and this channel has no counterpart of it"
    raise unsupported_param(param, f"{reason}; send tools of type 'function', or use a channel that takes it as it is")


def _function_offer(function: ChatFunction, cache: msgspec.Raw, param: str) -> ToolOffer:
    return ToolOffer(
        name=function.name or "",
        description=function.description or "",
        parameters=function.parameters,
        strict=function.strict,
        cache=cache,
        param=f"{param}.parameters",
    )


def _read_choice(choice: Any, param: str) -> ToolChoice:
    if choice is None:
        return ToolChoice()
    if isinstance(choice, str):
        return ToolChoice(mode=read_mode(choice, param), param=param)
    kind = rawjson.text_at(choice, "type")
    name = rawjson.text_at(choice, "function", "name") or rawjson.text_at(choice, "name")  # the legacy spelling
    if kind in ("", "function", "tool") and name:
        return ToolChoice(mode="named", name=name, param=param)
    if kind in MODES:
        return ToolChoice(mode=MODES[kind], param=param)
    if kind == "allowed_tools" and (allowed := rawjson.at(choice, kind)):
        names = (rawjson.text_at(tool, "function", "name") for tool in rawjson.list_at(allowed, "tools"))
        mode = read_mode(rawjson.text_at(allowed, "mode") or "auto", "tool_choice.allowed_tools.mode")
        return ToolChoice(mode=mode, allowed=tuple(filter(None, names)))
    raise unsupported_param("tool_choice", f"a choice of type '{plain(kind, 40)}' has no counterpart there")


def read_mode(word: str, param: str) -> str:
    """Returns the mode of a choice of tools that a client's word means. Raises BadRequest."""
    if word not in MODES:
        raise BadRequest(f"{param}: must be one of auto, none, required", param=param)
    return MODES[word]


ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
"""The roles of turns. OpenAI reads ``system`` as ``developer`` where needed; few others know the newer word."""


class _Message(msgspec.Struct, frozen=True, gc=False):
    role: str
    content: msgspec.Raw = NULL
    name: str | None = None
    refusal: msgspec.Raw = NULL
    tool_calls: list[ChatTool] | None = None
    tool_call_id: str | int | None = None
    function_call: ChatFunction | None = None
    thinking_blocks: list[msgspec.Raw] | None = None
    """Anthropic's reasoning, as it was in an answer."""
    images: msgspec.Raw = NULL
    """Images of an answer, in OpenRouter's form."""
    cache_control: msgspec.Raw = NULL
    is_error: msgspec.Raw = NULL
    """Whether a tool failed, as SGLang and Bifrost mark its result, after Anthropic's API."""
    status: msgspec.Raw = NULL
    """Whether a tool failed, as LangChain marks its result."""


_MESSAGE_FIELDS = frozenset(_Message.__struct_fields__)
_RESULT_ROLES = ("tool", "function")
"""Roles whose ``name`` is a tool's. In other roles it is a person's, and has no counterpart."""


def finish_translation(order: Order, channel: Channel, chat: DialectAdapter) -> Order:
    """Returns a translated order with the overrides of the channel's owner. If ``chat`` writes chat completions, the
    order becomes such a request; otherwise it keeps its conversation. Raises BadRequest.
    """
    if channel.overrides is not None:
        order = _with_own_tools(apply_overrides(order, channel.overrides), channel.overrides)
    if not isinstance(chat, OpenAIDialect):
        return order
    return write_chat(order, vendor_of(channel))


def _with_own_tools(order: Order, overrides: Overrides) -> Order:
    """Returns the order with the owner's tools and tool choice moved from its fields into its conversation.

    They replace the client's if the owner set them. An owner's default counts only if the client sent none.
    """
    conversation = conversation_of(order)
    tool_fields = {name: raw for name, raw in order.fields.items() if name in TOOL_FIELDS}
    other_fields = {name: raw for name, raw in order.fields.items() if name not in TOOL_FIELDS}
    owner_tools, owner_choice = read_tools(tool_fields)
    tools, choice = conversation.tools, conversation.choice
    if "tools" in overrides.remove:
        tools = ()
    elif owner_tools and ("tools" in overrides.set or not tools):
        tools = owner_tools
    if owner_choice.mode and ("tool_choice" in overrides.set or not choice.mode):
        choice = owner_choice
    elif "tool_choice" in overrides.remove:
        choice = ToolChoice()
    conversation = msgspec.structs.replace(conversation, tools=tools, choice=choice)
    return msgspec.structs.replace(order, fields=other_fields, conversation=conversation)


def translate_chat(order: Order) -> Order:
    """Returns the order with its messages and tools as a conversation. Raises BadRequest."""
    fields = {name: raw for name, raw in order.fields.items() if name != "messages" and name not in TOOL_FIELDS}
    param_names = _move_effort(fields)
    if order.form.has_functions:  # the answer has a place for one call only
        fields["parallel_tool_calls"], param_names["parallel_tool_calls"] = rawjson.raw(False), ""
    transcript, raw_messages = Transcript(), order.fields["messages"]
    messages = read_typed(list[_Message], raw_messages, "messages")
    for number, message in enumerate(messages):
        _add_message(transcript, message, f"messages[{number}]")
    tools, choice = read_tools(order.fields)
    conversation = Conversation(
        turns=transcript.turns,
        tools=tools,
        choice=choice,
        param_names=param_names,
        extras=(*_unread_names(raw_messages), *_unread_in_tools(order.fields.get("tools", NULL))),
    )
    return msgspec.structs.replace(order, fields=fields, body=b"", conversation=conversation, marks=transcript.marks)


def _move_effort(fields: Fields) -> dict[str, str]:
    """Give the effort in OpenRouter's ``reasoning``, or in Qwen's switch, its usual name. Returns the client's name."""
    effort = chat_effort(fields)
    if effort is None and "enable_thinking" in fields and rawjson.maybe(fields["enable_thinking"]) is False:
        fields[EFFORT] = rawjson.raw("none")
        return {EFFORT: "enable_thinking"}
    if effort is None or "reasoning" not in fields:
        return {}
    if not unread_members([rawjson.maybe_fields(fields["reasoning"])], "", ("effort", "max_tokens", "enabled")):
        del fields["reasoning"]
    fields[EFFORT] = rawjson.raw(effort)
    return {EFFORT: "reasoning"}


def _unread_names(raw_messages: msgspec.Raw) -> list[str]:
    messages = rawjson.objects(raw_messages)
    for message in messages:
        if rawjson.text(message["role"]) in _RESULT_ROLES:
            message.pop("name", None)
    return unread_members(messages, "messages[].", _MESSAGE_FIELDS - {"name"})


def _unread_in_tools(tools: msgspec.Raw) -> list[str]:
    objects = [] if rawjson.is_null(tools) else rawjson.objects(tools)
    functions = [rawjson.maybe_fields(tool.get("function")) for tool in objects]
    names = unread_members(objects, "tools[].", ("type", "function", "cache_control"))
    return names + unread_members(functions, "tools[].function.", ("name", "description", "parameters", "strict"))


def _add_message(transcript: Transcript, message: _Message, param: str) -> None:
    """Add a message. Raises BadRequest naming the place of what has no counterpart anywhere."""
    role = message.role
    read = read_result if role in _RESULT_ROLES else read_content
    parts = read(message.content, f"{param}.content", transcript, message.cache_control)
    parts += read_content(message.images, f"{param}.images", transcript)
    if role in _RESULT_ROLES:  # in the legacy spelling a result has no id, but the function's name
        has_failed = bytes(message.is_error) == b"true" or bytes(message.status) == b'"error"'
        call_id, name = str(message.tool_call_id or ""), message.name or ""
        result = ResultPart(call_id=call_id, name=name, parts=result_parts(parts), failed=has_failed)
        transcript.add("tool", (result,))
    elif role == "assistant":
        transcript.add(role, _assistant_blocks(transcript, message, parts, param))
    elif role in ROLES:
        transcript.add(ROLES[role], parts)
    else:
        raise BadRequest(f"{param}.role: '{plain(role, 40)}' is not a role", param=f"{param}.role")


def _assistant_blocks(transcript: Transcript, message: _Message, parts: list[Block], param: str) -> list[Block]:
    """Returns the thoughts, the content and the calls of a message, in this order."""
    blocks: list[Block] = []
    if message.thinking_blocks:
        types = ("thinking", "redacted_thinking")
        signed = tuple(block for block in message.thinking_blocks if rawjson.at(block, "type") in types)
        blocks.append(ThoughtPart(signed=signed, maker=SealKind.ANTHROPIC, name="messages[].thinking_blocks"))
    if not parts and not rawjson.is_null(message.refusal):
        parts = [TextPart(raw=check_text(message.refusal, f"{param}.refusal"), is_refusal=True)]
    blocks += parts
    made = {part.id for part in parts if isinstance(part, CallPart)}
    for number, call in enumerate(message.tool_calls or ()):
        if call.id not in made:
            blocks.append(call_part(transcript, call, f"{param}.tool_calls[{number}]"))
    if (function := message.function_call) is not None:
        blocks.append(call_part(transcript, ChatTool(function=function), f"{param}.function_call"))
    return blocks


def call_part(transcript: Transcript, call: ChatTool, param: str) -> CallPart:
    """Returns a call. The input of a custom tool becomes an argument of this name."""
    if (function := call.function) is not None:
        name, arguments = function.name or "", call_arguments(bytes(function.arguments))
    elif (custom := call.custom) is not None:
        name = rawjson.text_at(custom.get("name"))
        arguments = b'{"input":%b}' % bytes(custom.get("input", rawjson.EMPTY_TEXT))
    else:
        raise BadRequest(f"{param}: only calls of functions can be translated", param=param)
    return CallPart(
        id=str(call.id or ""),
        name=name,
        arguments=transcript.arguments(arguments),
        signature=rawjson.text_at(call.extra_content, "google", "thought_signature"),
    )
