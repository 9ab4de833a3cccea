"""Kinds of fields: how a field of an entity is typed, shown, set by options of a command, and printed as a command.

A kind depends on neither click nor the console: it describes options as values, and both front ends draw them. A form
has one input for each field. Everything that reads text takes ``now``, the moment from which spans such as ``30d``
count, and raises BadRequest.

Long: the simple kinds, read side by side.
"""

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar

import msgspec
from msgspec.structs import force_setattr

from gateway.domain.errors import BadRequest
from gateway.domain.human_values import (
    brief_multiplier,
    ended_date,
    expiry_time,
    local_time,
    parse_count,
    parse_future,
    parse_multiplier,
)
from gateway.domain.quoting import comma_list, listed_names, names_text, pair, pair_name, parse_names
from gateway.domain.text import REFERENCE
from gateway.domain.units import Millis

T = TypeVar("T")
K = TypeVar("K")

NONE_WORD = "none"
NONE_WORDS = ("", NONE_WORD, "never")
"""Words for no limit and no moment."""

Reader = Callable[[str, Millis], Any]
Section = Literal["", "Calls", "Access", "Ollama", "Limits", "Load", "Console"]


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """One option of a command. A kind merges the options of its field into a value."""

    flags: str
    """As click spells it: ``--note``, or ``--sticky/--not-sticky`` for a switch."""
    name: str
    """The parameter's name."""
    help: str
    metavar: str = ""
    """Empty for a switch."""
    read: Reader | None = None
    """None: text as it is."""
    choices: tuple[str, ...] = ()
    multiple: bool = False
    completes: str = ""
    """What a shell completes it with: ``groups``, ``models`` or ``presets``."""


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One field that the owner edits, for every place that shows or sets it."""

    name: str
    """The attribute of the entity and the name in JSON."""
    kind: "Kind[Any]"
    help: str
    """Its option's help; a switch with two flags has one sentence for both."""
    label: str = ""
    """Its label in forms, if it is not just the name; ``show`` and detail panes use ``detail``."""
    option: str = ""
    """Its flags, if they are not just ``--name``, or ``--name/--no-name`` of a switch."""
    placeholder: str = ""
    """An example that a form shows while the input is empty."""
    part: str = ""
    """The id of a further input, if an attribute has several, and its option's name; it is not shown by itself."""
    advanced: bool = False
    """Whether a form hides it until it is needed."""
    section: Section = ""
    """Where the console lists a setting."""

    def __post_init__(self) -> None:
        force_setattr(self, "label", self.label or self.name.replace("_", " ").capitalize())

    @property
    def flags(self) -> str:
        name = self.name.replace("_", "-")
        return self.option or (f"--{name}/--no-{name}" if isinstance(self.kind, Flag) else f"--{name}")

    @property
    def id(self) -> str:
        """Returns the id of its input in a form."""
        return self.part or self.name

    @property
    def detail(self) -> str:
        """Returns its label in details: without a unit, and in lower case."""
        return self.label[:1].lower() + self.label[1:].partition(",")[0]

    def show(self, value: Any) -> str:
        """Returns the value as details show it; empty: nothing to show."""
        return self.kind.show(value)


class Kind(Generic[T]):
    """Text of one line; the base of all other kinds."""

    metavar: str = "TEXT"
    required: bool = False
    """Whether an empty text is refused."""
    unit: str = ""
    """What a number counts."""
    none: str = ""
    """The word that an option takes for an empty text."""
    choices: tuple[str, ...] = ()
    """The values a form picks from, if any."""
    completes: str = ""
    """What it names, as an option's ``completes``; the form lists them."""
    many: bool = False
    """Whether it is a list of such names."""

    def options(self, field: Field) -> Sequence[Option]:
        """Returns the options of ``add`` and ``edit`` that set the field."""
        return [self.option(field)]

    def option(self, field: Field, **changes: Any) -> Option:
        """Returns the option with the field's flags, changed in this way."""
        usual: dict[str, Any] = {
            "name": field.id,
            "metavar": self.metavar,
            "read": self.read,
            "completes": self.completes,
        }
        return Option(flags=field.flags, help=field.help, **(usual | changes))

    def change(self, field: Field, given: Mapping[str, Any], before: T) -> Any:
        """Returns the value that the options set; UNSET if none was given."""
        value = given.get(field.id)
        if value is None:
            return msgspec.UNSET
        return self.put(before, value[0] if isinstance(value, tuple) else value)

    def text(self, value: T) -> str:
        """Returns the value as it is typed."""
        return str(self.part(value))

    def read(self, text: str, now: Millis) -> Any:
        """Returns the value of a typed text."""
        return text.strip()

    def part(self, value: T) -> Any:
        """Returns the part of the value in the input."""
        return value

    def put(self, value: T, part: Any) -> Any:
        """Returns the value with the input's content."""
        return part

    def arguments(self, field: Field, before: T, after: T) -> Sequence[str]:
        """Returns the options that turn one value into the other. Raises BadRequest if no option can."""
        return [] if before == after else [field.flags, self.text(after) or self.none]

    def show(self, value: T) -> str:
        """Returns the value as details show it; empty: nothing to show."""
        return self.text(value)


def json_value(value: Any) -> Any:
    """Returns the value in JSON types. Unlike in files, every field of a struct is included, also with its default."""
    if isinstance(value, msgspec.Struct):
        names = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
        return {name: json_value(getattr(value, field)) for name, field in names}
    if isinstance(value, Mapping):
        return {name: json_value(item) for name, item in value.items()}
    return [*map(json_value, value)] if isinstance(value, list | tuple) else value


class Text(Kind[str]):
    """One line of text."""

    def __init__(
        self,
        *,
        required: bool = False,
        metavar: str = "TEXT",
        completes: str = "",
        check: Callable[[str], str] | None = None,
        none: bool = False,
    ) -> None:
        """``none``: the word ``none`` stands for an empty text."""
        self.metavar = metavar
        self.required = required
        self._check = check
        """Returns a form's text in its usual spelling, or raises BadRequest; the server does so for options."""
        self.completes = completes
        self._none = none

    def options(self, field: Field) -> Sequence[Option]:
        return [self.option(field, read=self.read if self.required or self._none else None)]

    def read(self, text: str, now: Millis) -> str:
        if self.required and not text.strip():
            raise BadRequest("required")
        if self._none and text.strip().lower() == NONE_WORD:
            return ""
        if self._check is not None and text.strip():
            return self._check(text.strip())
        return text.strip()


class Secret(Text):
    """Text that may hold a password, or a reference to a variable. Views have it masked."""

    def read(self, text: str, now: Millis) -> str:
        if text.strip().lower() in NONE_WORDS:
            return ""
        return text.strip() if text.strip().startswith(REFERENCE) else super().read(text, now)

    def arguments(self, field: Field, before: str, after: str) -> Sequence[str]:
        """Returns nothing: the command reads a secret from stdin, and never prints it."""
        if before == after:
            return []
        return [field.flags, "-" if "@" in after else after or "none"]


class Choice(Kind[Any]):
    """One of several values, each with the words for it."""

    def __init__(self, words: Mapping[Any, str]) -> None:
        self._words = {str(value): text for value, text in words.items()}
        self._values = {text: value for value, text in words.items()}
        self.choices = tuple(self._values)

    def options(self, field: Field) -> Sequence[Option]:
        values = tuple(str(value) for value in self._values.values() if value is not None)
        return [self.option(field, metavar="", read=None, choices=values)]

    def text(self, value: Any) -> str:
        return self._words.get(str(value), str(value))

    def read(self, text: str, now: Millis) -> Any:
        return self._values[text]

    def arguments(self, field: Field, before: Any, after: Any) -> Sequence[str]:
        return [] if before == after else [field.flags, str(after)]


class Flag(Kind[bool]):
    """Yes or no; its option has a flag for each: ``--sticky/--not-sticky``."""

    def __init__(self, on: str, off: str) -> None:
        self.choices = (off, on)

    def options(self, field: Field) -> Sequence[Option]:
        return [self.option(field, metavar="", read=None)]

    def text(self, value: bool) -> str:  # noqa: FBT001 - the value itself
        return self.choices[bool(self.part(value))]

    def read(self, text: str, now: Millis) -> bool:
        return text == self.choices[True]

    def arguments(self, field: Field, before: bool, after: bool) -> Sequence[str]:  # noqa: FBT001 - the values
        on, off = field.flags.split("/")
        return [] if before == after else [on if after else off]


class Number(Kind[int]):
    """A whole number within bounds."""

    metavar = "NUMBER"

    def __init__(self, least: int | None = 0, most: int | None = None, *, unit: str = "", zero: str = "") -> None:
        self._least, self._most = least, most
        self.unit = unit
        self._zero = zero

    def read(self, text: str, now: Millis) -> int:
        if self._zero and self._least == 0 and text.strip().lower() == self._zero:
            return 0
        sign, digits = (-1, text.strip()[1:]) if text.strip().startswith("-") else (1, text)
        value = sign * parse_count(digits)
        if not self.allows(value):
            raise BadRequest(f"{text!r} must be {self.bounds}")
        return value

    @property
    def bounds(self) -> str:
        return f"at least {self._least}" if self._most is None else f"from {self._least} to {self._most}"

    def allows(self, value: int) -> bool:
        """Returns whether the number is within the bounds."""
        return (self._least is None or value >= self._least) and (self._most is None or value <= self._most)

    def show(self, value: int) -> str:
        unit = self.unit.removesuffix("s") if value == 1 and self.unit != "s" else self.unit
        return f"{value} {unit}".rstrip() if value or not self._zero else self._zero


class Multiplier(Kind[int]):
    """A factor, kept in parts per million."""

    metavar = "FACTOR"

    def text(self, value: int) -> str:
        return brief_multiplier(value).removeprefix("x")

    def read(self, text: str, now: Millis) -> int:
        return parse_multiplier(text)

    def show(self, value: int) -> str:
        return brief_multiplier(value)


class ListKind(Kind[T]):
    """Several values. Each option of a command gives one or more of them; another option may remove all."""

    clears: tuple[str, str] = ("", "")
    """The option that removes all, and its help; empty: there is none."""

    def options(self, field: Field) -> Sequence[Option]:
        flag, text = self.clears
        clearing = [Option(flags=flag, name=_parameter(flag), help=text)] if flag else []
        return [self.option(field, read=self.read_option, multiple=True), *clearing]

    def change(self, field: Field, given: Mapping[str, Any], before: T) -> Any:
        values, flag = given.get(field.id) or (), self.clears[0]
        cleared = bool(flag and given.get(_parameter(flag)))
        if cleared and values:
            raise BadRequest(f"{flag} and {field.flags} exclude each other")
        return self.gather(field, values, before) if values or cleared else msgspec.UNSET

    def read_option(self, text: str, now: Millis) -> Any:
        """Returns what one option gives."""
        raise NotImplementedError

    def gather(self, field: Field, values: Sequence[Any], before: T) -> T:
        """Returns the field's value after options that gave these values."""
        raise NotImplementedError


class Names(ListKind[tuple[str, ...]]):
    """Names. A command takes them comma-separated; without an option to remove all, ``''`` does so."""

    metavar = "NAMES"
    many = True

    def __init__(
        self, *, none: str, clears: tuple[str, str] = ("", ""), completes: str = "", none_word: bool = False
    ) -> None:
        self._none = none
        """Words for an empty list."""
        self._none_word = none_word
        """Whether ``none`` stands for it too."""
        self.clears = clears
        self.completes = completes

    def read_option(self, text: str, now: Millis) -> str:
        """Returns at least one name: an empty list, such as from an unset variable, would mean all or none."""
        if self.clears[0] and not listed_names([text]):
            raise BadRequest(f"{text!r} contains no names; use {self.clears[0]} for none")
        return text

    def gather(self, field: Field, values: Sequence[str], before: tuple[str, ...]) -> tuple[str, ...]:
        return self._meant(tuple(listed_names(values)))

    def text(self, value: tuple[str, ...]) -> str:
        return names_text(value)

    def read(self, text: str, now: Millis) -> tuple[str, ...]:
        return self._meant(tuple(parse_names(text)))

    def _meant(self, names: tuple[str, ...]) -> tuple[str, ...]:
        return () if self._none_word and [name.lower() for name in names] == [NONE_WORD] else names

    def arguments(self, field: Field, before: tuple[str, ...], after: tuple[str, ...]) -> Sequence[str]:
        if before == after:
            return []
        return [self.clears[0]] if self.clears[0] and not after else [field.flags, comma_list(after)]

    def show(self, value: tuple[str, ...]) -> str:
        return ", ".join(value) or self._none


class Patterns(Names):
    """Patterns of model names. ``*`` alone means all of them, kept as an empty list."""

    metavar = "PATTERNS"

    def __init__(self, *, none: str) -> None:
        super().__init__(none=none, completes="models")

    def read_option(self, text: str, now: Millis) -> str:
        if not listed_names([text]):
            raise BadRequest(f"{text!r} contains no names; leave the option out, or use '*' for all")
        if text.strip().lower() == NONE_WORD:  # of a budget, or of models? No model is '!*'
            raise BadRequest("'none' is not clear: '*' is for all models, '!*' for no model")
        return text

    def gather(self, field: Field, values: Sequence[str], before: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name for name in listed_names(values) if name != "*")

    def read(self, text: str, now: Millis) -> tuple[str, ...]:
        value = super().read(text, now)
        return () if value == ("*",) else value

    def arguments(self, field: Field, before: tuple[str, ...], after: tuple[str, ...]) -> Sequence[str]:
        return [] if before == after else [field.flags, comma_list(after) or "*"]


class Moment(Kind[Millis | None]):
    """A future moment, or never."""

    metavar = "WHEN"
    none = "never"

    def text(self, value: Millis | None) -> str:
        """Returns a day if the moment is its end, else the minute: an unchanged text keeps the exact moment."""
        return "" if value is None else ended_date(value) or local_time(value)[: len("2026-11-30 22:31")]

    def read(self, text: str, now: Millis) -> Millis | None:
        return None if text.strip().lower() in NONE_WORDS else parse_future(text, now)

    def show(self, value: Millis | None) -> str:
        return "never" if value is None else expiry_time(value)


class Pairs(ListKind[T]):
    """Several ``NAME=VALUE``. In a form they are words of one line, quoted as for a shell."""

    metavar = "NAME=VALUE"
    merges: str = ""
    """The value that removes one of the pairs; empty: given pairs replace all."""

    def read_option(self, text: str, now: Millis) -> Any:
        return pair(text)

    def gather(self, field: Field, values: Sequence[Any], before: T) -> T:
        return self.value(once(values, field.flags), before)

    def value(self, pairs: Mapping[str, str], before: T | None) -> T:
        """Returns the value with these pairs. ``before`` is the value an edit begins with."""
        raise NotImplementedError

    def pairs(self, value: T) -> Mapping[str, str]:
        """Returns the names and values as they are typed."""
        raise NotImplementedError

    def text(self, value: T) -> str:
        return " ".join(_quote_word(f"{name}={text}") for name, text in self.pairs(value).items())

    def read(self, text: str, now: Millis) -> Any:
        pairs = []
        for word in shell_words(text):
            name, _, value = word.partition("=")
            if not (name and value):
                raise BadRequest(f"{word!r} is not name=value")
            pairs.append((name, value))
        return self.value(once(pairs, "the list"), None)

    def arguments(self, field: Field, before: T, after: T) -> Sequence[str]:
        if before == after:
            return []
        old, changed = self.pairs(before), dict(self.pairs(after))
        if self.merges:
            gone = {name: self.merges for name in old if name not in changed}
            changed = {name: text for name, text in changed.items() if old.get(name) != text} | gone
        named = [part for name, text in changed.items() for part in (field.flags, f"{pair_name(name)}={text}")]
        return named or [flag for flag in self.clears[:1] if flag]


def once(pairs: Sequence[tuple[K, T]], option: str) -> dict[K, T]:
    """Returns the values by name. Raises BadRequest if a name is given twice, because it is unclear which one
    is meant.
    """
    values: dict[K, T] = {}
    for name, value in pairs:
        if name in values:
            raise BadRequest(f"{option}: '{name}' is given twice")
        values[name] = value
    return values


def _parameter(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")


def _quote_word(word: str) -> str:
    """Returns a word as it is typed, in quotation marks only if it needs them."""
    return shlex.quote(word) if not word or any(char.isspace() or char in "\"'\\" for char in word) else word


def shell_words(text: str) -> list[str]:
    """Returns the words of a text quoted as for a shell. Raises BadRequest."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise BadRequest("the closing quotation mark is missing") from error
