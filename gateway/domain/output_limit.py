"""Output limit: the most output that a request allows as it goes out. The one place that reads caps, for holds.

A hold must cover whatever an upstream may make of the caps it receives, so they are read generously:

- every cap counts, under any name that vendors and model servers use and at any depth; of several the largest
- numbers of answers multiply, under any name and at any depth, as do arrays of prompts
- a budget for thinking comes on top of the cap, because some vendors count it apart; not so in APIs whose cap is known
  to bound both (``thinks_within``)
- predicted output comes on top as well: what the model does not use of it is billed as output
- two readings of the same bytes must not differ: an object with the same name twice is refused
- a cap under another name than the API's own bounds nothing, for an upstream may not know it, but may be obeyed
- one that says that there is no limit leaves nothing to choose: what a usual answer needs must be affordable

Each inbound API says what of a client's request goes out to a channel that speaks it (``InboundRequest.output_rule``),
and each dialect what goes out of a chat (``dialects.output_limit``). The conversation is not looked at: nothing that
the model reads is a limit.
"""

import math
import re
from enum import Enum, auto
from functools import lru_cache
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.errors import BadRequest
from gateway.domain.json_text import refuse_repeated
from gateway.domain.limits import DEFAULT_OUTPUT
from gateway.domain.prompt_size import BOUND_BYTES_PER_TOKEN
from gateway.domain.rawjson import Fields

LEAST_OUTPUT = 1024
"""The output tokens that must be affordable if the gateway chooses the cap: fewer give useless answers."""

CAPS = ("max_completion_tokens", "max_tokens")
"""OpenAI's names of the one output limit."""

STANDARD_FIELDS = frozenset(
    {
        *("model", "messages", "stream", "stream_options", "n", "temperature", "top_p", "stop", "seed", *CAPS),
        *("presence_penalty", "frequency_penalty", "logit_bias", "logprobs", "top_logprobs", "response_format"),
        *("tools", "tool_choice", "parallel_tool_calls", "functions", "function_call", "user", "safety_identifier"),
        *("metadata", "store", "modalities", "audio", "reasoning_effort", "verbosity", "service_tier", "top_k"),
        *("prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "moderation", "web_search_options"),
    }
)
"""Fields whose meaning is known. Of these only ``CAPS`` and ``n`` affect the length of the output."""

CHAT_CONTENT = frozenset({"model", "messages", "tools", "functions", "response_format", "tool_choice", "function_call"})
"""Fields of a chat that the model reads."""

MOST_TOKENS = 10**9
"""A cap counts for at most this: no answer is longer, and sums stay within 64 bits."""
MOST_CHOICES = 128
"""The most choices that a client may request."""

MOST_NAMES = 1000
"""The most different names of limits in one request: nobody needs so many, and the event loop waits while they are
read."""

_WORDS = (
    *("token", "predict", "budget", "max", "min", "best", "num", "count", "len", "limit", "sample", "choice", "amount"),
    "amt",
    *("completion", "output", "candidate", "sequence", "generation", "prompt", "input", "batch", "request", "instance"),
)
_HINT = re.compile("|".join(_WORDS), re.IGNORECASE)
"""A name must contain one of these to be examined closely; a short one such as ``n`` need not."""
_CAP = re.compile(
    r"token(?!iz|.*ids?$)|predict|(max|min)(imum)?(new|gen|out|decode|.*(len|completion|response|answer|reply))"
    r"|(gen|generat|output|completion|response|answer|reply).*(len|limit|max)|amountgen|genamt"
)
"""Matches names without their underscores: ``max_new_tokens``, ``num_predict``, ``maxOutputTokens``, ``max_length``."""
_THINKING = re.compile(r"budget|think|reason", re.IGNORECASE)
_NO_CAP = re.compile(r"prompt|input|context|cache|truncat")
"""Names that limit the input."""
_SCHEMA = frozenset({"maxLength", "minLength"})
"""Words of JSON Schema, for the form of an answer, where a ``type`` stands beside them."""
_NUMBERS = frozenset({int, float, str})
"""Types of values that may be numbers: some are text."""
_CONTAINERS = frozenset({dict, list})
_PREDICTIONS = frozenset({"prediction"})
"""Fields whose length counts as output."""
_HINT_IN_JSON = re.compile(
    rb'(?:"n|(?:\\u|' + "|".join(_WORDS).encode() + rb')(?:[^"\\]|\\.)*)"\s*:', re.IGNORECASE | re.DOTALL
)
"""Matches JSON text that contains a name of a limit."""
_CONTAINER_STARTS = (b"{", b"[")
_CHOICES = frozenset(
    {
        *("n", "bestof", "candidatecount", "numreturnsequences", "numgenerations", "numcompletions", "numresponses"),
        *("numsamples", "nsamples", "samplecount", "numchoices", "nchoices", "choicecount", "numsequences"),
        *("numcandidates", "ncandidates", "numoutputs", "noutputs", "ncompletions", "ngenerations", "nsequences"),
        *("numresults", "resultcount", "samples"),
    }
)
_BATCHES = frozenset({"prompt", "prompts", "input", "inputs", "requests", "instances", "batch"})
"""Arrays whose items are each answered."""


class OutputLimit(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The most output of one request, in tokens of each choice."""

    capped: int = 0
    """What its caps allow; 0: it has none."""
    expected: int = 0
    """What to expect if nothing limits the output: at least ``capped``."""
    choices: int = 1
    minimum: int = 0
    """The smallest cap that the gateway itself chooses for a request without one, with what it does not limit."""

    @property
    def capped_total(self) -> int:
        """Returns the tokens of all choices that the caps allow."""
        return self.choices * self.capped

    @property
    def total(self) -> int:
        """Returns the tokens of all choices to hold for."""
        return self.choices * max(self.capped, self.expected)

    @property
    def minimum_total(self) -> int:
        """Returns the tokens of all choices that must be affordable."""
        return self.choices * max(self.capped, self.minimum)


def limit_of(cap: int | None, *, expected: int = DEFAULT_OUTPUT, choices: int = 1, minimum: int = 0) -> OutputLimit:
    """Returns the limit of a dialect in which one number limits the whole output, thinking included."""
    if cap is None or cap < 1:
        return OutputLimit(expected=expected, choices=choices, minimum=max(1, minimum))
    return OutputLimit(capped=min(cap, MOST_TOKENS), choices=choices)


def larger(limit: OutputLimit, other: OutputLimit) -> OutputLimit:
    """Returns the limit of a request that may go out in either form."""
    return OutputLimit(
        capped=max(limit.capped_total, other.capped_total),
        expected=max(limit.total, other.total),
        minimum=max(limit.minimum_total, other.minimum_total),
    )


def read_limit(
    fields: Fields,
    *,
    content: frozenset[str] = CHAT_CONTENT,
    caps: tuple[str, ...] = CAPS,
    thinks_within: bool = False,
) -> OutputLimit:
    """Returns the limit of an outgoing request, with whatever vendors have added to it.

    ``content``: fields that are skipped; ``caps``: the API's own names of the limit.
    """
    if not fields:
        return limit_of(None)
    search = _LimitSearch()
    search.examine({name: fields[name] for name in fields.keys() - content})
    api_caps = [rawjson.maybe(fields.get(name)) for name in caps]
    bounded = any(type(value) is int and value >= 1 for value in api_caps)
    cap = max(search.caps, default=0)
    thinking = max(search.budget + max(search.inner, cap) - cap, search.inner)
    thinking_within, extra = (thinking, search.predicted) if thinks_within else (0, thinking + search.predicted)
    capped = min(max(cap, thinking_within) + extra, MOST_TOKENS) if cap else 0
    expected = min(max(DEFAULT_OUTPUT, thinking_within) + extra, MOST_TOKENS) if search.unbounded or not bounded else 0
    minimum = expected if search.unbounded else 0 if cap else min(max(1, thinking_within) + extra, MOST_TOKENS)
    return OutputLimit(capped=capped, expected=expected, choices=search.choices, minimum=minimum)


def may_limit(fields: Fields) -> bool:
    """Returns whether these fields may contain a limit. It costs little."""
    if any([_meaning(name) is not _Meaning.NONE or name in _PREDICTIONS for name in fields]):  # noqa: C419 - quicker so
        return True
    text = b"".join([text for text in map(bytes, fields.values()) if text.startswith(_CONTAINER_STARTS)])
    return len(text) > 4 << 10 or _HINT_IN_JSON.search(text) is not None


class _Meaning(Enum):
    """What a number limits, by its name."""

    NONE = auto()
    CAP = auto()
    THINKING = auto()
    CHOICES = auto()
    BATCH = auto()


class _LimitSearch:
    """What the fields of a request say about its output."""

    def __init__(self) -> None:
        self.caps: list[int] = []
        self.unbounded = False
        """Whether a cap means "no limit": -1 for llama.cpp."""
        self.budget = 0
        """The largest budget for thinking."""
        self.inner = 0
        """The largest cap inside of an object about thinking: for thinking, or for the whole output."""
        self.predicted = 0
        self.choices = 1

    def examine(self, fields: Fields) -> None:
        """Examine these fields and everything in them. Raises BadRequest if that is too much."""
        for name in _PREDICTIONS & fields.keys():
            self.predicted += -(-len(memoryview(fields.pop(name))) // BOUND_BYTES_PER_TOKEN)
        if not may_limit(fields):
            return
        top = {name: rawjson.maybe(raw) for name, raw in fields.items()}
        objects, names = _all_objects(top)
        refuse_repeated(sum(len(obj) for _, obj in objects) - len(top), *fields.values())
        meanings = _limit_names(names)
        for thinking, obj in objects if meanings else ():
            for name in meanings.keys() & obj.keys():
                if obj is top or name not in _SCHEMA or "type" not in obj:
                    self._add(meanings[name], obj[name], thinking=thinking)

    def _add(self, meaning: _Meaning, value: Any, *, thinking: bool) -> None:
        if meaning is _Meaning.BATCH:
            if type(value) is list and value and type(value[0]) is not int:  # otherwise it is one text, given as tokens
                self._multiply(len(value))
        elif type(value) is list:
            for item in value:
                if type(item) in _NUMBERS:
                    self._add(meaning, item, thinking=thinking)
        elif meaning is _Meaning.CHOICES:
            self._multiply(_amount(value) or 1)
        elif meaning is _Meaning.THINKING or thinking:
            amount = min(_amount(value) or 0, MOST_TOKENS)
            if meaning is _Meaning.THINKING:
                self.budget = max(self.budget, amount)
            else:
                self.inner = max(self.inner, amount)
        else:
            self._add_cap(value)

    def _add_cap(self, value: Any) -> None:
        """Add a cap. Anything but a number is ignored."""
        amount = _amount(value)
        if amount is None:
            return
        if amount < 1:  # or without end
            self.unbounded = True
        else:
            self.caps.append(min(amount, MOST_TOKENS))

    def _multiply(self, answers: int) -> None:
        """Multiply the number of answers."""
        self.choices = min(self.choices * max(1, answers), MOST_TOKENS)


def _all_objects(top: dict[str, Any]) -> tuple[list[tuple[bool, dict[str, Any]]], set[str]]:
    """Yields all objects, with whether they are about thinking, and the names in them."""
    objects: list[tuple[bool, dict[str, Any]]] = []
    names: set[str] = set()
    stack: list[tuple[bool, Any]] = [(False, top)]
    while stack:
        thinking, item_ = stack.pop()
        if type(item_) is list:
            stack += [(thinking, item) for item in item_ if type(item) in _CONTAINERS]
            continue
        objects.append((thinking, item_))
        names.update(item_)
        for key, value in item_.items():
            if type(value) in _CONTAINERS:
                stack.append((thinking or _THINKING.search(key) is not None, value))
    return objects, names


def _limit_names(names: set[str]) -> dict[str, _Meaning]:
    """Returns the names of limits. Raises BadRequest if they are too many; other names cost next to nothing."""
    meanings: dict[str, _Meaning] = {}
    for name in names:
        if (len(name) < 3 or _HINT.search(name)) and (meaning := _meaning(name)) is not _Meaning.NONE:
            meanings[name] = meaning
            if len(meanings) > MOST_NAMES:
                msg = f"the body has more than {MOST_NAMES} fields that look like limits of the output"
                raise BadRequest(msg, code="too_complex")
    return meanings


@lru_cache(maxsize=1024)
def _meaning(name: str) -> _Meaning:
    word = name.lower().replace("_", "").replace("-", "")
    if word in _CHOICES:
        return _Meaning.CHOICES
    if word in _BATCHES:
        return _Meaning.BATCH
    if _NO_CAP.search(word):
        return _Meaning.NONE
    if "budget" in word:
        return _Meaning.THINKING
    if not _CAP.search(word):
        return _Meaning.NONE
    return _Meaning.THINKING if _THINKING.search(word) else _Meaning.CAP


def _amount(value: Any) -> int | None:
    """Returns the number, rounded up, also from a float or text; None if it is not a number, -1 for "no limit".

    Text is read as generously as by servers written in Python.
    """
    if type(value) is int:
        return value
    if type(value) is str and len(value) <= 400:  # the longest float that is written out has fewer
        try:
            value = float(value)
        except ValueError:
            return None
    if type(value) is not float:
        return None
    return math.ceil(value) if math.isfinite(value) else -1
