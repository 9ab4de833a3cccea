"""Narrowing: which part of a filter the server can look for by itself, so that a rare call is found among a million.

Only words whose meaning is exactly the server's are taken; the whole filter is tested here all the same.
"""

import re
from collections.abc import Collection

from gateway.domain.call import Outcome

_WORD = re.compile(r'(?:[^\s"]|"[^"]*(?:"|$))+')


def narrowed(text: str, models: Collection[str], groups: Collection[str]) -> dict[str, object]:
    """Parameters of a request for calls; ``models`` and ``groups`` are all the names there are.

    A pattern fits names of any case, the server's parameter fits one name: so a name is taken only if it is written as
    it is, and no other one differs from it by case alone.
    """
    found: dict[str, object] = {}
    for word in _WORD.findall(text):
        field, _, value = word.replace('"', "").partition(":")
        if field == "st":
            found |= _status(value)
        elif field == "model" and _is_one(value, models):
            found["model"] = value
        elif field == "grp" and _is_one(value, groups):
            found["group"] = value
    return found


def _status(value: str) -> dict[str, object]:
    if value in ("err", "ok"):
        return {"failed": value == "err"}
    if re.fullmatch(r"=?[1-5][0-9][0-9]", value):
        return {"status": int(value.removeprefix("="))}
    if re.fullmatch(r"[45]xx|>=?[45][0-9][0-9]", value):
        return {"failed": True}
    return {"outcome": value} if value in list(Outcome) else {}


def _is_one(value: str, names: Collection[str]) -> bool:
    if any(char in value for char in "*?["):
        return False
    return [name for name in names if name.casefold() == value.casefold()] == [value]
