"""Knob field: what a channel of the ``mock`` dialect is told to do: ``latency=200 retry_after="in a while"``."""

import json
import shlex
from collections.abc import Mapping
from typing import Any

import msgspec

from gateway.domain.errors import BadRequest
from tui import quoted
from tui.widgets.form import Field


def field(knobs: Mapping[str, Any]) -> Field:
    """The field, filled with those there are."""
    value = " ".join(f"{quoted.quoted(name, '=')}={quoted.quoted(_text(value))}" for name, value in knobs.items())
    return Field(id="options", label="Knobs of mock", value=value, hint="latency=200", parse=read)


def read(text: str) -> dict[str, Any]:
    """Values by name: JSON where a value is some, else the text itself. Raises BadRequest."""
    found = {}
    for word in quoted.spaced(text):
        before, _, behind = quoted.sides(word)
        name, value = quoted.bare(before), quoted.bare(behind)
        if not (name and value):
            raise BadRequest(f"{word!r} is not written as name=value")
        found[name] = _value(value)
    return found


def twin(text: str, before: str) -> str:
    """The options that set what is new or other than before, and take away what is gone. Raises BadRequest."""
    new, old = read(text), read(before)
    asked = {name: _text(value) for name, value in new.items() if name not in old or old[name] != value}
    asked |= {name: "none" for name in old if name not in new}
    return "".join(f" --option {shlex.quote(f'{name}={value}')}" for name, value in asked.items())


def _value(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def _text(value: Any) -> str:
    """Text as it is, unless it would be read as something else."""
    return value if isinstance(value, str) and _value(value) == value else json.dumps(value, ensure_ascii=False)
