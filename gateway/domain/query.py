"""Query: the small language that selects calls, in the console's filter and ``usage list``, ``tail`` and ``export``.

Long: every kind of word, its meaning and its spelling are best read together.

Words are separated by spaces, and all must hold. ``!`` before a word negates it, and double quotes keep spaces in a
word. A bare word is searched in every text field, ``field:value`` in one. Fields may be written in full (``token:``);
an unknown one is an error:

======================================  ================================================================
``tok: grp: ch: model: app: api: id:``  a pattern with ``*`` and ``?``, compared without case; ``tok:`` and ``ch:`` also
                                        accept an id; ``domain.current_names`` adds the calls from before a rename
``as:``                                 a pattern for the upstream model of the call
``st:``                                 ``err``, ``ok``, ``running``, an outcome, ``4xx``, ``429``, ``>=400``
``dur: ttft:``                          a span: ``>5s``, ``<=250ms``
``in: out:``                            a count of tokens: ``>10k``
``cost:``                               dollars: ``>0.01``
``since: until:``                       a moment: ``10m``, ``14:00``, ``2026-11-30``
======================================  ================================================================

Several values separated by commas mean any of them: ``model:gpt-4o,o3``, ``st:429,5xx``. A comma inside double quotes
is part of the value. ``cost>0.01``, ``status>=400``, ``model=gpt-4o`` and ``model!=gpt-4o`` may be written as well.

A word is parsed into a condition. This is a value, not a function, so that the store can rule out files.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from operator import attrgetter
from typing import Any

import msgspec

from gateway.domain.call import NOT_ERRORS, Outcome
from gateway.domain.errors import BadRequest
from gateway.domain.human_values import parse_count, parse_past, parse_span
from gateway.domain.money import parse_dollars
from gateway.domain.units import Millis
from gateway.domain.views import CallView

INFINITE = 1 << 62
"""More than any number of a call."""

_WORD = re.compile(r'(?:[^\s"]|"[^"]*(?:"|$))+')
_VALUES = re.compile(r'(?:[^,"]|"[^"]*(?:"|$))*')
"""Matches the values of a word, between its commas."""
_WITHOUT_COLON = re.compile(r"(!*)([A-Za-z]+)(!=|==?|>=|<=|>|<)([^=].*)", re.DOTALL)
_NUMBERS: dict[str, tuple[str, Callable[[str], int]]] = {
    "dur": ("duration_ms", parse_span),
    "ttft": ("first_byte_ms", parse_span),
    "in": ("input_tokens", parse_count),
    "out": ("output_tokens", parse_count),
    "cost": ("cost_nanos", parse_dollars),
}
_PATTERNS = {
    "tok": "token",
    "grp": "group",
    "ch": "channel",
    "model": "model",
    "as": "upstream_model",
    "app": "app",
    "api": "api",
    "id": "id",
}
FILTER_WORDS = {attribute: field for field, attribute in _PATTERNS.items()}
"""The filter word for each attribute of a call that takes patterns, such as ``tok`` for ``token``."""
_IDS = {"tok": "token_id", "ch": "channel_id"}
"""The attribute of a call that holds such an id, by the field that accepts one. Ids begin with the field's name."""
_FULL_NAMES = {
    "token": "tok",
    "group": "grp",
    "channel": "ch",
    "status": "st",
    "duration": "dur",
    "input": "in",
    "output": "out",
}
FIELDS = (*_PATTERNS, "st", *_NUMBERS, "since", "until")
"""The names that may precede a colon."""
_FILTER = re.compile(rf"!*({'|'.join((*FIELDS, *_FULL_NAMES))})(:|!=|==?|>=|<=|>|<)")
_STATES = ("running", "waiting", "settled", *Outcome)

_texts_of: Callable[[Any], tuple[str, ...]] = attrgetter(
    *("id", "token", "group", "model", "upstream_model", "channel", "app", "outcome", "code", "error")
)
"""Returns the fields of a call that a bare word is searched in, in addition to the status."""


class TextCondition(msgspec.Struct, frozen=True):
    """A text field or the status contains this text, compared without case."""

    text: str
    """The text, casefolded."""

    def matches(self, call: Any) -> bool:
        texts = (*_texts_of(call), str(call.status))
        return self.text in "\0".join(texts).casefold()


class PatternCondition(msgspec.Struct, frozen=True):
    """A text field matches a pattern with ``*`` and ``?``, compared without case."""

    field: str
    pattern: str
    """The pattern, casefolded."""

    def matches(self, call: Any) -> bool:
        return self.matches_text(getattr(call, self.field))

    def matches_text(self, text: str) -> bool:
        return fnmatchcase(text.casefold(), self.pattern.replace("[", "[[]"))


class NumberCondition(msgspec.Struct, frozen=True):
    """A number exists, and ``low <= number <= high``."""

    field: str
    low: int = -INFINITE
    high: int = INFINITE

    def matches(self, call: Any) -> bool:
        number = getattr(call, self.field)
        return number is not None and self.low <= number <= self.high


class StateCondition(msgspec.Struct, frozen=True):
    """The call has this state or outcome; for ``err``, its status is not 2xx and its outcome counts as an error."""

    value: str

    def matches(self, call: Any) -> bool:
        if self.value == "err":
            return call.state == "settled" and not 200 <= call.status < 300 and call.outcome not in NOT_ERRORS
        return self.value in (call.outcome, call.state) or (self.value == "waiting" and bool(call.waits_for))


class OneOf(msgspec.Struct, frozen=True):
    """A field has one of these values."""

    field: str
    values: frozenset[str]

    def matches(self, call: Any) -> bool:
        return self.matches_text(getattr(call, self.field))

    def matches_text(self, text: str) -> bool:
        return text in self.values


class AnyOf(msgspec.Struct, frozen=True):
    """At least one of the conditions holds."""

    conditions: "tuple[Condition, ...]"

    def matches(self, call: Any) -> bool:
        return any(condition.matches(call) for condition in self.conditions)


class Negation(msgspec.Struct, frozen=True):
    """The condition does not hold."""

    condition: "Condition"

    def matches(self, call: Any) -> bool:
        return not self.condition.matches(call)


Condition = TextCondition | PatternCondition | NumberCondition | StateCondition | OneOf | AnyOf | Negation
"""A test of a CallView, or of any object that has the attributes which the condition names."""

SUCCESS, FAILURE = NumberCondition("status", 200, 299), StateCondition("err")


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """A selection of calls: a span of time, and conditions that must all hold."""

    since: Millis | None = None
    until: Millis | None = None
    words: tuple[str, ...] = ()
    """The words of the conditions, with colons."""
    conditions: tuple[Condition, ...] = ()

    def matches(self, call: CallView) -> bool:
        if self.since is not None and call.time_ms < self.since:
            return False
        if self.until is not None and call.time_ms >= self.until:
            return False
        return all(condition.matches(call) for condition in self.conditions)


EVERYTHING = Query()


def speed_of(call: CallView) -> float | None:
    """Returns output tokens per second after the first token; None before that, and if all were sent at once."""
    if call.first_byte_ms is None or not call.output_tokens:
        return None
    ms = call.duration_ms - call.first_byte_ms
    return call.output_tokens * 1000 / ms if ms >= 20 else None


SORT_KEYS: Mapping[str, Callable[[CallView], Any]] = {
    "time": attrgetter("time_ms"),
    "model": attrgetter("model"),
    "status": attrgetter("status"),
    "duration": attrgetter("duration_ms"),
    "first": lambda call: call.first_byte_ms or 0,
    "speed": lambda call: speed_of(call) or 0,
    "input": attrgetter("input_tokens"),
    "cached": attrgetter("cached_tokens"),
    "output": attrgetter("output_tokens"),
    "cost": attrgetter("cost_nanos"),
    "channel": attrgetter("channel"),
    "api": attrgetter("api"),
    "token": attrgetter("token"),
    "app": attrgetter("app"),
    "id": attrgetter("id"),
    "group": attrgetter("group"),
    "tries": lambda call: len(call.attempts),
    "end": lambda call: call.finish_reason or call.code,
}
"""The keys that calls can be sorted by."""


class CallOrder(msgspec.Struct, frozen=True):
    """An order of calls. Equal calls are sorted newest first."""

    key: str
    """One of ``SORT_KEYS``."""
    ascending: bool = False

    def best(self, calls: Iterable[CallView], limit: int) -> list[CallView]:
        """Returns the first calls in this order. ``calls`` are sorted newest first."""
        return sorted(calls, key=SORT_KEYS[self.key], reverse=not self.ascending)[:limit]


def parse(text: str, now: Millis) -> Query:
    """Returns the query of a line of words. Raises BadRequest, which names the word that is not valid."""
    bounds: dict[str, Millis] = {}
    words: list[str] = []
    for word in map(_with_colon, _WORD.findall(text)):
        field, colon, value = word.partition(":")
        if not colon or field not in ("since", "until"):
            words.append(word)
        elif field in bounds:
            raise BadRequest(f"{field}: is given twice; give it once")
        else:
            bounds[field] = parse_past(_unquote(value), now, end=field == "until")
    since, until = bounds.get("since"), bounds.get("until")
    return Query(since=since, until=until, words=tuple(words), conditions=tuple(_condition(word) for word in words))


def shell_word(text: str) -> str:
    """Returns a command's argument as it would be written in a line of words.

    The shell has removed its quotes, so a text with spaces is one word (``tok:"my laptop"``) without more filters.
    """
    if '"' in text or not any(map(str.isspace, text)):
        return text
    if any(_FILTER.match(word) for word in text.split()[1:]):
        return text
    if (prefix := _FILTER.match(text)) is None:
        return f'"{text}"'
    return f'{prefix[0]}"{text[prefix.end() :].strip()}"'


def _with_colon(word: str) -> str:
    """Returns ``cost>0.01`` as ``cost:>0.01`` and ``model!=m`` as ``!model:m``; other words unchanged."""
    match = _WITHOUT_COLON.fullmatch(word)
    if match is None:
        return word
    negations, name, sign, value = match.groups()
    field = _FULL_NAMES.get(name, name)
    comparison = sign if sign in ("<", ">", "<=", ">=") else ""
    if field not in FIELDS:
        if comparison and value[0].isdigit():
            raise BadRequest(_unknown_filter(name))
        return word
    if (comparison and field not in _NUMBERS and field != "st") or (sign == "!=" and field in ("since", "until")):
        raise BadRequest(f"{word}: write {name}:{value}")
    return f"{negations}{'!' if sign == '!=' else ''}{field}:{comparison}{value}"


def words_for(field: str, values: Collection[str]) -> list[str]:
    """Returns the words for calls whose field matches any of these values, and no value with a leading ``!``."""
    included = [quote_value(value) for value in values if not value.startswith("!")]
    excluded = [quote_value(value.removeprefix("!")) for value in values if value.startswith("!")]
    return [*([f"{field}:{','.join(included)}"] if included else []), *(f"!{field}:{value}" for value in excluded)]


def quote_value(value: str) -> str:
    """Returns a value as one of a word: in double quotes if it has blanks, or commas, which separate values."""
    return f'"{value}"' if "," in value or any(map(str.isspace, value)) else value


def _condition(word: str) -> Condition:
    negations = len(word) - len(word.lstrip("!"))
    if negations == len(word):  # only exclamation marks: the last one is searched
        negations -= 1
    word = word[negations:]
    conditions = tuple(map(_single_condition, _alternatives(word)))
    condition = conditions[0] if len(conditions) == 1 else AnyOf(conditions)
    return Negation(condition) if negations % 2 else condition


def _alternatives(word: str) -> list[str]:
    """Returns a word for each of the values that commas separate in a word."""
    field, _, quoted = word.partition(":")
    name = _FULL_NAMES.get(field, field)
    values = [value for value in _VALUES.findall(quoted) if value] if name in _PATTERNS or name == "st" else []
    return [f"{name}:{value}" for value in values] or [word]


def _single_condition(word: str) -> Condition:
    """Returns the condition of a word with one value and without negation. Raises BadRequest."""
    name, colon, quoted = word.partition(":")
    field = _FULL_NAMES.get(name, name) if colon else ""
    value = _unquote(quoted)
    if is_id(field, value):
        return PatternCondition(_IDS[field], value)
    if field == "id" and not {"*", "?"} & set(value):
        return PatternCondition("id", f"*{value.casefold()}*")  # a part of an id is enough
    if field in _PATTERNS:
        return PatternCondition(_PATTERNS[field], value.casefold())
    if field == "st":
        return _status_condition(value)
    if field in _NUMBERS:
        attribute, parse_number = _NUMBERS[field]
        return _number_condition(attribute, value, parse_number)
    if value and field.isascii() and field.isalpha() and not value.startswith("//"):
        raise BadRequest(_unknown_filter(field))
    return TextCondition(_unquote(word).casefold())


def is_id(field: str, value: str) -> bool:
    """Returns whether the value is an id of a token or channel, for the fields ``tok`` and ``ch``."""
    return field in _IDS and re.fullmatch(rf"{field}_[0-9a-f]{{16}}", value) is not None


def _unknown_filter(name: str) -> str:
    similar = get_close_matches(name, (*FIELDS, *_FULL_NAMES), 1)
    suggestion = f" Did you mean {_FULL_NAMES.get(similar[0], similar[0])}:?" if similar else ""
    known = f"Filters are {', '.join(f'{field}:' for field in FIELDS)}"
    return f"unknown filter '{name}:'.{suggestion} {known}; to find it as a text, put double quotes around it"


def _status_condition(value: str) -> Condition:
    if value in ("err", "error", "errors"):  # all failed calls, not only those with the outcome ``error``
        return FAILURE
    if value == "ok":
        return SUCCESS
    if re.fullmatch(r"[1-5]xx", value):
        hundreds = int(value[0]) * 100
        return NumberCondition("status", hundreds, hundreds + 99)
    if value in _STATES:
        return StateCondition(value)
    if not re.fullmatch(r"(>=?|<=?|=)?[0-9]{1,3}", value, re.ASCII):
        examples = f"st:err, st:ok, st:4xx, st:429, st:>=400 or one of {', '.join(_STATES)}"
        raise BadRequest(f"st:{value} is not a status; write {examples}")
    return _number_condition("status", value, int)


def _number_condition(field: str, value: str, parse_number: Callable[[str], int]) -> NumberCondition:
    """Returns the condition of a field with a comparison such as ``>5s``. Raises BadRequest."""
    sign = next(sign for sign in (">=", "<=", ">", "<", "=", "") if value.startswith(sign))
    number = parse_number(value.removeprefix(sign))
    low = {">": number + 1, ">=": number, "<": -INFINITE, "<=": -INFINITE}.get(sign, number)
    high = {"<": number - 1, "<=": number, ">": INFINITE, ">=": INFINITE}.get(sign, number)
    return NumberCondition(field, low, high)


def _unquote(word: str) -> str:
    return word.replace('"', "")
