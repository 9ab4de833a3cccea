"""Output limit: the maximum output that an outgoing request allows, for holds. Only this file reads caps.

A hold must cover the output however an upstream understands the caps it gets, so they are read generously:

- every cap counts, under any name that vendors and model servers use and at any depth; if there are several, the
  largest counts
- numbers of answers multiply, under any name and at any depth, as do arrays of prompts
- a budget for thinking is added to the cap, because some vendors count it separately, but not in APIs whose cap is
  known to include it (``thinks_within``)
- predicted output is added as well, because what the model does not use of it is billed as output
- an object with the same name twice is refused, because an upstream may read the other value
- a cap under another name than the API's own may be obeyed by the upstream, but does not guarantee a limit
- if a cap means 'unlimited', the gateway cannot set a limit, so a usual answer must be affordable

Each inbound API says which part of a client's request is sent to a channel that speaks the API
(``InboundRequest.output_rule``), and each dialect what is sent of a chat (``dialects.output_limit``). The conversation
is skipped: nothing that the model reads is a limit.
"""

import math
import re
from enum import Enum, auto
from functools import lru_cache
from typing import Any

import msgspec

from gateway.domain import rawjson
from gateway.domain.errors import BadRequest
from gateway.domain.limits import DEFAULT_OUTPUT
from gateway.domain.prompt_size import BOUND_BYTES_PER_TOKEN
from gateway.domain.rawjson import Fields

MIN_OUTPUT = 1024
"""The output tokens that must be affordable if the gateway chooses the cap. With fewer, answers are useless."""

CAPS = ("max_completion_tokens", "max_tokens")
"""OpenAI's names of the output limit."""

STANDARD_FIELDS = frozenset(
    {
        *("model", "messages", "stream", "stream_options", "n", "temperature", "top_p", "stop", "seed", *CAPS),
        *("presence_penalty", "frequency_penalty", "logit_bias", "logprobs", "top_logprobs", "response_format"),
        *("tools", "tool_choice", "parallel_tool_calls", "functions", "function_call", "user", "safety_identifier"),
        *("metadata", "store", "modalities", "audio", "reasoning_effort", "verbosity", "service_tier", "top_k"),
        *("prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "moderation", "web_search_options"),
    }
)
"""Fields whose meaning is known. Of them only ``CAPS`` and ``n`` affect the length of the output."""

CHAT_CONTENT = frozenset({"model", "messages", "tools", "functions", "response_format", "tool_choice", "function_call"})
"""Fields of a chat that the model reads."""

MAX_TOKEN_COUNT = 10**9
"""The value of larger caps: no answer is longer, and sums stay within 64 bits."""
MAX_CHOICES = 128
"""The maximum number of choices that a client may request."""

MAX_NAMES = 10_000
"""The maximum number of different names in a request, outside of its content. To examine more would take too long."""

_CAP = re.compile(
    r"token(?!iz|.*ids?$)|predict|(max|min)(imum)?(new|gen|out|decode)|amountgen|genamt"
    r"|\A(?>.*?(max|min)).*(len|completion|response|answer|reply)"
    r"|\A(?>.*?(gen|output|completion|response|answer|reply)).*(len|limit|max)"
)
"""Matches names without their underscores: ``max_new_tokens``, ``num_predict``, ``maxOutputTokens``, ``max_length``.
Only the first ``max`` is examined (an atomic group), so that a name of many takes little time."""
_THINKING = re.compile(r"budget|think|reason", re.IGNORECASE)
_NO_CAP = re.compile(r"prompt|input|context|cache|truncat")
"""Matches names that limit the input."""
_SCHEMA = frozenset({"maxLength", "minLength"})
"""Keywords of JSON Schema, in objects that also have a ``type``. They are about the form of an answer."""
_CONTAINERS = frozenset({dict, list})
_CHOICES = frozenset(
    {
        *("n", "bestof", "candidatecount", "numreturnsequences", "numgenerations", "numcompletions", "numresponses"),
        *("numsamples", "nsamples", "samplecount", "numchoices", "nchoices", "choicecount", "numsequences"),
        *("numcandidates", "ncandidates", "numoutputs", "noutputs", "ncompletions", "ngenerations", "nsequences"),
        *("numresults", "resultcount", "samples"),
    }
)
_BATCHES = frozenset({"prompt", "prompts", "input", "inputs", "requests", "instances", "batch"})
"""Names of arrays. Each of their items gets an answer."""


class OutputLimit(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The maximum output of a request, in tokens per choice."""

    capped: int = 0
    """The output that its caps allow; 0 if it has none."""
    expected: int = 0
    """The output to hold for, because the upstream may ignore the caps; at least ``capped``."""
    choices: int = 1
    minimum: int = 0
    """The least output that must be affordable if the gateway sets a cap, with what that cap does not limit."""

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
    """Returns the limit of a dialect that limits the whole output, including thinking, by one number."""
    if cap is None or cap < 1:
        return OutputLimit(expected=expected, choices=choices, minimum=max(1, minimum))
    return OutputLimit(capped=min(cap, MAX_TOKEN_COUNT), choices=choices)


def larger(limit: OutputLimit, other: OutputLimit) -> OutputLimit:
    """Returns the limit of a request that may be sent in either of two forms."""
    return OutputLimit(
        capped=max(limit.capped_total, other.capped_total),
        expected=max(limit.total, other.total),
        minimum=max(limit.minimum_total, other.minimum_total),
    )


def read_limit(
    fields: Fields, *, content: frozenset[str] = CHAT_CONTENT, caps: tuple[str, ...] = CAPS, thinks_within: bool = False
) -> OutputLimit:
    """Returns the limit of an outgoing request, including limits in fields that are not the API's own.

    ``content`` names the fields to skip, ``caps`` the API's fields for its limit.
    """
    if not fields:
        return limit_of(None)
    search = _LimitSearch()
    search.examine({name: fields[name] for name in fields.keys() - content})
    api_caps = [rawjson.maybe(fields.get(name)) for name in caps]
    has_sure_cap = any(type(value) is int and value >= 1 for value in api_caps) and not search.unbounded
    thinking = search.thinking

    def output(tokens: int) -> int:
        """Returns the limit of the whole output if its text has this limit."""
        with_thinking = max(tokens, thinking) if thinks_within else tokens + thinking
        return min(with_thinking + search.predicted, MAX_TOKEN_COUNT)

    capped = output(search.cap) if search.cap else 0
    expected = 0 if has_sure_cap else output(DEFAULT_OUTPUT)
    minimum = 0 if capped else output(1)
    if search.unbounded:
        minimum = expected
    return OutputLimit(capped=capped, expected=expected, choices=search.choices, minimum=minimum)


class _Meaning(Enum):
    """What a number limits, by its name."""

    NONE = auto()
    CAP = auto()
    THINKING = auto()
    CHOICES = auto()
    BATCH = auto()


class _LimitSearch(msgspec.Struct):
    """Collects everything in the fields of a request that may limit its output."""

    cap: int = 0
    """The largest cap; 0 if the request has no cap."""
    unbounded: bool = False
    """Whether a cap means "no limit", as -1 does for llama.cpp."""
    predicted: int = 0
    """The tokens of predicted output."""
    choices: int = 1
    budget: int = 0
    """The largest budget for thinking."""
    cap_in_thinking: int = 0
    """The largest cap inside an object about thinking, which may be for thinking or for the whole output."""

    @property
    def thinking(self) -> int:
        """Returns the maximum thinking tokens, in addition to ``cap``, whatever a cap inside such an object is for."""
        if_for_output = self.budget + max(0, self.cap_in_thinking - self.cap)
        return max(self.cap_in_thinking, if_for_output)

    def examine(self, fields: Fields) -> None:
        """Examine these fields and everything in them. Raises BadRequest if they have too many limits."""
        if "prediction" in fields:  # its length counts as output
            self.predicted += -(-len(memoryview(fields.pop("prediction"))) // BOUND_BYTES_PER_TOKEN)
        top = {name: rawjson.maybe(raw) for name, raw in fields.items()}
        if any(rawjson.repeats_a_key(raw, top[name]) for name, raw in fields.items()):
            raise BadRequest("an object of the body has a key twice; send each field once", code="duplicate_key")
        objects, names = _all_objects(top)
        meanings = _limit_names(names)
        for in_thinking, obj in objects if meanings else ():
            for name in meanings.keys() & obj.keys():
                if obj is top or name not in _SCHEMA or "type" not in obj:
                    self._add(meanings[name], obj[name], in_thinking=in_thinking)

    def _add(self, meaning: _Meaning, value: Any, *, in_thinking: bool) -> None:
        """Add the value of a limit. ``in_thinking``: it is inside an object about thinking."""
        if meaning is _Meaning.BATCH:
            if type(value) is list and value and type(value[0]) is not int:  # numbers are one text, given as tokens
                self._multiply(len(value))
        elif type(value) is list:
            for item in value:
                self._add(meaning, item, in_thinking=in_thinking)
        elif (amount := _amount(value)) is not None:
            self._add_number(meaning, min(amount, MAX_TOKEN_COUNT), in_thinking=in_thinking)

    def _add_number(self, meaning: _Meaning, amount: int, *, in_thinking: bool) -> None:
        if meaning is _Meaning.CHOICES:
            self._multiply(amount)
        elif meaning is _Meaning.THINKING:
            self.budget = max(self.budget, amount)
        elif in_thinking:
            self.cap_in_thinking = max(self.cap_in_thinking, amount)
        elif amount < 1:
            self.unbounded = True
        else:
            self.cap = max(self.cap, amount)

    def _multiply(self, answers: int) -> None:
        self.choices = min(self.choices * max(1, answers), MAX_TOKEN_COUNT)


def _all_objects(top: dict[str, Any]) -> tuple[list[tuple[bool, dict[str, Any]]], set[str]]:
    """Returns all objects, each with whether it is inside an object about thinking, and all names in them."""
    objects: list[tuple[bool, dict[str, Any]]] = []
    names: set[str] = set()
    stack: list[tuple[bool, Any]] = [(False, top)]
    while stack:
        in_thinking, container = stack.pop()
        if type(container) is list:
            stack += [(in_thinking, item) for item in container if type(item) in _CONTAINERS]
            continue
        objects.append((in_thinking, container))
        names.update(container)
        for key, value in container.items():
            if type(value) in _CONTAINERS:
                stack.append((in_thinking or _THINKING.search(key) is not None, value))
    return objects, names


def _limit_names(names: set[str]) -> dict[str, _Meaning]:
    """Returns the names that are limits, with their meanings. Raises BadRequest if there are too many names."""
    words = [name for name in names if not name.isdigit()]  # a logit bias has any number of tokens
    if len(words) > MAX_NAMES:
        msg = f"the body has more than {MAX_NAMES} different names outside of its messages and tools"
        raise BadRequest(msg, code="too_complex")
    return {name: meaning for name in words if (meaning := _meaning_of(name)) is not _Meaning.NONE}


def _meaning_of(name: str) -> _Meaning:
    """Returns what a field limits. No limit has a longer name, and ``_CAP`` takes quadratic time."""
    return _cached_meaning(name) if len(name) <= 100 else _Meaning.NONE


@lru_cache(maxsize=1024)
def _cached_meaning(name: str) -> _Meaning:
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
    """Returns an integer, float or numeric text as an integer, rounded up; -1 for infinity; None if it is not a number.

    A text is read as by Python's ``float``, because many servers are written in Python.
    """
    if type(value) is int:
        return value
    if type(value) is str and len(value) <= 400:  # the longest float has fewer digits
        try:
            value = float(value)
        except ValueError:
            return None
    if type(value) is not float:
        return None
    return math.ceil(value) if math.isfinite(value) else -1
