"""Quoted: names in one field. Commas and blanks separate them; one that holds such a sign stands in quotation marks.

A mark opens only where a name begins, so ``bob's`` is a name; within a pair of marks one is written twice.
"""

import re
from collections.abc import Iterable

from gateway.domain.errors import BadRequest

_MARKS = "\"'"
_QUOTED = r'"(?:[^"]|"")*"|' + r"'(?:[^']|'')*'"
_WHOLE = re.compile(_QUOTED)
_SIDES = re.compile(rf"({_QUOTED}|[^=]*)(?:(=)(.*))?", re.DOTALL)
_OPENS = r"(?<![^\s,=])"
"""Before it is a sign that separates, or nothing."""
_WORDS = re.compile(rf"(?:{_OPENS}(?:{_QUOTED})|[^\s,])+")
_SPACED = re.compile(rf"(?:{_OPENS}(?:{_QUOTED})|\S)+")


def words(text: str) -> list[str]:
    """What stands between commas and blanks, in its marks."""
    return _WORDS.findall(text)


def spaced(text: str) -> list[str]:
    """What stands between blanks, in its marks."""
    return _SPACED.findall(text)


def sides(word: str) -> tuple[str, str, str]:
    """What is before the first ``=`` outside of marks, that sign, and what is behind it."""
    found = _SIDES.fullmatch(word)
    return (found[1], found[2] or "", found[3] or "") if found else (word, "", "")


def bare(word: str) -> str:
    """A name without its marks. Raises BadRequest for a mark without a second one."""
    if not word or word[0] not in _MARKS:
        return word
    if not _WHOLE.fullmatch(word):
        raise BadRequest(f"{word}: a quotation mark has no second one at the end of the name")
    return word[1:-1].replace(word[0] * 2, word[0])


def listed(text: str) -> list[str]:
    """The names of a field, each once. Raises BadRequest."""
    return list(dict.fromkeys(map(bare, words(text))))


def quoted(name: str, apart: str = "") -> str:
    """A name as it is typed; ``apart`` are further signs that would end it."""
    plain = name and not any(char.isspace() or char in f",{_MARKS}{apart}" for char in name)
    return name if plain else '"' + name.replace('"', '""') + '"'


def written(names: Iterable[str]) -> str:
    """Names as they are typed."""
    return ", ".join(map(quoted, names))
