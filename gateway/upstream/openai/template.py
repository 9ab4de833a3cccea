"""Template: what is the same around the text of one event after another, so that only the text is looked at.

A template is learned from an event that was handled in full and in which nothing happened but one text. An event that
has the same bytes before and after a valid JSON string would be handled the same way, so it is put together from them.
"""

import msgspec

from gateway.upstream.sse import BLANK
from gateway.upstream.tally import Tally

_TEXT = msgspec.json.Decoder(str)
_TEXTS = msgspec.json.Decoder(list[str])


class Template:
    """The bytes around the text of an event as it comes (without its blank line) and as it goes."""

    __slots__ = ("_foot", "_head", "_joint", "_out_foot", "_out_head", "_out_joint", "_same")

    def __init__(self, came: tuple[bytes, bytes], goes: tuple[bytes, bytes]) -> None:
        self._head, self._foot = came
        self._out_head, self._out_foot = goes[0], goes[1] + BLANK
        self._joint = self._foot + BLANK + self._head
        self._out_joint = self._out_foot + self._out_head
        self._same = came == goes

    def one(self, event: bytes, tally: Tally) -> bytes | None:
        """The event for the client; None if it does not fit."""
        head, foot = self._head, self._foot
        if not (event.startswith(head) and event.endswith(foot) and len(event) >= len(head) + len(foot)):
            return None
        middle = event[len(head) : len(event) - len(foot)]
        try:
            tally.add(_TEXT.decode(b'"' + middle + b'"'))
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        return self._out_head + middle + self._out_foot

    def many(self, events: bytes, tally: Tally) -> tuple[bytes, int] | None:
        """All of several complete events at once, and their number; None if one of them does not fit.

        The texts are checked as one array. Each text adds an even number of unescaped quotes to the two of its own, so
        the array has as many strings as there are texts exactly if no text has any; a text must not end in a backslash,
        which would escape the quote after it.
        """
        head, foot = self._head, self._foot + BLANK
        if not (events.startswith(head) and events.endswith(foot) and len(events) >= len(head) + len(foot)):
            return None
        middles = events[len(head) : len(events) - len(foot)].split(self._joint)
        joined = b'","'.join(middles)
        if b'\\","' in joined or joined.endswith(b"\\"):
            return None
        try:
            texts = _TEXTS.decode(b'["' + joined + b'"]')
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        if len(texts) != len(middles):
            return None
        tally.add("".join(texts))
        if self._same:
            return events, len(middles)
        return self._out_head + self._out_joint.join(middles) + self._out_foot, len(middles)


def learn(event: bytes, out: bytes, text: bytes) -> Template | None:
    """The template of an event that was handled in full; None if the place of its text is not certain.

    ``text`` is the JSON string with its quotes, ``out`` the client's event without its blank line.
    """
    if len(text) < 3 or text[:1] != b'"' or event.count(text) != 1 or out.count(text) != 1:
        return None
    inner = text[1:-1]
    came, goes = event.find(text) + 1, out.find(text) + 1
    end, out_end = came + len(inner), goes + len(inner)
    return Template((event[:came], event[end:]), (out[:goes], out[out_end:]))
