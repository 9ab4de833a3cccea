"""Parser: the answers in the bytes of one connection, found by httptools, the C parser of Node, within our limits."""

from functools import lru_cache

import httptools

from gateway.upstream.connection.answer import Answer
from gateway.upstream.connection.broken import Broken

HEAD_LIMIT = 64 * 1024
"""Bytes of an answer's head, and of what may come in a row without being part of a body: framing, trailers."""
HEADERS_LIMIT = 200
INFORMATION_LIMIT = 10
"""Answers of status 1xx before the real one."""


class Parser:
    """Reads one answer at a time. The methods named ``on_`` are called by httptools."""

    def __init__(self) -> None:
        self._body: list[bytes] = []
        self.on_body = self._body.append
        """Called for every chunk, hundreds in one read of a stream: a built-in costs a fraction of a method."""
        self._http = httptools.HttpResponseParser(self)
        self._answer: Answer | None = None
        self._headers: dict[str, str] = {}
        self._head_size = 0
        self._no_body = 0
        """Bytes since the last one of a body."""
        self._informed = 0
        self.spoke = False
        """Anything has come of this answer."""
        self.reusable = False
        """The answer came whole and its sender keeps the connection."""

    def begin(self, answer: Answer) -> None:
        """The next answer goes here."""
        self._answer = answer
        self._headers, self._head_size, self._no_body, self._informed = {}, 0, 0, 0
        self.spoke = self.reusable = False

    def close(self) -> None:
        """Nothing more comes. httptools keeps our methods: without this the two would keep each other alive, and with
        them an answer that nobody reads, until the garbage collector looks.
        """
        del self._http
        self._answer = None
        self._body.clear()

    def feed(self, data: bytes | memoryview) -> None:
        """Raises Broken if this is no HTTP, more than an answer, or beyond a limit."""
        self.spoke = True
        self._no_body += len(data)
        try:
            self._http.feed_data(data)
        except httptools.HttpParserUpgrade as exc:
            raise _malformed("it wants to speak another protocol") from exc
        except httptools.HttpParserError as exc:
            ours = exc.__context__ if isinstance(exc.__context__, ValueError) else None
            raise _malformed(str(ours or f"no valid HTTP: {exc}")) from exc
        finally:
            self._pass_on()
        if self._no_body > HEAD_LIMIT and self._answer is not None:
            where = "between its parts" if self._answer.status else "in its head"
            raise _malformed(f"it has more than {HEAD_LIMIT >> 10} KiB {where}")

    def ends(self) -> bool:
        """Whether the end of the connection is the end of the answer: it said neither length nor chunks."""
        headers = self._headers
        whole_head = self._answer is not None and self._answer.status > 0
        return whole_head and "content-length" not in headers and "transfer-encoding" not in headers

    def on_message_begin(self) -> None:
        if self._answer is None:
            raise ValueError("it says more than it was asked")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Of the head, or of the trailers: those are not looked at (RFC 9110, 6.5.1), but counted."""
        self._head_size += len(name) + len(value)
        if self._head_size > HEAD_LIMIT:
            raise ValueError(f"it has more than {HEAD_LIMIT >> 10} KiB in its head")
        if self._answer is None or self._answer.status:
            return
        headers, key = self._headers, _key(name)
        text = value.decode("latin-1").rstrip()
        if key in headers:
            text = f"{headers[key]}, {text}"
        elif len(headers) >= HEADERS_LIMIT:
            raise ValueError("it has too many headers")
        headers[key] = text

    def on_headers_complete(self) -> None:
        status = self._http.get_status_code()
        if not 100 <= status < 600:
            raise ValueError(f"its status is {status}")
        if status < 200:
            self._informed += 1
            if self._informed > INFORMATION_LIMIT:
                raise ValueError("it has nothing to say but 1xx")
            self._headers = {}
        elif self._answer is not None:
            coding = self._headers.get("transfer-encoding", "chunked")
            if coding.lower() != "chunked":
                raise ValueError(f"it comes with the transfer coding '{coding[:20]}', which was not asked for")
            self._answer.take_head(status, self._headers)

    def on_message_complete(self) -> None:
        """A status of 1xx is a message, too."""
        if self._answer is not None and self._answer.status:
            self.reusable = self._http.should_keep_alive()
            self._pass_on()
            self._answer.finish()
            self._answer = None

    def _pass_on(self) -> None:
        """The pieces of the body that came with this read, as one."""
        if self._body:
            self._no_body = 0
            if self._answer is not None:
                self._answer.take(self._body[0] if len(self._body) == 1 else b"".join(self._body))
            self._body.clear()


def _malformed(text: str) -> Broken:
    return Broken(text, spoke=True, malformed=True)


@lru_cache(maxsize=512)
def _key(name: bytes) -> str:
    """Upstreams send the same few names again and again."""
    return name.decode("latin-1").lower()
