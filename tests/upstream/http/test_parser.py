"""Answers are found in bytes at any split; what is not HTTP, too much of it, or more than was requested is refused."""

import asyncio
import gzip
import time
import zlib

import pytest

from gateway.upstream.http import parser as parser_module
from gateway.upstream.http.parser import HEAD_LIMIT, HIGH_WATER, ConnectionBroken, Inflater, Parser, WireAnswer
from tests.upstream.http.makers import OK, head_of, until

HI = b"Content-Length: 2\r\n\r\nhi"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n"


class _Line:
    def resume_reading(self) -> None: ...

    def abort(self) -> None: ...


def _feed(data: bytes, size: int = 1 << 20) -> tuple[Parser, WireAnswer]:
    parser, answer = Parser(), WireAnswer(_Line())
    parser.begin(answer)
    for start in range(0, len(data), size):
        parser.feed(data[start : start + size])
    return parser, answer


WHOLE: dict[str, bytes] = {
    "length": OK + HI,
    "chunks": CHUNKED + b"\r\n1\r\nh\r\n1\r\ni\r\n0\r\n\r\n",
    "chunks in capitals, with blanks": OK + b"Transfer-Encoding: Chunked \r\n\r\n2\r\nhi\r\n0\r\n\r\n",
    "chunked twice": OK + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
    "chunk extension": CHUNKED + b"\r\n2;a=b\r\nhi\r\n0\r\n\r\n",
    "trailers": CHUNKED + b"\r\n2\r\nhi\r\n0\r\nContent-Encoding: gzip\r\n\r\n",
    "continue": b"HTTP/1.1 100 Continue\r\n\r\n" + OK + HI,
    "early hints": b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" * 10 + OK + HI,
    "offers an upgrade, as Apache does": OK + b"Upgrade: h2,h2c\r\nConnection: Upgrade\r\n" + HI,
    "no reason": b"HTTP/1.1 200\r\n" + HI,
    "HTTP/1.0 that stays": b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n" + HI,
}


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1 << 20])
@pytest.mark.parametrize("case", WHOLE)
async def test_a_whole_answer_is_read_in_pieces_of_any_size(case: str, size: int) -> None:
    parser, answer = _feed(WHOLE[case], size)
    assert (answer.status, answer.complete, await answer.receive(), parser.reusable) == (200, True, b"hi", True)
    assert "content-encoding" not in answer.headers


@pytest.mark.parametrize("status", [204, 304])
def test_some_answers_have_no_body_whatever_they_say(status: int) -> None:
    _, answer = _feed(b"HTTP/1.1 %d X\r\nContent-Length: 2\r\n\r\n" % status)
    assert answer.complete


@pytest.mark.parametrize("head", [OK + b"Connection: close\r\n", b"HTTP/1.0 200 OK\r\n"], ids=["close", "1.0"])
def test_a_connection_that_is_not_kept_is_not_reusable(head: bytes) -> None:
    parser, answer = _feed(head + HI)
    assert (answer.complete, parser.reusable) == (True, False)


BAD: dict[str, bytes] = {
    "length and chunks": OK + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
    "two lengths": OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nhi!",
    "signed length": OK + b"Content-Length: +2\r\n\r\nhi",
    "huge length": OK + b"Content-Length: 99999999999999999999999\r\n\r\nhi",
    "other coding": OK + b"Transfer-Encoding: gzip\r\n\r\nhi",
    "packed chunks": OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
    "101": b"HTTP/1.1 101 X\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\nPRI",
    "too many hints": b"HTTP/1.1 103 X\r\n\r\n" * (10 + 1),
    "HTTP/0.9": b"hello world, this is long",
    "mail": b"220 mail ready\r\n",
    "status 999": b"HTTP/1.1 999 X\r\n\r\n",
    "status 99": b"HTTP/1.1 099 X\r\n\r\n",
    "status 2000": b"HTTP/1.1 2000 X\r\n\r\n",
    "bare LF": b"HTTP/1.1 200 OK\nContent-Length: 2\n\nhi",
    "folded header": OK + b"X: a\r\n b\r\n\r\n",
    "NUL in a header": OK + b"X: a\0b\r\n\r\n",
    "blank before the colon": OK + b"X : a\r\n\r\n",
    "endless reason": b"HTTP/1.1 200 " + b"x" * (HEAD_LIMIT + 2000),
    "endless header": OK + b"X: " + b"y" * (HEAD_LIMIT + 2000),
    "one long header": OK + b"X: " + b"y" * (HEAD_LIMIT + 100) + b"\r\n" + HI,
    "many headers": OK + b"".join(b"X%d: y\r\n" % n for n in range(200 + 1)) + HI,
    "the same header for ever": OK + b"X: y\r\n" * HEAD_LIMIT + HI,
    "chunk without CR": CHUNKED + b"\r\n2\nhi\n0\n\n",
    "chunk too large": CHUNKED + b"\r\nfffffffffffffffff\r\nhi",
    "negative chunk": CHUNKED + b"\r\n-2\r\nhi",
    "chunk longer than it says": CHUNKED + b"\r\n2\r\nhiX\r\n0\r\n\r\n",
    "no chunk": CHUNKED + b"\r\nzz\r\n",
    "endless chunk extension": CHUNKED + b"\r\n2;" + b"y" * (HEAD_LIMIT + 2000),
    "endless trailer": CHUNKED + b"\r\n2\r\nhi\r\n0\r\nX: " + b"y" * (HEAD_LIMIT + 2000),
    "endless trailers": CHUNKED + b"\r\n0\r\n" + b"X: y\r\n" * HEAD_LIMIT,
    "two answers": OK + HI + OK + HI,
    "a body where there is none": b"HTTP/1.1 204 X\r\nContent-Length: 2\r\n\r\nhi",
    "words after the last": OK + b"Connection: close\r\n" + HI + b"HTTP",
}


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("case", BAD)
def test_a_malformed_answer_breaks_the_connection(case: str, size: int) -> None:
    with pytest.raises(ConnectionBroken) as caught:
        _feed(BAD[case], size)
    assert caught.value.malformed


def test_headers_are_lower_case_and_repeated_ones_joined() -> None:
    _, answer = _feed(OK + b"X-A: 1\r\nx-a: 2\r\nX-B:  \xe4 \r\n" + HI)
    assert answer.headers == {"x-a": "1, 2", "x-b": "\xe4", "content-length": "2"}


def test_hints_leave_no_headers() -> None:
    _, answer = _feed(b"HTTP/1.1 103 X\r\nLink: x\r\n\r\n" + OK + HI)
    assert answer.headers == {"content-length": "2"}


async def test_one_answer_after_the_other() -> None:
    parser, first = _feed(OK + HI)
    second = WireAnswer(_Line())
    parser.begin(second)
    parser.feed(b"HTTP/1.1 201 X\r\nContent-Length: 3\r\n\r\nyou")
    assert (first.status, second.status, await second.receive()) == (200, 201, b"you")


class _AnswerLine:
    def __init__(self) -> None:
        self.told: list[str] = []

    def resume_reading(self) -> None:
        self.told.append("go on")

    def abort(self) -> None:
        self.told.append("abort")


@pytest.fixture
def line() -> _AnswerLine:
    return _AnswerLine()


@pytest.fixture
def answer(line: _AnswerLine) -> WireAnswer:
    return WireAnswer(line)


async def test_a_reader_that_waits_for_the_head_gets_it(answer: WireAnswer) -> None:
    parser = Parser()
    parser.begin(answer)
    asyncio.get_running_loop().call_soon(parser.feed, OK + b"a: b\r\n\r\n")
    asyncio.get_running_loop().call_soon(answer.wake)
    await head_of(answer)
    assert (answer.status, answer.headers) == (200, {"a": "b"})


async def test_pieces_that_have_come_are_given_together(answer: WireAnswer) -> None:
    answer.feed_body(b"a")
    answer.feed_body(b"b")
    assert await answer.receive() == b"ab"


async def test_a_deadline_that_is_noticed_late_is_extended_once(
    answer: WireAnswer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parser_module, "LATE_S", 0.01)
    rings: list[str] = []
    answer.arm(asyncio.get_running_loop().time() - 0.1, rings.append, "late")
    await asyncio.sleep(0)
    assert rings == []
    for _ in range(5):
        time.sleep(0.2)  # noqa: ASYNC251 - nothing else runs meanwhile
        await asyncio.sleep(0)
    assert rings == ["late"]


async def test_an_answer_is_full_until_it_is_read(answer: WireAnswer, line: _AnswerLine) -> None:
    seen = []
    for data in (b"x" * HIGH_WATER, b"x"):
        answer.feed_body(data)
        seen.append(answer.full)
    await answer.receive()
    assert ([*seen, answer.full], line.told) == ([False, True, False], ["go on"])


async def test_what_came_before_a_break_is_given_before_the_error(answer: WireAnswer) -> None:
    answer.feed_body(b"a")
    answer.connection_lost(ConnectionBroken("cut"))
    assert await answer.receive() == b"a"
    with pytest.raises(ConnectionBroken, match="cut"):
        await answer.receive()


async def test_the_first_error_is_the_one_that_is_reported(answer: WireAnswer, line: _AnswerLine) -> None:
    answer.fail(TimeoutError("late"))
    answer.connection_lost(ConnectionBroken("cut"))
    with pytest.raises(TimeoutError, match="late"):
        await head_of(answer)
    assert line.told == ["abort"]


async def test_a_failure_wakes_the_waiting_ones(answer: WireAnswer) -> None:
    asyncio.get_running_loop().call_soon(answer.fail, TimeoutError("late"))
    with pytest.raises(TimeoutError, match="late"):
        await head_of(answer)


async def test_after_the_end_the_connection_is_left_alone(answer: WireAnswer, line: _AnswerLine) -> None:
    answer.feed_body(b"a")
    answer.finish()
    answer.abort()
    answer.fail(TimeoutError())
    answer.discard(1)
    assert (await answer.receive(), await answer.receive(), line.told) == (b"a", b"", [])


async def test_a_dropped_answer_keeps_nothing(answer: WireAnswer, line: _AnswerLine) -> None:
    answer.feed_body(b"x" * 2 * HIGH_WATER)
    answer.discard(60)
    answer.feed_body(b"x" * 2 * HIGH_WATER)
    assert (answer.full, line.told) == (False, ["go on"])
    answer.finish()


async def test_a_dropped_answer_that_does_not_end_is_aborted(answer: WireAnswer, line: _AnswerLine) -> None:
    answer.discard(0)
    await until(lambda: "abort" in line.told)
    assert line.told == ["go on", "abort"]


TEXT = b"the same words again and again, " * 50


def _packed(wbits: int, data: bytes = TEXT) -> bytes:
    pack = zlib.compressobj(wbits=wbits)
    return pack.compress(data) + pack.flush()


GZIP = _packed(31)
BODIES = {
    "gzip": ("gzip", GZIP),
    "x-gzip": ("x-gzip", GZIP),
    "deflate": ("deflate", _packed(15)),
    "deflate without a header": ("deflate", _packed(-15)),
    "members": ("gzip", _packed(31, TEXT[:100]) + _packed(31, TEXT[100:])),
}


def _unpack(coding: str, data: bytes, size: int) -> bytes:
    inflater, out = Inflater(coding), []
    for start in range(0, len(data), size):
        out.append(inflater.feed(data[start : start + size]))
        while inflater.pending:
            out.append(inflater.feed(b""))
    inflater.end()
    return b"".join(out)


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
@pytest.mark.parametrize("case", BODIES)
def test_bodies_at_any_split(case: str, size: int) -> None:
    assert _unpack(*BODIES[case], size) == TEXT


@pytest.mark.parametrize("case", BODIES)
def test_a_body_that_ends_early_is_reported_at_every_cut(case: str) -> None:
    coding, data = BODIES[case]
    whole_member = len(_packed(31, TEXT[:100]))
    for cut in range(1, len(data)):
        if not (case == "members" and cut == whole_member):
            with pytest.raises(ValueError, match="ends too early"):
                _unpack(coding, data[:cut], 1000)


def test_damage_is_reported() -> None:
    with pytest.raises(ValueError, match="damaged"):
        _unpack("gzip", GZIP[:-5] + b"\xff" * 5, 1000)
    with pytest.raises(ValueError, match="damaged"):
        _unpack("gzip", GZIP + b"more that is no member", 1000)


@pytest.mark.parametrize("size", [1, 1000])
def test_a_body_that_was_not_packed_at_all_passes_as_it_came(size: int) -> None:
    assert _unpack("gzip", b'{"id": 1}', size) == b'{"id": 1}'


def test_a_bomb_comes_in_bounded_pieces() -> None:
    inflater = Inflater("gzip")
    piece = inflater.feed(gzip.compress(bytes(20 * 32 * 1024), mtime=0))
    assert (len(piece), bool(inflater.pending)) == (32 * 1024, True)


def test_a_thousand_members_do_no_harm() -> None:
    assert _unpack("gzip", _packed(31, b"x") * 1000, 100) == b"x" * 1000
