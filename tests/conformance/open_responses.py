"""Open Responses: what the specification of 2026-04-24 says of objects and events, in ``open_responses.json``.

A name stands for an object with these fields, or for several of them; ``?`` ends the name of a field that may be
missing, ``[...]`` is an array, ``'...'`` one word, and ``|`` separates what a value may be.
"""

import json
from pathlib import Path
from typing import Any

SHAPES: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
_PLAIN: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "null": (type(None),),
    "any": (object,),
}


def faults(value: Any, shape: str, where: str = "") -> list[str]:
    """What is not as the specification has it."""
    found = [_faults(value, one, where) for one in shape.split("|")]
    if not all(found):
        return []
    telling = [one for one in found if not one[0].startswith(f"{where}.type")]
    return min(telling or found, key=len) if isinstance(value, dict) else [f"{where}: {value!r} is not {shape}"]


def _faults(value: Any, shape: str, where: str) -> list[str]:
    wrong = [f"{where}: {value!r} is not {shape}"]
    if shape.startswith("["):
        inner = shape[1:-1]
        return _gathered(inner, value, where) if isinstance(value, list) else wrong
    if shape.startswith("'"):
        return [] if value == shape[1:-1] else wrong
    if shape in _PLAIN:
        good = isinstance(value, _PLAIN[shape]) and (not isinstance(value, bool) or shape in ("boolean", "any"))
        return [] if good else wrong
    fields = SHAPES[shape]
    if isinstance(fields, str):
        return faults(value, fields, where)
    return _field_faults(value, fields, where) if isinstance(value, dict) else wrong


def _gathered(shape: str, values: list[Any], where: str) -> list[str]:
    return [fault for place, one in enumerate(values) for fault in faults(one, shape, f"{where}[{place}]")]


def _field_faults(value: dict[str, Any], fields: dict[str, str], where: str) -> list[str]:
    out = []
    for field, inner in fields.items():
        name = field.removesuffix("?")
        if name in value:
            out += faults(value[name], inner, f"{where}.{name}")
        elif name == field:
            out.append(f"{where}.{name}: is missing")
    return out
