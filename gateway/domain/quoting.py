"""Quoting: lists of names and of ``name=value`` as people type them on one line.

Names are separated by commas or spaces; a name that contains one is quoted. A quotation mark opens only at the start of
a name, so ``bob's`` is a name; inside quotation marks it is doubled. Readers raise BadRequest.
"""

import re
from collections.abc import Iterable

from gateway.domain.errors import BadRequest

_MARKS = "\"'"
_QUOTED = r'"(?:[^"]|"")*"|' + r"'(?:[^']|'')*'"
_WHOLE = re.compile(_QUOTED)
_SIDES = re.compile(rf"({_QUOTED}|[^=]*)(?:(=)(.*))?", re.DOTALL)
_OPENS = r"(?<![^\s,=])"
"""A separator stands before it, or nothing."""
_WORDS = re.compile(rf"(?:{_OPENS}(?:{_QUOTED})|[^\s,])+")


def split_names(text: str) -> list[str]:
    """The parts between commas and spaces, still quoted."""
    return _WORDS.findall(text)


def split_pair(word: str) -> tuple[str, str, str]:
    """What stands before the first ``=`` outside quotation marks, that sign, and what follows it."""
    match = _SIDES.fullmatch(word)
    return (match[1], match[2] or "", match[3] or "") if match else (word, "", "")


def unquote(word: str) -> str:
    """A name without its quotation marks. Raises BadRequest if the closing one is missing."""
    if not word or word[0] not in _MARKS:
        return word
    if not _WHOLE.fullmatch(word):
        raise BadRequest(f"{word}: the closing quotation mark is missing")
    return word[1:-1].replace(word[0] * 2, word[0])


def names_of(text: str) -> list[str]:
    """The names in a text, each once. Raises BadRequest."""
    return list(dict.fromkeys(map(unquote, split_names(text))))


def quote_name(name: str, separators: str = "") -> str:
    """A name as it is typed; ``separators`` are further signs that would end it."""
    plain = name and not any(char.isspace() or char in f",{_MARKS}{separators}" for char in name)
    return name if plain else '"' + name.replace('"', '""') + '"'


def names_text(names: Iterable[str]) -> str:
    """Names as they are typed."""
    return ", ".join(map(quote_name, names))


def comma_list(names: Iterable[str]) -> str:
    """Names as one option of a command takes them. Raises BadRequest for a comma within one: no option can hold it."""
    listed = list(names)
    if comma := next((name for name in listed if "," in name), None):
        raise BadRequest(f"'{comma}' contains a comma, which separates the names of an option")
    return ",".join(listed)


def pair_name(name: str) -> str:
    """A name as the left side of ``NAME=VALUE``. Raises BadRequest if it contains that sign."""
    if "=" in name:
        raise BadRequest(f"'{name}' contains '=', which ends a name in an option")
    return name


def listed_names(texts: Iterable[str]) -> list[str]:
    """The names of an option that takes several, separated by commas or given again."""
    return list(dict.fromkeys(name.strip() for text in texts for name in text.split(",") if name.strip()))


def pair(text: str) -> tuple[str, str]:
    """The two sides of ``NAME=VALUE``. Raises BadRequest."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise BadRequest(f"{text!r} is not of the form NAME=VALUE")
    return name, value


def model_pair(word: str) -> tuple[str, str]:
    """The name of a model and its name at the upstream in ``name`` or ``name=upstream``; without one, ''.

    Either may be quoted, as a name that contains ``=`` has to be. Raises BadRequest.
    """
    before, equals, behind = split_pair(word)
    name, upstream = unquote(before.strip()), unquote(behind.strip())
    if not name or (equals and not upstream):
        raise BadRequest(f"{word!r} is not a model name or name=upstream-name")
    return name, upstream
