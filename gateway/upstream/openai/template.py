"""Template: what is the same around the text of consecutive events, so that only the text is examined.

A template is learned from an event that was handled in full and contained only one text. An event with the same bytes
before and after a valid JSON string would be handled the same way, so it is built from them.
"""

from bisect import bisect_left

import msgspec

from gateway.domain.sse import BLANK

_TEXT = msgspec.json.Decoder(str)
_TEXTS = msgspec.json.Decoder(list[str])

_BAD = (msgspec.DecodeError, UnicodeDecodeError)


class Run(msgspec.Struct, frozen=True, gc=False):
    """Consecutive events that matched."""

    out: bytes
    """For the client."""
    size: int
    """The bytes that they took."""
    texts: list[bytes]
    """The content between the quotes in each of them."""
    said: str
    """Their whole text."""


class Template:
    """The bytes around the text of an event as it arrives and as it is sent, blank lines included."""

    __slots__ = ("_foot", "_head", "_joint", "_out_foot", "_out_head", "_out_joint", "_same")

    def __init__(self, came: tuple[bytes, bytes], goes: tuple[bytes, bytes]) -> None:
        """``came`` and ``goes``: what precedes and follows the text, without the blank line."""
        self._head, self._foot = came[0], came[1] + BLANK
        self._out_head, self._out_foot = goes[0], goes[1] + BLANK
        self._joint = self._foot + self._head
        self._out_joint = self._out_foot + self._out_head
        self._same = came == goes

    def run(self, events: bytes, start: int, *, several: bool = True) -> Run | None:
        """The events from ``start`` on that fit; None if the first does not, or one of them has a broken text.

        Not ``several``: the first alone. They are split at line feeds, as every other line is blank: a search for
        something longer takes longer, and for what is between two texts it would begin with a preparation that takes
        longer than the search.
        """
        stop = events.find(BLANK, start) + 2
        if not several or stop == len(events):  # one event, as most upstreams send them
            return self._one(events, start, stop)
        head, foot = self._head, self._foot
        if not events.startswith(head, start):
            return None
        parts, end = events[start:].split(b"\n")[:-1:2], foot[: -len(BLANK)]
        while parts and not (parts[-1].startswith(head) and parts[-1].endswith(end)):  # an answer's last events
            parts.pop()
        begin, stop = len(head), -len(end)
        middles = [part[begin:stop] for part in parts]
        if not self._begins(events, start, middles):
            count = bisect_left(
                range(len(parts)), True, key=lambda n: not self._begins(events, start, middles[: n + 1])
            )
            middles = middles[:count]
        texts = _texts(middles) if middles else None
        if texts is None:
            return None
        said, size = "".join(texts), len(middles) * len(self._joint) + sum(map(len, middles))
        if self._same and size == len(events):
            return Run(events, size, middles, said)
        return Run(self._out_head + self._out_joint.join(middles) + self._out_foot, size, middles, said)

    def _begins(self, events: bytes, start: int, middles: list[bytes]) -> bool:
        """Returns whether the bytes are events with these texts."""
        return events.startswith(self._joint.join(middles) + self._foot, start + len(self._head))

    def _one(self, events: bytes, start: int, stop: int) -> Run | None:
        """Returns the event at ``start``, which ends at ``stop``; None if it does not match."""
        begin, end = start + len(self._head), stop - len(self._foot)
        if end < begin or not (events.startswith(self._head, start) and events.startswith(self._foot, end)):
            return None
        try:
            said = _TEXT.decode(events[begin - 1 : end + 1])
        except _BAD:
            return None
        middle = events[begin:end]
        if self._same and not start and stop == len(events):
            return Run(events, stop, [middle], said)
        return Run(self._out_head + middle + self._out_foot, stop - start, [middle], said)


def _texts(middles: list[bytes]) -> list[str] | None:
    """Returns the texts, checked as one array; None if one of them is invalid.

    Each text adds an even number of unescaped quotes to the two of its own, so the array has as many strings as there
    are texts exactly if no text has any. A text must not end in a backslash, which would escape the quote after it.
    """
    joined = b'","'.join(middles)
    if joined.find(b'\\","') >= 0 or joined.endswith(b"\\"):
        return None
    try:
        texts = _TEXTS.decode(b'["' + joined + b'"]')
    except _BAD:
        return None
    return texts if len(texts) == len(middles) else None


def learn(event: bytes, out: bytes, text: bytes) -> Template | None:
    """Returns the template of an event that was handled in full; None if the place of its text is not certain.

    ``text`` is the JSON string with its quotes, ``event`` and ``out`` are without blank lines.
    """
    if len(text) < 3 or text[:1] != b'"' or event.count(text) != 1 or out.count(text) != 1:
        return None
    inner = text[1:-1]
    came, goes = event.find(text) + 1, out.find(text) + 1
    end, out_end = came + len(inner), goes + len(inner)
    return Template((event[:came], event[end:]), (out[:goes], out[out_end:]))
