"""Kinds of fields: how a field of an entity is typed, shown, set by options of a command, and printed as a command.

A kind depends on neither click nor the console: it describes options as values, and both front ends draw them. A form
has one input for each field. Functions that read text take ``now``, for spans such as ``30d``, and raise BadRequest.
"""

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
from gateway.domain.text import REFERENCE
from gateway.domain.units import MAX_MULTIPLIER, MILLION, Millis

T = TypeVar("T")

NONE_WORD = "none"
NONE_WORDS = ("", NONE_WORD, "never")
"""What may be typed for no limit and no moment."""

Section = Literal["", "Calls", "Access", "Ollama", "Limits", "Load", "Console"]


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """One option of a command. A kind merges the options of its field into a value."""

    flags: str
    """The flags as click spells them: ``--note``, or ``--sticky/--not-sticky`` for a switch."""
    name: str
    help: str
    metavar: str = ""
    """The name of the value in help texts; empty for a switch."""
    read: Callable[[str, Millis], Any] | None = None
    """Parses the option's text; None if the value is the text itself."""
    choices: tuple[str, ...] = ()
    multiple: bool = False
    completes: str = ""
    """The names that a shell completes it with: ``groups``, ``models`` or ``presets``."""


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One field that the owner edits, for every place that shows or sets it."""

    name: str
    """The attribute of the entity and the name in JSON."""
    kind: "Kind[Any]"
    help: str
    """The help of its option. A switch with two flags has one sentence for both."""
    label: str = ""
    """Its label in forms; by default the name. ``show`` and detail panes use ``detail``."""
    option: str = ""
    """The flags of its option; by default ``--name``, or for a switch ``--name/--no-name``."""
    placeholder: str = ""
    """An example that a form shows while the input is empty."""
    input_id: str = ""
    """The id of the input and the name of the option, for all but the first of an attribute's inputs."""
    basic: bool = False
    """Whether a form always shows it; the others are folded until they are needed."""
    section: Section = ""
    """The section of the console's list of settings."""

    def __post_init__(self) -> None:
        force_setattr(self, "label", self.label or self.name.replace("_", " ").capitalize())

    @property
    def flags(self) -> str:
        name = self.name.replace("_", "-")
        return self.option or (f"--{name}/--no-{name}" if isinstance(self.kind, Flag) else f"--{name}")

    @property
    def id(self) -> str:
        """Returns the id of its input in a form."""
        return self.input_id or self.name

    @property
    def detail(self) -> str:
        """Returns its label in details, without a unit and, unless it begins with a name, in lower case."""
        first = self.label[:1] if "'s " in self.label else self.label[:1].lower()
        return first + self.label[1:].partition(",")[0]

    def arguments(self, before: Any, after: Any) -> Sequence[str]:
        """Returns the arguments of a command that change one value to the other. Raises BadRequest if no option can."""
        return [] if before == after else self.kind.arguments(self, before, after)


class Kind(msgspec.Struct, Generic[T], kw_only=True, eq=False):
    """The base of all kinds, which accepts any line of text.

    ``text`` fills the input of a form, and ``read`` reads it. ``options`` describes a command's options, ``change``
    reads them, and ``arguments`` prints them. An input usually holds the whole value. If an attribute has several
    inputs, ``content`` returns the part that one of them holds, and ``with_content`` the value with another such part.
    """

    metavar: str = "TEXT"
    required: bool = False
    """Whether an empty text is refused."""
    unit: str = ""
    """What a number counts."""
    empty_word: str = ""
    """The word that an option takes for an empty value."""
    choices: tuple[str, ...] = ()
    """The texts that a form offers to choose from, if any."""
    completes: str = ""
    """The names that a form offers, as in ``Option.completes``."""
    none_word: bool = False
    """Whether ``none`` may be typed for an empty value."""
    many: bool = False
    """Whether the value is a list of such names."""
    line_break: str = " "
    """What replaces a line break in a text that is pasted into the input."""

    def options(self, field: Field) -> Sequence[Option]:
        """Returns the options of ``add`` and ``edit`` that set the field."""
        return [self.option(field)]

    def option(self, field: Field, **changes: Any) -> Option:
        """Returns an option with the field's flags. ``changes`` replace its other attributes."""
        option = Option(flags=field.flags, name=field.id, help=field.help, metavar=self.metavar, read=self.read)
        return msgspec.structs.replace(option, **{"completes": self.completes, **changes})

    def change(self, field: Field, options: Mapping[str, Any], before: T) -> Any:
        """Returns the value after a command's options, by parameter names; UNSET if they do not set it."""
        value = options.get(field.id)
        if value is None:
            return msgspec.UNSET
        return self.with_content(before, value[0] if isinstance(value, tuple) else value)

    def text(self, value: T) -> str:
        """Returns the text of the input with this value."""
        return str(self.content(value))

    def read(self, text: str, now: Millis) -> Any:
        """Returns the content of an input after this text was typed into it."""
        return text.strip()

    def content(self, value: T) -> Any:
        """Returns the content of the input: the value, or a part of it."""
        return value

    def with_content(self, value: T, content: Any) -> Any:
        """Returns the value with this content of the input."""
        return content

    def arguments(self, field: Field, before: T, after: T) -> Sequence[str]:
        """Returns the arguments that change a value to another one. Raises BadRequest if no option can."""
        return [field.flags, self.text(after) or self.empty_word]

    def show(self, value: T) -> str:
        """Returns the value as details show it; empty to show nothing."""
        return self.text(value)


class Text(Kind[str]):
    """One line of text."""

    check: Callable[[str], str] | None = None
    """Returns a text in its normal form, or raises BadRequest."""

    def options(self, field: Field) -> Sequence[Option]:
        return [self.option(field, read=self.read if self.required or self.none_word else None)]

    def read(self, text: str, now: Millis) -> str:
        if self.required and not text.strip():
            raise BadRequest("required")
        if self.none_word and text.strip().lower() == NONE_WORD:
            return ""
        if self.check is not None and text.strip():
            return self.check(text.strip())
        return text.strip()


class Secret(Text):
    """A text that may contain a password, or a reference to a variable. Views show it masked."""

    def read(self, text: str, now: Millis) -> str:
        if text.strip().lower() in NONE_WORDS:
            return ""
        return text.strip() if text.strip().startswith(REFERENCE) else super().read(text, now)

    def arguments(self, field: Field, before: str, after: str) -> Sequence[str]:
        """Returns the option with the value, or with ``-`` for stdin if the value contains a password."""
        return [field.flags, "-" if "@" in after else after or NONE_WORD]


class Choice(Kind[Any]):
    """One of several values. Each has a text."""

    texts: Mapping[Any, str]

    def __post_init__(self) -> None:
        self.choices = tuple(self.texts.values())

    def options(self, field: Field) -> Sequence[Option]:
        values = tuple(str(value) for value in self.texts if value is not None)
        return [self.option(field, metavar="", read=None, choices=values)]

    def text(self, value: Any) -> str:
        texts = {str(choice): text for choice, text in self.texts.items()}
        return texts.get(str(value), str(value))

    def read(self, text: str, now: Millis) -> Any:
        values = {choice: value for value, choice in self.texts.items()}
        return values[text]

    def arguments(self, field: Field, before: Any, after: Any) -> Sequence[str]:
        return [field.flags, str(after)]


class Flag(Kind[bool]):
    """Yes or no. Its option has a flag for each: ``--sticky/--not-sticky``."""

    on: str
    off: str

    def __post_init__(self) -> None:
        self.choices = (self.off, self.on)

    def options(self, field: Field) -> Sequence[Option]:
        return [self.option(field, metavar="", read=None)]

    def text(self, value: bool) -> str:  # noqa: FBT001 - the value itself
        return self.on if self.content(value) else self.off

    def read(self, text: str, now: Millis) -> bool:
        return text == self.on

    def arguments(self, field: Field, before: bool, after: bool) -> Sequence[str]:  # noqa: FBT001 - the values
        on, off = field.flags.split("/")
        return [on if after else off]


class Number(Kind[int], kw_only=True):
    """A whole number within bounds."""

    minimum: int | None = 0
    maximum: int | None = None
    zero: str = ""
    """The word for 0, if it has one."""
    metavar: str = "NUMBER"

    def read(self, text: str, now: Millis) -> int:
        if self.zero and self.minimum == 0 and text.strip().lower() == self.zero:
            return 0
        sign, digits = (-1, text.strip()[1:]) if text.strip().startswith("-") else (1, text)
        value = sign * parse_count(digits)
        if not self.allows(value):
            raise BadRequest(f"{text!r} must be {self.bounds}")
        return value

    @property
    def bounds(self) -> str:
        return f"at least {self.minimum}" if self.maximum is None else f"from {self.minimum} to {self.maximum}"

    def allows(self, value: int) -> bool:
        return (self.minimum is None or value >= self.minimum) and (self.maximum is None or value <= self.maximum)

    def show(self, value: int) -> str:
        unit = self.unit.removesuffix("s") if value == 1 and self.unit != "s" else self.unit
        return f"{value} {unit}".rstrip() if value or not self.zero else self.zero


class Multiplier(Number):
    """A factor, which is stored in parts per million."""

    maximum: int | None = MAX_MULTIPLIER * MILLION
    metavar: str = "FACTOR"

    @property
    def bounds(self) -> str:
        return f"{super().bounds}, in parts per million; {MILLION} means times 1"

    def text(self, value: int) -> str:
        return brief_multiplier(value).removeprefix("x")

    def read(self, text: str, now: Millis) -> int:
        return parse_multiplier(text)

    def show(self, value: int) -> str:
        return brief_multiplier(value)


class Moment(Kind[Millis | None]):
    """A future moment, or never."""

    metavar: str = "WHEN"
    empty_word: str = "never"

    def text(self, value: Millis | None) -> str:
        """Returns a day if the moment is its end; otherwise the minute, although the moment is more exact."""
        return "" if value is None else ended_date(value) or local_time(value)[: len("2026-11-30 22:31")]

    def read(self, text: str, now: Millis) -> Millis | None:
        return None if text.strip().lower() in NONE_WORDS else parse_future(text, now)

    def show(self, value: Millis | None) -> str:
        return "never" if value is None else expiry_time(value)


def json_value(value: Any) -> Any:
    """Returns the value in JSON types. Unlike in files, fields of structs are included even if they are defaults."""
    if isinstance(value, msgspec.Struct):
        names = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
        return {name: json_value(getattr(value, field)) for name, field in names}
    if isinstance(value, Mapping):
        return {name: json_value(item) for name, item in value.items()}
    return [*map(json_value, value)] if isinstance(value, list | tuple) else value
