"""Message rules: what some templates and models demand of a chat's messages, as their refusals say.

A template may take system messages only at the beginning, a user's message after a tool's only with one of the
assistant between them, or end only with the user. A model that reads no images reads that there was one. Blank texts
are refused even by the servers that answered them. Messages of Anthropic's API are changed in the same way.
"""

import hashlib
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from gateway.domain import rawjson
from gateway.domain.lazy_pattern import lazy_pattern
from gateway.domain.rawjson import NULL, Fields
from gateway.domain.transcript import object_of
from gateway.upstream.message_shapes import (
    ORDER_REFUSED,
    PARTS_REFUSED,
    SYSTEM_REFUSED,
    SYSTEM_ROLES,
    blocks_of,
    join_contents,
    role_of,
    with_alternation,
    with_text,
    without_system,
)
from gateway.upstream.refused_params import MESSAGES, REASONING_BACK, ROLE
from gateway.upstream.tool_pairs import PAIRS_REFUSED, with_block_pairs, with_pairs
from gateway.upstream.translation import FILLER, GO_ON, UNSIGNED

SYSTEM_FIRST = MESSAGES + "role=system"
TOOL_THEN_ASSISTANT = MESSAGES + "role=assistant"
USER_LAST = MESSAGES + "role=user"
NO_IMAGES = MESSAGES + "image"
RAW_IMAGES = MESSAGES + "image=base64"
NO_BLANKS = MESSAGES + "text"
SIGNED_CALLS = MESSAGES + "thought_signature"
OBJECTS = MESSAGES + "arguments"
PAIRS = MESSAGES + "tool_call_id=paired"
SHORT_IDS = MESSAGES + "tool_call_id=short"
TEXTS = MESSAGES + "content=text"
NO_SYSTEM = MESSAGES + "role=user only"
ALTERNATION = MESSAGES + "role=alternating"
THOUGHTS = MESSAGES + "content=thinking"
"""Stands for what ``REASONING_BACK`` means in Messages."""
MESSAGES_REFUSED = {
    SYSTEM_FIRST: lazy_pattern(r"(?i)system messages? must be (?:at the beginning|first|the first)"),
    TOOL_THEN_ASSISTANT: lazy_pattern(r"(?i)unexpected role 'user' after role 'tool'"),
    USER_LAST: lazy_pattern(
        r"(?i)expected last role (?:user|to be)|last message must (?:have role|be from) (?:the )?.?user"
        r"|response prefill is incompatible|does not support assistant message prefill"
    ),
    NO_IMAGES: lazy_pattern(
        r"(?i)unknown variant .?image(?:_url)?\b(?!.*\bexpected\b.*\bimage)"
        r"|image input is not (?:supported|enabled)|not a multimodal model"
        r"|no endpoints found that support image input|image_url is only supported by"
        r"|does not support (?:images|image (?:inputs?|content))(?=[.,;:'\")]| \(|\s*\Z)"  # but not of one kind or size
    ),
    RAW_IMAGES: lazy_pattern("图片输入格式"),  # Zhipu's GLM
    OBJECTS: lazy_pattern(
        r"(?i)arguments.{0,60}\bjson|json.{0,60}arguments|\(char \d+\)|item pairs from a mapping|no attribute 'items'"
    ),
    SIGNED_CALLS: lazy_pattern(r"(?i)missing a .?thought_signature"),
    REASONING_BACK: lazy_pattern(
        r"(?i)(?:reasoning_content|content\[\]\.thinking)\W{1,3}(?:in the thinking mode must be passed back|is missing)"
    ),
    PAIRS: PAIRS_REFUSED,
    SHORT_IDS: lazy_pattern(
        r"(?i)tool call id was\b|(?:call_?id|calls\[\d+\]\.id|tool_?use[._]?id)\W{1,3}"
        r"(?:string too long|string should match|failed to satisfy)"
    ),
    TEXTS: PARTS_REFUSED,
    NO_SYSTEM: SYSTEM_REFUSED,
    ALTERNATION: ORDER_REFUSED,
    NO_BLANKS: lazy_pattern(
        r"(?i)text content blocks must|for empty text blocks|must have non-empty content|contentblock object .* blank"
    ),
}
"""What a refusal says, by the name of the rule."""
_SHORT_ID = re.compile(r"[a-zA-Z0-9]{9}")
"""What Mistral takes, and every other vendor, too."""
_IDS = {"tool_use": "id", "tool_result": "tool_use_id"}
"""The field with the id of a call, by the type of a block of Anthropic's API."""
_PLACEHOLDER = rawjson.raw({"google": {"thought_signature": UNSIGNED}})
_EMPTY_THOUGHT = {"type": "thinking", "thinking": "", "signature": "none"}
LEFT_OUT = "[An image was here. This model reads text only.]"


def with_rules(messages: list[Fields], rules: Collection[str]) -> list[Fields]:
    """Returns the messages as the rules with these names want them."""
    for name, change in RULES.items():
        messages = change(messages) if name in rules else messages
    return messages


def fit_messages(fields: Fields, rules: Collection[str]) -> list[str]:
    """Change the messages as the rules want them. Returns the names of the rules by which they lose something."""
    messages = rawjson.maybe_objects(fields.get("messages")) if RULES.keys() & rules else None
    if messages is None:
        return []
    fitting = with_rules(messages, rules)
    if fitting != messages:
        fields["messages"] = rawjson.raw(fitting)
    loses_images = NO_IMAGES in rules and any(_without_images(message) != message for message in messages)
    return [NO_IMAGES] if loses_images else []


_SYSTEM, _ASSISTANT, _USER = map(rawjson.raw, ("system", "assistant", "user"))


def _without_developer(message: Fields) -> Fields:
    return {**message, "role": _SYSTEM} if role_of(message) == "developer" else message


def _system_first(messages: list[Fields]) -> list[Fields]:
    """Returns the messages with one system message at the beginning, which has the texts of all."""
    contents = [message.get("content", NULL) for message in messages if role_of(message) in SYSTEM_ROLES]
    if not any(role_of(message) in SYSTEM_ROLES for message in messages[1:]):
        return messages
    others = [message for message in messages if role_of(message) not in SYSTEM_ROLES]
    return [{"role": _SYSTEM, "content": join_contents(contents)}, *others]


def _assistant_after_tools(messages: list[Fields]) -> list[Fields]:
    fitting: list[Fields] = []
    for message in messages:
        if fitting and role_of(fitting[-1]) == "tool" and role_of(message) == "user":
            fitting.append({"role": _ASSISTANT, "content": rawjson.raw(FILLER)})
        fitting.append(message)
    return fitting


def _user_last(messages: list[Fields]) -> list[Fields]:
    ends_with_other = bool(messages) and role_of(messages[-1]) in ("assistant", *SYSTEM_ROLES)
    return [*messages, {"role": _USER, "content": rawjson.raw(GO_ON)}] if ends_with_other else messages


def _changed_parts(parts: list[Any], change: Callable[[Any], Any]) -> list[Any]:
    """Returns the parts of a content, and those of the results among them, as ``change`` does; without its nulls."""
    changed = []
    for part in parts:
        inner = rawjson.list_at(part, "content")
        changed.append(change({**part, "content": _changed_parts(inner, change)} if inner else part))
    return [part for part in changed if part is not None]


def _with_changes(message: Fields, change: Callable[[Any], Any]) -> Fields:
    parts = rawjson.list_at(message.get("content"))
    changed = _changed_parts(parts, change)
    return message if changed == parts else {**message, "content": rawjson.raw(changed)}


def _unless_image(part: Any) -> Any:
    is_image = rawjson.at(part, "type") in ("image_url", "image")
    return {"type": "text", "text": LEFT_OUT} if is_image else part


def _with_raw_image(part: Any) -> Any:
    """Returns an image without the beginning of a ``data:`` URL, so that its address is base64 alone."""
    url = rawjson.text_at(part, "image_url", "url")
    is_data = url.startswith("data:") and ";base64," in url[:100]
    return {**part, "image_url": {**part["image_url"], "url": url.partition(";base64,")[2]}} if is_data else part


def _unless_blank(part: Any) -> Any:
    kind = rawjson.at(part, "type")
    if kind == "tool_result" and part.get("content") in (None, "", []):
        return {**part, "content": FILLER}
    is_blank = kind == "text" and not rawjson.text_at(part, "text").strip()
    return None if is_blank else part


def _without_images(message: Fields) -> Fields:
    return _with_changes(message, _unless_image)


def _without_blanks(messages: list[Fields]) -> list[Fields]:
    """Returns the messages without blank texts, and without those that have nothing else. A result has a filler."""
    kept: list[Fields] = []
    for message in (_with_changes(message, _unless_blank) for message in messages):
        content = message.get("content", NULL)
        has_none = bytes(content) == b"[]" or (rawjson.is_text(content) and not rawjson.text(content).strip())
        if not has_none:
            kept.append(message)
        elif "tool_calls" in message or role_of(message) == "tool":
            kept.append({**message, "content": NULL if "tool_calls" in message else rawjson.raw(FILLER)})
    return kept


def _with_signature(message: Fields) -> Fields:
    """Returns a message with Google's placeholder for the signature that the client did not send back."""
    calls = rawjson.maybe_objects(message.get("tool_calls"))
    if not calls or any("extra_content" in call for call in calls):
        return message
    first = {**calls[0], "extra_content": _PLACEHOLDER}
    return {**message, "tool_calls": rawjson.raw([first, *calls[1:]])}


def object_text(arguments: Any) -> str:
    """Returns a call's arguments as the text of a JSON object, whatever the model or the client had written."""
    text = arguments if isinstance(arguments, str) else rawjson.encode(arguments).decode()
    given = text.encode("utf-8", "replace")
    if isinstance(rawjson.maybe(given), dict):
        return text
    return rawjson.encode(object_of(given.decode().strip() or "{}")).decode()


def _with_object(call: Any) -> Any:
    function = rawjson.at(call, "function")
    if not isinstance(function, dict):
        return call
    return {**call, "function": {**function, "arguments": object_text(function.get("arguments"))}}


def _with_objects(message: Fields) -> Fields:
    """Returns a message without the broken arguments that would fail each later call, as at vLLM and MiniMax."""
    calls = rawjson.list_at(message.get("tool_calls"))
    fixed = [_with_object(call) for call in calls]
    return message if fixed == calls else {**message, "tool_calls": rawjson.raw(fixed)}


def _short_id(given: Any) -> Any:
    """Returns an id if it is short, else a digest of it."""
    if not isinstance(given, str) or _SHORT_ID.fullmatch(given):
        return given
    return hashlib.sha256(given.encode("utf-8", "surrogatepass")).hexdigest()[:9]


def _with_short_id(part: Any, name: str = "id") -> Any:
    return {**part, name: _short_id(part[name])} if isinstance(part, dict) and name in part else part


def _with_short_ids(message: Fields) -> Fields:
    """Returns a message of a chat or of Anthropic's API, or an item of a response's input, with short ids of calls: the
    same ones in calls and in results.
    """
    message = _with_changes(message, lambda block: _with_short_id(block, _IDS.get(rawjson.text_at(block, "type"), "")))
    names = [name for name in ("tool_call_id", "call_id") if name in message]
    own: dict[str, Any] = {name: _short_id(rawjson.maybe(message[name])) for name in names}
    if calls := rawjson.list_at(message.get("tool_calls")):
        own["tool_calls"] = [_with_short_id(call) for call in calls]
    return {**message, **{name: rawjson.raw(value) for name, value in own.items()}}


def _with_thought(message: Fields) -> Fields:
    """Returns a message of Anthropic's API with an empty thought if it is the assistant's and has none.

    DeepSeek demands one before calls, and before texts as well while the model thinks.
    """
    blocks = blocks_of(message)
    kinds = [rawjson.text_at(block, "type") for block in blocks]
    lacks_one = role_of(message) == "assistant" and "thinking" not in kinds
    return {**message, "content": rawjson.raw([_EMPTY_THOUGHT, *blocks])} if lacks_one else message


def _in_each(change: Callable[[Fields], Fields]) -> Callable[[list[Fields]], list[Fields]]:
    return lambda messages: [change(message) for message in messages]


RULES: Mapping[str, Callable[[list[Fields]], list[Fields]]] = {
    ROLE: _in_each(_without_developer),
    PAIRS: lambda messages: with_block_pairs(with_pairs(messages)),
    SHORT_IDS: _in_each(_with_short_ids),
    NO_IMAGES: _in_each(_without_images),
    RAW_IMAGES: _in_each(lambda message: _with_changes(message, _with_raw_image)),
    NO_BLANKS: _without_blanks,
    SIGNED_CALLS: _in_each(_with_signature),
    OBJECTS: _in_each(_with_objects),
    THOUGHTS: _in_each(_with_thought),
    SYSTEM_FIRST: _system_first,
    NO_SYSTEM: without_system,
    TOOL_THEN_ASSISTANT: _assistant_after_tools,
    ALTERNATION: with_alternation,
    USER_LAST: _user_last,
    TEXTS: _in_each(with_text),
}
