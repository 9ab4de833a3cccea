"""Events are written down in the words of chat completions."""

import json

from gateway.upstream.sse import SSEEvent
from gateway.upstream.translate.response import transcribe, transcribe_end
from tests.upstream.chat.saying import Sayings
from tests.upstream.makers import channel


def test_an_event_becomes_an_event() -> None:
    out = transcribe(Sayings(channel()), SSEEvent(b'"Hi"'))
    assert json.loads(out.removeprefix(b"data: "))["choices"][0]["delta"] == {"content": "Hi"}
    assert out.endswith(b"\n\n")


def test_the_end_becomes_the_end() -> None:
    assert transcribe(Sayings(channel()), SSEEvent(b'"."')).endswith(b"\n\ndata: [DONE]\n\n")
    assert transcribe_end(Sayings(channel(), late=True)).endswith(b"data: [DONE]\n\n")


def test_what_makes_no_sense_makes_none_there_either() -> None:
    out = transcribe(Sayings(channel()), SSEEvent(b"{\nsk-secret12345"))
    assert out.startswith(b"data: odd event: {")
    assert (out.count(b"\n"), b"secret" in out) == (2, False)
