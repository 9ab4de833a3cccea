"""Broken: what is wrong with bytes that are no request, in words of ours: the parser's own repeat keys."""

from aiohttp.http_exceptions import InvalidHeader, InvalidURLError, LineTooLong

MAX_LINE = (8 << 10) + 512
"""Bytes of a line of a head: 8 KiB and a name."""
MAX_HEADERS = 100

_HEADER = "a header line is malformed"
_LENGTH = "its Content-Length or Transfer-Encoding is malformed, or both are given"

BY_CLASS: tuple[tuple[type[Exception], str], ...] = (
    (LineTooLong, f"a line of its head is longer than {MAX_LINE} bytes"),
    (InvalidHeader, _HEADER),
    (InvalidURLError, "the target in its first line is no path"),
)
"""Those whose messages begin with what was sent."""
BY_WORD: tuple[tuple[str, str], ...] = (
    ("HTTPS", "it is TLS, and this port speaks plain HTTP: use http:// in the base URL"),
    ("method", "its first line does not begin with a method"),
    ("status line", "its first line is not 'METHOD /path HTTP/1.1'"),
    ("Duplicate", "a header that can be given once is given twice"),
    ("Too many headers", f"it has more than {MAX_HEADERS} headers"),
    ("'Host'", "it has no Host header"),
    ("chunk", "a chunk of its body is malformed"),
    ("Content-Length", _LENGTH),
    ("Transfer-Encoding", _LENGTH),
    ("header", _HEADER),
)
"""By a word of the parser's reason. It stands before the colon; what was sent stands behind it."""


def fault(exc: BaseException | None) -> str:
    """What is wrong, for who has sent it; nothing of what was sent."""
    for cls, words in BY_CLASS:
        if isinstance(exc, cls):
            return words
    reason = str(getattr(exc, "message", "")).partition(":")[0]
    return next((words for word, words in BY_WORD if word in reason), "it is no HTTP/1.1")
