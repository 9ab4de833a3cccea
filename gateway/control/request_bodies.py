"""Request bodies: reads bodies, patches and query parameters strictly. The domain's structs define their fields.

Nothing is guessed or ignored: the error for an unknown name lists the known ones, and one for a type says where.
"""

import enum
import re
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec
from aiohttp import web

from gateway.domain.errors import BadRequest
from gateway.domain.text import plain
from gateway.domain.units import MAX_NUMBER

AnyStruct = TypeVar("AnyStruct", bound=msgspec.Struct)
ParameterType = type | range | Collection[str]

_DECODER_MESSAGE = re.compile(r"(?P<reason>.*?)(?: - at `(?P<place>.*)`)?", re.DOTALL)
"""Matches a decoder's message such as ``Expected `int`, got `str` - at `$[0].nanos```."""


def members(data: bytes) -> dict[str, Any]:
    """Returns the members of a JSON object; an empty body counts as ``{}``. Raises BadRequest."""
    if not data.strip():
        return {}
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise BadRequest(f"the body must be one JSON object: {exc}", code="invalid_json") from exc


def fields(body: bytes | Mapping[str, Any], types: Mapping[str, Any], *required: str) -> dict[str, Any]:
    """Returns the values of a body, or of its members, by name. ``types`` has the types of all possible fields.

    Raises BadRequest with ``param`` set to an unknown or wrong field, or to a missing ``required`` one.
    """
    sent = members(body) if isinstance(body, bytes) else body
    require_known(sent, types)
    for name in required:
        if name not in sent:
            raise missing(name)
    return {name: _convert_field(name, value, types[name]) for name, value in sent.items()}


def missing(name: str) -> BadRequest:
    """Returns the error for a body that lacks a field."""
    return BadRequest(f"the field '{name}' is missing", code="missing_required_parameter", param=name)


@lru_cache(maxsize=64)
def types_of(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """Returns the types of a struct's fields by name."""
    return get_type_hints(struct)


def patch(entity: AnyStruct, body: bytes | Mapping[str, Any], types: Mapping[str, Any], *required: str) -> AnyStruct:
    """Returns the entity with the fields of a body. Raises BadRequest as ``fields`` does."""
    return msgspec.structs.replace(entity, **fields(body, types, *required))


async def read_body(request: web.Request, struct: type[AnyStruct]) -> AnyStruct:
    """Returns a request's body as a struct. Raises BadRequest for an unknown, wrong or missing field."""
    required = [field.name for field in msgspec.structs.fields(struct) if field.required]
    return struct(**fields(await request.read(), types_of(struct), *required))


def require_known(names: Mapping[str, object], allowed: Collection[str], param: str = "") -> None:
    """Check that all names are allowed. ``param`` is the path of the object that has them. Raises BadRequest."""
    for name in names:
        if name not in allowed:
            path = f"{param}.{plain(name, 64)}" if param else plain(name, 64)
            message = f"unknown field '{path}'; the known fields are: {', '.join(sorted(allowed)) or 'none'}"
            raise BadRequest(message, code="unknown_field", param=path)


def query(params: Mapping[str, str], types: Mapping[str, ParameterType]) -> dict[str, Any]:
    """Returns URL parameters as ``str``, ``int``, ``bool``, or ``tuple`` if they may be repeated. Raises BadRequest.

    A range stands for a whole number in it, and a collection of texts for one of them.
    """
    require_known(params, types)
    values: dict[str, Any] = {}
    for name in params:
        texts = [text for key, text in params.items() if key == name and text != ""]
        if types[name] is tuple:
            values |= {name: tuple(dict.fromkeys(texts))} if texts else {}
        elif len(texts) > 1:
            raise BadRequest(f"'{name}' is given {len(texts)} times, but may be given only once", param=name)
        elif texts:
            values[name] = _convert(name, texts[0], types[name])
    return values


def _convert(name: str, text: str, kind: ParameterType) -> object:
    if kind is bool or kind is int or isinstance(kind, range):
        try:
            value = msgspec.convert(text.lower(), bool if kind is bool else int, strict=False)
        except msgspec.ValidationError as exc:
            description = "true or false" if kind is bool else "a whole number"
            raise BadRequest(f"'{name}' must be {description}, not '{plain(text, 64)}'", param=name) from exc
        if isinstance(kind, range) and value not in kind:
            raise BadRequest(f"{name}: must be from {kind[0]} to {kind[-1]}", param=name)
        return value
    if not isinstance(kind, type) and text not in kind:
        raise BadRequest(f"{name}: must be one of {', '.join(kind)}", param=name)
    return text


def _convert_field(name: str, untyped: object, hint: Any) -> object:
    try:
        value: object = msgspec.convert(untyped, hint)
        _check_nested(name, untyped, hint)  # it has the unknown fields too, which conversion drops
    except (msgspec.ValidationError, RecursionError) as exc:
        match = _DECODER_MESSAGE.fullmatch(str(exc))
        reason, path = (match["reason"], match["place"] or "$") if match else (str(exc), "$")
        choices = "; known: " + ", ".join(_choices(hint)) if "enum" in reason.lower() and any(_choices(hint)) else ""
        raise BadRequest(f"{name}{path.removeprefix('$')}: {plain(reason)}{choices}", param=name) from exc
    return value


def _choices(hint: Any) -> Iterator[str]:
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        yield from (str(member.value) for member in hint)
    elif isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        for inner in types_of(hint).values():
            yield from _choices(inner)
    for inner in get_args(hint):
        yield from _choices(inner)


def _check_nested(path: str, value: object, hint: Any) -> None:
    """Check numbers, and that inner structs have known fields: the decoder drops others. Raises BadRequest."""
    inner = next((h for h in (hint, *get_args(hint)) if isinstance(h, type) and issubclass(h, msgspec.Struct)), None)
    if isinstance(value, list):
        for number, item in enumerate(value):
            _check_nested(f"{path}[{number}]", item, inner)
    elif isinstance(value, dict):
        if inner is not None:
            require_known(value, inner.__struct_fields__, path)
        for name, item in value.items():
            _check_nested(f"{path}.{name}", item, None if inner is None else types_of(inner)[name])
    elif isinstance(value, int | float) and not -MAX_NUMBER <= value <= MAX_NUMBER:
        message = f"{path}: must be from -{MAX_NUMBER} to {MAX_NUMBER}"
        raise BadRequest(message, param=path.partition(".")[0].partition("[")[0])
