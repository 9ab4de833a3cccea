"""Relays: no byte of an answer changes, the terminal event waits, and requests are edited only where they must be."""

import re

import msgspec
import pytest

from gateway.domain.call import FailureKind
from gateway.domain.failure import Failure, UpstreamText
from gateway.domain.sse import Framer, SSEEvent
from gateway.domain.usage import NOTHING, Usage
from gateway.inbound import relay
from gateway.upstream.failures import bad_response
from tests.upstream.makers import channel, order


class LineReader(relay.NativeTap):
    """Events are words; ``end`` is the terminal one, ``oops`` a failure, ``odd`` makes no sense."""

    def take(self, event: SSEEvent) -> bytes | None:
        if event.data == b"odd":
            raise ValueError
        if event.data == b"oops":
            self.failure = bad_response(channel(), "oops")
        self.began = self.began or (self.failure is None and event.data != b"soon")
        self.done = event.data == b"end"
        return b"data: ours\n\n" if event.data == b"theirs" else None

    def replay(self, body: bytes) -> bytes:
        return b"data: %b\n\n" % body

    def cut_short(self) -> bytes:
        return b"data: cut\n\n"

    def terminal_event(self, usage: Usage) -> bytes:
        return b"data: closing\n\n"


def native() -> relay.NativeStream:
    return relay.NativeStream(channel(), LineReader(order(), channel()))


ENDS = ["\n", "\r\n", "\r"]
TEXT = "event: x\ndata: one\n\n: hello\n\ndata: two\ndata: too\n\nid: 7\n\ndata: end\n\n"


@pytest.mark.parametrize("end", ENDS)
def test_every_split_gives_the_same_bytes_except_for_the_terminal_event(end: str) -> None:
    came = TEXT.replace("\n", end).encode()
    passed, terminal = came[: came.rindex(b"data: end")], came[came.rindex(b"data: end") :]
    for size in range(1, len(came) + 1):
        stream = native()
        out = b"".join(stream.feed(came[i : i + size]) for i in range(0, len(came), size)) + stream.end()
        assert (out, stream.tail(NOTHING), stream.finished) == (passed, terminal, True), size


@pytest.fixture
def stream() -> relay.NativeStream:
    return native()


@pytest.mark.parametrize(
    "sign", [b": processing\n\n", b"event: ping\ndata: {}\n\n", b"event: keepalive\ndata: {}\n\n", b"retry: 3\n\n"]
)
def test_a_sign_of_life_is_not_an_answer_yet(stream: relay.NativeStream, sign: bytes) -> None:
    """Once the client has a byte no other channel can answer, and the gateway sends signs of its own until then."""
    assert (stream.feed(sign), stream.started) == (b"", False)
    assert stream.feed(b"data: one\n\n" + sign) == b"data: one\n\n" + sign
    failed = native()
    assert (failed.feed(sign * 2), failed.feed(b"data: oops\n\n"), failed.started) == (b"", b"", False)


def test_what_comes_before_an_answer_waits_for_it(stream: relay.NativeStream) -> None:
    soon = b"data: soon\n\n"
    assert (stream.feed(soon), stream.held, stream.feed(soon), stream.held) == (b"", len(soon), b"", 2 * len(soon))
    assert (stream.feed(b"data: one\n\n"), stream.held) == (soon * 2 + b"data: one\n\n", 0)
    failed, cut = native(), native()
    assert failed.feed(soon) + failed.feed(b"data: oops\n\n") == b""
    assert cut.feed(soon) + cut.cut_short() == soon + b"data: cut\n\n"


def test_only_three_events_wait_for_an_answer(stream: relay.NativeStream) -> None:
    soon = b"data: soon\n\n"
    assert [stream.feed(soon) for _ in range(5)] == [b"", b"", b"", soon * 4, soon]
    assert stream.held == 0


def test_an_event_may_be_replaced() -> None:
    assert native().feed(b"data: theirs\n\ndata: it\n\n") == b"data: ours\n\ndata: it\n\n"


def test_nothing_passes_after_the_terminal_event(stream: relay.NativeStream) -> None:
    assert stream.feed(b"data: end\n\ndata: more\n\n") == b""
    assert stream.feed(b"data: more\n\n") == stream.end() == b""
    assert stream.tail(NOTHING) == b"data: end\n\n"


@pytest.mark.parametrize("last", [b"data: oops\n\n", b"data: odd\n\n"])
def test_a_failure_ends_the_stream_and_does_not_pass(stream: relay.NativeStream, last: bytes) -> None:
    assert stream.feed(b"data: one\n\n" + last + b"data: end\n\n") == b"data: one\n\n"
    assert (stream.failure is not None, stream.finished) == (True, False)


def test_a_stream_that_just_ends_has_failed(stream: relay.NativeStream) -> None:
    stream.feed(b"data: one\n\ndata: tw")
    assert (stream.end(), stream.finished) == (b"", False)
    assert stream.failure is not None
    assert stream.failure.code == "upstream_stream_truncated"


def test_a_last_event_counts_without_its_blank_line(stream: relay.NativeStream) -> None:
    out = stream.feed(b'data: one\n\ndata: "two"\n') + stream.end()
    assert out == b'data: one\n\ndata: "two"\n\n'


def test_a_body_that_came_instead_of_events_is_replayed(stream: relay.NativeStream) -> None:
    body = b'{"a":1}'
    assert stream.feed(b" " + body[:3]) + stream.feed(body[3:]) + stream.end() == b'data:  {"a":1}\n\n'
    assert (stream.finished, stream.tail(NOTHING)) == (True, b"data: closing\n\n")


def test_an_answer_that_is_cut_short_has_one_terminal_event(stream: relay.NativeStream) -> None:
    stream.feed(b"data: one\n\n")
    assert (stream.cut_short(), stream.tail(NOTHING)) == (b"data: cut\n\n", b"data: closing\n\n")


def test_an_endless_event_is_not_kept(stream: relay.NativeStream) -> None:
    for _ in range(17):
        stream.feed(b"x" * (1 << 20))
    assert stream.failure is not None


def test_a_framer_keeps_blank_lines() -> None:
    framer = Framer()
    assert framer.feed(b"\n\n\ndata: a\r\n\r\nda") == b"\n\n\ndata: a\r\n\r\n"
    assert (framer.held, framer.end()) == (2, b"da")


def test_only_named_headers_go_on() -> None:
    headers = {"Anthropic-Version": "v", "anthropic-beta": "a", "Anthropic-Beta": "b", "Cookie": "c", "x-api-key": "k"}
    assert relay.forwarded_headers(headers, re.compile("anthropic-.*")) == {
        "anthropic-version": "v",
        "anthropic-beta": "a,b",
    }


def test_a_channels_own_headers_win() -> None:
    asked = msgspec.structs.replace(order(), forward={"anthropic-version": "a", "anthropic-beta": "b"})
    found = relay.native_headers(asked, channel(headers={"Anthropic-Beta": "own"}))
    assert (found.get("anthropic-version"), "anthropic-beta" in found) == ("a", False)


def test_a_body_that_needs_no_change_is_the_clients_own() -> None:
    body = b'{ "model" : "m", "x": 1.50 }'
    asked = msgspec.structs.replace(order(body.decode()), body=body)
    assert asked.body_with({**asked.fields, "model": msgspec.Raw(b'"m"')}) is body
    assert asked.body_with({**asked.fields, "model": msgspec.Raw(b'"n"')}) == b'{"model":"n","x":1.50}'


def failed(status: int, kind: FailureKind, body: bytes = b'{"error":{}}') -> Failure:
    refused = ("x", "rule", "z") if kind is FailureKind.CLIENT else ()
    found = Failure(kind=kind, code="c", text=UpstreamText("t"), status=status, parameters=refused)
    return relay.native_failure(found, body, {"x": ("a.x", "b.x"), "y": ("y",)}, "rule".__eq__)


@pytest.mark.parametrize(
    ("status", "kind", "lacks"),
    [
        (404, FailureKind.SERVER, True),
        (405, FailureKind.SERVER, True),
        (501, FailureKind.SERVER, True),
        (501, FailureKind.CLIENT, False),  # llama.cpp: a request with an image, which is repaired
        (404, FailureKind.MISSING, False),
        (500, FailureKind.SERVER, False),
    ],
)
def test_a_channel_without_the_api_is_not_one_without_the_model(status: int, kind: FailureKind, lacks: bool) -> None:
    assert failed(status, kind).lacks_api is lacks


def test_only_the_clients_mistakes_are_reported_in_the_upstreams_words() -> None:
    body = b'{"error": {"message":"thinking.type"}}'
    assert failed(400, FailureKind.CLIENT, body).verbatim.apply(str) == body.decode()
    assert not failed(400, FailureKind.CLIENT, b"<html>").verbatim
    assert not failed(401, FailureKind.AUTH, body).verbatim
    assert failed(400, FailureKind.CLIENT).parameters == ("a.x", "b.x", "rule")
