"""Message rules: what some templates and models demand of a chat's messages, as their refusals say.

A template may take system messages only at the beginning, a user's message after a tool's only with one of the
assistant between them, or end only with the user. A model that reads no images reads that there was one.
"""

from collections.abc import Callable, Collection, Mapping

import msgspec

from gateway.domain import rawjson
from gateway.domain.conversation import join_texts
from gateway.domain.lazy_pattern import lazy_pattern
from gateway.domain.rawjson import NULL, Fields
from gateway.upstream.refused_params import DEVELOPER, MESSAGES
from gateway.upstream.translation import FILLER, GO_ON

SYSTEM_FIRST = MESSAGES + "role=system"
TOOL_THEN_ASSISTANT = MESSAGES + "role=assistant"
USER_LAST = MESSAGES + "role=user"
NO_IMAGES = MESSAGES + "image_url"
_WORDS = {
    SYSTEM_FIRST: lazy_pattern(r"(?i)system messages? must be (?:at the beginning|first|the first)"),
    TOOL_THEN_ASSISTANT: lazy_pattern(r"(?i)unexpected role 'user' after role 'tool'"),
    USER_LAST: lazy_pattern(
        r"(?i)expected last role (?:user|to be)|last message must have role .?user|response prefill is incompatible"
    ),
    NO_IMAGES: lazy_pattern(
        r"(?i)unknown variant .?image_url|image input is not (?:supported|enabled)|not a multimodal model"
        r"|no endpoints found that support image input|does not support image"
    ),
}
"""What a refusal says, by the name of the rule."""
LEFT_OUT = "[An image was here. This model reads text only.]"


def rules_in(message: str) -> list[str]:
    """Returns the names of the rules that an error means."""
    return [name for name, words in _WORDS.items() if words.search(message)]


def with_rules(messages: list[Fields], rules: Collection[str]) -> list[Fields]:
    """Returns the messages as the rules with these names want them."""
    for name, change in RULES.items():
        messages = change(messages) if name in rules else messages
    return messages


def _role(message: Fields) -> bytes:
    return bytes(message.get("role", NULL))


_SYSTEM, _ASSISTANT, _USER, _TOOL = (rawjson.raw(role) for role in ("system", "assistant", "user", "tool"))
_SYSTEM_ROLES = (bytes(_SYSTEM), DEVELOPER)


def _system_first(messages: list[Fields]) -> list[Fields]:
    """Returns the messages with one system message at the beginning, which has the texts of all."""
    contents = [message.get("content", NULL) for message in messages if _role(message) in _SYSTEM_ROLES]
    if not any(_role(message) in _SYSTEM_ROLES for message in messages[1:]):
        return messages
    others = [message for message in messages if _role(message) not in _SYSTEM_ROLES]
    if all(map(rawjson.is_text, contents)):
        return [{"role": _SYSTEM, "content": join_texts(contents)}, *others]
    parts: list[object] = []
    for raw in contents:
        parts += [{"type": "text", "text": raw}] if rawjson.is_text(raw) else rawjson.list_at(raw)
    return [{"role": _SYSTEM, "content": rawjson.raw(parts)}, *others]


def _assistant_after_tools(messages: list[Fields]) -> list[Fields]:
    fitting: list[Fields] = []
    for message in messages:
        if fitting and _role(fitting[-1]) == bytes(_TOOL) and _role(message) == bytes(_USER):
            fitting.append({"role": _ASSISTANT, "content": rawjson.raw(FILLER)})
        fitting.append(message)
    return fitting


def _user_last(messages: list[Fields]) -> list[Fields]:
    ends_with_assistant = bool(messages) and _role(messages[-1]) == bytes(_ASSISTANT)
    return [*messages, {"role": _USER, "content": rawjson.raw(GO_ON)}] if ends_with_assistant else messages


def _without_images(messages: list[Fields]) -> list[Fields]:
    return [
        {**message, "content": _without_image(message["content"])} if has_image(message) else message
        for message in messages
    ]


def has_image(message: Fields) -> bool:
    """Returns whether a message has an image."""
    return any(rawjson.at(part, "type") == "image_url" for part in rawjson.list_at(message.get("content")))


def _without_image(content: msgspec.Raw) -> msgspec.Raw:
    """Returns a content with a text for each image; one text if it has nothing else."""
    left_out = {"type": "text", "text": LEFT_OUT}
    parts = [left_out if rawjson.at(part, "type") == "image_url" else part for part in rawjson.list_at(content)]
    texts = [rawjson.text_at(part, "text") for part in parts if rawjson.at(part, "type") == "text"]
    return rawjson.raw("\n\n".join(texts) if len(texts) == len(parts) else parts)


RULES: Mapping[str, Callable[[list[Fields]], list[Fields]]] = {
    NO_IMAGES: _without_images,
    SYSTEM_FIRST: _system_first,
    TOOL_THEN_ASSISTANT: _assistant_after_tools,
    USER_LAST: _user_last,
}
