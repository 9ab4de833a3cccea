"""PartialCall: a function call whose arguments Gemini sends in pieces, each with the JSON path of its value.

Source: ``FunctionCall.partialArgs`` and ``willContinue`` in Google's API. They come if the request, or an override of
the owner's, sets ``streamFunctionCallArguments``.
"""

import re
from typing import Any

from gateway.domain import rawjson

LONGEST_LIST = 10_000
"""The most items of a list in arguments that come in pieces."""
_STEP = re.compile(r"""\.([^.\[\]]+)|\[(\d+)\]|\['([^']*)'\]|\["([^"]*)"\]""")
"""One step of a JSON path: a name, a position, or a quoted name."""
_VALUES = ("stringValue", "numberValue", "boolValue", "nullValue")


class PartialCall:
    """The call so far. A call that is sent at once is the shortest of them."""

    def __init__(self, call: dict[str, Any], signature: str) -> None:
        self.id = rawjson.text_at(call.get("id"))
        self.name = str(call.get("name", ""))
        self.signature = signature
        args = call.get("args")
        self.arguments: Any = args if isinstance(args, dict | str) and args else {}

    def add_pieces(self, call: dict[str, Any]) -> None:
        """Add the pieces of the arguments in one part of the answer. Raises ValueError for a list that is too long."""
        for piece in rawjson.list_at(call.get("partialArgs")):
            path = rawjson.text_at(piece, "jsonPath")
            kind = next((kind for kind in _VALUES if isinstance(piece, dict) and kind in piece), "")
            if path and kind:
                value = None if kind == "nullValue" else piece[kind]
                self.arguments = _with_value(self.arguments, _steps_of(path), value)


def _steps_of(path: str) -> list[str | int]:
    """Returns the names and positions in a JSON path such as ``$.days[1]['a b']``."""
    return [
        int(match[2]) if match[2] else match[1] or match[3] or match[4] or ""
        for match in _STEP.finditer(path.removeprefix("$"))
    ]


def _with_value(holder: Any, steps: list[str | int], value: Any) -> Any:
    """Returns a JSON value with another one set at these steps; a text is added to the text that is there."""
    if not steps:
        return holder + value if isinstance(holder, str) and isinstance(value, str) else value
    step, *later_steps = steps
    if isinstance(step, str):
        members = holder if isinstance(holder, dict) else {}
        return {**members, step: _with_value(members.get(step), later_steps, value)}
    if step >= LONGEST_LIST:
        raise ValueError("a list of arguments is too long")
    items = holder if isinstance(holder, list) else []
    items = [*items, *[None] * (step + 1 - len(items))]
    items[step] = _with_value(items[step], later_steps, value)
    return items
