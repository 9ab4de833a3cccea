"""Message rules: what some templates and models demand of a chat's messages, as their refusals say.

A template may take system messages only at the beginning, a user's message after a tool's only with one of the
assistant between them, or end only with the user. A model that reads no images reads that there was one. Blank texts
are refused even by the servers that answered them. Messages of Anthropic's API are changed in the same way.
"""

import hashlib
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.rawjson import Fields, JsonObject
from gateway.domain.transcript import object_of
from gateway.upstream.message_shapes import (
    FILLER,
    GO_ON,
    SYSTEM_ROLES,
    UNSIGNED,
    blocks_of,
    role_of,
    with_alternation,
    with_images_apart,
    with_role,
    with_system_first,
    with_text,
    without_system,
)
from gateway.upstream.refused_params import DEVELOPER, MESSAGES, REASONING_BACK, ROLE
from gateway.upstream.tool_pairs import with_block_pairs, with_item_pairs, with_pairs

OBJECTS = MESSAGES + "arguments"
PAIRS = MESSAGES + "tool_call_id=paired"
NO_IMAGES = MESSAGES + "image"
NO_SYSTEM_TURNS = MESSAGES + "role=not system"
SYSTEM_FIRST = MESSAGES + "role=system"
NO_NULLS = MESSAGES + "null"
SHORT_IDS = MESSAGES + "tool_call_id=short"
THOUGHTS = MESSAGES + "content=thinking"
"""Stands for what ``REASONING_BACK`` means in Messages."""
_IDS = {"tool_use": "id", "tool_result": "tool_use_id"}
"""The field with the id of a call, by the type of a block of Anthropic's API."""
_PLACEHOLDER = {"google": {"thought_signature": UNSIGNED}}
_EMPTY_THOUGHT = {"type": "thinking", "thinking": "", "signature": "none"}
_ITEM_RULES = frozenset({ROLE, SHORT_IDS, OBJECTS, PAIRS})
"""Rules that hold for items of the Responses API, too."""
_OTHER_CONTENT = ("tool_calls", "function_call", "refusal", "audio")
"""What a message of the assistant may have instead of content."""


class MessageRule(msgspec.Struct, frozen=True):
    """What a server demands of messages, and how it says so."""

    change: Callable[[list[JsonObject]], list[JsonObject]]
    """Returns the messages as the server wants them."""
    refused: str = "(?!)"
    """The pattern of what a refusal says. It matches nothing by default: the demand is known of vendors."""
    sign: bytes = b""
    """What the JSON of messages has if they do not comply."""


def with_rules(messages: list[JsonObject], rules: Collection[str]) -> list[JsonObject]:
    """Returns the messages as the rules with these names want them."""
    for name, rule in RULES.items():
        messages = rule.change(messages) if name in rules else messages
    return messages


def fit_messages(fields: Fields, rules: Collection[str]) -> list[str]:
    """Change the messages as the rules want them. Returns the names of the rules that take something away from them.

    Items of the Responses API get fewer changes than messages.
    """
    loses_images = False
    for holder, known in (("messages", RULES.keys()), ("input", _ITEM_RULES)):
        named = [name for name in rules if name in known] if holder in fields else []
        data = bytes(fields[holder]) if named else b""
        needed = [name for name in named if RULES[name].sign in data]
        messages = rawjson.maybe(data) if needed else None
        if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
            continue
        if (fitting := with_rules(messages, needed)) != messages:
            fields[holder] = rawjson.raw(fitting)
        loses_images = loses_images or (NO_IMAGES in needed and with_rules(messages, [NO_IMAGES]) != messages)
    return [NO_IMAGES] if loses_images else []


def _without_nulls(message: JsonObject) -> JsonObject:
    """Returns a message without nulls, and with an empty text if it has no content, unless it calls tools."""
    kept = {name: value for name, value in message.items() if value is not None}
    return kept if "tool_calls" in kept else {"content": "", **kept}


def _assistant_after_tools(messages: list[JsonObject]) -> list[JsonObject]:
    fitting: list[JsonObject] = []
    for message in messages:
        if fitting and role_of(fitting[-1]) == "tool" and role_of(message) == "user":
            fitting.append({"role": "assistant", "content": FILLER})
        fitting.append(message)
    return fitting


def _user_last(messages: list[JsonObject]) -> list[JsonObject]:
    ends_with_other = bool(messages) and role_of(messages[-1]) in ("assistant", *SYSTEM_ROLES)
    return [*messages, {"role": "user", "content": GO_ON}] if ends_with_other else messages


def _with_parts(holder: JsonObject, change: Callable[[Any], Any]) -> JsonObject:
    """Returns a message, or a result in one, with the parts of its content as ``change`` returns them, without nulls.

    The parts of a result are changed before the result.
    """
    parts = rawjson.list_at(holder, "content")
    changed = [change(_with_parts(part, change) if isinstance(part, dict) else part) for part in parts]
    return {**holder, "content": [part for part in changed if part is not None]} if parts else holder


def with_each_part(messages: list[JsonObject], change: Callable[[Any], Any]) -> list[JsonObject]:
    """Returns the messages with changed parts, without those that became null, and without messages of no others."""
    fitting = [_with_parts(message, change) for message in messages]
    pairs = zip(fitting, messages, strict=True)
    return [message for message, sent in pairs if message.get("content") != [] or sent.get("content") == []]


def _image_as_text(part: Any) -> Any:
    is_image = rawjson.at(part, "type") in ("image_url", "image")
    return {"type": "text", "text": "[An image was here. This model reads text only.]"} if is_image else part


def _with_raw_image(part: Any) -> Any:
    """Returns an image without the beginning of a ``data:`` URL, so that its address is base64 alone."""
    url = rawjson.text_at(part, "image_url", "url")
    is_data = url.startswith("data:") and ";base64," in url[:100]
    return {**part, "image_url": {**part["image_url"], "url": url.partition(";base64,")[2]}} if is_data else part


def _drop_blank(part: Any) -> Any:
    kind = rawjson.at(part, "type")
    if kind == "tool_result" and part.get("content") in (None, "", []):
        return {**part, "content": FILLER}
    is_blank = kind == "text" and not rawjson.text_at(part, "text").strip()
    return None if is_blank else part


def _without_blanks(messages: list[JsonObject]) -> list[JsonObject]:
    """Returns the messages without blank texts, and without those that have nothing else. A result has a filler."""
    kept: list[JsonObject] = []
    for message in (_with_parts(message, _drop_blank) for message in messages):
        content = message.get("content")
        if not (content in (None, []) or (isinstance(content, str) and not content.strip())):
            kept.append(message)
        elif any(message.get(name) not in (None, False, [], "") for name in _OTHER_CONTENT):
            kept.append({**message, "content": None})
        elif role_of(message) == "tool":
            kept.append({**message, "content": FILLER})
    return kept


def _with_signature(message: JsonObject) -> JsonObject:
    """Returns a message with Google's placeholder for the signature that the client did not send back."""
    calls = rawjson.list_at(message, "tool_calls")
    if not calls or not all(isinstance(call, dict) and "extra_content" not in call for call in calls):
        return message
    return {**message, "tool_calls": [{**calls[0], "extra_content": _PLACEHOLDER}, *calls[1:]]}


def object_text(arguments: Any) -> str:
    """Returns a call's arguments as the text of a JSON object, whatever the model or the client had written."""
    text = arguments if isinstance(arguments, str) else rawjson.encode(arguments).decode()
    data = text.encode("utf-8", "replace")
    if isinstance(rawjson.maybe(data), dict):
        return text
    return rawjson.encode(object_of(data.decode().strip() or "{}")).decode()


def _with_object(call: Any) -> Any:
    function = rawjson.at(call, "function")
    if not isinstance(function, dict):
        return call
    return {**call, "function": {**function, "arguments": object_text(function.get("arguments"))}}


def _with_objects(message: JsonObject) -> JsonObject:
    """Returns a message or an item without the broken arguments that would fail each later call, as at vLLM."""
    if message.get("type") == "function_call":
        return {**message, "arguments": object_text(message.get("arguments"))}
    calls = rawjson.list_at(message, "tool_calls")
    return {**message, "tool_calls": [_with_object(call) for call in calls]} if calls else message


def _with_object_input(part: Any) -> Any:
    """Returns a call of Anthropic's API with an object for its input, which GLM may have made a list."""
    arguments = rawjson.at(part, "input")
    if rawjson.at(part, "type") != "tool_use" or isinstance(arguments, dict):
        return part
    return {**part, "input": rawjson.maybe(object_text(arguments).encode())}


def _with_short_id(holder: Any, *names: str) -> Any:
    """Returns an object whose ids with these names are replaced by their digests, unless they are short."""
    for name in names:
        long_id = rawjson.at(holder, name)
        if isinstance(long_id, str) and not re.fullmatch("[a-zA-Z0-9]{9}", long_id):  # Mistral's form
            digest = hashlib.sha256(long_id.encode("utf-8", "surrogatepass")).hexdigest()
            holder = {**holder, name: digest[:9]}
    return holder


def _with_short_ids(message: JsonObject) -> JsonObject:
    """Returns a message, or an item of a response's input, with short ids of calls, the same in calls and results."""
    message = _with_parts(message, lambda part: _with_short_id(part, _IDS.get(rawjson.text_at(part, "type"), "")))
    message = _with_short_id(message, "tool_call_id", "call_id")
    calls = rawjson.list_at(message, "tool_calls")
    return {**message, "tool_calls": [_with_short_id(call, "id") for call in calls]} if calls else message


def _with_thought(message: JsonObject) -> JsonObject:
    """Returns a message of Anthropic's API with an empty thought if it is the assistant's and has none.

    DeepSeek demands one before calls, and before texts as well while the model thinks.
    """
    blocks = blocks_of(message)
    has_one = any(rawjson.at(block, "type") == "thinking" for block in blocks)
    return message if has_one or role_of(message) != "assistant" else {**message, "content": [_EMPTY_THOUGHT, *blocks]}


def _with_reasoning(message: JsonObject) -> JsonObject:
    """Returns a message of the assistant with an empty reasoning if it has none, which DeepSeek and Kimi accept."""
    has_it = message.get("reasoning_content") is not None
    return message if has_it or role_of(message) != "assistant" else {**message, "reasoning_content": ""}


def _for_each_message(change: Callable[[JsonObject], JsonObject]) -> Callable[[list[JsonObject]], list[JsonObject]]:
    return lambda messages: [change(message) for message in messages]


def _for_each_part(change: Callable[[Any], Any]) -> Callable[[list[JsonObject]], list[JsonObject]]:
    return lambda messages: [_with_parts(message, change) for message in messages]


RULES: Mapping[str, MessageRule] = {
    ROLE: MessageRule(_for_each_message(with_role("developer", "system")), sign=DEVELOPER),
    NO_NULLS: MessageRule(_for_each_message(_without_nulls), sign=b"null"),
    # messages of a chat or of Anthropic's API, or items
    PAIRS: MessageRule(
        lambda turns: with_item_pairs(with_block_pairs(with_pairs(turns))),
        r"must be followed by tool messages|insufficient tool messages|did not have response messages"
        r"|must be a response to a prece+ding|no previous assistant message with a tool call"
        r"|unexpected role 'tool' after|duplicate value for 'tool_call_id'|tool_call_id\W{1,4}\s*is not found"
        r"|number of function (?:calls and )?response|ids were found without `tool_result`|unexpected `tool_use_id`"
        r"|`tool_use` ids must be unique|must have a single result|no tool (?:output|call) found for"
        r"|tool (?:call )?result(?: does not follow|'s tool id)|missing required parameter: 'input\[\d+\]\.call_id'"
        r"|toolresult blocks at|mismatch between tool calls and|function response turn comes immediately after",
    ),
    SHORT_IDS: MessageRule(
        _for_each_message(_with_short_ids),
        r"tool call id was\b|(?:call_?id|calls\[\d+\]\.id|tool_?use[._]?id)\W{1,3}"
        r"(?:string too long|string should match|failed to satisfy)",
        sign=b'id"',
    ),
    NO_IMAGES: MessageRule(
        _for_each_part(_image_as_text),
        r"unknown variant .?image(?:_url)?\b(?!.*\bexpected\b.*\bimage)"
        r"|image inputs? (?:is|are) not (?:supported|enabled)|not a multimodal model|at most 0 image"
        r"|not support vision|unexpected item type in content|content type:? .?image_url\b(?!.*\bexpected\b)"
        r"|no endpoints found that support image input|image_url is only supported by|allowed values: \['text'\]"
        r"|does not support (?:images|image (?:inputs?|content))(?=[.,;:'\")]| \(|\s*\Z)",
        sign=b"image",
    ),
    MESSAGES + "image=user": MessageRule(
        with_images_apart,  # for LM Studio in Messages, too
        r"image urls are only allowed for messages|only text tool_result blocks|invalid 'messages' in payload",
        sign=b"image",
    ),
    MESSAGES + "image=base64": MessageRule(
        _for_each_part(_with_raw_image),
        "图片输入格式",  # Zhipu's GLM
        sign=b"image",
    ),
    MESSAGES + "text": MessageRule(
        _without_blanks,
        r"text content (?:is empty|blocks must)|for empty text blocks|must have non-empty content"
        r"|at messages\S+ (?:is|cannot be) (?:blank|empty)|with role '\w{4,9}' must not be empty|have a text parameter"
        r"|either .?content.? or .?tool_calls|content or tool_calls must be set|at least one content element",
    ),
    MESSAGES + "content=some": MessageRule(
        _for_each_message(lambda message: {"content": "", **_without_nulls(message)}),  # even if it has calls
        r"missing.{1,11}\bcontent\b|'content'\), 'msg': 'field required|message content type: <nil>"
        r"|content field is a req|'content' field must be a string or an array|content', 'string' not in 'null'",
    ),
    MESSAGES + "thought_signature": MessageRule(
        _for_each_message(_with_signature), r"missing a .?thought_signature", sign=b'"tool_calls"'
    ),
    OBJECTS: MessageRule(
        _for_each_message(_with_objects),
        r"arguments.{0,60}\bjson|json.{0,60}arguments|\(char \d+\)|item pairs from a mapping"
        r"|no attribute 'items'|(?:tool|function) call arguments",
        sign=b'"arguments"',
    ),
    MESSAGES + "input": MessageRule(
        _for_each_part(_with_object_input),
        r"tool_?use\.input\W{1,3}(?:input should be|is invalid)|toolresult' object has no attribute",
        sign=b'"tool_use"',
    ),
    THOUGHTS: MessageRule(_for_each_message(_with_thought)),
    REASONING_BACK: MessageRule(
        _for_each_message(_with_reasoning),
        r"(?:reasoning_content|content\[\]\.thinking)\W{1,3}"
        r"(?:in the thinking mode must be passed back|is missing)|\bmissing \W?reasoning_content",
    ),
    SYSTEM_FIRST: MessageRule(
        with_system_first,
        r"system messages? must be (?:at the|(?:the )?first)|chat setting|got system",
    ),
    MESSAGES + "role=user only": MessageRule(
        without_system,  # as the templates of Gemma demand it
        r"system (?:role|messages?|prompts?|instructions?) (?:(?:is|are) )?not (?:supported|enabled|allowed)"
        r"|not support (?:the )?system (?:role|message|prompt|instruction)|developer instruction is not enabled",
    ),
    NO_SYSTEM_TURNS: MessageRule(
        _for_each_message(with_role("system", "user")),  # for LM Studio, vLLM, Ollama, Qwen and Bedrock
        r"\brole\b.{0,40}(?:invalid discriminator|input should be 'user' or 'assistant')|unknown variant .system\b"
        r"|(?:unexpected|invalid) (?:message )?role\W{1,3}system|role\W{1,2}system\W{1,2}is not supported"
        r"|top-level .system. parameter",
        sign=b'"system"',
    ),
    MESSAGES + "role=assistant": MessageRule(
        _assistant_after_tools, r"unexpected role 'user' after role 'tool'", sign=b'"tool"'
    ),
    MESSAGES + "role=alternating": MessageRule(
        with_alternation, r"roles must alternate|alternate (?:between )?['\"`]?user|alternating user"
    ),
    MESSAGES + "role=user": MessageRule(
        _user_last,
        r"expected last role (?:user|to be)|last message must (?:have role|be from) (?:the )?.?user"
        r"|response prefill is incompatible|does not support assistant message prefill"
        r"|no user query found|at least one user message|not contain elements with the role of user",
    ),
    MESSAGES + "content=text": MessageRule(
        _for_each_message(with_text),
        r"content['\"`]?(?: field)?\s*:?\s*(?:value )?(?:must|should) be a string"
        r"|\bcontent(?:\.str)?: input should be a valid string|invalid type: sequence, expected a string"
        r"|expected a string,? (?:but )?(?:got|received) (?:an? )?(?:list|array)|invalid 'messages' in payload"
        r"|can only concatenate str|content is not a string|content field's type\b|unexpected item type in content"
        r"|single .?text.? element per message",
    ),
}
"""The rules by name, in the order they are applied."""
