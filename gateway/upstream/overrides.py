"""A client's order as the channel's owner wants it, before any dialect has seen it. Only what is named is
touched; everything else stays the bytes it came as.

The two names of the output limit are one parameter: setting one takes the other out, and a default for it holds only
where the client gives neither. Else the client's other name would go out beside the owner's, and might be obeyed.
"""

import msgspec

from gateway.domain import rawjson
from gateway.domain.channel import Overrides
from gateway.domain.conversation import TextPart, Turn
from gateway.domain.order import Order
from gateway.domain.output_limit import CAPS
from gateway.domain.rawjson import Fields

_SYSTEM = (b'"system"', b'"developer"')
_GAP = "\n\n"


def apply_overrides(order: Order, overrides: Overrides) -> Order:
    """Returns the order with the owner's parameters and system prompt; ``removed`` names what the client sent and is
    gone.
    """
    fields = with_parameters(order.fields, overrides)
    removed = [name for name in overrides.remove if name in order.fields]
    conversation = order.conversation
    if overrides.system and conversation is not None:
        conversation = msgspec.structs.replace(conversation, turns=_turns_with_system(conversation.turns, overrides))
    elif overrides.system:
        fields["messages"] = _with_system(fields["messages"], overrides)
    return msgspec.structs.replace(
        order, fields=fields, body=b"", conversation=conversation, removed=(*order.removed, *removed)
    )


def with_parameters(fields: Fields, overrides: Overrides) -> Fields:
    """Returns the request's top level with the owner's parameters, but without the system prompt."""
    fields = {name: value for name, value in fields.items() if name not in overrides.remove}
    limited = any(not rawjson.is_null(fields.get(name)) for name in CAPS)
    for name, value in overrides.default.items():
        if rawjson.is_null(fields.get(name)) and not (limited and name in CAPS):
            fields[name] = rawjson.raw(value)
    if any(name in overrides.set for name in CAPS):
        fields = {name: value for name, value in fields.items() if name not in CAPS}
    for name, value in overrides.set.items():
        fields[name] = rawjson.raw(value)
    return fields


def _turns_with_system(turns: tuple[Turn, ...], overrides: Overrides) -> tuple[Turn, ...]:
    own = TextPart(raw=rawjson.raw(overrides.system))
    if overrides.replace_system:
        turns = tuple(turn for turn in turns if turn.role != "system")
    elif turns and turns[0].role == "system":
        return Turn(role="system", blocks=(own, *turns[0].blocks)), *turns[1:]
    return Turn(role="system", blocks=(own,)), *turns


def _with_system(messages: msgspec.Raw, overrides: Overrides) -> msgspec.Raw:
    try:
        turns = rawjson.objects(messages)
    except ValueError:  # not a list of objects: the upstream will reject it
        return messages
    if overrides.replace_system:
        turns = [turn for turn in turns if bytes(turn.get("role", rawjson.NULL)) not in _SYSTEM]
    elif turns and bytes(turns[0].get("role", rawjson.NULL)) in _SYSTEM and _put_before(turns[0], overrides.system):
        return rawjson.raw(turns)
    own: Fields = {"role": msgspec.Raw(_SYSTEM[0]), "content": rawjson.raw(overrides.system)}
    return rawjson.raw([own, *turns])


def _put_before(turn: Fields, system: str) -> bool:
    """Puts the prompt into the client's first system message, because many upstreams accept only one. Returns False if
    it cannot be read.
    """
    content = rawjson.maybe(turn.get("content"))
    if isinstance(content, str):
        turn["content"] = rawjson.raw(system + _GAP + content)
    elif isinstance(content, list):
        parts = rawjson.items(turn["content"])
        turn["content"] = rawjson.raw([{"type": "text", "text": system + _GAP}, *parts])
    else:
        return False
    return True
