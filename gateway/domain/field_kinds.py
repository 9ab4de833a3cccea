"""Kinds of fields: how a field of an entity is typed, shown, set by options of a command, and printed as a command.

A kind knows nothing of click or of the console: it describes options and form inputs as values, and both front ends
draw them. Everything that reads text takes ``now``, the moment from which spans such as ``30d`` count, and raises
BadRequest.

Long: the simple kinds, read side by side.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, Literal, TypeVar

import msgspec

from gateway.domain.errors import BadRequest
from gateway.domain.human_values import (
    brief_multiplier,
    count_of,
    ended_date,
    expiry_time,
    future_of,
    local_time,
    multiplier_of,
)
from gateway.domain.quoting import comma_list, listed_names, names_of, names_text
from gateway.domain.units import Millis

T = TypeVar("T")
K = TypeVar("K")

NONE_WORD = "none"
NONE_WORDS = ("", NONE_WORD, "never")
"""Words for no limit and no moment."""

Reader = Callable[[str, Millis], Any]
Section = Literal["", "Calls", "Access", "Ollama", "Limits", "Load", "Console"]


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """One option of a command; options of a field are merged into its value by its kind."""

    flags: str
    """As click spells it: ``--note``, or ``--sticky/--not-sticky`` for a switch."""
    name: str
    """Of the parameter."""
    help: str
    metavar: str = ""
    """Empty for a switch."""
    read: Reader | None = None
    """None: text as it is."""
    choices: tuple[str, ...] = ()
    multiple: bool = False
    completes: str = ""
    """What a shell completes it with: ``groups``, ``models`` or ``presets``."""


class Input(msgspec.Struct, frozen=True, kw_only=True):
    """One input of a form. Most fields have one."""

    id: str
    label: str
    placeholder: str = ""
    choices: tuple[str, ...] = ()
    """If there are any, one of them is picked."""
    completes: str = ""
    """What it names, as an option's ``completes``; the form lists them."""
    many: bool = False
    """Whether it is a list of such names."""


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One field that the owner edits, for every place that shows or sets it."""

    name: str
    """The attribute of the entity and the name in JSON."""
    kind: "Kind[Any]"
    label: str
    """In forms; ``show`` and detail panes have ``detail``."""
    help: str
    """Of its option; a switch with two flags has one sentence for both."""
    option: str = ""
    """Its flags where they are not just ``--name``."""
    placeholder: str = ""
    """An example that a form shows while the input is empty."""
    advanced: bool = False
    """Whether a form folds it away until it is needed."""
    section: Section = ""
    """Of a setting: where the console lists it."""

    @property
    def flags(self) -> str:
        return self.option or f"--{self.name.replace('_', '-')}"

    @property
    def detail(self) -> str:
        """Its label in details: without a unit, and not a capital word."""
        return self.label[:1].lower() + self.label[1:].partition(",")[0]

    def show(self, value: Any) -> str:
        """The value as details show it; empty: there is nothing to show."""
        return self.kind.show(value)


class Kind(Generic[T]):
    """Text of one line; the base of all other kinds."""

    metavar: ClassVar[str] = "TEXT"
    required: bool = False
    """Whether an empty text is refused."""
    unit: str = ""
    """What a number counts."""

    def options(self, field: Field) -> Sequence[Option]:
        """The options of ``add`` and ``edit`` that set the field."""
        return [Option(flags=field.flags, name=field.name, help=field.help, metavar=self.metavar, read=self.read)]

    def change(self, field: Field, given: Mapping[str, Any], before: T) -> Any:
        """The value that the options ask for; UNSET if none of them was given."""
        value = given.get(field.name)
        return msgspec.UNSET if value is None else value

    def inputs(self, field: Field) -> Sequence[Input]:
        return [Input(id=field.name, label=field.label, placeholder=field.placeholder)]

    def texts(self, value: T) -> Sequence[str]:
        """The value as it is typed, a text for each input."""
        return [str(value)]

    def parts(self, value: T) -> Sequence[Any]:
        """The value in the parts that the inputs hold; ``join`` puts them together."""
        return [value]

    def parse(self, number: int, text: str, now: Millis) -> Any:
        """What an input holds, by its number."""
        return self.read(text, now)

    def join(self, parts: Sequence[Any]) -> Any:
        """The value that the inputs give together."""
        return parts[0]

    def read(self, text: str, now: Millis) -> Any:
        return text.strip()

    def arguments(self, field: Field, before: T, after: T) -> Sequence[str]:
        """The options that turn one value into the other. Raises BadRequest if no option can."""
        return [] if before == after else [field.flags, self.argument(after)]

    def argument(self, value: T) -> str:
        return self.texts(value)[0]

    def show(self, value: T) -> str:
        return str(value)

    def body(self, value: T) -> Any:
        """As it is sent."""
        return msgspec.json.decode(msgspec.json.encode(value))


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
        self.metavar = metavar  # type: ignore[misc] # narrower than the class's own
        self.required = required
        self._check = check
        """Gives a form's text in its usual spelling, or raises BadRequest; the server does so for options."""
        self._completes = completes
        self._none = none

    def options(self, field: Field) -> Sequence[Option]:
        (option,) = super().options(field)
        read = None if not (self.required or self._none) else option.read
        return [msgspec.structs.replace(option, read=read, completes=self._completes)]

    def inputs(self, field: Field) -> Sequence[Input]:
        return [msgspec.structs.replace(one, completes=self._completes) for one in super().inputs(field)]

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
        return text.strip() if text.strip().startswith("env:") else super().read(text, now)

    def arguments(self, field: Field, before: str, after: str) -> Sequence[str]:
        """A secret is read from stdin by the command, and never printed."""
        if before == after:
            return []
        return [field.flags, "-" if "@" in after else after or "none"]


class Choice(Kind[Any]):
    """One of several values, each with the words for it."""

    def __init__(self, words: Mapping[Any, str]) -> None:
        self._words = {str(value): text for value, text in words.items()}
        self._values = {str(value): value for value in words}

    def options(self, field: Field) -> Sequence[Option]:
        return [
            Option(
                flags=field.flags,
                name=field.name,
                help=field.help,
                choices=tuple(str(value) for value in self._values.values() if value is not None),
            )
        ]

    def inputs(self, field: Field) -> Sequence[Input]:
        return [Input(id=field.name, label=field.label, choices=tuple(self._words.values()))]

    def texts(self, value: Any) -> Sequence[str]:
        return [self.show(value)]

    def read(self, text: str, now: Millis) -> Any:
        return next(self._values[value] for value, words in self._words.items() if words == text)

    def argument(self, value: Any) -> str:
        return str(value)

    def show(self, value: Any) -> str:
        return self._words.get(str(value), str(value))


class Flag(Kind[bool]):
    """Yes or no; its option has a flag for each: ``--sticky/--not-sticky``."""

    def __init__(self, on: str, off: str) -> None:
        self._words = (off, on)

    def options(self, field: Field) -> Sequence[Option]:
        return [Option(flags=field.flags, name=field.name, help=field.help)]

    def inputs(self, field: Field) -> Sequence[Input]:
        return [Input(id=field.name, label=field.label, choices=self._words)]

    def texts(self, value: bool) -> Sequence[str]:  # noqa: FBT001 - the value itself
        return [self._words[value]]

    def read(self, text: str, now: Millis) -> bool:
        return text == self._words[True]

    def arguments(self, field: Field, before: bool, after: bool) -> Sequence[str]:  # noqa: FBT001 - the values
        on, off = field.flags.split("/")
        return [] if before == after else [on if after else off]

    def show(self, value: bool) -> str:  # noqa: FBT001 - the value itself
        return self._words[value]


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
        value = sign * count_of(digits)
        if (self._least is not None and value < self._least) or (self._most is not None and value > self._most):
            bounds = f"at least {self._least}" if self._most is None else f"from {self._least} to {self._most}"
            raise BadRequest(f"{text!r} must be {bounds}")
        return value

    def show(self, value: int) -> str:
        unit = self.unit.removesuffix("s") if value == 1 and self.unit != "s" else self.unit
        return f"{value} {unit}".rstrip() if value or not self._zero else self._zero


class Multiplier(Kind[int]):
    """A factor, kept in parts per million."""

    metavar = "FACTOR"

    def texts(self, value: int) -> Sequence[str]:
        return [brief_multiplier(value).removeprefix("x")]

    def read(self, text: str, now: Millis) -> int:
        return multiplier_of(text)

    def show(self, value: int) -> str:
        return brief_multiplier(value)


class Names(Kind[tuple[str, ...]]):
    """Names. A command takes them comma-separated, and has an option of its own for none."""

    metavar = "NAMES"

    def __init__(
        self, *, none: str, none_option: str = "", none_help: str = "", completes: str = "", none_word: bool = False
    ) -> None:
        self._none = none
        """Words for an empty list."""
        self._none_option = none_option
        """A flag; empty: ``''`` stands for none."""
        self._none_word = none_word
        """``none`` does so, too."""
        self._none_help = none_help
        self._completes = completes

    def options(self, field: Field) -> Sequence[Option]:
        (option,) = super().options(field)
        option = msgspec.structs.replace(
            option, name=field.name, read=self._read_option, multiple=True, completes=self._completes
        )
        if not self._none_option:
            return [option]
        return [option, Option(flags=self._none_option, name=_parameter(self._none_option), help=self._none_help)]

    def inputs(self, field: Field) -> Sequence[Input]:
        return [msgspec.structs.replace(one, completes=self._completes, many=True) for one in super().inputs(field)]

    def _read_option(self, text: str, now: Millis) -> str:
        """At least one name: an empty list, such as a variable that was not set, would mean all or none."""
        if self._none_option and not listed_names([text]):
            raise BadRequest(f"{text!r} contains no names; use {self._none_option} for none")
        return text

    def change(self, field: Field, given: Mapping[str, Any], before: tuple[str, ...]) -> Any:
        texts = given.get(field.name)
        none = bool(self._none_option and given.get(_parameter(self._none_option)))
        if none and texts:
            raise BadRequest(f"{self._none_option} and {field.flags} exclude each other")
        if not (none or texts):
            return msgspec.UNSET
        return self._meant(tuple(listed_names(texts or ())))

    def texts(self, value: tuple[str, ...]) -> Sequence[str]:
        return [names_text(value)]

    def read(self, text: str, now: Millis) -> tuple[str, ...]:
        return self._meant(tuple(names_of(text)))

    def _meant(self, names: tuple[str, ...]) -> tuple[str, ...]:
        return () if self._none_word and [name.lower() for name in names] == [NONE_WORD] else names

    def arguments(self, field: Field, before: tuple[str, ...], after: tuple[str, ...]) -> Sequence[str]:
        if before == after:
            return []
        return [self._none_option] if self._none_option and not after else [field.flags, comma_list(after)]

    def show(self, value: tuple[str, ...]) -> str:
        return ", ".join(value) or self._none


class Patterns(Names):
    """Patterns of model names; ``*`` alone is all of them, which is kept as an empty list."""

    metavar = "PATTERNS"

    def __init__(self, *, none: str) -> None:
        super().__init__(none=none, completes="models")

    def _read_option(self, text: str, now: Millis) -> str:
        if not listed_names([text]):
            raise BadRequest(f"{text!r} contains no names; leave the option out, or use '*' for all")
        if text.strip().lower() == NONE_WORD:  # as of a budget, or of models? Who means no model says '!*'
            raise BadRequest("'none' is not clear: '*' is for all models, '!*' for no model")
        return text

    def change(self, field: Field, given: Mapping[str, Any], before: tuple[str, ...]) -> Any:
        value = super().change(field, given, before)
        return value if value is msgspec.UNSET else tuple(name for name in value if name != "*")

    def read(self, text: str, now: Millis) -> tuple[str, ...]:
        value = super().read(text, now)
        return () if value == ("*",) else value

    def arguments(self, field: Field, before: tuple[str, ...], after: tuple[str, ...]) -> Sequence[str]:
        return [] if before == after else [field.flags, comma_list(after) or "*"]


class Moment(Kind[Millis | None]):
    """A moment to come, or never."""

    metavar = "WHEN"

    def options(self, field: Field) -> Sequence[Option]:
        (option,) = super().options(field)
        return [msgspec.structs.replace(option, read=lambda text, now: (self.read(text, now),))]

    def change(self, field: Field, given: Mapping[str, Any], before: Millis | None) -> Any:
        change = given.get(field.name)  # in a tuple of one, which tells never from not given
        return msgspec.UNSET if change is None else change[0]

    def texts(self, value: Millis | None) -> Sequence[str]:
        """A day for its end, else to the minute: an unchanged text keeps the exact moment."""
        return ["" if value is None else ended_date(value) or local_time(value)[: len("2026-11-30 22:31")]]

    def read(self, text: str, now: Millis) -> Millis | None:
        return None if text.strip().lower() in NONE_WORDS else future_of(text, now)

    def argument(self, value: Millis | None) -> str:
        return self.texts(value)[0] or "never"

    def show(self, value: Millis | None) -> str:
        return "never" if value is None else expiry_time(value)


def once(pairs: Sequence[tuple[K, T]], option: str) -> dict[K, T]:
    """The values by name. Raises BadRequest if one is given twice: it cannot be known which one is meant."""
    values: dict[K, T] = {}
    for name, value in pairs:
        if name in values:
            raise BadRequest(f"{option}: '{name}' is given twice")
        values[name] = value
    return values


def _parameter(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")
