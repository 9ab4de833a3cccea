"""Header field: a channel's further request headers. Values that are no reference are secret: they are never shown."""

import shlex
from collections.abc import Mapping

from gateway.domain.errors import BadRequest
from tui import twins
from tui.parse import KEEP
from tui.safe import safe
from tui.widgets.form import Field

REFERENCE = "env:"
LINE = "X-Team=blue X-Title='my app' X-Pass=env:NAME"


def field(headers: Mapping[str, str], *, copy: bool = False) -> Field:
    """The field. It is filled if all values are references; else it is empty, and empty keeps them.

    A copy cannot have what is never shown.
    """
    known = all(value.startswith(REFERENCE) for value in headers.values())
    names = ", ".join(safe(name, 40) for name in headers)
    hint = f"none, or {LINE}"
    if not known:
        hint = f"{names}: secret, not copied; all again, or none" if copy else f"{names} stay; or all again, or none"
    empty: dict[str, str] | str = {} if known or copy else KEEP
    return Field(
        id="headers",
        label="Headers",
        value=" ".join(shlex.quote(f"{name}={value}") for name, value in headers.items()) if known else "",
        hint=hint,
        parse=lambda text: read(text) if text.strip() else empty,
    )


def read(text: str) -> dict[str, str]:
    """``NAME=VALUE`` between blanks, quoted where a value has some. Raises BadRequest."""
    if text.strip().lower() == "none":
        return {}
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise BadRequest("a quotation mark has no second one") from error
    found: dict[str, str] = {}
    given: set[str] = set()
    for word in words:
        name, equals, value = word.partition("=")
        if not (equals and name and value):
            raise BadRequest(f"{word!r} is not written as Name=value, for example {LINE}")
        if name.lower() in given:
            raise BadRequest(f"{name} is given twice; upper and lower case are one in a header's name")
        given.add(name.lower())
        found[name] = value
    return found


def twin(text: str, before: str) -> str:
    """The options that do the same; a value that may be secret is not in them."""
    if twins.changed(text, before) is None:
        return ""
    try:
        headers = read(text)
    except BadRequest:
        return ""
    shown = ((name, value if value.startswith(REFERENCE) else "VALUE") for name, value in headers.items())
    return "".join(f" --header {shlex.quote(f'{name}={value}')}" for name, value in shown) or " --no-headers"
