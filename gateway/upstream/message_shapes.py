"""Message shapes: who speaks when, and texts as one, for the templates of models that take only the simplest chats."""

from base64 import b64encode
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.conversation import join_texts
from gateway.domain.lazy_pattern import lazy_pattern
from gateway.domain.rawjson import NULL, Fields

GO_ON = "Continue."
"""What the user says after the assistant's last message, where a model does not go on from it."""
FILLER = "."
"""The text of a message that must not be empty."""
UNSIGNED = b64encode(b"skip_thought_signature_validator").decode()
"""Google's documented signature of a call that it did not sign."""

PARTS_REFUSED = lazy_pattern(
    r"(?i)content['\"`]?(?: field)?\s*:?\s*(?:value )?(?:must|should) be a string"
    r"|\bcontent(?:\.str)?: input should be a valid string"
    r"|invalid type: sequence, expected a string|expected a string,? (?:but )?(?:got|received) (?:an? )?(?:list|array)"
    r"|can only concatenate str|content is not a string|content field's type should be `str`"
)
"""Matches refusals of contents that are lists of parts."""
SYSTEM_REFUSED = lazy_pattern(
    r"(?i)system (?:role|messages?|prompts?|instructions?) (?:(?:is|are) )?not (?:supported|enabled|allowed)"
    r"|not support (?:the )?system (?:role|message|prompt|instruction)|developer instruction is not enabled"
)
"""Matches refusals of a system prompt, as by the templates of Gemma."""
SYSTEM_TURN_REFUSED = lazy_pattern(
    r"(?i)\brole\b.{0,40}(?:invalid discriminator|input should be 'user' or 'assistant')|unknown variant .system\b"
    r"|(?:unexpected|invalid) (?:message )?role\W{1,3}system|role\W{1,2}system\W{1,2}is not supported"
    r"|top-level .system. parameter"
)
"""Matches refusals of system messages within a conversation, such as Claude Code's reminders, by LM Studio, vLLM,
Ollama, Qwen and Bedrock."""
ORDER_REFUSED = lazy_pattern(r"(?i)roles must alternate|alternate (?:between )?['\"`]?user|alternating user")
"""Matches refusals of two messages of one role in a row, or of a chat that begins with the assistant."""
RESULTS_REFUSED = lazy_pattern(
    r"(?i)image urls are only allowed for messages with role 'user'|only text tool_result blocks are supported"
)
"""Matches refusals of images in the results of tools. The second is LM Studio's, in Messages."""
SYSTEM_ROLES = ("system", "developer")


def role_of(message: Fields) -> str:
    """Returns the role of a message, or empty."""
    return rawjson.text_at(message.get("role"))


def blocks_of(message: Fields) -> list[Any]:
    """Returns the parts of a message, which is one if the content is a text."""
    text = rawjson.text_at(message.get("content"))
    return [{"type": "text", "text": text}] if text else rawjson.list_at(message.get("content"))


def join_contents(contents: Iterable[msgspec.Raw]) -> msgspec.Raw:
    """Returns several contents as one: a text if they all are, else parts."""
    given = [content for content in contents if not rawjson.is_null(content)]
    if all(map(rawjson.is_text, given)):
        return join_texts(given)
    parts: list[Any] = []
    for content in given:
        parts += [{"type": "text", "text": content}] if rawjson.is_text(content) else rawjson.list_at(content)
    return rawjson.raw(parts)


def with_text(message: Fields) -> Fields:
    """Returns a message whose content is a text if all of its parts are."""
    parts = rawjson.list_at(message.get("content"))
    texts = [rawjson.at(part, "text") for part in parts if rawjson.at(part, "type") in ("text", "input_text")]
    if not texts or len(texts) < len(parts) or not all(isinstance(text, str) for text in texts):
        return message
    return {**message, "content": join_texts([rawjson.raw(text) for text in texts])}


def with_images_apart(messages: list[Fields]) -> list[Fields]:
    """Returns the messages with the images of tools' results after them, in a message of the user."""
    fitting: list[Fields] = []
    images = list[Any]()
    for message in [*map(_results_first, messages), {}]:
        texts, own = _split_images(rawjson.list_at(message.get("content")) if role_of(message) == "tool" else [])
        if images and role_of(message) != "tool":
            fitting.append({"role": rawjson.raw("user"), "content": rawjson.raw(images)})
            images = []
        fitting.append({**message, "content": rawjson.raw(texts)} if own else message)
        images += own
    return fitting[:-1]


def _results_first(message: Fields) -> Fields:
    blocks, images = list[Any](), list[Any]()
    for block in rawjson.list_at(message.get("content")):
        texts, own = _split_images(rawjson.list_at(block, "content"))
        blocks.append({**block, "content": texts} if own else block)
        images += own
    return {**message, "content": rawjson.raw([*blocks, *images])} if images else message


def _split_images(parts: list[Any]) -> tuple[list[Any], list[Any]]:
    """Returns the parts of a result without its images, and these."""
    images = [part for part in parts if rawjson.at(part, "type") in ("image", "image_url")]
    return [part for part in parts if part not in images] or [{"type": "text", "text": "[image]"}], images


def with_role(old: str, new: str) -> Callable[[Fields], Fields]:
    """Returns what gives a message of one role the other."""
    return lambda message: {**message, "role": rawjson.raw(new)} if role_of(message) == old else message


def with_system_first(messages: list[Fields]) -> list[Fields]:
    """Returns the messages with one system message at the beginning, which has the texts of all."""
    contents = [message.get("content", NULL) for message in messages if role_of(message) in SYSTEM_ROLES]
    if not any(role_of(message) in SYSTEM_ROLES for message in messages[1:]):
        return messages
    others = [message for message in messages if role_of(message) not in SYSTEM_ROLES]
    return [{"role": rawjson.raw("system"), "content": join_contents(contents)}, *others]


def without_system(messages: list[Fields]) -> list[Fields]:
    """Returns the messages with the system prompt at the beginning of what the user says first."""
    prompts = [message.get("content", NULL) for message in messages if role_of(message) in SYSTEM_ROLES]
    others = [message for message in messages if role_of(message) not in SYSTEM_ROLES]
    if not prompts:
        return messages
    first = next((place for place, message in enumerate(others) if role_of(message) == "user"), None)
    if first is None:
        return [{"role": rawjson.raw("user"), "content": join_contents(prompts)}, *others]
    said = join_contents([*prompts, others[first].get("content", NULL)])
    return [*others[:first], {**others[first], "content": said}, *others[first + 1 :]]


def with_alternation(messages: list[Fields]) -> list[Fields]:
    """Returns the messages with those of one role in a row as one. Behind the system prompt the user speaks first."""
    fitting: list[Fields] = []
    for message in messages:
        last, role = fitting[-1] if fitting else {}, role_of(message)
        if role in ("user", "assistant") and role == role_of(last) and not ({"tool_calls"} & {*message, *last}):
            fitting[-1] = {**last, "content": join_contents([last.get("content", NULL), message.get("content", NULL)])}
            continue
        if role == "assistant" and role_of(last) in ("", *SYSTEM_ROLES):
            fitting.append({"role": rawjson.raw("user"), "content": rawjson.raw(FILLER)})
        fitting.append(message)
    return fitting
