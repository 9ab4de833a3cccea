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
from gateway.domain.lazy_pattern import lazy_pattern
from gateway.domain.rawjson import NULL, Fields
from gateway.domain.transcript import object_of
from gateway.upstream.message_shapes import (
    FILLER,
    GO_ON,
    ORDER_REFUSED,
    PARTS_REFUSED,
    RESULTS_REFUSED,
    SYSTEM_REFUSED,
    SYSTEM_ROLES,
    SYSTEM_TURN_REFUSED,
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
from gateway.upstream.tool_pairs import PAIRS_REFUSED, with_block_pairs, with_item_pairs, with_pairs

OBJECTS = MESSAGES + "arguments"
PAIRS = MESSAGES + "tool_call_id=paired"
TEXTS = MESSAGES + "content=text"
NO_IMAGES = MESSAGES + "image"
NO_SYSTEM = MESSAGES + "role=user only"
NO_SYSTEM_TURNS = MESSAGES + "role=not system"
SYSTEM_FIRST = MESSAGES + "role=system"
ALTERNATION = MESSAGES + "role=alternating"
NO_NULLS = MESSAGES + "null"
SHORT_IDS = MESSAGES + "tool_call_id=short"
THOUGHTS = MESSAGES + "content=thinking"
"""Stands for what ``REASONING_BACK`` means in Messages."""
_SHORT_ID = re.compile(r"[a-zA-Z0-9]{9}")
"""What Mistral takes, and every other vendor, too."""
_IDS = {"tool_use": "id", "tool_result": "tool_use_id"}
"""The field with the id of a call, by the type of a block of Anthropic's API."""
_PLACEHOLDER = rawjson.raw({"google": {"thought_signature": UNSIGNED}})
_EMPTY_THOUGHT = {"type": "thinking", "thinking": "", "signature": "none"}
_ITEM_RULES = frozenset({ROLE, SHORT_IDS, OBJECTS, PAIRS})
"""Rules that hold for items of the Responses API, too."""
_OTHER_CONTENT = ("tool_calls", "function_call", "refusal", "audio")
"""What a message of the assistant may have instead of content."""
LEFT_OUT = "[An image was here. This model reads text only.]"


class MessageRule(msgspec.Struct, frozen=True):
    """What a server demands of messages, and how it says so."""

    change: Callable[[list[Fields]], list[Fields]]
    """Returns the messages as the server wants them."""
    refused: re.Pattern[str] | None = None
    """Matches what a refusal says. None for what is refused in other words, or known of vendors."""
    sign: bytes = b""
    """What the JSON of messages has if they do not comply."""


def with_rules(messages: list[Fields], rules: Collection[str]) -> list[Fields]:
    """Returns the messages as the rules with these names want them."""
    for name, rule in RULES.items():
        messages = rule.change(messages) if name in rules else messages
    return messages


def fit_messages(fields: Fields, rules: Collection[str]) -> list[str]:
    """Change the messages as the rules want them. Returns the names of the rules by which they lose something.

    Items of the Responses API get fewer changes than messages.
    """
    loses_images = False
    for holder, known in (("messages", RULES.keys()), ("input", _ITEM_RULES)):
        named = [name for name in rules if name in known] if holder in fields else []
        data = bytes(fields[holder]) if named else b""
        needed = [name for name in named if RULES[name].sign in data]
        messages = rawjson.maybe_objects(data) if needed else None
        if messages is None:
            continue
        if (fitting := with_rules(messages, needed)) != messages:
            fields[holder] = rawjson.raw(fitting)
        loses_images = loses_images or (NO_IMAGES in needed and with_rules(messages, [NO_IMAGES]) != messages)
    return [NO_IMAGES] if loses_images else []


_ASSISTANT, _USER = map(rawjson.raw, ("assistant", "user"))


def _without_nulls(message: Fields) -> Fields:
    """Returns a message without nulls, and with an empty text if it has no content, unless it calls tools."""
    kept = {name: raw for name, raw in message.items() if not rawjson.is_null(raw)}
    return kept if "tool_calls" in kept else {"content": rawjson.EMPTY_TEXT, **kept}


def _with_some_content(message: Fields) -> Fields:
    """Returns a message with an empty text if it has no content, even if it has calls."""
    return {"content": rawjson.EMPTY_TEXT, **_without_nulls(message)}


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
    """Returns a message with the parts of its content as ``change`` returns them."""
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


def with_each_part(messages: list[Fields], change: Callable[[Any], Any]) -> list[Fields]:
    """Returns the messages with changed parts, without those that became null, and without messages of no others."""
    fitting = [_with_changes(message, change) for message in messages]
    return [
        message
        for message, sent in zip(fitting, messages, strict=True)
        if message is sent or rawjson.list_at(message["content"])
    ]


def _without_blanks(messages: list[Fields]) -> list[Fields]:
    """Returns the messages without blank texts, and without those that have nothing else. A result has a filler."""
    kept: list[Fields] = []
    for message in (_with_changes(message, _unless_blank) for message in messages):
        content = message.get("content", NULL)
        has_none = bytes(content) in (b"[]", b"null") or (
            rawjson.is_text(content) and not rawjson.text(content).strip()
        )
        if not has_none:
            kept.append(message)
        elif any(not rawjson.is_nothing(message.get(name, NULL)) for name in _OTHER_CONTENT):
            kept.append({**message, "content": NULL})
        elif role_of(message) == "tool":
            kept.append({**message, "content": rawjson.raw(FILLER)})
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
    """Returns a message or an item without the broken arguments that would fail each later call, as at vLLM."""
    if rawjson.text_at(message.get("type")) == "function_call":
        given = rawjson.maybe(message.get("arguments"))
        fitting = object_text(given)
        return message if fitting == given else {**message, "arguments": rawjson.raw(fitting)}
    calls = rawjson.list_at(message.get("tool_calls"))
    fixed = [_with_object(call) for call in calls]
    return message if fixed == calls else {**message, "tool_calls": rawjson.raw(fixed)}


def _with_object_input(part: Any) -> Any:
    """Returns a call of Anthropic's API with an object for its input, which GLM may have made a list."""
    given = rawjson.at(part, "input")
    is_wrong = rawjson.at(part, "type") == "tool_use" and not isinstance(given, dict)
    return {**part, "input": rawjson.maybe(object_text(given).encode())} if is_wrong else part


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
    if b'"tool_' in bytes(message.get("content", NULL)):  # most contents are only text
        message = _with_changes(message, lambda part: _with_short_id(part, _IDS.get(rawjson.text_at(part, "type"), "")))
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


def _with_reasoning(message: Fields) -> Fields:
    """Returns a message of the assistant with an empty reasoning if it has none, which DeepSeek and Kimi accept."""
    has_it = message.get("reasoning_content", NULL) != NULL
    return (
        message if has_it or role_of(message) != "assistant" else {**message, "reasoning_content": rawjson.EMPTY_TEXT}
    )


def _in_each(change: Callable[[Fields], Fields]) -> Callable[[list[Fields]], list[Fields]]:
    return lambda messages: [change(message) for message in messages]


RULES: Mapping[str, MessageRule] = {
    ROLE: MessageRule(_in_each(with_role("developer", "system")), sign=DEVELOPER),
    NO_NULLS: MessageRule(_in_each(_without_nulls), sign=b"null"),
    # messages of a chat or of Anthropic's API, or items
    PAIRS: MessageRule(lambda turns: with_item_pairs(with_block_pairs(with_pairs(turns))), PAIRS_REFUSED),
    SHORT_IDS: MessageRule(
        _in_each(_with_short_ids),
        lazy_pattern(
            r"(?i)tool call id was\b|(?:call_?id|calls\[\d+\]\.id|tool_?use[._]?id)\W{1,3}"
            r"(?:string too long|string should match|failed to satisfy)"
        ),
        sign=b'id"',
    ),
    NO_IMAGES: MessageRule(
        _in_each(lambda message: _with_changes(message, _unless_image)),
        lazy_pattern(
            r"(?i)unknown variant .?image(?:_url)?\b(?!.*\bexpected\b.*\bimage)"
            r"|image input is not (?:supported|enabled)|not a multimodal model|at most 0 image|not support vision"
            r"|content type:? .?image_url\b(?!.*\bexpected\b)"
            r"|no endpoints found that support image input|image_url is only supported by"
            r"|does not support (?:images|image (?:inputs?|content))(?=[.,;:'\")]| \(|\s*\Z)"
        ),
        sign=b"image",
    ),
    MESSAGES + "image=user": MessageRule(with_images_apart, RESULTS_REFUSED, sign=b"image"),
    MESSAGES + "image=base64": MessageRule(
        _in_each(lambda message: _with_changes(message, _with_raw_image)),
        lazy_pattern("图片输入格式"),  # Zhipu's GLM
        sign=b"image",
    ),
    MESSAGES + "text": MessageRule(
        _without_blanks,
        lazy_pattern(
            r"(?i)text content (?:is empty|blocks must)|for empty text blocks|must have non-empty content"
            r"|contentblock object .* blank|with role '\w{4,9}' must not be empty|must have a text parameter"
            r"|must have either content or tool_calls|content or tool_calls must be set|at least one content element"
        ),
    ),
    MESSAGES + "content=some": MessageRule(
        _in_each(_with_some_content),
        lazy_pattern(
            r"(?i)missing.{1,11}\bcontent\b|'content'\), 'msg': 'field required|message content type: <nil>"
            r"|content field is a req|'content' field must be a string or an array|content', 'string' not in 'null'"
        ),
    ),
    MESSAGES + "thought_signature": MessageRule(
        _in_each(_with_signature), lazy_pattern(r"(?i)missing a .?thought_signature"), sign=b'"tool_calls"'
    ),
    OBJECTS: MessageRule(
        _in_each(_with_objects),
        lazy_pattern(
            r"(?i)arguments.{0,60}\bjson|json.{0,60}arguments|\(char \d+\)|item pairs from a mapping"
            r"|no attribute 'items'"
        ),
        sign=b'"arguments"',
    ),
    MESSAGES + "input": MessageRule(
        _in_each(lambda message: _with_changes(message, _with_object_input)),
        lazy_pattern(r"(?i)tool_?use\.input\W{1,3}(?:input should be|is invalid)|toolresult' object has no attribute"),
        sign=b'"tool_use"',
    ),
    THOUGHTS: MessageRule(_in_each(_with_thought)),
    REASONING_BACK: MessageRule(
        _in_each(_with_reasoning),
        lazy_pattern(
            r"(?i)(?:reasoning_content|content\[\]\.thinking)\W{1,3}"
            r"(?:in the thinking mode must be passed back|is missing)"
        ),
    ),
    SYSTEM_FIRST: MessageRule(
        with_system_first, lazy_pattern(r"(?i)system messages? must be (?:at the begin|(?:the )?first)|chat setting")
    ),
    NO_SYSTEM: MessageRule(without_system, SYSTEM_REFUSED),
    NO_SYSTEM_TURNS: MessageRule(_in_each(with_role("system", "user")), SYSTEM_TURN_REFUSED, sign=b'"system"'),
    MESSAGES + "role=assistant": MessageRule(
        _assistant_after_tools, lazy_pattern(r"(?i)unexpected role 'user' after role 'tool'"), sign=b'"tool"'
    ),
    ALTERNATION: MessageRule(with_alternation, ORDER_REFUSED),
    MESSAGES + "role=user": MessageRule(
        _user_last,
        lazy_pattern(
            r"(?i)expected last role (?:user|to be)|last message must (?:have role|be from) (?:the )?.?user"
            r"|response prefill is incompatible|does not support assistant message prefill"
            r"|no user query found|at least one user message|not contain elements with the role of user"
        ),
    ),
    TEXTS: MessageRule(_in_each(with_text), PARTS_REFUSED),
}
"""The rules by their names, in the order in which they are applied."""
