"""List kinds: the kinds of fields with several values: names, patterns, and the base class for pairs."""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from gateway.domain.errors import BadRequest
from gateway.domain.field_kinds import NONE_WORD, Field, Kind, Option
from gateway.domain.patterns import NOT
from gateway.domain.quoting import (
    beginning,
    names_text,
    option_names,
    option_pair,
    option_text,
    parse_names,
    require_names,
)
from gateway.domain.units import Millis

T = TypeVar("T")
K = TypeVar("K")

_QUOTED = re.compile(r"[\s\"'\\]")
"""Matches characters that make a form quote a word."""


class ListKind(Kind[T], kw_only=True):
    """Several values. An option of a command adds one or more of them; another option may remove all."""

    clear_option: tuple[str, str] = ("", "")
    """The option that removes all, and its help; empty if the field has no such option."""

    def options(self, field: Field) -> Sequence[Option]:
        flag, text = self.clear_option
        clearing = [Option(flags=flag, name=_parameter(flag), help=text)] if flag else []
        return [self.option(field, read=self.read_option, multiple=True), *clearing]

    def change(self, field: Field, options: Mapping[str, Any], before: T) -> Any:
        values, flag = options.get(field.id) or (), self.clear_option[0]
        is_cleared = bool(flag and options.get(_parameter(flag)))
        if is_cleared and values:
            raise BadRequest(f"{flag} and {field.flags} exclude each other")
        return self.gather(field, values, before) if values or is_cleared else msgspec.UNSET

    def read_option(self, text: str, now: Millis) -> Any:
        """Returns what one option contains, as ``gather`` takes it."""
        raise NotImplementedError

    def gather(self, field: Field, values: Sequence[Any], before: T) -> T:
        """Returns the value of the field after all options of a command."""
        raise NotImplementedError


class Names(ListKind[tuple[str, ...]], kw_only=True):
    """Names, separated by commas in an option. If no option removes all, ``''`` does."""

    metavar: str = "NAMES"
    many: bool = True
    empty_text: str
    """The text of an empty list in details."""
    item: str = ""
    """What one name is, as in ``--add-host`` and ``--remove-host``; empty if the field has no such options."""

    def options(self, field: Field) -> Sequence[Option]:
        texts = {"add": f"Add this {self.item} to the list", "remove": f"Remove this {self.item} from the list"}
        single_names = [
            Option(
                flags=f"--{verb}-{self.item}",
                name=f"{verb}_{self.item}",
                help=f"{text}. May be repeated.",
                metavar=self.item.upper(),
                multiple=True,
                completes=self.completes,
            )
            for verb, text in texts.items()
            if self.item
        ]
        return [*super().options(field), *single_names]

    def change(self, field: Field, options: Mapping[str, Any], before: tuple[str, ...]) -> Any:
        """Returns the names after all options. Names are added to those that other options set, else to ``before``."""
        value = super().change(field, options, before)
        added, removed = (option_names(options.get(f"{verb}_{self.item}") or ()) for verb in ("add", "remove"))
        if not (added or removed):
            return value
        names = before if value is msgspec.UNSET else value
        if missing := [name for name in removed if name not in names]:
            raise BadRequest(f"{field.detail}: '{missing[0]}' is not in the list: {', '.join(names) or 'it is empty'}")
        return tuple(name for name in dict.fromkeys((*names, *added)) if name not in removed)

    def read_option(self, text: str, now: Millis) -> str:
        """Returns the names in an option. Raises BadRequest for none, if another option removes all."""
        flag = self.clear_option[0]
        return require_names(text, f"use {flag} for none") if flag else text

    def gather(self, field: Field, values: Sequence[str], before: tuple[str, ...]) -> tuple[str, ...]:
        return self._stored_names(tuple(option_names(values)))

    def text(self, value: tuple[str, ...]) -> str:
        return names_text(value)

    def read(self, text: str, now: Millis) -> tuple[str, ...]:
        return self._stored_names(tuple(parse_names(text)))

    def _stored_names(self, names: tuple[str, ...]) -> tuple[str, ...]:
        return () if self.none_word and [name.lower() for name in names] == [NONE_WORD] else names

    def arguments(self, field: Field, before: tuple[str, ...], after: tuple[str, ...]) -> Sequence[str]:
        if self.clear_option[0] and not after:
            return [self.clear_option[0]]
        return [field.flags, option_text(after) or self.empty_word]

    def show(self, value: tuple[str, ...]) -> str:
        return ", ".join(value) or self.empty_text


class Patterns(Names, kw_only=True):
    """Patterns of model names. ``*`` means all models, apart from those that others exclude, and is not stored."""

    metavar: str = "PATTERNS"
    completes: str = "models"
    empty_word: str = "*"

    def read_option(self, text: str, now: Millis) -> str:
        return require_names(text, "leave the option out, or use '*' for all")

    def _stored_names(self, names: tuple[str, ...]) -> tuple[str, ...]:
        if [name.lower() for name in names] == [NONE_WORD]:  # it could mean no patterns or no models
            raise BadRequest("'none' is ambiguous: use '*' for all models, or '!*' for no model")
        return tuple(name for name in names if name.startswith(NOT)) if "*" in names else names


class Pairs(ListKind[T], kw_only=True):
    """Several ``NAME=VALUE``. In a form they are words on one line, quoted as for a shell."""

    metavar: str = "NAME=VALUE"
    removal: str = ""
    """The value in an option that removes a pair; if empty, the pairs in options replace all."""

    def read_option(self, text: str, now: Millis) -> Any:
        return option_pair(text)

    def gather(self, field: Field, values: Sequence[Any], before: T) -> T:
        return self.value(unique_pairs(values, field.flags), before)

    def value(self, pairs: Mapping[str, str], before: T | None) -> T:
        """Returns the value of the field with these pairs. ``before`` is the value that a command changes, if any."""
        raise NotImplementedError

    def pairs(self, value: T) -> Mapping[str, str]:
        """Returns the texts that are typed for the value, by name."""
        raise NotImplementedError

    def text(self, value: T) -> str:
        words = [f"{name}={text}" for name, text in self.pairs(value).items()]
        return " ".join(shlex.quote(word) if _QUOTED.search(word) else word for word in words)

    def read(self, text: str, now: Millis) -> Any:
        pairs = []
        for word in shell_words(text):
            name, _, value = word.partition("=")
            if not (name and value):
                raise BadRequest(f"{beginning(word)!r} is not name=value")
            pairs.append((name, value))
        return self.value(unique_pairs(pairs, "the list"), None)

    def arguments(self, field: Field, before: T, after: T) -> Sequence[str]:
        pairs = self.changed_pairs(before, after)
        if misread := next((name for name in pairs if "=" in name), None):
            raise BadRequest(f"'{misread}' contains '=', which ends a name in an option")
        arguments = [part for name, text in pairs.items() for part in (field.flags, f"{name}={text}")]
        return arguments or [flag for flag in self.clear_option[:1] if flag]

    def changed_pairs(self, before: T, after: T) -> dict[str, str]:
        """Returns the pairs whose options change one value to the other."""
        old, new = self.pairs(before), dict(self.pairs(after))
        if not self.removal:
            return new
        removed = {name: self.removal for name in old if name not in new}
        return {name: text for name, text in new.items() if old.get(name) != text} | removed


def unique_pairs(pairs: Sequence[tuple[K, T]], option: str) -> dict[K, T]:
    """Returns the values by name. Raises BadRequest if a name is given twice."""
    values: dict[K, T] = {}
    for name, value in pairs:
        if name in values:
            raise BadRequest(f"{option}: '{name}' is given twice")
        values[name] = value
    return values


def _parameter(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")


def shell_words(text: str) -> list[str]:
    """Returns the words of a text that is quoted as for a shell. Raises BadRequest."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise BadRequest("the closing quotation mark is missing") from error
