"""A plain chat completion: checked, and repaired where clients would stumble; the rest passes unchanged.

Most answers need no mending. They are recognized in one typed decode and go to the client as the bytes they came as.
"""

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from gateway.domain import rawjson
from gateway.domain.channel import Channel
from gateway.domain.json_text import TooManyElements, refuse_many_elements
from gateway.domain.rawjson import Fields
from gateway.upstream.adapter import AttemptFailed, Failure, Order, OutputCounter, WholeAnswer, as_object
from gateway.upstream.answer_errors import failure_named, failure_told, reports_error
from gateway.upstream.call_book import CallBook, deltas_of, part_of
from gateway.upstream.error_body import excerpt, read_error
from gateway.upstream.failures import bad_response
from gateway.upstream.finish_words import is_broken, unknown_word
from gateway.upstream.openai import chunks
from gateway.upstream.openai.chunks import COMPLETION, ID_LIMIT, REASONS, identity, native_reason, upstream_id
from gateway.upstream.redaction.answers import Screen
from gateway.upstream.usage_marks import marks_of
from gateway.upstream.usage_parts import named_variant
from gateway.upstream.usage_report import RegularUsage, UsageReports, reading_of

_ASSISTANT = msgspec.Raw(b'"assistant"')


class RepairedChoice(msgspec.Struct, frozen=True):
    """What was found: the finish reason, and whether the choice was edited."""

    finish: str
    changed: bool
    marks: tuple[str, ...] = ()


def repair(choice: Fields, position: int, seed: str, tally: OutputCounter, channel: Channel) -> RepairedChoice:
    """Edits the choice in place. Raises ValueError if it is none, AttemptFailed if it ended in a failure."""
    reason = rawjson.value(choice.get("finish_reason"))
    word = reason if isinstance(reason, str) else ""
    if is_broken(word):
        raise AttemptFailed(failure_named(channel, word))
    withheld = rawjson.is_null(choice.get("message")) and native_reason(word, tools=False) == "content_filter"
    message = {} if withheld else rawjson.fields(choice.get("message", rawjson.NULL))
    before = None if withheld else dict(message)
    chunks.normalize_texts(message)
    chunks.count_texts(message, tally)
    message.setdefault("content", rawjson.NULL)
    if not rawjson.maybe(message.get("role")):
        message["role"] = _ASSISTANT
    tools = _mend_calls(message, f"{seed}/{position}", tally)
    finish = native_reason(word, tools=tools)
    changed = message != before
    if changed:
        choice["message"] = rawjson.raw(message)
    if finish != reason:
        choice["finish_reason"] = rawjson.raw(finish)
        changed = True
    if not isinstance(rawjson.value(choice.get("index")), int):
        choice["index"] = rawjson.raw(position)
        changed = True
    return RepairedChoice(finish, changed, unknown_word(word))


def _mend_calls(message: Fields, seed: str, tally: OutputCounter) -> bool:
    """Whether there are tool calls; an empty list of them is taken out. Raises ValueError if one has no name."""
    if "tool_calls" not in message:
        legacy = message.get("function_call", rawjson.NULL)
        tally.add("" if rawjson.is_null(legacy) else bytes(legacy).decode())
        return False
    raw = message["tool_calls"]
    calls = [] if rawjson.is_null(raw) else [call for call, _ in deltas_of(raw)]
    book, kept = CallBook(seed), []
    for position, call in enumerate(calls):
        mended = _mend_call(call, book, position, tally)
        if mended is not None:
            kept.append(mended)
    if book.nameless:
        raise ValueError("a tool call has no name")
    if not kept:
        del message["tool_calls"]
    elif kept != calls or bytes(memoryview(raw)[:1]) == b"{":
        message["tool_calls"] = rawjson.raw(kept)
    return bool(kept)


def _mend_call(call: Fields, book: CallBook, position: int, tally: OutputCounter) -> Fields | None:
    """The call as clients rely on it; None if it repeats another one."""
    part = part_of(call, position=position)
    placed = book.place(part)
    if placed is None or not placed.opened:
        return None
    tally.tool()
    tally.add(placed.call.name)
    kind, key = ("custom", "input") if part.custom else ("function", "arguments")
    inner = {} if rawjson.is_null(call.get(kind)) else rawjson.fields(call[kind])
    said = {**inner, "name": rawjson.raw(placed.call.name), key: msgspec.Raw(placed.piece or b'""')}
    tally.add(rawjson.text(said[key]))
    mended = {"type": rawjson.raw(kind), **call, "id": rawjson.raw(placed.call.id)}
    return mended if said == inner else {**mended, kind: rawjson.raw(said)}


class _RegularMessage(msgspec.Struct, gc=False):
    role: str
    content: str | None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | msgspec.UnsetType | None = msgspec.UNSET
    reasoning_details: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    tool_calls: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    function_call: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _Choice(msgspec.Struct, gc=False):
    index: int
    message: _RegularMessage
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
    """The same; in most answers one decode thus shows that there are no other fields to be screened."""

    choices: list[_BareChoice]  # type: ignore[assignment]


_Found = TypeVar("_Found")

_CHOICES = msgspec.json.Decoder(list[_Choice])
_BARE_CHOICES = msgspec.json.Decoder(list[_BareChoice])
_ANSWER = msgspec.json.Decoder(_Answer)
_BARE_ANSWER = msgspec.json.Decoder(_BareAnswer)


def whole_of_regular(body: bytes, order: Order) -> WholeAnswer | None:
    """The answer as it came, if nothing in it is to be changed; else None.

    Raises TooManyElements, but not for what is read here alone: of that little is opened.
    """
    screen = order.screen
    found: _Answer | None
    try:
        found = _BARE_ANSWER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        refuse_many_elements(body, opens_logprobs=False)
        found = _decode(_ANSWER, body)
        if found is None or _shows_beside(body, screen):
            return None
    name = found.id
    good = 0 < len(name) < ID_LIMIT and found.created > 0 and found.object == "chat.completion"
    if not good or found.model != order.model or found.timings is not msgspec.UNSET:
        return None
    if not (name.isascii() and name.isprintable()):
        return None
    for text in (name, found.system_fingerprint, found.service_tier):
        if text and screen.shows(text):
            return None
    tally = OutputCounter()
    finish = _finish(found.choices, tally)
    reading = reading_of(found.usage)
    if not finish or reading is None or not (found.usage.total_tokens or tally.empty):
        return None
    usage = reading.usage
    marks: tuple[str, ...] = ()
    if found.service_tier:
        marks = marks_of({"service_tier": found.service_tier}, suspect=False)
        if variant := named_variant(found.service_tier):
            usage = msgspec.structs.replace(usage, variant=variant)
    return WholeAnswer(body=body, reported=usage, finish=finish, upstream_id=name, tally=tally, marks=marks)


def finish_of_regular(choices: msgspec.Raw, tally: OutputCounter, screen: Screen) -> str:
    """The finish reason of the first choice, and the texts in the tally; empty if one of the choices is not regular."""
    found: Sequence[_Choice] | None = _decode(_BARE_CHOICES, choices)
    if found is None:
        found = _decode(_CHOICES, choices)
        if found is None or any(map(screen.hides_in, rawjson.objects(choices))):
            return ""
    return _finish(found, tally)


def _decode(decoder: "msgspec.json.Decoder[_Found]", data: bytes | msgspec.Raw) -> _Found | None:
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _shows_beside(body: bytes, screen: Screen) -> bool:
    """Whether a secret shows in the answer, or in one of its choices, beside what is read here."""
    fields = rawjson.fields(body)
    return screen.hides_in(fields) or any(map(screen.hides_in, rawjson.objects(fields["choices"])))


def _finish(found: Sequence[_Choice], tally: OutputCounter) -> str:
    for position, choice in enumerate(found):
        message = choice.message
        regular = (
            choice.index == position
            and message.role == "assistant"
            and choice.finish_reason in REASONS
            and message.tool_calls is msgspec.UNSET
            and message.function_call is msgspec.UNSET
            and (message.reasoning_content is None or message.reasoning is msgspec.UNSET)  # not the same text twice
            and (message.reasoning_details is msgspec.UNSET or bool(message.reasoning))
        )
        if not regular:
            return ""
        for text in (message.content, message.reasoning_content, message.reasoning, message.refusal):
            if text:
                tally.add(text)
    return found[0].finish_reason if found else ""


def read_whole(body: bytes, order: Order, channel: Channel) -> WholeAnswer:
    """The answer. Raises AttemptFailed when it is an error, or no chat completion.

    Blank lines before it are legal: DeepSeek sends them to keep the connection alive.
    """
    body = body.strip().removeprefix(b"\xef\xbb\xbf")
    try:
        if not body.isascii():
            body.decode()  # what is passed on unopened must be UTF-8, too
        if (regular := whole_of_regular(body, order)) is not None:
            return regular
        tally = OutputCounter()
        odd: tuple[str, ...] = ()
        refuse_many_elements(body, opens_logprobs=False)
        answer = rawjson.fields(body)
        finish = finish_of_regular(answer.get("choices", rawjson.NULL), tally, order.screen)
        if not finish:
            finish, odd = _repair(answer, order, tally, channel)
        if not finish and reports_error(answer):
            raise AttemptFailed(failure_told(channel, body))
    except TooManyElements as exc:
        raise AttemptFailed(bad_response(channel, str(exc))) from exc
    except ValueError as exc:
        raise AttemptFailed(_no_completion(body, channel)) from exc
    if not finish:
        raise AttemptFailed(_no_completion(body, channel))
    return _finish_answer(answer, finish, odd, order, tally)


def _repair(answer: Fields, order: Order, tally: OutputCounter, channel: Channel) -> tuple[str, tuple[str, ...]]:
    """Repairs the choices; returns the first one's finish reason, or nothing if there are none, and marks.

    Raises ValueError.
    """
    found = answer.get("choices", rawjson.NULL)
    choices = [] if rawjson.is_null(found) else rawjson.objects(found)
    repaired = [repair(choice, i, order.answer_id, tally, channel) for i, choice in enumerate(choices)]
    cleaned = [order.screen.clean(choice) for choice in choices]
    if any(cleaned) or any(choice.changed for choice in repaired):
        answer["choices"] = rawjson.raw(choices)
    marks = tuple(mark for choice in repaired for mark in choice.marks)
    return (repaired[0].finish if repaired else ""), marks


def _finish_answer(
    answer: Fields, finish: str, odd: tuple[str, ...], order: Order, tally: OutputCounter
) -> WholeAnswer:
    reports = UsageReports(order.fields)
    reports.see(answer)
    reported = reports.usage(tally)
    if reported is None:
        answer.pop("usage", None)
    elif reports.corrected:
        answer["usage"] = reports.as_sent() or rawjson.raw(as_object(reported))
    if reported is not None and order.screen.hides(answer.get("usage", rawjson.NULL)):
        answer["usage"] = rawjson.raw(as_object(reported))
    name = upstream_id(answer, order.screen)
    answer.update(identity(answer, name, order, COMPLETION))
    order.screen.clean(answer)
    return WholeAnswer(
        body=rawjson.encode(answer),
        reported=reported,
        finish=finish,
        upstream_id=name,
        tally=tally,
        marks=(*odd, *reports.marks),
    )


def _no_completion(body: bytes, channel: Channel) -> Failure:
    said = read_error(body[:65536])
    what = "not a chat completion" if said.json else "not valid JSON"
    return bad_response(channel, f"it is {what}: {said.message or excerpt(body) or 'an empty body'}")
