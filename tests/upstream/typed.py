"""Typed: whether JSON is what a vendor's own ``TypedDict`` says, unknown keys included; every fault is named."""

import collections.abc
import types
from functools import cache
from typing import Annotated, Any, Literal, NotRequired, Required, Union, get_args, get_origin, get_type_hints

from typing_extensions import is_typeddict

_PLAIN: dict[Any, Any] = {float: (int, float)}


def faults(value: object, hint: Any, where: str = "$") -> list[str]:
    """What is wrong with the value, place by place; nothing if it is what the hint says."""
    while get_origin(hint) in {Annotated, Required, NotRequired}:
        hint = get_args(hint)[0]
    origin = get_origin(hint)
    if is_typeddict(hint):
        return _of_fields(value, hint, where)
    if origin in {Union, types.UnionType}:
        return min((faults(value, branch, where) for branch in get_args(hint)), key=len)
    if origin is Literal:
        return [] if value in get_args(hint) else [f"{where} is {value!r}, not one of {get_args(hint)}"]
    if origin is not None and origin is not dict and issubclass(origin, collections.abc.Iterable):
        return _of_items(value, get_args(hint)[0], where)
    return _of_plain(value, origin or hint, where)


def _of_fields(value: object, hint: Any, where: str) -> list[str]:
    if not isinstance(value, dict):
        return [f"{where} is no object"]
    hints = _hints(hint)
    found = [f"{where}.{name} is unknown to {hint.__name__}" for name in value if name not in hints]
    required = [name for name, kind in hints.items() if get_origin(kind) is Required]
    found += [f"{where}.{name} is missing" for name in required if name not in value]
    return found + [f for name in value if name in hints for f in faults(value[name], hints[name], f"{where}.{name}")]


@cache
def _hints(hint: Any) -> dict[str, Any]:
    return get_type_hints(hint, include_extras=True)


def _of_items(value: object, hint: Any, where: str) -> list[str]:
    if not isinstance(value, list):
        return [f"{where} is no array"]
    return [fault for i, item in enumerate(value) for fault in faults(item, hint, f"{where}[{i}]")]


def _of_plain(value: object, hint: Any, where: str) -> list[str]:
    fits = isinstance(value, _PLAIN.get(hint, hint)) and (hint in {bool, object} or not isinstance(value, bool))
    return [] if fits else [f"{where} is {value!r}, no {hint}"]
