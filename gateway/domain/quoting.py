"""Quoting: lists of names and of ``name=value`` as people type them on one line, and a channel's models among them.

In a form, names are separated by commas or spaces. A name that contains one of these is quoted. A quotation mark has a
meaning only at the start of a name, so ``bob's`` is a name; inside quotation marks it is doubled. In an option of a
command, names are separated by commas alone and never quoted, because shells take quotation marks away.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import msgspec

from gateway.domain.channel import ChannelFields, ServedModel
from gateway.domain.errors import BadRequest
from gateway.domain.patterns import NOT, is_pattern, matches
from gateway.domain.urls import refuse_url

_MARKS = "\"'"
_QUOTED = r'"(?:[^"]|"")*"|' + r"'(?:[^']|'')*'"
_WHOLE = re.compile(_QUOTED)
_MODEL = re.compile(rf"({_QUOTED}|[^=]*)(?:(=)(.*))?", re.DOTALL)
_BEGINNING = re.compile(r"[\w-]+(?=[:\s])|.{0,4}")
_OPENS = r"(?<![^\s,=])"
"""Matches at the start and after a separator."""
split_names = re.compile(rf"(?:{_OPENS}(?:{_QUOTED})|[^\s,])+").findall
"""Returns the parts between commas and spaces, still quoted."""


def unquote(word: str) -> str:
    """Returns a name without its quotation marks. Raises BadRequest if the closing one is missing."""
    if not word or word[0] not in _MARKS:
        return word
    if not _WHOLE.fullmatch(word):
        raise BadRequest(f"{word}: the closing quotation mark is missing")
    return word[1:-1].replace(word[0] * 2, word[0])


def parse_names(text: str) -> list[str]:
    """Returns the names that were typed in a form, each once. Raises BadRequest."""
    return list(dict.fromkeys(map(unquote, split_names(text))))


def quote_name(name: str, separators: str = "") -> str:
    """Returns a name as it is typed in a form. ``separators`` are more characters that would end it."""
    bare = name and not any(char.isspace() or char in f",{_MARKS}{separators}" for char in name)
    return name if bare else '"' + name.replace('"', '""') + '"'


def names_text(names: Iterable[str]) -> str:
    """Returns names as they are typed in a form."""
    return ", ".join(map(quote_name, names))


def option_text(names: Iterable[str]) -> str:
    """Returns names as they are typed in an option. Raises BadRequest for a name with a comma."""
    listed = list(names)
    if with_comma := next((name for name in listed if "," in name), None):
        raise BadRequest(f"'{with_comma}' contains a comma, which separates the names of an option")
    return ",".join(listed)


def option_names(texts: Iterable[str]) -> list[str]:
    """Returns the names in the values of a repeated option, each once."""
    return list(dict.fromkeys(name.strip() for text in texts for name in text.split(",") if name.strip()))


def require_names(text: str, otherwise: str) -> str:
    """Returns the text. Raises BadRequest if it has no names: a variable may be unset. ``otherwise`` is the advice."""
    if not option_names([text]):
        raise BadRequest(f"{text!r} contains no names; {otherwise}")
    return text


def beginning(text: str) -> str:
    """Returns the beginning of a text that should be NAME=VALUE, as ``Authorization…``. The rest may be a secret."""
    start = _BEGINNING.match(text)
    shown = start[0] if start else ""
    return text if shown == text else f"{shown}…"


def option_pair(text: str) -> tuple[str, str]:
    """Returns the name and the value in ``NAME=VALUE``. Raises BadRequest."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise BadRequest(f"{beginning(text)!r} is not of the form NAME=VALUE")
    return name, value


def model_pair(word: str) -> tuple[str, str]:
    """Returns a model's name and, in ``name=upstream``, its upstream name. Both may be quoted. Raises BadRequest."""
    match = _MODEL.fullmatch(word)
    before, equals, after = match.groups("") if match else (word, "", "")
    name, upstream = unquote(before.strip()), unquote(after.strip())
    if not name or (equals and not upstream):
        raise BadRequest(f"{word!r} is not a model name or name=upstream-name")
    return name, upstream


class Offering(msgspec.Struct, frozen=True):
    """The models that a channel offers: single ones, and patterns for the upstream's list."""

    models: list[ServedModel]
    """The models that are listed by name. Which ones the patterns select is up to the server, whose list is newer."""
    patterns: list[str]

    def patch(self) -> dict[str, Any]:
        """Returns the offering as a request body."""
        return {"models": msgspec.to_builtins(self.models), "patterns": self.patterns}


def read_offering(text: str, known: Sequence[ServedModel] = ()) -> Offering:
    """Returns the offering of ``a, name=upstream, gpt-*, !*-preview``, with data of ``known``. Raises BadRequest."""
    by_name = {model.name: model for model in known}
    named = {model.name for model in known if not model.live}
    models, patterns = [], []
    for word in dict.fromkeys(split_names(text)):
        name, upstream = model_pair(word)
        for part in (name, upstream):
            refuse_url(part)
        if not upstream and is_pattern(name) and name not in named:
            patterns.append(name)
            continue
        model = by_name.get(name, ServedModel(name=name))
        models.append(msgspec.structs.replace(model, upstream="" if upstream == name else upstream, live=False))
    return Offering(models, patterns)


def offering_of(channel: ChannelFields) -> Offering:
    """Returns the offering of a channel as its owner configured it."""
    return Offering([model for model in channel.models if not model.live], list(channel.patterns))


def change_offering(channel: ChannelFields, *, add: Iterable[str] = (), remove: Collection[str] = ()) -> Offering:
    """Returns a channel's offering with these models of its upstream, and without these public names.

    The patterns exclude what is removed, and no longer exclude what is added. A model that they select is not named.
    """
    remaining = [model for model in channel.models if model.name not in remove]
    served = {model.upstream_name for model in remaining}
    added = [name for name in add if name not in served]
    patterns = [pattern for pattern in channel.patterns if pattern not in {NOT + name for name in added}]
    if channel.patterns:
        patterns = patterns or ["*"]  # those that only exclude select all others
        removed = {model.upstream_name for model in channel.models} - served
        patterns += [NOT + name for name in sorted(removed) if matches(name, channel.patterns)]
        added = [name for name in added if not matches(name, tuple(patterns))]
    named = [model for model in remaining if not model.live]
    return Offering([*named, *(ServedModel(name=name) for name in added)], patterns)


def offering_words(offering: Offering) -> list[str]:
    """Returns the words that a user would type for the offering, separated by commas."""
    named = [
        quote_name(m.name, "=") + (f"={quote_name(m.upstream, '=')}" if m.upstream else "") for m in offering.models
    ]
    return [*named, *(quote_name(pattern, "=") for pattern in offering.patterns)]
