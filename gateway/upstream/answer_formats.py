"""Answer formats: servers that refuse a JSON schema, or JSON, as ``response_format`` get it in the system prompt."""

from collections.abc import Collection

import msgspec

from gateway.domain import rawjson
from gateway.domain.conversation import join_texts
from gateway.domain.lazy_pattern import lazy_pattern
from gateway.domain.rawjson import NULL, Fields
from gateway.upstream.message_shapes import SYSTEM_ROLES, role_of
from gateway.upstream.tool_schemas import strict_schema

JSON_FORMATS = frozenset({"json_object", "json_schema"})
"""Types of response formats that are JSON."""
JSON_LINE = "Reply with one JSON object and nothing else."
"""The line of the system prompt for models that cannot be made to write JSON."""


class ResponseFormat(msgspec.Struct, frozen=True, kw_only=True):
    """The ``response_format`` of a request."""

    type: str = "text"
    """``text``, ``json_object`` or ``json_schema``."""
    json_schema: Fields | None = None
    top_level_schema: msgspec.Raw = msgspec.field(name="schema", default=NULL)
    """The schema where Responses, llama.cpp and Together have it."""
    value: msgspec.Raw = NULL
    """The schema where Hugging Face's client has it, whatever its caller wrote."""

    @property
    def schema(self) -> msgspec.Raw:
        """Returns the schema of the answer, with its description in it, or null."""
        if self.type not in JSON_FORMATS:
            return NULL
        given = self.value if rawjson.is_null(self.top_level_schema) else self.top_level_schema
        form = {"schema": given} if self.json_schema is None else self.json_schema
        schema, description = form.get("schema", NULL), rawjson.text_at(form.get("description"))
        if not description or bytes(memoryview(schema)[:1]) != b"{":
            return schema
        return rawjson.raw({"description": description, **rawjson.fields(schema)})


def format_lines(form: ResponseFormat) -> list[str]:
    """Returns the lines of the system prompt for an answer that must be JSON, if the model cannot be made to comply."""
    schema = "" if rawjson.is_null(form.schema) else bytes(form.schema).decode("utf-8", "replace")
    return [JSON_LINE, *([f"It must match this JSON schema:\n{schema}"] if schema else [])]


FORMAT = "response_format"
NO_SCHEMAS = FORMAT + "=json_object"
"""Stands for a server that makes answers JSON, but takes no schema."""
NO_JSON = FORMAT + "=text"
"""Stands for a server that does not make answers JSON, at least for this model or in requests with tools."""
STRICT_SCHEMAS = FORMAT + "=strict schema"
"""Stands for a relay that passes schemas to Claude as they come, and makes ``{}`` of JSON without one."""
_RULES = {"json_schema": NO_SCHEMAS, "json_object": NO_JSON}
"""The rule that stands for a server without a type of formats."""
_FORMAT_WORDS = r"(?:response[_ ]?format|response mime type|json[_ ]schema|json mode|structured outputs?)\b"
_IS_REFUSED = (
    r"(?:unavailable|not (?:currently |yet )?(?:supported|available|allowed|permitted)|unsupported|must be"
    r"|incompatible|cannot be (?:combined|used))"
)
_FORMAT_REFUSED = lazy_pattern(
    rf"(?is)\A(?!.*\binvalid schema\b).*?(?:{_FORMAT_WORDS}.{{0,80}}?{_IS_REFUSED}"
    rf"|(?:not support|unsupported|unknown|unexpected|unrecognized|incompatible with)\b.{{0,60}}?{_FORMAT_WORDS}"
    r"|schema contains features not supported)"
)
"""Matches refusals of a format, but not of a schema that breaks the vendor's own rules for schemas."""
FORMATS_REFUSED = {
    NO_SCHEMAS: _FORMAT_REFUSED,
    NO_JSON: _FORMAT_REFUSED,
    STRICT_SCHEMAS: lazy_pattern(r"(?i)\boutput_(?:config\.)?format\.schema\b"),
}
"""What a refusal says, by the name of the rule."""
_FORMAT = msgspec.json.Decoder(ResponseFormat)


def fit_format(fields: Fields, rules: Collection[str]) -> list[str]:
    """Move what the server refuses of the format into the system prompt. Returns the names of what is left out.

    A schema becomes strict, or JSON without one, and nothing where that is refused as well.
    """
    messages = rawjson.maybe_objects(fields.get("messages")) if FORMAT in fields else None
    if messages is None or not {NO_SCHEMAS, NO_JSON, STRICT_SCHEMAS}.intersection(rules):
        return []
    try:
        form = _FORMAT.decode(fields[FORMAT])
    except (ValueError, RecursionError):  # the upstream will say so
        return []
    is_strict = STRICT_SCHEMAS in rules and form.type == "json_schema"
    if is_strict and (schema := strict_schema(form.schema)) is not None:
        given = rawjson.maybe_fields(fields[FORMAT])
        named = {**rawjson.maybe_fields(given.get("json_schema")), "schema": rawjson.raw(schema)}
        fields[FORMAT] = rawjson.raw({**given, "json_schema": named})
        return []
    if not is_strict and _RULES.get(form.type) not in rules:
        return []
    if is_strict or NO_JSON in rules:
        del fields[FORMAT]
    else:
        fields[FORMAT] = rawjson.raw({"type": "json_object"})
    fields["messages"] = rawjson.raw(_with_lines(messages, form))
    return [FORMAT]


def _with_lines(messages: list[Fields], form: ResponseFormat) -> list[Fields]:
    """Returns the messages with the format at the end of the first one if it is a system message, else before it."""
    lines = [rawjson.raw(line) for line in format_lines(form)]
    first = messages[0] if messages else {}
    content = first.get("content", NULL)
    if role_of(first) not in SYSTEM_ROLES or not rawjson.is_text(content):
        return [{"role": rawjson.raw("system"), "content": join_texts(lines)}, *messages]
    return [{**first, "content": join_texts([content, *lines])}, *messages[1:]]
