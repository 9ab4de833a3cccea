"""Regular: a whole answer that needs no mending, recognised in one typed decode. Most answers are regular.

Such an answer goes to the client as the bytes it came as.
"""

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from gateway.domain.text import plain
from gateway.upstream import rawjson
from gateway.upstream.adapter import Order, Whole
from gateway.upstream.openai.finish import REASONS
from gateway.upstream.openai.identity import ID_LIMIT
from gateway.upstream.redaction.answers import Screen
from gateway.upstream.tally import Tally
from gateway.upstream.usage import RegularUsage, reading_of


class _Message(msgspec.Struct, gc=False):
    role: str
    content: str | None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | msgspec.UnsetType | None = msgspec.UNSET
    tool_calls: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    function_call: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _Choice(msgspec.Struct, gc=False):
    index: int
    message: _Message
    finish_reason: str
    logprobs: msgspec.Raw = rawjson.NULL


class _Answer(msgspec.Struct, gc=False):
    id: str
    object: str
    created: int
    model: str
    choices: list[_Choice]
    usage: RegularUsage
    timings: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    service_tier: str | None = None
    system_fingerprint: str | None = None


class _BareChoice(_Choice, gc=False, forbid_unknown_fields=True):
    """One with nothing in it that is not read here."""


class _BareAnswer(_Answer, gc=False, forbid_unknown_fields=True):
    """The same; in most answers one decode thus tells that there are no other fields to be screened."""

    choices: list[_BareChoice]  # type: ignore[assignment]


_Found = TypeVar("_Found")

_CHOICES = msgspec.json.Decoder(list[_Choice])
_BARE_CHOICES = msgspec.json.Decoder(list[_BareChoice])
_ANSWER = msgspec.json.Decoder(_Answer)
_BARE_ANSWER = msgspec.json.Decoder(_BareAnswer)


def whole_of_regular(body: bytes, order: Order) -> Whole | None:
    """The answer as it came, if nothing in it is to be changed; else None."""
    screen = order.screen
    found: _Answer | None = _decoded(_BARE_ANSWER, body)
    if found is None:
        found = _decoded(_ANSWER, body)
        if found is None or _shows_beside(body, screen):
            return None
    name = found.id
    good = 0 < len(name) < ID_LIMIT and found.created > 0 and found.object == "chat.completion"
    if not good or found.model != order.model or found.timings is not msgspec.UNSET or plain(name, ID_LIMIT) != name:
        return None
    if screen.shows(name) or screen.shows(found.system_fingerprint or "") or screen.shows(found.service_tier or ""):
        return None
    tally = Tally()
    finish = _finish(found.choices, tally)
    reading = reading_of(found.usage)
    if not finish or reading is None or not (reading.usage.total or tally.empty):
        return None
    return Whole(body=body, reported=reading.usage, finish=finish, upstream_id=name, tally=tally)


def finish_of_regular(choices: msgspec.Raw, tally: Tally, screen: Screen) -> str:
    """The finish reason of the first choice, and the texts in the tally; empty if one of the choices is not regular."""
    found: Sequence[_Choice] | None = _decoded(_BARE_CHOICES, choices)
    if found is None:
        found = _decoded(_CHOICES, choices)
        if found is None or any(map(screen.hides_in, rawjson.objects(choices))):
            return ""
    return _finish(found, tally)


def _decoded(decoder: "msgspec.json.Decoder[_Found]", data: bytes | msgspec.Raw) -> _Found | None:
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _shows_beside(body: bytes, screen: Screen) -> bool:
    """Whether a secret shows in the answer, or in one of its choices, beside what is read here."""
    fields = rawjson.fields(body)
    return screen.hides_in(fields) or any(map(screen.hides_in, rawjson.objects(fields["choices"])))


def _finish(found: Sequence[_Choice], tally: Tally) -> str:
    if not found or not all(_is_regular(choice, i) for i, choice in enumerate(found)):
        return ""
    for choice in found:
        message = choice.message
        for text in (message.content, message.reasoning_content, message.reasoning, message.refusal):
            if text:
                tally.add(text)
    return found[0].finish_reason


def _is_regular(choice: _Choice, position: int) -> bool:
    message = choice.message
    twice = message.reasoning_content is not None and message.reasoning is not msgspec.UNSET
    return (
        choice.index == position
        and message.role == "assistant"
        and choice.finish_reason in REASONS
        and message.tool_calls is msgspec.UNSET
        and message.function_call is msgspec.UNSET
        and not twice
    )
