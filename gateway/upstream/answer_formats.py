"""Answer formats: servers that refuse a JSON schema, or JSON, as ``response_format`` get it in the system prompt."""

from collections.abc import Collection

import msgspec

from gateway.domain import rawjson
from gateway.domain.conversation import join_texts
from gateway.domain.lazy_pattern import lazy_pattern
from gateway.domain.rawjson import NULL, Fields
from gateway.upstream.message_shapes import SYSTEM_ROLES, role_of
from gateway.upstream.translation import JSON_FORMATS, ResponseFormat, format_lines

FORMAT = "response_format"
NO_SCHEMAS = FORMAT + "=json_object"
"""Stands for a server that makes answers JSON, but takes no schema."""
NO_JSON = FORMAT + "=text"
"""Stands for a server that refuses both, at least for this model or in requests with tools."""
_FORMAT_WORDS = r"(?:response[_ ]?format|json[_ ]schema|json mode|structured outputs?)\b"
_IS_REFUSED = (
    r"(?:unavailable|not (?:currently |yet )?(?:supported|available|allowed|permitted)|unsupported|must be"
    r"|incompatible|cannot be (?:combined|used))"
)
FORMAT_REFUSED = lazy_pattern(
    rf"(?is)\A(?!.*\binvalid schema\b).*?(?:{_FORMAT_WORDS}.{{0,80}}?{_IS_REFUSED}"
    rf"|(?:not support|unsupported|unknown|unexpected|unrecognized|incompatible with)\b.{{0,60}}?{_FORMAT_WORDS}"
    r"|schema contains features not supported)"
)
"""Matches refusals of a format, but not those of a schema that breaks the vendor's own rules for schemas."""
_FORMAT = msgspec.json.Decoder(ResponseFormat)


def refuses_format(rule: str, request: Fields, learned: tuple[str, ...]) -> bool:
    """Returns whether a refused request had the format that this rule avoids. ``learned``: what it was written with."""
    kind = rawjson.at(request.get(FORMAT, NULL), "type")
    sent = "json_object" if kind == "json_schema" and NO_SCHEMAS in learned else kind
    return sent == ("json_schema" if rule == NO_SCHEMAS else "json_object") and NO_JSON not in learned


def fit_format(fields: Fields, learned: Collection[str]) -> list[str]:
    """Move what the server refuses of the format into the system prompt. Returns the names of what is left out."""
    rules = {NO_SCHEMAS, NO_JSON}.intersection(learned)
    messages = rawjson.maybe_objects(fields.get("messages"))
    if not rules or messages is None or FORMAT not in fields:
        return []
    try:
        form = _FORMAT.decode(fields[FORMAT])
    except (ValueError, RecursionError):  # the upstream will say so
        return []
    if form.type not in (JSON_FORMATS if NO_JSON in rules else ("json_schema",)):
        return []
    if NO_JSON in rules:
        del fields[FORMAT]
    else:
        fields[FORMAT] = rawjson.raw({"type": "json_object"})
    fields["messages"] = rawjson.raw(_with_lines(messages, form))
    return [FORMAT]


def _with_lines(messages: list[Fields], form: ResponseFormat) -> list[Fields]:
    """Returns the messages with the format at the end of the first one if that is a system message, else before it."""
    lines = [rawjson.raw(line) for line in format_lines(form)]
    first = messages[0] if messages else {}
    content = first.get("content", NULL)
    if role_of(first) not in SYSTEM_ROLES or not rawjson.is_text(content):
        return [{"role": rawjson.raw("system"), "content": join_texts(lines)}, *messages]
    return [{**first, "content": join_texts([content, *lines])}, *messages[1:]]
