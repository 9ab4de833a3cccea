r"""JSON whose values stay as they were sent.

What is not examined is passed on unchanged: numbers, escapes, unknown fields. A lone surrogate escape such as
``\ud83d`` is legal JSON, but msgspec refuses it; such a value is read by the standard library and written again.

Some servers write NaN or Infinity, which is not JSON, or numbers beyond all bounds. Such a value is read as null, a
count of tokens as -1, so that it does not count as omitted: one odd number does not lose an answer.
"""

import json
import math
import re
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

Fields = dict[str, msgspec.Raw]
Kind = TypeVar("Kind", dict[str, Any], list[Any], str)

NULL = msgspec.Raw(b"null")

_ODD = object()
"""Stands for an invalid number."""
_COUNT = re.compile(r"token|_n\Z", re.IGNORECASE)
"""Names of counts of tokens; ``prompt_n`` and the like are llama.cpp's."""

_REFUSED = (msgspec.DecodeError, RecursionError)

_FIELDS = msgspec.json.Decoder(Fields)
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_OBJECTS = msgspec.json.Decoder(list[Fields])
_TEXT = msgspec.json.Decoder(str)


def encode(value: object) -> bytes:
    """Compact JSON."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:  # a lone surrogate
        return json.dumps(value, separators=(",", ":"), default=_load_raw).encode()


def raw(value: object) -> msgspec.Raw:
    """Returns a value as raw JSON."""
    try:
        return msgspec.Raw(msgspec.json.encode(value))
    except UnicodeEncodeError:
        return msgspec.Raw(encode(value))


def fields(data: bytes | msgspec.Raw) -> Fields:
    """Returns the values of an object by name. Raises ValueError when the bytes are not a JSON object."""
    try:
        return _FIELDS.decode(data)
    except _REFUSED:
        return {name: _dump(value) for name, value in _load_as(dict, data).items()}


def maybe_fields(data: bytes | msgspec.Raw | None) -> Fields:
    """As ``fields``, but empty when the bytes are not a JSON object."""
    try:
        return {} if data is None else fields(data)
    except ValueError:
        return {}


def items(data: bytes | msgspec.Raw) -> list[msgspec.Raw]:
    """Returns the elements of an array. Raises ValueError when the bytes are not a JSON array."""
    try:
        return _ITEMS.decode(data)
    except _REFUSED:
        return [_dump(value) for value in _load_as(list, data)]


def objects(data: bytes | msgspec.Raw) -> list[Fields]:
    """Returns the elements of an array of objects. Raises ValueError for anything else."""
    try:
        return _OBJECTS.decode(data)
    except _REFUSED:
        return [fields(item) for item in items(data)]


def text(data: bytes | msgspec.Raw) -> str:
    """Returns a string. Raises ValueError when the bytes are not a JSON string."""
    try:
        return _TEXT.decode(data)
    except _REFUSED:
        return _load_as(str, data)


def value(data: bytes | msgspec.Raw | None) -> Any:
    """Returns any value, decoded completely; None when there is none. Raises ValueError when the bytes are not JSON."""
    if data is None:
        return None
    try:
        return msgspec.json.decode(data)
    except _REFUSED:
        return _load(data)


def maybe(data: bytes | msgspec.Raw | None) -> Any:
    """As ``value``, but None when the bytes are not JSON."""
    if data is None:
        return None
    try:
        return msgspec.json.decode(data)
    except _REFUSED:
        with suppress(ValueError):
            return _load(data)
        return None


def at(item: Any, *names: str) -> Any:
    """Returns what a value, raw or decoded, has under these names, one inside the other; None if it is not there."""
    item = maybe(item) if isinstance(item, msgspec.Raw) else item
    for name in names:
        item = item.get(name) if isinstance(item, dict) else None
    return item


def text_at(item: Any, *names: str) -> str:
    """Returns the text there; empty if there is none."""
    text = at(item, *names)
    return text if isinstance(text, str) else ""


def list_at(item: Any, *names: str) -> list[Any]:
    """Returns the list there; empty if it is anything else."""
    value = at(item, *names)
    return value if isinstance(value, list) else []


def is_null(data: msgspec.Raw | None) -> bool:
    """Returns whether a value is absent or null."""
    return data is None or data == NULL


def is_text(raw: msgspec.Raw) -> bool:
    """Returns whether a value is a string."""
    return bytes(memoryview(raw)[:1]) == b'"'


def is_list(raw: msgspec.Raw) -> bool:
    """Returns whether a value is an array."""
    return bytes(memoryview(raw)[:1]) == b"["


def is_nothing(raw: msgspec.Raw) -> bool:
    """Returns whether a value asks for nothing, so that nothing is lost without it."""
    return len(memoryview(raw)) <= 5 and bytes(raw) in (b"null", b"false", b"[]", b'""')


def _load_as(kind: type[Kind], data: bytes | msgspec.Raw) -> Kind:
    decoded = _load(data)
    if not isinstance(decoded, kind):
        raise ValueError("another kind of JSON value")  # noqa: TRY004 - one kind of error for unexpected bytes
    return decoded


def _load(data: bytes | msgspec.Raw) -> Any:
    try:
        decoded = json.loads(bytes(data), parse_constant=_odd, parse_float=_float, parse_int=_int)
        return _tame(decoded) if isinstance(decoded, dict | list) else None if decoded is _ODD else decoded
    except RecursionError as exc:
        raise ValueError("nested too deeply") from exc


def _odd(_: str) -> object:
    return _ODD


def _float(digits: str) -> object:
    number = float(digits)
    return number if math.isfinite(number) else _ODD


def _int(digits: str) -> object:
    return int(digits) if len(digits) < 400 else _ODD


def _tame(decoded: Any) -> Any:
    """Returns the value with its invalid numbers replaced."""
    holders = [decoded]
    while holders:
        holder = holders.pop()
        for key, item in holder.items() if isinstance(holder, dict) else enumerate(holder):
            if item is _ODD:
                holder[key] = -1 if isinstance(key, str) and _COUNT.search(key) else None
            elif isinstance(item, dict | list):
                holders.append(item)
    return decoded


def _dump(item: Any) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(item, separators=(",", ":")).encode())


def _load_raw(value: object) -> Any:
    if isinstance(value, msgspec.Raw):
        return _load(value)
    raise TypeError(f"{type(value).__name__} is not JSON")
