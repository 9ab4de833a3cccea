r"""Raw JSON: JSON whose values stay as they were sent.

Numbers, escapes and unknown fields that are not examined are passed on unchanged. A lone surrogate escape such as
``\ud83d`` is legal JSON that msgspec refuses; such a value is read by the standard library and encoded again.

Some servers write NaN or Infinity, which are not JSON, or huge numbers. These are read as null, so that no answer is
lost because of one invalid number; in counts of tokens as -1, because null means that the count is missing.
"""

import json
import math
import re
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

Fields = dict[str, msgspec.Raw]
JsonObject = dict[str, Any]
"""A decoded object. Some values may be raw."""
Kind = TypeVar("Kind", dict[str, Any], list[Any], str)

NULL = msgspec.Raw(b"null")
EMPTY_TEXT = msgspec.Raw(b'""')
EMPTY_LIST = msgspec.Raw(b"[]")

_INVALID = object()
"""The placeholder of an invalid number."""
_COUNT = re.compile(r"token|_n\Z", re.IGNORECASE)
"""Matches names of token counts; llama.cpp has names such as ``prompt_n``."""

_REFUSED = (msgspec.DecodeError, RecursionError)

_FIELDS = msgspec.json.Decoder(Fields)
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_OBJECTS = msgspec.json.Decoder(list[Fields])
_TEXT = msgspec.json.Decoder(str)


def encode(value: object) -> bytes:
    """Returns the value as compact JSON."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:  # a lone surrogate
        return json.dumps(value, separators=(",", ":"), default=_load).encode()


def repeats_a_key(raw: msgspec.Raw, value: object) -> bool:
    """Returns whether an object in a raw value has a key twice. ``value`` is the decoded value.

    Most libraries write what the value is encoded to. To compare these takes an eighth of the time of reading again.
    """
    text = bytes(raw)
    return b"{" in text and encode(value) != text and any(repeats_keys(text))


def repeats_keys(text: bytes) -> list[bool]:
    """Returns for each object in a JSON text whether it has a key twice; the outermost object is the last."""
    repeats: list[bool] = []

    def examine(pairs: list[tuple[str, object]]) -> None:
        repeats.append(len(dict(pairs)) < len(pairs))

    json.loads(text, object_pairs_hook=examine)
    return repeats


def raw(value: object) -> msgspec.Raw:
    """Returns a value as raw JSON."""
    try:
        return msgspec.Raw(msgspec.json.encode(value))
    except UnicodeEncodeError:
        return msgspec.Raw(encode(value))


def fields(data: bytes | msgspec.Raw) -> Fields:
    """Returns the raw values of an object by name. Raises ValueError if the bytes are not a JSON object."""
    try:
        return _FIELDS.decode(data)
    except _REFUSED:
        return {name: _dump(value) for name, value in _load_as(dict, data).items()}


def maybe_fields(data: bytes | msgspec.Raw | None) -> Fields:
    """Returns what ``fields`` does, or nothing if the bytes are not a JSON object."""
    try:
        return {} if data is None else fields(data)
    except ValueError:
        return {}


def items(data: bytes | msgspec.Raw) -> list[msgspec.Raw]:
    """Returns the raw elements of an array. Raises ValueError if the bytes are not a JSON array."""
    try:
        return _ITEMS.decode(data)
    except _REFUSED:
        return [_dump(value) for value in _load_as(list, data)]


def maybe_items(data: msgspec.Raw | None) -> list[msgspec.Raw]:
    """Returns what ``items`` does, or nothing for another value."""
    return items(data) if data is not None and is_list(data) else []


def objects(data: bytes | msgspec.Raw) -> list[Fields]:
    """Returns the fields of each element of an array of objects. Raises ValueError for anything else."""
    try:
        return _OBJECTS.decode(data)
    except _REFUSED:
        return [fields(item) for item in items(data)]


def maybe_objects(data: bytes | msgspec.Raw | None) -> list[Fields] | None:
    """Returns what ``objects`` does, or None if the bytes are not an array of objects."""
    try:
        return None if data is None else objects(data)
    except ValueError:
        return None


def text(data: bytes | msgspec.Raw) -> str:
    """Returns a string. Raises ValueError if the bytes are not a JSON string."""
    try:
        return _TEXT.decode(data)
    except _REFUSED:
        return _load_as(str, data)


def value(data: bytes | msgspec.Raw | None) -> Any:
    """Returns any value, completely decoded; None for no data. Raises ValueError if the bytes are not JSON."""
    if data is None:
        return None
    try:
        return msgspec.json.decode(data)
    except _REFUSED:
        return _load(data)


def maybe(data: bytes | msgspec.Raw | None) -> Any:
    """Returns what ``value`` does, or None if the bytes are not JSON."""
    if data is None:
        return None
    try:
        return msgspec.json.decode(data)
    except (*_REFUSED, UnicodeDecodeError):
        with suppress(ValueError):
            return _load(data)
        return None


def at(item: Any, *names: str) -> Any:
    """Returns the member of a raw or decoded value under these nested names, or None."""
    item = maybe(item) if isinstance(item, msgspec.Raw) else item
    for name in names:
        item = item.get(name) if isinstance(item, dict) else None
    return item


def text_at(item: Any, *names: str) -> str:
    """Returns the member under these nested names if it is a text; otherwise an empty text."""
    text = at(item, *names)
    return text if isinstance(text, str) else ""


def list_at(item: Any, *names: str) -> list[Any]:
    """Returns the member under these nested names if it is a list; otherwise an empty list."""
    value = at(item, *names)
    return value if isinstance(value, list) else []


def whole_number(value: Any) -> int | None:
    """Returns a whole number, which may also be text or a float; None for anything else."""
    if isinstance(value, str):
        return int(value) if value.isascii() and value.isdigit() and len(value) < 20 else None
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    return value if type(value) is int else None


def is_null(data: msgspec.Raw | None) -> bool:
    """Returns whether a value is missing or null."""
    return data is None or data == NULL


def is_text(raw: msgspec.Raw) -> bool:
    """Returns whether a value is a string."""
    return bytes(memoryview(raw)[:1]) == b'"'


def is_list(raw: msgspec.Raw) -> bool:
    """Returns whether a value is an array."""
    return bytes(memoryview(raw)[:1]) == b"["


def is_nothing(raw: msgspec.Raw | None) -> bool:
    """Returns whether a value is missing, null, false or empty, so that nothing is lost if it is left out."""
    return raw is None or (len(memoryview(raw)) <= 5 and bytes(raw) in (b"null", b"false", b"[]", b'""'))


def _load_as(kind: type[Kind], data: bytes | msgspec.Raw) -> Kind:
    """Returns a value of this type. Raises ValueError for any other."""
    decoded = _load(data)
    if not isinstance(decoded, kind):
        raise ValueError("another kind of JSON value")  # noqa: TRY004 - one kind of error for unexpected bytes
    return decoded


def _load(data: bytes | msgspec.Raw) -> Any:
    """Returns a value that is decoded by the standard library. Raises ValueError, and TypeError for other objects."""
    try:
        decoded = json.loads(bytes(data), parse_constant=lambda _: _INVALID, parse_float=_float, parse_int=_int)
        if isinstance(decoded, dict | list):
            return _replace_invalid(decoded)
        return None if decoded is _INVALID else decoded
    except RecursionError as exc:
        raise ValueError("nested too deeply") from exc


def _float(digits: str) -> object:
    number = float(digits)
    return number if math.isfinite(number) else _INVALID


def _int(digits: str) -> object:
    return int(digits) if len(digits) < 400 else _INVALID


def _replace_invalid(decoded: Any) -> Any:
    """Replace the invalid numbers in an object or array. Returns it."""
    containers = [decoded]
    while containers:
        container = containers.pop()
        for key, item in container.items() if isinstance(container, dict) else enumerate(container):
            if item is _INVALID:
                container[key] = -1 if isinstance(key, str) and _COUNT.search(key) else None
            elif isinstance(item, dict | list):
                containers.append(item)
    return decoded


def _dump(item: Any) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(item, separators=(",", ":")).encode())
