"""PartialCall: a function call whose arguments Gemini sends in pieces, each with the JSON path of its value.

Vertex AI calls them ``partialArgs``, and sends them if a request sets ``streamFunctionCallArguments``. Our requests
never do, but a relay may set it.
"""

import re
from typing import Any

from gateway.domain import rawjson

_STEP = re.compile(r"""\.([^.\[\]]+)|\[(\d+)\]|\['([^']*)'\]|\["([^"]*)"\]""")
"""One step of a JSON path such as ``$.days[1]['a b']``: a name, a position, or a quoted name."""
_VALUES = ("stringValue", "numberValue", "boolValue", "nullValue")


class PartialCall:
    """A call that has arrived in part. A call that is sent whole has all its arguments from the start."""

    def __init__(self, call: dict[str, Any], signature: str) -> None:
        self.id = rawjson.text_at(call.get("id"))
        self.name = str(call.get("name", ""))
        self.signature = signature
        args = call.get("args")
        self._root: dict[str, Any] = {"": args if isinstance(args, dict | str) and args else {}}
        self._texts: dict[tuple[str | int, ...], tuple[Any, str | int, list[str]]] = {}
        """By its steps, what holds a text, its key there, and its pieces, which are joined only at the end."""
        self._items = 0
        """The number of items that paths added to lists."""

    @property
    def arguments(self) -> Any:
        """Returns the arguments so far, an object or a text."""
        for holder, key, pieces in self._texts.values():
            if isinstance(holder[key], str):
                holder[key] = "".join(pieces)
        return self._root[""]

    def add_pieces(self, call: dict[str, Any]) -> None:
        """Add the pieces of arguments in one part of the answer. Raises ValueError if they are too many or too deep.

        A piece without a value ends a text, or is an empty object, or an empty list such as ``$.tags[]``.
        """
        for piece in rawjson.list_at(call.get("partialArgs")):
            path = rawjson.text_at(piece, "jsonPath")
            kind = next((kind for kind in _VALUES if isinstance(piece, dict) and kind in piece), "")
            if path and (kind or not rawjson.at(piece, "willContinue")):
                matches = _STEP.finditer(path.removeprefix("$"))
                steps = [int(match[2]) if match[2] else match[1] or match[3] or match[4] or "" for match in matches]
                value: Any = [] if path.endswith("[]") else {}
                if kind:
                    value = None if kind == "nullValue" else piece[kind]
                self._set(tuple(steps), value)

    def _set(self, steps: tuple[str | int, ...], value: Any) -> None:
        """Set the value at these steps. A text is appended to a present one; a list or object replaces only null."""
        if len(steps) > 100:
            raise ValueError("a path of arguments is too long")
        if isinstance(value, str) and steps in self._texts:
            self._texts[steps][2].append(value)
            return
        parent: Any = self._root
        key: str | int = ""
        for step in steps:
            parent[key] = self._container(parent[key], step)
            parent, key = parent[key], step
        before = parent[key]
        if isinstance(value, list | dict) and before is not None:
            return
        self._texts.pop(steps, None)
        if isinstance(value, str):
            self._texts[steps] = parent, key, [before, value] if isinstance(before, str) else [value]
        parent[key] = value

    def _container(self, value: Any, step: str | int) -> dict[str, Any] | list[Any]:
        """Returns the value, or a new one of the type that the step needs, with null as the member if it is missing."""
        if isinstance(step, str):
            members: dict[str, Any] = value if isinstance(value, dict) else {}
            members.setdefault(step, None)
            return members
        items: list[Any] = value if isinstance(value, list) else []
        missing = max(0, step + 1 - len(items))
        self._items += missing
        if self._items > 10_000:
            raise ValueError("the lists of arguments are too long")
        items += [None] * missing
        return items
