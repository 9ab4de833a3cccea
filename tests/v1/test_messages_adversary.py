"""Messages at upstreams that misbehave: every answer is charged, and no secret of a channel reaches a client."""

from collections.abc import Mapping

import pytest

from gateway.domain.usage import UsageSource
from tests.fakes.gateway import Gateway
from tests.fakes.messages import block_events, event, message, read_events, speak_messages, text_block
from tests.fakes.provider import Provider
from tests.fakes.replies import Doc, in_steps, reply
from tests.v1.test_messages import HELLO, PATH, native, post

__all__ = ["native"]

KEY = "sk-upstream-canary"
TEXT = "word " * 400


def _start(**usage: int) -> bytes:
    return event("message_start", message={**message(), "content": [], "usage": usage})


def _text(**delta: object) -> list[bytes]:
    piece = delta or {"type": "text_delta", "text": TEXT}
    begin, *_, end = block_events(0, text_block(TEXT))
    return [begin, event("content_block_delta", index=0, delta=piece), end]


END = {"delta": {"stop_reason": "end_turn", "stop_sequence": None}}
ENDED = (event("message_delta", **END, usage={"output_tokens": 3}), event("message_stop"))
FIRST = {"input_tokens": 9, "output_tokens": 1}
UNREPORTED: Mapping[str, list[bytes]] = {
    "no message_delta": [_start(**FIRST), *_text()],
    "no usage at the end": [_start(**FIRST), *_text(), event("message_delta", **END)],
    "null for usage": [_start(**FIRST), *_text(), event("message_delta", **END, usage=None)],
    "an unknown delta": [_start(**FIRST), *_text(type="new_delta", new=TEXT), event("message_delta", **END)],
}


@pytest.mark.parametrize("events", UNREPORTED.values(), ids=UNREPORTED)
async def test_output_without_a_report_is_estimated(native: Gateway, provider: Provider, events: list[bytes]) -> None:
    """The number at the beginning of a message is not its output."""
    provider.on("m", in_steps(*events, event("message_stop")))
    await post(native, {**HELLO, "max_tokens": 4000, "stream": True})
    (record,) = await native.settled()
    assert (record.input, record.source) == (9, UsageSource.PARTIAL)
    assert 300 < record.output < 600


async def test_a_whole_answer_shows_no_secret_around_its_content(native: Gateway, provider: Provider) -> None:
    doc = {**message(), "id": KEY, "model": KEY, "x": KEY, "stop_sequence": KEY}
    provider.on("m", reply({**doc, "usage": {**doc["usage"], "y": KEY}}))
    answer = await post(native)
    assert (answer.status, KEY.encode() in answer.body) == (200, False)
    assert answer.json["id"].startswith("msg_")
    assert answer.json["usage"]["output_tokens"] == 12


async def test_a_stream_shows_no_secret_around_its_content(native: Gateway, provider: Provider) -> None:
    start = {**message(), "content": [], "id": KEY, "model": KEY, "x": KEY, "usage": {**FIRST, "y": KEY}}
    events = [
        event("message_start", message=start, z=KEY),
        event("content_block_start", index=0, content_block={"type": "text", "text": "", "x": KEY}),
        *_text()[1:2],
        event("content_block_delta", index=0, delta={"type": "new_delta", "id": KEY, "new": [KEY]}),
        event("content_block_delta", index=0, delta={"type": "text_delta", "text": "x", "y": KEY}, z=KEY),
        *_text()[2:],
        event("x_odd", y=KEY),
        event("message_delta", delta={KEY: "x"}, z=KEY),
        event("message_delta", delta={**END["delta"], "x": KEY}, usage={"output_tokens": 3, "z": KEY}),
        event("message_stop", z=KEY),
    ]
    provider.on("m", in_steps(*events))
    answer = await post(native, {**HELLO, "stream": True})
    assert (answer.status, KEY.encode() in answer.body) == (200, False)
    assert answer.body.count(b"event: ") == len(events)


async def test_what_the_model_says_is_never_changed(native: Gateway, provider: Provider) -> None:
    said = [
        event("content_block_delta", index=0, delta={"type": "text_delta", "text": KEY}),
        event("content_block_delta", index=0, delta={"type": "text_delta", "text": KEY, "y": KEY}),
    ]
    provider.on("m", in_steps(_start(**FIRST), _text()[0], *said, _text()[2], *ENDED))
    found = read_events((await post(native, {**HELLO, "stream": True})).body)
    texts = [doc["delta"].get("text") for doc in found if "delta" in doc]
    assert texts[:2] == [KEY, KEY]


async def test_zero_beside_output_is_estimated_and_marked(native: Gateway, provider: Provider, stream: bool) -> None:
    provider.on("m", speak_messages(message(text_block(TEXT), spent={"output_tokens": 0})))
    await post(native, {**HELLO, "max_tokens": 4000, "stream": stream})
    (record,) = await native.settled()
    assert (record.input, record.source) == (9, UsageSource.PARTIAL)
    assert 300 < record.output < 600
    assert "suspect_usage" in record.marks


@pytest.mark.parametrize(("status", "doc"), [(200, {"input_tokens": 5, "k": KEY}), (400, {"error": {"message": KEY}})])
async def test_a_count_shows_no_secret(native: Gateway, provider: Provider, status: int, doc: Doc) -> None:
    provider.on("m", reply(doc, status=status))
    answer = await post(native, path=PATH + "/count_tokens")
    assert (answer.status, KEY.encode() in answer.body) == (status, False)
