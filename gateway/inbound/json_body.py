"""Reads the body of a request: the raw values of one strict JSON object, as they were sent.

Size of the structure, depth, repeated top-level keys and absurd numbers are checked. Two parsers must never see two
different requests (RFC 8259 leaves open which of two equal names counts). All values are decoded for that, which takes
a sixth of the time that a search of the text for the same takes.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from gateway.domain import rawjson
from gateway.domain.errors import BadRequest
from gateway.domain.json_elements import Elements, elements_of
from gateway.domain.json_text import outside_strings, replace_lone_surrogates
from gateway.domain.rawjson import Fields
from gateway.domain.sse import BOM
from gateway.domain.typed_json import wrong_type

MAX_DEPTH = 64
MAX_STRUCTURE = 200_000
"""The maximum number of objects, arrays and commas in a body; 8 MiB of ``[],`` would block the loop for a second."""
MAX_TOKENS = 1_000_000
"""The same for APIs whose texts may come as tokens: 300,000 numbers and more in one request."""
MAX_FIELDS = 4096
"""The maximum number of fields at the top level."""
_ELEMENT_SIZE = 10
"""The maximum mean size of elements without strings and whitespace, in bytes."""
_MAX_INTEGER = 10**19
_MAX_NUMBER = 1e300
"""Integers and floats from these on are read differently by other parsers, or not at all."""

_COST_FIELDS = ("model", "stream", "stream_options", "service_tier")
"""Fields that decide what a call costs, or whether the upstream reports it. They are never sent in capitals."""

Typed = TypeVar("Typed")

_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Body(msgspec.Struct, frozen=True):
    """The fields of a body, as they were sent and decoded."""

    fields: Fields
    values: dict[str, Any]
    elements: dict[str, Elements]
    """The elements of each array and object."""

    def read_as(self, kind: type[Typed]) -> Typed:
        """Returns the decoded fields as a struct. Raises BadRequest that names the wrong field."""
        try:
            return msgspec.convert(self.values, kind)
        except msgspec.ValidationError as error:
            raise wrong_type(error) from error


def read_body(text: bytes, max_size: int = MAX_STRUCTURE) -> Body:
    """Returns the body's fields, with lone surrogates replaced. Raises BadRequest, also if it is too large."""
    text = text.removeprefix(BOM)
    check_structure(text, max_size)
    try:
        body = _parse(text, max_size)
    except BadRequest:
        repaired = replace_lone_surrogates(text)
        if repaired == text:
            raise
        text, body = repaired, _parse(repaired, max_size)
    if _repeats_a_key(text, body.fields):
        msg = "the body has a key twice at its top level, or one in capitals; send each field once, in small letters"
        raise BadRequest(msg, code="duplicate_key")
    return body


def body_of(fields: Fields) -> Body:
    """Returns the body that these fields make, which need not have been sent."""
    values = {name: rawjson.value(raw) for name, raw in fields.items()}
    return Body(fields, values, {name: elements_of(value) for name, value in values.items()})


def unread_names(fields: Fields, read_names: Mapping[str, Collection[str]]) -> list[str]:
    """Returns the members of objects, by their names, that are set but not read, such as ``reasoning.context``."""
    names: list[str] = []
    for name, members in read_names.items():
        if name in fields:
            names += unread_members([rawjson.maybe_fields(fields[name])], f"{name}.", members)
    return names


def unread_members(objects: Iterable[Fields], prefix: str, read_names: Collection[str]) -> list[str]:
    """Returns the members of objects in a list that are set but not read, each once, such as ``tools[].examples``."""
    members = (member for fields in objects for member in fields.items())
    names = (name for name, raw in members if name not in read_names and not rawjson.is_nothing(raw))
    return [prefix + name for name in dict.fromkeys(names)]


def check_text(raw: msgspec.Raw, param: str) -> msgspec.Raw:
    """Returns a JSON string of a request. Raises BadRequest for another value."""
    if not rawjson.is_text(raw):
        raise BadRequest(f"{param}: must be a string", code="invalid_type", param=param)
    return raw


def check_structure(body: bytes, max_size: int = MAX_STRUCTURE) -> None:
    """Raises BadRequest for a large body with much outside of its strings, which would take seconds and gigabytes."""
    if len(body) <= MAX_STRUCTURE * _ELEMENT_SIZE:
        return
    bare = b"".join(outside_strings(body)).translate(None, b" \t\r\n")
    if len(bare) > max_size * _ELEMENT_SIZE:
        msg = f"the body has {len(bare)} bytes outside of strings; the limit is {max_size * _ELEMENT_SIZE}"
        raise BadRequest(msg, code="too_complex")
    if (names := bare.count(b":")) > MAX_STRUCTURE:
        raise BadRequest(f"the body has {names} names; the limit is {MAX_STRUCTURE}", code="too_complex")
    if sum(map(bare.count, (b"{", b"[", b","))) > max_size:
        raise _too_many_elements(max_size)


def _parse(body: bytes, max_size: int) -> Body:
    try:
        fields = _decode(body)
        if len(fields) > MAX_FIELDS:
            raise BadRequest(f"the body has {len(fields)} fields; the limit is {MAX_FIELDS}", code="too_complex")
        values = msgspec.json.decode(body)
        elements = _elements_of_all(values, max_size)
    except UnicodeDecodeError as error:
        raise BadRequest("the body is not UTF-8", code="invalid_json") from error
    except RecursionError as error:
        raise _too_deep() from error
    except msgspec.ValidationError as error:
        if "out of range" in str(error):
            raise _too_large("a number") from error
        raise BadRequest("the body must be one JSON object", code="invalid_type") from error
    except msgspec.DecodeError as error:
        raise BadRequest(f"the body is not valid JSON: {error}", code="invalid_json") from error
    return Body(fields, values, elements)


def _elements_of_all(values: dict[str, Any], max_size: int) -> dict[str, Elements]:
    """Returns the elements of each array and object. Raises BadRequest for too many, too deep, or too large numbers."""
    size, elements = len(values), {}
    numbers: list[int | float] = []
    for name, value in values.items():
        kind = type(value)
        if kind is list or kind is dict:
            inner = elements[name] = elements_of(value, max_size - size)
            size += inner.size - 1
            if size > max_size:
                raise _too_many_elements(max_size)
            if inner.depth > MAX_DEPTH:
                raise _too_deep()
            numbers += inner.numbers
        elif kind is int or kind is float:
            numbers.append(value)
    if numbers and (number := _too_large_number(numbers)) is not None:
        raise _too_large(f"the number {str(number)[:24]}")
    return elements


def _too_large_number(numbers: list[int | float]) -> int | float | None:
    """Returns the first number that other parsers read differently, or None. Most lists have only small ones."""
    if max(map(abs, numbers)) < _MAX_INTEGER:
        return None
    limits = {int: _MAX_INTEGER, float: _MAX_NUMBER}
    return next((number for number in numbers if abs(number) >= limits[type(number)]), None)


def _too_many_elements(max_size: int) -> BadRequest:
    msg = f"the body has more than {max_size} objects, arrays and commas"
    return BadRequest(msg, code="too_complex")


def _too_large(subject: str) -> BadRequest:
    return BadRequest(f"{subject} is too large to be read safely", code="invalid_value")


def _too_deep() -> BadRequest:
    return BadRequest(f"the body is nested deeper than {MAX_DEPTH} levels", code="too_deep")


def _repeats_a_key(body: bytes, fields: Fields) -> bool:
    """Returns whether the body has a key twice at its top level, so that ``fields`` has only the last value.

    It has not if it is what most libraries write for these fields, with or without spaces. With spaces, the values are
    compared where they are: to write a large body again, in several steps, takes longer than to parse it.
    """
    if _differs_in_case(fields):
        return True
    if body.rstrip() == rawjson.encode(fields):
        return False
    end, start = 0, b'{"%b": '
    for name, raw in fields.items():
        key = start % name.encode()
        value = end + len(key)
        if not (body.startswith(key, end) and body.startswith(raw, value)):
            return rawjson.repeats_keys(body)[-1]
        end, start = value + len(memoryview(raw)), b', "%b": '
    return body[end : end + 2] != b"}" and rawjson.repeats_keys(body)[-1]


def _differs_in_case(fields: Fields) -> bool:
    """Returns whether a key is another one, or a field of ``_COST_FIELDS``, in other letters.

    Servers written in Go read both as the same field: after ``"model"``, a ``"Model"`` would choose another model.
    """
    letters = "".join(fields)
    if letters.isascii() and letters.islower():  # the usual case
        return False
    names = {*fields, *_COST_FIELDS}
    return len(set(map(str.casefold, names))) < len(names)
