"""Request bodies: strict patches and query parameters. The domain's structs define what a body may contain.

Nothing is guessed or ignored: the error for an unknown name lists the known ones, and that for a wrong type says
where it is.
"""

import enum
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec
from aiohttp import web

from gateway.domain.errors import BadRequest
from gateway.domain.text import plain
from gateway.domain.units import MOST

AnyStruct = TypeVar("AnyStruct", bound=msgspec.Struct)

_DECODER_MESSAGE = re.compile(r"(?P<what>.*?)(?: - at `(?P<place>.*)`)?", re.DOTALL)


def members(data: bytes) -> dict[str, msgspec.Raw]:
    """Returns the members of a JSON object, undecoded; an empty body is an empty object. Raises BadRequest."""
    if not data.strip():
        return {}
    try:
        return msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise BadRequest(f"the body must be one JSON object: {exc}", code="invalid_json") from exc


def fields(
    data: bytes, struct: type[msgspec.Struct], allowed: Collection[str], required: Iterable[str] = ()
) -> dict[str, Any]:
    """Returns the values of a body. Its names must be ``allowed`` fields of the struct, and have their types.

    Raises BadRequest with ``param`` set to the field at fault, or to one of the ``required`` ones that is missing.
    """
    raw = members(data)
    require_known(raw, allowed)
    for name in required:
        if name not in raw:
            raise missing(name)
    hints = _hints(struct)
    return {name: _decode(name, value, hints[name]) for name, value in raw.items()}


def missing(name: str) -> BadRequest:
    """Returns the error of a body without a field."""
    return BadRequest(f"the field '{name}' is missing", code="missing_required_parameter", param=name)


@lru_cache(maxsize=64)
def _hints(struct: type[msgspec.Struct]) -> dict[str, Any]:
    return get_type_hints(struct)


def patch(entity: AnyStruct, data: bytes, allowed: Collection[str], *required: str) -> AnyStruct:
    """Returns the entity, changed by the fields of a body. Raises BadRequest."""
    return msgspec.structs.replace(entity, **fields(data, type(entity), allowed, required))


async def read_body(request: web.Request, struct: type[AnyStruct]) -> AnyStruct:
    """Returns a request's body as a struct. Only its fields are allowed, and those without a default are required.

    Raises BadRequest.
    """
    required = [field.name for field in msgspec.structs.fields(struct) if field.required]
    return struct(**fields(await request.read(), struct, struct.__struct_fields__, required))


def require_known(names: Mapping[str, object], allowed: Collection[str], where: str = "") -> None:
    """Check that all names are allowed. Raises BadRequest."""
    for name in names:
        if name not in allowed:
            place = f"{where}.{plain(name, 64)}" if where else plain(name, 64)
            raise BadRequest(
                f"unknown field '{place}'; the known fields are: {', '.join(sorted(allowed)) or 'none'}",
                code="unknown_field",
                param=place,
            )


def query(given: Mapping[str, str], types: Mapping[str, type]) -> dict[str, Any]:
    """Returns the parameters of a URL. ``types`` has the type of each name: ``str``, ``int`` or ``bool``, or ``tuple``
    for texts that may be repeated. Raises BadRequest.
    """
    require_known(given, types)
    values: dict[str, Any] = {}
    for name in given:
        texts = [text for key, text in given.items() if key == name and text != ""]
        if types[name] is tuple:
            values |= {name: tuple(dict.fromkeys(texts))} if texts else {}
        elif len(texts) > 1:
            raise BadRequest(f"'{name}' is given {len(texts)} times; give it once", param=name)
        elif texts:
            values[name] = _parameter(name, texts[0], types[name])
    return values


def _parameter(name: str, text: str, wanted: type) -> object:
    if wanted is str:
        return text
    try:
        return msgspec.convert(text.lower() if wanted is bool else text, wanted, strict=False)
    except msgspec.ValidationError as exc:
        kind = "true or false" if wanted is bool else "a whole number"
        raise BadRequest(f"'{name}' must be {kind}, not '{plain(text, 64)}'", param=name) from exc


def _decode(name: str, raw: msgspec.Raw, hint: Any) -> object:
    try:
        value = msgspec.json.decode(raw, type=hint)
        loose = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise _type_error(name, str(exc), hint) from exc
    _check_inside(name, loose, hint)
    return value


def _type_error(name: str, text: str, hint: Any) -> BadRequest:
    """Returns a decoder's complaint ``Expected `int`, got `str` - at `$[0].nanos``` as an error about the field."""
    match = _DECODER_MESSAGE.fullmatch(text)
    what, place = (match["what"], match["place"] or "$") if match else (text, "$")
    choices = "; known: " + ", ".join(_choices(hint)) if "enum" in what.lower() and any(_choices(hint)) else ""
    return BadRequest(f"{name}{place.removeprefix('$')}: {plain(what)}{choices}", param=name)


def _choices(hint: Any) -> Iterator[str]:
    """Yields the values of every enum in a hint."""
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        yield from (str(member.value) for member in hint)
    elif isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        for inner in get_type_hints(hint).values():
            yield from _choices(inner)
    for inner in get_args(hint):
        yield from _choices(inner)


def _check_inside(place: str, value: object, hint: Any) -> None:
    """Check that structs inside a value have only known fields, which the decoder alone would silently drop, and that
    numbers are within bounds.
    """
    inner = next((h for h in (hint, *get_args(hint)) if isinstance(h, type) and issubclass(h, msgspec.Struct)), None)
    if isinstance(value, list):
        for number, item in enumerate(value):
            _check_inside(f"{place}[{number}]", item, inner)
    elif isinstance(value, dict):
        if inner is not None:
            require_known(value, inner.__struct_fields__, place)
        for name, item in value.items():
            _check_inside(f"{place}.{name}", item, None if inner is None else _hints(inner)[name])
    elif isinstance(value, int | float) and not -MOST <= value <= MOST:
        message = f"{place}: must be from -{MOST} to {MOST}"
        raise BadRequest(message, param=place.partition(".")[0].partition("[")[0])
