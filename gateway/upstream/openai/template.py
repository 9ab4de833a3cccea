"""Template: the bytes around the text of consecutive events, so that only the text need be examined.

A template is learned from an event that was read in full and had nothing but one text. An event with the same bytes
around a valid JSON string would be read the same way, so it is not read again.
"""

import msgspec

from gateway.domain.sse import BLANK

_TEXTS = msgspec.json.Decoder(list[str])
_FEW = 4
"""How many events are examined one by one before the rest of a read is examined as a whole."""


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

    __slots__ = ("_foot", "_head", "_out_foot", "_out_head", "_out_joint", "_unchanged")

    def __init__(self, event: tuple[bytes, bytes], out: tuple[bytes, bytes]) -> None:
        """``event`` and ``out``: what precedes and follows the text, without the blank line."""
        self._head, self._foot = event[0], event[1] + BLANK
        self._out_head, self._out_foot = out[0], out[1] + BLANK
        self._out_joint = self._out_foot + self._out_head
        self._unchanged = event == out

    def run(self, events: bytes, start: int) -> Run | None:
        """Returns the events from ``start`` on that match, only the first if a later text is invalid; else None."""
        texts = self._texts(events, start)
        whole_text = _decode(texts)
        if whole_text is None:
            texts = texts[:1]
            whole_text = _decode(texts)
        if whole_text is None:
            return None
        size = sum(map(len, texts)) + len(texts) * (len(self._head) + len(self._foot))
        if self._unchanged:
            return Run(events[start : start + size], size, texts, whole_text)
        return Run(self._out_head + self._out_joint.join(texts) + self._out_foot, size, texts, whole_text)

    def _texts(self, events: bytes, start: int) -> list[bytes]:
        """Returns the texts of the events from ``start`` on that match."""
        head, foot, place = self._head, self._foot, start
        texts: list[bytes] = []
        while events.startswith(head, place):
            if len(texts) == _FEW and (others := self._many_texts(events, place)):
                return texts + others
            begin = place + len(head)
            end = events.find(b"\n", begin) + len(BLANK) - len(foot)
            if end < begin or not events.startswith(foot, end):
                break
            texts.append(events[begin:end])
            place = end + len(foot)
        return texts

    def _many_texts(self, events: bytes, start: int) -> list[bytes]:
        """Returns the texts of all events from ``start`` on, but the last ones of an answer; nothing if others differ.

        Every other line is blank. Splitting at them takes a third of the time of a search for each.
        """
        head, end = self._head, self._foot.removesuffix(BLANK)
        lines = events[start:].split(b"\n")[:-1:2]
        while lines and not (lines[-1].startswith(head) and lines[-1].endswith(end)):
            lines.pop()
        texts = [line[len(head) : -len(end)] for line in lines]
        matches = events.startswith(head + (self._foot + head).join(texts) + self._foot, start)
        return texts if matches else []


def _decode(texts: list[bytes]) -> str | None:
    """Returns the decoded texts, joined; None if one is invalid. They are decoded as one array, which is faster.

    Each text adds an even number of unescaped quotes to the two of its own, so the array has as many strings as there
    are texts exactly if no text has any. A text must not end in a backslash, which would escape the quote after it.
    """
    joined = b'","'.join(texts)
    if joined.find(b'\\","') >= 0 or joined.endswith(b"\\"):
        return None
    try:
        decoded = _TEXTS.decode(b'["%b"]' % joined)
    except ValueError:
        return None
    return "".join(decoded) if len(decoded) == len(texts) else None


def template_of(event: bytes, out: bytes, text: bytes) -> Template | None:
    """Returns the template of an event that was read in full; None if the place of its text is not certain.

    ``text`` is the JSON string with its quotes, ``out`` what the client got; they have no blank lines.
    """
    if len(text) < 3 or text[:1] != b'"' or event.count(text) != 1 or out.count(text) != 1:
        return None
    length = len(text) - 2
    begin, out_begin = event.find(text) + 1, out.find(text) + 1
    return Template((event[:begin], event[begin + length :]), (out[:out_begin], out[out_begin + length :]))
