"""Whole: a plain answer of another dialect, as a chat completion that is then handled as such."""

import msgspec

from gateway.domain.channel import Channel
from gateway.upstream.adapter import AttemptFailed, Order, Whole
from gateway.upstream.chat.stream import Decoder, WholeReader, transcribe
from gateway.upstream.failures import bad_response
from gateway.upstream.openai.assemble import assemble, is_stream
from gateway.upstream.openai.stream import DONE
from gateway.upstream.openai.whole import read_whole
from gateway.upstream.said import read_error
from gateway.upstream.sse import BLANK, Framer, parse


def read_translated(body: bytes, order: Order, channel: Channel, decoder: Decoder, whole: WholeReader) -> Whole:
    """The answer, which may have come as events although none were asked for. Raises AttemptFailed."""
    if not is_stream(body):
        return read_whole(whole(body), order, channel)
    framer = Framer()
    events = [parse(part) for part in (framer.feed(body) + framer.end()).split(BLANK)]
    chat = b"".join(transcribe(decoder, event) for event in events if event is not None)
    chat += b"".join(b"data: " + msgspec.json.encode(chunk) + BLANK for chunk in decoder.end())
    if decoder.failure is not None:
        raise AttemptFailed(decoder.failure)
    return assemble(chat + DONE if decoder.complete else chat, order, channel)


def no_answer(body: bytes, channel: Channel) -> AttemptFailed:
    """The failure of a body that is no answer of the dialect."""
    said = read_error(body[:65536])
    what = "no answer" if said.json else "no JSON"
    return AttemptFailed(bad_response(channel, f"it is {what}: {said.message or 'an empty body'}"))
