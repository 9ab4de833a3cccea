"""Message shapes: rewrites the messages of a chat for models whose templates accept only the simplest chats.

Such templates refuse lists of parts, system messages, two messages of one role in a row, or images in results.
"""

from base64 import b64encode
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.conversation import join_texts
from gateway.domain.lazy_pattern import lazy_pattern
from gateway.domain.rawjson import NULL, Fields

GO_ON = "Continue."
"""The user's text after the assistant's last message, for models that cannot continue that message."""
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
    """Returns the role of a message; empty if it has none."""
    return rawjson.text_at(message.get("role"))


def blocks_of(message: Fields) -> list[Any]:
    """Returns the parts of a message's content; a text is one part."""
    text = rawjson.text_at(message.get("content"))
    return [{"type": "text", "text": text}] if text else rawjson.list_at(message.get("content"))


def join_contents(contents: Iterable[msgspec.Raw]) -> msgspec.Raw:
    """Returns one content with all of these: a text if all of them are texts, else a list of parts."""
    present = [content for content in contents if not rawjson.is_null(content)]
    if all(map(rawjson.is_text, present)):
        return join_texts(present)
    parts: list[Any] = []
    for content in present:
        parts += [{"type": "text", "text": content}] if rawjson.is_text(content) else rawjson.list_at(content)
    return rawjson.raw(parts)


def with_text(message: Fields) -> Fields:
    """Returns the message with one text as its content, if all of its parts are texts."""
    parts = rawjson.list_at(message.get("content"))
    texts = [rawjson.at(part, "text") for part in parts if rawjson.at(part, "type") in ("text", "input_text")]
    if not texts or len(texts) < len(parts) or not all(isinstance(text, str) for text in texts):
        return message
    return {**message, "content": join_texts([rawjson.raw(text) for text in texts])}


def with_images_apart(messages: list[Fields]) -> list[Fields]:
    """Returns the messages with the images of tool results in a message of the user, after the results."""
    rewritten: list[Fields] = []
    images = list[Any]()
    for message in [*map(_with_images_last, messages), {}]:  # the empty one ends the last results
        texts, new_images = _split_images(rawjson.list_at(message.get("content")) if role_of(message) == "tool" else [])
        if images and role_of(message) != "tool":
            rewritten.append({"role": rawjson.raw("user"), "content": rawjson.raw(images)})
            images = []
        rewritten.append({**message, "content": rawjson.raw(texts)} if new_images else message)
        images += new_images
    return rewritten[:-1]


def _with_images_last(message: Fields) -> Fields:
    """Returns a message of the Messages API with the images of its results after all other blocks."""
    blocks, images = list[Any](), list[Any]()
    for block in rawjson.list_at(message.get("content")):
        texts, new_images = _split_images(rawjson.list_at(block, "content"))
        blocks.append({**block, "content": texts} if new_images else block)
        images += new_images
    return {**message, "content": rawjson.raw([*blocks, *images])} if images else message


def _split_images(parts: list[Any]) -> tuple[list[Any], list[Any]]:
    """Returns the parts of a result without its images, and the images."""
    images = [part for part in parts if rawjson.at(part, "type") in ("image", "image_url")]
    return [part for part in parts if part not in images] or [{"type": "text", "text": "[image]"}], images


def with_role(old: str, new: str) -> Callable[[Fields], Fields]:
    """Returns a function that replaces one role of messages by another."""
    return lambda message: {**message, "role": rawjson.raw(new)} if role_of(message) == old else message


def with_system_first(messages: list[Fields]) -> list[Fields]:
    """Returns the messages with all system messages joined into one, at the beginning."""
    contents = [message.get("content", NULL) for message in messages if role_of(message) in SYSTEM_ROLES]
    if not any(role_of(message) in SYSTEM_ROLES for message in messages[1:]):
        return messages
    others = [message for message in messages if role_of(message) not in SYSTEM_ROLES]
    return [{"role": rawjson.raw("system"), "content": join_contents(contents)}, *others]


def without_system(messages: list[Fields]) -> list[Fields]:
    """Returns the messages with the system prompt at the beginning of the user's first message."""
    prompts = [message.get("content", NULL) for message in messages if role_of(message) in SYSTEM_ROLES]
    others = [message for message in messages if role_of(message) not in SYSTEM_ROLES]
    if not prompts:
        return messages
    first = next((index for index, message in enumerate(others) if role_of(message) == "user"), None)
    if first is None:
        return [{"role": rawjson.raw("user"), "content": join_contents(prompts)}, *others]
    content = join_contents([*prompts, others[first].get("content", NULL)])
    return [*others[:first], {**others[first], "content": content}, *others[first + 1 :]]


def with_alternation(messages: list[Fields]) -> list[Fields]:
    """Returns the messages with consecutive ones of a role joined. The first after the system prompt is the user's."""
    joined: list[Fields] = []
    for message in messages:
        last, role = joined[-1] if joined else {}, role_of(message)
        if role in ("user", "assistant") and role == role_of(last) and not ({"tool_calls"} & {*message, *last}):
            joined[-1] = {**last, "content": join_contents([last.get("content", NULL), message.get("content", NULL)])}
            continue
        if role == "assistant" and role_of(last) in ("", *SYSTEM_ROLES):
            joined.append({"role": rawjson.raw("user"), "content": rawjson.raw(FILLER)})
        joined.append(message)
    return joined
