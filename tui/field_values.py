"""Field values: text typed into a form field, parsed into what the server takes, and back. Parsers raise BadRequest.

- Names are separated by commas or spaces; a name that contains one is quoted. A quotation mark opens only at the start
  of a name, so ``bob's`` is a name; inside quotation marks it is written twice.
- Limits are ``rpm=60 tpm=200k``, budgets ``day=5 month=50``.
- Overrides of a channel are ``temperature=0.2 ?max_tokens=4096 -logprobs``: always set, set unless the client sets it
  (``?``), removed (``-``).
"""

import json
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from gateway.domain.channel import Overrides
from gateway.domain.errors import BadRequest
from gateway.domain.human_values import brief_count, count_of, future_of
from gateway.domain.limits import Limits, Window
from gateway.domain.money import dollars, nanos_of
from gateway.domain.units import Millis
from gateway.domain.views import BudgetView

T = TypeVar("T")

KEEP = "\N{HORIZONTAL ELLIPSIS}"
"""What a field parses to when it keeps its value."""
NO_LIMIT = ("", "none", "never")
"""Words for no limit."""


def text_line(text: str) -> str:
    """Any text."""
    return text.strip()


def text_line_or_same(there: str) -> Callable[[str], str]:
    """Any text; the current one is kept unchanged, including spaces at its ends."""
    return lambda text: there if text == there else text.strip()


def required(text: str) -> str:
    """Any text that is not empty."""
    if not text.strip():
        raise BadRequest("required")
    return text.strip()


def optional(read: Callable[[str], T]) -> Callable[[str], T | None]:
    """The same parser, with None for an empty text, ``none`` or ``never``."""
    return lambda text: None if text.strip().lower() in NO_LIMIT else read(text)


def patterns(text: str) -> list[str]:
    """Names or patterns of models, as ``names_of`` reads them; ``*`` alone means all: no names."""
    found = names_of(text)
    return [] if found == ["*"] else found


def integer(text: str) -> int:
    """A whole number, possibly negative."""
    sign, digits = (-1, text.strip()[1:]) if text.strip().startswith("-") else (1, text)
    return sign * count_of(digits)


def expiry(now: Callable[[], Millis]) -> Callable[[str], Millis | None]:
    """``30d``, a date (to its end), or ``never``."""
    return optional(lambda text: future_of(text, now()))


def budgets(text: str) -> dict[Window, int]:
    """``day=5 month=50``: dollars a window, in nano-dollars; without a window for ever."""
    return _windows(text, nanos_of)


def token_budgets(text: str) -> dict[Window, int]:
    """``day=1M``: tokens a window."""
    return _windows(text, count_of)


def budget_bodies(nanos: Mapping[Window, int], tokens: Mapping[Window, int]) -> list[dict[str, object]]:
    """Both kinds together, as the server takes them."""
    return [
        {"window": window.value, "nanos": nanos.get(window), "tokens": tokens.get(window)}
        for window in Window
        if window in nanos or window in tokens
    ]


def budgets_text(views: Sequence[BudgetView]) -> str:
    """The dollars of budgets as they are typed."""
    return " ".join(f"{v.window.value}={_amount(v.nanos)}" for v in views if v.nanos is not None)


def token_budgets_text(views: Sequence[BudgetView]) -> str:
    """The tokens of budgets as they are typed."""
    return " ".join(f"{v.window.value}={exact_count(v.tokens)}" for v in views if v.tokens is not None)


def exact_count(number: int | None) -> str:
    """A count as it is typed: short if that loses nothing."""
    if number is None:
        return ""
    brief = brief_count(number)
    return brief if count_of(brief) == number else str(number)


def _amount(nanos: int) -> str:
    return dollars(nanos).replace("$", "").replace(",", "").removesuffix(".00")


def _windows(text: str, read: Callable[[str], int]) -> dict[Window, int]:
    found: dict[Window, int] = {}
    for word in text.replace(",", " ").split():
        name, equals, amount = word.rpartition("=")
        try:
            window = Window(name) if equals else Window.EVER
        except ValueError:
            known = ", ".join(Window)
            raise BadRequest(f"unknown budget window {name!r}; use {known}, as in day=5") from None
        if amount not in NO_LIMIT:
            found[window] = read(amount)
    return found


_MARKS = "\"'"
_QUOTED = r'"(?:[^"]|"")*"|' + r"'(?:[^']|'')*'"
_WHOLE = re.compile(_QUOTED)
_SIDES = re.compile(rf"({_QUOTED}|[^=]*)(?:(=)(.*))?", re.DOTALL)
_OPENS = r"(?<![^\s,=])"
"""Matches after a separator or at the start."""
_WORDS = re.compile(rf"(?:{_OPENS}(?:{_QUOTED})|[^\s,])+")
_SPACED = re.compile(rf"(?:{_OPENS}(?:{_QUOTED})|\S)+")


def split_names(text: str) -> list[str]:
    """The parts between commas and spaces, with their quotation marks."""
    return _WORDS.findall(text)


def split_words(text: str) -> list[str]:
    """The parts between spaces, with their quotation marks."""
    return _SPACED.findall(text)


def split_pair(word: str) -> tuple[str, str, str]:
    """The text before the first unquoted ``=``, the sign, and the text after it."""
    found = _SIDES.fullmatch(word)
    return (found[1], found[2] or "", found[3] or "") if found else (word, "", "")


def unquote(word: str) -> str:
    """A name without its quotation marks. Raises BadRequest if the closing one is missing."""
    if not word or word[0] not in _MARKS:
        return word
    if not _WHOLE.fullmatch(word):
        raise BadRequest(f"{word}: the closing quotation mark is missing")
    return word[1:-1].replace(word[0] * 2, word[0])


def names_of(text: str) -> list[str]:
    """The names of a field, each once. Raises BadRequest."""
    return list(dict.fromkeys(map(unquote, split_names(text))))


def quote_name(name: str, apart: str = "") -> str:
    """A name as typed; ``apart`` holds more characters that would end it."""
    plain = name and not any(char.isspace() or char in f",{_MARKS}{apart}" for char in name)
    return name if plain else '"' + name.replace('"', '""') + '"'


def names_text(names: Iterable[str]) -> str:
    """Names as they are typed."""
    return ", ".join(map(quote_name, names))


WITH_QUEUE = ("rpm", "tpm", "rpd", "tpd", "concurrent", "queue", "queue_s")
"""Those of channels."""

NAMES = (*WITH_QUEUE, "streams")
"""Those of tokens and groups."""

_LIMIT_WORDS = {
    "rpm": "calls/min",
    "tpm": "tok/min",
    "rpd": "calls/day",
    "tpd": "tok/day",
    "concurrent": "concurrent",
    "queue": "queued",
    "queue_s": "s in the queue",
    "streams": "concurrent streams",
}


def limits_reader(names: Sequence[str] = NAMES) -> Callable[[str], dict[str, int | None]]:
    """``rpm=60 tpm=200k``; what is not named has no limit. Raises BadRequest."""

    def read(text: str) -> dict[str, int | None]:
        found: dict[str, int | None] = dict.fromkeys(names)
        for word in text.replace(",", " ").split():
            name, equals, number = word.partition("=")
            if name not in names or not equals:
                raise BadRequest(f"unknown limit {word!r}; use {', '.join(names)}, as in rpm=60")
            found[name] = None if number in NO_LIMIT else count_of(number)
            if found[name] == 0 and name not in ("queue", "queue_s"):
                raise BadRequest(f"{name}=0 would block every call; leave it out for no limit")
        return found

    return read


def limits_text(limits: Limits) -> str:
    """The text to type for it."""
    return " ".join(f"{name}={exact_count(number)}" for name, number in _limits_set(limits))


def limits_words(limits: Limits) -> str:
    """In words: ``60 calls/min, 200k tok/min``; empty without limits."""
    return ", ".join(f"{exact_count(number)} {_LIMIT_WORDS[name]}" for name, number in _limits_set(limits))


def _limits_set(limits: Limits) -> list[tuple[str, int]]:
    return [(name, number) for name, number in msgspec.structs.asdict(limits).items() if number is not None]


DEFAULT, REMOVE = "?", "-"
BREAK = "\\n"
"""A new line of the system prompt, in a field that has one line."""


def read_parameters(text: str) -> Overrides:
    """The parameters; the system prompt is a field of its own. Raises BadRequest."""
    always: dict[str, Any] = {}
    usual: dict[str, Any] = {}
    never: list[str] = []
    try:
        split_names = shlex.split(text, posix=True)
    except ValueError as exc:
        raise BadRequest(f"the closing quotation mark is missing: {exc}") from exc
    for word in split_names:
        name, equals, value = word.removeprefix(DEFAULT).partition("=")
        if word.startswith(REMOVE) and not equals:
            never.append(word.removeprefix(REMOVE))
        elif not name or not equals:
            raise BadRequest(f"{word!r} is not name=value, ?name=value or -name")
        else:
            (usual if word.startswith(DEFAULT) else always)[name] = _value(value)
    return Overrides(set=always, default=usual, remove=tuple(dict.fromkeys(never)))


def parameters_text(found: Overrides | None) -> str:
    """The parameters as they are typed."""
    if found is None:
        return ""
    split_names = [f"{name}={_text(value)}" for name, value in found.set.items()]
    split_names += [f"{DEFAULT}{name}={_text(value)}" for name, value in found.default.items()]
    return " ".join([*map(_quoted, split_names), *_removed_parameters(found)])


def read_prompt(text: str) -> str:
    """The system prompt of a field."""
    return text.strip().replace(BREAK, "\n")


def prompt_text(found: Overrides | None) -> str:
    """As it is typed, on one line."""
    return found.system.replace("\n", BREAK) if found else ""


def parameters_command(found: Overrides, before: Overrides | None) -> str:
    """The equivalent options, complete if there were some before; empty if nothing changed."""
    if found == (before or Overrides()):
        return ""
    parts = ["--no-overrides"] if before else []
    parts += [f"--set-param {shlex.quote(f'{name}={_text(value)}')}" for name, value in found.set.items()]
    parts += [f"--default-param {shlex.quote(f'{name}={_text(value)}')}" for name, value in found.default.items()]
    parts += [f"--remove-param {shlex.quote(name)}" for name in found.remove]
    parts += [f"--system {shlex.quote(found.system)}"] if found.system else []
    parts += ["--replace-system"] if found.replace_system else []
    return "".join(f" {part}" for part in parts)


def _removed_parameters(found: Overrides) -> list[str]:
    return [f"{REMOVE}{shlex.quote(name)}" for name in found.remove]


def _quoted(word: str) -> str:
    """The mark in front stays outside the quotation marks."""
    mark = DEFAULT if word.startswith(DEFAULT) else ""
    return mark + shlex.quote(word.removeprefix(mark))


def _value(text: str) -> Any:
    """The JSON value if it parses, else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _text(value: Any) -> str:
    """Text as it is, unless it would be read as something else."""
    if isinstance(value, str) and isinstance(_value(value), str) and _value(value) == value:
        return value
    return json.dumps(value, ensure_ascii=False)
