"""Overrides: applies the parameters and the system prompt of a channel's owner to a client's order.

Only what they name is changed; every other value stays the bytes that came. The two names of the output limit are one
parameter: setting one removes the other, and a default applies only if the client sends neither. Otherwise the client's
limit would go out with the owner's, and the upstream might obey it.
"""

import msgspec

from gateway.domain import rawjson
from gateway.domain.channel import Overrides
from gateway.domain.conversation import TextPart, Turn
from gateway.domain.order import Order
from gateway.domain.output_limit import CAPS
from gateway.domain.rawjson import Fields

_SYSTEM_ROLES = (b'"system"', b'"developer"')
_BLANK_LINE = "\n\n"


def apply_overrides(order: Order, overrides: Overrides) -> Order:
    """Returns the order with the owner's parameters and system prompt. Its ``removed`` names the removed parameters."""
    fields = with_parameters(order.fields, overrides)
    removed = [name for name in overrides.remove if name in order.fields]
    conversation = order.conversation
    if overrides.system and conversation is not None:
        conversation = msgspec.structs.replace(conversation, turns=_turns_with_system(conversation.turns, overrides))
    elif overrides.system:
        fields["messages"] = _messages_with_system(fields["messages"], overrides)
    return msgspec.structs.replace(
        order, fields=fields, body=b"", conversation=conversation, removed=(*order.removed, *removed)
    )


def with_parameters(fields: Fields, overrides: Overrides) -> Fields:
    """Returns the request's top level with the owner's parameters, but without the system prompt."""
    fields = {name: value for name, value in fields.items() if name not in overrides.remove}
    has_limit = any(not rawjson.is_null(fields.get(name)) for name in CAPS)
    for name, value in overrides.default.items():
        if rawjson.is_null(fields.get(name)) and not (has_limit and name in CAPS):
            fields[name] = rawjson.raw(value)
    if any(name in overrides.set for name in CAPS):
        fields = {name: value for name, value in fields.items() if name not in CAPS}
    for name, value in overrides.set.items():
        fields[name] = rawjson.raw(value)
    return fields


def _turns_with_system(turns: tuple[Turn, ...], overrides: Overrides) -> tuple[Turn, ...]:
    prompt = TextPart(raw=rawjson.raw(overrides.system))
    if overrides.replace_system:
        turns = tuple(turn for turn in turns if turn.role != "system")
    elif turns and turns[0].role == "system":
        return Turn(role="system", blocks=(prompt, *turns[0].blocks)), *turns[1:]
    return Turn(role="system", blocks=(prompt,)), *turns


def _messages_with_system(messages: msgspec.Raw, overrides: Overrides) -> msgspec.Raw:
    """Returns messages with the owner's prompt instead of the client's, or before it: many upstreams want only one."""
    turns = rawjson.maybe_objects(messages)
    if turns is None:  # the upstream will reject it
        return messages
    if overrides.replace_system:
        turns = [turn for turn in turns if not _is_system(turn)]
    elif turns and _is_system(turns[0]):
        content = _prepend(turns[0].get("content"), overrides.system)
        if content is not None:
            return rawjson.raw([{**turns[0], "content": content}, *turns[1:]])
    prompt: Fields = {"role": msgspec.Raw(_SYSTEM_ROLES[0]), "content": rawjson.raw(overrides.system)}
    return rawjson.raw([prompt, *turns])


def _is_system(turn: Fields) -> bool:
    return bytes(turn.get("role", rawjson.NULL)) in _SYSTEM_ROLES


def _prepend(content: msgspec.Raw | None, prompt: str) -> msgspec.Raw | None:
    """Returns the content of a message with the prompt before it; None if it is neither text nor a list."""
    decoded = rawjson.maybe(content)
    if isinstance(decoded, str):
        return rawjson.raw(prompt + _BLANK_LINE + decoded)
    if content is not None and isinstance(decoded, list):
        return rawjson.raw([{"type": "text", "text": prompt + _BLANK_LINE}, *rawjson.items(content)])
    return None
