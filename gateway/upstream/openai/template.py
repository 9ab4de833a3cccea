"""Template: the bytes around the text of consecutive events, so that only the text need be examined.

A template is learned from an event that was read in full and had nothing but one text. An event with the same bytes
around a valid JSON string would be read the same way, so it is not read again.
"""

from bisect import bisect_left

import msgspec

from gateway.domain.sse import BLANK

_TEXT = msgspec.json.Decoder(str)
_TEXTS = msgspec.json.Decoder(list[str])


class Run(msgspec.Struct, frozen=True, gc=False):
    """Consecutive events that match a template."""

    out: bytes
    """What the client gets for them."""
    size: int
    """The number of bytes of the events as they came."""
    texts: list[bytes]
    """The JSON text of each event, without its quotes."""
    whole_text: str
    """All their texts, decoded and joined."""


class Template:
    """The bytes around the text of an event, as it comes and as it goes out."""

    __slots__ = ("_foot", "_head", "_joint", "_out_foot", "_out_head", "_out_joint", "_unchanged")

    def __init__(self, event: tuple[bytes, bytes], out: tuple[bytes, bytes]) -> None:
        """``event`` and ``out``: what precedes and follows the text, without the blank line."""
        self._head, self._foot = event[0], event[1] + BLANK
        self._out_head, self._out_foot = out[0], out[1] + BLANK
        self._joint = self._foot + self._head
        self._out_joint = self._out_foot + self._out_head
        self._unchanged = event == out

    def run(self, events: bytes, start: int) -> Run | None:
        """Returns the events from ``start`` on that match; None if the first does not."""
        stop = events.find(BLANK, start) + 2
        if stop < len(events) and events.startswith(self._head, start):
            texts = self._candidates(events, start)
            if not self._matches(events, start, texts):
                count = bisect_left(
                    range(len(texts)), True, key=lambda n: not self._matches(events, start, texts[: n + 1])
                )
                texts = texts[:count]
            decoded = _decode(texts) if texts else None
            if decoded is not None:
                return self._run_of(events, texts, "".join(decoded))
        return self._match_one(events, start, stop)  # as most upstreams send them, or one of several is invalid

    def _run_of(self, events: bytes, texts: list[bytes], whole_text: str) -> Run:
        size = len(texts) * len(self._joint) + sum(map(len, texts))
        if self._unchanged and size == len(events):
            return Run(events, size, texts, whole_text)
        return Run(self._out_head + self._out_joint.join(texts) + self._out_foot, size, texts, whole_text)

    def _candidates(self, events: bytes, start: int) -> list[bytes]:
        """Returns the texts of the events if they match, which is yet to be checked.

        Every other line is blank, so the events are split at line feeds: bytes.split is slower for longer separators.
        """
        head, end = self._head, self._foot[: -len(BLANK)]
        lines = events[start:].split(b"\n")[:-1:2]
        while lines and not (lines[-1].startswith(head) and lines[-1].endswith(end)):  # the last events of an answer
            lines.pop()
        begin, stop = len(head), -len(end)
        return [line[begin:stop] for line in lines]

    def _matches(self, events: bytes, start: int, texts: list[bytes]) -> bool:
        """Returns whether the events from ``start`` on are the template with these texts."""
        return events.startswith(self._joint.join(texts) + self._foot, start + len(self._head))

    def _match_one(self, events: bytes, start: int, stop: int) -> Run | None:
        begin, end = start + len(self._head), stop - len(self._foot)
        if end < begin or not (events.startswith(self._head, start) and events.startswith(self._foot, end)):
            return None
        try:
            whole_text = _TEXT.decode(events[begin - 1 : end + 1])
        except ValueError:
            return None
        text = events[begin:end]
        if self._unchanged and not start and stop == len(events):
            return Run(events, stop, [text], whole_text)
        return Run(self._out_head + text + self._out_foot, stop - start, [text], whole_text)


def _decode(texts: list[bytes]) -> list[str] | None:
    """Returns the decoded texts; None if one of them is invalid. They are decoded as one array, which is faster.

    Each text adds an even number of unescaped quotes to the two of its own, so the array has as many strings as there
    are texts exactly if no text has any. A text must not end in a backslash, which would escape the quote after it.
    """
    joined = b'","'.join(texts)
    if joined.find(b'\\","') >= 0 or joined.endswith(b"\\"):
        return None
    try:
        decoded = _TEXTS.decode(b'["' + joined + b'"]')
    except ValueError:
        return None
    return decoded if len(decoded) == len(texts) else None


def template_of(event: bytes, out: bytes, text: bytes) -> Template | None:
    """Returns the template of an event that was read in full; None if the place of its text is not certain.

    ``text`` is the JSON string with its quotes, ``out`` what the client got; they have no blank lines.
    """
    if len(text) < 3 or text[:1] != b'"' or event.count(text) != 1 or out.count(text) != 1:
        return None
    length = len(text) - 2
    begin, out_begin = event.find(text) + 1, out.find(text) + 1
    return Template(
        (event[:begin], event[begin + length :]),
        (out[:out_begin], out[out_begin + length :]),
    )
