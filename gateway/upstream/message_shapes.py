"""Message shapes: rewrites the messages of a chat for models whose templates accept only the simplest chats.

Such templates refuse lists of parts, system messages, two messages of one role in a row, or images in results.
"""

from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gateway.domain import rawjson
from gateway.domain.rawjson import JsonObject

GO_ON = "Continue."
"""The user's text after the assistant's last message, for models that cannot continue that message."""
FILLER = "."
"""The text of a message that must not be empty."""
UNSIGNED = b64encode(b"skip_thought_signature_validator").decode()
"""Google's documented signature of a call that it did not sign."""

SYSTEM_ROLES = ("system", "developer")


def role_of(message: Mapping[str, Any]) -> str:
    """Returns the role of a message, raw or decoded; empty if it has none."""
    return rawjson.text_at(message.get("role"))


def blocks_of(message: JsonObject) -> list[Any]:
    """Returns the parts of a message's content; a text is one part."""
    return _parts_of(message.get("content") or None)


def _parts_of(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else rawjson.list_at(content)


def join_contents(contents: Iterable[Any]) -> Any:
    """Returns one content with all of these: a text if all of them are texts, else a list of parts."""
    present = [content for content in contents if content is not None]
    if all(isinstance(content, str) for content in present):
        return _join_texts(present)
    return [part for content in present for part in _parts_of(content)]


def _join_texts(texts: Iterable[str]) -> str:
    return "\n\n".join(filter(None, texts))


def with_text(message: JsonObject) -> JsonObject:
    """Returns the message with one text as its content, if all of its parts are texts."""
    parts = rawjson.list_at(message, "content")
    texts = [rawjson.at(part, "text") for part in parts if rawjson.at(part, "type") in ("text", "input_text")]
    if not texts or len(texts) < len(parts) or not all(isinstance(text, str) for text in texts):
        return message
    return {**message, "content": _join_texts(texts)}


def with_images_apart(messages: list[JsonObject]) -> list[JsonObject]:
    """Returns the messages with the images of tool results in a message of the user, after the results."""
    rewritten: list[JsonObject] = []
    images = list[Any]()
    for message in [*map(_with_images_last, messages), {}]:  # the empty one ends the last results
        texts, new_images = _split_images(rawjson.list_at(message, "content") if role_of(message) == "tool" else [])
        if images and role_of(message) != "tool":
            rewritten.append({"role": "user", "content": images})
            images = []
        rewritten.append({**message, "content": texts} if new_images else message)
        images += new_images
    return rewritten[:-1]


def _with_images_last(message: JsonObject) -> JsonObject:
    """Returns a message of the Messages API with the images of its results after all other blocks."""
    blocks, images = list[Any](), list[Any]()
    for block in rawjson.list_at(message, "content"):
        texts, new_images = _split_images(rawjson.list_at(block, "content"))
        blocks.append({**block, "content": texts} if new_images else block)
        images += new_images
    return {**message, "content": [*blocks, *images]} if images else message


def _split_images(parts: list[Any]) -> tuple[list[Any], list[Any]]:
    """Returns the parts of a result without its images, and the images."""
    images = [part for part in parts if rawjson.at(part, "type") in ("image", "image_url")]
    return [part for part in parts if part not in images] or [{"type": "text", "text": "[image]"}], images


def with_role(old: str, new: str) -> Callable[[JsonObject], JsonObject]:
    """Returns a function that replaces one role of messages by another."""
    return lambda message: {**message, "role": new} if role_of(message) == old else message


def _split_system(messages: list[JsonObject]) -> tuple[list[Any], list[JsonObject]]:
    """Returns the contents of the system messages, and the other messages."""
    contents = [message.get("content") for message in messages if role_of(message) in SYSTEM_ROLES]
    return contents, [message for message in messages if role_of(message) not in SYSTEM_ROLES]


def with_system_first(messages: list[JsonObject]) -> list[JsonObject]:
    """Returns the messages with all system messages joined into one, at the beginning."""
    if not any(role_of(message) in SYSTEM_ROLES for message in messages[1:]):
        return messages
    contents, others = _split_system(messages)
    return [{"role": "system", "content": join_contents(contents)}, *others]


def without_system(messages: list[JsonObject]) -> list[JsonObject]:
    """Returns the messages with the system prompt at the beginning of the user's first message."""
    prompts, others = _split_system(messages)
    if not prompts:
        return messages
    first = next((index for index, message in enumerate(others) if role_of(message) == "user"), None)
    if first is None:
        return [{"role": "user", "content": join_contents(prompts)}, *others]
    content = join_contents([*prompts, others[first].get("content")])
    return [*others[:first], {**others[first], "content": content}, *others[first + 1 :]]


def with_alternation(messages: list[JsonObject]) -> list[JsonObject]:
    """Returns the messages with consecutive ones of a role joined. The first after the system prompt is the user's."""
    joined: list[JsonObject] = []
    for message in messages:
        last, role = joined[-1] if joined else {}, role_of(message)
        if role in ("user", "assistant") and role == role_of(last) and not ({"tool_calls"} & {*message, *last}):
            joined[-1] = {**last, "content": join_contents([last.get("content"), message.get("content")])}
            continue
        if role == "assistant" and role_of(last) in ("", *SYSTEM_ROLES):
            joined.append({"role": "user", "content": FILLER})
        joined.append(message)
    return joined
