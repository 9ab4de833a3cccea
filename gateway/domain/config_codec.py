"""Config codec: converts the owner's structs to a configuration file and back, in TOML with one fixed layout.

The same values always give the same bytes. The content is derived from the structs, so a new field needs nothing here.
Fields that have their default are left out. Money is in dollars (``"2.50"``, per million tokens where the field is a
rate), moments are ISO 8601, and multipliers are factors. A struct that has only a ``name`` is written as that name.
"""

import enum
import json
import math
import re
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from gateway.domain import registry
from gateway.domain.budget import Budget
from gateway.domain.channel import ServedModel
from gateway.domain.errors import BadRequest
from gateway.domain.human_values import brief_multiplier, parse_multiplier
from gateway.domain.money import number, parse_dollars
from gateway.domain.text import plain
from gateway.domain.units import MAX_NUMBER, Factor, Millis, Nanos
from gateway.domain.views import iso

Value = str | int | float | bool | Sequence["Value"] | Mapping[str, "Value"]
Table = Mapping[str, Value]

_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


def table(path: Sequence[str], values: Table) -> str:
    """Returns a table: its header, and one value per line in the order of ``values``. A list has one item per line.

    Inner tables are on one line, as TOML requires of those that are not sections.
    """
    lines = [f"[{'.'.join(map(_key, path))}]", *(f"{_key(name)} = {_block(value)}" for name, value in values.items())]
    return "\n".join(lines) + "\n"


def _block(value: Value) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) > 1:
        return "[\n" + "".join(f"    {inline(item)},\n" for item in value) + "]"
    return inline(value)


def inline(value: Value) -> str:
    """Returns one value on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_key(name)} = {inline(item)}" for name, item in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    return f"[{', '.join(map(inline, value))}]"


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _string(name)


def _string(text: str) -> str:
    """Returns a string with JSON's escapes, which TOML has too. Invisible characters are escaped."""
    quoted = json.dumps(text, ensure_ascii=False)
    if quoted.isascii() and quoted.isprintable():
        return quoted
    return "".join(char if plain(char) == char else f"\\U{ord(char):08x}" for char in quoted)


AnyStruct = TypeVar("AnyStruct", bound=msgspec.Struct)

_NAMES: dict[tuple[type, str], str] = {(Budget, "nanos"): "dollars"}
"""Fields that have another name in a file."""


def write_fields(value: msgspec.Struct, omit: Collection[str] = ()) -> dict[str, Value]:
    """Returns the fields that differ from their defaults, except for ``omit``, by their names in a file."""
    kind = type(value)
    values: dict[str, Value] = {}
    for field, hint in _fields(kind):
        field_value = getattr(value, field.name)
        default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
        if field.name in omit or field_value is None or field_value == default:
            continue
        values[_NAMES.get((kind, field.name), field.name)] = _write(field_value, hint)
    return values


def read(kind: type[AnyStruct], values: object, path: str, base: Mapping[str, Any]) -> AnyStruct:
    """Returns the struct that a table describes. ``base`` has the values of fields that are not in files.

    Raises BadRequest with the path of the faulty place and what was expected there.
    """
    if not isinstance(values, Mapping):
        raise bad_value(path, "must be a table of names and values")
    omitted = {*base, *INNER.get(kind, ())}
    fields = {
        _NAMES.get((kind, field.name), field.name): (field, hint)
        for field, hint in _fields(kind)
        if field.name not in omitted
    }
    arguments = dict(base)
    for name, value in values.items():
        if name not in fields:
            raise bad_value(f"{path}.{plain(str(name), 64)}", f"is unknown; use one of: {', '.join(fields) or 'none'}")
        field, hint = fields[name]
        arguments[field.name] = _read(value, hint, f"{path}.{name}")
    for name, (field, _) in fields.items():
        if field.required and field.name not in arguments:
            raise bad_value(f"{path}.{name}", "is missing")
    return kind(**arguments)


@cache
def _fields(kind: type[msgspec.Struct]) -> tuple[tuple[msgspec.structs.FieldInfo, Any], ...]:
    """Returns the fields of a struct and their types. They are cached, because large files need them often."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple((field, hints[field.name]) for field in msgspec.structs.fields(kind))


def bad_value(path: str, problem: str) -> BadRequest:
    """Returns the error for an invalid value, with its path in the file."""
    return BadRequest(f"{path}: {problem}", code="bad_configuration", param=path)


def _write(value: Any, hint: Any) -> Value:
    hint = _without_none(hint)
    if hint is Any and not _is_expressible(value):  # with null, which TOML lacks
        return {"json": msgspec.json.encode(value, order="deterministic").decode()}
    if hint in _UNITS:
        return str(_UNITS[hint][0](value))
    if isinstance(value, msgspec.Struct):
        fields = write_fields(value, INNER.get(type(value), ()))
        return str(fields["name"]) if list(fields) == ["name"] else fields
    if isinstance(value, Mapping):
        return {name: _write(value[name], _argument(hint, 1)) for name in sorted(value)}
    if isinstance(value, list | tuple):
        return [_write(item, _argument(hint, 0)) for item in value]
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, str | int | float):
        return value
    raise TypeError(f"a configuration file cannot contain {value!r}")


def _is_expressible(value: Any) -> bool:
    if isinstance(value, Mapping):
        return set(value) != {"json"} and all(map(_is_expressible, value.values()))
    return all(map(_is_expressible, value)) if isinstance(value, list | tuple) else value is not None


def _read_any(value: Any, path: str) -> Any:
    """Returns any JSON value. One with ``null`` is JSON in a table: ``{ json = "null" }``. Raises BadRequest."""
    if isinstance(value, Mapping) and set(value) == {"json"}:
        try:
            return msgspec.json.decode(str(value["json"]))
        except msgspec.DecodeError as exc:
            raise bad_value(f"{path}.json", f"is not valid JSON: {plain(str(exc))}") from exc
    if isinstance(value, Mapping):
        return {name: _read_any(item, f"{path}.{name}") for name, item in value.items()}
    if isinstance(value, list):
        return [_read_any(item, f"{path}[{number}]") for number, item in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        raise bad_value(path, f"{value} is not a number that JSON can hold")
    if isinstance(value, str | int | float):
        return value
    raise bad_value(path, "dates and times must be strings, in quotation marks")


def _read(value: Any, hint: Any, path: str) -> Any:
    """Returns the value of this type for a TOML value. Raises BadRequest."""
    hint = _without_none(hint)
    if hint is Any:
        return _read_any(value, path)
    if hint in _UNITS:
        return _parse_text(_UNITS[hint][1], value, path)
    kind = get_origin(hint) or hint
    if kind in (tuple, list):
        if not isinstance(value, list):
            raise bad_value(path, "must be a list: [...]")
        return kind(_read(item, _argument(hint, 0), f"{path}[{n}]") for n, item in enumerate(value))
    if kind is dict:
        if not isinstance(value, Mapping):
            raise bad_value(path, "must be a table: { name = value }")
        return {str(name): _read(item, _argument(hint, 1), f"{path}.{name}") for name, item in value.items()}
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        values = {"name": value} if isinstance(value, str) and "name" in kind.__struct_fields__ else value
        return read(kind, values, path, {})
    return _read_scalar(value, hint, path)


def _read_scalar(value: Any, hint: Any, path: str) -> Any:
    """Returns a text, number, bool or enum member. Raises BadRequest, with the allowed values of an enum."""
    if isinstance(value, int | float) and not -MAX_NUMBER <= value <= MAX_NUMBER:
        raise bad_value(path, f"must be from -{MAX_NUMBER} to {MAX_NUMBER}")
    try:
        return msgspec.convert(value, hint)
    except msgspec.ValidationError as exc:
        choices = [str(choice) for choice in hint] if isinstance(hint, type) and issubclass(hint, enum.StrEnum) else []
        hint_text = f"; use one of: {', '.join(choices)}" if choices else ""
        raise bad_value(path, plain(str(exc)) + hint_text) from exc


def _parse_text(read_text: Callable[[str], Any], value: object, path: str) -> Any:
    """Returns what ``read_text`` returns for a string. Raises BadRequest with the path."""
    if not isinstance(value, str):
        raise bad_value(path, f"must be a string in quotation marks, not {plain(str(value), 40)}")
    try:
        return read_text(value)
    except BadRequest as error:
        raise bad_value(path, error.message) from error


def _without_none(hint: Any) -> Any:
    """Returns the type without ``None``, which a file expresses by leaving the field out."""
    if get_origin(hint) in (Union, types.UnionType):
        options = [inner for inner in get_args(hint) if inner is not types.NoneType]
        return options[0] if len(options) == 1 else Union[tuple(options)]  # noqa: UP007 - made of a list
    return hint


def _argument(hint: Any, number: int) -> Any:
    """Returns a type argument, such as the type of the items in ``tuple[X, ...]``; ``Any`` if the type has none."""
    args = get_args(_without_none(hint))
    return args[number] if len(args) > number else Any


def _moment(text: str) -> Millis:
    try:
        return Millis(round(datetime.fromisoformat(text).timestamp() * 1000))
    except (ValueError, OverflowError):
        raise BadRequest(f"{plain(text, 40)!r} is not a time such as 2026-11-30T14:00:00.000Z") from None


_UNITS: dict[Any, tuple[Callable[[Any], str], Callable[[str], Any]]] = {
    Nanos: (number, parse_dollars),
    Millis: (iso, _moment),
    Factor: (lambda parts: brief_multiplier(parts).removeprefix("x"), parse_multiplier),
}
"""How to write and read values of a unit."""

FORMAT = 1
"""The format of the file. A program refuses a format that it does not know."""


class Section(msgspec.Struct, frozen=True):
    """One table of the configuration."""

    name: registry.Table
    title: str = ""
    """The field with the entity's name, which is its heading in the file; empty if there is only one entity."""
    omit: tuple[str, ...] = ()
    """Fields that are not configuration, such as ids, digests, dates and results."""


SECTIONS: tuple[Section, ...] = (
    Section("settings"),
    Section("account", omit=("created",)),
    Section("groups", "name", ("id", "created")),
    Section("channels", "name", ("id", "created", "last_check")),
    Section("tokens", "name", ("id", "digest", "hint", "created", "temporary")),
    Section("prices", "model", ("updated",)),
)
"""The sections in the order of the file. Grants, spending and upstream lists are not configuration."""

INNER: Mapping[type, Collection[str]] = {ServedModel: ("created", "published", "live")}
"""Fields of inner structs that are not configuration."""
