"""Overrides: applies the parameters and the system prompt of a channel's owner to a client's order.

Only what they name is changed; every other value stays the bytes that came. The two names of the output limit are one
parameter: setting one removes the other, and a default applies only if the client sends neither. Otherwise the client's
limit would go out with the owner's, and the upstream might obey it.
"""

from collections.abc import Collection, Mapping

import msgspec

from gateway.domain import rawjson
from gateway.domain.channel import Overrides
from gateway.domain.conversation import TextPart, Turn, join_texts
from gateway.domain.order import Order
from gateway.domain.output_limit import CAPS
from gateway.domain.rawjson import NULL
from gateway.upstream.message_shapes import SYSTEM_ROLES, role_of
from gateway.upstream.request_rules import leave_out

ParameterNames = Mapping[str, str | None]
"""The name of each chat completion parameter in an API: a field, or a field of an object (``output_config.effort``);
None if the API has no such parameter. A parameter that is not listed has the same name in both."""
_NO_NAMES: ParameterNames = {}


def apply_overrides(order: Order, overrides: Overrides) -> Order:
    """Returns the order with the owner's parameters and system prompt."""
    order = with_parameters(order, overrides)
    fields, conversation = order.fields, order.conversation
    if overrides.system and conversation is not None:
        conversation = msgspec.structs.replace(conversation, turns=_turns_with_system(conversation.turns, overrides))
    elif overrides.system:
        fields = {**fields, "messages": _messages_with_system(fields["messages"], overrides)}
    return msgspec.structs.replace(order, fields=fields, body=b"", conversation=conversation)


def with_parameters(
    order: Order, overrides: Overrides | None, names: ParameterNames = _NO_NAMES, required: Collection[str] = ()
) -> Order:
    """Returns the order with the owner's parameters, but not with the system prompt. ``removed`` names the parameters
    that were removed, or have no counterpart in the API.

    ``names`` are the API's own, and ``required`` the fields that it insists on: they are never removed.
    """
    if overrides is None or not (overrides.set or overrides.default or overrides.remove):
        return order
    fields, removed = dict(order.fields), list(order.removed)
    for name in overrides.remove:
        path = names.get(name, name)
        if path is not None and path not in required and leave_out(fields, path):
            removed.append(name)
    caps = {names.get(name, name) for name in CAPS}
    sets_limit = any(name in overrides.set for name in CAPS)
    has_limit = sets_limit or any(path in caps and not rawjson.is_null(raw) for path, raw in fields.items())
    if sets_limit:
        fields = {path: raw for path, raw in fields.items() if path not in caps}
    settings = sorted(overrides.set.items(), key=lambda item: item[0] == CAPS[0])  # of two caps the newer one counts
    for name, value in (*overrides.default.items(), *settings):
        path = names.get(name, name)
        if path is None:
            removed.append(name)
            continue
        holder, _, member = path.partition(".")
        members = rawjson.maybe_fields(fields.get(holder)) if member else fields
        is_gap = rawjson.is_null(members.get(member or holder)) and not (has_limit and name in CAPS)
        if is_gap or name in overrides.set:  # a default only fills a gap
            is_only_stop = path == "stop_sequences" and isinstance(value, str)  # Anthropic wants a list
            members[member or holder] = rawjson.raw([value] if is_only_stop else value)
            if member:
                fields[holder] = rawjson.raw(members)
    return msgspec.structs.replace(order, fields=fields, body=b"", removed=tuple(removed))


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
        turns = [turn for turn in turns if role_of(turn) not in SYSTEM_ROLES]
    first, prompt = turns[0] if turns else {}, rawjson.raw(overrides.system)
    content = first.get("content", NULL) if role_of(first) in SYSTEM_ROLES else NULL
    if rawjson.is_text(content):
        return rawjson.raw([{**first, "content": join_texts([prompt, content])}, *turns[1:]])
    if rawjson.is_list(content):
        parts = [{"type": "text", "text": overrides.system + "\n\n"}, *rawjson.items(content)]
        return rawjson.raw([{**first, "content": parts}, *turns[1:]])
    return rawjson.raw([{"role": "system", "content": prompt}, *turns])
