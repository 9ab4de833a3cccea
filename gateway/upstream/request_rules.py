"""Request rules: what a server demands of requests, as its refusals say, and how requests are changed to comply.

``learned_params`` remembers a rule by its name, and vendors have some in their rows. Any other name is the path of a
field to leave out, such as ``seed`` or ``messages[].tool_calls[].index``.
"""

import re
from collections.abc import Collection, Sequence
from functools import lru_cache

import msgspec

from gateway.domain import rawjson
from gateway.domain.lazy_pattern import lazy_pattern
from gateway.domain.output_limit import CAPS
from gateway.domain.rawjson import Fields
from gateway.upstream.answer_formats import FORMATS_REFUSED, fit_format
from gateway.upstream.efforts import (
    EFFORT,
    EFFORTS,
    FORCE_REFUSED,
    FORCE_RULES,
    FORMS_REFUSED,
    NO_EFFORT,
    chat_effort,
    fit_choice,
    fit_effort,
    fit_thinking,
)
from gateway.upstream.message_rules import RULES, fit_messages
from gateway.upstream.null_values import NULLS, NULLS_REFUSED, without_nulls
from gateway.upstream.ranges import RANGES, fit_ranges
from gateway.upstream.tool_schemas import SCHEMAS, SCHEMAS_REFUSED, fit_schemas

STREAM = "stream=true"
PLAIN = "stream=false"
_REFUSED: dict[str, re.Pattern[str]] = {
    STREAM: lazy_pattern(
        r"(?i)stream must be set to true|only supports? stream|non-?streaming calls|streaming is required"
    ),
    PLAIN: lazy_pattern(  # but not with something that only some requests have
        r"(?i)verified to stream|stream\W{1,3}does not support true"
        r"|(?:stream(?:ing)?\W{1,3}is not supported|not support stream(?:ing)?\b)"
        r"(?! (?:tool|function|(?:with|for|when|if|in|and) (?!this\b|the\b|your\b)))"
    ),
    **FORMS_REFUSED,
    **dict.fromkeys(FORCE_RULES.values(), FORCE_REFUSED),
    **{name: lazy_pattern(rule.refused, re.IGNORECASE) for name, rule in RULES.items()},
    NULLS: NULLS_REFUSED,
    SCHEMAS: SCHEMAS_REFUSED,
    **FORMATS_REFUSED,
}
"""What a refusal says, by the name of the rule."""


def rules_in(message: str) -> list[str]:
    """Returns the names of the rules that an error message is about."""
    return [name for name, words in _REFUSED.items() if words.search(message)]


def is_rule(name: str) -> bool:
    """Returns whether a name stands for a change of a request, not for a field to leave out."""
    return name in _REFUSED or name.startswith((EFFORTS, RANGES))


def fit_request(request: Fields, rules: Collection[str]) -> tuple[Fields, list[str]]:
    """Returns a request's fields as the rules want them, and the names of what they lose or have another value of."""
    if not rules:
        return dict(request), []
    paths, of_messages, others = _by_kind(tuple(rules))
    fields = without_nulls(request) if NULLS in others else dict(request)
    if STREAM in others or PLAIN in others:  # an answer in the other form than requested is read all the same
        fields["stream"] = rawjson.raw(STREAM in others)
    if "reasoning" in paths and "messages" in fields and (effort := chat_effort(fields)) is not None:
        fields[EFFORT] = rawjson.raw(effort)  # OpenRouter's clients have it in the refused field
    # the gateway writes the usage that clients ask for
    lost = [name for name in paths if leave_out(fields, name) and name not in ("stream_options", "usage")]
    if others:
        lost += fit_effort(fields, others) + fit_thinking(fields, others) + fit_choice(fields, others)
        lost += fit_format(fields, others) + fit_ranges(fields, others)
        fit_schemas(fields, others)
    return fields, lost + (fit_messages(fields, of_messages) if of_messages else [])


@lru_cache(maxsize=256)
def _by_kind(names: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Returns the paths to leave out, the rules for messages, and the others. Cached: a channel's calls share them."""
    paths = tuple(name for name in names if not is_rule(name) and name not in CAPS)
    others = tuple(name for name in names if name not in RULES and (name == NO_EFFORT or is_rule(name)))
    return paths, tuple(name for name in names if name in RULES), others


def leave_out(fields: Fields, name: str) -> bool:
    """Leave out the field at a path, also in tools' functions, and an emptied object. Returns whether it was there."""
    holder, path = _parts_of(name)
    if holder not in fields:
        return False
    sent = fields[holder]
    kept = _without(sent, path) if path else rawjson.NULL
    kept = _without(kept, ["function", *path]) if holder == "tools" and path else kept
    if not path or bytes(memoryview(kept)[:3]) == b"{}":
        del fields[holder]
    else:
        fields[holder] = kept
    return kept is not sent


@lru_cache(maxsize=1024)
def _parts_of(name: str) -> tuple[str, tuple[str, ...]]:
    """Returns the top-level field of a path, and the names below it."""
    holder, *path = name.replace("[]", "").split(".")
    return holder, tuple(path)


def _without(raw: msgspec.Raw, path: Sequence[str]) -> msgspec.Raw:
    """Returns an object without the member at a path, or a list of objects without it. What stays keeps its bytes."""
    if f'"{path[-1]}"'.encode() not in bytes(raw):
        return raw
    name, *inner = path
    is_changed, is_list = False, rawjson.is_list(raw)
    objects = rawjson.maybe_objects(raw) or [] if is_list else [rawjson.maybe_fields(raw)]
    for members in objects:
        member = members.get(name)
        if member is None:
            continue
        if inner:
            members[name] = _without(member, inner)
        else:
            del members[name]
        is_changed = is_changed or members.get(name) is not member
    if not is_changed:
        return raw
    return rawjson.raw(objects if is_list else objects[0])
