"""Query: the small language that picks calls: the filter of the console, of ``usage list``, ``tail`` and ``export``.

Words are separated by spaces and all must hold; ``!`` before a word negates it; double quotes keep spaces together.
A bare word is looked for in every text field. ``field:value`` looks in one:

=====================================  ================================================================
``tok: grp: ch: model: app: id:``      a pattern with ``*`` and ``?``, compared without case
``st:``                                ``err``, ``ok``, ``running``, an outcome, ``4xx``, ``429``, ``>=400``
``dur: ttft:``                         a span: ``>5s``, ``<=250ms``
``in: out:``                           a count of tokens: ``>10k``
``cost:``                              dollars: ``>0.01``
``since: until:``                      a moment: ``10m``, ``2026-11-30``
=====================================  ================================================================
"""

import operator
import re
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from gateway.domain.call import Outcome
from gateway.domain.errors import BadRequest
from gateway.domain.money import nanos_of
from gateway.domain.units import Millis
from gateway.domain.views import CallView
from gateway.domain.written import count_of, past_of, span_of

Test = Callable[[CallView], bool]

_WORD = re.compile(r'(?:[^\s"]|"[^"]*(?:"|$))+')
_COMPARISON = re.compile(r"(>=|<=|>|<|=|)(.*)", re.DOTALL)
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "=": operator.eq,
    "": operator.eq,
}
_NUMBERS: dict[str, tuple[Callable[[CallView], int | None], Callable[[str], int]]] = {
    "dur": (lambda call: call.duration_ms, span_of),
    "ttft": (lambda call: call.first_byte_ms, span_of),
    "in": (lambda call: call.input_tokens, count_of),
    "out": (lambda call: call.output_tokens, count_of),
    "cost": (lambda call: call.cost_nanos, nanos_of),
}
_PATTERNS = {"tok": "token", "grp": "group", "ch": "channel", "model": "model", "app": "app", "id": "id"}
_STATES = ("running", "settled", *Outcome)
_TEXTS = ("id", "token", "group", "model", "upstream_model", "channel", "app", "outcome", "code", "error")


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Which calls are meant: a span of time, and tests that all must hold."""

    since: Millis | None = None
    until: Millis | None = None
    tests: tuple[Test, ...] = ()

    def fits(self, call: CallView) -> bool:
        """Whether the call is among those meant."""
        if self.since is not None and call.time_ms < self.since:
            return False
        if self.until is not None and call.time_ms >= self.until:
            return False
        return all(test(call) for test in self.tests)


def parse(text: str, now: Millis) -> Query:
    """The query of a line of words; raises BadRequest naming the word that makes no sense."""
    since, until = None, None
    tests: list[Test] = []
    for word in _WORD.findall(text):
        field, colon, value = word.partition(":")
        if colon and field == "since":
            since = past_of(_unquoted(value), now)
        elif colon and field == "until":
            until = past_of(_unquoted(value), now, end=True)
        else:
            tests.append(_test(word))
    return Query(since=since, until=until, tests=tuple(tests))


def _test(word: str) -> Test:
    if word.startswith("!") and len(word) > 1:
        inner = _test(word[1:])
        return lambda call: not inner(call)
    field, colon, quoted = word.partition(":")
    value = _unquoted(quoted)
    if colon and field in _PATTERNS:
        return _pattern_test(_PATTERNS[field], value)
    if colon and field == "st":
        return _status_test(value)
    if colon and field in _NUMBERS:
        return _number_test(field, value)
    return _text_test(_unquoted(word))


def _text_test(part: str) -> Test:
    wanted = part.casefold()
    return lambda call: any(wanted in text.casefold() for text in _texts(call))


def _texts(call: CallView) -> Iterable[str]:
    yield from (getattr(call, field) for field in _TEXTS)
    yield str(call.status)


def _pattern_test(field: str, pattern: str) -> Test:
    wanted = pattern.casefold().replace("[", "[[]")
    return lambda call: fnmatchcase(str(getattr(call, field)).casefold(), wanted)


def _number_test(field: str, value: str) -> Test:
    read, number_of = _NUMBERS[field]
    compare, wanted = _comparison(value, number_of)

    def test(call: CallView) -> bool:
        number = read(call)
        return number is not None and compare(number, wanted)

    return test


def _status_test(value: str) -> Test:
    if value == "err":
        return lambda call: call.state == "settled" and not 200 <= call.status < 300
    if value == "ok":
        return lambda call: 200 <= call.status < 300
    if re.fullmatch(r"[1-5]xx", value):
        return lambda call: call.status // 100 == int(value[0])
    if value in _STATES:
        return lambda call: value in (call.outcome, call.state)
    compare, wanted = _comparison(value, _status_of)
    return lambda call: compare(call.status, wanted)


def _status_of(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,3}", text, re.ASCII):
        raise BadRequest(
            f"st:{text} is no status; write st:err, st:ok, st:4xx, st:429, st:>=400 or one of {', '.join(_STATES)}"
        )
    return int(text)


def _comparison(value: str, number_of: Callable[[str], int]) -> tuple[Callable[[Any, Any], bool], int]:
    match = _COMPARISON.fullmatch(value)
    sign, number = match.groups() if match else ("", value)
    return _OPERATORS[sign], number_of(number)


def _unquoted(word: str) -> str:
    return word.replace('"', "")
