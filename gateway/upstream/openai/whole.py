"""Whole: a plain chat completion, checked, and mended where clients would stumble; the rest passes as it came."""

from gateway.domain.channel import Channel
from gateway.domain.usage import UsageSource
from gateway.upstream import rawjson
from gateway.upstream.adapter import AttemptFailed, Failure, Order, Whole, as_object
from gateway.upstream.failures import bad_response
from gateway.upstream.openai.identity import COMPLETION, identity, upstream_id
from gateway.upstream.openai.inband import failure_in, is_error
from gateway.upstream.openai.message import mend
from gateway.upstream.openai.regular import finish_of_regular, whole_of_regular
from gateway.upstream.rawjson import Fields
from gateway.upstream.reports import Reports
from gateway.upstream.said import excerpt, read_error
from gateway.upstream.tally import Tally


def read_whole(body: bytes, order: Order, channel: Channel) -> Whole:
    """The answer. Raises AttemptFailed when it is an error, or no chat completion.

    Blank lines before it are legal: DeepSeek sends them to keep the connection alive.
    """
    body = body.strip().removeprefix(b"\xef\xbb\xbf")
    tally = Tally()
    try:
        if not body.isascii():
            body.decode()  # what is passed on unopened must be UTF-8, too
        if (regular := whole_of_regular(body, order)) is not None:
            return regular
        answer = rawjson.fields(body)
        finish = finish_of_regular(answer.get("choices", rawjson.NULL), tally, order.screen)
        if not finish:
            finish = _mend(answer, order, tally, channel)
        if not finish and is_error(answer):
            raise AttemptFailed(failure_in(body, channel))
    except ValueError as exc:
        raise AttemptFailed(_no_completion(body, channel)) from exc
    if not finish:
        raise AttemptFailed(_no_completion(body, channel))
    return _finished(answer, finish, order, tally)


def _mend(answer: Fields, order: Order, tally: Tally, channel: Channel) -> str:
    """Mends the choices; returns the first one's finish reason, or nothing if there are none. Raises ValueError."""
    found = answer.get("choices", rawjson.NULL)
    choices = [] if rawjson.is_null(found) else rawjson.objects(found)
    mended = [mend(choice, i, order.answer_id, tally, channel) for i, choice in enumerate(choices)]
    cleaned = [order.screen.clean(choice) for choice in choices]
    if any(cleaned) or any(choice.changed for choice in mended):
        answer["choices"] = rawjson.raw(choices)
    return mended[0].finish if mended else ""


def _finished(answer: Fields, finish: str, order: Order, tally: Tally) -> Whole:
    reports = Reports(order.fields)
    reports.see(answer)
    reported = reports.usage(tally)
    if reported is None:
        answer.pop("usage", None)
    elif reports.corrected:
        estimated = reported.source is UsageSource.PARTIAL
        answer["usage"] = reports.as_sent() or rawjson.raw(as_object(reported, estimated=estimated))
    if reported is not None and order.screen.hides(answer.get("usage", rawjson.NULL)):
        answer["usage"] = rawjson.raw(as_object(reported))
    name = upstream_id(answer, order.screen)
    answer.update(identity(answer, name, order, COMPLETION))
    order.screen.clean(answer)
    return Whole(
        body=rawjson.encode(answer),
        reported=reported,
        finish=finish,
        upstream_id=name,
        tally=tally,
        marks=reports.marks,
    )


def _no_completion(body: bytes, channel: Channel) -> Failure:
    said = read_error(body[:65536])
    what = "no chat completion" if said.json else "no JSON"
    return bad_response(channel, f"it is {what}: {said.message or excerpt(body) or 'an empty body'}")
