"""Samples: for every field of a struct a value that is not its default, made by its type alone."""

import enum
import types
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from gateway.domain.units import Millis, Nanos


def sample(hint: Any, default: object = None) -> Any:
    """A value of this type that is not ``default``."""
    if get_origin(hint) in (Union, types.UnionType):
        return sample(next(inner for inner in get_args(hint) if inner is not types.NoneType), default)
    kind = get_origin(hint) or hint
    if kind in (tuple, list):
        return kind([sample(get_args(hint)[0])])
    if kind in (Literal, dict):
        return get_args(hint)[0] if kind is Literal else {"k": sample(get_args(hint)[1])}
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return whole(kind)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return next(member for member in kind if member is not default)
    return not default if kind is bool else _simple(kind)


def _simple(kind: Any) -> Any:
    made: dict[Any, object] = {
        int: 1234,
        float: 2.5,
        str: "text",
        Any: {"a": None, "b": [{"json": "x"}, 1.5]},
        Nanos: Nanos(1_500_000_001),
        Millis: Millis(1_795_263_905_123),
    }
    return made[kind if kind in made else kind.__supertype__]


def whole(kind: type[msgspec.Struct]) -> Any:
    """An entity with every field set."""
    hints = get_type_hints(kind)
    return kind(**{field.name: sample(hints[field.name], field.default) for field in msgspec.structs.fields(kind)})
