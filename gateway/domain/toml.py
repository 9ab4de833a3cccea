"""TOML written in one way only: the same values are the same bytes. Reading is the standard library's business."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from gateway.domain.text import plain

Value = str | int | float | bool | Sequence["Value"] | Mapping[str, "Value"]
Table = Mapping[str, Value]

_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


def table(path: Sequence[str], values: Table) -> str:
    """One table with its header; a value a line, in the order given. A list of several values has one of them a line.

    Inner tables stand on one line, as TOML demands of those that are no sections.
    """
    lines = [f"[{'.'.join(map(_key, path))}]", *(f"{_key(name)} = {_block(value)}" for name, value in values.items())]
    return "\n".join(lines) + "\n"


def _block(value: Value) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) > 1:
        return "[\n" + "".join(f"    {inline(item)},\n" for item in value) + "]"
    return inline(value)


def inline(value: Value) -> str:
    """One value on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_key(name)} = {inline(item)}" for name, item in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    return f"[{', '.join(map(inline, value))}]"


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _string(name)


def _string(text: str) -> str:
    """JSON's escapes are TOML's, too. What cannot be shown is escaped as well, so that a file is safe to look at."""
    return "".join(_shown(json.dumps(text, ensure_ascii=False)))


def _shown(quoted: str) -> Iterator[str]:
    for char in quoted:
        yield char if plain(char) == char else f"\\U{ord(char):08x}"
