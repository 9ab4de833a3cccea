"""Typed JSON: reads a part of a request as a value of a type. The error for a wrong type names its place."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar, cast

import msgspec

from gateway.domain.errors import BadRequest

Value = TypeVar("Value")


def read_optional(kind: Callable[..., Value], raw: bytes | msgspec.Raw, param: str) -> Value | None:
    """Returns what ``read_typed`` returns; None for null."""
    value: Value | None = read_typed(cast("Any", kind) | None, raw, param)
    return value


def read_typed(kind: Callable[..., Value], raw: bytes | msgspec.Raw, param: str) -> Value:
    """Returns a value of a type, which is at ``param`` in a request. Raises BadRequest that names the wrong place."""
    try:
        value: Value = _decoder(kind).decode(raw)
    except msgspec.ValidationError as error:
        raise wrong_type(error, param) from error
    except RecursionError as error:
        raise BadRequest("the body is nested too deeply", code="too_deep") from error
    except msgspec.DecodeError as error:
        raise BadRequest(f"{param} is not valid JSON: {error}", code="invalid_json", param=param) from error
    return value


@lru_cache(maxsize=128)
def _decoder(kind: Any) -> "msgspec.json.Decoder[Any]":
    return msgspec.json.Decoder(kind)


def wrong_type(error: msgspec.ValidationError, param: str = "") -> BadRequest:
    """Returns the error of a value at ``param`` in a request, which names the wrong place."""
    problem, _, path = str(error).partition(" - at `$")
    place = (param + path.rstrip("`")).lstrip(".")
    return BadRequest(f"{place}: {problem}", code="invalid_type", param=place)
