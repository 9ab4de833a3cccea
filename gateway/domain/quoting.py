"""Quoting: lists of names and of ``name=value`` as people type them on one line.

Names are separated by commas or spaces. A name that contains one of these is quoted. A quotation mark has a meaning
only at the start of a name, so ``bob's`` is a name; inside quotation marks it is doubled.
"""

import re
from collections.abc import Iterable

from gateway.domain.errors import BadRequest

_MARKS = "\"'"
_QUOTED = r'"(?:[^"]|"")*"|' + r"'(?:[^']|'')*'"
_WHOLE = re.compile(_QUOTED)
_SIDES = re.compile(rf"({_QUOTED}|[^=]*)(?:(=)(.*))?", re.DOTALL)
_OPENS = r"(?<![^\s,=])"
"""Matches at the start and after a separator."""
_WORDS = re.compile(rf"(?:{_OPENS}(?:{_QUOTED})|[^\s,])+")


def split_names(text: str) -> list[str]:
    """Returns the parts between commas and spaces, still quoted."""
    return _WORDS.findall(text)


def split_pair(word: str) -> tuple[str, str, str]:
    """Returns the text before the first ``=`` outside quotation marks, that sign, and the text after it."""
    match = _SIDES.fullmatch(word)
    return (match[1], match[2] or "", match[3] or "") if match else (word, "", "")


def unquote(word: str) -> str:
    """Returns a name without its quotation marks. Raises BadRequest if the closing one is missing."""
    if not word or word[0] not in _MARKS:
        return word
    if not _WHOLE.fullmatch(word):
        raise BadRequest(f"{word}: the closing quotation mark is missing")
    return word[1:-1].replace(word[0] * 2, word[0])


def parse_names(text: str) -> list[str]:
    """Returns the names in a text, each once. Raises BadRequest."""
    return list(dict.fromkeys(map(unquote, split_names(text))))


def quote_name(name: str, separators: str = "") -> str:
    """Returns a name as it is typed. ``separators`` are further characters that would end it."""
    bare = name and not any(char.isspace() or char in f",{_MARKS}{separators}" for char in name)
    return name if bare else '"' + name.replace('"', '""') + '"'


def names_text(names: Iterable[str]) -> str:
    """Returns names as they are typed."""
    return ", ".join(map(quote_name, names))


def comma_list(names: Iterable[str]) -> str:
    """Returns names as they are written in one option. Raises BadRequest for a name with a comma."""
    listed = list(names)
    if with_comma := next((name for name in listed if "," in name), None):
        raise BadRequest(f"'{with_comma}' contains a comma, which separates the names of an option")
    return ",".join(listed)


def pair_name(name: str) -> str:
    """Returns the name, for the left side of ``NAME=VALUE``. Raises BadRequest if it contains ``=``."""
    if "=" in name:
        raise BadRequest(f"'{name}' contains '=', which ends a name in an option")
    return name


def listed_names(texts: Iterable[str]) -> list[str]:
    """Returns the names in the values of a repeated option, in which they are separated by commas."""
    return list(dict.fromkeys(name.strip() for text in texts for name in text.split(",") if name.strip()))


def pair(text: str) -> tuple[str, str]:
    """Returns the two sides of ``NAME=VALUE``. Raises BadRequest."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise BadRequest(f"{text!r} is not of the form NAME=VALUE")
    return name, value


def model_pair(word: str) -> tuple[str, str]:
    """Returns a model's name and, in ``name=upstream``, its upstream name. Both may be quoted. Raises BadRequest."""
    before, equals, after = split_pair(word)
    name, upstream = unquote(before.strip()), unquote(after.strip())
    if not name or (equals and not upstream):
        raise BadRequest(f"{word!r} is not a model name or name=upstream-name")
    return name, upstream
