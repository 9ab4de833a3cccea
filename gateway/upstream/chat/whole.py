"""Whole: a plain answer of another dialect, as a chat completion that is then handled as such."""

import msgspec

from gateway.domain.channel import Channel
from gateway.upstream import rawjson
from gateway.upstream.adapter import AttemptFailed, Order, Whole
from gateway.upstream.chat.decoder import Decoder, transcribe, transcribe_end
from gateway.upstream.chat.stream import WholeReader
from gateway.upstream.failures import bad_response
from gateway.upstream.openai.assemble import assemble, is_stream
from gateway.upstream.openai.whole import read_whole
from gateway.upstream.reports import SUSPECT
from gateway.upstream.said import read_error
from gateway.upstream.sse import BLANK, EventTooLong, Framer, parse


def read_translated(body: bytes, order: Order, channel: Channel, decoder: Decoder, whole: WholeReader) -> Whole:
    """The answer, which may have come as events although none were asked for. Raises AttemptFailed."""
    if not is_stream(body):
        found = whole(body)
        answer = read_whole(found.body, order, channel)
        return _doubted(answer) if found.suspect else answer
    framer = Framer()
    try:
        blocks = (framer.feed(body) + framer.end()).split(BLANK)
    except EventTooLong as exc:
        raise AttemptFailed(bad_response(channel, str(exc))) from exc
    events = filter(None, map(parse, blocks))
    chat = b"".join(transcribe(decoder, event) for event in events) + transcribe_end(decoder)
    if decoder.failure is not None:
        raise AttemptFailed(decoder.failure)
    answer = _completed(assemble(chat, order, channel))
    return _doubted(answer) if decoder.suspect else answer


def _doubted(answer: Whole) -> Whole:
    return msgspec.structs.replace(answer, marks=tuple(dict.fromkeys((*answer.marks, SUSPECT))))


def _completed(whole: Whole) -> Whole:
    """The answer with the fields that streams leave out."""
    answer = rawjson.fields(whole.body)
    choices = rawjson.objects(answer["choices"])
    for choice in choices:
        message = rawjson.fields(choice["message"])
        message.setdefault("refusal", rawjson.NULL)
        choice.setdefault("logprobs", rawjson.NULL)
        choice["message"] = rawjson.raw(message)
    answer["choices"] = rawjson.raw(choices)
    return msgspec.structs.replace(whole, body=rawjson.encode(answer))


def no_answer(body: bytes, channel: Channel) -> AttemptFailed:
    """The failure of a body that is no answer of the dialect."""
    said = read_error(body[:65536])
    what = "no answer" if said.json else "no JSON"
    return AttemptFailed(bad_response(channel, f"it is {what}: {said.message or 'an empty body'}"))
